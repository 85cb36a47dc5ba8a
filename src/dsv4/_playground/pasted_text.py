"""What people paste that is no request: prompts, log lines that hold one, files of JSON lines, a
command with curl, and answers, as text or as a server sent them.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any

from dsv4._format.dialects import DIALECTS
from dsv4._format.tokens import ASSISTANT, BOS, EOS, THINK_END, THINK_START, USER
from dsv4._parse.parse import parse
from dsv4._playground.page_problem import text_field
from dsv4._playground.page_request import PlaygroundContext
from dsv4.api import Settings, read
from dsv4.api.api_request import ProtocolName, chosen_dialect
from dsv4.api.own_bodies import body_of_request
from dsv4.api.protocols import PROTOCOLS
from dsv4.api.request_fields import maybe_json
from dsv4.errors import Error

Pasted = dict[str, Any]
_UNKNOWN: Pasted = {"kind": "unknown"}


def import_text(body: Mapping[str, Any], context: PlaygroundContext) -> Pasted:
    """What a pasted text could be, besides a request. `kind` is

    - "prompt", with the request that it decodes to as `source` and what decoding noted as `notes`;
    - "request", with the JSON that a command with curl sends as `source`;
    - "answer", with the `text` that a model wrote, whether it begins in reasoning (`thinking`), its
      `dialect`, None where nothing shows it, and `notes`;
    - "lines", with a JSON value in each of its `lines`;
    - "unknown", with `notes` where something can be said of it.
    """
    text = text_field(body, "source")
    value = maybe_json(text)
    if isinstance(value, str):
        text, value = value, None
    if value is not None:
        return _read_answer(value)
    if _CURL.match(text):
        return _read_curl(text)
    for read_as in (_read_lines, _read_events, _read_prompt, _read_answer_text):
        imported = read_as(text)
        if imported is not None:
            return imported
    return _UNKNOWN


# Prompts, and files of JSON lines.

# A prompt has at least one of these.
_PROMPT_SIGNS = (str(BOS), str(USER), str(ASSISTANT))
MOST_LINES = 10_000


def _read_lines(text: str) -> Pasted | None:
    """A text in which each line is an object or a list."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not 2 <= len(lines) <= MOST_LINES:
        return None
    values = [maybe_json(line) for line in lines]
    if not all(isinstance(value, (dict, list)) for value in values):
        return None
    return {"kind": "lines", "lines": [_indented(value) for value in values]}


def _indented(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _read_prompt(text: str) -> Pasted | None:
    from dsv4._decode import decode
    from dsv4._decode.request_search import unescaped_prompt

    if not any(sign in text for sign in _PROMPT_SIGNS):
        return None
    start = text.find(BOS)
    # A log or a program shows a prompt in one line.
    shown = text.strip()
    prompt = shown[max(start, 0) :] if "\n" in shown else unescaped_prompt(shown)
    decoded = decode(prompt)
    notes = [note.text for note in decoded.notes]
    if start > 0:
        before = "1 character" if start == 1 else f"{start:,} characters"
        notes.insert(0, f"Left out {before} before {BOS}.")
    body = body_of_request(decoded.request, decoded.dialects[0])
    return {"kind": "prompt", "source": _indented(body), "notes": notes}


# A command with curl: what a browser, a documentation or a log shows of a request.

_CURL = re.compile(r"\s*(?:[$>#%]\s*)?curl(?:\.exe)?\s", re.IGNORECASE)
_DATA_OPTIONS = ("-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--json")
# Line ends that a shell leaves out: of bash, of PowerShell, of Windows' own.
_CONTINUED = re.compile(r"[\\`^]\r?\n")
_HEREDOC = re.compile(r"<<-?[ \t]*['\"]?(\w+)")
# Text with escapes, as browsers write what is not ASCII.
_ESCAPED_TEXT = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)


def _read_curl(text: str) -> Pasted:
    """The body in a command. What is no JSON is shown as it is, with what is wrong with it."""
    lines = iter(text.splitlines())
    here = next(filter(None, map(_HEREDOC.search, lines)), None)
    document = list(lines)  # what is left are the lines after that one
    if here is not None and document:
        end = here[1]
        return _request_of("\n".join(takewhile(lambda line: line.strip() != end, document)))
    if '^"' in text:  # as Windows' shell wants it
        text = re.sub(r"\^(.)", r"\1", _CONTINUED.sub(" ", text))
    text = _ESCAPED_TEXT.sub(_unescaped, _CONTINUED.sub(" ", text))
    try:
        words = shlex.split(text)
    except ValueError:
        return _unknown("The quotation marks of the command do not match.")
    data = next(_data_in(words), None)
    if data is None:
        return _unknown("The command sends no JSON: it has no --data.")
    if data.startswith("@"):
        return _unknown(f"The command reads its JSON from {data[1:] or 'a file'}: paste that.")
    return _request_of(data)


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1].replace('"', r"\"").replace(r"\'", "'").replace(r"\!", "!")
    value = maybe_json(f'"{escaped}"')
    return shlex.quote(value) if isinstance(value, str) else match[0]


def _data_in(words: list[str]) -> Iterator[str]:
    for n, word in enumerate(words):
        name, equals, value = word.partition("=")
        if word in _DATA_OPTIONS and n + 1 < len(words):
            yield words[n + 1]
        elif equals and name in _DATA_OPTIONS[1:]:
            yield value
        elif word.startswith("-d") and len(word) > 2:
            yield word[2:]


def _request_of(data: str) -> Pasted:
    value = maybe_json(data)
    return {"kind": "request", "source": data if value is None else _indented(value), "notes": []}


def _unknown(note: str) -> Pasted:
    return {**_UNKNOWN, "notes": [note]}


# Answers: whole responses, streams of events, and the text that a model wrote.

_SETTINGS = Settings(last_answer="finish")
_ASKED: dict[str, Any] = {"role": "user", "content": ""}


def _read_answer(value: object) -> Pasted:
    """What a model wrote, of a response of any protocol."""
    answer = _answer_turns(value)
    if answer is None or not isinstance(value, dict):
        return _UNKNOWN
    protocol, turns, notes = answer
    field = "input" if protocol == "responses" else "messages"
    model = value.get("model")
    dialect, unknown = chosen_dialect(None, model if isinstance(model, str) else None)
    try:
        request = read(
            {field: [_ASKED, *turns]}, protocol=protocol, dialect=dialect, settings=_SETTINGS
        ).request
        written = [turn for turn in request.messages if isinstance(turn, Mapping)]
        thinks = any(turn.get("reasoning_content") for turn in written)
        prompt = replace(request, thinking=thinks).encode().text
    except Error as error:
        return _unknown(f"It looks like an answer, but cannot be read: {error}")
    _, _, text = prompt.partition(str(ASSISTANT))
    text = text.removeprefix(str(THINK_START if thinks else THINK_END))
    return {
        "kind": "answer",
        "text": text,
        "thinking": THINK_END in text,
        "dialect": None if unknown or model is None else str(dialect),
        "notes": notes,
    }


def _answer_turns(value: object) -> tuple[ProtocolName, list[Any], list[str]] | None:
    """The protocol of a response, and its turns as a request would send them back."""
    if not isinstance(value, dict):
        return None
    choices = value.get("choices")
    if isinstance(choices, list) and choices:
        first = choices[0] if isinstance(choices[0], dict) else {}
        message = first.get("message")
        if not isinstance(message, dict):
            return None
        more = [f"This is the first of {len(choices)} choices."] if len(choices) > 1 else []
        return "chat", [{**message, "role": "assistant"}], more
    if isinstance(value.get("response"), dict):  # an event that holds it
        return _answer_turns(value["response"])
    if isinstance(value.get("output"), list) and "input" not in value:
        return "responses", value["output"], []
    if value.get("role") == "assistant" and isinstance(value.get("content"), (str, list)):
        is_anthropic = value.get("type") == "message"
        return "messages" if is_anthropic else "chat", [value | {"role": "assistant"}], []
    return None


def _read_events(text: str) -> Pasted | None:
    """Server-sent events, as `curl` prints a stream."""
    lines = (line.strip() for line in text.splitlines())
    data = [line[len("data:") :].strip() for line in lines if line.startswith("data:")]
    events = [value for value in map(maybe_json, data) if isinstance(value, dict)]
    if not events:
        return None
    kind = str(events[0].get("type", ""))
    protocol: ProtocolName = "chat"
    if kind:
        protocol = "responses" if kind.startswith("response.") else "messages"
    try:
        if protocol == "chat":
            events = list(map(_whole_chunk, events))
        return _read_answer(PROTOCOLS[protocol].fold(events))
    except (Error, KeyError, TypeError, ValueError, AttributeError, IndexError):
        return _unknown("It looks like a stream of events, but cannot be read as one.")


def _whole_chunk(event: dict[str, Any]) -> dict[str, Any]:
    """A chunk with the fields that some servers leave out."""
    head = {"id": "", "object": "", "created": 0, "model": None}
    rest = {"logprobs": None, "finish_reason": None}
    choices = [{**rest, **choice} for choice in event.get("choices") or ()]
    return {**head, **event, "choices": choices}


def _read_answer_text(text: str) -> Pasted | None:
    """A text with the marks of an answer: reasoning, calls, or what is left of them."""
    if text.lstrip()[:1] in ("{", "["):  # JSON with a mistake
        return None
    thinking = THINK_END in text or text.lstrip().startswith(THINK_START)
    if not (thinking or EOS in text):
        message = parse(text, thinking=False)
        if not (message.tool_calls or message.incomplete or message.diagnostics):
            return None
    tags = ((name, str(dialect.tags.block_open).strip()) for name, dialect in DIALECTS.items())
    dialect = next((name for name, tag in tags if tag in text), None)
    return {"kind": "answer", "text": text, "thinking": thinking, "dialect": dialect, "notes": []}
