"""Values of parameters, JSON in place of parameters, and JSON in place of calls (recovery.md, rules
3, 4, 7, 8, 14 and 19).

A value's `judge` says what a tag in it means, and `close` does what is to be done when it has
ended. `ValueReader` goes through the text, as a string or as JSON.
"""

from __future__ import annotations

import json
from copy import copy

from dsv4._format import tokens
from dsv4._format.spellings import (
    BAR,
    CDATA,
    JSON_ARGUMENTS,
    OPENING_BRACKETS,
    PARAMETER_PREFIX,
    WORD,
)
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
from dsv4._parse.limits import LONGEST_SPACE
from dsv4._parse.open_call import RAW_PARAMETER, Call
from dsv4._parse.patterns import pattern
from dsv4._parse.reading import ParserState, Reading
from dsv4._parse.steps import Attempt, Steps
from dsv4._parse.tag import PartialTag, Tag
from dsv4._parse.value_ends import BodyJudge, CallListJudge, ValueJudge, Verdict

NO_TAG = Tag("parameter", 0, "")

# How a list of calls begins.
_LIST_OF_CALLS = pattern(r'\s*(?:\{\s*"tool_calls"\s*:\s*)?\[')


class Value:
    """A value while it is read. It is held whole, unless it streams."""

    judge: ValueJudge | CallListJudge  # decides what tags inside the value mean
    ends_itself = True  # as a JSON object does, at its last brace
    streams = False  # it is shown as it comes
    own_letters: frozenset[str] = frozenset()  # of a plain tag that may close it

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.start = self.end = reading.pos  # how far it goes for sure
        self.written: list[str] = []  # what was shown as it came
        if reading.block is not None and self.ends_itself:
            reading.block.strict = None  # the strict grammar has no JSON there

    @property
    def raw(self) -> str:
        return self.reading.buffer.slice(self.start, self.end)

    def take(self, to: int) -> None:
        """Takes the text up to `to` into the value."""
        self.end = to

    def take_rest(self, to: int) -> None:
        """Takes the last of the text."""
        self.take(to)

    def done(self, to: int | None = None) -> None:
        """Its text, and what follows up to `to`, is done with."""
        to = self.end if to is None else to
        if to > self.reading.pos:
            self.reading.advance(to)

    def close(self, to: int, tag: Tag | None = None) -> None:
        """The value has ended, with its own closing tag or without. Reading goes on at `to`."""
        raise NotImplementedError

    def cut(self) -> None:
        """The text ends inside the value."""
        raise NotImplementedError

    def stop(self, to: int) -> None:
        """The model ended the text inside the value, as the caller says."""
        self.close(to)

    def close_at_eos(self, to: int) -> None:
        """The model ended the text inside the value, and its EOS says so."""
        self.close(to)


class ParameterValue(Value):
    """The value of a parameter.

    Strings are written as they come; values that are not, or may not be, are held.
    """

    ends_itself = False

    def __init__(self, reading: Reading, call: Call, key: str, tag: Tag, lone: bool) -> None:
        super().__init__(reading)
        self.call = call
        self.key = key
        self.tag = tag
        self.types = reading.tools.types_of(call.name, key)
        self.may_hold_all = lone  # arguments of the call
        self.judge = ValueJudge(reading, call, key, tag)
        self.own_letters = frozenset(n[:1].lower() for n in (PARAMETER_PREFIX, key, tag.label))
        untyped = tag.string not in ("true", "false")
        # A text without a type may still be unwrapped, so its start decides whether it streams.
        self._undecided = untyped and self.types == {"string"} and not lone
        self.streams = False
        held = lone or "value" in tag.attributes or call.may_list(key)
        if tag.string == "true" and not held:
            self._begin_string()

    def _begin_string(self) -> None:
        self.streams = True
        self.call.writer.open_string(self.key)

    @property
    def is_idle(self) -> bool:
        """Whether text in which no tag begins may be written as it comes."""
        return self.streams and self.call.writer.streams

    def in_twin(self, twin: Reading) -> ParameterValue:
        """The value in another reading."""
        assert isinstance(twin.call, Call)
        value = copy(self)
        value.reading, value.call = twin, twin.call
        value.written = [*self.written]
        return value

    def take(self, to: int) -> None:
        reading, self.end = self.reading, to
        if to <= reading.pos:
            return
        if self._undecided and not self._decide(reading.buffer.slice(reading.pos, to)):
            return
        if self.streams:
            text = reading.take(to)
            self.written.append(text)
            self.call.writer.write_string(text)

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
            self._begin_string()
        return True

    def close(self, to: int, tag: Tag | None = None) -> None:
        reading, call = self.reading, self.call
        if self.streams:
            call.writer.close_string()
            call.remember(self.key, self.start, "".join(self.written))
        else:
            self._give(self.raw)
        self.done(to)
        if tag is None:
            reading.report("implied_close", to, "")
            if self.judge.holds_close:  # who knows what of it is quoted (rule 30)
                call.drop("unreadable")
        else:
            reading.check_spelling(tag)

    def _give(self, raw: str) -> None:
        reading, block = self.reading, self.reading.block
        close = reading.tags.parameter_close[:-1]
        if close in raw and close in reading.buffer.acting(self.start, self.end):
            if block is not None:
                block.strict, block.reads_strictly = None, False
            if self.tag.string != "true":
                reading.report("quoted_markup", self.start, raw)
        json_text = self._typed(raw)
        if self.may_hold_all:
            self.call.writer.add_lone(self.key, json_text, raw)
            self.call.remember(self.key, self.start, raw, json_text)
        else:
            self.call.give(self.key, self.start, raw, json_text)

    def _typed(self, raw: str) -> str:
        """A parameter's text as JSON (rule 7)."""
        if not raw.strip() and "value" in self.tag.attributes:  # which is the value (rule 30)
            return self.call.own_value(self.tag, self.key)
        if self.tag.string == "true":
            return json_string(raw)
        if self.tag.string != "false":
            return typed_json(raw, self.types)
        found = read_json(raw)
        if found is None:
            self.reading.report("invalid_json", self.start, raw)
            return json_string(raw)
        if found.repaired:
            self.reading.report("repaired_json", self.start, raw)
        return found.text

    @property
    def _as_member(self) -> str:
        return f"{json_string(self.key)}: {json_string(self.raw)}"

    def begin_doubt(self, returns: bool) -> None:
        """Calls behind the value's end are in doubt, and so is this one."""
        rest = "" if self.streams else self._as_member
        self.reading.begin_doubt(self.call.writer, self.streams, rest, drops_if_cut=returns)

    def cut(self) -> None:
        if not self.streams:
            self.call.writer.settle()
            self.done()
        self.call.cut(in_string=self.streams, rest="" if self.streams else self._as_member)

    def stop(self, to: int) -> None:
        if self.judge.quoted or self._is_cut_json:
            self.cut()
        else:
            self.close(to)

    def close_at_eos(self, to: int) -> None:
        if self._is_cut_json:
            self.call.writer.settle()
            self.done(to)
            self.call.drop("unreadable", rest=self._as_member)
        else:
            self.close(to)

    @property
    def _is_cut_json(self) -> bool:
        """Whether the value must be JSON, or looks like it, and is not whole (rule 26)."""
        if self.streams:
            return False
        if self.tag.string == "false" or (self.types and "string" not in self.types):
            return read_json(self.raw) is None
        looks = self.types != {"string"} and self.raw.lstrip()[:1] in ("{", "[")
        return looks and read_json(self.raw) is None


class JsonBody(Value):
    """A JSON object in place of parameters (rules 8, 11 and 14)."""

    def __init__(self, reading: Reading, call: Call) -> None:
        super().__init__(reading)
        self.call = call
        self.judge = BodyJudge(reading, call, "", NO_TAG)
        reading.report("json_body", self.start, "")

    def close(self, to: int, tag: Tag | None = None) -> None:
        self.done(to)
        arguments = self._arguments(self.raw)
        self.call.take_body(arguments, self.start, self.raw)
        if arguments is None and self.judge.holds_tags:
            self.call.drop("unreadable")  # parameters are part of what is no JSON (rule 30)

    def _arguments(self, raw: str) -> str | None:
        """The arguments, None where they are no JSON object."""
        reading = self.reading
        found = read_json(raw)
        if found is None or not isinstance(found.value, dict):
            reading.report("invalid_json", self.start, raw)
            return None
        if found.repaired:
            reading.report("repaired_json", self.start, raw)
        inner = self._unwrapped(found.text, found.value)
        if inner is None:
            return found.text.strip()
        reading.report("unwrapped_arguments", reading.pos, "")
        return inner

    def _unwrapped(self, text: str, value: dict[str, object]) -> str | None:
        """Arguments that stand one level deeper than they should."""
        tool, tools = self.call.name, self.reading.tools
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

    @property
    def _as_member(self) -> str:
        return f"{json_string(RAW_PARAMETER)}: {json_string(self.raw)}"

    def cut(self) -> None:
        self.done()
        if not self.call.may_have_body:  # it stands behind parameters
            self.call.remark(self.start, self.raw)
            self.call.cut()
            return
        found = read_json(self.raw)
        if found is not None and isinstance(found.value, dict):
            self.call.body = found.text.strip()
        self.call.cut(rest=self._as_member if self.call.body is None else "")

    def stop(self, to: int) -> None:
        if self._is_whole:
            self.close(to)
        else:
            self.cut()

    def close_at_eos(self, to: int) -> None:
        if self._is_whole:
            self.close(to)
        else:
            self.done(to)
            self.call.drop("unreadable", rest=self._as_member)

    @property
    def _is_whole(self) -> bool:
        """Whether the object has come to its end: one that was cut is never complete (rule 26)."""
        found = read_json(self.raw)
        return found is not None and isinstance(found.value, dict)


class JsonCallList(Value):
    """Calls written as JSON in a wrapper (rules 5 and 14)."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self.judge = CallListJudge(reading)

    def close(self, to: int, tag: Tag | None = None) -> None:
        # An object in a wrapper is meant as a call, a list of anything else is not.
        self.done(to)
        self._make("dropped_call" if "{" in self.raw else "unexpected_text")

    def _make(self, otherwise: DiagnosticKind) -> None:
        """Makes the calls that can be read. Those beside one that cannot stay calls (rule 9)."""
        reading, raw = self.reading, self.raw
        calls = json_calls_in(raw)
        if not calls.read:
            calls = JsonCalls(json_calls_in(_complete_part(raw)).read, calls.unread)
        if not calls.read:
            reading.report(otherwise, self.start, raw)
            reading.tally.cut = reading.tally.cut or otherwise == "cut_short"
            return
        forbidden = reading.settings.forbidden
        reading.report("forbidden_call" if forbidden else "json_calls", self.start, raw)
        for name, arguments in calls.read:
            reading.whole_call(name, arguments, reading.pos)
        if calls.unread and otherwise == "dropped_call":
            reading.report("dropped_call", reading.pos, "")

    def cut(self) -> None:
        """Calls that are complete before the cut stay calls (rule 16)."""
        self.done()
        self._make("cut_short")


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


def _reads_strictly(reading: Reading) -> bool:
    return reading.block is not None and reading.block.reads_strictly


class ValueReader:
    """Goes through a value to its end."""

    def __init__(self, reading: Reading, value: Value) -> None:
        self._reading = reading
        self._buffer = reading.buffer
        self._value = value
        self._at = reading.pos

    def read(self, as_json: bool) -> Steps[None]:
        self._reading.value = self._value
        if not as_json or not (yield from self._read_json()):
            self._at = max(self._reading.pos, self._value.start)
            yield from self._read_text()
        self._reading.value = None

    def _before_newline(self, at: int) -> int:
        """Where the text before `at` ends without a newline, and white space after that.

        Both are left out if the value's end is implied (rule 3).
        """
        start = max(self._reading.pos, self._value.end, at - LONGEST_SPACE)
        text = self._buffer.slice(start, at)
        newline = text.rfind("\n")
        if newline < 0 or text[newline:].strip(" \t\n"):
            return at - text.endswith("\r")
        return start + newline - text.endswith("\r", 0, newline)

    # A text, up to the tag that ends it.

    def _read_text(self) -> Steps[None]:
        reading, value = self._reading, self._value
        reading.enter(ParserState.VALUE)
        while not _reads_strictly(reading):
            tag = yield from self._next_tag()
            if tag is None:
                return self._end_text()
            value.take(self._before_newline(tag.start))
            verdict = yield from value.judge.judge(tag)
            if verdict is Verdict.CLOSE or verdict is Verdict.IMPLIED:
                if (yield from self._close(tag, verdict)):
                    return
            elif verdict is Verdict.QUOTE or verdict is Verdict.SPELLED:
                self._quote(tag, verdict)
            self._at = tag.end
        self._read_strictly()

    def _next_tag(self) -> Steps[Tag | None]:
        """The next tag that may end the value. None: the text ends before."""
        buffer = self._buffer
        while True:
            at = self._at = buffer.next_mark(max(self._at, self._reading.pos))
            found = None
            if at < buffer.end:
                found = None if self._cannot_act(at) else buffer.tag_at(at)
                if isinstance(found, Tag):
                    return found
                if found is None:
                    self._at += 1
                    continue
            self._value.take(self._before_newline(at))
            partial = found if isinstance(found, PartialTag) else None
            waits = buffer.more() if partial is None else buffer.more_of(at, partial)
            if not (yield from waits):
                return None

    def _cannot_act(self, at: int) -> bool:
        """Whether the first letters say that this is a tag without the DSML token, and text.

        No such tag acts in a value, but for a close that may be the value's own.
        """
        letters = self._buffer.slice(at + 1, at + 4).lower()
        if letters[:1] == "/":
            letters = letters[1:]
            if letters[:1] in self._value.own_letters:
                return False
        if letters[:1] == _WORD[0]:
            return letters[1:2] not in ("", _WORD[1])
        return "a" <= letters[:1] <= "z"

    def _quote(self, tag: Tag, verdict: Verdict) -> None:
        if verdict is Verdict.QUOTE:
            self._value.judge.open_quote(tag)
        else:
            self._reading.refuse(tag.end)
        # Values that are held are looked at when they end.
        if verdict is Verdict.QUOTE or self._value.streams:
            self._reading.report("quoted_markup", tag.start, tag.raw)

    def _read_strictly(self) -> None:
        """Ends a value at its first close, whatever stands in it and after it (rule 20)."""
        buffer, close = self._buffer, str(self._reading.tags.parameter_close)
        at = buffer.place(buffer.text.find(close, self._reading.pos - buffer.base))
        while buffer.is_inert(at + 2, at + 3):
            at = buffer.place(buffer.text.find(close, at + 1 - buffer.base))
        tag = Tag("parameter", at, close, closing=True, marked=True)
        self._value.take(at)
        self._value.close(tag.end, tag)

    def _close(self, tag: Tag, verdict: Verdict) -> Steps[bool]:
        """Ends the value at a tag. False: the tag is quoted, and the value goes on."""
        reading, value = self._reading, self._value
        own = verdict is Verdict.CLOSE
        value.take(tag.start if own else self._before_newline(tag.start))
        if isinstance(value, ParameterValue) and not _reads_strictly(reading):
            judge, implied = value.judge, not own and tag.kind != "eos"
            returns = implied and judge.reopens
            if returns and not reading.refuses and reading.doubt is None:
                yield from self._try_closed(value, tag)
                return False
            if implied or judge.is_remarked or judge.holds_tags:
                value.begin_doubt(returns)
        if own:
            value.close(tag.end, tag)
        elif tag.kind == "eos":
            value.close_at_eos(tag.start)
        else:
            value.close(tag.start)
        return True

    def _try_closed(self, value: ParameterValue, tag: Tag) -> Steps[None]:
        """Another call follows, or a block: reads on as if the value had ended, until it is clear.

        Where closes are left over it had not: they were quoted, and so was this (rule 21).
        """

        def assume(twin: Reading, level: int) -> None:
            twin.refuses, twin.value = level, None
            value.in_twin(twin).close(tag.start)

        refusal = yield Attempt(assume)
        assert refusal is not None
        reading = self._reading
        reading.quoted_to = max(reading.quoted_to, refusal.to)
        value.judge.quoted = True
        reading.report("quoted_markup", tag.start, tag.raw)

    def _end_text(self) -> None:
        reading, buffer, value = self._reading, self._buffer, self._value
        reading.end_inside()
        at, in_tag = buffer.end, False
        if self._at < at and buffer.tag_at(self._at) is PartialTag.SURELY:
            at, in_tag = self._at, True  # which is no part of the value
        value.take_rest(self._before_newline(at) if buffer.stopped else at)
        if in_tag and buffer.stopped:
            reading.report_cut(at)
        if buffer.stopped:
            value.stop(buffer.end)
        else:
            value.cut()

    # JSON, with an eye on its strings.

    def _read_json(self) -> Steps[bool]:
        """False: it is broken, or a raw newline stands in one of its strings.

        Its quotes mean nothing then: it is read again as a text, and the first close that fits
        ends it.
        """
        reading, buffer, value = self._reading, self._buffer, self._value
        reading.enter(ParserState.JSON)
        depth, in_string, is_whole = 0, False, None
        at = reading.pos
        while not _reads_strictly(reading):
            found = (_JSON_STRING_MARK if in_string else _JSON_MARK).search(
                buffer.text, at - buffer.base
            )
            mark = "" if found is None else found[0]
            at, found = buffer.end if found is None else found.start() + buffer.base, None
            if not mark or (mark == "\\" and at + 1 == buffer.end):
                if not (yield from buffer.more()):
                    return self._end_json(buffer.end if not mark else at, in_string)
                continue
            if mark == '"':
                in_string = not in_string
            elif mark == "\n":
                return False
            elif mark == "\\":
                at += 1
            elif mark in "{}[]":
                depth += 1 if mark in "{[" else -1
                if depth == 0 and value.ends_itself:
                    value.take(at + 1)
                    value.close(at + 1)
                    return True
            else:
                tag = yield from buffer.tag(at)
                if isinstance(tag, PartialTag):
                    return self._end_json(at, in_string)
                if tag is not None:
                    if is_whole is not False and depth == 0 and not value.ends_itself:
                        is_whole = read_json(buffer.slice(value.start, at)) is not None
                    verdict = yield from value.judge.judge(tag, depth == 0 and is_whole is True)
                    if verdict is Verdict.STRICT:
                        return False
                    ends = verdict in (Verdict.CLOSE, Verdict.IMPLIED)
                    if ends and (yield from self._close(tag, verdict)):
                        return True
                    at = tag.end
                    continue
            at += 1
        return False

    def _end_json(self, at: int, in_string: bool) -> bool:
        """The text ends. False: it is to be read again as a text."""
        reading, buffer, value = self._reading, self._buffer, self._value
        reading.end_inside()
        if in_string:
            return self._end_in_string()
        in_tag = at < buffer.end and buffer.tag_at(at) is PartialTag.SURELY
        if not buffer.stopped:
            value.take(at if in_tag else buffer.end)
            value.cut()
            return True
        # Its end is implied, as it is at EOS (rule 3).
        value.take(at if in_tag else self._before_newline(buffer.end))
        if in_tag:
            reading.report_cut(at)
        value.stop(buffer.end)
        return True

    def _end_in_string(self) -> bool:
        """Cut, and so incomplete (rule 10); or one of its quotes was wrong, and closes follow."""
        buffer, value = self._buffer, self._value
        rest = buffer.slice(value.start, buffer.end)
        if buffer.stopped or _EOS in rest or self._ends_closed(rest.rstrip()):
            return False
        value.take(buffer.end)
        value.cut()
        return True

    def _ends_closed(self, text: str) -> bool:
        """Whether the text ends with the close of all that is open."""
        start, reading = self._value.start, self._reading
        last = max(map(text.rfind, OPENING_BRACKETS))
        tag = self._buffer.tag_at(start + last) if last >= 0 else None
        if not isinstance(tag, Tag) or tag.end != start + len(text):
            return False
        return reading.rules.closes(tag, "wrapper" if reading.block is not None else "invoke")
