"""Blocks in a code fence that was never closed: which are examples, and which are calls.

recovery.md, rules 15, 23 and 41. They are calls if they are complete, and the last thing in the
text; and something else stands in the fence before them, or a blank line.
"""

from __future__ import annotations

from typing import Any

import pytest

from builders import EOS
from completions import *
from completions import (
    read_everywhere as read,
)
from rows import each_row

FENCES = ["```", "~~~", "````", "   ```py", "\t~~~", "- ```", "1. a\n   ```", "see: ```js"]
OPEN = f"{BLOCK}\n{BASH}\n"
VALUE = f"{OPEN}{COMMAND}ls"
CLOSE = PARAMETER_END[:-1]
PING = [("ping", {})]

BASH_PING = [("bash", {"command": "ls"}), ("ping", {})]

# What stands before a block and is no call.
OVER = {
    "text after the block": f"{VALUE}{PARAMETER_END}\n{INVOKE_END}\n{BLOCK_END} x",
    "half a tag": f'{BLOCK}\n<{DSML}invoke name="ba',
    "an undeclared tool": f"{block(calling('made_up', a='b')).strip()}\nx",
    "a program": "print(2)",
}
# A call that lacks something, and is complete without it.
LACKING = {
    "a close of another kind": f"{VALUE}{PARAMETER_END}\n{BLOCK_END}",
    "text after the call": f"{VALUE}{PARAMETER_END}\n{INVOKE_END} x",
    "nothing": f"{VALUE}{PARAMETER_END}\n{INVOKE_END}\n{BLOCK_END}",
}
# The first block, which does not end, or quotes what comes after it.
QUOTING = {
    "a close that goes on": f"{VALUE}{CLOSE}://example.com/a?b=c#d",
    "a close that is not the line's end": f"{VALUE}{PARAMETER_END} x",
    "a close without its bracket": f"{VALUE}{PARAMETER_END[1:]}\n",
    "text between tags": f"{VALUE}{PARAMETER_END}\nThat is all.",
    "no type": f'{OPEN}<{DSML}parameter name="command">ls',
    "a value": VALUE,
    "an empty value": f"{OPEN}{COMMAND}",
    "a value that ends as a close begins": f"{VALUE}{CLOSE[:-1]}",
    "a value longer than a close": f"{VALUE}{'x' * 100}",
    "the second value": f"{VALUE}{PARAMETER_END}\n{COMMAND}pwd",
    "the value of a second call": f"{BLOCK}\n{calling('ping')}{BASH}\n{COMMAND}ls",
}


def each(cases: dict[str, str]) -> Any:
    return pytest.mark.parametrize("first", cases.values(), ids=cases.keys())


@pytest.mark.repeats
@pytest.mark.parametrize(
    ("thinking", "tools"),
    [(True, None), (False, TOOLS)],
    ids=["reasoning, tools unknown", "content, tools declared"],
)
class TestASecondBlock:
    @each(OVER)
    def test_behind_something_else_is_a_call(self, first: str, tools: Any, thinking: bool) -> None:
        example = f"Fix:\n```python\nprint(1)\n\n{first}"
        if tools is None and "made_up" in first:
            pytest.skip("where no tools are known, any may be meant")
        message = read(f"{example}{block(calling('ping'))}{EOS}", tools=tools, thinking=thinking)
        assert calls_of(message) == PING
        assert (message.reasoning if thinking else message.content) == example

    @each(LACKING)
    def test_of_two_blocks_both_are_calls(self, first: str, tools: Any, thinking: bool) -> None:
        text = f"Fix:\n```python\nprint(1)\n\n{first}{block(calling('ping'))}"
        message = read(f"{text}{EOS}", tools=tools, thinking=thinking)
        assert calls_of(message) == BASH_PING

    @each({**LACKING, **QUOTING})
    def test_or_neither_is(self, first: str, tools: Any, thinking: bool) -> None:
        text = f"Fix:\n```python\nprint(1)\n\n{first}{block(calling('ping'))}"
        text += "\nSo." if first in LACKING.values() else ""
        message = read(f"{text}{EOS}", tools=tools, thinking=thinking)
        assert not message.tool_calls
        assert (message.reasoning if thinking else message.content) == text


@pytest.mark.repeats
class TestFences:
    @pytest.mark.parametrize("fence", FENCES)
    def test_every_one_holds_examples_and_calls(self, fence: str) -> None:
        example = f"{fence}\n\n{OVER['half a tag']}"
        message = read(f"{example}{block(calling('ping'))}{EOS}")
        assert (message.content, calls_of(message)) == (example, PING)

    @pytest.mark.parametrize("fence", FENCES)
    def test_every_one_holds_quotations(self, fence: str) -> None:
        text = f"{fence}\n\n{VALUE}{block(calling('ping'))}"
        message = read(f"{text}{EOS}")
        assert (message.content, message.tool_calls) == (text, ())


CALL = block(calling("ping")).strip()
BARE = calling("bash", command="ls").strip()


@each_row(
    "text, calls",
    [
        (f"```bash\nls\n{CALL}", PING),
        (f"```bash\n\n{CALL}", PING),
        (f"```bash\n{CALL}", []),
        (f"```bash\n{CALL}\n\n{CALL}", []),
        (f"```bash\nls\n{CALL}\n\n{CALL}", PING * 2),
        (f"```bash\nls {CALL}", []),
        (f"```bash\nls\n{CALL}\n```", []),
        (f"```bash\nls\n{CALL}\nso", []),
        (f"```bash\nls\n{BARE}", [("bash", {"command": "ls"})]),
        (f"```bash\nls\n{calling('made_up', a='b')}", []),
        (f"```bash\nls\n{BLOCK}\n{calling('made_up', a='b')}{BLOCK_END}", []),
        (f"```bash\nls\n{BLOCK}\n{calling('ping')}{EOS}", PING),
        (f"```bash\nls\n{CALL.replace('tool_calls', 'function_calls')}", PING),
        (f"```bash\nls\n{CALL}{EOS}{EOS}", PING),
        (f"```bash\nls\n{CALL}{EOS}\nso", []),
    ],
)
def test_what_may_be_a_call_in_an_open_fence(text: str, calls: Any) -> None:
    message = read(text)
    assert calls_of(message) == calls
    assert calls or message.content == text.removesuffix(EOS)


@each_row("reason, is_made", [(None, 1), ("eos", 1), ("length", 0), ("stop", 0), ("refusal", 0)])
def test_an_open_fence_at_the_end(reason: str | None, is_made: int) -> None:
    message = read(f"```\nls\n{CALL}", reason=reason)
    assert len(message.tool_calls) == is_made
    assert len(message.dropped) == 1 - is_made
    assert len(read(f"```\nls\n{CALL}{EOS}", reason=reason).tool_calls) == 1


@each_row(
    "text, is_made",
    [
        # A line of tildes under a title is reStructuredText's.
        ("Title\n~~~~~\n\nSo: {}\n\nMore.", 1),
        ("Title\n~~~~\n\nSo: {}\n\nMore.", 0),
        ("Title:\n~~~~~~\n\nSo: {}\n\nMore.", 0),
        ("Title\n\n~~~~~\n\nSo: {}\n\nMore.", 0),
        # Markdown in Markdown has closes of its own.
        ("```md\n```sh\nls\n```\nmore\n```\n\nSo: {}\n\nMore.", 1),
        ("```md\n```sh\nls\n```\nSo: {}\n```\n\nMore.", 0),
        ("```js\n```sh\nls\n```\nSo: {}\n\nMore.", 1),
        ("````md\n```sh\nls\n```\n````\nSo: {}\n\nMore.", 1),
    ],
)
def test_what_is_a_fence(text: str, is_made: int) -> None:
    assert len(read(text.format(CALL)).tool_calls) == is_made


def test_an_end_of_thought_ends_the_example() -> None:
    message = read(f"```\n\n{VALUE}</think>Now.{block(calling('ping'))}{EOS}", thinking=True)
    assert (message.reasoning, message.content) == (f"```\n\n{VALUE}", "Now.")
    assert calls_of(message) == PING


def test_in_content_a_value_may_hold_one() -> None:
    message = read(f"```{block(calling('bash', command='echo </think>'))}{EOS}")
    assert (message.content, calls_of(message)) == ("```", [("bash", {"command": "echo </think>"})])


@pytest.mark.parametrize("end", ["", EOS])
def test_forbidden_calls_are_removed(end: str) -> None:
    example = f"```\n\n{OVER['half a tag']}"
    message = read(f"{example}{block(calling('ping'))}{end}", tool_choice="none")
    assert (message.content, message.tool_calls) == (example, ())


@pytest.mark.parametrize("at", [0, 3, 6, 20, 60, 110])
def test_one_that_the_prompt_has_begun(at: int) -> None:
    text = f"```\nx{block(calling('bash', command='ls -l'))}{EOS}"
    message = read(text[at:], prefix=text[:at])
    assert (message.content, calls_of(message)) == (
        "```\nx"[at:],
        [("bash", {"command": "ls -l"})],
    )
