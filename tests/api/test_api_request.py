"""Requests that are made without their constructors are like any others."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from request_bodies import PROTOCOLS, body, user

from dsv4.api import chat

PARTS = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_field_is_set(protocol: str) -> None:
    call = PROTOCOLS[protocol].read(body(protocol))
    assert {each.name for each in fields(call)} <= vars(call).keys()
    assert {each.name for each in fields(call.request)} <= vars(call.request).keys()


@pytest.mark.parametrize("message", [user("Hi"), PARTS], ids=["a plain turn", "a list of parts"])
def test_a_constructor_would_make_the_same(message: dict[str, Any]) -> None:
    call = chat.read({"messages": [message], "user": "u-1", "stop": ["END"], "n": 2})
    assert replace(call, request=replace(call.request)) == call
    assert (call.user, call.n, call.request.stop) == ("u-1", 2, ("END",))
