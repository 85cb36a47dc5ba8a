"""Blocks in a code fence that was never closed: which are examples, and which is a call.

recovery.md, rule 15. A block is an example from where it opens to where the strict grammar can not
read it any further, and that place is the same however the text comes.
"""

from __future__ import annotations

from typing import Any

import pytest

from builders import EOS
from completions import *
from completions import (
    read_everywhere as read,
)

FENCES = ["```", "~~~", "````", "   ```py", "\t~~~", "- ```", "1. a\n   ```", "see: ```js"]
OPEN = f"{BLOCK}\n{BASH}\n"
VALUE = f"{OPEN}{COMMAND}ls"
CLOSE = PARAMETER_END[:-1]
PING = [("ping", {})]

# The first block, up to where it breaks off.
BROKEN = {
    "a close that goes on": f"{VALUE}{CLOSE}://example.com/a?b=c#d",
    "a close that is not the line's end": f"{VALUE}{PARAMETER_END} x",
    "a close without its bracket": f"{VALUE}{PARAMETER_END[1:]}\n",
    "an empty value without it": f"{OPEN}{COMMAND}{PARAMETER_END[1:]}\n",
    "a close of another kind": f"{VALUE}{PARAMETER_END}\n{BLOCK_END}",
    "text between tags": f"{VALUE}{PARAMETER_END}\nThat is all.",
    "text after the call": f"{VALUE}{PARAMETER_END}\n{INVOKE_END} x",
    "text after the block": f"{VALUE}{PARAMETER_END}\n{INVOKE_END}\n{BLOCK_END} x",
    "no type": f'{OPEN}<{DSML}parameter name="command">ls',
    "no calls": f"{BLOCK}\n",
    "half a tag": f'{BLOCK}\n<{DSML}invoke name="ba',
}
# The first block, which quotes what comes after it.
QUOTING = {
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
    @each(BROKEN)
    def test_after_one_that_breaks_off_is_a_call(
        self, first: str, tools: Any, thinking: bool
    ) -> None:
        example = f"Fix:\n```python\nprint(1)\n\n{first}"
        message = read(f"{example}{block(calling('ping'))}{EOS}", tools=tools, thinking=thinking)
        assert calls_of(message) == PING
        assert (message.reasoning if thinking else message.content) == example

    @each(QUOTING)
    def test_in_the_value_of_one_is_quoted(self, first: str, tools: Any, thinking: bool) -> None:
        text = f"Fix:\n```python\nprint(1)\n\n{first}{block(calling('ping'))}"
        message = read(f"{text}{EOS}", tools=tools, thinking=thinking)
        assert not message.tool_calls
        assert (message.reasoning if thinking else message.content) == text


@pytest.mark.repeats
class TestFences:
    @pytest.mark.parametrize("fence", FENCES)
    def test_every_one_holds_examples_and_calls(self, fence: str) -> None:
        example = f"{fence}\n\n{BROKEN['a close that goes on']}"
        message = read(f"{example}{block(calling('ping'))}{EOS}")
        assert (message.content, calls_of(message)) == (example, PING)

    @pytest.mark.parametrize("fence", FENCES)
    def test_every_one_holds_quotations(self, fence: str) -> None:
        text = f"{fence}\n\n{VALUE}{block(calling('ping'))}"
        message = read(f"{text}{EOS}")
        assert (message.content, message.tool_calls) == (text, ())


def test_a_third_block_after_two_that_break_off() -> None:
    first, second = BROKEN["a close that goes on"], BROKEN["text between tags"]
    example = f"~~~\n\n{first}\n\n{second}"
    message = read(f"{example}{block(calling('ping'))}{EOS}")
    assert (message.content, calls_of(message)) == (example, PING)


def test_an_end_of_thought_ends_the_example() -> None:
    message = read(f"```\n\n{VALUE}</think>Now.{block(calling('ping'))}{EOS}", thinking=True)
    assert (message.reasoning, message.content) == (f"```\n\n{VALUE}", "Now.")
    assert calls_of(message) == PING


def test_in_content_a_value_may_hold_one() -> None:
    message = read(f"```{block(calling('bash', command='echo </think>'))}{EOS}")
    assert (message.content, calls_of(message)) == ("```", [("bash", {"command": "echo </think>"})])


@pytest.mark.parametrize("end", ["", EOS])
def test_forbidden_calls_are_removed(end: str) -> None:
    example = f"```\n\n{BROKEN['a close that goes on']}"
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
