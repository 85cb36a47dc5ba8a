"""User turns and other texts -> messages: results of tools, and images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from dsv4.decoding.sections import BLANK_LINE
from dsv4.format.tokens import RESULT_END, RESULT_START


class Part(NamedTuple):
    """A stretch of a user turn: the result of a tool, or what somebody wrote."""

    is_result: bool
    start: int
    end: int


def parts(text: str, start: int, end: int, image: str | None) -> list[Part]:
    """A user turn, cut into results and the stretches of text between them.

    A result ends at the first closing tag that ends the turn or is followed by a blank line. But
    where an image stands right before a closing tag, it is that tag which ends the result.
    """
    found: list[Part] = []
    at = start
    closes = _Closings(text, end, image)
    while (opening := _result_start(text, at, end)) is not None:
        closing = closes.of(opening)
        if closing is None:
            break
        if opening > at:
            found.append(Part(False, at, opening - len(BLANK_LINE)))
        found.append(Part(True, opening + len(RESULT_START), closing))
        at = closing + len(RESULT_END)
        if at == end:
            return found
        at += len(BLANK_LINE)
    return [*found, Part(False, at, end)]


def _result_start(text: str, at: int, end: int) -> int | None:
    if text.startswith(RESULT_START, at, end):
        return at
    found = text.find(BLANK_LINE + RESULT_START, at, end)
    return None if found < 0 else found + len(BLANK_LINE)


class _Closings:
    """Where results end, in a turn that ends at `end`. It is asked from left to right."""

    def __init__(self, text: str, end: int, image: str | None) -> None:
        self._text, self._end = text, end
        self._shut_image = None if image is None else image + RESULT_END
        self._image_at = -1 if image is not None else end

    def of(self, opening: int) -> int | None:
        """The closing tag of the result that opens here."""
        at = self._text.find(RESULT_END, opening, self._end)
        while at >= 0:
            after = at + len(RESULT_END)
            if after == self._end:
                return at
            if self._text.startswith(BLANK_LINE, after, self._end) and not self._cuts(after):
                return at
            at = self._text.find(RESULT_END, at + 1, self._end)
        return None

    def _cuts(self, after: int) -> bool:
        """Whether a result that ended here would leave the end of another without its beginning."""
        if self._shut_image is None or self._next_image(after) == self._end:
            return False
        opening = _result_start(self._text, after + len(BLANK_LINE), self._end)
        return opening is None or self._image_at < opening

    def _next_image(self, at: int) -> int:
        if self._image_at < at and self._shut_image is not None:
            found = self._text.find(self._shut_image, at, self._end)
            self._image_at = self._end if found < 0 else found
        return self._image_at


class Pictures:
    """Texts with images in them, for a dialect that has an image token. It numbers the images."""

    def __init__(self, token: str | None) -> None:
        self._token = token
        self.count = 0

    def content(self, text: str) -> Any:
        """A text as a message's content: as it is, or a list of blocks where images stand in it."""
        if self._token is None or self._token not in text:
            return text
        return list(self._blocks(text, self._token))

    def _blocks(self, text: str, token: str) -> Iterator[dict[str, Any]]:
        """Each image is a block of its own: what separates it is not part of the texts."""
        first, *others = text.split(token)
        last = len(others) - 1
        if first:
            yield _text(first.removesuffix(BLANK_LINE))
        for n, stretch in enumerate(others):
            yield {"type": "image_url", "image_url": {"url": f"image:{self.count}"}}
            self.count += 1
            if n < last and stretch != BLANK_LINE:
                yield _text(stretch.removeprefix(BLANK_LINE).removesuffix(BLANK_LINE))
            elif n == last and stretch:
                yield _text(stretch.removeprefix(BLANK_LINE))


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
