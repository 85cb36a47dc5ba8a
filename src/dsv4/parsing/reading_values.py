"""Going through values: texts, and JSON (recovery.md, rules 3 and 4)."""

from __future__ import annotations

from dsv4._format import tokens
from dsv4._format.spellings import BAR, OPENING_BRACKETS, WORD
from dsv4.parsing import diagnostics as kinds
from dsv4.parsing.json_values import read_json
from dsv4.parsing.limits import LONGEST_SPACE
from dsv4.parsing.machine import Machine, Move
from dsv4.parsing.patterns import pattern
from dsv4.parsing.source import Source
from dsv4.parsing.states import State
from dsv4.parsing.tags import Partial, Tag
from dsv4.parsing.values import Value
from dsv4.parsing.verdicts import Verdict

# What counts in JSON: outside its strings, and inside.
_JSON_MARK = pattern(rf'["{{}}\[\]{OPENING_BRACKETS}{BAR}]')
_WORD = WORD.lower()
_EOS = str(tokens.EOS)
_JSON_STRING_MARK = pattern(r'["\\\n]')


def _before_newline(source: Source, at: int) -> int:
    """Where the text before `at` ends without a newline, and white space after that.

    Both are left in the source: they go if the value's end is implied (rule 3).
    """
    start = max(source.pos, at - LONGEST_SPACE)
    text = source.slice(start, at)
    newline = text.rfind("\n")
    if newline < 0 or text[newline:].strip(" \t\n"):
        return at - text.endswith("\r")
    return start + newline - text.endswith("\r", 0, newline)


class Text:
    """A value that is a text, up to the tag that ends it."""

    def __init__(self, machine: Machine, value: Value) -> None:
        self._source = machine.source
        self._machine = machine
        self.value = value
        self._at = machine.source.pos
        self._in_doubt: Tag | None = None  # what stands at `_at`, until what follows says more

    def skip(self) -> None:
        """All text so far was dealt with by somebody else."""
        self._at = self._source.pos

    def read(self) -> Move | None:
        tag = self._in_doubt or self._next_tag()
        while tag is not None:
            verdict = self.value.judge.judge(tag)
            if verdict is Verdict.WAIT:
                if tag is not self._in_doubt:
                    self._in_doubt = tag
                    self._wait(tag.start)
                return None
            self._in_doubt = None
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
        elif self.value.streams:  # values that are set aside are looked at when they end
            self._machine.report_raw(kinds.QUOTED_MARKUP, tag.start, tag.raw)

    def _close(self, tag: Tag, verdict: Verdict) -> Move:
        if verdict is Verdict.CLOSE:
            self.value.take(tag.start)
            return self.value.close(tag)
        self.value.take(_before_newline(self._source, tag.start))
        self._source.advance(tag.start)
        return self.value.close(None)

    def end(self) -> Move | None:
        source = self._source
        if self._at < source.end and source.tag_at(self._at) is Partial.SURELY:
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


class Json:
    """A value that is JSON, held until it ends, with an eye on its strings.

    Where it is broken, or a raw newline stands in one of its strings, its quotes mean nothing: it
    is read again as a text, and the first close that fits ends it.
    """

    def __init__(self, machine: Machine, value: Value) -> None:
        self._source = machine.source
        self._machine = machine
        self.value = value
        self._at = machine.source.pos
        self._in_string = False
        self._depth = 0
        self._is_whole: bool | None = None

    def read(self) -> Move | None:
        source = self._source
        while True:
            pattern = _JSON_STRING_MARK if self._in_string else _JSON_MARK
            found = source.search(pattern, self._at, source.end)
            if found is None:
                return self._wait(source.end)
            at = source.place(found.start())
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
        if isinstance(tag, Partial):
            return self._wait(at)
        if tag is None:
            self._at = at + 1
            return ()
        verdict = self.value.judge.judge(tag, self._has_ended(at))
        if verdict is Verdict.WAIT:
            return self._wait(at)
        if verdict is Verdict.CLOSE:
            self.value.take(at)
            return self.value.close(tag)
        if verdict is Verdict.IMPLIED:
            self.value.take(_before_newline(self._source, at))
            self._source.advance(at)
            return self.value.close(None)
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
        return (State.VALUE, self.value)

    def end(self) -> Move | None:
        source = self._source
        if self._in_string:
            return self._end_in_string()
        if self._at < source.end and source.tag_at(self._at) is Partial.SURELY:
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
        return machine.closes(tag, "wrapper" if machine.block is not None else "invoke")
