"""What the readers of all states share: the text, the events, and a look at what comes next.

The text that is not understood yet is in `text`, from `pos` on; `base` is where `text` begins in
the whole. No reader decides what more text could change: it waits, or `final` is set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum

from dsv4.format import tokens
from dsv4.format.dialects import Tags
from dsv4.format.spellings import RELEASED_LABELS, RELEASED_TAGS
from dsv4.parsing import diagnostics as kinds
from dsv4.parsing.call import Call
from dsv4.parsing.declared import Tools
from dsv4.parsing.events import Diagnostic, Event, prose_delta
from dsv4.parsing.lines import Lines
from dsv4.parsing.marks import next_mark
from dsv4.parsing.states import State
from dsv4.parsing.stops import Stops
from dsv4.parsing.tags import LONGEST_SPACE, Partial, Tag, read_tag

BAR = str(tokens.DSML)[0]

_SPACE = re.compile(r"\s*")


class Ahead(Enum):
    """What stands ahead, where it is no tag."""

    MORE = "more text must come first"
    END = "the end of the text"
    TEXT = "text"
    BRACE = "text that begins as JSON objects and lists do"


class Verdict(Enum):
    """What a tag means inside a value."""

    TEXT = "a part of the value"
    WAIT = "more text must come first"
    CLOSE = "the value's own close"
    IMPLIED = "something that cannot be inside, so the value has ended"
    BEFORE = "the end of JSON that closes itself"
    QUOTE = "the start of a quoted region"
    SPELLED = "a close that closes nothing: a part of the value, and a departure"


class Prose:
    """Where reasoning and content stand."""

    def __init__(self, reasoning: bool) -> None:
        self.reasoning = reasoning
        self.unclosed = reasoning  # no end of the reasoning was met
        self.lines = Lines()
        self.newlines = ""  # at most two, which belong to a block if one follows
        self.before = ""  # the text before: its last character counts
        self.said_reasoning = False
        self.joining = False  # the next reasoning begins on a line of its own
        self.openers = 0  # opening tags that were left as text
        self.told = 0  # how much of the text to come the prompt has shown already


class Value:
    """A parameter's value, a JSON body or a list of calls, while it is read.

    `judge` decides what a tag in it means, `end` does what is to be done when it has ended.
    """

    __slots__ = (
        "end",
        "held",
        "in_string",
        "judge",
        "key",
        "lone",
        "newline",
        "quotes",
        "start",
        "streams",
        "tag",
    )

    def __init__(
        self,
        start: int,
        judge: Callable[[Machine, Tag], Verdict],
        end: Callable[[Machine, Value], None],
        key: str | None = None,
        tag: Tag | None = None,
    ) -> None:
        self.start = start
        self.judge = judge
        self.end = end
        self.key = key
        self.tag = tag
        self.streams = False
        self.lone = False  # may hold all arguments of the call
        self.held: list[str] = []
        self.newline = ""  # one at the end, which goes if the end is implied
        self.quotes: list[str] = []  # open tags of a quoted region
        self.in_string = False  # of JSON

    @property
    def raw(self) -> str:
        return "".join(self.held)


class Machine:
    """All that is known while a completion is read."""

    def __init__(
        self,
        start: State,
        thinking: bool,
        tools: Tools,
        forbidden: bool,
        tags: Tags,
        stops: Stops | None,
    ) -> None:
        self.tools = tools
        self.forbidden = forbidden
        self.tags = tags
        self.stops = stops

        self.text = ""
        self.pos = 0
        self.base = 0
        self.final = False
        self.state = start
        self.events: list[Event] = []

        self.prose = Prose(thinking)
        # Text that waits outside the buffer, and where it began.
        self.held: list[str] = []
        self.held_start = 0

        self.blocks = 0
        self.wrapped = False
        self.block_used = False  # it held something
        self.block_strict = False  # it was opened as the strict grammar wants
        self.plain_wrapper = False

        self.calls_seen = 0
        self.calls_begun = 0
        self.calls_completed = 0
        self.call: Call | None = None
        self.call_start = 0
        self.call_dropped = False
        self.recorded: list[str] | None = None  # the text of a call that is not shown
        self.value: Value | None = None
        self.body = ""
        self.plain_tag: Tag | None = None
        self.plain_inner = 0

        self.eos = False
        self.cut = False
        self.cut_at = 0  # where the tag begins that the end of the buffer cuts off

    def streaming_call(self) -> int | None:
        """The call whose string argument comes in now, if it is shown as it comes."""
        if self.call is None or self.value is None or not self.call.shown:
            return None
        return self.call.index if self.value.streams else None

    # The text.

    @property
    def rest(self) -> str:
        return self.text[self.pos :]

    def advance(self, to: int) -> None:
        if self.recorded is not None:
            self.recorded.append(self.text[self.pos : to])
        self.pos = to

    def skip_space(self) -> bool:
        """Goes past white space. Says whether there is text behind it."""
        self.advance(self.past_space(self.pos))
        return self.pos < len(self.text)

    def past_space(self, at: int) -> int:
        return _SPACE.match(self.text, at).end()  # type: ignore[union-attr]

    def hold(self, to: int) -> None:
        """Takes text up to `to` out of the buffer, to wait."""
        self.held.append(self.text[self.pos : to])
        self.advance(to)

    def start_holding(self) -> None:
        self.held = []
        self.held_start = self.base + self.pos

    def release(self) -> str:
        """The text that waited."""
        held, self.held = "".join(self.held), []
        return held

    def trim(self) -> None:
        """Forgets the text that is done with."""
        if self.pos:
            self.base += self.pos
            self.text = self.text[self.pos :]
            self.pos = 0

    def begin_anew(self, told: int) -> None:
        """Counts from here on: so many characters were in the prompt, and are not told again."""
        self.base -= told
        self.held_start -= told
        self.call_start -= told
        if self.value is not None:
            self.value.start -= told
        self.prose.told = len(self.prose.newlines)

    # Events.

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def report(self, kind: str, start: int, end: int) -> None:
        """A departure, at these places of the buffer."""
        raw = self.text[start:end]
        self.events.append(Diagnostic(kind, self.base + start, self.base + end, raw))

    def report_held(self, kind: str, start: int, raw: str) -> None:
        """A departure in text that was taken out of the buffer."""
        self.events.append(Diagnostic(kind, start, start + len(raw), raw))

    def check_spelling(self, tag: Tag) -> None:
        """Reports a tag that acts and is not spelled as the dialect spells it."""
        label = self.tags.label_of(tag.kind)
        if label is not None and tag.raw == tag.canonical(label):
            return
        head = tag.raw.partition(" name=")[0].rstrip(">")
        released = head in RELEASED_TAGS and not head.endswith(f"{tokens.DSML}{label}")
        self.report(kinds.OTHER_RELEASE if released else kinds.MISSPELLED_TAG, tag.start, tag.end)

    def end_in_markup(self) -> bool:
        """Inside a tag, where only tags count: waits, or reports what the end cut off."""
        if self.final:
            self.report(kinds.CUT_SHORT, self.pos, len(self.text))
            self.advance(len(self.text))
        return False

    # Prose.

    def say(self, to: int) -> None:
        """Shows the prose up to `to`."""
        if to > self.pos:
            text = self.text[self.pos : to]
            before = -self.base - self.pos  # what the prompt ended with was held till now
            if before > 0:
                self.prose.told += min(before, len(text))
            self.advance(to)
            self.say_text(text)

    def say_text(self, text: str) -> None:
        """Shows prose, but for the newlines at its end that may belong to a block."""
        prose = self.prose
        prose.lines.follow(text)
        prose.before = text
        if prose.newlines:
            text = prose.newlines + text
        if text[-1:] == "\n":
            kept = 2 if text[-2:] == "\n\n" else 1
            prose.newlines = "\n" * kept
            text = text[:-kept]
        else:
            prose.newlines = ""
        if self.stops is not None or prose.told:
            self.show(text)
        elif text:
            self._say_now(text)

    def flush_newlines(self) -> None:
        newlines, self.prose.newlines = self.prose.newlines, ""
        self.show(newlines)

    def show(self, text: str) -> None:
        if self.prose.told:
            told = min(self.prose.told, len(text))
            self.prose.told -= told
            text = text[told:]
        if self.stops is not None and text:
            text = self._up_to_stop(text)
        if text:
            self._say_now(text)

    def _up_to_stop(self, text: str) -> str:
        assert self.stops is not None
        text = "" if self.stops.hit else self.stops.pass_on(text)
        if self.stops.hit:
            self.state = State.HALTED
        return text

    def flush_stops(self) -> None:
        """Shows what could have been a stop string, where something else follows it."""
        if self.stops is not None and (text := self.stops.release()):
            self._say_now(text)

    def _say_now(self, text: str) -> None:
        prose = self.prose
        if prose.reasoning:
            if prose.joining and prose.said_reasoning:
                text = "\n" + text
            prose.joining = False
            prose.said_reasoning = prose.said_reasoning or not text.isspace()
        self.events.append(prose_delta(text, prose.reasoning))

    # What comes next.

    def tag_at(self, at: int) -> Tag | Partial | None:
        """The tag that begins at `at`, with or without the DSML token."""
        if self.text[at] != "<" and self.text[at] != BAR:
            return None
        return read_tag(self.text, at, plain=True)

    def tags_ahead(self) -> Iterator[Tag | Partial]:
        """Every tag from here on; one that is cut off by the end of the buffer is the last."""
        at, bracket = self.pos, -1
        while True:
            at, bracket = next_mark(self.text, at, bracket)
            if at == len(self.text):
                return
            tag = self.tag_at(at)
            if tag is None:
                at += 1
                continue
            if isinstance(tag, Partial):
                self.cut_at = at
                yield tag
                return
            yield tag
            at = tag.end

    def follow(self, at: int) -> Tag | Ahead:
        """What stands at `at`, behind optional white space."""
        start, at = at, self.past_space(at)
        if at - start > LONGEST_SPACE:
            return Ahead.TEXT
        if at == len(self.text):
            return Ahead.END if self.final else Ahead.MORE
        if self.text[at] in "{[":
            return Ahead.BRACE
        tag = self.tag_at(at)
        if isinstance(tag, Partial):
            return Ahead.END if self.final else Ahead.MORE
        return tag or Ahead.TEXT

    def kind(self, tag: Tag, tool: str | None = None) -> str | None:
        """What a tag is inside a call of `tool`, or of the open one. None: nothing that acts.

        A tag may be named as a declared tool, or as a parameter of the call's tool.
        """
        if tag.name is not None or tag.label in RELEASED_LABELS or not tag.label:
            return None if tag.kind == "named" else tag.kind
        if tool is None and self.call is not None:
            tool = self.call.name
        if tag.label in self.tools.parameters.get(tool or "", ()):
            return "parameter"
        if tag.label in self.tools.parameters:
            return "invoke"
        return None if tag.kind == "named" else tag.kind

    def key(self, tag: Tag, tool: str | None = None) -> str | None:
        """The name of a parameter: its attribute, or the tag's own name."""
        if tag.name is None and tool is None and self.call is not None:
            tool = self.call.name
        declared = tag.label in self.tools.parameters.get(tool or "", ())
        return tag.label if tag.name is None and declared else tag.name

    def called(self, tag: Tag) -> str | None:
        """The tool that an invoke calls: by its attribute, or by the tag's own name."""
        if tag.name is None and tag.label in self.tools.parameters:
            return tag.label
        return tag.name

    def opens(self, ahead: Tag | Ahead, kind: str) -> bool:
        return isinstance(ahead, Tag) and not ahead.closing and self.kind(ahead) == kind

    def closes(self, ahead: Tag | Ahead, kind: str) -> bool:
        return isinstance(ahead, Tag) and ahead.closing and self.kind(ahead) == kind

    def is_certain(self, tag: Tag, wrapped: bool) -> bool | None:
        """Whether an invoke is followed by what must follow (rule 2). None: nothing follows yet."""
        if tag.self_closed:
            return True
        ahead = self.follow(tag.end)
        if ahead is Ahead.MORE or ahead is Ahead.END:
            return None
        if not isinstance(ahead, Tag):
            return ahead is Ahead.BRACE and self.text[self.past_space(tag.end)] == "{"
        if ahead.kind == "eos":
            return wrapped
        kind = self.kind(ahead, self.called(tag))
        if kind == "parameter":
            return not ahead.closing
        if kind == "invoke":
            return ahead.closing or wrapped
        return kind == "wrapper" and ahead.closing and wrapped
