"""Values of parameters, JSON in place of parameters, and JSON in place of calls (recovery.md, rules
3, 4, 7, 8, 14 and 19).

A value's `judge` says what a tag in it means, and `close` does what is to be done when it has
ended. The two readers go through the text: one for strings, one for JSON.
"""

from __future__ import annotations

import json
from typing import Protocol

from dsv4._format import tokens
from dsv4._format.spellings import (
    BAR,
    CDATA,
    JSON_ARGUMENTS,
    OPENING_BRACKETS,
    PARAMETER_PREFIX,
    WORD,
)
from dsv4._parse import events as kinds
from dsv4._parse.blocks import GivenValue, Invoke, ParameterOpening
from dsv4._parse.call_arguments import (
    JsonCalls,
    json_calls_in,
    json_string,
    members_of,
    object_in,
    read_json,
    typed_json,
)
from dsv4._parse.events import DiagnosticKind
from dsv4._parse.held_calls import HeldCalls
from dsv4._parse.limits import LONGEST_SPACE
from dsv4._parse.machine import Machine, Move, ParserState
from dsv4._parse.patterns import pattern
from dsv4._parse.source import TextSource
from dsv4._parse.tag import PartialTag, Tag
from dsv4._parse.value_ends import BodyJudge, CallListJudge, ValueJudge, Verdict

NO_TAG = Tag("parameter", 0, "")

# How a list of calls begins.
_LIST_OF_CALLS = pattern(r'\s*(?:\{\s*"tool_calls"\s*:\s*)?\[')
# Under which arguments stand that are no JSON object.
RAW_PARAMETER = "arguments"


class ValueBuilder(Protocol):
    """A value while it is read."""

    machine: Machine
    start: int
    ends_itself: bool  # as a JSON object does, at its last brace
    streams: bool  # it is shown as it comes
    own_letters: frozenset[str]  # with which a plain tag begins that may close it

    @property
    def judge(self) -> ValueJudge | CallListJudge:
        """Decides what tags inside the value mean."""
        ...

    def take(self, to: int) -> None:
        """Takes the text up to `to` into the value."""
        ...

    def doubt(self, tag: Tag, verdict: Verdict) -> None:
        """The value ends at `tag`, where reading stands. Holds calls that may be quoted."""
        ...

    def take_rest(self, to: int) -> None:
        """Takes the last of the text."""
        ...

    def close(self, tag: Tag | None) -> Move:
        """The value has ended, with its own closing tag or without."""
        ...

    def cut(self) -> Move:
        """The text ends inside the value."""
        ...

    def stop(self) -> Move:
        """The model ended the text inside the value, as the caller says."""
        ...

    def close_at_eos(self) -> Move:
        """The model ended the text inside the value, and its EOS says so."""
        ...


class ParameterValue:
    """The value of a parameter.

    Strings are written as they come; values that are not, or may not be, are set aside.
    """

    ends_itself = False

    def __init__(self, opening: ParameterOpening) -> None:
        invoke, key, tag, lone = opening
        self.machine = machine = invoke.machine
        self.invoke = invoke
        self.key = key
        self.tag = tag
        self.start = machine.source.pos
        self.types = machine.tools.types_of(invoke.name, key)
        self.may_hold_all = lone  # arguments of the call
        self.judge = ValueJudge(invoke, key, tag)
        self.own_letters = frozenset(n[:1].lower() for n in (PARAMETER_PREFIX, key, tag.label))
        untyped = tag.string not in ("true", "false")
        # A text without a type may still be unwrapped, so its start decides whether it streams.
        self._undecided = untyped and self.types == {"string"} and not lone
        self.streams = tag.string == "true" and not lone and not invoke.may_list(key)
        self._written: list[str] = []  # what was shown as it came
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
            text = source.take(to)
            self._written.append(text)
            self.invoke.call.write_string(text)
        else:
            source.set_aside(to)

    def pass_on(self, text: str) -> None:
        """Takes note of text of the value that was already emitted."""
        self._written.append(text)

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

    def doubt(self, tag: Tag, verdict: Verdict) -> None:
        machine, judge = self.machine, self.judge
        is_implied = verdict is Verdict.IMPLIED and tag.kind != "eos"
        doubtful = judge.is_remarked or judge.holds_tags or judge.opens_plainly
        if machine.reads_strictly or not (is_implied or doubtful):
            return
        returns = is_implied and judge.reopens
        hold = machine.hold
        if hold is None:
            held = HeldCalls(machine, returns)
            held.read_otherwise(lambda: self._read_on(tag))
            hold = held
        rest = ""
        if not self.streams:
            rest = f"{json_string(self.key)}: {json_string(machine.source.peek_aside())}"
        hold.doubt(self.invoke.call, self.streams, rest, drops_if_cut=returns)

    def _read_on(self, tag: Tag) -> None:
        """The tag that seemed to imply the close is quoted: the value goes on behind it."""
        machine = self.machine
        reader = machine.reader
        assert isinstance(reader, (TextValueReader, JsonValueReader))
        reader.pass_quoted(tag)
        machine.report_raw(kinds.QUOTED_MARKUP, tag.start, tag.raw)

    def close(self, tag: Tag | None) -> Move:
        machine, source, call = self.machine, self.machine.source, self.invoke.call
        if self.streams:
            if not self._written:  # it may stand in the tag (rule 30)
                call.write_string(self.tag.attributes.get("value", ""))
            call.close_string()
            self.invoke.remember(self.key, GivenValue(self.start, "".join(self._written)))
        else:
            raw = source.aside() or self.tag.attributes.get("value", "")
            close = machine.tags.parameter_close[:-1]
            if close in raw and close in source.as_acting(raw, self.start):
                machine.forget_strict_block()
                if self.tag.string != "true":
                    machine.report_raw(kinds.QUOTED_MARKUP, self.start, raw)
            json_text = self._typed(raw)
            given = GivenValue(self.start, raw, json_text)
            if self.may_hold_all:
                call.add_lone(self.key, json_text, raw)
                self.invoke.remember(self.key, given)
            else:
                self.invoke.give(self.key, given)
        if tag is None:
            machine.report_raw(kinds.IMPLIED_CLOSE, source.pos, "")
            if self.judge.holds_close:  # which may have been its own (rule 30)
                self.invoke.drop("unreadable")
        else:
            machine.check_spelling(tag)
            source.advance(tag.end)
        return (ParserState.INVOKE,)

    def _typed(self, raw: str) -> str:
        """A parameter's text as JSON (rule 7)."""
        if self.tag.string == "true":
            return json_string(raw)
        if self.tag.string != "false":
            return typed_json(raw, self.types)
        found = read_json(raw)
        if found is None:
            self.machine.report_raw(kinds.INVALID_JSON, self.start, raw)
            return json_string(raw)
        if found.repaired:
            self.machine.report_raw(kinds.REPAIRED_JSON, self.start, raw)
        return found.text

    def cut(self) -> Move:
        source = self.machine.source
        if self.streams:
            return self.invoke.cut(in_string=True)
        self.invoke.call.settle()
        return self.invoke.cut(rest=f"{json_string(self.key)}: {json_string(source.aside())}")

    def stop(self) -> Move:
        if self.judge.quoted or self._is_cut_json:
            return self.cut()
        return self.close(None)

    def close_at_eos(self) -> Move:
        if not self._is_cut_json:
            return self.close(None)
        self.invoke.call.settle()
        raw = self.machine.source.aside()
        self.invoke.drop("unreadable", rest=f"{json_string(self.key)}: {json_string(raw)}")
        return (ParserState.INVOKE,)

    @property
    def _is_cut_json(self) -> bool:
        """Whether the value must be JSON, or looks like it, and is not whole (rule 26)."""
        if self.streams:
            return False
        raw = self.machine.source.peek_aside()
        if self.tag.string == "false" or (self.types and "string" not in self.types):
            return read_json(raw) is None
        looks = self.types != {"string"} and raw.lstrip()[:1] in ("{", "[")
        return looks and read_json(raw) is None


class JsonBody:
    """A JSON object in place of parameters (rules 8, 11 and 14)."""

    ends_itself = True
    streams = False
    own_letters: frozenset[str] = frozenset()

    def __init__(self, invoke: Invoke) -> None:
        self.machine = machine = invoke.machine
        self.invoke = invoke
        self.start = machine.source.pos
        self.judge = BodyJudge(invoke, "", NO_TAG)
        self._is_more = bool(invoke.call.parameters)  # arguments behind parameters (rule 30)
        machine.forget_strict_block()
        machine.report_raw(kinds.JSON_BODY, self.start, "")

    def take(self, to: int) -> None:
        self.machine.source.set_aside(to)

    take_rest = take

    def doubt(self, tag: Tag, verdict: Verdict) -> None:
        """Does nothing: JSON itself shows where it ends."""

    def close(self, tag: Tag | None) -> Move:
        raw = self.machine.source.aside()
        if self._is_more:
            self.invoke.add_members(self.start, raw)
            return (ParserState.INVOKE,)
        self.invoke.body = self._arguments(raw)
        self.invoke.body_text = GivenValue(self.start, raw)
        if self.judge.holds_tags and object_in(raw) is None:
            self.invoke.drop("unreadable")  # parameters follow what is no JSON (rule 30)
        return (ParserState.INVOKE,)

    def _arguments(self, raw: str) -> str:
        machine = self.machine
        found = read_json(raw)
        if found is None or not isinstance(found.value, dict):
            machine.report_raw(kinds.INVALID_JSON, self.start, raw)
            return f"{{{json_string(RAW_PARAMETER)}: {json_string(raw.rstrip())}}}"
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
        if self._is_more:
            self.invoke.remark(self.start, raw)
            return self.invoke.cut()
        if found is not None and isinstance(found.value, dict):
            self.invoke.body = found.text.strip()
            return self.invoke.cut()
        return self.invoke.cut(rest=f"{json_string(RAW_PARAMETER)}: {json_string(raw)}")

    def stop(self) -> Move:
        return self.close(None) if self._is_whole else self.cut()

    def close_at_eos(self) -> Move:
        if self._is_whole:
            return self.close(None)
        raw = self.machine.source.aside()
        self.invoke.drop("unreadable", rest=f"{json_string(RAW_PARAMETER)}: {json_string(raw)}")
        return (ParserState.INVOKE,)

    @property
    def _is_whole(self) -> bool:
        """Whether the object has come to its end: one that was cut is never complete (rule 26)."""
        found = read_json(self.machine.source.peek_aside())
        return found is not None and isinstance(found.value, dict)


class JsonCallList:
    """Calls written as JSON in a wrapper (rules 5 and 14)."""

    ends_itself = True
    streams = False
    own_letters: frozenset[str] = frozenset()

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.start = machine.source.pos
        self.judge = CallListJudge(machine)
        machine.forget_strict_block()

    def take(self, to: int) -> None:
        self.machine.source.set_aside(to)

    take_rest = take

    def doubt(self, tag: Tag, verdict: Verdict) -> None:
        """Does nothing: nothing in a list of calls is quoted."""

    def close(self, tag: Tag | None) -> Move:
        raw = self.machine.source.aside()
        # An object in a wrapper is meant as a call, a list of anything else is not.
        return self._make(raw, kinds.DROPPED_CALL if "{" in raw else kinds.UNEXPECTED_TEXT)

    def _make(self, raw: str, otherwise: DiagnosticKind) -> Move:
        """Makes the calls that can be read. Those beside one that cannot stay calls (rule 9)."""
        machine = self.machine
        calls = json_calls_in(raw)
        if not calls.read:
            calls = JsonCalls(json_calls_in(_complete_part(raw)).read, calls.unread)
        if not calls.read:
            machine.report_raw(otherwise, self.start, raw)
            machine.cut = machine.cut or otherwise == kinds.CUT_SHORT
            return (ParserState.BLOCK,)
        kind: DiagnosticKind = kinds.FORBIDDEN_CALL if machine.forbidden else kinds.JSON_CALLS
        machine.report_raw(kind, self.start, raw)
        for name, arguments in calls.read:
            machine.whole_call(name, arguments, machine.source.pos)
        if calls.unread and otherwise == kinds.DROPPED_CALL:
            machine.report_raw(kinds.DROPPED_CALL, machine.source.pos, "")
        return (ParserState.BLOCK,)

    def cut(self) -> Move:
        """Calls that are complete before the cut stay calls (rule 16)."""
        return self._make(self.machine.source.aside(), kinds.CUT_SHORT)

    def stop(self) -> Move:
        return self.close(None)

    close_at_eos = stop


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


# Going through values: texts, and JSON (recovery.md, rules 3 and 4).


# What counts in JSON: outside its strings, and inside.
_JSON_MARK = pattern(rf'["{{}}\[\]{OPENING_BRACKETS}{BAR}]')
_WORD = WORD.lower()
_EOS = str(tokens.EOS)
_JSON_STRING_MARK = pattern(r'["\\\n]')


def _before_newline(source: TextSource, at: int) -> int:
    """Where the text before `at` ends without a newline, and white space after that.

    Both are left in the source: they go if the value's end is implied (rule 3).
    """
    start = max(source.pos, at - LONGEST_SPACE)
    text = source.slice(start, at)
    newline = text.rfind("\n")
    if newline < 0 or text[newline:].strip(" \t\n"):
        return at - text.endswith("\r")
    return start + newline - text.endswith("\r", 0, newline)


def _close_implied(source: TextSource, value: ValueBuilder, tag: Tag) -> Move:
    """Ends a value at a tag that cannot be inside."""
    value.take(_before_newline(source, tag.start))
    value.doubt(tag, Verdict.IMPLIED)
    source.advance(tag.start)
    return value.close_at_eos() if tag.kind == "eos" else value.close(None)


def _read_strictly(machine: Machine, value: ValueBuilder) -> Move:
    """Ends a value at its first close, whatever stands in it and after it (rule 20)."""
    source, close = machine.source, machine.tags.parameter_close
    at = source.find_acting(close, source.pos)
    tag = Tag("parameter", at, str(close), closing=True)
    tag.marked = True
    value.take(at)
    return value.close(tag)


class TextValueReader:
    """A value that is a text, up to the tag that ends it."""

    def __init__(self, machine: Machine, value: ValueBuilder) -> None:
        self._source = machine.source
        self._machine = machine
        self.value = value
        self._at = machine.source.pos
        self._in_doubt: Tag | None = None  # what stands at `_at`, until what follows says more

    def skip(self, text: str) -> None:
        """All text so far was dealt with by somebody else: `text` is the last of it."""
        if text and isinstance(self.value, ParameterValue):
            self.value.pass_on(text)
        self._at = self._source.pos

    def pass_quoted(self, tag: Tag) -> None:
        """Goes on behind a tag that is quoted, with all that follows it up to the value's close."""
        self._at = tag.end
        self._in_doubt = None
        self.value.judge.quoted = True

    def read(self) -> Move | None:
        if self._machine.reads_strictly:
            return _read_strictly(self._machine, self.value)
        tag = self._in_doubt or self._next_tag()
        while tag is not None:
            verdict = self.value.judge.judge(tag)
            if verdict is Verdict.WAIT:
                if tag is not self._in_doubt:
                    self._in_doubt = tag
                    self._wait(tag.start)
                return None
            self._in_doubt = None
            if verdict is Verdict.STRICT:
                return _read_strictly(self._machine, self.value)
            if verdict is Verdict.CLOSE or verdict is Verdict.IMPLIED:
                return self._close(tag, verdict)
            if verdict is not Verdict.TEXT:
                self._quote(tag, verdict)
            self._at = tag.end
            tag = self._next_tag()
        return None

    def _next_tag(self) -> Tag | None:
        """The next tag that may end the value; None if it is not there yet, and text is taken."""
        source, at = self._source, self._at
        while (at := source.next_mark(at)) < source.end:
            tag = None if self._cannot_act(at) else source.tag_at(at)
            if isinstance(tag, Tag):
                return tag
            if tag is not None:
                break
            at += 1
        self._wait(at)
        return None

    def _cannot_act(self, at: int) -> bool:
        """Whether the first letters say that this is a tag without the DSML token, and text.

        No such tag acts in a value, but for a close that may be the value's own.
        """
        letters = self._source.slice(at + 1, at + 4).lower()
        if letters[:1] == "/":
            letters = letters[1:]
            if letters[:1] in self.value.own_letters:
                return False
        if letters[:1] == _WORD[0]:
            return letters[1:2] not in ("", _WORD[1])
        return "a" <= letters[:1] <= "z"

    def _wait(self, at: int) -> None:
        self._at = at
        self.value.take(_before_newline(self._source, at))

    def _quote(self, tag: Tag, verdict: Verdict) -> None:
        self.value.take(_before_newline(self._source, tag.start))
        if verdict is Verdict.QUOTE:
            self.value.judge.open_quote(tag)
            self._machine.report_raw(kinds.QUOTED_MARKUP, tag.start, tag.raw)
            return
        if self._machine.hold is not None:
            self._machine.hold.spelled_close(tag)
        if self.value.streams:  # values that are set aside are looked at when they end
            self._machine.report_raw(kinds.QUOTED_MARKUP, tag.start, tag.raw)

    def _close(self, tag: Tag, verdict: Verdict) -> Move:
        if verdict is Verdict.CLOSE:
            self.value.take(tag.start)
            self.value.doubt(tag, verdict)
            return self.value.close(tag)
        return _close_implied(self._source, self.value, tag)

    def end(self) -> Move | None:
        source = self._source
        if self._at < source.end and source.tag_at(self._at) is PartialTag.SURELY:
            return self._end_in_tag()
        if source.stopped:
            self.value.take_rest(_before_newline(source, source.end))
            source.advance(source.end)
            return self.value.stop()
        self.value.take_rest(source.end)
        return self.value.cut()

    def _end_in_tag(self) -> Move:
        """The text ends inside a tag with the DSML token, which is no part of the value."""
        source, at = self._source, self._at
        if not source.stopped:
            self.value.take_rest(at)
            return self.value.cut()
        self.value.take_rest(_before_newline(source, at))
        source.advance(at)
        self._machine.report_cut(at)
        return self.value.stop()


class JsonValueReader:
    """A value that is JSON, held until it ends, with an eye on its strings.

    Where it is broken, or a raw newline stands in one of its strings, its quotes mean nothing: it
    is read again as a text, and the first close that fits ends it.
    """

    def __init__(self, machine: Machine, value: ValueBuilder) -> None:
        self._source = machine.source
        self._machine = machine
        self.value = value
        self._at = machine.source.pos
        self._in_string = False
        self._depth = 0
        self._is_whole: bool | None = None

    def pass_quoted(self, tag: Tag) -> None:
        """Goes on behind a tag that is quoted, with all that follows it up to the value's close."""
        self._at = tag.end
        self.value.judge.quoted = True

    def read(self) -> Move | None:
        source = self._source
        if self._machine.reads_strictly:
            return _read_strictly(self._machine, self.value)
        while True:
            pattern = _JSON_STRING_MARK if self._in_string else _JSON_MARK
            found = pattern.search(source.text, self._at - source.base)
            if found is None:
                return self._wait(source.end)
            at = found.start() + source.base
            if found[0] == '"':
                self._in_string = not self._in_string
            elif found[0] == "\n":
                return self._again()
            elif found[0] == "\\":
                if at + 1 == source.end:
                    return self._wait(at)
                at += 1
            elif found[0] in "{}[]":
                self._depth += 1 if found[0] in "{[" else -1
                if self._depth == 0 and self.value.ends_itself:
                    self.value.take(at + 1)
                    return self.value.close(None)
            else:
                self._at = at
                move = self._read_tag(at)
                if move is None or move:
                    return move or None
                continue
            self._at = at + 1

    def _read_tag(self, at: int) -> Move | None:
        """A tag outside strings. None to wait, () to go on."""
        tag = self._source.tag_at(at)
        if isinstance(tag, PartialTag):
            return self._wait(at)
        if tag is None:
            self._at = at + 1
            return ()
        verdict = self.value.judge.judge(tag, self._has_ended(at))
        if verdict is Verdict.WAIT:
            return self._wait(at)
        if verdict is Verdict.STRICT:
            return self._again()
        if verdict is Verdict.CLOSE:
            self.value.take(at)
            self.value.doubt(tag, verdict)
            return self.value.close(tag)
        if verdict is Verdict.IMPLIED:
            return _close_implied(self._source, self.value, tag)
        self._at = tag.end
        return ()

    def _has_ended(self, at: int) -> bool:
        """Whether the JSON before a tag is whole."""
        if self.value.ends_itself or self._depth != 0 or self._is_whole is False:
            return False
        source = self._source
        text = source.peek_aside() + source.slice(source.pos, at)
        self._is_whole = read_json(text) is not None
        return self._is_whole

    def _wait(self, at: int) -> Move | None:
        self._at = at
        self.value.take(_before_newline(self._source, at))
        return None

    def _again(self) -> Move:
        self._source.put_back()
        self.value.judge.begin_again()
        return (ParserState.VALUE, self.value)

    def end(self) -> Move | None:
        source = self._source
        if self._in_string:
            return self._end_in_string()
        if self._at < source.end and source.tag_at(self._at) is PartialTag.SURELY:
            self.value.take(self._at)
            if source.stopped:
                self._machine.report_cut(self._at)
        elif source.stopped:  # its end is implied, as it is at EOS (rule 3)
            self.value.take(_before_newline(source, source.end))
            source.advance(source.end)
        else:
            self.value.take(source.end)
        return self.value.stop() if source.stopped else self.value.cut()

    def _end_in_string(self) -> Move:
        """Cut, and so incomplete (rule 10); or one of its quotes was wrong, and closes follow."""
        source = self._source
        source.put_back()
        if source.stopped or _EOS in source.waiting or self._ends_closed():
            return self._again()
        self.value.take(source.end)
        return self.value.cut()

    def _ends_closed(self) -> bool:
        """Whether the text ends with the close of all that is open."""
        machine, source = self._machine, self._source
        text = source.slice(source.pos, source.end).rstrip()
        last = max(map(text.rfind, OPENING_BRACKETS))
        tag = source.tag_at(source.pos + last) if last >= 0 else None
        if not isinstance(tag, Tag) or tag.end != source.pos + len(text):
            return False
        return machine.rules.closes(tag, "wrapper" if machine.block is not None else "invoke")
