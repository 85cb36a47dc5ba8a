"""Rows of texts and images, for trainers that compute the ids of examples with images themselves.

TRL's collator reads `prompt`, `completion` and `images`, which it gives to the model's processor.
ms-swift reads `messages`, `images` and `tools`, in the form that its documentation calls standard.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from dsv4._check.findings import CheckedConversation
from dsv4._encode.prompt import Piece, Prompt
from dsv4._format.tokens import THINK_END, THINK_START
from dsv4.dataset.output_formats import AnswerExample
from dsv4.errors import EncodeError, short_repr
from dsv4.request import Request
from dsv4.tokens.masks import AttributedIds


@dataclass(frozen=True)
class PicturedExample:
    """An example before it becomes rows of texts. If it was cut, `owned` continues after the last
    of `ids`; `images` are addresses, in the order of the prompt."""

    request: Request
    prompt: Prompt
    owned: AttributedIds
    ids: list[int]
    mask: list[int]
    images: list[str]

    def pieces_until(self, token: int) -> list[Piece]:
        return self.owned.pieces[: bisect_right(self.owned.ends, token)]

    def images_in(self, pieces: Sequence[Piece]) -> list[str]:
        return self.images[: sum(piece.field == "image" for piece in pieces)]


def check_spelled_tokens(prompt: Prompt) -> None:
    """Raises if a trainer that reads texts would read a text as a special token."""
    if prompt.special_text:
        start, end = prompt.special_text[0]
        spelled = str(prompt)[start:end]
        problem = f"found {spelled} in a text, which the trainer's tokenizer takes for the token"
        raise EncodeError(("messages",), problem)


# TRL: each run of the model's output as a completion, with everything before it as the prompt.


def _completion_rows(example: PicturedExample) -> Iterator[AnswerExample]:
    for start, end in _trained_stretches(example.mask):
        before, until = example.pieces_until(start), example.pieces_until(end)
        _check_borders(example.owned, start, len(before))
        _check_borders(example.owned, end, len(until))
        texts = {
            "prompt": _joined(before),
            "completion": _joined(until[len(before) :]),
            "images": example.images_in(before),
        }
        answer = example.ids[start:end], example.mask[start:end]
        yield AnswerExample(example.ids[:start], {"completion": answer}, texts=texts)


def _trained_stretches(mask: Sequence[int]) -> Iterator[tuple[int, int]]:
    end = 0
    for trained, run in groupby(mask):
        start, end = end, end + len(list(run))
        if trained:
            yield start, end


def _check_borders(owned: AttributedIds, token: int, count: int) -> None:
    """Raises unless texts that are split after `count` pieces have the same ids as the whole, which
    holds next to a special token."""
    is_whole = (owned.ends[count - 1] if count else 0) == token
    if not is_whole or not any(piece.special for piece in owned.pieces[max(count - 1, 0) :][:2]):
        problem = "found a mask that begins or ends within a text"
        raise EncodeError(("messages",), f"{problem}: expected whole answers (--policy assistant)")


def _joined(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


# ms-swift: messages, with a tag for each image.

IMAGE_TAG = "<image>"
# Tags that ms-swift replaces anywhere in a text.
_TAGS = (
    IMAGE_TAG,
    "<video>",
    "<audio>",
    "<bbox>",
    "<ref-object>",
    "<cot-process>",
    "<start-image>",
)
_ROLES = ("system", "user", "assistant", "tool")
_SHOWN_FIELDS = ("content", "separator", "image")
_CALLER_FIELDS = ("content", "tools")


def _message_row(example: PicturedExample) -> Iterator[AnswerExample]:
    conversation = CheckedConversation(example.request, example.prompt)
    pieces = example.pieces_until(len(example.ids))
    _check_expressible(conversation, pieces)
    written: dict[int, list[Piece]] = {}
    for piece in pieces:
        if piece.message is not None:
            written.setdefault(piece.message, []).append(piece)
    weights = _weights_of_turns(example)
    messages: list[dict[str, Any]] = []
    for index, own in written.items():
        role = conversation.role(index)
        if role == "assistant":
            loss = _is_trained(weights.get(index, set()), index)
            messages += ({**each, "loss": loss} for each in _turn(conversation, index, own))
        else:
            messages.append({"role": role, "content": _shown_text(own)})
    has_tools = any(piece.field == "tools" for piece in pieces)
    texts = {
        "messages": messages,
        "images": example.images_in(pieces),
        "tools": _tools_text(conversation) if has_tools else None,
    }
    yield AnswerExample([], {"messages": (example.ids, example.mask)}, texts=texts)


def _tools_text(conversation: CheckedConversation) -> str:
    tools: list[dict[str, Any]] = []
    for location, tool in conversation.tool_objects:
        if tool.get("type", "function") != "function":
            problem = f"found a tool of the type {short_repr(tool['type'])}, expected function"
            raise EncodeError(location, problem)
        tools.append(tool if "function" in tool else {"type": "function", "function": tool})
    return json.dumps(tools, ensure_ascii=False)


def _check_expressible(conversation: CheckedConversation, pieces: Sequence[Piece]) -> None:
    for piece in pieces:
        location = ("messages",) if piece.message is None else ("messages", piece.message)
        role = "system" if piece.message is None else conversation.role(piece.message)
        if role not in _ROLES or (piece.origin == "caller" and piece.field not in _CALLER_FIELDS):
            what = f"{role}: {piece.field}" if role in _ROLES else f"the role {role}"
            raise EncodeError(location, f"found {what}, which ms-swift has no place for")
        tag = next((tag for tag in _TAGS if tag in piece.text), None)
        if tag is not None and piece.origin != "template":
            raise EncodeError(location, f"found {tag} in a text, which ms-swift replaces")


def _shown_text(pieces: Sequence[Piece]) -> str:
    visible = [piece for piece in pieces if piece.field in _SHOWN_FIELDS]
    while visible and visible[0].field == "separator":  # from the message before it
        del visible[0]
    return "".join(IMAGE_TAG if piece.field == "image" else piece.text for piece in visible)


def _turn(
    conversation: CheckedConversation, index: int, pieces: Sequence[Piece]
) -> Iterator[dict[str, Any]]:
    """A turn of the model: its text, and each of its calls."""
    text = _shown_text(pieces)
    reasoning = [piece for piece in pieces if piece.field == "reasoning"]
    if reasoning:
        thought = _joined([piece for piece in reasoning if not piece.special])
        text = f"{THINK_START}{thought}{THINK_END}{text}"
    calls = conversation.calls_by_message[index]
    if text or not calls:
        yield {"role": "assistant", "content": text}
    for call in calls:
        arguments = call.arguments
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except ValueError:
                raise EncodeError(call.location, "found arguments that are no JSON") from None
        content = json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)
        yield {"role": "tool_call", "content": content}


def _weights_of_turns(example: PicturedExample) -> Mapping[int | None, set[int]]:
    weights: dict[int | None, set[int]] = {}
    for start, end, piece in example.owned:
        if piece.origin == "model":
            weights.setdefault(piece.message, set()).update(example.mask[start:end])
    return weights


def _is_trained(weights: set[int], index: int) -> bool:
    """Whether a turn is trained on. Raises if only a part of it is."""
    if len(weights) > 1:
        problem = "found a turn of which only a part is trained on"
        raise EncodeError(("messages", index), f"{problem}: ms-swift trains on whole messages")
    return 1 in weights


RowWriter: TypeAlias = Callable[[PicturedExample], Iterator[AnswerExample]]

# Writers by the trainer that reads the rows.
ROW_WRITERS: Mapping[str, RowWriter] = {"trl-vision": _completion_rows, "ms-swift": _message_row}
