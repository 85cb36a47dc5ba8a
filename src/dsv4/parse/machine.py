"""The one parser: text in pieces -> events (RECOVERY.md).

The text that is not understood yet is in `_text`, from `_pos` on; `_base` is where it begins in
the whole. A state is a method that looks only for what acts in it. It returns True when it got
further, and False when it needs more text. No state decides what more text could change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dsv4.parse import diagnostics as kinds
from dsv4.parse.call import Call
from dsv4.parse.declared import Tools
from dsv4.parse.events import (
    ArgumentsDelta,
    ContentDelta,
    Diagnostic,
    End,
    Event,
    ReasoningDelta,
)
from dsv4.parse.lines import Lines
from dsv4.parse.stops import Stops
from dsv4.parse.strict import read_strictly
from dsv4.parse.tags import LONGEST_SPACE, Partial, Tag, read_tag
from dsv4.parse.values import (
    NOT_JSON,
    calls_in,
    declared_json,
    escaped,
    json_value,
    only_member,
    plain_arguments,
    quoted,
)
from dsv4.spec import tokens
from dsv4.spec.dialects import Dialect, dialect_named
from dsv4.spec.spellings import (
    BARS,
    PLAIN_INVOKES,
    PLAIN_WRAPPERS,
    RELEASED_TAGS,
    WORD,
)

# Under which arguments stand that are no JSON object (rule 8).
RAW_PARAMETER = "arguments"

# Limits that nobody meets by accident.
MOST_CALLS = 1024
MOST_PARAMETERS = 1024
LONGEST_NAME = 512

_BAR = str(tokens.DSML)[0]
# What may begin a tag; what else keeps a piece of text from being passed on as it is.
_MARK = re.compile(f"[<{_BAR}]")
_NOT_PLAIN = re.compile(f"[<{_BAR}\n`]")
_JSON_MARK = re.compile(f'["<{_BAR}]')
_JSON_STRING_MARK = re.compile(r'["\\\n]')
_SPACE = re.compile(r"\s*")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_CALL_LIST = re.compile(r'\[\s*\{|\{\s*"')
_UNTAGGED = re.compile(rf"<?/?[ \t{re.escape(BARS)}]*{WORD}[{re.escape(BARS)}]*")
_QUOTING = "`\"'“”‘’"

# What `_follow` finds that is no tag.
MORE, END, TEXT, BRACE = "more", "end", "text", "brace"


class StreamParser:
    """Reads a completion in pieces.

    `thinking` says whether the prompt left the model thinking. `tools` are the declared tools:
    none declared with `[]`, not told with None. `prefix` is what the prompt already holds of this
    turn, where it is continued; its events are not repeated.
    """

    def __init__(
        self,
        thinking: bool = True,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = "auto",
        dialect: str | Dialect | None = None,
        strict: bool = False,
        *,
        stop: Sequence[str] | str = (),
        prefix: str = "",
    ) -> None:
        self._tools = Tools(tools)
        self._forbidden = tool_choice == "none"
        self._tags = dialect_named(dialect or "v4").tags
        self._stops = Stops([stop] if isinstance(stop, str) else stop) if stop else None

        self._text = ""
        self._pos = 0
        self._base = 0
        self._final = False
        self._out: list[Event] = []
        self._carried: list[Event] = []  # of a call that the prompt left open
        self._state: Callable[[], bool] = self._prose
        self._quick: Callable[[str], list[Event]] | None = None

        # Prose.
        self._reasoning = thinking
        self._unclosed = thinking
        self._lines = Lines()
        self._newlines = ""  # at most two, which belong to a block if one follows
        self._before = ""  # the text before: its last character counts
        self._said_reasoning = False
        self._joining = False  # the next reasoning starts on a line of its own
        self._openers = 0  # opening tags that were left as text

        # Calls.
        self._wrapped = False
        self._blocks = 0
        self._strict_block = False
        self._block_used = False
        self._plain_wrapper = False
        self._plain_inner = 0
        self._calls = 0
        self._begun = 0
        self._completed = 0
        self._call: Call | None = None
        self._call_start = 0
        self._recorded: list[str] | None = None

        # The value of a parameter, or a body.
        self._key: str | None = None
        self._value_tag: Tag | None = None
        self._value_start = 0
        self._streams = False
        self._held: list[str] = []
        self._held_start = 0
        self._newline = False  # one at the end, which goes if the value's end is implied
        self._quotes: list[str] = []  # open tags of a quoted region
        self._in_string = False
        self._lone = False
        self._body = ""
        self._dropped = False
        self._finish_held: Callable[[], bool] = self._end_parameter
        self._judge: Callable[[Tag, int], str] = self._judge_in_value

        self._eos = False
        self._cut = False
        self._quick = self._quick_prose if not self._stops else None
        if strict:
            self._state, self._quick = self._strictly, None
        if prefix:
            self._continue(prefix)

    # Feeding.

    def feed(self, text: str) -> list[Event]:
        """The events that `text` brings, possibly none."""
        if self._quick is not None and text and _NOT_PLAIN.search(text) is None:
            return self._quick(text)
        self._text = self._text + text if self._text else text
        return self._run()

    def finish(self) -> list[Event]:
        """The events that the end of the text brings. The last of them is an `End`."""
        self._final = True
        events = self._run()
        if self._held and self._call is None and self._state in (self._json, self._value):
            self._cut = calls_in("".join(self._held)) is None
            self._end_list()
            events += self._run()
        self._out = []
        if self._call is not None:
            self._cut_call()
        self._flush_newlines()
        self._show(self._stops.release() if self._stops and not self._stops.hit else "")
        if self._reasoning and self._unclosed and not self._halted:
            self._report(kinds.UNCLOSED_REASONING, self._pos, self._pos)
        self._emit(End(self._finish_reason()))
        events += self._out
        self._out = []
        return events

    @property
    def _halted(self) -> bool:
        return self._stops is not None and self._stops.hit

    def _finish_reason(self) -> str:
        if self._halted:
            return "stop"
        if self._completed and self._state == self._after and not self._cut:
            return "tool_calls"
        if self._cut or (self._reasoning and not self._eos and self._unclosed):
            return "length"
        return "tool_calls" if self._completed else "stop"

    def _continue(self, prefix: str) -> None:
        """Reads what the prompt holds already. Of its events only those of an open call count."""
        events = self.feed(prefix)
        self._base -= len(prefix)
        if self._call is not None and self._call.shown:
            index = self._call.index
            self._carried = [e for e in events if getattr(e, "index", None) == index]
            self._quick = None

    def _run(self) -> list[Event]:
        self._out, self._carried = self._carried, []
        while self._state():
            pass
        if self._pos:
            self._base += self._pos
            self._text = self._text[self._pos :]
            self._pos = 0
        self._quick = self._quick_now()
        return self._out

    def _quick_now(self) -> Callable[[str], list[Event]] | None:
        if self._text or self._stops is not None:
            return None
        if self._state == self._prose and not self._newlines and not self._joining:
            return self._quick_prose
        if self._state == self._value and self._streams and not self._newline and not self._quotes:
            return self._quick_value if self._call is not None and self._call.shown else None
        return None

    def _quick_prose(self, text: str) -> list[Event]:
        if not self._lines.settled:
            self._lines.follow(text)
        self._before = text
        self._base += len(text)
        if self._reasoning:
            self._said_reasoning = True
            return [ReasoningDelta(text)]
        return [ContentDelta(text)]

    def _quick_value(self, text: str) -> list[Event]:
        self._base += len(text)
        return [ArgumentsDelta(self._call.index, escaped(text))]  # type: ignore[union-attr]

    # The strict grammar, which is decided at the end.

    def _strictly(self) -> bool:
        self._held.append(self._text)
        self._pos = len(self._text)
        if not self._final or not self._held:
            return False
        message = read_strictly("".join(self._held), self._reasoning, self._tags)
        self._held = []
        self._eos = True
        self._show(message.reasoning)
        self._reasoning = self._unclosed = False
        self._show(message.content)
        for name, arguments in message.calls:
            self._whole_call(name, arguments)
        self._state = self._after
        return True

    # Small steps.

    def _emit(self, event: Event) -> None:
        self._out.append(event)

    def _report(self, kind: str, start: int, end: int, raw: str | None = None) -> None:
        raw = self._text[start:end] if raw is None else raw
        self._out.append(Diagnostic(kind, self._base + start, self._base + end, raw))

    def _advance(self, to: int) -> None:
        if self._recorded is not None:
            self._recorded.append(self._text[self._pos : to])
        self._pos = to

    def _follow(self, at: int) -> Tag | str:
        """What stands at `at`, behind optional white space."""
        text = self._text
        start = at
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if at - start > LONGEST_SPACE:
            return TEXT
        if at == len(text):
            return END if self._final else MORE
        if text[at] in "{[":
            return BRACE
        if text[at] != "<" and text[at] != _BAR:
            return TEXT
        tag = read_tag(text, at, plain=True)
        if isinstance(tag, Partial):
            return END if self._final else MORE
        return tag or TEXT

    def _kind(self, tag: Tag) -> str | None:
        """What a tag is, where a tool or a parameter may give it its name. None for nothing."""
        if tag.kind != "named":
            return tag.kind
        if self._call is not None:
            if tag.label in self._tools.parameters.get(self._call.name, ()):
                return "parameter"
            if tag.closing and tag.label == self._call.name:
                return "invoke"
        return "invoke" if tag.label in self._tools.parameters else None

    def _called(self, tag: Tag) -> str | None:
        """The name of the tool that an invoke calls."""
        return tag.label if tag.kind == "named" else tag.name

    def _check_spelling(self, tag: Tag) -> None:
        """Reports a tag that acts and is not spelled as the dialect spells it."""
        labels = {
            "wrapper": self._tags.calls,
            "invoke": self._tags.invoke,
            "parameter": self._tags.parameter,
        }
        if tag.kind in labels and tag.raw == tag.canonical(labels[tag.kind]):
            return
        head = tag.raw.partition(" name=")[0].rstrip(">")
        kind = kinds.OTHER_RELEASE if head in RELEASED_TAGS else kinds.MISSPELLED_TAG
        if kind == kinds.OTHER_RELEASE and head.lstrip("</") == f"{tokens.DSML}{labels.get(tag.kind)}":
            kind = kinds.MISSPELLED_TAG
        self._report(kind, tag.start, tag.end)

    # Prose: reasoning and content.

    def _prose(self) -> bool:
        text = self._text
        at = self._pos
        while (mark := _MARK.search(text, at)) is not None:
            at = mark.start()
            tag = read_tag(text, at, plain=bool(self._tools.parameters))
            if tag is None:
                at = self._untagged(at)
                continue
            self._say(at)
            if isinstance(tag, Tag):
                return self._prose_tag(tag)
            if not self._final:
                return False
            return self._cut_tag(tag)
        self._say(len(text))
        return False

    def _untagged(self, at: int) -> int:
        """Passes by a `<` or a bar that begins no tag; reports it where it spells the DSML token."""
        word = _UNTAGGED.match(self._text, at)
        if word is None or (self._text[at] != "<" and not word[0].startswith(str(tokens.DSML))):
            return at + 1
        self._say(at)
        self._report(kinds.MARKUP_AS_TEXT, at, word.end())
        return word.end()

    def _cut_tag(self, tag: Partial) -> bool:
        """The text ends inside what may be a tag."""
        if tag is Partial.SURELY and not self._lines.fenced and not self._tools.none_declared:
            self._report(kinds.CUT_SHORT, self._pos, len(self._text))
            self._advance(len(self._text))
        else:
            self._say(len(self._text))
        return False

    def _say(self, to: int) -> None:
        """Shows the prose up to `to`, but for the newlines that may belong to a block."""
        text = self._text[self._pos : to]
        if not text:
            return
        self._advance(to)
        self._lines.follow(text)
        self._before = text
        text = self._newlines + text
        kept = 2 if text.endswith("\n\n") else 1 if text.endswith("\n") else 0
        self._newlines = "\n" * kept
        self._show(text[: len(text) - kept] if kept else text)

    def _flush_newlines(self) -> None:
        newlines, self._newlines = self._newlines, ""
        self._show(newlines)

    def _show(self, text: str) -> None:
        if self._stops is not None and text:
            text = "" if self._stops.hit else self._stops.pass_on(text)
            if self._stops.hit:
                self._state = self._halt
        if not text:
            return
        if not self._reasoning:
            self._out.append(ContentDelta(text))
            return
        if self._joining and self._said_reasoning:
            self._out.append(ReasoningDelta("\n"))
        self._joining = False
        self._said_reasoning = True
        self._out.append(ReasoningDelta(text))

    def _halt(self) -> bool:
        """A stop string was met: nothing counts any more."""
        self._pos = len(self._text)
        return False

    def _prose_tag(self, tag: Tag) -> bool:
        if self._state == self._halt:
            return True
        if tag.kind == "eos":
            return self._prose_eos(tag)
        if tag.kind == "bos":
            return self._remove(kinds.STRAY_TOKEN, tag)
        if tag.kind == "think":
            return self._think(tag)
        if tag.plain:
            return self._plain_tag(tag)
        kind = self._kind(tag)
        if tag.closing and kind is not None and not tag.bare and not self._lines.fenced:
            return self._orphan(tag)
        if kind is None or tag.bare or self._lines.fenced:
            return self._leave_as_text(tag)
        if self._tools.none_declared:
            return self._undeclared_block(tag, kind)
        if kind == "wrapper":
            return self._prose_wrapper(tag)
        if kind == "invoke":
            return self._prose_invoke(tag)
        return self._leave_as_text(tag)

    def _prose_eos(self, tag: Tag) -> bool:
        if tag.end < len(self._text):
            return self._remove(kinds.STRAY_TOKEN, tag)
        if self._final:
            self._eos = True
            self._advance(tag.end)
        return False

    def _remove(self, kind: str, tag: Tag) -> bool:
        self._flush_newlines()
        self._report(kind, tag.start, tag.end)
        self._advance(tag.end)
        return True

    def _leave_as_text(self, tag: Tag) -> bool:
        if not tag.plain:
            self._report(kinds.MARKUP_AS_TEXT, tag.start, tag.end)
            self._openers += -1 if tag.closing else 1
            self._openers = max(self._openers, 0)
        self._say(tag.end)
        return True

    def _think(self, tag: Tag) -> bool:
        if tag.closing and self._reasoning:
            self._flush_newlines()
            self._advance(tag.end)
            self._reasoning = self._unclosed = False
            self._lines = Lines()
            return True
        if self._reasoning:
            if self._said_reasoning or self._newlines.strip():
                self._report(kinds.STRAY_THINK, tag.start, tag.end)
                self._say(tag.end)
                return True
            return self._remove(kinds.STRAY_THINK, tag)
        if tag.end == len(self._text) and not self._final and self._before[-1:] in _QUOTING:
            return False
        follower = self._text[tag.end : tag.end + 1]
        between = self._before[-1:] and self._before[-1:] in _QUOTING and follower
        if self._lines.fenced or (between and follower in _QUOTING):
            self._say(tag.end)
            return True
        if tag.closing:
            return self._remove(kinds.STRAY_THINK, tag)
        self._remove(kinds.THINK_IN_CONTENT, tag)
        self._reasoning = self._unclosed = True
        self._joining = True
        self._lines = Lines()
        return True

    def _prose_wrapper(self, tag: Tag) -> bool:
        if not self._lines.blank:
            follower = self._follow(tag.end)
            certain: bool | None = False
            if isinstance(follower, Tag):
                if self._kind(follower) == "invoke" and not follower.closing:
                    certain = self._is_certain(follower, wrapped=True)
            elif follower == BRACE:
                at = _SPACE.match(self._text, tag.end).end()  # type: ignore[union-attr]
                enough = len(self._text) > at + LONGEST_SPACE or self._final
                certain = bool(_CALL_LIST.match(self._text, at)) or (False if enough else None)
            elif follower in (MORE, END):
                certain = None
            if certain is None and not self._final:
                return False
            if certain is False:
                return self._leave_as_text(tag)
        self._open_block(tag)
        return True

    def _undeclared_block(self, tag: Tag, kind: str) -> bool:
        """Where no tool is declared a block is text, but for one that holds no call."""
        follower = self._follow(tag.end) if kind == "wrapper" and self._lines.blank else TEXT
        if follower == MORE:
            return False
        if isinstance(follower, Tag) and follower.kind == "wrapper" and follower.closing:
            self._open_block(tag)
            return True
        return self._leave_as_text(tag)

    def _prose_invoke(self, tag: Tag) -> bool:
        name = self._called(tag)
        if name is None or not self._tools.told or not self._tools.declares(name):
            return self._leave_as_text(tag)
        certain = self._is_certain(tag, wrapped=False)
        if certain is None:
            if not self._final:
                return False
        elif not certain:
            return self._leave_as_text(tag)
        self._enter_calls(tag)
        self._report(kinds.MISSING_WRAPPER, tag.start, tag.start)
        self._begin_call(tag)
        return True

    def _is_certain(self, tag: Tag, wrapped: bool) -> bool | None:
        """Whether an invoke is followed by what must follow (rule 2). None: nothing follows yet."""
        if tag.self_closed:
            return True
        follower = self._follow(tag.end)
        if follower in (MORE, END):
            return None
        if not isinstance(follower, Tag):
            at = _SPACE.match(self._text, tag.end).end()  # type: ignore[union-attr]
            return follower == BRACE and self._text[at] == "{"
        if follower.kind == "eos":
            return wrapped
        kind = self._kind_in(follower, self._called(tag))
        if kind == "parameter":
            return not follower.closing
        if kind == "invoke":
            return follower.closing or wrapped
        return kind == "wrapper" and follower.closing and wrapped

    def _kind_in(self, tag: Tag, name: str | None) -> str | None:
        """What a tag is inside a call of the tool `name`."""
        if tag.kind == "named" and tag.label in self._tools.parameters.get(name or "", ()):
            return "parameter"
        return self._kind(tag)

    # Orphan closers.

    def _orphan(self, tag: Tag) -> bool:
        """A closing tag in prose: removed where prose ends, or a block was before it (rule 9)."""
        if self._openers:
            return self._leave_as_text(tag)
        self._flush_newlines()
        self._held = []
        self._held_start = self._base + tag.start
        self._held.append(tag.raw)
        self._advance(tag.end)
        self._state = self._orphans
        return True

    def _orphans(self) -> bool:
        text, start = self._text, self._pos
        at = _SPACE.match(text, start).end()  # type: ignore[union-attr]
        follower = self._follow(start)
        if follower == MORE:
            return False
        if isinstance(follower, Tag) and not follower.plain:
            if follower.closing and self._kind(follower) is not None and follower.kind != "think":
                self._held.append(text[start : follower.end])
                self._advance(follower.end)
                return True
            removed = follower.kind != "think" or follower.closing
        else:
            removed = follower == END
        held = "".join(self._held)
        self._state = self._prose
        kind = kinds.ORPHAN_CLOSER if removed else kinds.MARKUP_AS_TEXT
        end = self._held_start + len(held)
        self._out.append(Diagnostic(kind, self._held_start, end, held))
        if removed:
            self._advance(at)
            self._lines = Lines()
            self._before = ""
        else:
            self._say_held(held)
        return True

    def _say_held(self, text: str) -> None:
        """Shows text that was taken out of the buffer already."""
        self._lines.follow(text)
        self._before = text
        text = self._newlines + text
        kept = 2 if text.endswith("\n\n") else 1 if text.endswith("\n") else 0
        self._newlines = "\n" * kept
        self._show(text[: len(text) - kept] if kept else text)

    # Blocks.

    def _enter_calls(self, tag: Tag) -> None:
        """Leaves prose for a block, or for a call without one."""
        self._strict_block = self._newlines == "\n\n"
        if self._strict_block:
            self._newlines = ""
        self._flush_newlines()
        if self._stops is not None:
            held = self._stops.release()
            if held:
                self._out.append(ReasoningDelta(held) if self._reasoning else ContentDelta(held))
        if self._reasoning:
            self._report(kinds.CALL_IN_REASONING, tag.start, tag.start)
        if self._blocks:
            self._report(kinds.SECOND_BLOCK, tag.start, tag.start)
        self._blocks += 1

    def _open_block(self, tag: Tag) -> None:
        self._enter_calls(tag)
        self._check_spelling(tag)
        self._strict_block = self._strict_block and tag.raw == tag.canonical(self._tags.calls)
        self._advance(tag.end)
        self._wrapped = True
        self._block_used = False
        self._state = self._block

    def _block(self) -> bool:
        at = _SPACE.match(self._text, self._pos).end()  # type: ignore[union-attr]
        self._advance(at)
        text = self._text
        if at == len(text):
            if self._final:
                self._report(kinds.IMPLIED_CLOSE, at, at)
                self._leave_block()
            return self._final
        if text[at] in "{[" and not self._block_used:
            self._block_used = True
            self._hold(self._judge_in_list, self._end_list)
            self._state = self._json
            return True
        if text[at] != "<" and text[at] != _BAR:
            return self._start_junk()
        tag = read_tag(text, at, plain=True)
        if tag is None:
            return self._start_junk()
        if isinstance(tag, Partial):
            return self._cut_markup()
        kind = self._kind(tag)
        if kind == "wrapper" and tag.closing:
            return self._close_block(tag)
        if tag.kind in ("eos", "think", "bos"):
            self._report(kinds.IMPLIED_CLOSE, at, at)
            self._leave_block()
            return True
        if kind == "invoke" and not tag.closing:
            certain = self._is_certain(tag, wrapped=True)
            if certain is None and not self._final:
                return False
            if certain is not False:
                self._block_used = True
                self._begin_call(tag)
                return True
            return self._start_junk()
        if kind == "wrapper" and self._block_used:
            self._report(kinds.IMPLIED_CLOSE, at, at)
            self._leave_block()
            return True
        if kind is None:
            return self._start_junk()
        self._report(kinds.UNEXPECTED_TAG, at, tag.end)
        self._advance(tag.end)
        return True

    def _cut_markup(self) -> bool:
        """The text ends inside a tag, where only tags count."""
        if self._final:
            self._report(kinds.CUT_SHORT, self._pos, len(self._text))
            self._advance(len(self._text))
        return False

    def _close_block(self, tag: Tag) -> bool:
        self._check_spelling(tag)
        if not self._block_used and not self._strict_block:
            self._report(kinds.EMPTY_BLOCK, tag.start, tag.end)
        self._advance(tag.end)
        self._leave_block()
        return True

    def _leave_block(self) -> None:
        self._wrapped = False
        self._state = self._after

    def _after(self) -> bool:
        """Behind a block or a call without one: closers go, white space only before text stays."""
        text, start = self._text, self._pos
        at = _SPACE.match(text, start).end()  # type: ignore[union-attr]
        if at == len(text) and at - start <= LONGEST_SPACE:
            if self._final:
                self._advance(at)
            return False
        tag: Tag | Partial | None = None
        if at - start <= LONGEST_SPACE and text[at] in ("<", _BAR):
            tag = read_tag(text, at, plain=True)
            if isinstance(tag, Partial) and not self._final:
                return False
        if isinstance(tag, Tag):
            kind = self._kind(tag)
            closes = tag.closing and kind in ("wrapper", "invoke", "parameter")
            if closes and (not tag.plain or (self._plain_wrapper and kind == "wrapper")):
                self._report(kinds.ORPHAN_CLOSER, at, tag.end)
                self._plain_wrapper = False
                self._advance(tag.end)
                return True
            if tag.kind in ("eos", "think") or (kind in ("wrapper", "invoke") and not tag.closing):
                self._advance(at)
                self._lines = Lines()
                self._state = self._prose
                return True
        self._lines = Lines()
        self._lines.follow("the block, on the same line")
        self._report(kinds.TEXT_AFTER_BLOCK, start, start)
        self._state = self._prose
        return True

    # Text in a block that is no call.

    def _start_junk(self) -> bool:
        self._block_used = True
        self._held = []
        self._held_start = self._base + self._pos
        self._state = self._junk
        self._keep_junk(self._pos + 1)
        return True

    def _keep_junk(self, to: int) -> None:
        self._held.append(self._text[self._pos : to])
        self._advance(to)

    def _junk(self) -> bool:
        text = self._text
        at = self._pos
        while (mark := _MARK.search(text, at)) is not None:
            at = mark.start()
            tag = read_tag(text, at, plain=True)
            if isinstance(tag, Partial):
                self._keep_junk(at)
                if self._final:
                    self._keep_junk(len(text))
                    self._end_junk(closed=False)
                return False
            kind = self._kind(tag) if tag is not None else None
            if tag is None or kind is None:
                at += 1
                continue
            closed = kind == "wrapper" and tag.closing
            ended = closed or kind in ("wrapper", "think", "eos")
            if kind == "invoke" and not tag.closing and not tag.plain:
                certain = self._is_certain(tag, wrapped=True)
                if certain is None and not self._final:
                    self._keep_junk(at)
                    return False
                closed = ended = certain is not False
            if ended:
                self._keep_junk(at)
                self._end_junk(closed)
                return True
            at = tag.end
        self._keep_junk(len(text))
        if self._final:
            self._end_junk(closed=False)
        return False

    def _end_junk(self, closed: bool) -> None:
        """Removes the text up to the block's close; up to a blank line where none comes."""
        held = "".join(self._held)
        blank = None if closed else _BLANK_LINE.search(held)
        cut = blank.end() if blank is not None else len(held)
        start = self._held_start
        self._out.append(Diagnostic(kinds.UNEXPECTED_TEXT, start, start + cut, held[:cut]))
        self._state = self._block
        if not closed:
            self._leave_block()
            self._state = self._prose
            self._lines = Lines()
            self._say_held(held[cut:])

    # Calls.

    def _begin_call(self, tag: Tag) -> None:
        """An invoke that is certain."""
        name = self._called(tag)
        follower = self._follow(tag.end)
        nameless = isinstance(follower, Tag) and follower.kind == "parameter" and follower.name is None
        dropped = name is None or (nameless and not tag.self_closed and not follower.closing)  # type: ignore[union-attr]
        if self._calls >= MOST_CALLS or len(name or "") > LONGEST_NAME:
            self._report(kinds.LIMIT, tag.start, tag.end)
            dropped = True
        self._calls += 1
        self._check_spelling(tag)
        if not dropped and self._tools.told and not self._tools.declares(name or ""):
            self._report(kinds.UNDECLARED_TOOL, tag.start, tag.end)
        hidden = dropped or self._forbidden
        self._call_start = self._base + tag.start
        self._recorded = [] if hidden else None
        self._dropped = dropped
        self._call = Call(name or "", self._begun, self._tools, self._emit, not hidden)
        self._begun += not hidden
        self._advance(tag.end)
        self._state = self._invoke
        if tag.self_closed:
            self._end_call()

    def _end_call(self, body: str | None = None) -> None:
        call = self._call
        assert call is not None
        at = self._pos
        if self._recorded is not None:
            self._report_hidden()
        else:
            if call.end(body):
                self._report(kinds.UNWRAPPED_ARGUMENTS, at, at)
            self._completed += 1
        self._call = None
        self._state = self._block if self._wrapped else self._after

    def _report_hidden(self) -> None:
        """A call that is not shown: its text is in the diagnostic."""
        raw = "".join(self._recorded or ())
        self._recorded = None
        kind = kinds.DROPPED_CALL if self._dropped else kinds.FORBIDDEN_CALL
        self._out.append(Diagnostic(kind, self._call_start, self._call_start + len(raw), raw))

    def _cut_call(self) -> None:
        """The text ended inside a call, without an EOS."""
        call = self._call
        assert call is not None
        self._flush_value()
        in_string = self._streams and self._key is not None
        in_body = self._state != self._invoke and self._key is None
        if not in_string and (self._key is not None or (in_body and self._held)):
            call.settle()
            call.add(self._key or RAW_PARAMETER, quoted("".join(self._held)))
        call.abort(in_string)
        if self._recorded is not None:
            self._report_hidden()
        self._report(kinds.CUT_SHORT, self._pos, self._pos)
        self._cut = True
        self._call = None

    def _drop_call(self) -> None:
        """A parameter without a name: what it belongs to cannot be told."""
        call = self._call
        assert call is not None
        if call.shown:
            call.abort(in_string=False)
        if self._recorded is None:
            self._recorded = []
            self._call_start = self._base + self._pos
        self._dropped = True

    def _invoke(self) -> bool:
        at = _SPACE.match(self._text, self._pos).end()  # type: ignore[union-attr]
        self._advance(at)
        text, call = self._text, self._call
        assert call is not None
        if at == len(text):
            return False
        if text[at] == "{" and not call.parameters:
            self._report(kinds.JSON_BODY, at, at)
            self._hold(self._judge_in_body, self._end_body)
            self._state = self._json
            return True
        tag = read_tag(text, at, plain=True) if text[at] in ("<", _BAR) else None
        if isinstance(tag, Partial):
            return self._cut_markup()
        kind = self._kind(tag) if tag is not None else None
        if tag is None or kind is None:
            return self._start_stray()
        if kind == "parameter" and not tag.closing:
            self._begin_parameter(tag)
            return True
        if kind == "invoke" and tag.closing:
            self._check_spelling(tag)
            self._advance(tag.end)
            self._end_call()
            return True
        if kind in ("invoke", "wrapper", "eos", "think"):
            self._report(kinds.IMPLIED_CLOSE, at, at)
            self._end_call()
            return True
        self._report(kinds.UNEXPECTED_TAG, at, tag.end)
        self._advance(tag.end)
        return True

    def _start_stray(self) -> bool:
        """Text between the parameters of a call."""
        self._held = []
        self._held_start = self._base + self._pos
        self._state = self._stray
        self._keep_junk(self._pos + 1)
        return True

    def _stray(self) -> bool:
        text = self._text
        at = self._pos
        while (mark := _MARK.search(text, at)) is not None:
            at = mark.start()
            tag = read_tag(text, at, plain=True)
            if isinstance(tag, Partial):
                self._keep_junk(at)
                if self._final:
                    self._keep_junk(len(text))
                    self._end_stray()
                return False
            if tag is not None and self._kind(tag) is not None:
                self._keep_junk(at)
                self._end_stray()
                return True
            at += 1
        self._keep_junk(len(text))
        if self._final:
            self._end_stray()
        return False

    def _end_stray(self) -> None:
        held = "".join(self._held)
        end = self._held_start + len(held)
        self._out.append(Diagnostic(kinds.UNEXPECTED_TEXT, self._held_start, end, held))
        self._held = []
        self._state = self._invoke

    # Parameters.

    def _begin_parameter(self, tag: Tag) -> None:
        call = self._call
        assert call is not None
        key = tag.label if tag.kind == "named" else tag.name
        self._value_tag = tag
        if key is None:
            self._drop_call()
            key = ""
        elif call.has(key):
            self._report(kinds.DUPLICATE_PARAMETER, tag.start, tag.end)
        if call.parameters == MOST_PARAMETERS:
            self._report(kinds.LIMIT, tag.start, tag.end)
            self._drop_call()
        lone = call.may_hold_all(key)
        call.settle()
        string = tag.attributes.get("string")
        self._key = key
        typed = string in ("true", "false")
        if typed or tag.self_closed:
            self._check_spelling(tag)
        else:
            self._report(kinds.UNTYPED_PARAMETER, tag.start, tag.end)
        self._advance(tag.end)
        if tag.self_closed:
            types = self._tools.types_of(call.name, key)
            call.add(key, declared_json(string or "", types))
            self._key = None
            return
        self._hold(self._judge_in_value, self._end_parameter)
        self._lone = lone
        self._streams = string == "true" and not lone
        if self._streams:
            call.open_string(key)
        self._state = self._json if string == "false" else self._value

    def _hold(self, judge: Callable[[Tag, int], str], finish: Callable[[], bool]) -> None:
        """Starts a value: who decides where it ends, and what happens then."""
        self._judge = judge
        self._finish_held = finish
        self._held = []
        self._value_start = self._base + self._pos
        self._newline = False
        self._quotes = []
        self._in_string = False
        self._streams = False

    def _end_parameter(self) -> bool:
        call, key, tag = self._call, self._key, self._value_tag
        assert call is not None and key is not None and tag is not None
        self._key = None
        self._state = self._invoke
        if self._streams:
            call.close_string()
            return True
        raw = "".join(self._held)
        self._held = []
        string = tag.attributes.get("string")
        if string == "true":
            json_text = quoted(raw)
        elif string == "false":
            json_text = self._typed(raw)
        else:
            json_text = declared_json(raw, self._tools.types_of(call.name, key))
        if self._lone:
            call.add_lone(key, json_text, raw)
        else:
            call.add(key, json_text)
        return True

    def _typed(self, raw: str) -> str:
        """The text of a `string="false"` value, which should be JSON."""
        if json_value(raw) is not NOT_JSON:
            return raw
        start = self._value_start
        self._out.append(Diagnostic(kinds.INVALID_JSON, start, start + len(raw), raw))
        return quoted(raw)

    def _end_body(self) -> bool:
        raw = "".join(self._held)
        self._held = []
        call = self._call
        assert call is not None
        value = json_value(raw)
        if isinstance(value, dict):
            inner = only_member(raw, value)
            if inner is not None and not self._tools.may_unwrap(call.name, next(iter(value))):
                inner = None
            if inner is not None:
                self._report(kinds.UNWRAPPED_ARGUMENTS, self._pos, self._pos)
                raw = inner
            self._body = raw
        else:
            start = self._value_start
            self._out.append(Diagnostic(kinds.INVALID_JSON, start, start + len(raw), raw))
            self._body = f"{{{quoted(RAW_PARAMETER)}: {quoted(raw)}}}"
        self._state = self._after_body
        return True

    def _after_body(self) -> bool:
        """Behind a JSON body: only the call's end can follow."""
        tag = self._follow(self._pos)
        if tag == MORE:
            return False
        self._advance(_SPACE.match(self._text, self._pos).end())  # type: ignore[union-attr]
        if isinstance(tag, Tag) and self._kind(tag) == "invoke" and tag.closing:
            self._check_spelling(tag)
            self._advance(tag.end)
        else:
            self._report(kinds.IMPLIED_CLOSE, self._pos, self._pos)
        self._end_call(self._body)
        return True

    def _end_list(self) -> bool:
        """A wrapper that holds JSON in place of calls (rule 5)."""
        self._flush_value()
        raw, start = "".join(self._held), self._value_start
        self._held = []
        self._state = self._block
        calls = calls_in(raw)
        if calls is None:
            self._out.append(Diagnostic(kinds.UNEXPECTED_TEXT, start, start + len(raw), raw))
            return True
        kind = kinds.FORBIDDEN_CALL if self._forbidden else kinds.JSON_CALLS
        self._out.append(Diagnostic(kind, start, start + len(raw), raw))
        for name, arguments in calls if not self._forbidden else ():
            self._whole_call(name, arguments)
        return True

    def _whole_call(self, name: str, arguments: str) -> None:
        """A call that was held until it was complete."""
        if self._calls >= MOST_CALLS or len(name) > LONGEST_NAME:
            self._report(kinds.LIMIT, self._pos, self._pos)
            return
        if self._tools.told and not self._tools.declares(name) and self._state != self._strictly:
            self._report(kinds.UNDECLARED_TOOL, self._pos, self._pos)
        Call(name, self._begun, self._tools, self._emit, shown=True).end(arguments)
        self._calls += 1
        self._begun += 1
        self._completed += 1

    # Values: text until the markup that ends it (rules 3 and 4).

    def _value(self) -> bool:
        text = self._text
        at = self._pos
        while (mark := _MARK.search(text, at)) is not None:
            at = mark.start()
            tag = read_tag(text, at, plain=True)
            if tag is None:
                at += 1
            elif isinstance(tag, Partial):
                return self._wait_in_value(at)
            else:
                verdict = self._judge(tag, at)
                if verdict != "text":
                    return self._obey(verdict, tag)
                at = tag.end
        self._take(len(text))
        return False

    def _wait_in_value(self, at: int) -> bool:
        self._take(at)
        return self._cut_markup()

    def _obey(self, verdict: str, tag: Tag) -> bool:
        """Does with a tag what was decided: wait, or end the value at it."""
        self._take(tag.start)
        if verdict == MORE:
            return False
        if verdict == "before":
            self._flush_value()
        elif verdict == "close":
            self._flush_value()
            self._check_spelling(tag)
            self._advance(tag.end)
        else:
            self._newline = False
            self._report(kinds.IMPLIED_CLOSE, tag.start, tag.start)
        return self._finish_held()

    def _take(self, to: int) -> None:
        """Takes text up to `to` into the value, but for one newline at its end."""
        text = self._text[self._pos : to]
        if not text:
            return
        self._advance(to)
        if self._newline:
            text = "\n" + text
        self._newline = text.endswith("\n")
        self._keep_value(text[:-1] if self._newline else text)

    def _flush_value(self) -> None:
        if self._newline:
            self._newline = False
            self._keep_value("\n")

    def _keep_value(self, text: str) -> None:
        if not text:
            return
        if self._streams:
            self._call.write_string(text)  # type: ignore[union-attr]
        else:
            self._held.append(text)

    def _opens_line(self, at: int) -> bool:
        return self._text[at - 1] == "\n" if at > self._pos else self._newline

    def _judge_in_value(self, tag: Tag, at: int) -> str:
        """What a tag means inside a parameter's value: "text", "close", "implied" or MORE."""
        kind = self._kind(tag)
        if self._quotes:
            return self._judge_in_quotes(tag, kind, at)
        if tag.kind == "eos":
            return self._judge_eos(tag)
        if kind is None or kind in ("think", "bos"):
            return "text"
        if tag.plain:
            return self._judge_plain(tag, kind)
        if tag.bare and not self._opens_line(at):
            return "text"
        if tag.closing:
            return self._judge_closer(tag, kind, at)
        return self._judge_opener(tag, kind, at)

    def _judge_eos(self, tag: Tag) -> str:
        if tag.end < len(self._text):
            return "text"
        return "implied" if self._final else MORE

    def _judge_plain(self, tag: Tag, kind: str) -> str:
        if kind != "parameter" or not tag.closing:
            return "text"
        follower = self._follow(tag.end)
        if follower == MORE:
            return MORE
        fits = isinstance(follower, Tag) and not follower.plain and self._fits(follower)
        return "close" if fits else "text"

    def _fits(self, follower: Tag | str) -> bool:
        """Whether a parameter's close may be followed by this (rule 4)."""
        if not isinstance(follower, Tag):
            return follower == END
        kind = self._kind(follower)
        if kind == "parameter":
            return not follower.closing
        if kind == "wrapper":
            return follower.closing
        return kind in ("invoke", "eos")

    def _judge_closer(self, tag: Tag, kind: str, at: int) -> str:
        if kind == "wrapper" and self._opens_line(at):
            return "implied"
        follower = self._follow(tag.end)
        if follower == MORE:
            return MORE
        if kind == "parameter":
            return "close" if self._fits(follower) else "text"
        after = self._kind(follower) if isinstance(follower, Tag) else follower
        if kind == "invoke":
            opened = after == "invoke" and not follower.closing  # type: ignore[union-attr]
            return "implied" if opened or after in ("wrapper", "eos", END) else "text"
        ended = after in ("eos", END)
        opened = after == "wrapper" and not follower.closing  # type: ignore[union-attr]
        thought = after == "think" and follower.closing  # type: ignore[union-attr]
        return "implied" if ended or opened or thought else "text"

    def _judge_opener(self, tag: Tag, kind: str, at: int) -> str:
        if kind == "parameter":
            named = tag.kind == "named" or tag.name is not None
            return "implied" if named and self._opens_line(at) else "text"
        if kind == "invoke":
            name = self._called(tag)
            known = name is not None and (self._wrapped or self._tools.declares(name))
            certain = self._is_certain(tag, self._wrapped) if known else False
            if certain is None:
                return "text" if self._final else MORE
            if certain and self._opens_line(at):
                return "implied"
            return self._quote(kind, tag) if certain else "text"
        follower = self._follow(tag.end)
        if follower == MORE:
            return MORE
        invokes = isinstance(follower, Tag) and self._kind(follower) == "invoke"
        return self._quote(kind, tag) if invokes and not follower.closing else "text"  # type: ignore[union-attr]

    def _quote(self, kind: str, tag: Tag) -> str:
        """Opens a quoted region: its tags are text until its own close."""
        if not tag.self_closed:
            self._take(tag.start)
            self._report(kinds.QUOTED_MARKUP, tag.start, tag.end)
            self._quotes = [kind]
        return "text"

    def _judge_in_quotes(self, tag: Tag, kind: str | None, at: int) -> str:
        if kind not in ("wrapper", "invoke", "parameter") or tag.plain or tag.bare:
            return "text"
        if not tag.closing:
            if not tag.self_closed:
                self._quotes.append(kind)
            return "text"
        if kind in self._quotes:
            while self._quotes.pop() != kind:
                pass
            return "text"
        return self._judge_closer(tag, kind, at)

    def _judge_in_body(self, tag: Tag, at: int) -> str:
        """What a tag means behind a JSON body, or inside a broken one."""
        kind = self._kind(tag)
        if tag.kind == "eos":
            return self._judge_eos(tag)
        if tag.closing and kind in ("invoke", "wrapper") and (not tag.plain or kind == "invoke"):
            verdict = self._judge_closer(tag, kind, at)
            return "before" if verdict == "implied" else verdict
        if kind == "invoke" and not tag.closing and not tag.plain and self._opens_line(at):
            certain = self._is_certain(tag, self._wrapped)
            return MORE if certain is None and not self._final else "before" if certain else "text"
        return "text"

    def _judge_in_list(self, tag: Tag, at: int) -> str:
        """What a tag means behind a wrapper's JSON."""
        kind = self._kind(tag)
        if tag.kind == "eos":
            return self._judge_eos(tag)
        if kind == "wrapper" and tag.closing and not tag.plain:
            return "before"
        return "text"

    # JSON: held until it ends, with an eye on its strings.

    def _json(self) -> bool:
        text = self._text
        at = self._pos
        while True:
            marks = _JSON_STRING_MARK if self._in_string else _JSON_MARK
            mark = marks.search(text, at)
            if mark is None:
                break
            at = mark.start()
            character = text[at]
            if character == '"':
                self._in_string = not self._in_string
                at += 1
            elif character == "\n":
                return self._read_again()
            elif character == "\\":
                if at + 1 == len(text):
                    self._take(at)
                    if not self._final:
                        return False
                    return self._read_again()
                at += 2
            else:
                tag = read_tag(text, at, plain=True)
                if tag is None:
                    at += 1
                    continue
                if isinstance(tag, Partial):
                    self._take(at)
                    return self._cut_markup()
                verdict = self._judge(tag, at)
                if verdict != "text":
                    return self._obey(verdict, tag)
                at = tag.end
        self._take(len(text))
        if not self._final:
            return False
        return self._in_string and self._read_again()

    def _read_again(self) -> bool:
        """The JSON is broken: its quotes mean nothing, and the first closer that fits ends it."""
        self._flush_value()
        held = "".join(self._held)
        rest = self._text[self._pos :]
        self._held = []
        self._quotes = []
        self._in_string = False
        if self._recorded:
            self._recorded = ["".join(self._recorded)[: -len(held) or None]]
        self._base += self._pos - len(held)
        self._text = held + rest
        self._pos = 0
        self._state = self._value
        return True

    # Plain markup, without the DSML token: held until its close comes (rule 1).

    def _plain_tag(self, tag: Tag) -> bool:
        if tag.closing or self._lines.fenced:
            return self._leave_as_text(tag)
        if tag.label in PLAIN_INVOKES and tag.name is not None:
            if not self._tools.declares(tag.name) or tag.self_closed:
                return self._leave_as_text(tag)
            self._hold_plain(tag, tag.start)
            return True
        if tag.label not in PLAIN_WRAPPERS or tag.attributes:
            return self._leave_as_text(tag)
        follower = self._follow(tag.end)
        if follower == MORE:
            return False
        if (
            isinstance(follower, Tag)
            and follower.plain
            and follower.label in PLAIN_INVOKES
            and not follower.closing
            and self._tools.declares(follower.name or "")
        ):
            self._hold_plain(follower, tag.start)
            return True
        return self._leave_as_text(tag)

    def _hold_plain(self, tag: Tag, start: int) -> None:
        self._value_tag = tag
        self._held = [self._text[start : tag.end]]
        self._held_start = self._base + start
        self._plain_inner = len(self._held[0])
        self._advance(tag.end)
        self._state = self._plain

    def _plain(self) -> bool:
        text, opening = self._text, self._value_tag
        assert opening is not None
        at = self._pos
        while (mark := _MARK.search(text, at)) is not None:
            at = mark.start()
            tag = read_tag(text, at, plain=True)
            if tag is None:
                at += 1
                continue
            self._keep_junk(at)
            if isinstance(tag, Partial):
                if self._final:
                    self._release_plain()
                return self._final
            if tag.plain and tag.closing and tag.label[:3] in (opening.label[:3], "inv"):
                if tag.kind == opening.kind or tag.kind == "invoke":
                    return self._end_plain(tag)
            elif not tag.plain or (tag.label in PLAIN_INVOKES and tag.name is not None):
                self._release_plain()
                return True
            self._keep_junk(tag.end)
            at = tag.end
        self._keep_junk(len(text))
        if self._final:
            self._release_plain()
        return self._final

    def _release_plain(self) -> None:
        self._state = self._prose
        self._say_held("".join(self._held))
        self._held = []

    def _end_plain(self, tag: Tag) -> bool:
        opening = self._value_tag
        assert opening is not None and opening.name is not None
        held = "".join(self._held)
        self._held = []
        self._enter_calls(tag)
        self._keep_junk(tag.end)
        raw = held + self._held.pop()
        end = self._held_start + len(raw)
        kind = kinds.FORBIDDEN_CALL if self._forbidden else kinds.PLAIN_MARKUP
        self._out.append(Diagnostic(kind, self._held_start, end, raw))
        self._plain_wrapper = True
        self._state = self._after
        if not self._forbidden:
            types = self._tools.parameters.get(opening.name, {})
            self._whole_call(opening.name, plain_arguments(held[self._plain_inner :], types))
        return True
