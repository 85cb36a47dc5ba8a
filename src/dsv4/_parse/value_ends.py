"""The end of a value in a call: the meaning of tags inside it (recovery.md, rules 3, 4, 11 to 13,
20 and 31).
"""

from __future__ import annotations

from collections import defaultdict

from dsv4._completion.json_text import json_string, member_text
from dsv4._completion.limits import LONGEST_REMARK
from dsv4._completion.patterns import pattern
from dsv4._format import tokens
from dsv4._parse.call import Call
from dsv4._parse.quoting import QUOTES_A_CLOSE
from dsv4._parse.reading import Reading
from dsv4._parse.tag import CALL_TAGS, TOKENS, Tag
from dsv4._parse.tag_rules import IN_VALUE
from dsv4._parse.text_buffer import Steps
from dsv4._parse.value_reader import CLOSE, IMPLIED, QUOTE, SPELLED, TEXT, Value, Verdict

_COMMAS = pattern(r"\s*(?:[,;，；、]|[-*•]\s|<!--[^<>]*-->)?\s*")
# The head of a damaged tag, with the token (1), or as much of it as has come.
_PARTS_OF_TOKEN = "|".join(tokens.DSML[:n] for n in range(len(tokens.DSML)))
_DAMAGED_HEAD = pattern(
    rf"(?:<{{1,2}}>?/?\s{{0,4}}\w{{0,32}}\s?)?(?:({tokens.DSML})|(?:{_PARTS_OF_TOKEN})\Z)"
)
# Roles that the grammar allows behind a parameter's close.
_FITTING = ("parameter", "invoke", "/invoke", "/wrapper")


class CallValue(Value):
    """A value in a call, whose close may be implied by tags outside of it (rule 12)."""

    holds_tags = False  # a tag with the DSML token is a part of the value
    reopens = False  # a call or a block follows the tag that implies the close

    def __init__(self, reading: Reading, call: Call, key: str) -> None:
        super().__init__(reading)
        self.rules = reading.rules
        self.call = call
        self.key = key

    @property
    def as_member(self) -> str:
        return member_text(self.key, json_string(self.raw))

    def give_up(self) -> None:
        self.call.drop("unreadable", rest=self.as_member)

    def lets_act(self, tag: Tag) -> bool:
        """Whether a parameter's tag ends the value: on a new line, with a key that is missing."""
        return not self.quoted and self.buffer.opens_line(tag.start) and self.is_missing(tag)

    def is_missing(self, tag: Tag) -> bool:
        """Whether a parameter's tag has a key that the call lacks, and may have."""
        tool = self.call.name
        key, keys = self.rules.key(tag, tool), self.reading.tools.keys(tool)
        if key is None or not keys:
            return key is not None
        return key in keys and key != self.key and key not in self.call.writer.keys

    def ends_at_outer_close(self, tag: Tag, kind: str | None) -> Steps[bool]:
        """Whether the close of a wrapper or an invoke ends the value (rule 12).

        In `ls`, an invoke's close and EOS it does; in `a </D invoke> b` it does not.
        """
        if self.quoted:
            return False
        rules, of_invoke = self.rules, kind == "invoke"
        ahead = yield from rules.look_past(tag.end)
        if of_invoke and rules.role(ahead) == "/invoke":  # an orphan (rule 28)
            ahead = yield from rules.look_past(ahead.end)
        role = rules.role(ahead)
        self.reopens = role == "wrapper" or (of_invoke and role == "invoke")
        if of_invoke and role == "invoke":
            return (yield from rules.is_certain(ahead, self.reading.block is not None))
        if of_invoke and role == "/wrapper":
            return (yield from self.ends_at_outer_close(ahead, "wrapper"))
        if role == "eos":
            return (yield from rules.ends_text(ahead))
        return role in ("wrapper", "end") or (role == "/think" and not of_invoke)


class QuotingValue(CallValue):
    """The value of a parameter, in which tags may be quoted."""

    holds_close = False  # a tag that closes something is a part of the value
    is_remarked = False  # a remark follows the close (rule 11)
    precedes_call = False  # another call follows the close, so that of this one is lost

    def __init__(self, reading: Reading, call: Call, key: str, tag: Tag) -> None:
        super().__init__(reading, call, key)
        self.tag = tag
        # Opening tags of a quoted region that are not closed yet, and how many of each kind.
        self._region: list[str] = []
        self._counts: defaultdict[str, int] = defaultdict(int)

    def judge(self, tag: Tag, json_ended: bool = False) -> Steps[Verdict]:
        reading, block = self.reading, self.reading.block
        self.reopens = self.is_remarked = self.precedes_call = False
        verdict = yield from self._judge(tag, json_ended)
        if block is not None and block.strict is not None:
            verdict = yield from self._judge_strictly(tag, verdict)
        if verdict is IMPLIED and self.reopens and tag.start < reading.quoted_to:
            self.quoted = True
            verdict = SPELLED
        if tag.marked and verdict in (TEXT, SPELLED, QUOTE):
            self.holds_tags = True
            kind = self.rules.kind(tag, self.call.name)
            self.holds_close = self.holds_close or (tag.closing and kind in CALL_TAGS)
        return verdict

    def _judge(self, tag: Tag, json_ended: bool) -> Steps[Verdict]:
        """The verdict on a tag, by itself and by the text that follows it."""
        if tag.kind == "eos":
            ends = not self.quoted and (yield from self.rules.ends_text(tag))
            return IMPLIED if ends else TEXT
        if tag.broken or tag.kind in TOKENS:
            return TEXT
        kind = self.rules.kind(tag, self.call.name)
        if self._region and self._is_counted(tag, kind):
            return TEXT
        verdict = yield from self._judge_own(tag, kind, json_ended)
        return verdict or (yield from self._judge_other(tag, kind, json_ended))

    def _judge_own(self, tag: Tag, kind: str | None, json_ended: bool) -> Steps[Verdict | None]:
        """The verdict on the value's own close, or a remainder of it. None: it is another tag."""
        rules, tool, in_block = self.rules, self.call.name, self.reading.block is not None
        if self._is_own_close(tag, kind):
            return CLOSE if json_ended else (yield from self._judge_close(tag))
        if self._region:
            return None
        if rules.is_odd_close(tag, "parameter", tool, self.key):
            closes = yield from rules.closes_in_run(tag.end, "parameter", tool, in_block)
        elif tag.bare and kind == "parameter":
            # `users` and `D parameter>` before the parameter that is missing (rule 38).
            closes = self._is_missing_parameter((yield from rules.look_past(tag.end)))
        else:
            return None
        return CLOSE if closes else TEXT

    def _judge_other(self, tag: Tag, kind: str | None, json_ended: bool) -> Steps[Verdict]:
        """The verdict on any other tag: if it cannot be inside the value, the value has ended."""
        rules, tool, in_block = self.rules, self.call.name, self.reading.block is not None
        if json_ended and rules.is_odd_close(tag, "invoke", tool):
            ends = yield from rules.closes_in_run(tag.end, "invoke", tool, in_block)
            return IMPLIED if ends else TEXT
        if tag.bare or self._region:
            return TEXT
        word = rules.meaning(tag, IN_VALUE, tool)
        if word == "region" and (yield from self._opens_region(tag, kind)):
            return IMPLIED if json_ended else QUOTE
        ends = False
        if word == "outer":  # JSON has decided where it ends (rule 4)
            ends = json_ended or (yield from self.ends_at_outer_close(tag, kind))
        elif word == "next":
            ends = (json_ended and rules.key(tag, tool) is not None) or self.lets_act(tag)
        return IMPLIED if ends else TEXT

    # The verdict of the strict grammar (rule 20).

    def _judge_strictly(self, tag: Tag, verdict: Verdict) -> Steps[Verdict]:
        """The verdict on the first doubtful tag of a block (rule 20).

        A document about calls, as the value of a well-formed block, holds whole blocks.
        """
        reading, block = self.reading, self.reading.block
        assert block is not None and block.strict is not None
        closes = tag.raw == reading.tags.parameter_close and verdict is CLOSE
        if closes or (verdict is TEXT and not tag.marked and tag.kind != "eos"):
            return verdict
        strict, block.strict = block.strict, None
        if (yield from self._is_repair(tag, verdict)):
            return verdict  # a text repaired in this way would read strictly too
        accepted = tag.start >= reading.refuted_to
        accepted = accepted and (yield from strict.accepts(self.buffer, self.start, tag.start))
        reading.refuted_to = max(reading.refuted_to, strict.refuted_to)
        if not accepted:
            return verdict
        if verdict is IMPLIED and tag.kind != "eos":  # it cannot be known which was meant
            reading.report("quoted_markup", tag.start, tag.raw)
        block.reads_strictly = True
        return TEXT

    def _is_repair(self, tag: Tag, verdict: Verdict) -> Steps[bool]:
        """Whether a value ends at a tag though the strict grammar may go on behind it.

        It ends at a parameter's tag; and at an odd or misspelled close, if a parameter that is
        still missing follows. Before anything else the close may be quoted.
        """
        if verdict is IMPLIED:
            return self._is_called_parameter(tag)
        if verdict is not CLOSE or self.quoted:
            return False
        return self._is_missing_parameter((yield from self.rules.look_past(tag.end)))

    def _is_missing_parameter(self, tag: Tag) -> bool:
        """Whether a tag opens a parameter that the call lacks."""
        return self._is_called_parameter(tag) and not tag.closing and self.is_missing(tag)

    def _is_called_parameter(self, tag: Tag) -> bool:
        """Whether a tag is a parameter's by its own name, and not only by its attribute."""
        tool = self.call.name
        by_name = tag.kind == "parameter" or tag.label in self.reading.tools.keys(tool)
        # Documents show tags with a bracket too many (rule 28), or that lost a part (38, 43).
        by_name = by_name and not (tag.mended or tag.raw.startswith("<<"))
        return tag.marked and by_name and self.rules.kind(tag, tool) == "parameter"

    # The value's own close.

    def _is_own_close(self, tag: Tag, kind: str | None) -> bool:
        if not tag.closing or tag.bare:
            return False
        own = tag.label != "" and tag.label == self.tag.label
        if not tag.marked:
            return own and not self.tag.marked
        # The opening tag may have another name than a parameter's (rule 30).
        return kind == "parameter" or (own and self.tag.kind != "parameter")

    def _judge_close(self, tag: Tag) -> Steps[Verdict]:
        ahead = yield from self.rules.look_past(tag.end)
        closes = yield from self._may_follow(tag, ahead)
        if not closes and not self._region:
            closes = self.is_remarked = yield from self._comes_soon(tag.end)
        if closes:
            return CLOSE
        if not tag.marked and self.reading.doubt is not None:  # plain calls are quoted (rule 31)
            self.reading.doubt.has_surplus = True
        return SPELLED if tag.marked else TEXT

    def _may_follow(self, tag: Tag, ahead: Tag) -> Steps[bool]:
        """Whether the grammar can go on after a close (rule 4).

        In `It ends with </D parameter>, then.` it cannot, where D is the token.
        """
        rules, tool = self.rules, self.call.name
        if not ahead.raw:
            return ahead.kind == "end" or (yield from self._is_damaged(tag, ahead.start))
        if ahead.kind == "eos":
            return (yield from rules.ends_text(ahead))
        role = rules.role(ahead, tool)
        closes_all = ahead.closing and rules.is_container(ahead, tool)
        self.precedes_call = role == "invoke"
        if role in _FITTING or closes_all or rules.is_plain_argument(ahead, tool):
            return True
        if role == "/parameter":  # in place of the invoke's, before the wrapper's or a call
            return rules.role((yield from rules.look_past(ahead.end))) in ("/wrapper", "invoke")
        if (yield from self._plain_call_follows(tag, ahead)):
            self.is_remarked = True  # so that calls behind it are held
            return True
        closes, in_block = rules.is_odd_close(ahead, "invoke", tool), self.reading.block is not None
        return closes and (yield from rules.closes_in_run(ahead.end, "invoke", tool, in_block))

    def _plain_call_follows(self, close: Tag, ahead: Tag) -> Steps[bool]:
        """Whether the next plain call of a DSML wrapper follows a close (rule 31).

        `a</parameter></invoke>` and `<invoke name="ping">`: the block has two calls.
        """
        plain = self.call.is_plain if close.marked else not self.tag.marked
        if not plain or self.reading.block is None or ahead.marked:
            return False
        if not ahead.closing or ahead.label.lower() != "invoke":
            return self.rules.is_plain_invoke(ahead)
        behind = yield from self.rules.look_past(ahead.end)
        if behind.marked or behind.closing:
            return False
        return behind.label.lower() == "invoke" and "name" in behind.attributes

    def _is_damaged(self, close: Tag, at: int) -> Steps[bool]:
        """Whether a tag follows a close directly, but is damaged, or breaks off.

        It lost its bracket or word, or its parts changed places (rules 30 and 38): with D for the
        token, `D parameter name="b"`, `<parameter D name="b"` or `</invoke D>`.
        """
        buffer = self.buffer
        while close.marked and (head := buffer.match(_DAMAGED_HEAD, at)) is not None:
            if head[1]:
                return True
            head = None
            if not (yield from buffer.more()):
                break
        tag = yield from buffer.tag(at)
        if not isinstance(tag, Tag) or not tag.broken or tag.closing:
            return False
        return self.rules.kind(tag, self.call.name) in ("invoke", "parameter")

    def _comes_soon(self, start: int) -> Steps[bool]:
        """Whether only a remark stands between the close and a tag that may follow it (rule 11).

        `a.py</D parameter>, the file:` and on the next line the parameter that is missing.
        """
        buffer, at = self.buffer, start
        behind = yield from buffer.past_space(start, LONGEST_REMARK)
        # As in a string of a program or of JSON; or before JSON's line end.
        if buffer.at(start) in QUOTES_A_CLOSE or buffer.at(behind) == "\\":
            return False
        while (tag := (yield from buffer.next_tag(at, start + LONGEST_REMARK))) is not None:
            if not tag.marked or tag.broken or tag.bare:
                if self._is_own_close(tag, None):
                    return False
                at = tag.start + 1
                continue
            kind = self.rules.kind(tag, self.call.name)
            if kind in ("invoke", "wrapper"):
                return tag.closing
            if kind == "parameter" and (tag.closing or self._follows(tag, start)):
                return not tag.closing
            at = tag.end
        return False

    def _follows(self, tag: Tag, start: int) -> bool:
        """Whether a parameter that the call lacks follows, on a line of its own or in a list.

        Behind `</D parameter>>`, where D is the token, an undeclared one is enough: a tool may take
        any.
        """
        if self.lets_act(tag):
            return True
        between = self.buffer.slice(start, tag.start)
        if self.quoted or (between.strip() != ">" and _COMMAS.fullmatch(between) is None):
            return False
        return self.is_missing(tag) or between.strip() == ">"

    # Quoted regions: their tags are counted, and are text until their own close (rule 4).

    def _opens_region(self, tag: Tag, kind: str | None) -> Steps[bool]:
        rules = self.rules
        if kind == "invoke":
            is_named, in_block = rules.tool_called(tag) is not None, self.reading.block is not None
            return is_named and (yield from rules.is_certain(tag, in_block))
        return rules.role((yield from rules.look_past(tag.end))) == "invoke"

    def quote(self, tag: Tag, verdict: Verdict) -> None:
        if verdict is SPELLED:
            self.reading.refuse(tag.end)
        else:
            self.quoted = True
            if not tag.self_closed:
                self._count(self.rules.kind(tag, self.call.name) or "")
        # Values that are held are checked when they end.
        if verdict is QUOTE or self.streams:
            self.reading.report("quoted_markup", tag.start, tag.raw)

    def _count(self, kind: str) -> None:
        self._region.append(kind)
        self._counts[kind] += 1

    def _is_counted(self, tag: Tag, kind: str | None) -> bool:
        """Counts a tag of the region. False: a close without a partner in it, so not its own."""
        if not tag.marked or tag.bare or kind not in CALL_TAGS:
            return True
        if not tag.closing:
            if not tag.self_closed:
                self._count(kind)
            return True
        if not self._counts[kind]:
            return False
        while True:
            last = self._region.pop()
            self._counts[last] -= 1
            if last == kind:
                return True
