"""Text from outside made safe to display, and its width in terminal columns."""

from __future__ import annotations

import unicodedata

# Joiners are invisible themselves, and change the form of their neighbours.
_JOINERS = "\u200c\u200d"


def width_of(text: str) -> int:
    """The number of columns that a text takes."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if char in _JOINERS or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def terminal_safe(text: str) -> str:
    """Text from outside on one line, with nothing in it that a terminal would act on."""
    return text if text.isprintable() else "".join(map(visible_character, text))


def terminal_safe_lines(text: str) -> str:
    """Text from outside on several lines, each as `terminal_safe` returns it."""
    return "\n".join(map(terminal_safe, text.split("\n")))


def is_displayable(char: str) -> bool:
    """Whether a character can be shown as it is."""
    return char.isprintable() or char in _JOINERS


def visible_character(char: str) -> str:
    """A character as a terminal can show it: an invisible one is replaced by a symbol."""
    code = ord(char)
    if is_displayable(char):
        return char
    if code < 0x20:
        return chr(0x2400 + code)
    return {0x7F: "\u2421", 0xA0: "\u237d"}.get(code, f"[U+{code:04X}]")
