"""The Prompt view: the prompt of a request in rows, with the source of each part; or two prompts
side by side.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dsv4._encode.prompt import Prompt, prompt_from_tokens
from dsv4._format.dialects import dialect_named
from dsv4._format.tokens import markup
from dsv4._inputs.text_origins import MessageOrigins, TextMarks, tool_name
from dsv4._playground.page_problem import PageProblem, choice_field, flag_field
from dsv4._playground.page_request import (
    PageRequest,
    PlaygroundContext,
    SourceProtocol,
    location_in_source,
)
from dsv4._playground.provenance import JsonSource, SourceSpan, spans_of, spans_of_texts
from dsv4._view.html_page import css_classes_and_text
from dsv4._view.image_captions import ImageCount
from dsv4._view.view_rows import Line, Segment, View, ViewRow, folded_row, view_of
from dsv4.api import convert
from dsv4.errors import Error, ImageError, Location, mismatch
from dsv4.profiles import compare, render
from dsv4.tokens.coder import common_prefix_length
from dsv4.version import how_to_install

if TYPE_CHECKING:
    from dsv4.tokens import Tokenizer


# Differences of two prompts: by special tokens and lines, and by words inside of lines.


Ranges: TypeAlias = list[tuple[int, int]]
# A range of one list that is replaced by a range of another.
_Change: TypeAlias = tuple[int, int, int, int]

# A difference of more units than this is marked as a whole: to compare it takes seconds.
MOST_COMPARED = 10_000

_WORDS = re.compile(r"\s+|[^\W_]+|.", re.DOTALL)
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


class DiffUnit(NamedTuple):
    """A special token, a line or a word. A token differs from text that spells it."""

    text: str
    special: bool


def differing_ranges(a: Prompt, b: Prompt) -> tuple[Ranges, Ranges]:
    """The ranges of characters of each prompt that the other does not have, as (start, end)."""
    first, second = _units(a), _units(b)
    starts, others = _starts(first), _starts(second)
    ours: Ranges = []
    theirs: Ranges = []
    for a1, a2, b1, b2 in changes(first, second):
        in_ours, in_theirs = _by_words(first[a1:a2], second[b1:b2])
        ours += ((starts[a1] + start, starts[a1] + end) for start, end in in_ours)
        theirs += ((others[b1] + start, others[b1] + end) for start, end in in_theirs)
    return ours, theirs


def _by_words(one: Sequence[DiffUnit], two: Sequence[DiffUnit]) -> tuple[Ranges, Ranges]:
    """The differing ranges inside of lines that were changed."""
    words, others = _words(one), _words(two)
    edits = changes(words, others)
    a, b = _starts(words), _starts(others)
    ours = [(a[a1], a[a2]) for a1, a2, _, _ in edits if a1 < a2]
    theirs = [(b[b1], b[b2]) for _, _, b1, b2 in edits if b1 < b2]
    return ours, theirs


def _words(units: Sequence[DiffUnit]) -> list[DiffUnit]:
    return [
        DiffUnit(word, unit.special)
        for unit in units
        for word in ([unit.text] if unit.special else _WORDS.findall(unit.text))
    ]


def _units(prompt: Prompt) -> list[DiffUnit]:
    """Special tokens, and lines of the text between them."""
    units: list[DiffUnit] = []
    for run, special in prompt.runs():
        units += (DiffUnit(line, False) for line in _LINES.findall(run))
        if special is not None:
            units.append(DiffUnit(special, True))
    return units


def _starts(units: Sequence[DiffUnit]) -> list[int]:
    return [0, *accumulate(len(unit.text) for unit in units)]


def changes(a: Sequence[DiffUnit], b: Sequence[DiffUnit]) -> list[_Change]:
    """The changes from `a` to `b`: (start, end) in `a`, then in `b`."""
    start = common_prefix_length(a, b)
    end = common_prefix_length(a[start:][::-1], b[start:][::-1])
    ours, theirs = a[start : len(a) - end], b[start : len(b) - end]
    if max(len(ours), len(theirs)) > MOST_COMPARED:
        return [(start, len(a) - end, start, len(b) - end)]
    found = SequenceMatcher(None, ours, theirs).get_opcodes()
    return [
        (start + a1, start + a2, start + b1, start + b2)
        for tag, a1, a2, b1, b2 in found
        if tag != "equal"
    ]


# The rows of `dsv4 show`, cut where their source changes.


# A segment as it is sent: text, classes, the number of its source in the row (-1 for none), whether
# it differs from the prompt beside it, and the number of its token in the row (-1 for none).
SentSegment = list[Any]


class TokenBoundaries(NamedTuple):
    """The ends of tokens, in characters, and the ids that end there.

    There is more than one id where a character takes several tokens.
    """

    ends: list[int]
    ids: list[list[int]]


def token_boundaries(prompt: Prompt, tokenizer: Tokenizer) -> TokenBoundaries:
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
    return TokenBoundaries(ends, ids)


class SegmentCutter:
    """Cuts segments at the borders of sources, differences and tokens.

    The segments must be given in their order: its position in the prompt follows from them.
    """

    def __init__(
        self,
        spans: Sequence[SourceSpan],
        differing: Sequence[tuple[int, int]],
        tokens: TokenBoundaries | None,
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
        # Pills are not cut, nor are texts that are longer or shorter than those they stand for.
        whole = segment.style.startswith("pill") or size != len(segment.text)
        if whole:
            yield segment, *self._facts_at(start)
            return
        borders = sorted({start, *self._borders(start, end), end})
        for a, b in pairwise(borders):
            yield _segment_part(segment, a - start, b - start), *self._facts_at(a)

    def _borders(self, start: int, end: int) -> Iterator[int]:
        ends = self.tokens.ends if self.tokens else []
        for borders in (self._ends, self._differing, ends):
            at = bisect_right(borders, start)
            while at < len(borders) and borders[at] < end:
                yield borders[at]
                at += 1

    def _facts_at(self, at: int) -> tuple[Location | None, bool, int]:
        n = bisect_right(self._ends, at)
        location = self._spans[n].location if n < len(self._spans) else None
        differs = bisect_right(self._differing, at) % 2 == 1
        return location, differs, bisect_right(self.tokens.ends, at) if self.tokens else -1


def _segment_part(segment: Segment, a: int, b: int) -> Segment:
    text, style, original = segment
    return Segment(text[a:b], style, None if original is None else original[a:b])


class PageRow:
    """A row as it is sent, and the sources that its segments name by number."""

    def __init__(self, row: ViewRow, cutter: SegmentCutter | None, source: Location | None) -> None:
        """Without a `cutter`, which a ghost does not have, all of the row has one `source`."""
        self.sources: list[Location] = []
        self._numbers: dict[Location, int] = {}
        self._cutter = cutter
        self._source = source
        self._tokens: list[int] = []
        head, rest, fold = folded_row(row)
        self.sent: dict[str, Any] = {
            "message": row.message,
            "role": row.role,
            "field": row.field,
            "tokens": row.tokens,
            "note": row.ghost or row.note,
            "images": [_image_to_json(image) for image in row.images],
            "ghost": row.ghost is not None,
            "head": list(self._lines(head)),
            "rest": list(self._lines(rest)),
            "fold": fold,
        }
        if cutter is not None and cutter.tokens is not None and self._tokens:
            first, last = self._tokens[0], self._tokens[-1]
            self.sent["ids"] = cutter.tokens.ids[first : last + 1]

    def _lines(self, lines: Iterable[Line]) -> Iterator[SentSegment]:
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
        """The number of a token within the row."""
        if token < 0:
            return -1
        self._tokens.append(token)
        return token - self._tokens[0]


def _image_to_json(image: ImageCount) -> dict[str, Any]:
    return {**image.to_dict(), "caption": image.caption, "thumbnail": image.thumbnail}


# The prompts of a request.


NO_TOKENIZER = f"Token counts need the extra `tokens`: {how_to_install('tokens')}"


@dataclass(frozen=True)
class PageSide:
    """A prompt, and the sources of its parts."""

    title: str
    prompt: Prompt
    messages: Sequence[Any] | None
    spans: list[SourceSpan]
    origins: MessageOrigins


def view_prompt(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, Any]:
    """The prompt of a request, or two of its prompts side by side.

    `body` has the JSON text `source`, the switches, `sides`, each "dsv4", "dialect:NAME" or
    "profile:NAME", and `ids`, whether borders of tokens are wanted.
    """
    page = PageRequest.from_body(body, context)
    names = _sides_in(body, context)
    with_ids = bool(flag_field(body, "ids"))
    sides = [side_or_problem(page, name) for name in names]
    if len(sides) == 1 and isinstance(sides[0], PageProblem):
        raise sides[0]
    differing: Sequence[Ranges] = ([], [])
    same = None
    if len(sides) == 2 and isinstance(sides[0], PageSide) and isinstance(sides[1], PageSide):
        differing = differing_ranges(sides[0].prompt, sides[1].prompt)
        same = sides[0].prompt.text == sides[1].prompt.text
    return {
        "protocol": page.protocol,
        "sides": [
            _side_to_json(side, page, ranges, with_ids)
            for side, ranges in zip(sides, differing, strict=False)
        ],
        "tools": _tool_names(page),
        "same": same,
        "reasons": _difference_reasons(page, names),
    }


def prompt_text(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, Any]:
    """Only the prompt, for scripts: its text, and the number of its tokens, None if unknown."""
    page = PageRequest.from_body(body, context)
    side = shown_side(body, page)
    tokenizer, _ = tokenizer_for(context.tokenizer, side.prompt)
    tokens = None
    with suppress(ImageError):  # raised for an image whose size is unknown
        tokens = None if tokenizer is None else tokenizer.count(side.prompt)
    return {"prompt": side.prompt.text, "tokens": tokens}


def _sides_in(body: Mapping[str, Any], context: PlaygroundContext) -> list[str]:
    names = body.get("sides", ["dsv4"])
    if not isinstance(names, list) or not 1 <= len(names) <= 2:
        raise PageProblem(mismatch(names, "one side or two"), location=("sides",))
    for n, side in enumerate(names):
        if side not in context.sides:
            expected = f"one of {', '.join(context.sides)}"
            raise PageProblem(mismatch(side, expected), location=("sides", n))
    return names


def _tool_names(page: PageRequest) -> list[str]:
    """The tools that may be chosen."""
    value = page.source.value
    tools = value.get("tools") if isinstance(value, dict) else None
    names = map(tool_name, tools) if isinstance(tools, list) else ()
    return [name for name in names if name]


# Creating a side.


def side_or_problem(page: PageRequest, name: str) -> PageSide | PageProblem:
    """A prompt by the name of its side, or the problem with it."""
    try:
        return side_named(page, name)
    except PageProblem as problem:
        return problem


def side_named(page: PageRequest, name: str) -> PageSide:
    """A prompt by the name of its side. Raises a `PageProblem` if there is none."""
    kind, _, which = name.partition(":")
    if kind == "profile":
        return _server_side(page, which)
    return own_side(
        replace(page, switches=replace(page.switches, dialect=which)) if which else page
    )


def shown_side(body: Mapping[str, Any], page: PageRequest) -> PageSide:
    """The prompt that the page shows."""
    return side_named(page, choice_field(body, "shown", page.context.sides, "dsv4"))


def own_side(page: PageRequest) -> PageSide:
    """The prompt that dsv4 writes. Raises a `PageProblem` with its place."""
    value = page.source.value
    try:
        request = page.request(value)
    except Error as error:
        raise page.problem(error) from None
    marks = TextMarks(value)
    try:
        marked = page.request(marks.value)
    except Error:  # the reading of a text may depend on its content, which the marks replace
        marked = None
    origins = MessageOrigins(value, marked, marks, exact=page.protocol == "file")
    try:
        written = request.encode()
        texts = spans_of_texts(written.text, marked.encode().text, marks) if marked else []
    except Error as error:
        raise page.problem(error, origins) from None
    spans = spans_of(written, texts, origins)
    return PageSide(f"dsv4, {written.dialect}", written, list(request.messages), spans, origins)


def _server_side(page: PageRequest, name: str) -> PageSide:
    """The prompt that a server writes."""
    profile = page.context.servers[name]
    dialect = server_dialect(page, name)
    value = page.source.value
    marks = TextMarks(value)
    try:
        text = render(chat_body(value, page.protocol), profile, dialect=dialect)
    except Error as error:
        raise page.problem(error) from None
    try:
        marked = render(chat_body(marks.value, page.protocol), profile, dialect=dialect)
        texts = spans_of_texts(text, marked, marks)
    except Error:
        texts = []
    written = _decoded_prompt(text, dialect)
    origins = MessageOrigins(value, None, marks, exact=False)
    spans = spans_of(written, texts, origins)
    return PageSide(f"{profile.server}, {dialect}", written, None, spans, origins)


def server_dialect(page: PageRequest, name: str) -> str:
    """The dialect that a server writes: the requested one, if the server can write it."""
    wanted = page.switches.dialect or page.context.dialect
    allowed = page.context.servers[name].dialects
    return wanted if wanted in allowed else allowed[0]


def chat_body(value: object, protocol: SourceProtocol) -> Any:
    """A request as a server of the Chat protocol gets it."""
    if protocol == "file" or protocol == "chat":
        return {"messages": value} if isinstance(value, list) else value
    assert isinstance(value, dict)  # it was read in its protocol
    return convert(value, protocol, "chat")


def _decoded_prompt(text: str, dialect: str) -> Prompt:
    """A server's prompt in its parts, if it can be decoded exactly; else only in its tokens."""
    from dsv4._decode import decode

    release = dialect_named(dialect)
    try:
        decoded = decode(text, dialect=release)
        if decoded.exact:
            return decoded.request.encode()
    except Error:
        pass
    return prompt_from_tokens(markup(text).parts, release)


def _difference_reasons(page: PageRequest, names: list[str]) -> list[dict[str, Any]]:
    """The reasons why two servers write different prompts, in words."""
    servers = [name.partition(":")[2] for name in names if name.startswith("profile:")]
    if len(servers) != 2:
        return []
    dialect = server_dialect(page, servers[0])
    try:
        body = chat_body(page.source.value, page.protocol)
        compared = compare(body, *(page.context.servers[name] for name in servers), dialect=dialect)
    except Error:
        return []
    reasons = []
    for reason in compared.reasons:
        location = location_in_source(reason.location, page.source.value)
        place = page.source.nearest(location) if location else None
        units = None if place is None else list(page.source.in_units(place))
        words = reason.message.rstrip(".") + "."
        reasons.append({"kind": reason.kind, "message": words, "place": units})
    return reasons


# Sending a side.


def _side_to_json(
    side: PageSide | PageProblem, page: PageRequest, differing: Ranges, with_ids: bool
) -> dict[str, Any]:
    if isinstance(side, PageProblem):
        return {"problem": side.to_dict()}
    tokenizer, problem = tokenizer_for(page.context.tokenizer, side.prompt)
    view = view_of(side.prompt, side.messages, tokenizer)
    tokens = token_boundaries(side.prompt, tokenizer) if tokenizer and with_ids else None
    rows = rows_of(side, view, differing, tokens)
    return {
        "title": side.title,
        "dialect": str(side.prompt.dialect),
        "total": view.total,
        "tokens": None if tokenizer is None else sum(row.tokens or 0 for row in view.rows),
        "characters": len(side.prompt),
        "no_tokens": problem,
        "ending": {"words": view.ending.words, "generates": view.ending.generates},
        "rows": [row.sent for row in rows],
        "places": [source_ranges(row.sources, page.source) for row in rows],
        "shares": size_shares(view.rows),
        "spelled": len(side.prompt.special_text),
        "unread": page.unread,
    }


def rows_of(
    side: PageSide, view: View, differing: Ranges, tokens: TokenBoundaries | None
) -> list[PageRow]:
    """The rows of a view, cut where sources, differences and tokens change."""
    cutter = SegmentCutter(side.spans, differing, tokens)
    return [
        PageRow(row, None, _ghost_source(row, side.origins))
        if row.ghost
        else PageRow(row, cutter, None)
        for row in view.rows
    ]


def _ghost_source(row: ViewRow, origins: MessageOrigins) -> Location | None:
    return None if row.message is None else origins.field(row.message, row.field)


def source_ranges(locations: Sequence[Location], source: JsonSource) -> list[list[int] | None]:
    """The ranges of locations in the source, in UTF-16 units."""
    ranges = (source.nearest(location) if location else None for location in locations)
    return [None if place is None else list(source.in_units(place)) for place in ranges]


def tokenizer_for(
    tokenizer: Tokenizer | None, prompt: Prompt
) -> tuple[Tokenizer | None, str | None]:
    """The tokenizer, if it has this prompt's tokens; else None and the reason."""
    if tokenizer is None:
        return None, NO_TOKENIZER
    from dsv4.tokens import VocabularyError

    try:
        tokenizer = tokenizer.with_dialect(prompt.dialect)
        tokenizer.encode(prompt)
    except VocabularyError:
        hint = "start the server with --tokenizer and the tokenizer.json of such a model"
        return None, f"There are no token counts for {prompt.dialect}: {hint}."
    except Error as error:
        return None, f"There are no token counts: {error}."
    return tokenizer, None


def size_shares(rows: Sequence[ViewRow]) -> list[dict[str, Any]]:
    """The share of each kind of text in the prompt: in tokens, or else in characters."""
    amounts: Counter[str] = Counter()
    for row in rows:
        if row.ghost is None:
            amounts[_share_kind(row)] += _row_length(row) if row.tokens is None else row.tokens
    return [{"kind": kind, "amount": amount} for kind, amount in amounts.items() if amount]


def _share_kind(row: ViewRow) -> str:
    if row.field in ("content", "image"):
        return row.role or "other"
    named = {"reasoning": "reasoning", "tool_calls": "calls", "tools": "tools"}
    return named.get(row.field, "format")


def _row_length(row: ViewRow) -> int:
    return sum(len(s.original or s.text) for line in row.lines for s in line)
