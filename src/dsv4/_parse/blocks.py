"""A block of calls, and the calls in it: what stands between the calls (recovery.md, rules 2, 5,
11, 14, 16 and 18), and in a call between its parameters (rules 2, 3, 8, 9, 10, 11, 14 and 18).
"""

from __future__ import annotations

from typing import NamedTuple

from dsv4._parse import events as kinds
from dsv4._parse.call_arguments import (
    is_item,
    json_string,
    keys_given_in,
    members_of,
    object_in,
    read_json,
    typed_json,
)
from dsv4._parse.events import AbortReason, DiagnosticKind
from dsv4._parse.held_calls import HeldCalls
from dsv4._parse.limits import MOST_PARAMETERS
from dsv4._parse.lines import LineTracker
from dsv4._parse.machine import Machine, Move, ParserState
from dsv4._parse.quoting import QUOTES_AN_INVOKE
from dsv4._parse.reasons import Ended
from dsv4._parse.tag import TOKENS, PartialTag, Tag
from dsv4._parse.tag_rules import (
    Lookahead,
    begins_json_calls,
    closes_in_run,
    is_argument,
    is_odd_close,
    is_plain_invoke,
)


class BlockReader:
    """What stands in a wrapper between calls."""

    def __init__(self, machine: Machine, tag: Tag) -> None:
        self._machine = machine
        self._source = source = machine.source
        # Opened as the strict grammar wants, it may be empty.
        spelled = tag.raw == tag.canonical(machine.tags.calls)
        self._strict = machine.blank_line and spelled
        self.used = False  # it held something
        self._calls = 0
        self._calls_before = machine.calls_seen + machine.calls_unread
        self._is_quoted = False  # a patch or a program quotes its calls, from one of them on
        self._after_invoke = False  # nothing but white space stands between a call's close and here
        if tag.marked:
            machine.check_spelling(tag)
        source.advance(tag.end)
        if spelled:
            machine.follow_strictly(tag.end)

    def read(self) -> Move | None:
        source = self._source
        at = source.past_space(source.pos)
        while at > source.pos:
            source.advance(at)
            at = source.past_space(at)
        if at == source.end:
            return None
        if source.at(at) in "{[":
            return self._read_json(at)
        tag = source.tag_at(at) if source.is_mark(at) else None
        if isinstance(tag, PartialTag):
            return None
        if tag is None:
            return self._text(at)
        return self._read_tag(tag)

    def _read_json(self, at: int) -> Move | None:
        if self._source.after_blank_line(at):
            begins = begins_json_calls(self._machine.rules, at)
            if begins is None:
                return None
            if not begins:
                return self._text(at)
        self.used = True
        return (ParserState.JSON, None)

    def end(self) -> Move | None:
        """The text ends inside a wrapper: it was cut, unless the model ended it, or a stop string
        did so between calls (rules 16 and 26)."""
        source = self._source
        is_between = source.pos == source.end
        if not is_between or source.ended not in (Ended.END, Ended.STOP):
            self._machine.report_cut(source.pos)
            if not source.stopped:
                return self._leave()
        return self._close_implied()

    def _text(self, at: int, may_name: bool = True) -> Move | None:
        """Text: junk, or prose, if a blank line stands before it: there the wrapper is over."""
        if may_name and not self.used:
            self._source.advance(at)
            return (ParserState.NAMED,)
        if not self._source.after_blank_line(at):
            return self._junk(at)
        kind: DiagnosticKind = kinds.IMPLIED_CLOSE if self.used else kinds.EMPTY_BLOCK
        self._machine.settle_calls(Lookahead.TEXT)
        self._machine.report_raw(kind, at, "")
        self._machine.block = None
        return (ParserState.PROSE, LineTracker())

    @property
    def lacks_calls(self) -> bool:
        """Whether no call was met so far, made or not, and one may be meant (rule 28)."""
        machine = self._machine
        met = machine.calls_seen + machine.calls_unread
        return met == self._calls_before and not machine.forbidden

    def read_gap(self) -> Move | None:
        """Reads text that is no call."""
        return self._text(self._source.pos, may_name=False)

    def _report_lack(self) -> None:
        if self.lacks_calls:
            self._machine.report_raw(kinds.DROPPED_CALL, self._source.pos, "")

    def _junk(self, at: int) -> Move:
        self._source.advance(at)
        if self._calls:  # text between two calls makes what follows doubtful (rule 21)
            hold = self._machine.hold or HeldCalls(self._machine)
            hold.doubt()
        self.used = True
        self._after_invoke = False
        return (ParserState.JUNK,)

    def _read_tag(self, tag: Tag) -> Move | None:
        machine = self._machine
        kind = machine.rules.kind(tag)
        if tag.kind in TOKENS:
            return self._close_implied()
        if tag.broken:
            if kind in ("invoke", "parameter"):
                self._source.advance(tag.start)
                self.used = True
                return (ParserState.BROKEN, tag)
            return self._junk(tag.start)
        if kind == "wrapper":
            return self._close(tag) if tag.closing else self._read_wrapper(tag)
        if kind == "invoke" and not tag.closing:
            return self._read_invoke(tag)
        if kind == "parameter" and not tag.closing and tag.marked:
            self._source.advance(tag.start)
            self.used = True
            return (ParserState.INVOKE, InvokeOpening(None))  # of nobody knows what
        if not tag.closing or (kind is None and not tag.marked):
            return self._junk(tag.start) if tag.marked else self._text(tag.start)
        if kind is None:  # an odd close, of the wrapper if nothing follows it
            ahead = machine.rules.look_ahead(tag.end)
            if ahead is Lookahead.MORE:
                return None
            if machine.rules.is_end(ahead):
                return self._close(tag)
        return self._remove(tag)

    def _remove(self, tag: Tag) -> Move:
        if tag.closing and not (self._after_invoke and self._machine.rules.closes(tag, "invoke")):
            self._machine.note_surplus(tag)
        self._after_invoke = False
        self._machine.report_raw(kinds.UNEXPECTED_TAG, tag.start, tag.raw)
        self._source.advance(tag.end)
        return (ParserState.BLOCK,)

    def _read_wrapper(self, tag: Tag) -> Move | None:
        """Another wrapper: they do not nest (rule 2). One that names a tool is a call."""
        if self._machine.rules.names_tool(tag):
            return self._read_invoke(tag)
        if not self.used:
            return self._remove(tag)
        ahead = self._machine.rules.look_ahead(tag.end)
        if ahead is Lookahead.MORE:
            return None
        if self._machine.rules.is_end(ahead):  # a close without its slash
            return self._close(tag)
        return self._close_implied()

    def _read_invoke(self, tag: Tag) -> Move | None:
        machine = self._machine
        name = machine.rules.tool_called(tag)
        if name is None or machine.tools.may_be_tool(name) or machine.rules.is_example(name):
            # What follows a tag that closes itself decides nothing, so it is not waited for.
            waits = not tag.self_closed and machine.rules.look_ahead(tag.end) is Lookahead.MORE
            certain = None if waits else tag.marked or name is not None
        else:
            certain = machine.rules.is_certain(tag, wrapped=True)
        if certain is None:
            return None
        self._source.advance(tag.start)
        self.used = True
        if not certain:
            return (ParserState.JUNK, kinds.DROPPED_CALL)
        if self._calls and self._source.char_before(tag.start) in QUOTES_AN_INVOKE:
            self._is_quoted = True
        self._calls += 1
        self._after_invoke = True
        return (ParserState.INVOKE, InvokeOpening(tag, self._is_quoted))

    def _close(self, tag: Tag) -> Move:
        machine = self._machine
        if tag.closing:
            machine.check_spelling(tag)
        else:
            machine.report_raw(kinds.MISSPELLED_TAG, tag.start, tag.raw)
        if not self.used and not self._strict:
            machine.report_raw(kinds.EMPTY_BLOCK, tag.start, tag.raw)
        elif self.used:
            self._report_lack()
        self._source.advance(tag.end)
        return self._leave()

    def _close_implied(self) -> Move:
        self._report_lack()
        self._machine.report_raw(kinds.IMPLIED_CLOSE, self._source.pos, "")
        return self._leave()

    def _leave(self) -> Move:
        self._machine.block = None
        return (ParserState.AFTER,)


class InvokeOpening(NamedTuple):
    """A call that comes next: its tag, if it has one, and whether it is quoted (rule 21)."""

    tag: Tag | None
    is_quoted: bool = False


class GivenValue(NamedTuple):
    """A value that a call has: where it stands, and its text."""

    start: int
    raw: str
    json_text: str | None = None  # None: it is the text, as a string

    @property
    def as_json(self) -> str:
        return json_string(self.raw) if self.json_text is None else self.json_text


class Invoke:
    """A call. It outlives the values of its parameters.

    A call that may not be made, or cannot be read, goes on unseen; its text is recorded, and is in
    a diagnostic in the end.
    """

    def __init__(self, machine: Machine, opening: InvokeOpening) -> None:
        tag, is_quoted = opening
        self.machine = machine
        self._source = source = machine.source
        name = None if tag is None else machine.rules.tool_called(tag)
        hidden = kinds.DROPPED_CALL if is_quoted else self._why_hidden(tag, name)
        self._hidden: DiagnosticKind | None = hidden
        self._start = source.pos
        self._opening = None if tag is None else tag.raw
        self.is_plain = tag is not None and not tag.marked
        self._remarked = False  # there was text that nobody understood
        self._mentioned: set[str] = set()  # keys that such text seems to give
        self.body: str | None = None  # arguments that came as one JSON object
        self.body_text = GivenValue(source.pos, "")  # the same as it was written
        self._given: dict[str, GivenValue] = {}  # the last value of each parameter
        if self._hidden is not None or machine.whole_calls:
            source.record()
        if tag is not None and self._hidden in (None, kinds.FORBIDDEN_CALL):
            machine.check_spelling(tag, padded=name != tag.name and tag.name is not None)
            machine.check_declared(name or "", tag.start, tag.raw)
        self.name = name or ""
        self.call = machine.begin_call(self.name, visible=self._hidden is None)
        if tag is not None:
            source.advance(tag.end)
            self._read_attributes(tag)
        self._closed = tag is not None and tag.self_closed

    def _why_hidden(self, tag: Tag | None, name: str | None) -> DiagnosticKind | None:
        machine = self.machine
        if machine.rules.is_example(name):
            return kinds.PROMPT_EXAMPLE
        if tag is None or name is None or self._begins_nameless(tag):
            return kinds.DROPPED_CALL
        if machine.is_quoted_in_json(tag):
            return kinds.DROPPED_CALL
        if machine.is_beyond_limits(name):
            machine.report_raw(kinds.LIMIT, tag.start, tag.raw)
            return kinds.DROPPED_CALL
        return kinds.FORBIDDEN_CALL if machine.forbidden else None

    def _begins_nameless(self, tag: Tag) -> bool:
        """Whether the first parameter has no name: then the call does not even begin (rule 9)."""
        machine, tool = self.machine, self.machine.rules.tool_called(tag) or ""
        first = machine.rules.look_ahead(tag.end)
        if tag.self_closed or not machine.rules.opens(first, "parameter", tool):
            return False
        if not isinstance(first, Tag) or machine.rules.is_container(first, tool):
            return False
        return machine.rules.key(first, tool) is None

    def _read_attributes(self, tag: Tag) -> None:
        """Arguments in the tag itself (rule 14)."""
        machine = self.machine
        keys = machine.tools.keys(self.name)
        found = {a: v for a, v in tag.attributes.items() if is_argument(a, keys)}
        if not found or self.name not in machine.tools.parameters:
            return
        machine.report_raw(kinds.ARGUMENT_IN_TAG, tag.start, tag.raw)
        for attribute, value in found.items():
            given = (
                object_in(value) if attribute == "arguments" and "arguments" not in keys else None
            )
            if given is None:
                types = machine.tools.types_of(self.name, attribute)
                self.give(attribute, GivenValue(tag.start, tag.raw, typed_json(value, types)))
            else:
                for key, json_text in members_of(given.text):
                    self.give(key, GivenValue(tag.start, tag.raw, json_text))

    # Going through the call.

    def read(self) -> Move | None:
        source, machine = self._source, self.machine
        if self._closed:
            return self.complete()
        while source.pos < source.end:
            at = source.past_space(source.pos)
            if at == source.pos:
                break
            source.advance(at)
        if source.pos == source.end:
            return None
        if source.at(source.pos) == "{" and self.body is None:
            return (ParserState.JSON, self)
        tag = source.tag_at(source.pos) if source.is_mark(source.pos) else None
        if isinstance(tag, PartialTag):
            return None
        if tag is None or tag.broken:
            if tag is not None and machine.rules.kind(tag) == "invoke":
                return self.complete_implied()
            if tag is not None and machine.rules.kind(tag) == "parameter":
                self.drop("unreadable")
            return (ParserState.REMARK, self)
        return self._read_tag(tag)

    def _read_tag(self, tag: Tag) -> Move | None:
        machine = self.machine
        closes: bool | None
        if not self.acts(tag):
            return (ParserState.REMARK, self)
        kind = machine.rules.kind(tag, self.name)
        if machine.rules.is_container(tag, self.name):
            return self._skip(tag)
        if self.is_parameter(tag):
            nests = self._nests(tag)
            return None if nests is None else self._begin_parameter(tag, nests)
        if tag.kind in TOKENS or kind == "wrapper":
            return self.complete_implied()
        if kind == "invoke" and not tag.closing and self._is_stutter(tag):
            return self._skip(tag)
        if kind == "invoke" and not tag.closing:
            closes = False
            if is_odd_close(machine.rules, tag, "invoke", self.name):  # a close without its slash
                closes = closes_in_run(
                    machine.rules, tag.end, "invoke", self.name, machine.block is not None
                )
            if closes is None:
                return None
            return self._close(tag) if closes else self.complete_implied()
        if kind == "invoke" or tag.label == self.name:
            return self._close(tag)
        if kind == "parameter":
            return self._remove(tag)
        closes = closes_in_run(
            machine.rules, tag.end, "invoke", self.name, machine.block is not None
        )
        if closes is None:
            return None
        return self._close(tag) if closes else self._remove(tag)

    def acts(self, tag: Tag) -> bool:
        """Whether a tag means anything between parameters."""
        rules = self.machine.rules
        if tag.kind in TOKENS or self.is_parameter(tag) or rules.is_container(tag, self.name):
            return True
        if tag.marked:
            return not tag.broken and (tag.closing or rules.kind(tag, self.name) is not None)
        if self.is_plain and is_plain_invoke(rules, tag):
            return self.machine.block is not None
        return tag.closing and (tag.kind in ("invoke", "wrapper") or tag.label == self.name)

    def is_parameter(self, tag: Tag) -> bool:
        machine = self.machine
        if tag.closing or tag.broken:
            return False
        if tag.self_closed and "name" in tag.attributes and self._has_value(tag):
            return tag.marked or self.name in machine.tools.parameters
        if tag.marked:
            is_parameter = machine.rules.kind(tag, self.name) == "parameter"
            return is_parameter or machine.rules.gives_argument(tag, self.name)
        return machine.rules.is_element(tag, self.name) or machine.rules.is_plain_parameter(
            tag, self.name
        )

    @staticmethod
    def _has_value(tag: Tag) -> bool:
        return "string" in tag.attributes or "value" in tag.attributes

    def _is_stutter(self, tag: Tag) -> bool:
        """Whether the call is opened once more, with nothing between (rule 28)."""
        return self._is_bare and tag.raw == self._opening

    @property
    def _is_bare(self) -> bool:
        """Whether nothing follows the opening of a tool that declares parameters."""
        untouched = not self.call.parameters and self.body is None and not self._remarked
        return untouched and bool(self.machine.tools.keys(self.name))

    def _remove(self, tag: Tag) -> Move:
        if tag.closing:
            self.machine.note_surplus(tag)
        return self._skip(tag)

    def _skip(self, tag: Tag) -> Move:
        if self._hidden is None:
            self.machine.report_raw(kinds.UNEXPECTED_TAG, tag.start, tag.raw)
        self._source.advance(tag.end)
        return (ParserState.INVOKE,)

    # Parameters.

    def _key(self, tag: Tag) -> str | None:
        return self.machine.rules.key(tag, self.name) if tag.marked or tag.name else tag.label

    def _nests(self, tag: Tag) -> bool | None:
        """Whether a parameter that should be an object or a list begins with a tag (rule 32)."""
        types = self.machine.tools.types_of(self.name, self._key(tag) or "")
        is_string = tag.string == "true" or "string" in types or tag.self_closed
        if is_string or not types & {"array", "object"}:
            return False
        ahead = self.machine.rules.look_past(tag.end)
        if ahead is Lookahead.MORE:
            return None
        return isinstance(ahead, Tag) and ahead.marked and not ahead.closing

    def _begin_parameter(self, tag: Tag, nests: bool) -> Move:
        machine, call = self.machine, self.call
        key = self._key(tag)
        if self.body is not None:
            self._spread_body(is_followed=True)
        if key is None:
            self.drop("unreadable")
            key = ""
        elif call.has(key) and self._hidden is None:
            self._report_again(key, tag)
        if call.parameters >= MOST_PARAMETERS and call.visible:
            machine.report_raw(kinds.LIMIT, tag.start, tag.raw)
            self.drop("limit")
        if self._hidden in (None, kinds.FORBIDDEN_CALL):
            self._check_parameter(tag)
        lone = call.may_hold_all(key)
        call.settle()
        self._source.advance(tag.end)
        if tag.self_closed:
            self.give(key, GivenValue(tag.start, tag.raw, self._own_value(tag, key)))
            return (ParserState.INVOKE,)
        opening = ParameterOpening(self, key, tag, lone)
        return (ParserState.NESTED if nests else opening.state, opening)

    def _report_again(self, key: str, tag: Tag) -> None:
        """A parameter is given once more: what it was before is quoted, because it may be lost."""
        before = self._given.get(key)
        if before is None or before.start < 0:  # the prompt has it
            before = GivenValue(tag.start, tag.raw)
        self.machine.report_raw(kinds.DUPLICATE_PARAMETER, before.start, before.raw)

    def may_list(self, key: str) -> bool:
        """Whether one more value of a parameter may make a list of all of them (rule 28)."""
        return key in self._given and "array" in self.machine.tools.types_of(self.name, key)

    def give(self, key: str, value: GivenValue) -> None:
        """Writes a value. Those of a declared array make a list, if they come one by one."""
        text = value.as_json
        before = self._given[key].as_json if self.may_list(key) else None
        if before is not None and is_item(before) and is_item(text):
            self.call.add_item(key, before, text)
        else:
            self.call.add(key, text)
        self.remember(key, value)

    def remember(self, key: str, value: GivenValue) -> None:
        """Keeps a value, for the case that the parameter is given once more."""
        self._given[key] = value

    def _check_parameter(self, tag: Tag) -> None:
        if tag.string in ("true", "false") or tag.self_closed:
            padded = tag.name is not None and self.machine.rules.key(tag, self.name) != tag.name
            self.machine.check_spelling(tag, padded)
        else:
            self.machine.report_raw(kinds.UNTYPED_PARAMETER, tag.start, tag.raw)

    def _own_value(self, tag: Tag, key: str) -> str:
        """The value of a parameter that closes itself: an attribute (rules 7 and 14)."""
        types = self.machine.tools.types_of(self.name, key)
        value = tag.attributes.get("value")
        if value is None:
            return typed_json(tag.attributes.get("string", ""), types)
        if tag.string == "true":
            return json_string(value)
        found = read_json(value) if tag.string == "false" else None
        return typed_json(value, types) if found is None else found.text

    def _spread_body(self, is_followed: bool = False) -> None:
        """Parameters follow arguments that came as JSON: those are parameters too.

        What came in place of JSON is none, so that the call cannot be read (rule 30).
        """
        start, raw, _ = self.body_text
        is_json = object_in(raw) is not None
        for key, json_text in members_of(self.body or "{}"):
            self.give(key, GivenValue(start, raw, json_text))
        self.body = None
        if is_followed and not is_json:
            self.drop("unreadable")

    def add_members(self, start: int, raw: str) -> None:
        """JSON stands behind parameters: its members are parameters too, if they fit (rule 30)."""
        found, keys = object_in(raw), self.machine.tools.keys(self.name)
        if found is None:
            self.remark(start, raw)
            return
        members = members_of(found.text)
        if any((keys and key not in keys) or self.call.has(key) for key, _ in members):
            self.drop("unreadable")
        self.call.settle()
        for key, json_text in members:
            self.give(key, GivenValue(start, raw, json_text))

    # Remarks.

    def remark(self, start: int, raw: str) -> None:
        self._remarked = True
        self._mentioned |= keys_given_in(raw, self.machine.tools.keys(self.name))
        if self._hidden is None:
            self.machine.report_raw(kinds.UNEXPECTED_TEXT, start, raw)

    # The end.

    def drop(self, reason: AbortReason, rest: str = "") -> None:
        """Gives up the call: no more events of it. `rest` is a member that was not written."""
        source = self._source
        if self.body is not None:
            self._spread_body()
        if self.call.visible:
            self.call.abort(reason, rest=rest)
        if not source.is_recording:
            source.record()
            self._start = source.pos
        if self._hidden is None:
            self._hidden = kinds.DROPPED_CALL

    def _close(self, tag: Tag) -> Move:
        if self._hidden in (None, kinds.FORBIDDEN_CALL):
            self.machine.check_spelling(tag)
        self._source.advance(tag.end)
        return self.complete()

    def complete_implied(self) -> Move:
        if self._hidden is None:
            self.machine.report_raw(kinds.IMPLIED_CLOSE, self._source.pos, "")
        return self.complete()

    def complete(self) -> Move:
        machine, call = self.machine, self.call
        understood = call.parameters or self.body is not None or not self._remarked
        given = {key for key, _ in members_of(self.body)} if self.body is not None else ()
        lacks = any(not call.has(key) and key not in given for key in self._mentioned)
        if self._hidden is None and (lacks or not understood):
            # Never run a call without the arguments it came with (rules 11 and 30).
            if self.body is not None:
                self._spread_body()
            call.abort("unreadable")
            if not self._source.is_recording:
                machine.report_raw(kinds.DROPPED_CALL, self._source.pos, "")
            else:
                self._hidden = kinds.DROPPED_CALL
        elif self._hidden is None:
            if call.end(self.body):
                machine.report_raw(kinds.UNWRAPPED_ARGUMENTS, self._source.pos, "")
            machine.calls_completed += 1
        return self.leave()

    def leave(self) -> Move:
        raw = self._source.recorded()
        if self._hidden is not None:
            self.machine.report_raw(self._hidden, self._start, raw)
        self.machine.invoke = None
        return (ParserState.BLOCK,) if self.machine.block is not None else (ParserState.AFTER, True)

    def end(self) -> Move | None:
        """The text ends inside the call (rule 10)."""
        source = self._source
        if source.stopped and not self._is_bare:
            if self.machine.breaks_off(source.pos):  # a parameter may be lost (rule 11)
                self.drop("unreadable")
                source.advance(source.end)
            elif source.pos < source.end:
                self.machine.report_cut(source.pos)
            return self.complete_implied()
        return self.cut()

    def cut(self, in_string: bool = False, rest: str = "") -> Move:
        """Gives the call up where the text ends. `rest` is a member that was not written."""
        machine, source = self.machine, self._source
        if self.body is not None:
            self._spread_body()
        if self.call.visible:
            self.call.abort("cut_short", in_string, rest)
        if source.is_recording:
            source.advance(source.end)
            raw = source.recorded()
            if self._hidden is None:
                machine.report_cut(self._start, raw)
            else:
                machine.report_raw(self._hidden, self._start, raw)
        if source.pos < source.end or not machine.cut:
            machine.report_cut(source.pos)
        machine.cut = True  # even if the model ended it: what it quotes never ended
        machine.invoke = None
        machine.block = None
        return (ParserState.AFTER,)


class ParameterOpening(NamedTuple):
    """A parameter whose value comes next."""

    invoke: Invoke
    key: str
    tag: Tag
    may_hold_all: bool  # arguments of the call (rule 8)

    @property
    def state(self) -> ParserState:
        """In which the value is read, if nothing is special about it."""
        return ParserState.JSON if self.tag.string == "false" else ParserState.VALUE
