"""Reading the sessions of pi, opencode and Qwen Code into Chat Completions.

A message also has its `place` among the entries. A summary that begins a conversation has
`kept_from`: messages of the conversation before are kept from that place on. An answer that was cut
is marked with `is_cut`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dsv4._inputs.agent_conversations import AgentConversation, Body
from dsv4._inputs.session_entries import Entry


def chat_conversations(
    agent: str,
    session: str,
    paths: Sequence[Sequence[Entry]],
    branch: str = "main",
    oldest_first: bool = False,
) -> list[AgentConversation]:
    """The conversations of a tree, and those that were compacted on the way, once each. Kept
    messages are placed before a summary (`oldest_first`), or after it."""
    found: list[AgentConversation] = []
    ends = set[int]()
    for n, path in enumerate(paths):
        *compacted, last = _windows(_without_retried(path), oldest_first)
        new = [one for one in compacted if one and one[-1]["place"] not in ends]
        ends.update(one[-1]["place"] for one in new)
        name = branch if n == len(paths) - 1 else "branch"
        named = [*[("compacted", one) for one in new], *([(name, last)] if last else [])]
        found += [AgentConversation(agent, session, kind, _body(one)) for kind, one in named]
    return found


def _without_retried(path: Sequence[Entry]) -> list[Entry]:
    """A path without the answers that were cut and immediately begun again: no later answer was
    written after them."""
    roles = [*(str(message["role"]) for message in path[1:]), ""]
    return [
        message
        for message, following in zip(path, roles, strict=False)
        if not ("is_cut" in message and following == "assistant")
    ]


def _windows(path: Sequence[Entry], oldest_first: bool) -> list[list[Entry]]:
    """The conversations that the model saw, one for each summary. Kept answers are not trained on
    here: they were written in another context, where they are trained on."""
    windows: list[list[Entry]] = [[]]
    for message in path:
        if "kept_from" in message:
            before = [each for each in windows[-1] if each["place"] >= message["kept_from"]]
            kept: list[Entry] = [untrained(each) for each in before]
            windows.append([*kept, message] if oldest_first else [message, *kept])
        else:
            windows[-1].append(message)
    return windows


_OWN_FIELDS = ("model", "place", "kept_from", "is_cut")


def _body(messages: Sequence[Entry]) -> Body:
    """The request that continues a conversation, with the model of its last answer."""
    models = [message["model"] for message in messages if message.get("model")]
    return {
        **({"model": models[-1]} if models else {}),
        "messages": [
            {name: value for name, value in message.items() if name not in _OWN_FIELDS}
            for message in messages
        ],
    }


def untrained(message: Entry) -> Body:
    return {**message, **({"weight": 0} if message["role"] == "assistant" else {})}


def unless_cut(answer: Body, is_cut: bool) -> Body | None:
    """An answer, which is not trained on if it was cut. None if it was cut and is empty."""
    if not is_cut:
        return answer
    says_something = answer["content"].strip() or answer.get("tool_calls")
    return {**untrained(answer), "is_cut": True} if says_something else None


def chat_call(id: object, name: object, arguments: object) -> Body:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def chat_answer(
    blocks: Sequence[Body], thoughts: Sequence[Any], calls: list[Body], model: object
) -> Body:
    texts = [block["text"] for block in blocks if block.get("type") == "text" and "text" in block]
    reasoning = "".join(text for text in thoughts if isinstance(text, str))
    return {
        "role": "assistant",
        "content": "".join(texts),
        **({"reasoning_content": reasoning} if reasoning else {}),
        **({"tool_calls": calls} if calls else {}),
        "model": model,
    }


def chat_content(blocks: Sequence[Body]) -> str | list[Body]:
    """Blocks as Chat has them. If all are texts, they are joined into one text."""
    found = [_block(block) for block in blocks]
    if all(block["type"] == "text" for block in found):
        return "\n".join(str(block["text"]) for block in found)
    return found


def _block(block: Body) -> Body:
    if block.get("type") == "image":
        url = f"data:{block.get('mimeType')};base64,{block.get('data')}"
        return {"type": "image_url", "image_url": {"url": url}}
    if block.get("type") == "image_url":
        return block
    return {"type": "text", "text": block.get("text", "")}
