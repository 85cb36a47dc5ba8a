"""Wraps the lines of every Markdown file, so that they can be read and compared: `make format`.

    python scripts/wrap_markdown.py [FILES]

Paragraphs and list items that have a line of more than LIMIT characters are wrapped anew; those
without are left as they were written. Tables, code, headings and comments stay as they are, and no
link is broken.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 119
SKIPPED = {"build", "dist", "node_modules"}

FENCE = re.compile(r"\s*(?P<fence>```+|~~~+)")
# A line that is what it is: a table, a heading, a comment or tag, a rule, a link's definition.
WHOLE = re.compile(r"\s*(\||#|<|---|\[[^\]]+\]: )|\s*$")
ITEM = re.compile(r"(?P<indent>\s*)(?P<mark>[-*+]|\d+\.)\s+")
# What must not be broken: code, links with their texts, words.
ATOM = re.compile(r"(?:`+[^`]*`+|!?\[[^\]]*\]\([^)]*\)|\S)+")
TARGET = re.compile(r"\]\([^)]*\)")
# At the start of a line these would mean something else.
STARTER = re.compile(r"([-*+#>|]|\d+[.)])$|\||#|<")


def documents() -> list[Path]:
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*.md"))
    return [ROOT / path for path in sorted(found) if not any(map(is_skipped, path.parts))]


def is_skipped(folder: str) -> bool:
    """Whether what is in a folder is not ours: environments, caches, what was made."""
    return folder.startswith(".") or folder in SKIPPED


def wrapped(markdown: str) -> str:
    return "".join(
        "\n".join(rewrapped(lines) if kind == "prose" else lines) + "\n"
        for kind, lines in blocks(markdown.removesuffix("\n").split("\n"))
    )


def too_long(markdown: str) -> Iterator[tuple[int, str]]:
    """Lines of prose over the limit, with their numbers. The targets of links do not count."""
    number = 0
    for kind, lines in blocks(markdown.removesuffix("\n").split("\n")):
        for line in lines:
            number += 1
            if kind == "prose" and len(TARGET.sub("]", line)) > LIMIT:
                yield number, line


def blocks(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Stretches of lines: paragraphs and items ("prose"), and what stays as it is ("fixed")."""
    prose: list[str] = []
    fence = ""
    for line in lines:
        opened = FENCE.match(line)
        if fence or opened or WHOLE.match(line):
            if prose:
                yield "prose", prose
                prose = []
            if fence:
                fence = "" if opened and line.strip() == fence else fence
            elif opened:
                fence = opened["fence"]
            yield "fixed", [line]
        elif ITEM.match(line) and prose:
            yield "prose", prose
            prose = [line]
        else:
            prose.append(line)
    if prose:
        yield "prose", prose


def rewrapped(lines: list[str]) -> list[str]:
    if all(len(line) <= LIMIT for line in lines):
        return lines
    item = ITEM.match(lines[0])
    first = item[0] if item else lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    rest = " " * len(first)
    text = " ".join([lines[0][len(first) :], *(line.strip() for line in lines[1:])])
    filled: list[str] = []
    line = first
    for atom in ATOM.findall(text):
        begins = line in (first, rest)
        if not begins and len(line) + 1 + len(atom) > LIMIT and not STARTER.match(atom):
            filled.append(line)
            line, begins = rest, True
        line += atom if begins else f" {atom}"
    return [*filled, line]


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:] or documents()):
        before = path.read_text("utf-8")
        after = wrapped(before)
        if after != before:
            path.write_text(after, encoding="utf-8", newline="\n")
            print(f"wrapped {path}")
