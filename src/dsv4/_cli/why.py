"""dsv4 why: says what a pasted thing is, what is wrong with it, the cause, and the fix."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from dsv4._cli.command_options import ColorOption
from dsv4._cli.command_output import Failure, Paint, json_text, output
from dsv4._cli.option_fields import argument, switch
from dsv4._inputs.input_files import open_input
from dsv4._view.characters import terminal_safe
from dsv4._why.judge import why
from dsv4._why.verdict import WhyVerdict

# A word that looks like the name of a file, which may have been mistyped.
_LIKE_A_FILE = re.compile(r"(?!\w+://)[^\s<>{}]*(?:/[^\s<>{}]*|\.[a-z]{2,5})")


@dataclass(kw_only=True)
class WhyOptions(ColorOption):
    input: list[str] = argument("FILE|-|TEXT", "*")
    json: bool = switch()


def run(args: WhyOptions) -> int:
    verdict = _verdict(args.input)
    with output() as file:
        if args.json:
            file.write(json_text(verdict.to_dict()) + "\n")
            return verdict.status
        paint = Paint(args.color)
        for word, text in verdict.lines():
            file.write(f"{paint(f'{word:<5}', 'bold')}  {terminal_safe(text)}\n")
    return verdict.status


def _verdict(words: list[str]) -> WhyVerdict:
    """The verdict on a file, on stdin, or on the words themselves."""
    if words in ([], ["-"]):
        with open_input(None) as file:
            return why(file.read())
    if len(words) > 1:
        return why(" ".join(words))
    [name] = words
    if len(name) < 4096 and "\0" not in name and os.path.exists(name):
        with open_input(name) as file:
            return why(file.read(), name)
    if _LIKE_A_FILE.fullmatch(name):
        raise Failure(f"{name}: there is no such file")
    return why(name)
