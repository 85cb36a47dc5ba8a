"""Pasted text (a sentence, a request in any form, a prompt, an answer, a log, a session): the
verdict on it, as `dsv4 why` gives it, and the request in it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dsv4._decode import decode
from dsv4._parse.parse import parse
from dsv4._playground.page_problem import PageProblem, text_field
from dsv4._playground.provenance import JsonSource, SourceRange
from dsv4._why.judge import why
from dsv4._why.pasted_kinds import (
    Pasted,
    PastedAnswer,
    PastedExchanges,
    PastedLines,
    PastedPrompt,
    PastedRecords,
    PastedRequest,
    PastedSentence,
    PastedSession,
)
from dsv4._why.recognition import recognise_bytes, recognise_text
from dsv4._why.verdict import without_keys
from dsv4.api.own_bodies import body_of_request
from dsv4.errors import Error

# Cached, because several functions are called for the same pasted text, one after another.
recognised = lru_cache(maxsize=2)(recognise_text)


def explain_text(body: Mapping[str, Any], context: object = None) -> dict[str, Any]:
    """The verdict on a text, or on the bytes of a file as base64 in `data`: the output of
    `dsv4 why --json`, its lines as `lines`, and

    - `answer`: the text that a model wrote, whether it begins in reasoning, its dialect, and the
      message in it;
    - `turns`: the number of requests of a log or a session that can be shown one by one; else 0;
    - `source`: another text to show: for a session file that is not text, or without API keys.
    """
    data = _bytes_in(body)
    given = text_field(body, "source") if data is None else data
    pasted = recognised(given) if isinstance(given, str) else recognise_bytes(given)
    verdict = why(given)
    return {
        **verdict.to_dict(),
        "lines": verdict.lines(),
        "answer": _answer(pasted) if isinstance(pasted, PastedAnswer) else None,
        "turns": _turn_count(pasted),
        "source": _other_text(given, pasted),
    }


def _bytes_in(body: Mapping[str, Any]) -> bytes | None:
    if "data" not in body:
        return None
    try:
        return base64.b64decode(text_field(body, "data"), validate=True)
    except (binascii.Error, ValueError):
        raise PageProblem("found no base64", location=("data",)) from None


def _answer(pasted: PastedAnswer) -> dict[str, Any]:
    release: Any = pasted.dialect or "v4"
    read = parse(pasted.text, thinking=pasted.thinking, dialect=release)
    calls = [
        {"name": call.name, "text": call.arguments} for call in (*read.tool_calls, *read.incomplete)
    ]
    message = {"reasoning": read.reasoning, "content": read.content, "calls": calls}
    about = {"thinking": pasted.thinking, "dialect": pasted.dialect, "message": message}
    return {"text": pasted.text, **about}


def _turn_count(pasted: Pasted) -> int:
    if isinstance(pasted, PastedSession):
        return pasted.turns
    return len(held_requests(pasted))


def _other_text(given: str | bytes, pasted: Pasted) -> str | None:
    if isinstance(given, bytes):
        return indented(pasted.body) if isinstance(pasted, PastedSession) else None
    if isinstance(pasted, (PastedSentence, PastedSession, PastedPrompt)) or _is_json_request(given):
        return None  # a conversation is not changed: that would change its prompt
    struck = without_keys(given)
    return None if struck == given else struck


def _is_json_request(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[") and isinstance(recognised(text), PastedRequest)


# The request in it.


def held_requests(pasted: Pasted) -> list[Any]:
    """The bodies of the requests of a log, or of a file of conversations."""
    if isinstance(pasted, PastedRecords):
        return [record["request"] for record in pasted.records]
    if isinstance(pasted, PastedExchanges):
        return [each.request.body for each in pasted.exchanges if each.request is not None]
    return list(pasted.values) if isinstance(pasted, PastedLines) else []


def source_of(text: str, pictures: Mapping[str, str], turn: int | None) -> JsonSource:
    """The request in a text: JSON itself, or any other kind of pasted text. In a log, `turn` is the
    number of a request. Raises a `PageProblem` if there is none.
    """
    as_json, problem = None, None
    if turn is None:
        try:
            as_json = JsonSource(text, pictures)
        except PageProblem as error:
            problem = error
    if as_json is not None and _is_request(as_json.value):
        return as_json
    pasted = recognised(text)
    if isinstance(pasted, PastedSentence):
        return _sentence(pasted.text)
    body = _request_body(pasted, turn)
    if body is None and as_json is not None:
        return as_json  # its reader reports what is missing
    if body is None:
        raise problem or PageProblem("There is no such turn in this.", location=("turn",))
    source = JsonSource(indented(body), pictures)
    source.ranges = {}  # its places are not those of the pasted text
    return source


def _is_request(value: object) -> bool:
    """Whether a value is a request itself, not an object that holds one."""
    fields = {"messages", "input", "conversations"}
    return isinstance(value, list) or (isinstance(value, dict) and bool(fields & value.keys()))


def _request_body(pasted: Pasted, turn: int | None) -> Any:
    if isinstance(pasted, PastedRequest):
        return pasted.body
    if isinstance(pasted, PastedPrompt):
        return _decoded(pasted.text)
    if isinstance(pasted, PastedSession):
        return pasted.body if turn is not None else None
    held = held_requests(pasted)
    at = 0 if turn is None and len(held) == 1 else turn
    return held[at] if at is not None and 0 <= at < len(held) else None


def _decoded(text: str) -> Any:
    try:
        decoded = decode(text)
    except Error as error:
        raise PageProblem(str(error)) from None
    return body_of_request(decoded.request, decoded.dialects[0])


def _sentence(text: str) -> JsonSource:
    """A user's message, with all of the text as its source."""
    said = text.strip("\r\n")
    source = JsonSource(indented([{"role": "user", "content": said}]))
    source.text = text
    start = text.index(said)
    source.ranges = {(0,): SourceRange(start, start + len(said))}
    return source


def indented(value: object) -> str:
    """Indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2)
