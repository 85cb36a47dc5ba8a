"""Text that spells a token, hidden from the reader.

The first character of each spelling is put aside for one that the prompt does not hold. So what is
left to be found are tokens, every position stays the same, and the way back is a replacement.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dsv4.errors import OptionError

# Characters for private use, which no text of the format needs.
_FREE = range(0xF0000, 0xFFFFD)


class Mask:
    """A prompt with some spellings hidden: `text`. `unmasked` undoes it in a value."""

    def __init__(self, text: str, hidden: Iterable[int]) -> None:
        places = sorted(set(hidden))
        self._stand_ins = _stand_ins(text, {text[place] for place in places})
        self._back = {ord(stand_in): first for first, stand_in in self._stand_ins.items()}
        self.text = self._masked(text, places)

    def _masked(self, text: str, places: list[int]) -> str:
        parts: list[str] = []
        done = 0
        for place in places:
            parts += text[done:place], self._stand_ins[text[place]]
            done = place + 1
        return "".join([*parts, text[done:]])

    def unmasked(self, value: Any) -> Any:
        """A value read from the masked text, with all texts in it as they were."""
        if not self._back:
            return value
        if isinstance(value, str):
            return value.translate(self._back)
        if isinstance(value, dict):
            return {self.unmasked(key): self.unmasked(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.unmasked(item) for item in value]
        return value


def _stand_ins(text: str, characters: set[str]) -> dict[str, str]:
    free = (chr(code) for code in _FREE if chr(code) not in text)
    try:
        return {character: next(free) for character in sorted(characters)}
    except StopIteration:
        raise OptionError("prompt", "found every character for private use in it") from None
