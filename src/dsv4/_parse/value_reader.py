"""Reading a value to its end: a text up to the tag that ends it, or JSON, in whose strings tags are
treated with care (recovery.md, rules 3 and 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from dsv4._completion.json_text import read_json
from dsv4._completion.limits import LONGEST_SPACE
from dsv4._completion.patterns import pattern
from dsv4._format import tokens
from dsv4._format.spellings import BAR, OPENING_BRACKETS, WORD
from dsv4._parse.reading import ParserState, Reading
from dsv4._parse.tag import PartialTag, Tag
from dsv4._parse.text_buffer import Steps

# Characters that count in JSON: outside its strings, and inside.
_JSON_MARK = pattern(rf'["{{}}\[\]{OPENING_BRACKETS}{BAR}]')
_JSON_STRING_MARK = pattern(r'["\\\n]')
# The head of a tag without the DSML token. Two letters tell most names apart.
_FIRST, _SECOND = (letter.lower() + letter.upper() for letter in WORD[:2])
_PLAIN_TAG = pattern(
    rf"[{OPENING_BRACKETS}](/?)[ \t]{{0,4}}((?![{_FIRST}](?:[{_SECOND}]|\Z))[A-Za-z](?s:.?))"
)
_EOS = str(tokens.EOS)


class Verdict(Enum):
    """The meaning of a tag inside a value."""

    TEXT = "a part of the value"
    CLOSE = "the value's own close"
    IMPLIED = "something that cannot be inside, so the value has ended"
    QUOTE = "the start of a quoted region"
    SPELLED = "a close that closes nothing: a part of the value, and a deviation"


TEXT, CLOSE, IMPLIED, QUOTE, SPELLED = Verdict  # by themselves, as in tag.py


class Value:
    """A value that is being read. It is held whole, unless it streams."""

    ends_itself = True  # as a JSON object does, at its last brace
    streams = False  # it is shown as it comes
    quoted = False  # a quoted region was opened in it
    _may_be_whole = True  # its JSON, where all brackets are closed
    own_starts: Sequence[str] = ()  # of the names of plain tags that may close it

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.buffer = reading.buffer
        self.start = self.end = self._at = reading.pos  # `end`: it surely goes up to here
        self.written: list[str] = []  # the text shown as it came
        if reading.block is not None and self.ends_itself:
            reading.block.strict = None  # the strict grammar has no JSON there

    @property
    def raw(self) -> str:
        return self.buffer.slice(self.start, self.end)

    # Methods in which kinds of values differ.

    def judge(self, tag: Tag, json_ended: bool = False) -> Steps[Verdict]:
        """The meaning of `tag`; `json_ended` says that the value is JSON, and whole."""
        return IMPLIED if (yield from self.ends_at(tag)) else TEXT

    def ends_at(self, tag: Tag) -> Steps[bool]:
        """Whether a tag cannot be inside the value."""
        raise NotImplementedError

    def quote(self, tag: Tag, verdict: Verdict) -> None:
        """Takes note of a quoted tag: a region begins, or a close closes nothing."""

    def may_end(self, tag: Tag, own: bool) -> Steps[bool]:
        """Whether the value really ends at a tag that seems to end it, its own close or another."""
        return True
        yield

    def close(self, to: int, tag: Tag | None = None) -> None:
        """Ends the value, with its own closing tag or without. Reading goes on at `to`."""
        raise NotImplementedError

    @property
    def is_cut(self) -> bool:
        """Whether the value must be JSON, or looks like it, and is not whole (rule 26)."""
        return False

    def cut(self) -> None:
        """The text ends inside the value."""
        raise NotImplementedError

    def give_up(self) -> None:
        """Ends a value that is cut (`is_cut`): the model ended the text with an EOS inside it."""

    def take(self, to: int, is_rest: bool = False) -> None:
        """Takes the text up to `to` into the value."""
        self.end = to

    # Reading.

    def read(self, as_json: bool) -> Steps[None]:
        self.reading.value = self
        is_text = not as_json or self.reads_strictly
        if is_text or not (yield from self._read_json()):
            self._at = self.reading.pos
            yield from self._read_text()
        self.reading.value = None

    @property
    def reads_strictly(self) -> bool:
        return self.reading.block is not None and self.reading.block.reads_strictly

    def _before_newline(self, at: int) -> int:
        """The end of the text before `at` without a newline, and white space after that.

        Both are left out if the value's end is implied (rule 3): `ls`, and on the next line the
        invoke's close.
        """
        start = max(self.reading.pos, self.end, at - LONGEST_SPACE)
        text = self.buffer.slice(start, at)
        newline = text.rfind("\n")
        if newline < 0 or text[newline:].strip(" \t\n"):
            return at - text.endswith("\r")
        return start + newline - text.endswith("\r", 0, newline)

    def _read_text(self) -> Steps[None]:
        """Reads a text, up to the tag that ends it."""
        self.reading.enter(ParserState.VALUE)
        while not self.reads_strictly:
            tag = yield from self._next_tag()
            if tag is None:
                return self._end(self._at)
            self.take(self._before_newline(tag.start))
            verdict = yield from self.judge(tag)
            if verdict is CLOSE or verdict is IMPLIED:
                if (yield from self._close_at(tag, verdict)):
                    return
            elif verdict is QUOTE or verdict is SPELLED:
                self.quote(tag, verdict)
            self._at = tag.end
        self._read_strictly()

    def _next_tag(self) -> Steps[Tag | None]:
        """The next tag that may end the value. None: the text ends before."""
        buffer = self.buffer
        while True:
            at = self._at = buffer.next_mark(max(self._at, self.reading.pos))
            in_text = at < buffer.end
            tag = buffer.tag_at(at) if in_text and not self._cannot_act(at) else None
            if isinstance(tag, Tag):
                return tag
            if tag is None and in_text:
                self._at += 1
                continue
            if at > self.end:
                self.take(self._before_newline(at))
            if not (yield from buffer.more_of(at, tag)):
                return None

    def _cannot_act(self, at: int) -> bool:
        """Whether the first letters show a tag without the DSML token that is text here.

        No such tag has a meaning in a value, but for a close that may be the value's own.
        """
        plain = self.buffer.match(_PLAIN_TAG, at)
        if plain is None or not plain[1]:
            return plain is not None
        letters = plain[2].lower()
        return not any(own.startswith(letters[: len(own)]) for own in self.own_starts)

    def _read_strictly(self) -> None:
        """Ends a value at its first close, whatever stands in it and after it (rule 20)."""
        buffer, close = self.buffer, str(self.reading.tags.parameter_close)
        at = buffer.place(buffer.text.find(close, self.reading.pos - buffer.base))
        while buffer.is_inert(at + 2, at + 3):
            at = buffer.place(buffer.text.find(close, at + 1 - buffer.base))
        tag = Tag("parameter", at, close, closing=True, marked=True)
        self.take(at)
        self.close(tag.end, tag)

    def _read_json(self) -> Steps[bool]:
        """Reads JSON. False: it is broken, has a raw newline in a string, or is read strictly.

        Its quotes mean nothing then: it is read again as a text, and the first close that fits
        ends it.
        """
        buffer, at = self.buffer, self.reading.pos
        self.reading.enter(ParserState.JSON)
        depth, in_string = 0, False
        while True:
            marks = _JSON_STRING_MARK if in_string else _JSON_MARK
            match = buffer.search(marks, at, buffer.end)
            mark = "" if match is None else match[0]
            at, match = buffer.end if match is None else buffer.place(match.start()), None
            if not mark or (mark == "\\" and at + 1 == buffer.end):
                if not (yield from buffer.more()):
                    return self._end_json(at, in_string)
                continue
            if mark == '"':
                in_string = not in_string
            elif mark == "\n":
                return False
            elif mark == "\\":
                at += 1
            elif mark in "{}[]":
                depth += 1 if mark in "{[" else -1
                if depth == 0 and self.ends_itself:
                    self.take(at + 1)
                    self.close(at + 1)
                    return True
            else:
                tag = yield from buffer.tag(at)
                if isinstance(tag, PartialTag):
                    return self._end_json(at, in_string)
                if tag is not None:
                    is_over = yield from self._ends_json_at(tag, depth == 0)
                    if is_over is not None:
                        return is_over
                    at = tag.end
                    continue
            at += 1

    def _ends_json_at(self, tag: Tag, is_closed: bool) -> Steps[bool | None]:
        """Whether the value ends at a tag. `is_closed`: all brackets of its JSON are closed.

        None: it goes on. False: it is to be read as a text.
        """
        is_whole = is_closed and self._may_be_whole and not self.ends_itself
        if is_whole:
            text = self.buffer.slice(self.start, tag.start)
            is_whole = self._may_be_whole = read_json(text) is not None
        verdict = yield from self.judge(tag, is_whole)
        if verdict in (CLOSE, IMPLIED) and (yield from self._close_at(tag, verdict)):
            return True
        return False if self.reads_strictly else None

    # The end.

    def _close_at(self, tag: Tag, verdict: Verdict) -> Steps[bool]:
        """Ends the value at a tag. False: the tag is quoted, and the value goes on."""
        own = verdict is CLOSE
        self.take(tag.start if own else self._before_newline(tag.start))
        if not (yield from self.may_end(tag, own)):
            return False
        if own:
            self.close(tag.end, tag)
        elif tag.kind != "eos" or not self.is_cut:
            self.close(tag.start)
        else:
            self.reading.advance(max(tag.start, self.reading.pos))
            self.give_up()
        return True

    def _end_json(self, at: int, in_string: bool) -> bool:
        """The text ends inside JSON. False: the value is to be read again as a text."""
        self.reading.end_inside()
        if in_string and self._is_misquoted:
            return False
        self._end(self.buffer.end if in_string else at)
        return True

    def _end(self, at: int) -> None:
        """The text ends, perhaps in a tag that begins at `at` and is not a part of the value."""
        reading, buffer = self.reading, self.buffer
        reading.end_inside()
        in_tag = at < buffer.end and buffer.tag_at(at) is PartialTag.SURELY
        end = at if in_tag else buffer.end
        self.take(self._before_newline(end) if buffer.stopped else end, is_rest=True)
        if in_tag and buffer.stopped:
            reading.report_cut(end)
        if not buffer.stopped or self.quoted or self.is_cut:
            self.cut()
        else:
            self.close(buffer.end)

    @property
    def _is_misquoted(self) -> bool:
        """Whether one of its quotes was wrong, and closes follow; else it was cut (rule 10)."""
        buffer, reading = self.buffer, self.reading
        text = buffer.slice(self.start, buffer.end)
        if buffer.stopped or _EOS in text:
            return True
        # Whether the text ends with the close of the outermost open tag.
        text = text.rstrip()
        last = max(map(text.rfind, OPENING_BRACKETS))
        tag = buffer.tag_at(self.start + last) if last >= 0 else None
        if not isinstance(tag, Tag) or tag.end != self.start + len(text):
            return False
        return reading.rules.role(tag) == ("/invoke" if reading.block is None else "/wrapper")
