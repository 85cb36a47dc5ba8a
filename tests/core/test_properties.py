"""What holds for every conversation."""

from __future__ import annotations

import copy
import re
from itertools import accumulate
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

import dsv4
import encoding_dsv4
from builders import Message
from dsv4.compat import vllm
from strategies import (
    conversations,
    damaged,
    dialects,
    fitting,
    json_objects,
    junk,
    options,
    tools,
)

any_options = dialects.flatmap(options)
contexts = st.just([]) | conversations


def fitted(messages: list[Message], named: dict[str, Any]) -> list[Message]:
    """Some messages that the options' dialect can write."""
    fits = fitting(messages, named["dialect"])
    assume(fits)
    return fits


class TestPieces:
    @given(conversations, contexts, any_options)
    def test_tile_the_prompt(
        self, messages: list[Message], context: list[Message], named: dict[str, Any]
    ) -> None:
        messages = fitted(messages, named)
        prompt = dsv4.encode(messages, context=context, **named)
        assert "".join(piece.text for piece in prompt.pieces) == str(prompt)
        assert all(piece.text for piece in prompt.pieces)

    @given(conversations, any_options)
    def test_belong_to_the_message_they_came_from(
        self, messages: list[Message], named: dict[str, Any]
    ) -> None:
        messages = fitted(messages, named)
        for piece in dsv4.encode(messages, **named).pieces:
            if piece.origin == "template":
                continue
            assert piece.message is not None
            role = messages[piece.message]["role"]
            assert (piece.origin == "model") == (role == "assistant")
            if piece.origin == "caller" and piece.field == "content":
                assert piece.text == messages[piece.message]["content"]

    @given(conversations, any_options)
    def test_special_text_is_never_a_special_piece(
        self, messages: list[Message], named: dict[str, Any]
    ) -> None:
        messages = fitted(messages, named)
        prompt = dsv4.encode(messages, **named)
        ends = list(accumulate(len(piece.text) for piece in prompt.pieces))
        real = {
            place
            for piece, end in zip(prompt.pieces, ends, strict=True)
            for place in range(end - len(piece.text), end)
            if piece.special
        }
        for start, end in prompt.special_text:
            assert str(prompt)[start:end] in prompt.dialect.special_tokens
            assert not real & set(range(start, end))


class TestArguments:
    @given(conversations, contexts, tools, json_objects, any_options)
    def test_encoding_leaves_them_as_they_are(
        self,
        messages: list[Message],
        context: list[Message],
        tools: list[Any],
        response_format: dict[str, Any],
        named: dict[str, Any],
    ) -> None:
        named = {**named, "tools": tools, "response_format": response_format}
        before = copy.deepcopy((messages, context, named))
        result_or_error(dsv4.encode, messages, context=context, **named)
        result_or_error(encoding_dsv4.encode_messages, messages, "thinking", context)
        assert repr((messages, context, named)) == repr(before)

    @given(conversations, any_options)
    def test_equal_ones_give_equal_prompts(
        self, messages: list[Message], named: dict[str, Any]
    ) -> None:
        messages = fitted(messages, named)
        first = dsv4.encode(messages, **named)
        second = dsv4.encode(copy.deepcopy(messages), **named)
        assert (str(first), first.pieces) == (str(second), second.pieces)


class TestContext:
    """A prompt can be written in two parts, wherever nothing reaches across the cut."""

    @given(st.data(), conversations, any_options)
    def test_a_prompt_is_that_of_its_start_and_that_of_the_rest(
        self, data: st.DataObject, messages: list[Message], named: dict[str, Any]
    ) -> None:
        messages = fitted(messages, named)
        cuts = [n for n in range(1, len(messages)) if is_clean(messages, n, named)]
        assume(cuts)
        cut = data.draw(st.sampled_from(cuts))
        start, rest = messages[:cut], messages[cut:]
        whole = str(dsv4.encode(messages, **named))
        assert whole == str(dsv4.encode(start, **named)) + str(
            dsv4.encode(rest, context=start, **named)
        )


def is_clean(messages: list[Message], cut: int, named: dict[str, Any]) -> bool:
    """Whether nothing is merged or dropped across a cut, and no question is cut from its answer."""
    later_systems_ask = dsv4.DIALECTS[named["dialect"]].systems_ask == "later"
    start, rest = messages[:cut], messages[cut:]

    def asks(message: Message, first: bool = False) -> bool:
        if message["role"] == "system":
            return later_systems_ask and not first
        return message["role"] in ("user", "tool", "developer")

    asked = asks(start[-1], first=cut == 1) or start[-1].get("task") is not None
    if asked and rest[0]["role"] not in ("assistant", "latest_reminder"):
        return False
    drops = named.get("thinking", True) and named.get("drop_thinking", True)
    if not drops or any(message.get("tools") for message in start):
        return True
    # What is dropped then is dropped before the last question, which stands before the cut.
    return not any(asks(message) or message.get("tools") for message in rest)


class TestNames:
    """The native API and the released names write the same."""

    @given(conversations, contexts, options("v4"))
    def test_native_is_released(
        self, messages: list[Message], context: list[Message], named: dict[str, Any]
    ) -> None:
        # With a developer in the context the released function may pass over new turns.
        assume(not any(message["role"] == "developer" for message in context))
        released = encoding_dsv4.encode_messages(
            messages,
            "thinking" if named.get("thinking", True) else "chat",
            context,
            named.get("drop_thinking", True),
            named.get("bos", True),
            named.get("effort"),
        )
        assert released == str(dsv4.encode(messages, context=context, **named))


class TestErrors:
    """Whatever is given, there is a result, or an error that says where and what."""

    any_messages = st.one_of(damaged(conversations), st.lists(junk, max_size=3), junk)
    any_value = st.one_of(junk, st.sampled_from([True, False, "v4", "v4.1", "max", 1]))
    settings = st.dictionaries(
        st.sampled_from(
            ["tools", "response_format", "thinking", "effort", "drop_thinking", "bos", "dialect"]
        ),
        any_value,
        max_size=2,
    )

    @given(any_messages, any_messages, settings)
    def test_native(self, messages: Any, context: Any, named: dict[str, Any]) -> None:
        result_or_error(dsv4.encode, messages, context=context, **named)

    @given(any_messages, dialects)
    def test_every_dialect(self, messages: Any, dialect: str) -> None:
        prompt = result_or_error(dsv4.encode, messages, dialect=dialect)
        if prompt is not None:
            assert "".join(piece.text for piece in prompt.pieces) == str(prompt)

    @given(any_messages, any_messages, st.sampled_from(["chat", "thinking"]) | junk, junk)
    def test_released(self, messages: Any, context: Any, mode: Any, effort: Any) -> None:
        for module in (encoding_dsv4, vllm):
            result_or_error(module.encode_messages, messages, mode, context)
            result_or_error(module.encode_messages, messages, mode, reasoning_effort=effort)
            result_or_error(module.render_message, 0, messages, mode)


PROBLEM = re.compile("found .*(expected|not valid JSON)|cannot be written as JSON", re.DOTALL)


def result_or_error(function: Any, *args: Any, **named: Any) -> Any:
    """The result, or None for an error that is as errors must be. Any other error is passed on."""
    try:
        return function(*args, **named)
    except (dsv4.EncodeError, dsv4.OptionError) as error:
        if error.path and re.search(
            r"found .*expected|is not valid JSON|written as JSON", str(error)
        ):
            return None
        raise
