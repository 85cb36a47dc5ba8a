"""Conversations at random, for hypothesis: right ones, and ones that are nearly right."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from builders import Message
from dsv4 import DIALECTS

TASKS = ("action", "query", "authority", "domain", "title", "read_url")
ROLES = ("system", "user", "assistant", "tool", "latest_reminder", "developer")

# What might be mistaken for the format's own words. The image token is not among them: the dialect
# that has it refuses it in a text.
LOOKALIKES = (
    "<｜User｜>",
    "<｜end▁of▁sentence｜>",
    "<think>",
    "</think>",
    "</tool_result>",
    "</｜DSML｜parameter>",
    "\n\n",
    "{schemas}",
    "%s {0}",
)

texts = st.one_of(
    st.just(""),
    st.text(max_size=12),
    st.lists(st.sampled_from(LOOKALIKES) | st.text(max_size=3), max_size=3).map("".join),
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
json_objects = st.dictionaries(st.text(max_size=5), json_values, max_size=3)
call_ids = st.sampled_from(("a", "b", "c", "", None))


def tool_calls() -> st.SearchStrategy[list[dict[str, Any]]]:
    arguments = st.one_of(
        json_objects,
        st.sampled_from(("{}", '{"a": 1, "b": "x"}', '{"a": NaN}', "not JSON", "")),
        st.none(),
    )
    functions = st.fixed_dictionaries({"name": st.text(max_size=5), "arguments": arguments})
    return st.lists(
        st.fixed_dictionaries({"function": functions}, optional={"id": call_ids}), max_size=3
    )


tools = st.lists(
    st.fixed_dictionaries(
        {"name": st.text(min_size=1, max_size=5)}, optional={"parameters": json_objects}
    ).map(lambda function: {"type": "function", "function": function}),
    max_size=2,
)


def message(
    role: str, content: Any, required: dict[str, Any] | None = None, **optional: Any
) -> st.SearchStrategy[Message]:
    fixed = {"role": st.just(role), "content": content, **(required or {})}
    return st.fixed_dictionaries(fixed, optional=optional)


some_text = texts | st.none()
extras: dict[str, Any] = {"tools": tools, "response_format": json_objects}
maybe_task = {"task": st.none() | st.sampled_from(TASKS)}

systems = message("system", some_text, **extras)
users = message("user", some_text)
tasked_users = message("user", some_text, maybe_task)
results = message("tool", some_text, {"tool_call_id": call_ids})
reminders = message("latest_reminder", some_text)
developers = message("developer", texts.filter(bool), **extras, **maybe_task)
assistants = message(
    "assistant",
    some_text,
    reasoning_content=some_text,
    reasoning=some_text,
    tool_calls=st.none() | tool_calls(),
    wo_eos=st.booleans(),
    **maybe_task,
)

messages = st.one_of(users, assistants, results, tasked_users, systems, reminders, developers)
conversations = st.lists(messages, min_size=1, max_size=8)
# Those that lay a conversation out as V4 does. V3.2 refuses much of what they take.
V4_LAYOUT = sorted(name for name, dialect in DIALECTS.items() if dialect.layout == "v4")
dialects = st.sampled_from(V4_LAYOUT)


def fitting(messages: list[Message], dialect: str) -> list[Message]:
    """The messages whose roles a dialect has."""
    return [message for message in messages if message["role"] in DIALECTS[dialect].roles]


def options(dialect: str) -> st.SearchStrategy[dict[str, Any]]:
    """Options of `dsv4.encode` that make no difference to which conversations are right."""
    efforts = st.sampled_from(sorted(DIALECTS[dialect].efforts, key=str))
    return st.fixed_dictionaries(
        {"dialect": st.just(dialect)},
        optional={
            "thinking": st.booleans(),
            "drop_thinking": st.booleans(),
            "bos": st.booleans(),
            "effort": efforts,
        },
    )


# Nearly right: every field may hold anything, known words most of all.

FIELDS = (
    *("role", "content", "content_blocks", "tools", "response_format", "reasoning_content"),
    *("reasoning", "tool_calls", "tool_call_id", "task", "wo_eos", "prefix", "extracted_url"),
    *("type", "text", "function", "name", "arguments", "parameters", "id", "tool_use_id"),
    *("image_url", "json_schema", "schema"),
)
WORDS = (*ROLES, *TASKS, "text", "image_url", "tool_result", "json_schema", "function", "{}", "[")

junk = st.recursive(
    scalars | st.sampled_from(WORDS) | st.binary(max_size=3),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=2).map(tuple),
        st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), inner, max_size=4),
        st.dictionaries(st.integers(), inner, max_size=1),
    ),
    max_leaves=10,
)


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[Any]) -> Any:
    """A right value with something else at one place in it."""
    return _damaged(draw, draw(whole))


def _damaged(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from([*value, *FIELDS[:13]]))
        return {**value, key: _damaged(draw, value.get(key))}
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], _damaged(draw, value[place]), *value[place + 1 :]]
    return draw(junk)
