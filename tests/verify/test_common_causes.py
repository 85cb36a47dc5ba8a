"""What requests that are not explained have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsv4.verify.common_causes import common_causes

HI = {"role": "user", "content": "Hi"}
BRIEF = {"role": "system", "content": "Be brief."}
TOOLS = {"tools": [{"type": "function", "function": {"name": "time"}}]}
ANSWER = {"role": "assistant", "content": "Hello."}


def body(*messages: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {"messages": list(messages), **fields}


REQUESTS = {
    "plain": body(HI),
    "system": body(BRIEF, HI),
    "tools": body(HI, **TOOLS),
    "more-tools": body(HI, **TOOLS, tool_choice="none"),
    "tools-system": body(BRIEF, HI, **TOOLS),
    "history": body(HI, ANSWER, HI),
    "history-tools": body(HI, ANSWER, HI, **TOOLS),
    "effort": body(HI, reasoning_effort="max"),
}


def test_what_all_have_is_the_cause() -> None:
    failing = ["system", "tools-system"]
    assert common_causes(failing, REQUESTS) == dict.fromkeys(failing, "system")
    failing = ["tools", "more-tools", "tools-system", "history-tools"]
    assert common_causes(failing, REQUESTS) == dict.fromkeys(failing, "tools")


def test_two_causes_at_once() -> None:
    failing = ["tools", "more-tools", "tools-system", "history-tools", "history"]
    other = body(HI, ANSWER, HI, reasoning_effort="max")
    found = common_causes([*failing, "other"], {**REQUESTS, "other": other})
    assert {found[name] for name in failing[:4]} == {"tools"}
    assert {found["history"], found["other"]} == {"history"}


def test_one_request_has_nothing_in_common_with_itself() -> None:
    assert common_causes(["effort"], REQUESTS) == {}


def test_what_most_requests_have_that_are_right_is_no_cause() -> None:
    many = {f"tools-{n}": body(HI, **TOOLS) for n in range(5)}
    assert common_causes(["tools", "more-tools"], {**REQUESTS, **many}) == {}


def test_fields_without_a_value_are_none() -> None:
    empty = {name: body(HI, tools=[]) for name in ("a", "b")}
    assert common_causes(["a", "b"], empty) == {}
