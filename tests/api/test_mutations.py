"""Requests that are nearly right: they are read, or refused with the place of the fault."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from captured import PROTOCOLS, REQUESTS

from dsv4.api import ApiError
from dsv4.api.request_fields import MAX_DEPTH, is_json
from parts import fewer, part

MUTATIONS = fewer(250, 3)  # of each request
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 5, 2**70, 0.5, -1e308, "", "x", "\ud800", "null", "{", "{}"),
    *("[1]", "tool", "auto", "function", "text", "image", [], {}, [None], [[]], [{}], {"": None}),
    *([1], ["x"], {"type": 5}, {"type": "text"}, {"type": "x"}, {"role": "user"}, {"name": "x"}),
    *({"role": "system", "content": "x"}, {"role": "assistant", "content": "x"}, {"text": 5}),
    *(
        {"role": "developer", "content": [{"type": "text"}]},
        {"type": "image"},
        {"type": "image_url"},
    ),
    *({"type": "tool_use"}, {"type": "tool_result"}, {"type": "document"}, {"type": "reasoning"}),
    *({"type": "function_call"}, {"type": "function_call_output"}, {"type": "item_reference"}),
    *({"type": "custom", "name": "x"}, {"type": "namespace"}, {"type": "thinking"}, "x" * 300),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a body, outermost first."""
    yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from places(item, (*path, key))


def mutated(body: Any, dice: random.Random) -> Any:
    """A copy with one to three changes."""
    body = copy.deepcopy(body)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        where = dice.choice([path for path in places(body) if path])
        holder = body
        for key in where[:-1]:
            holder = holder[key]
        change(holder, where[-1], dice)
    return body


def change(holder: Any, key: Any, dice: random.Random) -> None:
    kind = dice.randrange(5)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(dice.choice(holder)))
    elif kind == 2 and isinstance(holder, list):
        dice.shuffle(holder)
    elif kind == 3 and isinstance(holder, dict):
        holder[dice.choice((key, "type", "role", "content", "name", "x"))] = copy.deepcopy(
            dice.choice(ODD)
        )
    else:
        holder[key] = copy.deepcopy(dice.choice(ODD))


@pytest.mark.parametrize("name", part(list(REQUESTS), 3))
def test_a_changed_request_is_read_or_refused_with_a_path(name: str) -> None:
    request = REQUESTS[name]
    module = PROTOCOLS[request["protocol"]]
    dice = random.Random(name)
    refused = 0
    for _ in range(MUTATIONS):
        body = mutated(request["body"], dice)
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
