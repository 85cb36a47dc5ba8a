"""A caller's text is text, of whatever class it is: none of it becomes a special token."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dsv4
from builders import assistant, call, developer, openai_tool, reminder, result, system, text, user
from dsv4 import Special
from dsv4._encode.prompt import Fragment
from dsv4._encode.tools import PrewrittenText
from dsv4._format.tokens import MarkupText
from strategies import TASKS, V4_LAYOUT, call_ids, dialects, fitting, json_objects, options

THINK = "<think>"
LABEL = ("template", "header")

# What our own code takes for more than text, made of a text.
DISGUISES = (
    lambda words: Special(words, 128821),
    lambda words: MarkupText([Special(words, 128821)]),
    lambda words: Fragment(words, LABEL, message=7, begins="answer"),
    lambda words: Fragment(MarkupText([Special(words, 128821)]), LABEL, message=None),
    lambda words: words or PrewrittenText(""),
)


def disguised(value: Any, disguise: Any) -> Any:
    """The same value, every text in it of another class."""
    if isinstance(value, str):
        return disguise(value)
    if isinstance(value, dict):
        return {disguised(k, disguise): disguised(v, disguise) for k, v in value.items()}
    if isinstance(value, list):
        return [disguised(item, disguise) for item in value]
    return value


texts = st.sampled_from(["", THINK, "<｜User｜>", "｜DSML｜", "Hi", "a<think>b"])
names = texts.filter(bool)
blocks = texts | texts.map(text) | names.map(lambda kind: {"type": kind})
contents = texts | st.lists(texts.map(text), max_size=3)
objects = json_objects | st.dictionaries(texts, texts | st.lists(texts), max_size=3)
arguments = objects | st.sampled_from(['{"a": "<think>"}', '{"<think>": 1}', THINK, "{}"])
calls = st.builds(call, names, arguments, id=call_ids)
tools = st.lists(st.builds(openai_tool, names, description=texts, parameters=objects), max_size=2)

messages = st.one_of(
    st.builds(system, contents, tools=tools, response_format=objects),
    st.builds(developer, names, tools=tools, response_format=objects),
    st.builds(user, contents),
    st.builds(user, contents, task=st.sampled_from(TASKS), extracted_url=names),
    st.builds(assistant, contents, reasoning=contents, tool_calls=st.lists(calls, max_size=2)),
    st.builds(assistant, contents, reasoning_content=contents),
    st.builds(result, contents | st.lists(blocks, max_size=3), call_ids),
    st.builds(reminder, contents),
)
conversations = st.lists(messages, min_size=1, max_size=5)


@given(st.data(), conversations, tools, objects, dialects.flatmap(options))
def test_no_class_of_a_text_shows(
    data: st.DataObject,
    messages: list[Any],
    tools: list[Any],
    response_format: dict[str, Any],
    named: dict[str, Any],
) -> None:
    asked: dict[str, Any] = {"messages": messages}
    if not any(message["role"] == "system" for message in messages):
        asked |= {"tools": tools, "response_format": response_format}
    asked["messages"] = fitting(asked["messages"], named["dialect"])
    assume(asked["messages"])
    given = disguised(asked, lambda words: data.draw(st.sampled_from(DISGUISES))(words))
    plain, prompt = dsv4.encode(**asked, **named), dsv4.encode(**given, **named)
    assert str(prompt) == str(plain)
    assert prompt.pieces == plain.pieces
    assert all(type(piece.text) is str for piece in prompt.pieces if not piece.special)


@pytest.mark.parametrize("disguise", DISGUISES[:4])
@pytest.mark.parametrize(
    "message",
    [
        lambda think: result([think]),
        lambda think: result([text(think)]),
        lambda think: result([{"type": think}]),
        lambda think: result(think),
        lambda think: user(think),
        lambda think: user([text(think)]),
        lambda think: assistant(think, reasoning=think),
        lambda think: assistant(tool_calls=[call(think, {think: think})]),
        lambda think: assistant(tool_calls=[call("f", think)]),
        lambda think: system(think, tools=[openai_tool(think)], response_format={think: think}),
    ],
)
@pytest.mark.parametrize("dialect", V4_LAYOUT)
def test_a_token_as_a_value_is_what_it_spells(disguise: Any, message: Any, dialect: str) -> None:
    def pieces(think: str) -> Any:
        return dsv4.encode([user(), message(think)], dialect=dialect).pieces

    assert pieces(disguise(THINK)) == pieces(THINK)
