"""`transformers`' `parse_response`: from what the model wrote to a message, in its shape."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from dsv4._format import tokens
from dsv4._format.dialects import NAME_END, STRING_FALSE, STRING_TRUE, Dialect, dialect_named
from dsv4.compat.hf_objects import as_schema, tokenizer_over
from dsv4.parsing.message import Message, assemble
from dsv4.parsing.parser import StreamParser


def parse_response(
    tokenizer: Any,
    response: Any,
    *,
    prefix: Any = None,
    tools: Iterable[Any] | None = None,
    dialect: str | Dialect | None = None,
) -> Any:
    """The message that a model wrote, or a list of them for a batch.

    `tokenizer` is a fast tokenizer of `transformers`. `response` is text or ids, one or a batch of
    them; `prefix` the prompt before it, likewise: it says whether the model was to think. `tools`
    are those that may be called, None for any. `dialect` is the one whose markup is expected, None
    for all. Returns dicts with `role`, `content`, and where there are any `reasoning_content` and
    `tool_calls`, arguments as objects. Malformed calls are read as `dsv4.parse` reads them; nothing
    is raised for them.
    """
    responses, batched = _rows(response)
    prefixes, one_each = _rows([] if prefix is None else prefix)
    if not one_each or len(prefixes) != len(responses):
        prefixes = prefixes[:1] * len(responses)
    listed = None if tools is None else list(tools)
    parsed = [
        _message(tokenizer, row, before, listed, dialect)
        for row, before in zip(responses, prefixes, strict=True)
    ]
    return parsed if batched else parsed[0]


def _rows(given: Any) -> tuple[list[Any], bool]:
    """Texts or lists of ids, and whether there were many."""
    given = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(given, (list, tuple)) and given and not isinstance(given[0], int):
        return list(given), True
    return [given], False


def _message(
    tokenizer: Any, response: Any, prefix: Any, tools: list[Any] | None, dialect: Any
) -> dict[str, Any]:
    from dsv4.tokens import IdParser

    ours = tokenizer_over(tokenizer)
    before = prefix if isinstance(prefix, str) else ours.decode(prefix)
    reader = StreamParser(
        thinking=_thinks(before, response if isinstance(response, str) else ours.decode(response)),
        tools=None if tools is None else [as_schema(tool) for tool in tools],
        dialect=dialect,
    )
    parser = IdParser(ours, reader)
    feed = parser.feed if isinstance(response, str) else parser.feed_ids
    return _as_transformers(assemble([*feed(response), *parser.finish()]))


def _thinks(prefix: str, response: str) -> bool:
    """Whether the model began by thinking: the prompt says, or else what came out of it."""
    _, header, after = prefix.rpartition(tokens.ASSISTANT)
    if header:
        return tokens.THINK_END not in after
    return tokens.THINK_END in response


def _as_transformers(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": "assistant", "content": message.content or ""}
    if message.reasoning:
        fields["reasoning_content"] = message.reasoning
    if message.tool_calls:
        fields["tool_calls"] = [
            {
                "type": "function",
                "function": {"name": call.name, "arguments": json.loads(call.arguments)},
            }
            for call in message.tool_calls
        ]
    return fields


def response_template(dialect: str | Dialect) -> dict[str, Any]:
    """A `response_template` of `transformers`: well-formed answers, read without dsv4.

    `dialect` is a dialect or its name. In such a template a parameter is read as JSON where it can
    be, whatever the model said of its type; with tools, their schemas decide.
    """
    tags = dialect_named(dialect).tags
    block_open, block_close = re.escape(tags.block_open), re.escape(tags.block_close)
    invoke_open, name_end = re.escape(tags.invoke_open), re.escape(NAME_END)
    written = (re.escape(STRING_TRUE), re.escape(STRING_FALSE))
    value = f"(?:{'|'.join(written)})(?P<value>.*?){re.escape(tags.parameter_close)}"
    return {
        "defaults": {"role": "assistant"},
        "start_anchor_pattern": f"{re.escape(tokens.ASSISTANT)}(?:{tokens.THINK_END})?",
        "fields": {
            "reasoning_content": {
                "open": str(tokens.THINK_START),
                "close": str(tokens.THINK_END),
                "content": "text",
            },
            "tool_calls": {
                "open_pattern": f"(?:{block_open}|\n)?{invoke_open}(?P<name>[^\n]*?){name_end}",
                "close_pattern": f"{re.escape(tags.invoke_close)}(?:{block_close})?",
                "repeats": True,
                "content": "xml-inline",
                "content_args": {
                    "tag_pattern": f"{re.escape(tags.parameter_open)}(?P<key>.*?){value}",
                    "value_parser": {"name": "json", "args": {"allow_non_json": True}},
                },
                "transform": {
                    "type": "function",
                    "function": {"name": "{name}", "arguments": "{content}"},
                },
            },
            "content": {
                "close": str(tokens.EOS),
                "content": "text",
            },
        },
    }
