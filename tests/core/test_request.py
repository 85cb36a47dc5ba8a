"""The native API's front door: messages, and what a request adds to them."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import pytest

import dsv4
from builders import BOS, assistant, function, openai_tool, system, text, user
from completions import block, calling
from dsv4 import EncodeError, OptionError, Request
from dsv4.request import RequestOptions

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


class Turning:
    """What can turn itself into a dict, as tools of the `openai` package do."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def to_dict(self) -> dict[str, Any]:
        return self._fields


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

    def test_they_join_those_that_the_system_message_has(self) -> None:
        f, g = function(), function("g")
        assert encode(system(tools=[g, f]), tools=[f]) == encode(system(tools=[f, g]))
        assert encode(user(), context=[system(tools=[g])], tools=[f]) == encode(
            user(), context=[system(tools=[f, g])]
        )

    def test_another_schema_under_the_same_name_is_refused(self) -> None:
        other = {**function(), "description": "another"}
        problem = "found another tool with the name 'weather' of the request, expected the same"
        assert error_of([user(), system(tools=[function("g"), other])], tools=[function()]) == (
            f"messages[1].tools[1]: {problem}"
        )

    @pytest.mark.parametrize("dialect", dsv4.DIALECTS)
    def test_a_later_system_message_takes_them_only_where_systems_have_no_token(
        self, dialect: str
    ) -> None:
        later = (user(), assistant(), system("Be brief."), user())
        in_front = encode(system("", tools=[function()]), *later, dialect=dialect)
        has_token = dsv4.DIALECTS[dialect].system_token is not None
        assert (encode(*later, tools=[function()], dialect=dialect) == in_front) is has_token

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


def refused(option: str, *messages: Any, **options: Any) -> str:
    """What is said of an option, whoever looks at it first."""
    with pytest.raises(OptionError) as caught:
        Request(list(messages) or [user()], **options)
    assert caught.value.location[0] == option
    with pytest.raises(OptionError) as again:
        dsv4.encode(list(messages) or [user()], **options)
    assert str(again.value) == str(caught.value)
    return str(caught.value)


class TestRequest:
    def test_encodes_as_the_short_way_does(self) -> None:
        options: dict[str, Any] = {"tools": [function()], "effort": "max", "prefix": "Well,"}
        request = Request([system(), user()], **options)
        assert request.encode() == dsv4.encode([system(), user()], **options)
        assert request.encode() == request.encode()

    def test_is_frozen(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            Request([user()]).thinking = False  # type: ignore[misc]

    def test_copies_nothing(self) -> None:
        messages, tools, context = [user()], [function()], [system()]
        request = Request(messages, tools=tools, context=context)
        assert request.messages is messages
        assert request.tools is tools
        assert request.context is context

    def test_what_can_be_read_once_is_read_once(self) -> None:
        request = Request(iter([user()]), tools=iter([function()]), stop=iter(["a"]))  # type: ignore[arg-type]
        assert (
            request.encode() == request.encode() == Request([user()], tools=[function()]).encode()
        )
        assert request.stop == ["a"]

    def test_messages_are_looked_at_when_they_are_encoded(self) -> None:
        request = Request([{"role": "wizard"}])
        with pytest.raises(EncodeError, match=r"^messages\[0\]\.role"):
            request.encode()
        with pytest.raises(EncodeError, match=r"^messages: found none"):
            Request([]).encode()

    def test_its_options_have_names_for_those_who_pass_them_on(self) -> None:
        fields = {field.name for field in dataclasses.fields(Request)} - {"messages"}
        assert set(RequestOptions.__annotations__) == fields


class TestTrusted:
    """Requests that are made without the constructor, from options that have been checked."""

    MESSAGES: ClassVar = [{"role": "user", "content": "Hi"}]

    def test_every_field_is_set(self) -> None:
        trusted = Request._trusted(self.MESSAGES, {})
        assert vars(trusted).keys() == {field.name for field in dataclasses.fields(Request)}

    @pytest.mark.parametrize("options", [{}, {"thinking": False, "effort": "max", "prefix": "x"}])
    def test_it_is_what_the_constructor_makes(self, options: dict[str, Any]) -> None:
        trusted = Request._trusted(self.MESSAGES, options)
        assert trusted == Request(self.MESSAGES, **options)
        assert trusted.encode() == Request(self.MESSAGES, **options).encode()

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            *(("thinking", 1), ("drop_thinking", None), ("bos", "yes"), ("effort", "extreme")),
            *(("dialect", "v5"), ("tools", "f"), ("tools", {"name": "f"}), ("tools", 3)),
            *(("response_format", "json"), ("prefix", 3), ("prefix", None)),
            *(("tool_choice", None), ("tool_choice", ""), ("tool_choice", 3)),
            *(("tool_choice", {}), ("tool_choice", {"type": "function"})),
        ],
    )
    def test_refuses_wrong_options(self, option: str, value: Any) -> None:
        assert "found" in refused(option, **{option: value})

    @pytest.mark.parametrize("stop", [3, [""], ["a", 3], None, {"a": 1}])
    def test_refuses_wrong_stop_strings(self, stop: Any) -> None:
        with pytest.raises(OptionError, match=r"^stop"):
            Request([user()], stop=stop)

    @pytest.mark.parametrize("thinking", [True, False])
    def test_its_parser_fits(self, thinking: bool) -> None:
        request = Request([user()], thinking=thinking, tools=[function("f")], stop="END")
        parser = request.parser()
        events = parser.feed("hm</think>Hello END more" if thinking else "Hello END more")
        message = dsv4.assemble([*events, *parser.finish()])
        assert message.content == "Hello "
        assert message.reasoning == ("hm" if thinking else "")

    @pytest.mark.parametrize(
        "request_",
        [
            Request([system(tools=[function("f")]), user()], thinking=False),
            Request([user()], context=[system(tools=[function("f")])], thinking=False),
            Request([user()], tools=[Turning(function("f"))], thinking=False),
        ],
    )
    def test_its_parser_knows_every_tool_that_the_prompt_shows(self, request_: Request) -> None:
        parser = request_.parser()
        events = parser.feed(block(calling("f")))
        message = dsv4.assemble([*events, *parser.finish()])
        assert [call.name for call in message.tool_calls] == ["f"]

    def test_its_parser_knows_no_tool_that_the_prompt_does_not_show(self) -> None:
        parser = Request([user(tools=[function("f")])], thinking=False).parser()
        events = parser.feed(calling("f"))
        assert dsv4.assemble([*events, *parser.finish()]).tool_calls == ()


class TestToolChoice:
    TOOLS = (openai_tool("f"), openai_tool("g"))
    NAMED: ClassVar[Any] = {"type": "function", "function": {"name": "f"}}
    BLOCK = "<｜Assistant｜></think>\n\n<｜DSML｜tool_calls>\n"

    def end(self, choice: Any, **options: Any) -> str:
        options = {"thinking": False, "tools": self.TOOLS, **options}
        return str(dsv4.encode([user()], tool_choice=choice, **options)).split("Hi")[-1]

    def test_auto_changes_nothing(self) -> None:
        assert self.end("auto") == "<｜Assistant｜></think>"

    def test_none_shows_no_tools(self) -> None:
        for messages in ([user()], [system(), user()]):
            shown = dsv4.encode(messages, tools=self.TOOLS, tool_choice="none")
            assert shown.text == dsv4.encode(messages).text
        own = [system(tools=list(self.TOOLS)), user(), assistant(reasoning="old"), user()]
        hidden = dsv4.encode(own, tool_choice="none")
        assert hidden.text == dsv4.encode([system(), *own[1:]]).text
        assert "old" not in hidden.text

    def test_required_opens_the_block(self) -> None:
        assert self.end("required") == self.BLOCK

    @pytest.mark.parametrize("choice", ["f", NAMED])
    def test_a_name_opens_the_call(self, choice: Any) -> None:
        assert self.end(choice) == self.BLOCK + '<｜DSML｜invoke name="f">\n'

    @pytest.mark.parametrize("name", ["auto", "none", "required"])
    def test_an_object_names_a_tool_that_has_the_name_of_a_mode(self, name: str) -> None:
        choice = {"type": "function", "function": {"name": name}}
        opened = self.end(choice, tools=[openai_tool(name)])
        assert opened == f'{self.BLOCK}<｜DSML｜invoke name="{name}">\n'
        with pytest.raises(dsv4.OptionError, match=f"found '{name}', expected one of the tools"):
            self.end(choice)

    @pytest.mark.parametrize("choice", ["required", "f", NAMED])
    def test_a_model_that_thinks_first_is_left_alone(self, choice: Any) -> None:
        assert self.end(choice, thinking=True) == "<｜Assistant｜><think>"

    def test_what_it_opens_is_real_and_the_prompts_own(self) -> None:
        prompt = dsv4.encode([user()], tools=self.TOOLS, tool_choice="f", thinking=False)
        opened = [p for p in prompt.pieces if p.field == "tool_calls"]
        assert [p.text for p in opened if p.special] == ["｜DSML｜"] * 2
        assert {(p.origin, p.message) for p in opened} == {("template", None)}
        assert prompt.ending == dsv4.Ending(
            "continue", '\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n'
        )

    def test_in_the_tags_of_the_dialect(self) -> None:
        assert self.end("f", dialect="v4.1").endswith(
            '\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n'
        )

    def test_tools_of_messages_count(self) -> None:
        messages = [system(tools=[openai_tool("f")]), user()]
        prompt = dsv4.encode(messages, tool_choice="f", thinking=False)
        assert prompt.text.endswith('invoke name="f">\n')
        rest = dsv4.encode(
            messages[1:], context=messages[:1], tool_choice="required", thinking=False
        )
        assert rest.text.endswith(self.BLOCK)

    def test_what_is_no_message_is_named_with_its_index(self) -> None:
        options: Any = {"tools": self.TOOLS, "tool_choice": "f"}
        assert error_of([system(), 5], **options).startswith("messages[1]: found 5")
        assert error_of([user()], context=[system(), 5], **options).startswith("context[1]: found")

    @pytest.mark.parametrize("thinking", [True, False])
    @pytest.mark.parametrize("choice", ["h", "required"])
    def test_a_tool_that_is_not_there(self, choice: str, thinking: bool) -> None:
        with pytest.raises(OptionError, match=r"^tool_choice: found '.*', expected it with tools"):
            dsv4.encode([user()], tool_choice=choice, thinking=thinking)
        if choice == "h":
            with pytest.raises(OptionError, match="expected one of the tools: f, g"):
                self.end(choice, thinking=thinking)

    def test_nothing_is_opened_where_nothing_is_asked(self) -> None:
        for messages in ([user(), assistant()], [user(task="query")], [system()]):
            options: Any = {"tools": self.TOOLS, "thinking": False}
            forced = dsv4.encode(messages, tool_choice="f", **options)
            assert forced.text == dsv4.encode(messages, **options).text


class TestPrefix:
    def test_is_written_after_the_header(self) -> None:
        assert encode(user(), prefix="Well,") == encode(user()) + "Well,"
        assert encode(user(), prefix="Well,", thinking=False).endswith("</think>Well,")

    def test_is_the_models(self) -> None:
        prompt = dsv4.encode([user()], prefix="hm</think>Well,")
        assert [(p.text, p.special, p.field) for p in prompt.pieces if p.origin == "model"] == [
            ("hm", False, "reasoning"),
            ("</think>", True, "reasoning"),
            ("Well,", False, "content"),
        ]
        assert prompt.ending == dsv4.Ending("continue", "hm</think>Well,", thinking=True)

    @pytest.mark.parametrize(
        "messages",
        [
            [user(), assistant("Hel", wo_eos=True)],
            [user(), assistant("Hel", prefix=True)],
            [user(), assistant()],
            [user(task="query")],
            [system()],
        ],
    )
    def test_only_where_an_answer_is_asked_for(self, messages: Any) -> None:
        with pytest.raises(OptionError, match=r"^prefix: found 'x', expected it only where"):
            dsv4.encode(messages, prefix="x")

    def test_not_with_a_call_that_must_be_made(self) -> None:
        options: Any = {"tools": [function("f")], "tool_choice": "f", "prefix": "x"}
        assert refused("prefix", thinking=False, **options) == (
            "prefix: found 'x' and a call that must be made, expected one of them"
        )
        assert encode(user(), **options).endswith("<think>x")
