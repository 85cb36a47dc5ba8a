"""The rows of `dsv4 show` for the page: the same segments, cut where their source changes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from dsv4._encode.prompt import Prompt
from dsv4._view.html_page import css_classes_and_text
from dsv4._view.view_rows import Line, Segment, ViewRow, maybe_folded
from dsv4.errors import Location
from dsv4.playground.provenance import Span

if TYPE_CHECKING:
    from dsv4.tokens import Tokenizer

# A segment as it is sent: text, classes, the number of its source in the row (-1 for none), whether
# it differs from the prompt beside it, and the number of its token in the row (-1 where not asked).
Sent = list[Any]


class Tokens(NamedTuple):
    """Where tokens end, in characters, and the ids that end there.

    There is more than one id where a character takes several tokens.
    """

    ends: list[int]
    ids: list[list[int]]


def tokens_of(prompt: Prompt, tokenizer: Tokenizer) -> Tokens:
    """The borders of the tokens of a prompt."""
    data = prompt.text.encode("utf-8")
    length_of = tokenizer.vocabulary.length_of
    ends: list[int] = []
    ids: list[list[int]] = []
    at = characters = 0
    for id in tokenizer.encode(prompt):
        after = at + length_of[id]
        begun = sum(byte & 0xC0 != 0x80 for byte in data[at:after])
        if begun or not ids:
            characters += begun
            ends.append(characters)
            ids.append([id])
        else:  # the rest of a character
            ids[-1].append(id)
        at = after
    return Tokens(ends, ids)


class Cutter:
    """Cuts segments at the borders of sources, differences and tokens, from the first to the last.

    It knows where it is in the prompt by the segments that it has cut.
    """

    def __init__(
        self, spans: Sequence[Span], differing: Sequence[tuple[int, int]], tokens: Tokens | None
    ) -> None:
        self._spans = [span for span in spans if span.end > span.start]
        self._ends = [span.end for span in self._spans]
        self._differing = list(chain.from_iterable(differing))
        self.tokens = tokens
        self._at = 0

    def cut(self, segment: Segment) -> Iterator[tuple[Segment, Location | None, bool, int]]:
        """A segment in parts, each with its source, whether it differs, and its token."""
        size = len(segment.text if segment.original is None else segment.original)
        start, end = self._at, self._at + size
        self._at = end
        # Pills stay whole, and so does what is longer or shorter than what it stands for.
        whole = segment.style.startswith("pill") or size != len(segment.text)
        if whole:
            yield segment, *self._known(start)
            return
        borders = sorted({start, *self._borders(start, end), end})
        for a, b in pairwise(borders):
            yield _part(segment, a - start, b - start), *self._known(a)

    def _borders(self, start: int, end: int) -> Iterator[int]:
        ends = self.tokens.ends if self.tokens else []
        for borders in (self._ends, self._differing, ends):
            at = bisect_right(borders, start)
            while at < len(borders) and borders[at] < end:
                yield borders[at]
                at += 1

    def _known(self, at: int) -> tuple[Location | None, bool, int]:
        n = bisect_right(self._ends, at)
        location = self._spans[n].location if n < len(self._spans) else None
        differs = bisect_right(self._differing, at) % 2 == 1
        return location, differs, bisect_right(self.tokens.ends, at) if self.tokens else -1


def _part(segment: Segment, a: int, b: int) -> Segment:
    text, style, original = segment
    return Segment(text[a:b], style, None if original is None else original[a:b])


class SentRow:
    """A row as it is sent, and the sources that its segments name by number."""

    def __init__(self, row: ViewRow, cutter: Cutter | None, source: Location | None) -> None:
        """Without a `cutter` all of the row has one `source`: a ghost is not in the prompt."""
        self.sources: list[Location] = []
        self._numbers: dict[Location, int] = {}
        self._cutter = cutter
        self._source = source
        self._tokens: list[int] = []
        head, rest, fold = _parted(row)
        self.sent: dict[str, Any] = {
            "message": row.message,
            "role": row.role,
            "field": row.field,
            "tokens": row.tokens,
            "note": row.ghost or row.note,
            "ghost": row.ghost is not None,
            "head": list(self._lines(head)),
            "rest": list(self._lines(rest)),
            "fold": fold,
        }
        if cutter is not None and cutter.tokens is not None and self._tokens:
            first, last = self._tokens[0], self._tokens[-1]
            self.sent["ids"] = cutter.tokens.ids[first : last + 1]

    def _lines(self, lines: Iterable[Line]) -> Iterator[Sent]:
        for segment in chain.from_iterable(lines):
            if self._cutter is None:
                classes, text = css_classes_and_text(segment)
                yield [text, classes, self._number(self._source), 0, -1]
                continue
            for part, location, differs, token in self._cutter.cut(segment):
                classes, text = css_classes_and_text(part)
                yield [text, classes, self._number(location), int(differs), self._token(token)]

    def _number(self, location: Location | None) -> int:
        if location is None:
            return -1
        if location not in self._numbers:
            self._numbers[location] = len(self.sources)
            self.sources.append(location)
        return self._numbers[location]

    def _token(self, token: int) -> int:
        """The number of a token in the row."""
        if token < 0:
            return -1
        self._tokens.append(token)
        return token - self._tokens[0]


def _parted(row: ViewRow) -> tuple[tuple[Line, ...], tuple[Line, ...], str | None]:
    """What is shown of a row, what is folded away, and what stands for that."""
    if row.summary:
        return (), row.lines, row.summary
    folded = maybe_folded(row)
    if folded is None:
        return row.lines, (), None
    return folded.head, folded.rest, folded.summary
