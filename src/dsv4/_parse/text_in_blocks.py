"""Text where none belongs: in a block between calls, and in a call between parameters
(recovery.md, rules 5, 11, 16 and 18).
"""

from __future__ import annotations

import re

from dsv4._parse import events as kinds
from dsv4._parse.blocks import BlockReader, Invoke
from dsv4._parse.call_arguments import members_of, object_in
from dsv4._parse.events import DiagnosticKind
from dsv4._parse.limits import LONGEST_REMARK
from dsv4._parse.lines import LineTracker
from dsv4._parse.machine import Machine, Move, ParserState
from dsv4._parse.patterns import pattern
from dsv4._parse.reasons import Ended
from dsv4._parse.tag import TOKENS, PartialTag, Tag
from dsv4._parse.tag_rules import Lookahead, begins_json_calls

# Between text in a wrapper and prose: a blank line. Between text and JSON: a line's start.
_BREAK = pattern(r"\n[ \t\r]*(?:\n\s*|(?=[\[{]))")
_OPEN_BREAK = pattern(r"\n\s*\Z")


# A tool's name and the fence behind it, and what may still become that.
_NAMED_FENCE = pattern(r"([^\s`~<>]{1,512})\s{1,256}(`{3,}|~{3,})[\w+-]{0,32}[ \t]{0,256}\n")
_MAYBE_NAMED_FENCE = pattern(
    r"[^\s`~<>]{1,512}(?:\s{0,256}(?:`{0,64}|~{0,64})[\w+-]{0,32}[ \t]{0,256})?\Z"
)


class NamedCallReader:
    """A tool's name and its arguments as JSON in a fence, and nothing else (rule 35)."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._source = machine.source
        self._found: re.Match[str] | None = None
        self._body = self._at = machine.source.pos
        self._json = ""  # once the fence is closed

    def read(self) -> Move | None:
        source = self._source
        if self._found is None:
            self._found = source.match(_NAMED_FENCE, source.pos)
            if self._found is None:
                waits = not source.final and source.match(_MAYBE_NAMED_FENCE, source.pos)
                return None if waits else self._leave()
            if not self._machine.tools.keys(self._found[1]):
                return self._leave()
            self._body = self._at = source.place(self._found.end())
        if not self._json and not self._find_end(self._found[2]):
            return None
        return self._look_behind()

    def _find_end(self, fence: str) -> bool:
        source = self._source
        close = source.text.find("\n" + fence, max(self._at - source.base - len(fence), 0))
        self._at = source.end if close < 0 else source.place(close) + 1 + len(fence)
        if close >= 0:
            self._json = source.slice(self._body, source.place(close))
        return close >= 0

    def _look_behind(self) -> Move | None:
        """Nothing but closes and white space may follow, up to EOS or the end."""
        rules = self._machine.rules
        while True:
            ahead = rules.look_past(self._at)
            if ahead is Lookahead.MORE:
                return None
            if rules.is_end(ahead):
                return self._make()
            if not isinstance(ahead, Tag) or not ahead.closing or ahead.kind in TOKENS:
                return self._leave()
            self._at = ahead.end

    def _make(self) -> Move | None:
        machine, source, found = self._machine, self._source, self._found
        arguments = object_in(self._json)
        assert found is not None
        keys = machine.tools.keys(found[1])
        if arguments is None or not {key for key, _ in members_of(arguments.text)} <= keys.keys():
            return self._leave()
        kind: DiagnosticKind = kinds.FORBIDDEN_CALL if machine.forbidden else kinds.JSON_CALLS
        end = self._body + len(self._json) + 1 + len(found[2])
        machine.report(kind, source.pos, end)
        source.advance(end)
        machine.whole_call(found[1], arguments.text.strip(), end)
        if isinstance(machine.block, BlockReader):
            machine.block.used = True
        return (ParserState.BLOCK,)

    def _leave(self) -> Move | None:
        assert isinstance(self._machine.block, BlockReader)
        return self._machine.block.read_gap()

    def end(self) -> Move | None:
        return self._leave()


class JunkReader:
    """Text in a wrapper that is no call: removed (rule 5)."""

    def __init__(self, machine: Machine, kind: DiagnosticKind = kinds.UNEXPECTED_TEXT) -> None:
        self._machine = machine
        self._source = machine.source
        self._kind: DiagnosticKind = kind
        self._at = machine.source.pos + 1

    def read(self) -> Move | None:
        source = self._source
        while True:
            mark = source.next_mark(self._at)
            found = None if mark == self._at else source.search(_BREAK, self._at, mark)
            if found is not None:
                move = self._read_break(source.place(found.start()), source.place(found.end()))
                if move is None or move:
                    return move or None
                continue
            if mark == source.end:
                return self._wait(mark)
            tag = source.tag_at(mark)
            if isinstance(tag, PartialTag):
                return self._wait(mark)
            ends = tag is not None and self._ends(tag)
            if ends is None:
                return self._wait(mark)
            if ends:
                self._report(mark, is_last=isinstance(tag, Tag) and self._is_over(tag))
                return (ParserState.BLOCK,)
            self._at = mark + 1 if tag is None else max(mark + 1, tag.end)

    def _wait(self, at: int) -> Move | None:
        """Sets aside text that will certainly be removed."""
        if at > self._at:
            pending = self._source.search(_OPEN_BREAK, self._at, at)
            self._at = at if pending is None else self._source.place(pending.start())
        if self._at > self._source.pos:
            self._source.set_aside(self._at)
        return None

    def _read_break(self, start: int, after: int) -> Move | None:
        """A blank line, or JSON at a line's start. None to wait, () to go on."""
        source, machine = self._source, self._machine
        if after == source.end and not source.final:
            return self._hold(start)
        if source.at(after) in ("{", "["):
            begins = begins_json_calls(machine.rules, after)
            if begins is None:
                return self._hold(start)
            if begins:
                self._report(after)
                return (ParserState.BLOCK,)
            if "\n" not in source.slice(start + 1, after):
                self._at = after
                return ()
        ahead = machine.rules.look_ahead(after)
        if ahead is Lookahead.MORE:
            return self._hold(start)
        if isinstance(ahead, Tag) and (ahead.marked or ahead.kind in ("eos", "think")):
            self._at = after
            return ()
        self._report(after, is_last=True)
        machine.settle_calls(ahead)
        machine.block = None
        return (ParserState.PROSE, LineTracker())

    def _hold(self, at: int) -> Move | None:
        """Waits for what follows `at`."""
        self._at = at
        self._source.set_aside(at)
        return None

    def _ends(self, tag: Tag) -> bool | None:
        """Whether a tag acts, so that the text before it ends. None: not known yet."""
        machine = self._machine
        if tag.kind in ("eos", "think", "role", "native"):
            return True
        if tag.broken:
            return machine.rules.kind(tag) in ("invoke", "parameter")
        kind = machine.rules.kind(tag)
        if kind == "wrapper":
            return tag.marked or tag.closing
        if tag.closing or kind not in ("invoke", "parameter"):
            return False
        if kind == "parameter":
            return tag.marked
        name = machine.rules.tool_called(tag)
        if not tag.marked:
            return name is not None and machine.tools.given and machine.tools.declares(name)
        if name is None or machine.tools.may_be_tool(name):
            return True
        return machine.rules.is_certain(tag, wrapped=True)

    def _is_over(self, tag: Tag) -> bool:
        """Whether the block ends at a tag behind the text."""
        return tag.kind in TOKENS or self._machine.rules.closes(tag, "wrapper")

    def _report(self, to: int, is_last: bool = False) -> None:
        """Removes the text up to `to`. If the block holds nothing else, a call was meant."""
        machine, source = self._machine, self._source
        source.set_aside(to)
        start = source.aside_from
        lacks = is_last and isinstance(machine.block, BlockReader) and machine.block.lacks_calls
        machine.report_raw(kinds.DROPPED_CALL if lacks else self._kind, start, source.aside())

    def end(self) -> Move | None:
        source = self._source
        self._report(source.end, is_last=source.ended in (Ended.END, Ended.STOP))
        return (ParserState.BLOCK,)


class BrokenTagReader:
    """After a tag that breaks off in a wrapper: removes all text up to the next tag (rule 18)."""

    def __init__(self, machine: Machine, tag: Tag) -> None:
        self._machine = machine
        self._source = machine.source
        self._at = tag.end

    def read(self) -> Move | None:
        source = self._source
        while True:
            self._at, tag = source.next_tag(self._at)
            if tag is None:
                source.set_aside(self._at)
                return None
            if tag.marked or tag.kind in ("eos", "think"):
                return self._leave(tag.start)
            self._at += 1

    def _leave(self, to: int) -> Move:
        source = self._source
        source.set_aside(to)
        start = source.aside_from
        self._machine.report_raw(kinds.DROPPED_CALL, start, source.aside())
        return (ParserState.BLOCK,)

    def end(self) -> Move | None:
        return self._leave(self._source.end)


_JSON_LINE = pattern(r"\n[ \t\r]*(?=\{)")
_OPEN_LINE = pattern(r"\n[ \t\r]*\Z")


class RemarkReader:
    """Text between parameters. Short text is removed; longer text makes the call incomplete."""

    def __init__(self, machine: Machine, invoke: Invoke) -> None:
        self._machine = machine
        self._source = machine.source
        self._invoke = invoke
        self._start = machine.source.pos
        self._at = self._start + 1

    def read(self) -> Move | None:
        source = self._source
        while True:
            mark = source.next_mark(self._at)
            if self._invoke.body is None:
                found = source.search(_JSON_LINE, self._at - 1, mark)
                if found is not None:
                    return self._leave(source.place(found.end()))
            if mark == source.end:
                return self._wait(mark)
            tag = source.tag_at(mark)
            if isinstance(tag, PartialTag):
                return self._wait(mark)
            if tag is not None and self._ends(tag):
                return self._leave(mark)
            self._at = mark + 1

    def _ends(self, tag: Tag) -> bool:
        if tag.broken:
            return self._machine.rules.kind(tag) in ("invoke", "parameter")
        return self._invoke.acts(tag)

    def _wait(self, at: int) -> Move | None:
        pending = self._source.search(_OPEN_LINE, self._at - 1, at)
        self._at = at if pending is None else self._source.place(pending.start()) + 1
        self._check_length(self._at - 1)
        self._source.set_aside(self._at - 1)
        return None

    def _check_length(self, at: int) -> None:
        if at - self._start > LONGEST_REMARK and self._invoke.call.visible:
            self._give_up()

    def _give_up(self) -> None:
        """Too long for a remark: whatever it was, the call was not understood."""
        self._source.put_back()
        self._invoke.drop("unreadable")

    def _leave(self, to: int) -> Move:
        source = self._source
        self._check_length(to)
        source.set_aside(to)
        start = source.aside_from
        self._invoke.remark(start, source.aside())
        return (ParserState.INVOKE,)

    def end(self) -> Move | None:
        return self._leave(self._source.end)
