"""The faults of an answer: markup that a server left in it, calls and texts that break off.

The parser decides: text that it reads as calls was meant as calls, and text that it repairs was
malformed. Markup that it leaves as text is quoted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, TypeAlias

from dsv4._completion.message import Message
from dsv4._format.tokens import DSML, EOS, THINK_END
from dsv4._inputs.input_files import line_and_column
from dsv4._parse.parse import parse
from dsv4._why.captured_answers import (
    OF_REASONING,
    ends_reasoning,
    part_to_parse,
    read_choices,
)
from dsv4._why.error_page import known_error
from dsv4._why.pasted_kinds import BrokenJson, PastedAnswer
from dsv4._why.verdict import WhyVerdict, marked
from dsv4._why.written_values import json_or_broken
from dsv4.api.request_fields import maybe_json
from dsv4.errors import Location, path_of

LEAKS = "why-dsml"
# The kind of diagnostic for markup that is only quoted, which is not a repair.
_QUOTED = "markup_as_text"
_CUT = ("length", "max_tokens", "max_output_tokens", "incomplete")


def judge_answer(answer: PastedAnswer) -> WhyVerdict:
    """The verdict on an answer: its first fault, or that there is none."""
    verdict = WhyVerdict(kind="answer", what=answer.form, more=LEAKS)
    if answer.protocol is None:
        return _judge_text(answer, verdict)
    verdict = replace(verdict, what=f"{answer.form}{_contents(answer)}")
    if answer.unread:
        hint = f"{answer.unread} of its events are no JSON, so a part of the answer is missing here"
        verdict = replace(verdict, understood=False, because=hint)
    faults = list(islice(_faults_of_message(answer, verdict), 1))
    found = faults[0] if faults else _fault_of_choices(answer)
    return verdict if found is None else replace(found, understood=True)


def _fault_of_choices(answer: PastedAnswer) -> WhyVerdict | None:
    """The first fault of another choice than the first."""
    response = answer.response
    if answer.is_streamed or not isinstance(response, dict):
        return None
    others = list(read_choices(response))[1:]
    found = ((place, judge_answer(other)) for place, other in others)
    wrong = next(((place, verdict) for place, verdict in found if verdict.wrong), None)
    if wrong is None:
        return None
    place, verdict = wrong
    return replace(verdict, place=verdict.place.replace("choices[0]", place) or place)


def _contents(answer: PastedAnswer) -> str:
    """The contents of an answer, in words."""
    message, calls = answer.message, answer.message.get("tool_calls") or ()
    parts = [
        *(["reasoning"] if message.get("reasoning_content") else []),
        *(["text"] if message.get("content") else []),
        *([f"{len(calls)} call{'s' if len(calls) > 1 else ''}"] if calls else []),
    ]
    usage = answer.response.get("usage") if isinstance(answer.response, dict) else None
    counted = _prompt_tokens(usage)
    tokens = f"; {counted:,} prompt tokens" if counted is not None else ""
    return f", with {', '.join(parts) or 'nothing in it'}{tokens}"


def _prompt_tokens(usage: object) -> int | None:
    counts = (
        [usage.get(n) for n in ("prompt_tokens", "input_tokens")] if isinstance(usage, dict) else []
    )
    return next((count for count in counts if type(count) is int), None)


def _faults_of_message(answer: PastedAnswer, verdict: WhyVerdict) -> Iterator[WhyVerdict]:
    yield from _leaks(answer, verdict)
    yield from _broken_calls(answer, verdict)
    yield from _endings(answer, verdict)


# Markup in a text.

LeakKind: TypeAlias = Literal[
    "calls", "repaired", "in reasoning", "reasoning", "cut", "cut by length", "left over"
]


@dataclass(frozen=True)
class Leak:
    """Markup that a server left in a text: its place, and the tools that it calls."""

    kind: LeakKind
    names: str
    start: int
    end: int
    sentence: str = ""


# The sections of errors.md about each kind.
_LEAKS: dict[LeakKind, str] = {
    "calls": "A call is left in the text",
    "repaired": "A malformed call is left in the text",
    "in reasoning": "A call is left in the reasoning",
    "reasoning": "The reasoning is left in the text",
    "cut": "The text breaks off inside a call",
    "cut by length": "The text breaks off inside a call",
    "left over": "A part of a call's markup is left in the text",
}


def _leaks(answer: PastedAnswer, verdict: WhyVerdict) -> Iterator[WhyVerdict]:
    for field in ("content", "reasoning_content"):
        text = answer.message.get(field)
        if not isinstance(text, str):
            continue
        part = part_to_parse(text)
        leak = _find_leak(_parsed(part, False, answer.dialect), part, answer.finish)
        if leak is None:
            continue
        if field != "content" and leak.kind in ("calls", "repaired"):
            leak = replace(leak, kind="in reasoning")
        yield _leak_verdict(verdict, leak, text, _path_to(answer.response, text))


def _find_leak(message: Message, text: str, finish: str) -> Leak | None:
    repairs = sorted(
        (each for each in message.diagnostics if each.kind not in (_QUOTED, *OF_REASONING)),
        key=lambda each: each.start,
    )
    names = _names_of(message)
    if message.incomplete:
        kind: LeakKind = "cut by length" if finish in _CUT else "cut"
        start, end = (repairs[-1].start, repairs[-1].end) if repairs else (len(text), len(text))
        return Leak(kind, names, start, end)
    if repairs:
        first = repairs[0]
        kind = "repaired" if message.tool_calls else "left over"
        return Leak(kind, names, first.start, first.end, first.sentence)
    if message.tool_calls:
        return Leak("calls", names, *_first_tag(message, text))
    if ends_reasoning(text) and (message.reasoning or _has_stray(message)):
        start = text.find(THINK_END)
        return Leak("reasoning", names, start, start + len(THINK_END))
    return None


def _names_of(message: Message) -> str:
    """The names of the tools that are called, each once."""
    called = Counter(call.name for call in (*message.tool_calls, *message.incomplete))
    return ", ".join(f"{name} ({n} times)" if n > 1 else name for name, n in called.items())


def _has_stray(message: Message) -> bool:
    return any(each.kind in OF_REASONING for each in message.diagnostics)


def _first_tag(message: Message, text: str) -> tuple[int, int]:
    """The place of the first tag of well-formed calls, which follow the content."""
    after = text.find(THINK_END) + len(THINK_END) if message.reasoning else 0
    start = max(text.find("<", after + len(message.content.rstrip())), 0)
    end = text.find(">", start)
    return start, end + 1 if end != -1 else len(text)


def _leak_verdict(verdict: WhyVerdict, leak: Leak, text: str, path: str) -> WhyVerdict:
    line, column = line_and_column(text, leak.start)
    names = f": {leak.names}" if leak.names else ""
    found = symptom(verdict, _LEAKS[leak.kind], f"{names}{leak.sentence and '. '}{leak.sentence}")
    found = replace(
        found,
        place=f"{path}, line {line}, column {column}",
        marked=marked(text, leak.start, leak.end),
    )
    if leak.kind == "cut by length":
        return known_error("finish_reason: length").told(found, more=found.more)
    return found


def symptom(verdict: WhyVerdict, title: str, detail: str = "") -> WhyVerdict:
    """The verdict with a section of errors.md. `detail` is added to the fault."""
    return known_error(title).told(verdict, wrong=f"{title[0].lower()}{title[1:]}{detail}")


# The tool that a tag names.
_NAMED = re.compile(r"""name\s*=\s*["']([^"']+)["']""")


def _parsed(text: str, thinking: bool, dialect: str | None) -> Message:
    """The message in a text, read as if the tools named in the markup were declared. It is unknown
    whether they were, and calls without their block are only read for declared tools."""
    release: Any = dialect or "v4"
    message = parse(text, thinking=thinking, dialect=release)
    if message.tool_calls or message.incomplete:
        return message
    names = {name for each in message.diagnostics for name in _NAMED.findall(each.raw)}
    if not names:
        return message
    tools = [{"name": name, "parameters": {}} for name in sorted(names)]
    declared = parse(text, thinking=thinking, dialect=release, tools=tools)
    return declared if declared.tool_calls or declared.incomplete else message


def _path_to(response: object, text: str) -> str:
    """The place of a text in a response; "the text" if it was put together from several parts."""
    stack: list[tuple[Location, Any]] = [((), response)]
    while stack:
        place, value = stack.pop()
        if isinstance(value, str) and value and value in text and len(value) >= len(text):
            return path_of(place)
        inside = (
            value.items()
            if isinstance(value, dict)
            else enumerate(value)
            if isinstance(value, list)
            else ()
        )
        stack += reversed([((*place, step), item) for step, item in inside])
    return "the text"


# Calls and endings.

# If the first tag in a value is a closing one, the value was read too far. A value that is about
# markup has opening tags before.
_TAG = re.compile(f"</?{DSML}[^>]*>")


def _broken_calls(answer: PastedAnswer, verdict: WhyVerdict) -> Iterator[WhyVerdict]:
    for n, call in enumerate(answer.message.get("tool_calls") or ()):
        function = call.get("function") if isinstance(call, dict) else None
        arguments = function.get("arguments") if isinstance(function, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if isinstance(name, str) and DSML in name:
            found = symptom(verdict, "Markup is left in the name of a call")
            place = f"tool_calls[{n}].function.name"
            yield replace(found, place=place, marked=marked(name, 0, len(name)))
        place = f"tool_calls[{n}].function.arguments"
        if not isinstance(arguments, str):
            continue
        if isinstance(maybe_json(arguments or "{}"), dict):
            tag = _TAG.search(arguments)
            if tag and tag[0].startswith("</"):
                found = symptom(verdict, "Markup is left in the arguments of a call")
                yield replace(found, place=place, marked=marked(arguments, *tag.span()))
            continue
        title = "The arguments of a call are not a JSON object"
        found = symptom(verdict, "finish_reason: length" if answer.finish in _CUT else title)
        broken = json_or_broken(arguments)
        at = broken.at if isinstance(broken, BrokenJson) else 0
        yield replace(found, place=place, marked=marked(arguments, at, len(arguments)))


# A reason why an answer ended -> the section of errors.md about it.
_FINISHES = {
    **dict.fromkeys(_CUT, "finish_reason: length"),
    **dict.fromkeys(("content_filter", "refusal"), "finish_reason: content_filter"),
    **dict.fromkeys(("error", "abort", "failed", "cancelled"), "finish_reason: error"),
    "insufficient_system_resource": "finish_reason: insufficient_system_resource",
}


def _endings(answer: PastedAnswer, verdict: WhyVerdict) -> Iterator[WhyVerdict]:
    message, finish = answer.message, answer.finish
    content, calls = str(message.get("content") or ""), message.get("tool_calls")
    if finish in _FINISHES:
        is_thought = message.get("reasoning_content") and not content
        detail = ", while the model still reasoned: there is no text" if is_thought else ""
        yield symptom(verdict, _FINISHES[finish], detail)
    if not finish and answer.is_streamed:
        yield symptom(verdict, "The stream ends without a finish_reason")
    if finish in ("tool_calls", "tool_use") and not calls:
        yield symptom(verdict, "finish_reason is tool_calls, but there is no call")
    if not calls and finish and not content.strip():
        title = "The content is only white space" if content else "The answer is empty"
        yield symptom(verdict, title)


# Texts without a response around them.


def _judge_text(answer: PastedAnswer, verdict: WhyVerdict) -> WhyVerdict:
    text = answer.text
    part = part_to_parse(text)
    message = _parsed(part, answer.thinking, answer.dialect)
    leak = _find_leak(message, part, "")
    if EOS in text:
        return _judge_completion(verdict, leak, message, text)
    if leak is not None:
        return _leak_verdict(verdict, leak, text, "the text")
    is_quoted = any(each.kind == _QUOTED for each in message.diagnostics)
    if not is_quoted:
        return verdict
    return replace(
        verdict,
        because="the markup in it is quoted, and must not run",
        fix="if the quoted part is the answer, give that alone: dsv4 why FILE",
    )


def _judge_completion(
    verdict: WhyVerdict, leak: Leak | None, message: Message, text: str
) -> WhyVerdict:
    """The verdict on a text with EOS, which the model itself wrote: markup is expected in it."""
    calls = f" with {len(message.tool_calls)} calls" if message.tool_calls else ""
    verdict = replace(verdict, what=f"a completion, as the model wrote it{calls}")
    if leak is None or leak.kind in ("calls", "reasoning"):
        because = "the markup is well-formed; if a client saw it, its server parsed nothing"
        return replace(verdict, because=because if calls or leak else "")
    line, column = line_and_column(text, leak.start)
    return replace(
        verdict,
        wrong=f"the markup is malformed. {leak.sentence}" if leak.sentence else "it breaks off",
        place=f"line {line}, column {column}",
        marked=marked(text, leak.start, leak.end),
        who="model",
        because="no other program has changed this text",
        fix="dsv4 parse --explain FILE    # shows what dsv4 makes of it",
        more="recovery",
    )
