"""Where a value ends: what a tag inside a value means (recovery.md, rules 3, 4, 11, 12 and 13)."""

from __future__ import annotations

from collections import Counter
from enum import Enum

from dsv4._format import tokens
from dsv4._format.spellings import PARAMETER_PREFIX
from dsv4._parse.limits import LONGEST_REMARK
from dsv4._parse.open_call import Call
from dsv4._parse.quoting import QUOTES_A_CLOSE
from dsv4._parse.reading import Reading
from dsv4._parse.steps import Steps
from dsv4._parse.tag import CALL_TAGS, TOKENS, Tag
from dsv4._parse.tag_rules import Ahead, Lookahead

_BARE_PARAMETER = f"{tokens.DSML}{PARAMETER_PREFIX}"


class Verdict(Enum):
    """What a tag means inside a value."""

    TEXT = "a part of the value"
    CLOSE = "the value's own close"
    IMPLIED = "something that cannot be inside, so the value has ended"
    QUOTE = "the start of a quoted region"
    STRICT = "a part of the value, and all of the block is read strictly"
    SPELLED = "a close that closes nothing: a part of the value, and a deviation"


class ValueJudge:
    """Decides what tags in the value of one parameter mean."""

    def __init__(self, reading: Reading, call: Call, key: str, tag: Tag) -> None:
        self._reading = reading
        self._call = call
        self._key = key
        self._tag = tag
        # Opening tags of a quoted region that are not closed yet, and how many of each kind.
        self._region: list[str] = []
        self._counts: Counter[str] = Counter()
        self.quoted = False  # there was such a region
        self._start = reading.pos
        self.holds_tags = False  # a tag with the DSML token is a part of the value
        self.holds_close = False  # and one that closes something
        self.is_remarked = False  # a remark follows the close (rule 11)
        self.reopens = False  # a call or a block follows what implies the close

    def judge(self, tag: Tag, json_ended: bool = False) -> Steps[Verdict]:
        """What `tag` means; `json_ended` says that the value is JSON, and whole."""
        reading, block = self._reading, self._reading.block
        self.reopens = self.is_remarked = False
        verdict = yield from self._judge(tag, json_ended)
        if block is not None and block.strict is not None:
            verdict = yield from self._judge_strictly(tag, verdict)
        if verdict is Verdict.IMPLIED and self.reopens and tag.start < reading.quoted_to:
            self.quoted = True
            verdict = Verdict.SPELLED
        if tag.marked and verdict in (Verdict.TEXT, Verdict.SPELLED, Verdict.QUOTE):
            self.holds_tags = True
            kind = reading.rules.kind(tag, self._call.name)
            self.holds_close = self.holds_close or (tag.closing and kind in CALL_TAGS)
        return verdict

    def _judge_strictly(self, tag: Tag, verdict: Verdict) -> Steps[Verdict]:
        """What the first doubtful tag of a block means: what the strict grammar says (rule 20)."""
        reading, block = self._reading, self._reading.block
        assert block is not None and block.strict is not None
        if tag.raw == reading.tags.parameter_close and verdict is Verdict.CLOSE:
            return verdict
        if verdict is Verdict.TEXT and not tag.marked and tag.kind != "eos":
            return verdict
        strict, block.strict = block.strict, None
        if (yield from self._is_repair(tag, verdict)):
            return verdict  # what is repaired so would read strictly too
        accepted = tag.start >= reading.refuted_to and (
            yield from strict.accepts(reading.buffer, self._start, tag.start)
        )
        reading.refuted_to = max(reading.refuted_to, strict.refuted_to)
        if not accepted:
            return verdict
        if verdict is Verdict.IMPLIED and tag.kind != "eos":  # nobody can tell which was meant
            reading.report("quoted_markup", tag.start, tag.raw)
        block.reads_strictly = True
        return Verdict.STRICT

    def _is_repair(self, tag: Tag, verdict: Verdict) -> Steps[bool]:
        """Whether a value ends at a tag though the strict grammar may go on behind it (rule 20).

        At a parameter's tag it does; at a close that is odd or misspelled, where a parameter that
        is still missing follows. Before anything else the close may be quoted.
        """
        if verdict is Verdict.IMPLIED:
            return self._is_called_parameter(tag)
        if verdict is not Verdict.CLOSE:
            return False
        ahead = yield from self._reading.rules.look_past(tag.end)
        if not isinstance(ahead, Tag) or self.quoted or not self._is_called_parameter(ahead):
            return False
        return not ahead.closing and self._is_missing(ahead)

    def _is_called_parameter(self, tag: Tag) -> bool:
        """Whether a tag is a parameter's by its own name, and not only by its attribute."""
        rules, tool = self._reading.rules, self._call.name
        by_name = tag.kind == "parameter" or tag.label in self._reading.tools.keys(tool)
        return tag.marked and by_name and rules.kind(tag, tool) == "parameter"

    def _judge(self, tag: Tag, json_ended: bool) -> Steps[Verdict]:
        reading, rules, tool = self._reading, self._reading.rules, self._call.name
        if tag.kind == "eos":
            ends = not self.quoted and (yield from rules.ends_text(tag))
            return Verdict.IMPLIED if ends else Verdict.TEXT
        if tag.broken or tag.kind in TOKENS:
            return Verdict.TEXT
        kind = rules.kind(tag, tool)
        if self._region and self._is_counted(tag, kind):
            return Verdict.TEXT
        if self._is_own_close(tag, kind):
            return Verdict.CLOSE if json_ended else (yield from self._judge_close(tag))
        in_block = reading.block is not None
        if not self._region and rules.is_odd_close(tag, "parameter", tool, self._key):
            closes = yield from rules.closes_in_run(tag.end, "parameter", tool, in_block)
            return Verdict.CLOSE if closes else Verdict.TEXT
        if json_ended and rules.is_odd_close(tag, "invoke", tool):
            closes = yield from rules.closes_in_run(tag.end, "invoke", tool, in_block)
            return Verdict.IMPLIED if closes else Verdict.TEXT
        if not tag.marked or tag.bare or kind not in CALL_TAGS or self._region:
            return Verdict.TEXT
        if tag.closing:
            return (yield from self._judge_outer_close(tag, kind, json_ended))
        if kind == "parameter":
            ends = json_ended and rules.key(tag, tool) is not None
            return Verdict.IMPLIED if ends or self._lets_act(tag) else Verdict.TEXT
        return (yield from self._judge_quote(tag, kind or "", json_ended))

    def _judge_outer_close(self, tag: Tag, kind: str | None, json_ended: bool) -> Steps[Verdict]:
        if json_ended:  # which has decided where it ends (rule 4)
            return Verdict.IMPLIED
        if self.quoted:
            return Verdict.TEXT
        ends = self._ends_at_invoke if kind == "invoke" else self._ends_at_wrapper
        return Verdict.IMPLIED if (yield from ends(tag)) else Verdict.TEXT

    # The value's own close.

    def _is_own_close(self, tag: Tag, kind: str | None) -> bool:
        if not tag.closing or tag.bare:
            return False
        if tag.marked:
            return kind == "parameter" or (bool(tag.label) and tag.label == self._odd_label)
        return not self._tag.marked and tag.label == self._tag.label

    @property
    def _odd_label(self) -> str | None:
        """The name of the opening tag, where it is no parameter's (rule 30)."""
        return self._tag.label if self._tag.kind != "parameter" else None

    def _judge_close(self, tag: Tag) -> Steps[Verdict]:
        ahead = yield from self._reading.rules.look_past(tag.end)
        closes = yield from self._may_follow(tag, ahead)
        if not closes and not self._region:
            closes = self.is_remarked = yield from self._comes_soon(tag.end)
        if closes:
            return Verdict.CLOSE
        if not tag.marked and self._reading.doubt is not None:  # plain calls are quoted (rule 31)
            self._reading.doubt.has_surplus = True
        return Verdict.SPELLED if tag.marked else Verdict.TEXT

    def _may_follow(self, tag: Tag, ahead: Ahead) -> Steps[bool]:
        """Whether the grammar can go on after a close (rule 4)."""
        reading, rules, tool = self._reading, self._reading.rules, self._call.name
        if not isinstance(ahead, Tag):
            return ahead is Lookahead.END or (yield from self._breaks_off(tag))
        if ahead.kind == "eos":
            return (yield from rules.ends_text(ahead))
        if rules.opens(ahead, "parameter", tool) or rules.opens(ahead, "invoke", tool):
            return True
        if rules.closes(ahead, "invoke", tool) or rules.closes(ahead, "wrapper", tool):
            return True
        if rules.is_plain_argument(ahead, tool):
            return True
        if ahead.closing and rules.is_container(ahead, tool):
            return True
        if (yield from self._plain_call_follows(tag, ahead)):
            self.is_remarked = True  # so that calls behind it are held
            return True
        if rules.is_odd_close(ahead, "invoke", tool):
            in_block = reading.block is not None
            return (yield from rules.closes_in_run(ahead.end, "invoke", tool, in_block))
        return False

    def _plain_call_follows(self, close: Tag, ahead: Tag) -> Steps[bool]:
        """Whether the next plain call of a DSML wrapper follows a close (rule 31)."""
        plain = self._call.is_plain if close.marked else not self._tag.marked
        if not plain or self._reading.block is None or ahead.marked:
            return False
        if not ahead.closing or ahead.label != "invoke":
            return self._reading.rules.is_plain_invoke(ahead)
        behind = yield from self._reading.rules.look_past(ahead.end)
        if not isinstance(behind, Tag) or behind.marked or behind.closing:
            return False
        return behind.label == "invoke" and "name" in behind.attributes

    def _breaks_off(self, close: Tag) -> Steps[bool]:
        """Whether the tag of a parameter or a call follows a close, but breaks off.

        Or a parameter's, which lost its bracket (rule 30).
        """
        buffer = self._reading.buffer
        at = yield from buffer.past_space(close.end)
        while _BARE_PARAMETER.startswith(buffer.slice(at, at + len(_BARE_PARAMETER))):
            if buffer.end >= at + len(_BARE_PARAMETER):
                return True
            if not (yield from buffer.more()):
                break
        tag = buffer.tag_at(at) if at < buffer.end and buffer.is_mark(at) else None
        if not isinstance(tag, Tag) or not tag.broken or tag.closing:
            return False
        return self._reading.rules.kind(tag, self._call.name) in ("invoke", "parameter")

    def _comes_soon(self, start: int) -> Steps[bool]:
        """Whether a remark stands between the close and what must follow it (rule 11)."""
        buffer, rules, tool = self._reading.buffer, self._reading.rules, self._call.name
        behind = buffer.at(start)
        if behind in QUOTES_A_CLOSE:  # as a program or JSON has it, in a string
            return False
        if behind.isspace():  # JSON's line end
            at = yield from buffer.past_space(start, LONGEST_REMARK)
            if buffer.at(at) == "\\":
                return False
        at = start
        while (tag := (yield from buffer.next_tag(at, start + LONGEST_REMARK))) is not None:
            if not tag.marked or tag.broken or tag.bare:
                if self._is_own_close(tag, None):
                    return False
                at = tag.start + 1
                continue
            kind = rules.kind(tag, tool)
            if tag.closing and kind in ("invoke", "wrapper"):
                return True
            if kind == "parameter" and (tag.closing or self._lets_act(tag)):
                return not tag.closing
            if not tag.closing and kind in ("invoke", "wrapper"):
                return False
            at = tag.end
        return False

    # What implies a close (rule 12).

    def _lets_act(self, tag: Tag) -> bool:
        """Whether a parameter's tag ends the value: on a new line, with a key that is missing."""
        opens_line = self._reading.buffer.opens_line(tag.start)
        return not self.quoted and opens_line and self._is_missing(tag)

    def _is_missing(self, tag: Tag) -> bool:
        """Whether a parameter's tag has a key that the call lacks, and may have."""
        tool = self._call.name
        key, keys = self._reading.rules.key(tag, tool), self._reading.tools.keys(tool)
        if key is None or not keys:
            return key is not None
        return key in keys and key != self._key and not self._call.writer.has(key)

    def _ends_at_wrapper(self, tag: Tag) -> Steps[bool]:
        rules = self._reading.rules
        ahead = yield from rules.look_past(tag.end)
        thought = isinstance(ahead, Tag) and ahead.kind == "think" and ahead.closing
        self.reopens = rules.opens(ahead, "wrapper")
        return self.reopens or thought or (yield from self._is_end(ahead))

    def _is_end(self, ahead: Ahead) -> Steps[bool]:
        """Whether the text ends here, or an EOS stands here that ends it (rule 22)."""
        if isinstance(ahead, Tag) and ahead.kind == "eos":
            return (yield from self._reading.rules.ends_text(ahead))
        return ahead is Lookahead.END

    def _ends_at_invoke(self, tag: Tag) -> Steps[bool]:
        reading, rules = self._reading, self._reading.rules
        ahead = yield from rules.look_past(tag.end)
        if isinstance(ahead, Tag) and rules.closes(ahead, "invoke"):  # an orphan (rule 28)
            ahead = yield from rules.look_past(ahead.end)
        if not isinstance(ahead, Tag) or ahead.kind == "eos":
            return (yield from self._is_end(ahead))
        if rules.opens(ahead, "wrapper"):
            self.reopens = True
            return True
        if rules.opens(ahead, "invoke"):
            self.reopens = True
            return (yield from rules.is_certain(ahead, reading.block is not None))
        return rules.closes(ahead, "wrapper") and (yield from self._ends_at_wrapper(ahead))

    # Quoted regions: their tags are counted, and are text until their own close (rule 4).

    def _judge_quote(self, tag: Tag, kind: str, json_ended: bool) -> Steps[Verdict]:
        rules = self._reading.rules
        if kind == "invoke":
            if rules.tool_called(tag) is None:
                return Verdict.TEXT
            opens = yield from rules.is_certain(tag, self._reading.block is not None)
        else:
            ahead = yield from rules.look_past(tag.end)
            opens = rules.opens(ahead, "invoke")
        if not opens:
            return Verdict.TEXT
        return Verdict.IMPLIED if json_ended else Verdict.QUOTE

    def open_quote(self, tag: Tag) -> None:
        self.quoted = True
        if not tag.self_closed:
            self._count(self._reading.rules.kind(tag, self._call.name) or "")

    def _count(self, kind: str) -> None:
        self._region.append(kind)
        self._counts[kind] += 1

    def _is_counted(self, tag: Tag, kind: str | None) -> bool:
        """Counts a tag of the region. A close that has no partner there is not the region's."""
        if not tag.marked or tag.bare or kind not in CALL_TAGS:
            return True
        if not tag.closing:
            if not tag.self_closed:
                self._count(kind)
            return True
        if not self._counts[kind]:
            return False
        while True:
            closed = self._region.pop()
            self._counts[closed] -= 1
            if closed == kind:
                return True


class BodyJudge(ValueJudge):
    """Decides what tags mean in arguments that should be JSON, and are not."""

    def judge(self, tag: Tag, json_ended: bool = False) -> Steps[Verdict]:
        reading, rules = self._reading, self._reading.rules
        if tag.kind == "eos":
            ends = yield from rules.ends_text(tag)
            return Verdict.IMPLIED if ends else Verdict.TEXT
        kind = rules.kind(tag, self._call.name)
        if tag.broken or not tag.marked or tag.bare or kind not in CALL_TAGS:
            return Verdict.TEXT
        if kind == "parameter":  # behind what is no JSON (rule 30)
            self.holds_tags = True
            return Verdict.TEXT if tag.closing or not self._lets_act(tag) else Verdict.IMPLIED
        if tag.closing:
            return (yield from self._judge_outer_close(tag, kind, False))
        if kind == "wrapper" or not reading.buffer.opens_line(tag.start):
            return Verdict.TEXT
        ends = yield from rules.is_certain(tag, reading.block is not None)
        return Verdict.IMPLIED if ends else Verdict.TEXT


class CallListJudge:
    """Decides what tags mean in a list of calls: only the wrapper's close and EOS end it."""

    quoted = reopens = holds_tags = holds_close = is_remarked = False

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def judge(self, tag: Tag, json_ended: bool = False) -> Steps[Verdict]:
        if tag.kind == "eos":
            ends = yield from self._reading.rules.ends_text(tag)
        else:
            ends = self._reading.rules.closes(tag, "wrapper")
        return Verdict.IMPLIED if ends else Verdict.TEXT

    def open_quote(self, tag: Tag) -> None:
        """There are no quoted regions in such a list."""
