"""Compares other implementations of the format with this one: cases, answers, and differences.

A case is a request of one line of JSON; an implementation answers with one line. The expected
answer is recorded (the vectors and corpora of the repository) or given by this implementation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias
from zipfile import ZipFile

from dsv4._completion.message import assemble
from dsv4._encode.encode import encode
from dsv4._format.dialects import dialect_named
from dsv4._format.tokens import Special, markup
from dsv4._parse.parse import parse
from dsv4._parse.parser import StreamParser
from dsv4.compat import release, release_v32, release_v41, release_v41_1017
from dsv4.errors import Error, mismatch, short_repr
from dsv4.tokens.coder import common_prefix_length

ConformanceKind: TypeAlias = Literal["encode", "parse", "pieces"]
KINDS: tuple[ConformanceKind, ...] = ("encode", "parse", "pieces")
EXCERPT = 40
# The sections of docs/format.md that describe each part of a prompt.
_SECTIONS = {
    "bos": "1",
    "header": "3",
    "tools": "5",
    "effort": "6",
    "task": "7",
    "tool_calls": "4",
    "response_format": "4",
}
_DIALECT_SECTIONS = {"v3.2": "11", "v4-vision": "12", "v4.1": "13"}


@dataclass(frozen=True)
class ConformanceCase:
    """One question to an implementation, and the right answer.

    `request` is sent, with a number added. `expected` has a `prompt`, a `message` or an `error`. In
    a tolerant reading, only the fields that `expected` has are compared.
    """

    name: str
    kind: ConformanceKind
    dialect: str
    request: Mapping[str, Any]
    expected: Mapping[str, Any]


@dataclass(frozen=True)
class ConformanceOutcome:
    """The outcome of a case: "pass", "fail" or "unsupported", with the difference in words and the
    section that explains it."""

    case: ConformanceCase
    verdict: Literal["pass", "fail", "unsupported"]
    difference: str = ""
    section: str = ""


# Sources of cases.


# In a wheel: the files of these folders. A checkout has the folders themselves.
BUNDLE = Path(__file__).with_name("conformance_cases.zip")
FOLDERS = ("tests/vectors", "tests/corpus")


def bundled_cases() -> Iterator[ConformanceCase]:
    """The recorded cases that came with this package, or those of the checkout that it is in.

    Empty if there are neither.
    """
    if BUNDLE.is_file():
        with ZipFile(BUNDLE) as archive:
            for name in archive.namelist():
                # Texts may contain other line separators.
                lines = archive.read(name).decode("utf-8").rstrip("\n").split("\n")
                yield from _cases_in(name.removesuffix(".jsonl"), lines)
        return
    for folder in FOLDERS:
        yield from recorded_cases(Path(__file__).parents[3] / folder)


def recorded_cases(folder: Path) -> Iterator[ConformanceCase]:
    """The cases of the files in a `folder` that are named as in `tests/vectors` and `tests/corpus`;
    other files are skipped."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            yield from _cases_in(path.stem, lines)


# The part of a file's name, after the dialect, that tells its origin.
_REVISION = re.compile("-(?:namespaces|released)$")


def _cases_in(file: str, lines: Iterable[str]) -> Iterator[ConformanceCase]:
    kind, _, dialect = file.partition("-")
    for number, line in enumerate(lines, 1):
        row, name = json.loads(line), f"{file}:{number}"
        if kind == "encode":
            yield _encode_case(name, _REVISION.sub("", dialect), row)
        elif kind == "parse" and row.get("namespaces", True):
            yield _strict_case(name, dialect, row)
        elif file in ("malformed", "second"):
            yield from _tolerant_cases(f"{file}:{row['id']}", row)
        elif file == "third" and _is_plain(row["options"]):
            yield from _tolerant_cases(f"{file}:{row['id']}", _like_others(row))


def _is_plain(options: Mapping[str, Any]) -> bool:
    """Whether a request can express it: no text before the completion, and known tools."""
    return options["tools"] is not None and options.keys() <= {"thinking", "tools", "dialect"}


def _like_others(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the third corpus in the form of the others."""
    options, expected = row["options"], row["expect"]
    wanted = {name: expected.get(name) for name in ("reasoning", "content")}
    start = "reasoning" if options.get("thinking", True) else "content"
    choice = {"start": start, "tools": options["tools"], "tool_choice": "auto"}
    dialect = options.get("dialect", "v4")
    return {
        **{"text": row["text"], "dialect": dialect, "tool_calls": expected.get("calls")},
        **choice,
        **wanted,
    }


def _encode_case(name: str, dialect: str, row: Mapping[str, Any]) -> ConformanceCase:
    request = {"do": "encode", "dialect": dialect, "messages": row["messages"], **row["options"]}
    expected = {key: row[key] for key in ("prompt", "error") if key in row}
    return ConformanceCase(name, "encode", dialect, request, expected)


def _strict_case(name: str, dialect: str, row: Mapping[str, Any]) -> ConformanceCase:
    request = {
        **{"do": "parse", "dialect": dialect, "text": row["text"]},
        **{"thinking_mode": row["thinking_mode"], "strict": True},
    }
    expected = {key: row[key] for key in ("message", "error") if key in row}
    return ConformanceCase(name, "parse", dialect, request, expected)


def _tolerant_cases(name: str, row: Mapping[str, Any]) -> Iterator[ConformanceCase]:
    thinking = "thinking" if row["start"] == "reasoning" else "chat"
    dialect = row.get("dialect", "v4")
    request: dict[str, Any] = {
        **{"do": "parse", "dialect": dialect, "text": row["text"], "thinking_mode": thinking},
        **{"strict": False, "tools": _declared(row["tools"]), "tool_choice": row["tool_choice"]},
    }
    wanted = {"reasoning_content": row["reasoning"], "content": row["content"]}
    wanted["calls"] = row["tool_calls"]
    expected = {"message": {key: value for key, value in wanted.items() if value is not None}}
    yield ConformanceCase(name, "parse", dialect, request, expected)
    in_pieces = {**request, "do": "pieces", "pieces": pieces_of(row["text"])}
    del in_pieces["text"]
    yield ConformanceCase(f"{name} in pieces", "pieces", dialect, in_pieces, expected)


def pieces_of(text: str, size: int = 3) -> list[str]:
    """A text in pieces of a few characters, as a stream may bring it."""
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


def _declared(tools: Mapping[str, Any] | None) -> list[Any]:
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "parameters": {
                    "type": "object",
                    "properties": {key: {"type": kind} for key, kind in (types or {}).items()},
                },
            },
        }
        for name, types in (tools or {}).items()
    ]


# Answers of this implementation.


def own_answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of this implementation to a `request`: a `prompt`, a `message`, an `error`, or
    `unsupported`."""
    try:
        if request.get("do") == "encode":
            return _own_encoding(request)
        if request.get("do") in ("parse", "pieces"):
            return _own_reading(request)
    except (ValueError, Error) as error:
        return {"error": str(error)}
    return {"unsupported": mismatch(request.get("do"), f"one of {KINDS}")}


_NAMES = {
    "drop_thinking": "drop_thinking",
    "reasoning_effort": "effort",
    "add_default_bos_token": "bos",
    "context": "context",
}
_MODULES: dict[str, Any] = {
    **{"v4": release, "v3.2": release_v32},
    **{"v4.1": release_v41, "v4.1-1017": release_v41_1017},
}


def _own_encoding(request: Mapping[str, Any]) -> dict[str, Any]:
    dialect = request["dialect"]
    module = _MODULES.get(dialect) or release.ReleasedFunctions(dialect_named(dialect))
    named = {name: request[name] for name in _NAMES if name in request}
    encoded = module.encode_messages(request["messages"], request["thinking_mode"], **named)
    return {"prompt": encoded}


def _own_reading(request: Mapping[str, Any]) -> dict[str, Any]:
    dialect = request["dialect"]
    if request.get("strict") and dialect in _MODULES:
        read = _MODULES[dialect].parse_message_from_completion_text
        return {"message": read(request["text"], request["thinking_mode"])}
    options: dict[str, Any] = {
        "thinking": request["thinking_mode"] == "thinking",
        "dialect": dialect,
        "strict": bool(request.get("strict")),
        **{name: request[name] for name in ("tools", "tool_choice") if name in request},
    }
    if request["do"] == "parse":
        read_message = parse(request["text"], **options)
    else:
        parser = StreamParser(**options)
        events = [event for piece in request["pieces"] for event in parser.feed(piece)]
        read_message = assemble([*events, *parser.finish()])
    calls = [
        {"type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        | ({"namespace": call.namespace} if getattr(call, "namespace", None) else {})
        for call in read_message.tool_calls
    ]
    texts = {"content": read_message.content, "reasoning_content": read_message.reasoning}
    return {"message": {"role": "assistant", **texts, "tool_calls": calls}}


# Differences.


def outcome_of(case: ConformanceCase, answer: object) -> ConformanceOutcome:
    """The outcome of comparing an `answer` with the one expected of the `case`."""
    if not isinstance(answer, dict):
        return ConformanceOutcome(case, "fail", mismatch(answer, "an object with the answer"))
    if "unsupported" in answer:
        return ConformanceOutcome(case, "unsupported", str(answer["unsupported"])[:200])
    if "error" in case.expected or "error" in answer:
        return _refusal_outcome(case, answer)
    if case.kind == "encode":
        return _encode_outcome(case, answer)
    return _parse_outcome(case, answer)


def _refusal_outcome(case: ConformanceCase, answer: Mapping[str, Any]) -> ConformanceOutcome:
    if "error" in case.expected and "error" in answer:
        return ConformanceOutcome(case, "pass")
    # The sections on valid conversations, and on completions.
    section = "dsv4 docs format, section 2" if case.kind == "encode" else section_of(case, 0)
    if "error" in answer:
        problem = f"refused ({short_repr(answer['error'])}), expected an answer"
        return ConformanceOutcome(case, "fail", problem, section)
    return ConformanceOutcome(case, "fail", "answered, expected an error", section)


def _encode_outcome(case: ConformanceCase, answer: Mapping[str, Any]) -> ConformanceOutcome:
    expected, prompt = case.expected["prompt"], answer.get("prompt")
    if "ids" in answer and prompt in (None, expected):
        return _ids_outcome(case, answer["ids"])
    if prompt == expected:
        return ConformanceOutcome(case, "pass")
    if not isinstance(prompt, str):
        prompt = "found no prompt, expected one as text, or its ids"
        return ConformanceOutcome(case, "fail", prompt)
    at = common_prefix_length(prompt, expected)
    around = slice(max(0, at - EXCERPT), at + EXCERPT)
    difference = f"at character {at:,}: found {prompt[around]!r}, expected {expected[around]!r}"
    return ConformanceOutcome(case, "fail", difference, section_of(case, at))


def _ids_outcome(case: ConformanceCase, value: object) -> ConformanceOutcome:
    """The outcome for ids in place of a prompt, or beside it."""
    expected = prompt_ids(case.expected["prompt"], case.dialect)
    if None in expected:
        return ConformanceOutcome(case, "unsupported", "the vocabulary has no ids for this dialect")
    if not isinstance(value, list):
        return ConformanceOutcome(case, "fail", "found no list of ids, expected one")
    if value == expected:
        return ConformanceOutcome(case, "pass")
    at = common_prefix_length(value, expected)
    around = slice(max(0, at - 3), at + 3)
    difference = f"at id {at:,}: found {value[around]}, expected {expected[around]}"
    return ConformanceOutcome(case, "fail", difference, "dsv4 docs format, section 1")


def prompt_ids(prompt: str, dialect: str) -> list[int | None]:
    """The ids of a prompt, as the vocabulary gives them for its text. Needs the extra `tokens`."""
    from dsv4.tokens import Tokenizer

    tokenizer = Tokenizer.load(engine="one-shot")
    special_ids = tokenizer.vocabulary.named_for(dialect_named(dialect)).added
    ids: list[int | None] = []
    for part in markup(prompt).parts:
        ids += [special_ids.get(part)] if isinstance(part, Special) else tokenizer.encode_text(part)
    return ids


def section_of(case: ConformanceCase, at: int) -> str:
    """The section of the documentation on the part at a character of the expected answer."""
    if case.kind != "encode":
        if not case.request.get("strict"):
            return "dsv4 docs recovery"
        section = "11.5" if case.dialect == "v3.2" else "8"
        return f"dsv4 docs format, section {section}"
    section = _DIALECT_SECTIONS.get(case.dialect) or _piece_section(case, at)
    return f"dsv4 docs format, section {section}"


def _piece_section(case: ConformanceCase, at: int) -> str:
    if "prompt" not in case.expected:
        return "2"
    request = case.request
    try:
        options: dict[str, Any] = {
            _NAMES[name]: request[name] for name in _NAMES if name in request
        }
        options |= {"dialect": case.dialect, "thinking": request["thinking_mode"] == "thinking"}
        prompt = encode(request["messages"], **options)
    except (ValueError, Error):
        return "10"
    if str(prompt) != case.expected["prompt"]:
        return "10"  # a deviation of the released module
    end = 0
    for piece in prompt.pieces:
        end += len(piece.text)
        if at < end:
            return _SECTIONS.get(piece.field, "4")
    return "3"


def _parse_outcome(case: ConformanceCase, answer: Mapping[str, Any]) -> ConformanceOutcome:
    message = answer.get("message")
    if not isinstance(message, dict):
        return ConformanceOutcome(case, "fail", "found no message, expected one as an object")
    expected = case.expected["message"]
    exact = bool(case.request.get("strict"))
    # The role is always the same, so an answer may leave it out.
    for field in (each for each in expected if each != "role" or each in message):
        mine, theirs = _field(expected, field, exact), _field(message, field, exact)
        # As text, which tells 1 apart from true and 1.0.
        if repr(mine) != repr(theirs):
            difference = f"{field}: found {short_repr(theirs)}, expected {short_repr(mine)}"
            return ConformanceOutcome(case, "fail", difference, section_of(case, 0))
    return ConformanceOutcome(case, "pass")


def _field(message: Mapping[str, Any], field: str, exact: bool) -> Any:
    if field == "calls":
        return message["calls"] if "calls" in message else _read_calls(message.get("tool_calls"))
    if field == "tool_calls":
        return _written_calls(message.get("tool_calls"))
    text = message.get(field) or ""
    return text if exact or not isinstance(text, str) else text.strip()


def _written_calls(calls: Any) -> list[Any]:
    listed = calls if isinstance(calls, list) else []
    functions = [each.get("function") if isinstance(each, dict) else None for each in listed]
    return [(f.get("name"), f.get("arguments")) if isinstance(f, dict) else f for f in functions]


def _read_calls(calls: Any) -> list[Any]:
    read = []
    for name, arguments in _written_calls(calls):
        try:
            read.append({"name": name, "arguments": json.loads(arguments)})
        except (TypeError, ValueError):
            read.append({"name": name, "arguments": arguments})
    return read
