"""Recognises what somebody pasted: by its form alone, without judging it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dsv4._format.dialects import DIALECTS
from dsv4._format.tokens import ASSISTANT, BOS, EOS, THINK_END, THINK_START, USER
from dsv4._inputs.agent_sessions import SQLITE, read_agent_session
from dsv4._inputs.input_files import BYTE_ORDER_MARK, InputError, decode_utf8
from dsv4._parse.parse import parse
from dsv4._why import captured_answers, captured_exchanges, error_page
from dsv4._why.curl_commands import is_curl, read_curl
from dsv4._why.pasted_kinds import (
    BrokenJson,
    NotUnderstood,
    Pasted,
    PastedAnswer,
    PastedError,
    PastedExchanges,
    PastedLines,
    PastedPrompt,
    PastedRecords,
    PastedRequest,
    PastedSentence,
)
from dsv4._why.session_lines import read_session, session_of
from dsv4._why.written_values import (
    embedded_value,
    fenced_values,
    json_or_broken,
    python_value,
)
from dsv4.api.own_bodies import is_pair, is_sharegpt, role_of
from dsv4.api.request_fields import maybe_json

# How files begin that hold no text.
_FILE_FORMATS = {
    b"%PDF-": "a PDF",
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"RIFF": "a WebP picture, or sound",
    b"PK\x03\x04": "a zip file, or a document of an office program",
    b"\x1f\x8b": "a file compressed by gzip",
    b"\x28\xb5\x2f\xfd": "a file compressed by zstd",
    b"SQLite format 3": "an SQLite database",
    b"PAR1": "a Parquet file",
}
_NO_TEXT = "dsv4 why reads text: JSON, logs, prompts, answers, error messages."


def recognise_bytes(data: bytes, name: str = "stdin") -> Pasted:
    """What a file is, of which `name` is the name."""
    if data.startswith(SQLITE) and (conversations := read_agent_session(data)):
        return session_of(conversations)
    found = next((kind for mark, kind in _FILE_FORMATS.items() if data.startswith(mark)), None)
    if found is not None:
        return NotUnderstood(found, _NO_TEXT)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return recognise_text(data.decode("utf-16", "replace"))
    try:
        text = decode_utf8(data, name)
    except InputError as error:
        return NotUnderstood(f"a file that is no text ({error})", _NO_TEXT)
    if "\0" in text:
        return NotUnderstood("a file that is no text: it has bytes of zero", _NO_TEXT)
    return recognise_text(text)


def recognise_text(text: str) -> Pasted:
    """What a text is."""
    text = text.removeprefix(BYTE_ORDER_MARK)
    if not text.strip():
        return NotUnderstood("nothing: the input is empty", "Give a text, a file, or - for stdin.")
    value = _written_value(text)
    if isinstance(value, str) and value.strip():
        return recognise_text(value)
    if value is not None:
        return recognise_value(value)
    if is_curl(text):
        return read_curl(text)
    for read_as in (_read_lines, captured_answers.read_events, _read_prompt, _read_page):
        found = read_as(text)
        if found is not None:
            return found
    return _read_prose(text)


def _written_value(text: str) -> Any:
    """The value that the text is, from end to end."""
    value = maybe_json(text)
    if value is None:
        value = python_value(text)
    stripped = text.strip()
    if value is None and stripped.startswith(("```", "~~~")):
        value = next(fenced_values(stripped), None)
    return value


# Values.


def recognise_value(value: Any) -> Pasted:
    """What a JSON value is."""
    if isinstance(value, list):
        return _recognise_list(value)
    if not isinstance(value, dict):
        return NotUnderstood(
            f"JSON: {value!r}"[:60], "A request is an object, or a list of messages."
        )
    if captured_exchanges.is_har(value):
        return captured_exchanges.read_har(value)
    if captured_exchanges.is_record(value):
        return PastedRecords((value,))
    if captured_exchanges.is_error_body(value):
        return PastedError(_compact(value))
    if captured_answers.is_event(value) and "request" not in value:
        return captured_answers.read_event_values([value])
    return _request(value) or captured_answers.read_answer(value) or _other_object(value)


def _request(value: dict[str, Any]) -> Pasted | None:
    if captured_exchanges.is_request_body(value) or is_sharegpt(value) or is_pair(value):
        return PastedRequest(value)
    logged = captured_exchanges.read_logged(value, "")
    if logged is None:
        return None
    if logged.reply is None and logged.request is not None:
        return logged.request
    return PastedExchanges((logged,), "a request with what came back")


def _other_object(value: dict[str, Any]) -> Pasted:
    prompt = value.get("prompt")
    if isinstance(prompt, str) and _is_prompt(prompt):
        return PastedPrompt(prompt)
    if "input" in value or "instructions" in value or "messages" in value:
        return PastedRequest(value)
    names = ", ".join(map(repr, list(value)[:4]))
    hint = "A request has `messages` or `input`, an answer `choices`, `content` or `output`."
    return NotUnderstood(f"a JSON object with {names or 'no fields'}", hint)


def _recognise_list(values: list[Any]) -> Pasted:
    if values and all(isinstance(each, dict) and role_of(each) for each in values):
        return PastedRequest(values, form="a list of messages")
    if values and all(isinstance(each, dict) for each in values):
        found = _recognise_values(values)
        if not isinstance(found, PastedLines) or "messages" in values[0]:
            return found
        if all("function" in each or "input_schema" in each for each in values):
            return NotUnderstood("a list of tools", "Put them into a request, as its `tools`.")
    if values and all(type(each) is int for each in values):
        return NotUnderstood("a list of token ids", "Read them with: dsv4 decode --ids FILE")
    return NotUnderstood("a JSON list", "A list of messages has objects with `role` and `content`.")


def _compact(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


# Lines.

MOST_LINES = 100_000


def _read_lines(text: str) -> Pasted | None:
    """A text in which each line is an object or a list. The last one may be cut."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not 2 <= len(lines) <= MOST_LINES or lines[0].lstrip()[:1] not in ("{", "["):
        return None
    values = [maybe_json(line) for line in lines]
    if values[-1] is None and len(values) > 2:
        del values[-1]
    if not all(isinstance(value, (dict, list)) for value in values):
        return None
    return _recognise_values(values)


def _recognise_values(values: Sequence[Any]) -> Pasted:
    if all(map(captured_exchanges.is_record, values)):
        return PastedRecords(tuple(values))
    if all(map(captured_answers.is_event, values)):
        return captured_answers.read_event_values(list(values))
    session = read_session(values)
    if session is not None:
        return session
    logged = [
        captured_exchanges.read_logged(value, f"line {n}") if isinstance(value, dict) else None
        for n, value in enumerate(values, 1)
    ]
    exchanges = tuple(each for each in logged if each is not None)
    if len(exchanges) == len(values):
        return PastedExchanges(exchanges, "a log")
    return PastedLines(tuple(values))


# Prompts.


def _is_prompt(text: str) -> bool:
    """Whether a text is a prompt and does not only speak of one."""
    start = text.lstrip(" \t\r\n'\"")
    return (
        BOS in text or start.startswith((USER, ASSISTANT)) or (USER in text and ASSISTANT in text)
    )


def _read_prompt(text: str) -> Pasted | None:
    from dsv4._decode.request_search import unescaped_prompt

    if not _is_prompt(text):
        return None
    start = max(text.find(BOS), 0)
    # A log or a program shows a prompt in one line.
    shown = text.strip()
    prompt = shown[max(shown.find(BOS), 0) :] if "\n" in shown else unescaped_prompt(shown)
    return PastedPrompt(prompt, start)


# Errors and prose.

_HTML = re.compile(
    r"\s*(?:HTTP/[\d.]+ \d+.*?\n\s*\n\s*)?<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)


def _read_page(text: str) -> Pasted | None:
    """The page that a proxy sends in place of an answer."""
    return PastedError(text, form="an HTML page") if _HTML.match(text) else None


def _read_prose(text: str) -> Pasted:
    answer = _read_answer_text(text)
    if answer is not None:
        return answer
    if error_page.is_error_text(text):
        return PastedError(text)
    if text.lstrip()[:1] in ("{", "["):
        broken = json_or_broken(text.strip())
        if isinstance(broken, BrokenJson):
            return broken
    for value in (*fenced_values(text), embedded_value(text)):
        found = recognise_value(value) if isinstance(value, (dict, list)) else None
        if found is not None and not isinstance(found, (NotUnderstood, PastedLines)):
            return found
    return PastedSentence(text)


def _read_answer_text(text: str) -> PastedAnswer | None:
    """A text with the marks of an answer: reasoning, calls, or what is left of them."""
    if text.lstrip()[:1] in ("{", "["):  # JSON with a mistake
        return None
    if text.rstrip("\r\n").endswith(EOS):
        text = text.rstrip("\r\n")  # an editor's line end
    thinking = THINK_END in text or text.lstrip().startswith(THINK_START)
    if not (thinking or EOS in text):
        message = parse(text, thinking=False)
        if not (message.tool_calls or message.incomplete or message.diagnostics):
            return None
    tags = ((name, str(dialect.tags.block_open).strip()) for name, dialect in DIALECTS.items())
    dialect = next((name for name, tag in tags if tag in text), None)
    return PastedAnswer(text, thinking, dialect)
