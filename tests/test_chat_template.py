"""The chat template, rendered by `transformers` itself: the encoder's bytes, or an error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import dsv4
from builders import (
    EOS,
    Message,
    assistant,
    call,
    calling,
    function,
    image,
    openai_tool,
    result,
    system,
    text,
    user,
    vectors,
)
from dsv4.compat import chat_template
from parts import part
from rows import each_row
from strategies import conversations, damaged, json_objects, options, tools
from transformers_names import (
    Case,
    has_string_arguments,
    is_native,
    needs_transformers,
    new_tokenizer,
    template_options,
    with_objects,
)

pytestmark = needs_transformers

VECTORS = vectors("encode-v4.jsonl")
WITH_CONTEXT = [case for case in VECTORS if case["options"].get("context")]
REFUSED = [case for case in VECTORS if is_native(case) and "error" in case]
SUPPORTED = [case for case in VECTORS if is_native(case) and "error" not in case]
AS_GIVEN = [case for case in SUPPORTED if not has_string_arguments(case["messages"])]
WITH_STRINGS = [case for case in SUPPORTED if has_string_arguments(case["messages"])]

_tokenizers: list[Any] = []


def render(messages: Any, add_generation_prompt: bool = True, **named: Any) -> str:
    if not _tokenizers:
        _tokenizers.append(new_tokenizer())
        _tokenizers[0].chat_template = chat_template()
    named = {"tokenize": False, "add_generation_prompt": add_generation_prompt, **named}
    rendered = _tokenizers[0].apply_chat_template(messages, **named)
    assert isinstance(rendered, str)
    return rendered


def refusal(*messages: Any, **named: Any) -> str:
    from jinja2.exceptions import TemplateError

    with pytest.raises(TemplateError) as caught:
        render(list(messages), **named)
    return str(caught.value)


class TestVectors:
    def test_how_many_there_are(self) -> None:
        # The other three: no messages, a mode of an unknown name, an unknown role that vanishes.
        assert len(VECTORS) == 217
        assert (len(WITH_CONTEXT), len(REFUSED), len(SUPPORTED)) == (14, 10, 190)
        assert (len(AS_GIVEN), len(WITH_STRINGS)) == (67, 123)

    @each_row("case", part(AS_GIVEN, 12))
    def test_as_given(self, case: Case) -> None:
        assert render(case["messages"], **template_options(case)) == case["prompt"]

    @each_row("case", part(WITH_STRINGS, 16))
    def test_with_arguments_as_objects(self, case: Case) -> None:
        assert render(with_objects(case["messages"]), **template_options(case)) == case["prompt"]

    @each_row("case", part(WITH_STRINGS, 16))
    def test_arguments_as_strings_are_refused(self, case: Case) -> None:
        problem = refusal(*case["messages"], **template_options(case))
        assert "function.arguments: found a string, expected the object" in problem

    @each_row("case", REFUSED)
    def test_errors(self, case: Case) -> None:
        refusal(*case["messages"], **template_options(case))

    @each_row("case", WITH_CONTEXT)
    def test_context_is_refused(self, case: Case) -> None:
        problem = refusal(*case["messages"], **template_options(case))
        assert problem == "context: a chat template writes whole prompts"


OTHER_NAMES = {"effort": "reasoning_effort", "bos": "add_default_bos_token"}


def renamed(named: dict[str, Any]) -> dict[str, Any]:
    return {OTHER_NAMES.get(name, name): value for name, value in named.items()}


def maybe_encoded(messages: Any, **named: Any) -> str | None:
    try:
        return str(dsv4.encode(messages, **named))
    except dsv4.EncodeError:
        return None


def maybe_rendered(messages: Any, **named: Any) -> str | None:
    from jinja2.exceptions import TemplateError

    try:
        return render(messages, **renamed(named))
    except (TemplateError, TypeError, ValueError):
        return None
    except AttributeError:  # transformers' own, before the template: a message that is no object
        assert not all(isinstance(message, dict) for message in messages)
        return None


def v4_options() -> st.SearchStrategy[dict[str, Any]]:
    return options("v4").map(lambda named: {n: v for n, v in named.items() if n != "dialect"})


maybe_tools = st.none() | tools
maybe_schema = st.none() | json_objects


class TestEveryConversation:
    @given(conversations, v4_options(), maybe_tools, maybe_schema)
    def test_is_as_encoded(
        self, messages: list[Message], named: dict[str, Any], listed: Any, schema: Any
    ) -> None:
        messages, named = (
            with_objects(messages),
            {"tools": listed, "response_format": schema} | named,
        )
        assert maybe_rendered(messages, **named) == maybe_encoded(messages, **named)

    @given(damaged(conversations), v4_options(), maybe_tools, maybe_schema)
    @example([None], {}, None, None)
    @example([[None]], {}, None, None)
    def test_is_as_encoded_or_refused(
        self, messages: Any, named: dict[str, Any], listed: Any, schema: Any
    ) -> None:
        try:
            messages = json.loads(json.dumps(messages))
        except TypeError:
            assume(False)
        named |= {"tools": listed, "response_format": schema}
        rendered = maybe_rendered(messages, **named)
        assert rendered is None or rendered == maybe_encoded(messages, **named)


class TestOptions:
    def test_thinking_has_two_names(self) -> None:
        thinks, answers = (str(dsv4.encode([user()], thinking=t)) for t in (True, False))
        assert render([user()]) == render([user()], thinking=None) == thinks
        for name in ("thinking", "enable_thinking"):
            assert render([user()], **{name: True}) == thinks
            assert render([user()], **{name: False}) == answers
        assert render([user()], thinking=False, enable_thinking=False) == answers
        assert "expected one of them" in refusal(user(), thinking=False, enable_thinking=True)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("thinking", "yes"),
            ("enable_thinking", 0),
            ("drop_thinking", "no"),
            ("reasoning_effort", "none"),
            ("reasoning_effort", "low"),
            ("thinking_mode", "chat"),
            ("documents", [{"title": "a", "text": "b"}]),
            ("response_format", []),
            ("response_format", {"type": "json_schema"}),
        ],
    )
    def test_values_that_mean_nothing(self, name: str, value: Any) -> None:
        assert name.removeprefix("enable_") in refusal(user(), **{name: value}).split(": ")[0]

    @pytest.mark.parametrize(
        "listed", [[openai_tool()], [function()], [openai_tool(), function("g")]]
    )
    @pytest.mark.parametrize("messages", [[user()], [system(), user()], [user(), system()]])
    def test_tools_of_the_request(self, listed: Any, messages: Any) -> None:
        assert render(messages, tools=listed) == str(dsv4.encode(messages, tools=listed))

    def test_tools_keep_reasoning(self) -> None:
        messages = [user(), assistant(reasoning="hm"), user()]
        assert "hm" not in render(messages)
        assert "hm" in render(messages, tools=[openai_tool()])
        assert "hm" not in render(messages, tools=[])

    def test_tools_of_the_request_join_those_of_the_system_message(self) -> None:
        messages, listed = [system(tools=[function("g"), function()]), user()], [function()]
        assert render(messages, tools=listed) == str(dsv4.encode(messages, tools=listed))

    @pytest.mark.parametrize(
        ("field", "own"),
        [("tools", [function(strict=True)]), ("response_format", {"type": "string"})],
    )
    def test_what_cannot_be_joined(self, field: str, own: Any) -> None:
        given = {"tools": [function()], "response_format": {"type": "string"}}[field]
        assert refusal(system(**{field: own}), user(), **{field: given}).startswith("messages[0]")

    @pytest.mark.parametrize(
        "given",
        [
            {"type": "object"},
            {"type": "text"},
            {"type": "json_object"},
            {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "string"}}},
            {"b": "<é&'", "a": [1.0, None, True, float("nan")]},
        ],
    )
    def test_response_format(self, given: Any) -> None:
        assert render([user()], response_format=given) == str(
            dsv4.encode([user()], response_format=given)
        )

    def test_the_header_is_written_on_request(self) -> None:
        asked = render([system(), user("Hi")])
        assert render([system(), user("Hi")], False) + "<｜Assistant｜><think>" == asked
        tasked = [user(task="query")]
        assert render(tasked, False) == render(tasked)
        assert render([user(), assistant()], False) == render([user(), assistant()])


class TestMessages:
    @pytest.mark.parametrize("content", [None, "", [], [text("a"), "b", text(None)]])
    def test_content(self, content: Any) -> None:
        messages = [system(content), user(content), assistant(content), result(content)]
        assert render(messages) == str(dsv4.encode(messages))

    def test_an_image_is_refused(self) -> None:
        assert "messages[0].content[1]" in refusal(user([text("a"), image()]))

    def test_an_image_in_a_result_is_named(self) -> None:
        messages = [result([text("a"), image()])]
        assert render(messages) == str(dsv4.encode(messages))

    @pytest.mark.parametrize("field", ["wo_eos", "prefix"])
    def test_an_open_end(self, field: str) -> None:
        assert render([user(), assistant("Hel", **{field: True})]).endswith("Hel")
        assert render([user(), assistant("Hel", **{field: False})]).endswith(EOS)

    def test_the_url_of_a_task(self) -> None:
        messages = [user(task="read_url", extracted_url="https://a.example")]
        assert render(messages) == str(dsv4.encode(messages))
        assert "extracted_url" in refusal(user(task="read_url", extracted_url=""))

    @pytest.mark.parametrize("arguments", [None, {}, {"a": 1.0, "b": "<é>", "c": {"ü": [None]}}])
    def test_arguments(self, arguments: Any) -> None:
        messages = [user(), calling(call("f", arguments))]
        assert render(messages) == str(dsv4.encode(messages))

    @pytest.mark.parametrize("field", [True, "content"])
    def test_continuing_an_answer(self, field: Any) -> None:
        messages = [user(), assistant("Hel ", reasoning_content="hm")]
        opened = [*messages[:-1], {**messages[-1], "wo_eos": True}]
        rendered = render(messages, False, continue_final_message=field)
        assert rendered == str(dsv4.encode(opened))

    def test_continuing_reasoning(self) -> None:
        messages = [user("Hi"), assistant("", reasoning_content="hm")]
        rendered = render(messages, False, continue_final_message="reasoning_content")
        assert rendered.endswith("<｜User｜>Hi<｜Assistant｜><think>hm")


def test_the_assistants_part_is_marked() -> None:
    messages = [user("Hi"), assistant("Hello", reasoning="hm"), user("Hi")]
    render(messages)
    encoded = _tokenizers[0].apply_chat_template(
        messages, drop_thinking=False, return_assistant_tokens_mask=True
    )
    marked = [
        id
        for id, mask in zip(encoded["input_ids"], encoded["assistant_masks"], strict=True)
        if mask
    ]
    assert _tokenizers[0].decode(marked) == f"hm</think>Hello{EOS}"
