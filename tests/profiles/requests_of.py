"""Requests for the tests of profiles: those of the vectors, and others made from them at random."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parent.parent / "vectors"
ROLES = ("system", "user", "assistant", "tool", "latest_reminder", "developer")
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**64, 1.5, 1e-7, "", "x", "json", "none", "required", "high"),
    *([], {}, [1], {"a": 1}, [{"type": "text", "text": "t"}], {"type": "text"}),
    *({"type": "json_object"}, {"type": "enabled"}, {"type": "object"}),
    "x-anthropic-billing-header: a\nb You are c",
    "x-anthropic-billing-header: You are c\nd",
)


def rows(name: str) -> list[dict[str, Any]]:
    with gzip.open(VECTORS / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


ROWS = rows("profiles.jsonl.gz")
VLLM_0_33_ROWS = rows("profiles-vllm-0.33.jsonl.gz")
DYNAMO_ROWS = rows("profiles-dynamo.jsonl.gz")
LLAMA_ROWS = rows("profiles-llamacpp.jsonl.gz")
REQUESTS: list[Any] = [row["request"] for row in ROWS]


def mutated(seed: int) -> Any:
    """A request of the vectors, with a few changes. Many are still taken by every server."""
    dice = random.Random(seed)
    body = copy.deepcopy(dice.choice(REQUESTS))
    for _ in range(dice.choice((0, 1, 1, 2, 3))):
        dice.choice((_change_messages, _change_messages, _mix_in, _continue, _change_value))(
            body, dice
        )
    return body


def _change_messages(body: Any, dice: random.Random) -> None:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return
    here, there = dice.randrange(len(messages)), dice.randrange(len(messages))
    change = dice.randrange(5)
    if change == 0:
        other = dice.choice(REQUESTS)["messages"] or [{"role": "user", "content": "?"}]
        messages.insert(here, copy.deepcopy(dice.choice(other)))
    elif change == 1:
        del messages[here]
    elif change == 2:
        messages[here], messages[there] = messages[there], messages[here]
    elif change == 3:
        content = dice.choice(("", "a", "b c"))
        messages.insert(here, {"role": dice.choice(ROLES[:3]), "content": content})
    elif isinstance(messages[here], dict):
        messages[here]["role"] = dice.choice(ROLES)


def _mix_in(body: Any, dice: random.Random) -> None:
    other = dice.choice(REQUESTS)
    fields = [field for field in other if field != "messages"]
    if fields:
        field = dice.choice(fields)
        body[field] = copy.deepcopy(other[field])


def _continue(body: Any, dice: random.Random) -> None:
    body["thinking"] = {"type": dice.choice(("enabled", "disabled", "adaptive"))}
    messages = body.get("messages")
    if isinstance(messages, list) and messages and isinstance(messages[-1], dict):
        messages[-1]["prefix"] = dice.random() < 0.7


def _change_value(body: Any, dice: random.Random) -> None:
    places = list(_places(body))
    place, source = dice.choice(places), dice.choice(places)
    value = copy.deepcopy(dice.choice(ODD) if dice.random() < 0.6 else _at(body, source))
    parent = _at(body, place[:-1])
    if dice.random() < 0.3 and place != ("messages",):
        del parent[place[-1]]
    else:
        parent[place[-1]] = value


def _places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if not isinstance(value, (dict, list)):
        return
    for step in value if isinstance(value, dict) else range(len(value)):
        yield (*before, step)
        yield from _places(value[step], (*before, step))


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        value = value[step]
    return value
