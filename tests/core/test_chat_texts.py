"""Texts as people and models write them, with a call behind them: none is lost, none is made up.

Apostrophes, inches, quotes and tags that are left open, in English and Chinese (recovery.md, rule
29). Texts are put together from pieces, each by the number it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import dsv4
from builders import EOS
from completions import TOOLS, block, calling, calls_of, events_of, merged
from parts import ALL, part
from rows import run_rows

CALL = block(calling("bash", command="ls"))
LS = [("bash", {"command": "ls"})]

PIECES = (
    *("It's done, isn't it?", "The dogs' bowls weren't here.", "Rock 'n' roll, since the '90s."),
    *('A 5" disk and a 3.5" one.', "It is 6' 2\" high.", 'He said "do it', 'and then "no".'),
    *("She wrote “I'll run it", "‘Tis nothing.", "„Ja, gut“, sagte er.", "« Bon », dit-il."),
    *("Use the <pre> tag.", "A <code> element, or <example>?", "x < 5 and y > 3", "a <b> c </b>"),
    *("Close it with </pre>.", "`ls` lists, ``a`b`` too.", "A stray ` here.", "f(x) => y -> z"),
    *("<!-- a note", "-->", "*bold*, _it_, ~~no~~", "[a](http://b.c/?d=e&f='g')", "5 o'clock"),
    *("他说“好的", "“完成”。", "参见《指南》和「说明", "格式为「a」。", "价格是 5\" 吗？"),
    "这是‘测试’。",
    *("- one\n- it's two\n- \"three\"", "1. a\n2. b's", "> quoted, it's said", "> “so”"),
    *("    indented = 'code'", "\tx = \"y\"", "| a | b' |\n|---|---|", "```py\nx = '<pre>'\n```"),
    *("~~~\n“ ` <!--\n~~~", "Line one,\nline two's end.", "$PATH='a:b'", "I said: 'go.", "¿Qué?"),
    *("{\"a\": 'b'}", "f\"{x}'s\"", "\\\"escaped\\\"", "»so«", "a ＂b", "don’t, can’t"),
    "‹x› ‚y‘ z",
)  # fmt: skip
COUNT = 2000 if ALL else 200


def texts() -> Iterator[str]:
    for number in range(COUNT):
        random = Random(number)
        paragraphs = []
        for _ in range(random.randint(1, 5)):
            pieces = random.choices(PIECES, k=random.randint(1, 4))
            paragraphs.append(random.choice((" ", "\n", " ", "")).join(pieces))
        yield "\n\n".join(paragraphs)


def in_pieces(text: str) -> list[str]:
    return [text[at : at + 7] for at in range(0, len(text), 7)]


def test_a_call_behind_a_text_is_made() -> None:
    def check(row: tuple[str, ...]) -> None:
        text = row[0]
        for options in ({"thinking": False}, {"thinking": True}):
            events = events_of([f"{text}{CALL}{EOS}"], tools=TOOLS, **options)
            assert calls_of(dsv4.assemble(events)) == LS
            cut = events_of(in_pieces(f"{text}{CALL}{EOS}"), tools=TOOLS, **options)
            assert merged(cut) == merged(events)

    run_rows([(text,) for text in texts()], check)


def test_no_call_is_made_up() -> None:
    def check(row: tuple[str, ...]) -> None:
        for reason in (None, "length"):
            message = dsv4.parse(row[0], thinking=False, tools=TOOLS, reason=reason)
            assert (message.content, calls_of(message)) == (row[0], [])

    run_rows([(text,) for text in texts()], check)


ROOT = Path(__file__).parents[2]


def test_a_call_behind_a_file_is_made() -> None:
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("src/**/*.py")]

    def check(row: tuple[str, ...]) -> None:
        text = row[0].replace("DSML", "XML").replace("｜", "|").replace("think>", "thought>")
        text = text.replace("<tool", "<spade").replace("<function", "<action").rstrip()
        message = dsv4.parse(f"{text}{CALL}{EOS}", thinking=False, tools=TOOLS)
        assert calls_of(message) == LS

    run_rows([(path.read_text("utf-8"),) for path in part(sorted(files), 8)], check)
