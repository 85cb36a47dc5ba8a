"""Markup at the end of a text: a call that was cut, or talk about markup.

recovery.md, rule 33. Each row has what precedes the markup, the markup, and the reasons for which
it was cut; for all others the text stays whole.
"""

from __future__ import annotations

from completions import BASH, BLOCK, COMMAND, DSML, INVOKE_END, calls_of, invoke
from completions import read_everywhere as read
from rows import each_row

REASONS = (None, "eos", "stop", "length", "content_filter", "failed")
ALL = frozenset(REASONS)
CUTS = frozenset({"length", "content_filter", "failed"})
NEVER = frozenset[str | None]()
TOKEN = f"<{DSML}"


@each_row(
    "before, markup, cut",
    [
        ("Let me check.", BLOCK, CUTS),
        ("Let me check. ", f"{BLOCK}\n", CUTS),
        ("Let me check.", f"{BLOCK}\n<", ALL),
        ("Let me check.", f"{BLOCK}\n{TOKEN}", ALL),
        ("Let me check.", f"{BLOCK}\n{TOKEN}inv", ALL),
        ("Let me check.", f"{BLOCK}{BASH}", ALL),
        ("Let me check.", f"{BLOCK}\n{BASH}\n<", ALL),
        ("Let me check.", f"{BLOCK}\n{BASH}\n{TOKEN}parameter", ALL),
        ("Let me check.", f"{BLOCK}\n{BASH}\n{COMMAND}", ALL - {"eos"}),
        ("Let me check.\n\n", f"{BLOCK}\n{BASH}", ALL),
        ("Let me check.\n\n", f"{BLOCK}\n{BASH}\n<", ALL),
        ("Let me check.", BASH, CUTS),
        ("Let me check.", f"{BASH}\n{TOKEN}para", ALL),
        ("Let me check.\n\n", BASH, ALL - {"eos"}),
        ("Let me check.\n\n", f"{BASH}\n", ALL - {"eos"}),
        ("Let me check.\n\n", f"{BASH}\n{TOKEN}para", ALL),
        ("Let me check.\n\n", f"{BASH}\n{TOKEN}", ALL),
        ("Let me check.\n\n", f"{BASH}\n{TOKEN[:-1]}", ALL),
        ("Let me check.", f"{BLOCK}\n{BASH}\n{TOKEN[:-1]}", ALL),
        ("Let me check.", f"{TOKEN}tool_ca", ALL),
        ("Let me check.", f"{TOKEN}b", ALL),
        ("Let me check.", f"{TOKEN}inv", ALL),
        ("Let me check.", f"{TOKEN}parameter name=", ALL),
        ("Let me check.", TOKEN, frozenset({"length", None})),
        ("All tags begin with ", f"{TOKEN}.", NEVER),
        ("所有标签都以", f"{TOKEN}开头。", NEVER),
        ("ordinary ", f"{TOKEN} discussion", NEVER),
        ("It is ", f"{TOKEN}xyz", NEVER),
        ("It is ", f"{TOKEN}foo bar=", NEVER),
        ("It is ", f"{TOKEN}- ", NEVER),
        ("It is ", f"{TOKEN}to x=", NEVER),
        ("It is `", TOKEN, NEVER),
        ("It is `", BLOCK, NEVER),
        ("它是“", BLOCK, NEVER),
        ("它是「", f"{TOKEN}tool", NEVER),
        ('It is "', BASH, NEVER),
        ("An opening is ", invoke("zsh"), NEVER),
        ("A close is ", f"{BLOCK} or {INVOKE_END}.", NEVER),
    ],
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


def test_nothing_is_shown_of_a_call_that_was_cut_in_reasoning() -> None:
    message = read(f"Let me check.{BLOCK}{BASH}", thinking=True, reason="length")
    assert message.reasoning == "Let me check."
    assert message.finish == "length"
