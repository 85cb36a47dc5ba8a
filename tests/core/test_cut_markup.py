"""Markup at the end of a text: a call that was cut, or talk about markup.

recovery.md, rule 33. For all reasons but those of a row's table the text stays whole.
"""

from __future__ import annotations

from completions import BASH, BLOCK, COMMAND, DSML, INVOKE_END, calls_of, invoke
from completions import read_everywhere as read
from rows import each_row

REASONS = (None, "eos", "stop", "length", "content_filter", "failed")
ALL: frozenset[str | None] = frozenset(REASONS)
CUTS = frozenset({"length", "content_filter", "failed"})
NEVER = frozenset[str | None]()
TOKEN = f"<{DSML}"


# What precedes the markup, and the markup, by the reasons for which it was cut.
CUT: dict[frozenset[str | None], list[tuple[str, str]]] = {
    ALL: [
        ("Let me check.", f"{BLOCK}\n<"),
        ("Let me check.", f"{BLOCK}\n{TOKEN}"),
        ("Let me check.", f"{BLOCK}\n{TOKEN}inv"),
        ("Let me check.", f"{BLOCK}{BASH}"),
        ("Let me check.", f"{BLOCK}\n{BASH}\n<"),
        ("Let me check.", f"{BLOCK}\n{BASH}\n{TOKEN}parameter"),
        ("Let me check.\n\n", f"{BLOCK}\n{BASH}"),
        ("Let me check.\n\n", f"{BLOCK}\n{BASH}\n<"),
        ("Let me check.", f"{BASH}\n{TOKEN}para"),
        ("Let me check.\n\n", f"{BASH}\n{TOKEN}para"),
        ("Let me check.\n\n", f"{BASH}\n{TOKEN}"),
        ("Let me check.\n\n", f"{BASH}\n{TOKEN[:-1]}"),
        ("Let me check.", f"{BLOCK}\n{BASH}\n{TOKEN[:-1]}"),
        ("Let me check.", f"{TOKEN}tool_ca"),
        ("Let me check.", f"{TOKEN}b"),
        ("Let me check.", f"{TOKEN}inv"),
        ("Let me check.", f"{TOKEN}parameter name="),
    ],
    ALL - {"eos"}: [
        ("Let me check.", f"{BLOCK}\n{BASH}\n{COMMAND}"),
        ("Let me check.\n\n", BASH),
        ("Let me check.\n\n", f"{BASH}\n"),
    ],
    CUTS: [
        ("Let me check.", BLOCK),
        ("Let me check. ", f"{BLOCK}\n"),
        ("Let me check.", BASH),
    ],
    frozenset({"length", None}): [
        ("Let me check.", TOKEN),
    ],
    NEVER: [
        ("All tags begin with ", f"{TOKEN}."),
        ("所有标签都以", f"{TOKEN}开头。"),
        ("ordinary ", f"{TOKEN} discussion"),
        ("It is ", f"{TOKEN}xyz"),
        ("It is ", f"{TOKEN}foo bar="),
        ("It is ", f"{TOKEN}- "),
        ("It is ", f"{TOKEN}to x="),
        ("It is `", TOKEN),
        ("It is `", BLOCK),
        ("它是“", BLOCK),
        ("它是「", f"{TOKEN}tool"),
        ('It is "', BASH),
        ("An opening is ", invoke("zsh")),
        ("A close is ", f"{BLOCK} or {INVOKE_END}."),
    ],
}


@each_row(
    "before, markup, cut",
    [(before, markup, reasons) for reasons, rows in CUT.items() for before, markup in rows],
)
def test_reading(before: str, markup: str, cut: frozenset[str | None]) -> None:
    for reason in REASONS:
        message = read(before + markup, reason=reason)
        if reason in cut:
            assert message.content == before.rstrip("\n"), reason
            assert message.finish == "length" or reason == "eos"
            assert calls_of(message) == []
            assert message.dropped
        elif not message.tool_calls:  # an end completes what only lacks closes
            assert message.content == before + markup, reason


@each_row("behind", ["", "\n", "<"])
def test_the_opening_of_another_tool_in_a_wrapper_in_mid_line_is_talk(behind: str) -> None:
    text = f"It begins with {BLOCK}{invoke('zsh')}{behind}"
    for reason in REASONS:
        message = read(text, reason=reason)
        assert (message.content, calls_of(message)) == (text, []), reason


@each_row("behind", ["", TOKEN, f" {TOKEN}inv", f"</{DSML}", "\n<", " and so on."])
def test_a_call_in_one_tag_in_mid_line_is_talk(behind: str) -> None:
    text = f'It is <{DSML}invoke name="ping"/>'
    for reason in REASONS:
        message = read(text + behind, reason=reason)
        assert (calls_of(message), message.incomplete) == ([], ()), reason
        assert message.content.startswith(text), reason


@each_row("behind", [f'<{DSML}invoke name="ping"/>', BASH, f"\n{invoke('ping')}"])
def test_a_call_in_mid_line_before_another_is_talk(behind: str) -> None:
    text = f"It is {BASH}"
    for reason in REASONS:
        message = read(text + behind, reason=reason)
        assert calls_of(message) == [], reason
        assert message.content.startswith(text), reason


def test_nothing_is_shown_of_a_call_that_was_cut_in_reasoning() -> None:
    message = read(f"Let me check.{BLOCK}{BASH}", thinking=True, reason="length")
    assert message.reasoning == "Let me check."
    assert message.finish == "length"
