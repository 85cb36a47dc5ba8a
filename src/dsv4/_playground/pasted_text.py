"""What people paste that is no request: prompts, log lines that hold one, files of JSON lines, a
command with curl, and answers, as text or as a server sent them. And what is wrong with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from dsv4._decode import decode
from dsv4._format.tokens import BOS
from dsv4._playground.page_problem import text_field
from dsv4._playground.page_request import PlaygroundContext
from dsv4._why.judge import why
from dsv4._why.pasted_kinds import (
    BrokenJson,
    NotUnderstood,
    PastedAnswer,
    PastedLines,
    PastedPrompt,
    PastedRequest,
)
from dsv4._why.recognition import recognise_text
from dsv4.api.own_bodies import body_of_request

Opened: TypeAlias = dict[str, Any]
_UNKNOWN: Opened = {"kind": "unknown"}


def explain_text(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, Any]:
    """The verdict on a text, as `dsv4 why --json` prints it, and its lines."""
    verdict = why(text_field(body, "source"))
    return {**verdict.to_dict(), "lines": verdict.lines()}


def import_text(body: Mapping[str, Any], context: PlaygroundContext) -> Opened:
    """What a pasted text could be, besides a request. `kind` is

    - "prompt", with the request that it decodes to as `source` and what decoding noted as `notes`;
    - "request", with its JSON as `source`, as a command with curl or a log has it;
    - "answer", with the `text` that a model wrote, whether it begins in reasoning (`thinking`), its
      `dialect`, None where nothing shows it, and `notes`;
    - "lines", with a JSON value in each of its `lines`;
    - "unknown", with `notes` where something can be said of it.
    """
    pasted = text_field(body, "source")
    match recognise_text(pasted):
        case PastedPrompt(text, before):
            return _opened_prompt(text, before)
        case PastedRequest(value):
            return {"kind": "request", "source": _indented(value), "notes": []}
        case PastedAnswer() as answer:
            fields = ("text", "thinking", "dialect")
            shown = {name: getattr(answer, name) for name in fields}
            return {"kind": "answer", **shown, "notes": list(answer.notes)}
        case PastedLines(values):
            return {"kind": "lines", "lines": list(map(_indented, values))}
        case BrokenJson(text) if text != pasted.strip():
            return {"kind": "request", "source": text, "notes": []}
        case NotUnderstood(_, hint) if pasted.strip():
            return {**_UNKNOWN, "notes": [hint]}
    return _UNKNOWN


def _opened_prompt(text: str, before: int) -> Opened:
    decoded = decode(text)
    notes = [note.text for note in decoded.notes]
    if before:
        words = "1 character" if before == 1 else f"{before:,} characters"
        notes.insert(0, f"Left out {words} before {BOS}.")
    source = _indented(body_of_request(decoded.request, decoded.dialects[0]))
    return {"kind": "prompt", "source": source, "notes": notes}


def _indented(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
