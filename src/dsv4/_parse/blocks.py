"""A block of calls: the text between its calls (recovery.md, rules 2, 5, 11, 14, 16 and 18)."""

from __future__ import annotations

import re
from itertools import repeat

from dsv4._completion.events import DiagnosticKind
from dsv4._completion.json_text import members_of, object_in
from dsv4._completion.limits import LONGEST_NAME
from dsv4._completion.patterns import pattern
from dsv4._completion.reasons import Ended
from dsv4._format import tokens
from dsv4._parse import quotations
from dsv4._parse.after_calls import read_after
from dsv4._parse.call_reader import begin_call, next_part
from dsv4._parse.quoting import QUOTES_AN_INVOKE
from dsv4._parse.reading import BLOCK, PROSE, Block, ParserState, Reading
from dsv4._parse.strict_alongside import StrictAlongside
from dsv4._parse.tag import ENDS, SECTION_ENDS, TOKENS, PartialTag, Tag
from dsv4._parse.tag_rules import IN_BLOCK, IN_JUNK
from dsv4._parse.text_buffer import Steps
from dsv4._parse.values import JsonCallList

# The border between text in a wrapper and prose: a blank line; and JSON: a line's start.
_BREAK = pattern(r"\n[ \t\r]*(?:\n\s*|(?=[\[{]))")
_FENCED_OBJECT = pattern(r"\s*(```|~~~)[ \t]*\w*\s*(\{.*\})\s*\1\s*", re.DOTALL)
_TOKEN_OF_CALL = pattern(rf"(?<!</){tokens.DSML}")
_OPEN_BREAK = pattern(r"\n\s*\Z")


def open_block(reading: Reading, tag: Tag, blank_line: bool) -> None:
    """Opens a block at its tag. `blank_line`: one stands before it."""
    reading.enter(BLOCK)
    is_spelled = tag.raw == reading.tags.block_open.strip()
    met = reading.tally.calls_seen + reading.tally.calls_unread
    reading.check_spelling(tag)
    reading.advance(tag.end)
    strict = StrictAlongside(reading.tags, tag.end) if is_spelled else None
    reading.block = Block(blank_line and is_spelled, met, strict)


class BlockReader:
    """Reads the open block up to a call, or to its end."""

    def __init__(self, reading: Reading) -> None:
        assert reading.block is not None
        self._reading = reading
        self._buffer = reading.buffer
        self._rules = reading.rules
        self._block = reading.block

    def read(self) -> Steps[None]:
        while self._reading.block is self._block and self._reading.call is None:
            self._reading.enter(BLOCK)
            yield from self._read_part()

    def _read_part(self) -> Steps[None]:
        reading, buffer = self._reading, self._buffer
        if not (yield from reading.skip_space()):
            return (yield from self._end())
        at = reading.pos
        if buffer.at(at) in "{[":
            return (yield from self._read_json(at))
        tag = yield from buffer.tag(at)
        if isinstance(tag, PartialTag):
            yield from self._end()
        elif tag is not None:
            yield from getattr(self, f"_read_{self._rules.meaning(tag, IN_BLOCK)}")(tag) or ()
        elif self._block.used or not (yield from self._read_fenced_call(at)):
            yield from self._read_text(Tag("text", at, ""))

    def _read_json(self, at: int) -> Steps[None]:
        if self._buffer.after_blank_line(at) and not (yield from self._rules.begins_json_calls(at)):
            return (yield from self._read_text(Tag("text", at, "")))
        self._block.used = True
        yield from JsonCallList(self._reading).read(as_json=True)

    def _read_fenced_call(self, at: int) -> Steps[bool]:
        """A declared tool's name, a fence with an object of its keys, and closes (rule 35).

        `bash`, and in a fence `{"command": "ls"}`: other models write their calls so.
        """
        buffer, rules = self._buffer, self._rules
        self._reading.enter(ParserState.NAMED)
        name = yield from self._name_at(at)
        if name is None:
            return False
        tag = yield from buffer.next_marked(at)
        end = buffer.end if tag is None else tag.start
        fence = _FENCED_OBJECT.fullmatch(buffer.slice(at + len(name), end))
        arguments = None if fence is None else object_in(fence[2])
        while tag is not None and tag.marked and tag.closing:
            tag = yield from rules.look_past(tag.end)
        if arguments is None or (tag is not None and tag.kind not in ENDS):
            return False
        if not dict(members_of(arguments.text)).keys() <= self._reading.tools.keys(name).keys():
            return False
        self._block.used = True
        self._reading.enter(BLOCK)
        self._reading.report_span("json_calls", at, end)
        self._reading.advance(end)
        self._reading.whole_call(name, arguments.text, end)
        return True

    def _name_at(self, at: int) -> Steps[str | None]:
        """A declared tool's name that white space follows."""
        buffer, names = self._buffer, self._reading.tools.declared
        while True:
            rest = buffer.slice(at, at + LONGEST_NAME)
            if not any(map(str.startswith, names, repeat(rest))):
                return next((n for n in names if re.match(rf"{re.escape(n)}\s", rest)), None)
            if not (yield from buffer.more()):
                return None

    def _end(self) -> Steps[None]:
        """The text ends inside a wrapper: it was cut, unless the model ended it, or a stop string
        ended it between calls (rules 16 and 26): `<D tool_calls>` and a whole call, no more."""
        reading, buffer = self._reading, self._buffer
        reading.end_inside()
        if reading.pos < buffer.end or buffer.ended not in (Ended.END, Ended.STOP):
            reading.report_cut(reading.pos)
            if not buffer.stopped:
                return (yield from self._leave())
        yield from self._read_over()

    def _read_text(self, tag: Tag) -> Steps[None]:
        """Reads text: junk, or prose if a blank line stands before it, which ends the wrapper."""
        if not self._buffer.after_blank_line(tag.start):
            return (yield from self._read_junk(tag))
        self._reading.settle()
        kind: DiagnosticKind = "implied_close" if self._block.used else "empty_block"
        self._reading.report(kind, tag.start, "")
        yield from self._to_prose()

    def _to_prose(self) -> Steps[None]:
        reading = self._reading
        reading.block = None
        if reading.quotations:
            ahead = yield from self._rules.look_ahead(reading.pos)
            yield from quotations.settle(reading, ahead)
        reading.prose.quoting.begin_line()
        reading.prose.at = reading.pos
        reading.enter(PROSE)

    @property
    def _lacks_calls(self) -> bool:
        """Whether no call was met so far, made or not, and one may be meant (rule 28): in
        `<D tool_calls>I look.</D tool_calls>`."""
        tally = self._reading.tally
        met = tally.calls_seen + tally.calls_unread
        return met == self._block.met_before and not self._reading.settings.forbidden

    def _report_lack(self) -> None:
        if self._lacks_calls:
            self._reading.report("dropped_call", self._reading.pos, "")

    # Tags.

    def _read_close(self, tag: Tag) -> Steps[None]:
        if not tag.marked:
            ahead = yield from self._rules.look_past(tag.end)
            if self._rules.role(ahead) == "/wrapper":
                return self._read_surplus(tag)  # of a plain wrapper, inside this one
        return (yield from self._close(tag))

    def _read_odd(self, tag: Tag) -> Steps[None]:
        """A close of something unknown: it closes the wrapper, if nothing follows."""
        ahead = yield from self._rules.look_ahead(tag.end)
        if ahead.kind in ENDS:
            return (yield from self._close(tag))
        return self._read_surplus(tag)

    def _read_lost(self, _: Tag) -> Steps[None]:
        """A parameter without a call: it belongs to a call of an unknown tool.

        Directly behind a call it may belong to that one, which was closed too early (rule 11).
        """
        self._block.used = True
        self._reading.doubt_closed()
        return begin_call(self._reading, None)

    def _read_surplus(self, tag: Tag) -> None:
        reading, block = self._reading, self._block
        again = block.after_invoke and self._rules.role(tag) == "/invoke"
        if tag.closing and not again and (tag.marked or tag.kind != "wrapper"):
            reading.note_surplus(tag.end)
        block.after_invoke = False
        # `</D invoke name="ping">`: whatever was meant, it names a call (rule 28).
        names_call = tag.closing and tag.name is not None and self._rules.calls_declared(tag)
        reading.report("dropped_call" if names_call else "unexpected_tag", tag.start, tag.raw)
        reading.advance(tag.end)

    def _read_wrapper(self, tag: Tag) -> Steps[None]:
        """Another wrapper: they do not nest (rule 2). One that names a tool is a call."""
        if self._rules.names_tool(tag):
            return (yield from self._read_invoke(tag))
        if not self._block.used:
            return self._read_surplus(tag)
        ahead = yield from self._rules.look_ahead(tag.end)
        if ahead.kind in ENDS:  # a close without its slash
            return (yield from self._close(tag))
        yield from self._read_over()

    def _read_invoke(self, tag: Tag) -> Steps[None]:
        reading, block = self._reading, self._block
        name = self._rules.tool_called(tag)
        certain = tag.marked or name is not None
        if not (name is None or reading.tools.may_be_tool(name) or self._rules.is_example(name)):
            certain = yield from self._rules.is_certain(tag, wrapped=True)
        if not certain:
            return (yield from self._read_junk(tag, "dropped_call"))
        block.used = True
        if block.calls and self._buffer.char_before(tag.start) in QUOTES_AN_INVOKE:
            block.is_quoted = True
        block.calls += 1
        block.after_invoke = True
        yield from begin_call(reading, tag, block.is_quoted)

    def _close(self, tag: Tag) -> Steps[None]:
        reading, block = self._reading, self._block
        if tag.closing:
            reading.check_spelling(tag)
        else:
            reading.report("misspelled_tag", tag.start, tag.raw)
        if not block.used and not block.may_be_empty:
            reading.report("empty_block", tag.start, tag.raw)
        elif block.used:
            self._report_lack()
        reading.advance(tag.end)
        yield from self._leave()

    def _read_over(self, _: Tag | None = None) -> Steps[None]:
        """The block is over, though its close did not come."""
        self._report_lack()
        self._reading.report("implied_close", self._reading.pos, "")
        yield from self._leave()

    def _leave(self) -> Steps[None]:
        self._reading.block = None
        yield from read_after(self._reading)

    # Text that is not a call is removed (rule 5).

    def _read_broken(self, tag: Tag) -> Steps[None]:
        """After a tag that breaks off: removes all text up to the next tag (rule 18).

        `<D invoke name="ls` and a line end: it is unknown what was called.
        """
        reading, buffer = self._reading, self._buffer
        reading.enter(ParserState.BROKEN)
        self._block.used = True
        ahead = yield from buffer.next_marked(tag.end, kinds=SECTION_ENDS)
        to = buffer.end if ahead is None else ahead.start
        if ahead is None:
            reading.end_inside()
        reading.report_span("dropped_call", tag.start, to)
        reading.advance(to)

    def _read_junk(self, tag: Tag, kind: DiagnosticKind = "unexpected_text") -> Steps[None]:
        reading, buffer, start = self._reading, self._buffer, tag.start
        self._block.used = True
        if kind != "dropped_call":
            self._block.after_invoke = False
            if self._block.calls:
                reading.begin_doubt()  # calls behind text between two calls are doubtful (rule 21)
        reading.enter(ParserState.JUNK)
        at = start + 1
        while part := (yield from next_part(buffer, at, _BREAK, _OPEN_BREAK)):
            if isinstance(part, Tag):
                if (yield from self._ends_junk(part)):
                    over = part.kind in TOKENS or self._rules.role(part) == "/wrapper"
                    return self._drop_junk(start, part.start, kind, is_last=over)
                at = part.end
                continue
            # A blank line, or JSON at a line's start.
            newline, at = part
            if buffer.at(at) in ("{", "["):
                if (yield from self._rules.begins_json_calls(at)):
                    return self._drop_junk(start, at, kind)
                if "\n" not in buffer.slice(newline + 1, at):
                    continue
            ahead = yield from self._rules.look_ahead(at)
            if not (ahead.marked or ahead.kind in SECTION_ENDS):
                self._drop_junk(start, at, kind, is_last=True)
                reading.settle()
                return (yield from self._to_prose())
        reading.end_inside()
        is_last = buffer.ended in (Ended.END, Ended.STOP)
        self._drop_junk(start, buffer.end, kind, is_last)

    def _ends_junk(self, tag: Tag) -> Steps[bool]:
        """Whether a tag is treated as markup, so that the text before it ends."""
        word = self._rules.meaning(tag, IN_JUNK)
        if word != "invoke":
            return word == "ends"
        name, tools = self._rules.tool_called(tag), self._reading.tools
        if not tag.marked:
            return tools.declares(name)
        if name is None or tools.may_be_tool(name):
            return True
        return (yield from self._rules.is_certain(tag, wrapped=True))

    def _drop_junk(self, start: int, to: int, kind: DiagnosticKind, is_last: bool = False) -> None:
        """Removes the text up to `to`. If the block holds nothing else, a call was meant."""
        # The token, but for that of a close, is a remainder of a call: `<invoke D name="bash">`,
        # where D is the token (rule 38).
        is_call = _TOKEN_OF_CALL.search(self._buffer.slice(start, to)) is not None
        lacks = is_call or (is_last and self._lacks_calls)
        self._reading.report_span("dropped_call" if lacks else kind, start, to)
        self._reading.advance(to)
