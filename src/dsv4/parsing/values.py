"""Values: what they are, and what is done with them (recovery.md, rules 7, 8, 14 and 19).

A value's `judge` says what a tag in it means, `close` does what is to be done when it has ended.
`reading_values` goes through the text.
"""

from __future__ import annotations

import json
from typing import Protocol

from dsv4._format.spellings import CDATA, JSON_ARGUMENTS, PARAMETER_PREFIX
from dsv4.parsing import diagnostics as kinds
from dsv4.parsing.diagnostics import DiagnosticKind
from dsv4.parsing.invokes import Invoke
from dsv4.parsing.json_values import (
    JsonCalls,
    calls_in,
    members_of,
    object_in,
    quoted,
    read_json,
    typed,
)
from dsv4.parsing.limits import LONGEST_SPACE
from dsv4.parsing.machine import Machine, Move
from dsv4.parsing.patterns import pattern
from dsv4.parsing.states import State
from dsv4.parsing.tags import Tag
from dsv4.parsing.verdicts import BodyJudge, Judge, Verdict, judge_eos

NO_TAG = Tag("parameter", 0, "")

# How a list of calls begins.
_LIST_OF_CALLS = pattern(r'\s*(?:\{\s*"tool_calls"\s*:\s*)?\[')
# Under which arguments stand that are no JSON object.
RAW_PARAMETER = "arguments"


class Value(Protocol):
    """A value while it is read."""

    machine: Machine
    start: int
    ends_itself: bool  # as a JSON object does, at its last brace
    streams: bool  # it is shown as it comes
    own_letters: frozenset[str]  # with which a plain tag begins that may close it
    judge: Judge | ListJudge

    def take(self, to: int) -> None:
        """Takes the text up to `to` into the value."""

    def take_rest(self, to: int) -> None:
        """Takes the last of the text."""

    def close(self, tag: Tag | None) -> Move:
        """The value has ended, with its own closing tag or without."""

    def cut(self) -> Move:
        """The text ends inside the value."""

    def stop(self) -> Move:
        """The model ended the text inside the value."""


class ListJudge:
    """Decides what tags mean in a list of calls: only the wrapper's close and EOS end it."""

    __slots__ = ("_machine", "quoted")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.quoted = False

    def begin_again(self) -> None:
        """It remembers nothing of a way of reading."""

    def judge(self, tag: Tag, json_ended: bool = False) -> Verdict:
        if tag.kind == "eos":
            return judge_eos(self._machine, tag)
        return Verdict.IMPLIED if self._machine.closes(tag, "wrapper") else Verdict.TEXT

    def open_quote(self, tag: Tag) -> None:
        """There are no quoted regions in such a list."""


class Parameter:
    """The value of a parameter.

    Strings are written as they come; values that are not, or may not be, are set aside.
    """

    ends_itself = False

    def __init__(self, invoke: Invoke, key: str, tag: Tag, lone: bool) -> None:
        self.machine = machine = invoke.machine
        self.invoke = invoke
        self.key = key
        self.tag = tag
        self.start = machine.source.pos
        self.types = machine.tools.types_of(invoke.name, key)
        self.may_hold_all = lone  # arguments of the call
        self.judge = Judge(invoke, key, tag)
        self.own_letters = frozenset(n[:1].lower() for n in (PARAMETER_PREFIX, key, tag.label))
        untyped = tag.string not in ("true", "false")
        # A text without a type may still be unwrapped, so its start decides whether it streams.
        self._undecided = untyped and self.types == {"string"} and not lone
        self.streams = tag.string == "true" and not lone
        if self.streams:
            invoke.call.open_string(key)

    @property
    def is_idle(self) -> bool:
        """Whether text in which no tag begins may be written as it comes."""
        return self.streams and self.invoke.call.streams

    def take(self, to: int) -> None:
        source = self.machine.source
        if to == source.pos:
            return
        if self._undecided and not self._decide(source.slice(source.pos, to)):
            return
        if self.streams:
            self.invoke.call.write_string(source.take(to))
        else:
            source.set_aside(to)

    def take_rest(self, to: int) -> None:
        self._undecided = False
        self.take(to)

    def _decide(self, text: str) -> bool:
        """Whether it is known now if the text is to be unwrapped (rule 7)."""
        start = text.lstrip()
        opening = CDATA[0]
        if len(text) <= LONGEST_SPACE and len(start) < len(opening) and opening.startswith(start):
            return False
        self._undecided = False
        if not start.startswith(opening):
            self.streams = True
            self.invoke.call.open_string(self.key)
        return True

    def close(self, tag: Tag | None) -> Move:
        machine, source, call = self.machine, self.machine.source, self.invoke.call
        if self.streams:
            call.close_string()
        else:
            raw = source.aside()
            if machine.tags.parameter_close[:-1] in raw and self.tag.string != "true":
                machine.report_raw(kinds.QUOTED_MARKUP, self.start, raw)
            json_text = self._typed(raw)
            if self.may_hold_all:
                call.add_lone(self.key, json_text, raw)
            else:
                call.add(self.key, json_text)
        if tag is None:
            machine.report_raw(kinds.IMPLIED_CLOSE, source.pos, "")
        else:
            machine.check_spelling(tag)
            source.advance(tag.end)
        return (State.INVOKE,)

    def _typed(self, raw: str) -> str:
        """A parameter's text as JSON (rule 7)."""
        if self.tag.string == "true":
            return quoted(raw)
        if self.tag.string != "false":
            return typed(raw, self.types)
        found = read_json(raw)
        if found is None:
            self.machine.report_raw(kinds.INVALID_JSON, self.start, raw)
            return quoted(raw)
        if found.repaired:
            self.machine.report_raw(kinds.REPAIRED_JSON, self.start, raw)
        return found.text

    def cut(self) -> Move:
        source = self.machine.source
        if self.streams:
            return self.invoke.cut(in_string=True)
        self.invoke.call.settle()
        return self.invoke.cut(rest=f"{quoted(self.key)}: {quoted(source.aside())}")

    def stop(self) -> Move:
        if self.judge.quoted:
            return self.cut()
        return self.close(None)


class Body:
    """A JSON object in place of parameters (rules 8, 11 and 14)."""

    ends_itself = True
    streams = False
    own_letters: frozenset[str] = frozenset()

    def __init__(self, invoke: Invoke) -> None:
        self.machine = machine = invoke.machine
        self.invoke = invoke
        self.start = machine.source.pos
        self.judge = BodyJudge(invoke, "", NO_TAG)
        machine.report_raw(kinds.JSON_BODY, self.start, "")

    def take(self, to: int) -> None:
        self.machine.source.set_aside(to)

    take_rest = take

    def close(self, tag: Tag | None) -> Move:
        self.invoke.body = self._arguments(self.machine.source.aside())
        return (State.INVOKE,)

    def _arguments(self, raw: str) -> str:
        machine = self.machine
        found = read_json(raw)
        if found is None or not isinstance(found.value, dict):
            machine.report_raw(kinds.INVALID_JSON, self.start, raw)
            return f"{{{quoted(RAW_PARAMETER)}: {quoted(raw.rstrip())}}}"
        if found.repaired:
            machine.report_raw(kinds.REPAIRED_JSON, self.start, raw)
        inner = self._unwrapped(found.text, found.value)
        if inner is None:
            return found.text.strip()
        machine.report_raw(kinds.UNWRAPPED_ARGUMENTS, machine.source.pos, "")
        return inner

    def _unwrapped(self, text: str, value: dict[str, object]) -> str | None:
        """Arguments that stand one level deeper than they should."""
        tool, tools = self.invoke.name, self.machine.tools
        key = next(iter(value), "")
        if len(value) == 1:
            if not tools.may_unwrap(tool, key):
                return None
        elif len(value) == 2 and value.get("name") == tool:
            key = next((k for k in JSON_ARGUMENTS if k in value), "")
            if not key or {"name", key} & tools.keys(tool).keys():
                return None
        else:
            return None
        found = object_in(dict(members_of(text))[key])
        return None if found is None else found.text.strip()

    def cut(self) -> Move:
        raw = self.machine.source.aside()
        found = read_json(raw)
        if found is not None and isinstance(found.value, dict):
            self.invoke.body = found.text.strip()
            return self.invoke.cut()
        return self.invoke.cut(rest=f"{quoted(RAW_PARAMETER)}: {quoted(raw)}")

    def stop(self) -> Move:
        return self.close(None)


class CallList:
    """Calls written as JSON in a wrapper (rules 5 and 14)."""

    ends_itself = True
    streams = False
    own_letters: frozenset[str] = frozenset()

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.start = machine.source.pos
        self.judge = ListJudge(machine)

    def take(self, to: int) -> None:
        self.machine.source.set_aside(to)

    take_rest = take

    def close(self, tag: Tag | None) -> Move:
        raw = self.machine.source.aside()
        # An object in a wrapper is meant as a call, a list of anything else is not.
        return self._make(raw, kinds.DROPPED_CALL if "{" in raw else kinds.UNEXPECTED_TEXT)

    def _make(self, raw: str, otherwise: DiagnosticKind) -> Move:
        """Makes the calls that can be read. Those beside one that cannot stay calls (rule 9)."""
        machine = self.machine
        calls = calls_in(raw)
        if not calls.read:
            calls = JsonCalls(calls_in(_complete_part(raw)).read, calls.unread)
        if not calls.read:
            machine.report_raw(otherwise, self.start, raw)
            machine.cut = machine.cut or otherwise == kinds.CUT_SHORT
            return (State.BLOCK,)
        kind: DiagnosticKind = kinds.FORBIDDEN_CALL if machine.forbidden else kinds.JSON_CALLS
        machine.report_raw(kind, self.start, raw)
        for name, arguments in calls.read:
            machine.whole_call(name, arguments, machine.source.pos)
        if calls.unread and otherwise == kinds.DROPPED_CALL:
            machine.report_raw(kinds.DROPPED_CALL, machine.source.pos, "")
        return (State.BLOCK,)

    def cut(self) -> Move:
        """Calls that are complete before the cut stay calls (rule 16)."""
        return self._make(self.machine.source.aside(), kinds.CUT_SHORT)

    def stop(self) -> Move:
        return self.close(None)


def _complete_part(text: str) -> str:
    """A list of calls that was cut, without the element in which it was.

    A list inside of arguments is none: what is quoted never runs.
    """
    decoder = json.JSONDecoder(strict=False)
    begun = _LIST_OF_CALLS.match(text)
    elements, at = [], begun.end() if begun is not None else 0
    try:
        while at:
            at = next(n for n in range(at, len(text)) if not text[n].isspace() and text[n] != ",")
            start = at
            _, at = decoder.raw_decode(text, at)
            elements.append(text[start:at])
    except (ValueError, StopIteration, RecursionError):
        pass
    return f"[{', '.join(elements)}]"
