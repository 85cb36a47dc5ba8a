"""Inside a block of calls, between the calls (recovery.md, rules 2, 5, 11, 14, 16 and 18)."""

from __future__ import annotations

from dsv4._parse import events as kinds
from dsv4._parse.events import DiagnosticKind
from dsv4._parse.invokes import InvokeOpening
from dsv4._parse.machine import Machine, Move, ParserState
from dsv4._parse.markup_in_prose import QUOTES_AN_INVOKE, HeldCalls
from dsv4._parse.parser_options import Ended
from dsv4._parse.prose_lines import LineTracker
from dsv4._parse.source import TOKENS, PartialTag, Tag, pattern
from dsv4._parse.tag_rules import Lookahead, begins_json_calls

# Between text in a wrapper and prose: a blank line. Between text and JSON: a line's start.
_BREAK = pattern(r"\n[ \t\r]*(?:\n\s*|(?=[\[{]))")
_OPEN_BREAK = pattern(r"\n\s*\Z")


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

    def _text(self, at: int) -> Move:
        """Text: junk, or prose, if a blank line stands before it: there the wrapper is over."""
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
