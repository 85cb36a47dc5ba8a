"""Text that waits: how much, and which rule holds it."""

from __future__ import annotations

from typing import Any

import pytest

import dsv4
from completions import corpus, declared
from rows import each_row

TOOLS = [
    {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        },
    }
]
BLOCK = "<｜DSML｜tool_calls>\n"
INVOKE = '<｜DSML｜invoke name="weather">\n'
CITY = '<｜DSML｜parameter name="city" string="true">'
DAYS = '<｜DSML｜parameter name="days" string="false">'
CLOSE = "</｜DSML｜parameter>"

# What has come, what of it waits, and by which rule.
WAITING = [
    ("Hello.", "", None),
    ("Hello.\n\n", "\n\n", 17),
    ("Hello <｜DS", "<｜DS", 1),
    ("Hello.\n\n" + INVOKE, "\n\n" + INVOKE, 2),
    (f"It begins with {BLOCK}", BLOCK, 2),
    ("</｜DSML｜tool_calls>", "</｜DSML｜tool_calls>", 17),
    (BLOCK + INVOKE, INVOKE, 2),
    (BLOCK + INVOKE + CITY + "Par", "", None),
    (BLOCK + INVOKE + CITY + "Paris\n  ", "\n  ", 3),
    (BLOCK + INVOKE + CITY + "Paris</｜DSML｜par", "</｜DSML｜par", 1),
    (BLOCK + INVOKE + CITY + "Paris" + CLOSE, CLOSE, 4),
    (BLOCK + INVOKE + DAYS + "12", "12", 7),
    (BLOCK + INVOKE + CITY.replace("city", "input") + "{", "{", 8),
    (BLOCK + INVOKE + '{"city": "Par', '{"city": "Par', 8),
    (BLOCK + '[{"name": "wea', '[{"name": "wea', 14),
    (CITY + "Par", CITY + "Par", 5),
    (BLOCK + "Well, let me", "Well, let me", 5),
    (BLOCK + INVOKE + "Now the city", "Now the city", 11),
    ('<invoke name="weather"><parameter name="city">Par', None, 1),
    ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>wea", None, 13),
    (f"```\n\n{BLOCK}{INVOKE}", "\n\n" + BLOCK + INVOKE, 41),
    (f"“So: {BLOCK}{INVOKE}", BLOCK + INVOKE, 2),
    (f"“So: {BLOCK}{INVOKE}{CITY}Par", BLOCK + INVOKE + CITY + "Par", 29),
    (f"So: {CITY}Par", CITY + "Par", 34),
    (BLOCK + "weather\n```\n{", "weather\n```\n{", 35),
    ("Done.<｜end▁of▁sentence｜><｜User｜>And", "<｜end▁of▁sentence｜><｜User｜>And", 17),
]


@pytest.mark.parametrize(("text", "held", "rule"), WAITING)
def test_text_waits_by_a_rule(text: str, held: str | None, rule: int | None) -> None:
    parser = dsv4.StreamParser(thinking=False, tools=TOOLS)
    parser.feed(text)
    assert parser.held == held if held is not None else text.endswith(parser.held)
    assert (parser.held_by and parser.held_by.rule) == rule


def test_stop_strings_and_strict_readings_hold_without_a_rule() -> None:
    stopping = dsv4.StreamParser(thinking=False, stop="END")
    stopping.feed("The E")
    assert stopping.held == "E"
    assert stopping.held_by is not None
    assert "stop string" in stopping.held_by.reason
    strict = dsv4.StreamParser(thinking=False, strict=True)
    strict.feed("All of it")
    assert strict.held == "All of it"
    assert strict.held_by is not None
    assert strict.held_by.rule is None


@each_row("case", [pytest.param(case, id=case["id"]) for case in corpus()])
def test_what_waits_always_has_a_reason(case: dict[str, Any]) -> None:
    text = str(case["text"])
    parser = dsv4.StreamParser(thinking=False, tools=declared(**case["tools"]))
    for fed, character in enumerate(text, 1):
        parser.feed(character)
        assert (parser.held_by is None) == (parser.held == "")
        assert parser.position + len(parser.held) == fed


ORDINARY = {
    "prose": "If a < b, then b > a; see <https://example.org/?a=1&b=2>, `x <= y` or | a |.\n\n",
    "Markdown": "# Title\n\n- one\n- two: *three*\n\n| a | b |\n|---|---|\n| 1 | `<br>` |\n\n",
    "a program": "```py\ndef f(a: list[int]) -> bool:\n    return a < [1] << 2 or '<' in a\n```\n",
    "HTML": '<div class="tool" id=main><p>Call <b>me</b></p><input disabled/></div>\n<table>\n',
    "JSX": '<Tool onClick={() => invoke("x")} {...rest}>{all.map(i => <Call key={i} />)}</Tool>\n',
    "JSON": '{"name": "f", "arguments": {"a": [1, 2, {"b": "</b>\\n"}]}, "tool_calls": []}\n',
}


@pytest.mark.parametrize("start", ["", f"{BLOCK}{INVOKE}{CITY}"], ids=["answer", "value"])
@pytest.mark.parametrize("name", ORDINARY)
def test_of_ordinary_text_little_waits(name: str, start: str) -> None:
    parser = dsv4.StreamParser(thinking=False, tools=TOOLS)
    parser.feed(start)
    waits = []
    for character in ORDINARY[name] * 5:
        parser.feed(character)
        waits.append(len(parser.held))
    assert max(waits) <= 52
    assert sum(waits) < 3 * len(waits)
