"""The renderer protocol of PrimeIntellect's `renderers`, met by the encoder and the parser.

    renderer = dsv4.compat.renderers.Renderer(dsv4.tokens.Tokenizer.load(), thinking=True)
    rendered = renderer.render(messages, tools=tools, add_generation_prompt=True)

Old reasoning is kept, so that a conversation that grows keeps its ids: `drop_thinking=True` gives
what the model sees in use, and then no turn can be bridged to the next.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from itertools import count
from typing import Any

from renderers import (
    ParsedResponse,
    ParsedToolCall,
    RenderedTokens,
    ToolCallParseStatus,
    extract_message_tool_names,
)

from dsv4 import types
from dsv4._completion.message import ToolCall, assemble
from dsv4._encode.encode import encode
from dsv4._encode.prompt import Piece, Prompt, without_final_header
from dsv4._format.dialects import dialect_named
from dsv4._parse.parser import StreamParser
from dsv4.tokens import IdParser, Tokenizer

# What comes from a message's own data. The markup of calls is the model's own too.
_BODY = ("caller", "model")


class Renderer:
    """Messages to ids and back. `options` are those of `dsv4.encode`, but for `tools`."""

    def __init__(self, tokenizer: Tokenizer, **options: Any) -> None:
        self._tokenizer = tokenizer
        self._options = {"drop_thinking": False, "dialect": tokenizer.dialect, **options}
        self._dialect = dialect_named(self._options["dialect"])

    @property
    def is_prefix_stable(self) -> bool:
        """Whether what was rendered stays when more messages follow."""
        thinks = self._options.get("thinking", True)
        return not (thinks and self._options["drop_thinking"])

    def render(
        self,
        messages: Sequence[Any],
        *,
        tools: Sequence[types.ToolInput] | None = None,
        add_generation_prompt: bool = False,
    ) -> RenderedTokens:
        """The ids of messages, and for each id whose it is and whether the model writes it."""
        return self._rendered([], self._prompt(messages, tools, add_generation_prompt), messages)

    def render_ids(
        self,
        messages: Sequence[Any],
        *,
        tools: Sequence[types.ToolInput] | None = None,
        add_generation_prompt: bool = False,
    ) -> list[int]:
        """Only the ids."""
        return self._tokenizer.encode(self._prompt(messages, tools, add_generation_prompt))

    def parse_response(
        self,
        token_ids: list[int],
        *,
        tools: Sequence[types.ToolInput] | None = None,
        prompt_ids: list[int] | None = None,
    ) -> ParsedResponse:
        """What the model wrote. Calls that were cut short are among its calls, and say so.

        Calls have ids, the same for the same completion: results that name them are put in the
        order of their calls by `bridge_to_next_turn`.
        """
        thinking = self._thinks_after(prompt_ids or [])
        ids = (f"call_{_digest(token_ids)}_{n}" for n in count())
        reader = StreamParser(
            thinking=thinking, tools=tools, dialect=self._dialect, new_id=lambda: next(ids)
        )
        parser = IdParser(self._tokenizer, reader)
        message = assemble([*parser.feed_ids(token_ids), *parser.finish()])
        ended = not thinking or self._special_id(self._dialect.tokens.think_end) in token_ids
        cut = ToolCallParseStatus.UNCLOSED_BLOCK
        return ParsedResponse(
            content=message.content or "",
            reasoning_content=message.reasoning or None,
            tool_calls=[
                *(_parsed(call, ToolCallParseStatus.OK) for call in message.tool_calls),
                *(_parsed(call, cut) for call in message.incomplete),
            ],
            reasoning_complete=ended,
        )

    def get_stop_token_ids(self) -> list[int]:
        """The end of a turn."""
        return [self._special_id(self._dialect.tokens.eos)]

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: Sequence[Any],
        *,
        tools: Sequence[types.ToolInput] | None = None,
    ) -> RenderedTokens | None:
        """The ids so far, as they were sampled, and what `new_messages` add to them.

        Results come in the order of the calls that they answer: by the ids of `parse_response`, or
        else by the names of the tools. None where the format would change what is there, as it
        does with other `tools`, or where a turn of the model is among the new messages.
        """
        if not self.is_prefix_stable or any(m["role"] == "assistant" for m in new_messages):
            return None
        if tools and not self._declares(previous_prompt_ids, tools):
            return None
        before = [*previous_prompt_ids, *previous_completion_ids]
        eos = self._special_id(self._dialect.tokens.eos)
        if before[-1:] != [eos]:
            before.append(eos)
        parsed = self.parse_response(
            previous_completion_ids, tools=tools, prompt_ids=previous_prompt_ids
        )
        answered = _answer_before(parsed.tool_calls, new_messages)
        after = encode(new_messages, context=[*_declaring(tools), answered], **self._options)
        return self._rendered(before, after, new_messages)

    def _rendered(
        self, before: list[int], prompt: Prompt, messages: Sequence[Any]
    ) -> RenderedTokens:
        """The ids of a prompt, behind some of which nothing is known."""
        owned, unknown = self._tokenizer.attributed(prompt), len(before)
        rendered = RenderedTokens(
            token_ids=before + owned.ids,
            message_indices=[-1] * unknown,
            sampled_mask=[False] * unknown,
            is_content=[False] * unknown,
            message_roles=[message["role"] for message in messages],
            message_tool_names=extract_message_tool_names(list(messages)),
        )
        for start, end, piece in owned:
            _attribute(rendered, piece, end - start)
        return rendered

    def _prompt(
        self, messages: Sequence[Any], tools: Sequence[types.ToolInput] | None, asks: bool
    ) -> Prompt:
        prompt = encode(messages, tools=tools, **self._options)
        return prompt if asks else without_final_header(prompt)

    def _declares(self, prompt_ids: list[int], tools: Sequence[types.ToolInput]) -> bool:
        """Whether a prompt has exactly these tools."""
        prompt = encode([{"role": "system", "content": ""}], tools=tools, **self._options)
        section = "".join(piece.text for piece in prompt.pieces if piece.field == "tools")
        return section in self._tokenizer.decode(prompt_ids)

    def _special_id(self, token: str) -> int:
        return self._tokenizer.with_dialect(self._dialect).special_id(token)

    def _thinks_after(self, prompt_ids: list[int]) -> bool:
        """Whether the model goes on by thinking: the last of these tokens says."""
        own = self._dialect.tokens
        start, end = self._special_id(own.think_start), self._special_id(own.think_end)
        last = next((id for id in reversed(prompt_ids) if id in (start, end)), None)
        return bool(self._options.get("thinking", True)) if last is None else last == start


def _declaring(tools: Sequence[types.ToolInput] | None) -> list[types.SystemMessageParam]:
    return [{"role": "system", "content": "", "tools": list(tools)}] if tools else []


def _answer_before(
    calls: Sequence[ParsedToolCall], new_messages: Sequence[Any]
) -> types.AssistantMessageParam:
    """The answer before the new messages, whose calls have the ids that the results name."""
    results = [message for message in new_messages if message["role"] == "tool"]
    unclaimed = [result.get("tool_call_id") for result in results]
    names = dict(zip(unclaimed, (result.get("name") for result in results), strict=True))
    listed: list[types.ToolCallParam] = []
    for call in calls:
        fitting = [id for id in unclaimed if id == call.id]
        fitting += [id for id in unclaimed if names[id] in (None, call.name)]
        if fitting:
            unclaimed.remove(fitting[0])
        id = str(fitting[0] if fitting else call.id)
        function: types.FunctionCallParam = {"name": call.name or "", "arguments": "{}"}
        listed.append({"id": id, "type": "function", "function": function})
    return {"role": "assistant", "content": "", "tool_calls": listed}


def _attribute(rendered: RenderedTokens, piece: Piece, count: int) -> None:
    rendered.message_indices += [-1 if piece.message is None else piece.message] * count
    rendered.sampled_mask += [piece.origin == "model"] * count
    rendered.is_content += [piece.origin in _BODY] * count


def _parsed(call: ToolCall, status: ToolCallParseStatus) -> ParsedToolCall:
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = call.arguments
    return ParsedToolCall(
        raw=call.arguments, name=call.name, arguments=arguments, status=status, id=call.id
    )


def _digest(ids: Sequence[int]) -> str:
    """A short text that tells completions apart."""
    return blake2b(repr(list(ids)).encode(), digest_size=6).hexdigest()
