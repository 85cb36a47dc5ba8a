"""Requests that the official API's own routes of Messages and Responses understand and Chat
Completions does not: tools that the API runs itself, files, reminders, formats of Responses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from dsv4.api.api_request import ProtocolName
from dsv4.api.request_content import BLANK_LINE
from dsv4.api.request_fields import JsonObject
from dsv4.errors import EncodeError
from dsv4.profiles.official_messages import is_web_tool
from dsv4.profiles.official_request import read_official
from dsv4.profiles.official_responses import CALLS, OUTPUTS
from dsv4.serve.heal.adapted_messages import (
    SPACE,
    ChatMessages,
    distinct_ids,
    each_changed,
    paired_results,
    with_value,
    without,
)
from dsv4.serve.heal.official_limits import (
    with_bounded_values,
    with_served_name,
    with_valid_schema,
)

ROUTES: Mapping[str, str] = {"messages": "/anthropic/v1/messages", "responses": "/responses"}
# Without this header, Messages reads no files.
FILES_HEADER: Mapping[str, str] = {"anthropic-beta": "files-api-2025-04-14"}
# Marks in the bytes of such a request. Few others have any of them, and those are examined.
_SIGNS = (b"web_search", b"deepseek_read_url", b"file_id", b"latest_reminder", b"json_schema")


def may_be_native(protocol: ProtocolName, data: bytes) -> bool:
    """Whether a request may need the API's own route, as its bytes show."""
    return protocol in ROUTES and any(sign in data for sign in _SIGNS)


def native_body(body: JsonObject, protocol: ProtocolName, keeps: bool = False) -> JsonObject | None:
    """The request as the API's own route takes it. None where Chat Completions can express the
    same, or where that route would refuse it in any form: the answer is passed on unchanged, so
    names in it could not be restored. For a gateway that `keeps` the response, a format that can be
    told to the model is not a reason."""
    is_needed, adapt = _KINDS[protocol]
    try:
        if body.get("previous_response_id") is not None or not is_needed(body, keeps):
            return None
        native = adapt(with_served_name(with_bounded_values(body)))
        read_official(native, protocol)
    except (EncodeError, AttributeError, KeyError, TypeError, ValueError):
        return None  # the path through Chat Completions reports the problem
    return native


def _parts(messages: Iterable[JsonObject]) -> Iterator[JsonObject]:
    for message in messages:
        content = message.get("content")
        yield from content if isinstance(content, list) else ()


# Messages. While a request is adapted, each result of a tool is a message of its own, as in Chat
# Completions; `blocks` are the rest.


def _needs_messages(body: JsonObject, keeps: bool) -> bool:
    messages = body["messages"]
    sources = (part.get("source") for part in _parts(messages))
    return (
        any(map(is_web_tool, body.get("tools") or ()))
        or any(isinstance(source, dict) and source.get("type") == "file" for source in sources)
        or any(message["role"] == "latest_reminder" for message in messages)
    )


def _messages_body(body: JsonObject) -> JsonObject:
    turns = [turn for message in body["messages"] for turn in _turns_of(message)]
    turns = list(paired_results(distinct_ids(turns)))
    new_body = {**body, "messages": list(_as_messages(_with_thoughts(turns, body)))}
    if tools := body.get("tools"):
        new_body["tools"] = each_changed(tools, _messages_tool)
    choice = body.get("tool_choice") or {}
    if not tools or choice.get("name", _name_of(tools[0])) not in map(_name_of, tools):
        new_body.pop("tool_choice", None)
    if stop := body.get("stop_sequences"):
        new_body["stop_sequences"] = with_bounded_values({"stop": stop})["stop"]
    return new_body


def _turns_of(message: JsonObject) -> Iterator[JsonObject]:
    role, content = message["role"], message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if role == "assistant":
        blocks = [block for block in blocks if block["type"] != "redacted_thinking"]
        calls = [block for block in blocks if block["type"] == "tool_use"]
        others = [block for block in blocks if block["type"] != "tool_use"]
        if blocks:
            yield {"role": role, "tool_calls": calls, "blocks": others}
        return
    for block in blocks:
        if block["type"] == "tool_result":
            about = {"tool_call_id": block["tool_use_id"], "content": block.get("content")}
            yield {"role": "tool", **about, "block": block}
    rest = [block for block in blocks if block["type"] != "tool_result"]
    if rest:
        yield {"role": role, "content": rest}


def _with_thoughts(turns: ChatMessages, body: JsonObject) -> ChatMessages:
    """The turns, with a thought added to each that the API requires one in."""
    if (body.get("thinking") or {}).get("type") == "disabled":
        return turns
    start = _behind_the_user(turns)
    return [*turns[:start], *map(_with_thought, turns[start:])]


def _behind_the_user(turns: ChatMessages) -> int:
    users = (n for n, turn in enumerate(turns) if turn["role"] == "user")
    return max(users, default=-1) + 1


def _with_thought(turn: JsonObject) -> JsonObject:
    if turn["role"] != "assistant" or any(b["type"] == "thinking" for b in turn["blocks"]):
        return turn
    thought = {"type": "thinking", "thinking": SPACE, "signature": ""}
    return {**turn, "blocks": [thought, *turn["blocks"]]}


def _as_messages(turns: ChatMessages) -> Iterator[JsonObject]:
    """The turns as messages again: results are the user's, and a turn's own blocks come first."""
    for is_result, group in groupby(turns, lambda turn: turn["role"] == "tool"):
        if is_result:
            yield {"role": "user", "content": list(map(_result_block, group))}
            continue
        for turn in group:
            content = turn.get("content")
            if turn["role"] == "assistant":
                content = [*turn["blocks"], *turn.get("tool_calls", ())]
            yield {"role": turn["role"], "content": content}


def _result_block(turn: JsonObject) -> JsonObject:
    block = turn.get("block") or {"type": "tool_result", "content": ""}
    return with_value(block, "tool_use_id", turn["tool_call_id"])


def _name_of(tool: JsonObject) -> object:
    return tool.get("name")


def _messages_tool(tool: JsonObject) -> JsonObject:
    if is_web_tool(tool) or tool.get("type", "custom") != "custom":
        return tool
    parameters = with_valid_schema({"parameters": tool.get("input_schema")})["parameters"]
    return with_value(without(tool, "type"), "input_schema", parameters or {"type": "object"})


# Responses. While a request is adapted, the items of one turn are a message.


def _needs_responses(body: JsonObject, keeps: bool) -> bool:
    given = body.get("input")
    items = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
    form = (body.get("text") or {}).get("format") or {}
    kinds = [str(tool.get("type")) for tool in body.get("tools") or ()]
    return (
        any(kind.startswith(("web_search", "deepseek_")) for kind in kinds)
        or any("file_id" in part for part in _parts(items))
        or (form.get("type") == "json_schema" and not keeps)
    )


def _responses_body(body: JsonObject) -> JsonObject:
    new_body = dict(body)
    length = body.get("max_output_tokens")
    if length is not None:
        bounded = with_bounded_values({"max_tokens": length})
        new_body["max_output_tokens"] = bounded["max_tokens"]
    if tools := body.get("tools"):
        new_body["tools"] = each_changed(tools, _responses_tool)
    if isinstance(body.get("input"), list):
        turns = list(_turns_of_items(body["input"]))
        turns = list(paired_results(distinct_ids(turns, everywhere=True)))
        if (body.get("reasoning") or {}).get("effort") != "none":
            start = _behind_the_user(turns)
            turns = [*turns[:start], *map(_with_reasoning, turns[start:])]
        new_body["input"] = [item for turn in turns for item in _items_of(turn)]
    return new_body


def _turns_of_items(items: Sequence[JsonObject]) -> Iterator[JsonObject]:
    for answers, group in groupby(map(_readable_item, items), _is_of_answer):
        if answers:
            own = list(group)
            calls = [{**item, "id": item["call_id"]} for item in own if item.get("type") in CALLS]
            others = [item for item in own if item.get("type") not in CALLS]
            yield {"role": "assistant", "tool_calls": calls, "items": others}
            continue
        for item in group:
            if item.get("type") in OUTPUTS:
                about = {"tool_call_id": item["call_id"], "content": item.get("output")}
                yield {"role": "tool", **about, "item": item}
            else:
                role = "user" if item.get("role") == "developer" else item.get("role")
                yield {"role": role or "other", "item": item}


def _readable_item(item: JsonObject) -> JsonObject:
    """An item whose refusals are texts, because the API reads no others."""
    parts = item.get("content")
    if not isinstance(parts, list):
        return item
    return with_value(item, "content", each_changed(parts, _text_part))


def _text_part(part: JsonObject) -> JsonObject:
    if not isinstance(part, dict) or part.get("type") != "refusal":
        return part
    return {"type": "output_text", "text": str(part.get("refusal") or "")}


def _is_of_answer(item: JsonObject) -> bool:
    kind = item.get("type")
    return kind in CALLS or kind == "reasoning" or item.get("role") == "assistant"


def _with_reasoning(turn: JsonObject) -> JsonObject:
    if turn["role"] != "assistant":
        return turn
    items = turn["items"]
    thoughts = [item for item in items if item.get("type") == "reasoning"]
    if any(item.get("content") for item in thoughts):
        return turn
    summaries = [part.get("text") or "" for item in thoughts for part in item.get("summary") or ()]
    text = {"type": "reasoning_text", "text": BLANK_LINE.join(summaries) or SPACE}
    thought = {"type": "reasoning", "summary": [], "content": [text]}
    return {**turn, "items": [thought, *(item for item in items if item not in thoughts)]}


def _items_of(turn: JsonObject) -> Iterator[JsonObject]:
    if turn["role"] == "tool":
        item = turn.get("item") or {"type": "function_call_output", "output": ""}
        yield with_value(item, "call_id", turn["tool_call_id"])
    elif turn["role"] == "assistant":
        yield from turn["items"]
        for call in turn["tool_calls"]:
            yield {**without(call, "id"), "call_id": call["id"]}
    else:
        yield turn.get("item") or {"role": "user", "content": turn["content"]}


def _responses_tool(tool: JsonObject) -> JsonObject:
    """A tool that is not strict, because the API accepts few requests with strict tools."""
    if tool.get("type") == "namespace":
        return with_value(tool, "tools", each_changed(tool["tools"], _responses_tool))
    return with_valid_schema(without(tool, "strict")) if tool.get("type") == "function" else tool


_KINDS: Mapping[str, tuple[Callable[[Any, bool], bool], Callable[[JsonObject], JsonObject]]] = {
    "messages": (_needs_messages, _messages_body),
    "responses": (_needs_responses, _responses_body),
}
