"""Text from outside as it can be shown: nothing in it that a terminal or a reader would act on."""

from __future__ import annotations

import unicodedata


def width_of(text: str) -> int:
    """How many columns a text takes."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def harmless(text: str) -> str:
    """Text from outside on one line, with nothing in it that a terminal would act on."""
    return text if text.isprintable() else "".join(map(visible, text))


def visible(char: str) -> str:
    """A character as a terminal can show it: what has no form of its own gets one."""
    code = ord(char)
    if char.isprintable():
        return char
    if code < 0x20:
        return chr(0x2400 + code)
    return {0x7F: "\u2421", 0xA0: "\u237d"}.get(code, f"[U+{code:04X}]")
