"""Calls that lost their beginning, loops of closes, and other shapes that were seen.

recovery.md, rules 34 and 35, and more spellings of rule 1.
"""

from __future__ import annotations

from typing import Any

from builders import EOS
from completions import *
from completions import read_everywhere as read
from rows import each_row

LS = [("bash", {"command": "ls"})]
VALUE = f"{COMMAND}ls{PARAMETER_END}"
CALL = f"{BLOCK}\n{BASH}\n{VALUE}\n{INVOKE_END}\n{BLOCK_END}"


@each_row(
    "markup",
    [
        f"{VALUE}\n{INVOKE_END}\n{BLOCK_END}",
        f"{VALUE}{VALUE}{INVOKE_END}",
        f"{VALUE}{BLOCK_END}",
        f"{VALUE}\n{VALUE}\n{INVOKE_END}\n{BLOCK_END}\n",
        f"{COMMAND}{'x' * 3000}{PARAMETER_END}{INVOKE_END}",
    ],
)
def test_a_call_whose_opening_was_lost_in_mid_line(markup: str) -> None:
    for end in ("", EOS):
        message = read(f"A script is best.{markup}{end}")
        assert message.content.strip() == "A script is best."
        assert not message.tool_calls
        assert message.dropped


@each_row(
    "text",
    [
        f"A value is {VALUE}.",
        f"A value is {VALUE}",
        f"Write {VALUE}{INVOKE_END} there.",
        f"Write {COMMAND}ls{INVOKE_END}",
        f"Write “{VALUE}{INVOKE_END}”",
        f"Write `{VALUE}{INVOKE_END}` there.",
        f"A {COMMAND}{'x' * 5000}{PARAMETER_END}",
    ],
)
def test_parameters_that_are_talked_about(text: str) -> None:
    assert read(text).content == text


@each_row(
    "closes",
    [
        "\n</invoke></invoke>",
        f"\n</invoke>{BLOCK_END}</invoke>{BLOCK_END}",
        "</parameter></invoke></tool_calls>",
        "\n</function_calls>",
        "</tool_call>\n</tool_call>\n",
        f"{BLOCK_END * 3}",
    ],
)
def test_a_loop_of_closes_behind_a_block(closes: str) -> None:
    message = read(f"{CALL}{closes}{EOS}")
    assert calls_of(message) == LS
    assert message.content.strip() == ""


@each_row(
    "line", [f"<{DSML}", DSML, f"<{DSML}>", f"<{DSML}invoke>", f"<{DSML}parameter>", f"<{DSML} "]
)
def test_a_beginning_on_a_line_before_the_call(line: str) -> None:
    for call in (CALL, f"{BASH}\n{VALUE}\n{INVOKE_END}"):
        message = read(f"Let me look.\n\n{line}\n{call}{EOS}")
        assert calls_of(message) == LS
        assert message.content.strip() == "Let me look."


@each_row("text", [f"<{DSML}\nis the token.", f"<{DSML}invoke>\nis a tag.", f"{DSML}\n"])
def test_a_beginning_that_is_talked_about(text: str) -> None:
    assert read(f"{text}{EOS}").content == text


@each_row(
    "text, calls",
    [
        (f'{BLOCK}bash\n\n```json\n{{"command": "ls"}}\n```', LS),
        (f'{BLOCK}bash\n```\n{{"command": "ls"}}\n```\n{BLOCK_END}', LS),
        (f'{BLOCK}\nbash\n~~~json\n{{"command":\n "ls"}}\n~~~\n{INVOKE_END}{BLOCK_END}{EOS}', LS),
        (f'{BLOCK}bash\n``` JSON\n{{"command": "ls"}}\n```\n{BLOCK_END}', LS),
        (f'{BLOCK}bash\n```\n{{"cmd": "ls"}}\n```\n{BLOCK_END}', []),
        (f'{BLOCK}zsh\n```\n{{"command": "ls"}}\n```\n{BLOCK_END}', []),
        (f'{BLOCK}bash\n```\n{{"command": "ls"}}\n{BLOCK_END}', []),
        (f'{BLOCK}bash\n```\n{{"command": "ls"}}\n```\nThat is a call.', []),
        (f'{BLOCK}bash runs:\n```\n{{"command": "ls"}}\n```\n{BLOCK_END}', []),
    ],
)
def test_a_name_and_a_fence_with_arguments(text: str, calls: Any) -> None:
    assert calls_of(read(f"Looking.\n\n{text}")) == calls


@each_row(
    "text",
    [
        CALL.replace(f"<{DSML}invoke ", f"<{DSML}invoke invoke "),
        CALL.replace(f"<{DSML}parameter ", f"<{DSML}parameter parameter "),
        CALL.replace(f"</{DSML}", "<｜/DSML｜"),
        CALL.replace("<", "<\u200b"),
        CALL.replace("｜", "￨"),
    ],
)
def test_more_spellings(text: str) -> None:
    message = read(f"{text}{EOS}")
    assert calls_of(message) == LS
    assert message.content == ""
