"""A completion with every repair marked in its text, and explained below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dsv4
from dsv4._view.characters import terminal_safe
from dsv4.cli.terminal import Paint

LONGEST_QUOTE = 60


def explained(text: str, message: dsv4.Message, paint: Paint) -> Iterator[str]:
    """The lines to print."""
    repairs = sorted(message.diagnostics, key=lambda repair: (repair.start, repair.end))
    yield from _marked(text, repairs, paint)
    yield "\n\n" if repairs else "\n"
    for number, repair in enumerate(repairs, 1):
        yield _explanation(number, repair, text, paint)
    yield _summary(message, len(repairs), paint)


def _marked(text: str, repairs: Sequence[dsv4.Diagnostic], paint: Paint) -> Iterator[str]:
    """The text. A repair inside another's text has its number only."""
    at = 0
    for number, repair in enumerate(repairs, 1):
        start, end = max(repair.start, at), max(repair.end, at)
        yield _safe(text[at:start])
        yield paint(f"⟦{number}", "bold", "red")
        if end > start:
            yield paint(" " + _safe(text[start:end]), "red")
        yield paint("⟧", "bold", "red")
        at = end
    yield _safe(text[at:])


def _safe(text: str) -> str:
    return "\n".join(map(terminal_safe, text.split("\n")))


def _explanation(number: int, repair: dsv4.Diagnostic, text: str, paint: Paint) -> str:
    line = text.count("\n", 0, repair.start) + 1
    column = repair.start - (text.rfind("\n", 0, repair.start) + 1) + 1
    head = f"⟦{number}⟧ {repair.kind}"
    quote = f" {_quoted(repair.raw)}" if repair.raw else ""
    return f"{paint(head, 'bold', 'red')} {line}:{column}{quote}\n    {repair.sentence}\n"


def _quoted(raw: str) -> str:
    shown = terminal_safe(raw)
    return shown if len(shown) <= LONGEST_QUOTE else shown[: LONGEST_QUOTE - 1] + "…"


def _summary(message: dsv4.Message, repairs: int, paint: Paint) -> str:
    parts = [
        _counted(repairs, "repair") if repairs else "no repairs",
        _counted(len(message.tool_calls), "call"),
        *([f"{len(message.incomplete)} incomplete"] if message.incomplete else []),
        f"finish {message.finish}",
    ]
    return paint(", ".join(parts), "bold") + "\n"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
