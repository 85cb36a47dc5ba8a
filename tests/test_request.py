"""The native API's front door: messages, and what a request adds to them."""

from __future__ import annotations

from typing import Any

import pytest

import dsv4
from builders import BOS, assistant, function, openai_tool, system, text, user
from dsv4 import EncodeError, OptionError

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def encode(*messages: Any, **options: Any) -> str:
    return str(dsv4.encode(list(messages), **options))


def error_of(*args: Any, **options: Any) -> str:
    """What is said of a conversation, or of an option that does not fit it."""
    with pytest.raises((EncodeError, OptionError)) as caught:
        dsv4.encode(*args, **options)
    is_conversation = caught.value.location[0] in ("messages", "context")
    assert type(caught.value) is (EncodeError if is_conversation else OptionError)
    return str(caught.value)


class TestMessages:
    def test_any_iterable_will_do(self) -> None:
        expected = encode(system(), user())
        assert str(dsv4.encode((system(), user()))) == expected
        assert str(dsv4.encode(iter([system(), user()]))) == expected
        assert str(dsv4.encode(iter([user()]), context=(system(),))) == encode(
            user(), context=[system()]
        )

    @pytest.mark.parametrize("messages", [[], (), iter([])])
    def test_there_must_be_one(self, messages: Any) -> None:
        assert error_of(messages) == "messages: found none, expected at least one message"
        with pytest.raises(EncodeError, match=r"^messages: found none"):
            dsv4.encode(messages, context=[user()])

    @pytest.mark.parametrize("messages", [None, "Hi", b"Hi", 3, user()])
    def test_what_is_no_list(self, messages: Any) -> None:
        problem = f"found {messages!r}, expected a list of messages"
        assert error_of(messages) == f"messages: {problem}"
        if messages is not None:
            assert error_of([user()], context=messages) == f"context: {problem}"

    class Strange:
        def to_dict(self) -> str:
            return "nothing"

        def __repr__(self) -> str:
            return "Strange()"

    @pytest.mark.parametrize("message", [None, "Hi", 3, ["user", "Hi"], Strange(), Strange])
    @pytest.mark.parametrize("options", [{}, {"tools": [function()]}, {"dialect": "v4.1"}])
    def test_what_is_no_message(self, message: Any, options: Any) -> None:
        problem = f'found {message!r}, expected a message: a dict with a "role"'
        assert error_of([user(), message], **options) == f"messages[1]: {problem}"
        assert error_of([user()], context=[message], **options) == f"context[0]: {problem}"


class TestFlags:
    @pytest.mark.parametrize("flag", ["thinking", "drop_thinking", "bos"])
    @pytest.mark.parametrize("value", [None, 1, 0, "chat", []])
    def test_are_true_or_false(self, flag: str, value: Any) -> None:
        assert error_of([user()], **{flag: value}) == (
            f"{flag}: found {value!r}, expected True or False"
        )


class TestTools:
    """Tools of the request go on the first system message."""

    def test_on_the_first_system_message(self) -> None:
        assert encode(system("a"), user(), system("b"), tools=[openai_tool()]) == encode(
            system("a", tools=[openai_tool()]), user(), system("b")
        )

    def test_wherever_it_stands(self) -> None:
        assert encode(user(), system(), tools=[function()]) == encode(
            user(), system(tools=[function()])
        )

    def test_on_a_new_one_in_front_where_there_is_none(self) -> None:
        assert encode(user(), tools=[function()]) == encode(system("", tools=[function()]), user())

    def test_in_the_context(self) -> None:
        assert encode(user(), context=[system()], tools=[function()]) == encode(
            user(), context=[system(tools=[function()])]
        )

    def test_a_context_without_a_system_message_cannot_take_them(self) -> None:
        problem = "context: found no system message to carry {}, expected one"
        options: dict[str, Any] = {"context": [user(), assistant()], "tools": [function()]}
        assert error_of([user()], **options) == problem.format("tools")
        assert error_of([user()], **options, response_format=SCHEMA) == problem.format(
            "tools and response_format"
        )

    def test_a_system_message_with_tools_of_its_own_cannot_either(self) -> None:
        problem = "found tools here and on the request, expected one of them"
        own = system(tools=[function("g")])
        assert error_of([user(), own], tools=[function()]) == f"messages[1].tools: {problem}"
        assert error_of([user()], context=[user(), own], tools=[function()]) == (
            f"context[1].tools: {problem}"
        )

    def test_an_empty_list_of_its_own_is_none(self) -> None:
        assert encode(system(tools=[]), tools=[function()]) == encode(system(tools=[function()]))

    @pytest.mark.parametrize("none", [None, [], (), iter([])])
    @pytest.mark.parametrize("dialect", dsv4.DIALECTS)
    def test_no_tools(self, none: Any, dialect: str) -> None:
        options: dict[str, Any] = {"thinking": False, "dialect": dialect}
        assert encode(user(), tools=none, **options) == encode(user(), **options)
        assert encode(system(tools=[function()]), tools=none) == encode(system(tools=[function()]))

    def test_any_iterable_will_do(self) -> None:
        expected = encode(user(), tools=[function("f"), openai_tool("g")])
        assert encode(user(), tools=(function("f"), openai_tool("g"))) == expected
        assert encode(user(), tools=iter([function("f"), openai_tool("g")])) == expected

    @pytest.mark.parametrize("tools", ["f", b"f", 3, openai_tool()])
    def test_what_is_no_list(self, tools: Any) -> None:
        assert (
            error_of([user()], tools=tools) == f"tools: found {tools!r}, expected a list of tools"
        )

    @pytest.mark.parametrize(
        ("tool", "place", "problem"),
        [
            ("f", "", "found 'f', expected a tool object"),
            ({"type": "function"}, ".function", "found None, expected a function object"),
            (openai_tool(None), ".function.name", "found None, expected the tool's name"),
        ],
    )
    @pytest.mark.parametrize("messages", [[user()], [user(), system()]])
    def test_errors_are_the_requests(
        self, tool: Any, place: str, problem: str, messages: Any
    ) -> None:
        assert error_of(messages, tools=[tool]) == f"tools[0]{place}: {problem}"


class TestResponseFormat:
    """A response format goes on the first system message, as the schema that it holds."""

    EXPECTED = system(response_format=SCHEMA)

    def test_a_schema_as_it_is(self) -> None:
        assert encode(system(), response_format=SCHEMA) == encode(self.EXPECTED)

    def test_openais_kind_is_unwrapped(self) -> None:
        wrapped = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
        assert encode(system(), response_format=wrapped) == encode(self.EXPECTED)

    def test_any_object(self) -> None:
        assert encode(system(), response_format={"type": "json_object"}) == encode(
            system(response_format={"type": "object"})
        )

    @pytest.mark.parametrize("none", [None, {}, {"type": "text"}])
    def test_none(self, none: Any) -> None:
        assert encode(user(), response_format=none) == encode(user())

    def test_on_a_new_system_message_where_there_is_none(self) -> None:
        assert encode(user(), response_format=SCHEMA) == encode(
            system("", response_format=SCHEMA), user()
        )

    def test_together_with_tools(self) -> None:
        assert encode(system(), response_format=SCHEMA, tools=[function()]) == encode(
            system(response_format=SCHEMA, tools=[function()])
        )

    def test_a_system_message_with_one_of_its_own_cannot_take_it(self) -> None:
        assert error_of([self.EXPECTED], response_format=SCHEMA) == (
            "messages[0].response_format: "
            "found response_format here and on the request, expected one of them"
        )

    @pytest.mark.parametrize("value", ["json", 3, [1]])
    def test_what_is_no_schema(self, value: Any) -> None:
        assert error_of([user()], response_format=value) == (
            f"response_format: found {value!r}, expected a JSON schema"
        )

    @pytest.mark.parametrize("wrapper", [{}, {"json_schema": {}}, {"json_schema": {"schema": 3}}])
    def test_a_wrapper_without_a_schema(self, wrapper: Any) -> None:
        message = error_of([user()], response_format={"type": "json_schema", **wrapper})
        assert message.startswith("response_format.json_schema.schema: found ")
        assert message.endswith(", expected a JSON schema")

    def test_a_schema_that_is_not_json(self) -> None:
        message = error_of([user()], response_format={"type": "object", "x": {1}})
        assert message.startswith("response_format.x: {1} cannot be written as JSON")


class TestPlaces:
    """Errors index the caller's own lists, whatever the request put in front."""

    @pytest.mark.parametrize("options", [{}, {"tools": [function()]}, {"response_format": SCHEMA}])
    @pytest.mark.parametrize("dialect", dsv4.DIALECTS)
    def test_of_messages(self, options: Any, dialect: str) -> None:
        for place in range(3):
            messages: list[Any] = [user(), user(), user()]
            messages[place] = {"role": "user", "content": 5}
            message = error_of(messages, **options, dialect=dialect)
            assert message.startswith(f"messages[{place}].content: found 5")
            messages[place] = {"role": "wizard", "content": "Hi"}
            message = error_of(messages, **options, dialect=dialect)
            assert message.startswith(f"messages[{place}].role: found 'wizard'")
            messages[place] = user([text("a"), text(5)])
            message = error_of(messages, **options, dialect=dialect)
            assert message == f"messages[{place}].content[1].text: found 5, expected text"


def test_the_quick_start() -> None:
    messages = [system("You are a helpful assistant."), user("What is 2+2?")]
    assert str(dsv4.encode(messages)) == (
        f"{BOS}You are a helpful assistant.<｜User｜>What is 2+2?<｜Assistant｜><think>"
    )
