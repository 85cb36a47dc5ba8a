"""Requests that are nearly right: they are read, or refused with the place of the fault."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from captured import PROTOCOLS, REQUESTS

from changing import changed
from dsv4.api import ApiError
from dsv4.api.request_fields import MAX_DEPTH, is_json
from parts import fewer, part
from rows import each_row

MUTATIONS = fewer(250, 3)  # of each request


@each_row("name", part(list(REQUESTS), 3))
def test_a_changed_request_is_read_or_refused_with_a_path(name: str) -> None:
    request = REQUESTS[name]
    module = PROTOCOLS[request["protocol"]]
    dice = random.Random(name)
    refused = 0
    for _ in range(MUTATIONS):
        body = changed(request["body"], dice)
        before = repr(body)
        given = body if dice.random() < 0.5 else json.dumps(body).encode()
        error = None
        try:
            call = module.read(given, dialect=dice.choice(("v4", "v4-0731", "v4.1")))
        except ApiError as caught:
            error = caught
        if error is None:
            str(call.request.encode()).encode()
        else:
            refused += 1
            assert error.status == 400
            assert error.path, body
            json.dumps(module.error(error)[1]).encode()
        assert repr(body) == before
    assert 10 < refused < MUTATIONS - 10


def test_what_json_has_not_is_refused() -> None:
    for value in ({1, 2}, b"x", 1j, object()):
        for name in ("qw-02-chat-other-model", "cc-06-continue-session", "cx-02-long-history"):
            request = REQUESTS[name]
            body = copy.deepcopy(request["body"])
            tool = body["tools"][0]
            function = tool.get("function", tool)
            function["parameters" if "parameters" in function else "input_schema"] = {"x": value}
            with pytest.raises(ApiError) as caught:
                PROTOCOLS[request["protocol"]].read(body)
            assert caught.value.path


def nested(kind: type, depth: int) -> Any:
    value: Any = kind()
    for _ in range(depth - 1):
        value = {"a": value} if kind is dict else [value]
    return value


@pytest.mark.parametrize("kind", [dict, list])
def test_how_deep_values_may_be_nested(kind: type) -> None:
    assert is_json(nested(kind, MAX_DEPTH))
    assert not is_json(nested(kind, MAX_DEPTH + 1))
    assert MAX_DEPTH == 250


def test_what_is_nested_deep_is_refused() -> None:
    deep: Any = {}
    for _ in range(400):
        deep = {"a": deep}
    message = {"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": deep}]}
    for field, value in (
        ("tools", [{"name": "f", "input_schema": deep}]),
        ("messages", [message, {"role": "user", "content": "x"}]),
        ("output_config", {"format": {"type": "json_schema", "schema": deep}}),
    ):
        body = {"messages": [{"role": "user", "content": "x"}], field: value}
        with pytest.raises(ApiError) as caught:
            PROTOCOLS["messages"].read(body)
        assert caught.value.path
        assert caught.value.path.startswith(field)
