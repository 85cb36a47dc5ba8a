"""What a tag means inside a value (recovery.md, rules 3, 4, 11, 12 and 13)."""

from __future__ import annotations

import json

import pytest

import dsv4
from completions import (
    BLOCK,
    BLOCK_END,
    DSML,
    INVOKE_END,
    PARAMETER_END,
    declared,
    invoke,
    parameter,
)

TOOLS = declared(bash={"command": "string", "timeout": "integer"}, read={"path": "string"})
EOS = "<｜end▁of▁sentence｜>"
BASH = invoke("bash")
READ = f"{invoke('read')}{parameter('path')}"

# What becomes of a tag in a value: its text up to the tag is the value; a part of the value; or
# more must come.
ENDS, TEXT, WAITS = "ends", "text", "waits"


def verdict(text: str, final: bool = False) -> str:
    """On the first tag in a value."""
    parser = dsv4.StreamParser(thinking=False, tools=TOOLS)
    parser.feed(BLOCK + BASH + parameter("command"))
    events = parser.feed(text) + (parser.finish() if final else [])
    written = "".join(e.text for e in events if isinstance(e, dsv4.ArgumentsDelta))
    if "<" in written:
        return TEXT
    return WAITS if not final and parser.held.lstrip().startswith("<") else ENDS


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (f"\n{INVOKE_END}", ENDS),
        (f"\n{BLOCK_END}", ENDS),
        (f"\n{parameter('timeout')}", ENDS),
        (f"\n{READ}", ENDS),
        (EOS, WAITS),
        (f"{EOS}, as it is called" + "x" * 300, TEXT),
        (f" and then{INVOKE_END}", ENDS),  # a remark
        (f" and then{PARAMETER_END}", TEXT),
        (" and then " + "x" * 300, TEXT),
        ("", WAITS),
        ("\n", WAITS),
        ("\n<", WAITS),
    ],
)
def test_the_parameters_close_counts_by_what_follows(after: str, expected: str) -> None:
    assert verdict(f"ls{PARAMETER_END}{after}") == expected


def test_at_the_end_of_all_text_a_close_is_one() -> None:
    assert verdict(f"ls{PARAMETER_END}", final=True) == ENDS
    assert verdict(f"ls{PARAMETER_END} and so on", final=True) == TEXT
    assert verdict(f"ls{PARAMETER_END}{EOS}", final=True) == ENDS
    assert verdict(f"ls{INVOKE_END}\n{BLOCK_END}{EOS}\n", final=True) == ENDS


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        (f"{INVOKE_END}\n{BLOCK_END}{EOS}", WAITS),
        (f"{INVOKE_END}\n{BLOCK_END}{EOS} in the text", TEXT),
        (f"{INVOKE_END}\n{READ}", WAITS),  # a surplus close may follow
        (f"{INVOKE_END} in the text", TEXT),
        (f"{BLOCK_END}{EOS}", WAITS),
        (f"{BLOCK_END} in the text", TEXT),
        (EOS + "<｜User｜>", WAITS),
        (f"{EOS}<｜User｜>{PARAMETER_END}", TEXT),
        (f"{EOS} in the text", TEXT),
        (f"\n{parameter('timeout')}", ENDS),
        (parameter("timeout"), TEXT),  # not at the start of a line
        (f"\n{parameter('command')}", TEXT),  # its own key
        (f"\n{parameter('other')}", TEXT),  # nobody's key
        (f"{READ}x", TEXT),
        (f"{BLOCK}\n{READ}", TEXT),
        (f"{BLOCK} in the text", TEXT),
        ("</think>", TEXT),
        ("<div>", TEXT),
    ],
)
def test_other_tags_end_the_value_or_are_in_it(tag: str, expected: str) -> None:
    assert verdict(f"ls{tag}") == expected


@pytest.mark.parametrize(
    ("closes", "expected"),
    [
        (f"</{DSML}>\n{INVOKE_END}", ENDS),
        (f"</{DSML}thing>\n</{DSML}>\n{BLOCK_END}", ENDS),
        (f"</parameter>\n</invoke>{EOS}", WAITS),  # the strict grammar may go on
        (f"<{DSML}parameter>\n{INVOKE_END}", ENDS),
        (f"</{DSML}> in the text", TEXT),
        (f"</parameter>\n</div>{EOS}", TEXT),
        (f"</{DSML}>\n", WAITS),
    ],
)
def test_odd_closes_close_in_a_run_alone(closes: str, expected: str) -> None:
    assert verdict(f"ls{closes}") == expected


class TestQuotedRegions:
    def test_their_tags_are_text_until_their_own_close(self) -> None:
        quoted = f"{READ}x{PARAMETER_END}{INVOKE_END}"
        text = f"{BLOCK}{BASH}{parameter('command')}{quoted}{PARAMETER_END}{INVOKE_END}{BLOCK_END}"
        [call] = dsv4.parse(text, thinking=False, tools=TOOLS).tool_calls
        assert json.loads(call.arguments) == {"command": quoted}

    def test_after_one_nothing_is_implied(self) -> None:
        assert verdict(f"{INVOKE_END}\n{READ}x{PARAMETER_END}\n{INVOKE_END}{BLOCK_END} ok") == ENDS
        assert verdict(f"{READ}x{PARAMETER_END}{INVOKE_END}\n{INVOKE_END}\n{READ}") == TEXT
