"""Conversations in dsv4's own shapes, as `dsv4.api.read` reads them."""

from __future__ import annotations

from typing import Any

import pytest

from dsv4 import api

ASK = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    ("dialect", "release"), [(None, "v4.1"), ("v4", "v4"), ("v4-0731", "v4-0731")]
)
def test_the_body_names_the_dialect_unless_the_caller_does(dialect: Any, release: str) -> None:
    body = {"messages": [ASK], "thinking": True, "dialect": "v4.1"}
    assert str(api.read(body, dialect=dialect).request.dialect) == release


@pytest.mark.parametrize(
    ("beside", "reasoning"),
    [({"reasoning_content": "Hm."}, "Hm."), ({"reasoning_content": None}, None), ({}, None)],
)
def test_what_stands_beside_a_value_is_kept(beside: dict[str, Any], reasoning: str | None) -> None:
    turns = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello.", **beside}]
    settings = api.Settings(last_answer="finish")
    message = api.read({"conversations": turns}, settings=settings).request.messages[1]
    assert isinstance(message, dict)
    assert message.get("reasoning_content") == reasoning
