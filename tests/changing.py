"""Random changes of a JSON value: what is nearly right, and what never was."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

_ODD: tuple[Any, ...] = (
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


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a body, outermost first."""
    yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from _places(item, (*path, key))


def changed(body: Any, dice: random.Random) -> Any:
    """A copy with one to three changes, as long as there is something left to change."""
    body = copy.deepcopy(body)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        where = dice.choice(list(_places(body))[1:] or [()])
        if not where:
            break
        holder = body
        for key in where[:-1]:
            holder = holder[key]
        _change(holder, where[-1], dice)
    return body


def _change(holder: Any, key: Any, dice: random.Random) -> None:
    kind = dice.randrange(5)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(dice.choice(holder)))
    elif kind == 2 and isinstance(holder, list):
        dice.shuffle(holder)
    elif kind == 3 and isinstance(holder, dict):
        holder[dice.choice((key, "type", "role", "content", "name", "x"))] = copy.deepcopy(
            dice.choice(_ODD)
        )
    else:
        holder[key] = copy.deepcopy(dice.choice(_ODD))
