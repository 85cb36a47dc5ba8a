"""Where a value ends: what a tag inside a value means (recovery.md, rules 3, 4, 11, 12 and 13)."""

from __future__ import annotations

from collections import Counter
from enum import Enum

from dsv4._format import tokens
from dsv4._format.spellings import PARAMETER_PREFIX
from dsv4._parse import events as kinds
from dsv4._parse.blocks import Invoke
from dsv4._parse.limits import LONGEST_REMARK
from dsv4._parse.machine import Machine
from dsv4._parse.quoting import QUOTES_A_CLOSE
from dsv4._parse.source import MARK, NOWHERE
from dsv4._parse.tag import TOKENS, PartialTag, Tag
from dsv4._parse.tag_rules import (
    CALL_TAGS,
    Lookahead,
    closes_in_run,
    is_odd_close,
    is_plain_invoke,
)

# A parameter's tag that lost its bracket, as far as it must be there.
_LOST = tokens.DSML + PARAMETER_PREFIX


class Verdict(Enum):
    """What a tag means inside a value."""

    TEXT = "a part of the value"
    WAIT = "more text must come first"
    CLOSE = "the value's own close"
    IMPLIED = "something that cannot be inside, so the value has ended"
    QUOTE = "the start of a quoted region"
    STRICT = "a part of the value, and all of the block is read strictly"
    SPELLED = "a close that closes nothing: a part of the value, and a deviation"


def _decided(certain: bool | None, yes: Verdict, no: Verdict = Verdict.TEXT) -> Verdict:
    if certain is None:
        return Verdict.WAIT
    return yes if certain else no


class ValueJudge:
    """Decides what tags in the value of one parameter mean."""

    __slots__ = (
        "_asked",
        "_counts",
        "_invoke",
        "_is_argument",
        "_key",
        "_looked",
        "_machine",
        "_region",
        "_start",
        "_tag",
        "_would_be",
        "holds_close",
        "holds_tags",
        "is_remarked",
        "opens_plainly",
        "quoted",
        "reopens",
    )

    def __init__(self, invoke: Invoke, key: str, tag: Tag) -> None:
        self._machine = invoke.machine
        self._invoke = invoke
        self._key = key
        self._tag = tag
        # The value stands in a tag of another name (rule 30).
        self._is_argument = tag.kind != "parameter" and tag.name is not None
        # Opening tags of a quoted region that are not closed yet, and how many of each kind.
        self._region: list[str] = []
        self._counts: Counter[str] = Counter()
        self.quoted = False  # there was such a region
        self._start = invoke.machine.source.pos
        self._asked: Tag | None = None  # about which the strict grammar was asked
        self._would_be = Verdict.TEXT
        self.holds_close = False  # a close of a call or of its parts is a part of the value
        self.holds_tags = False  # a tag with the DSML token is a part of the value
        self.is_remarked = False  # a remark follows the close (rule 11)
        self.opens_plainly: bool | None = False  # a plain call follows the close (rule 31)
        self.reopens = False  # a call or a block follows what implies the close
        self._looked = (NOWHERE, 0)  # how far after which close was looked for what must follow

    def begin_again(self) -> None:
        """The value is read again in another way, in which a close may mean something else."""
        self._looked = (NOWHERE, 0)

    def judge(self, tag: Tag, json_ended: bool = False) -> Verdict:
        """What `tag` means; `json_ended` says that the value is JSON, and whole."""
        if tag is self._asked:  # what it would mean is known, and the strict grammar is asked
            verdict = self._would_be
        else:
            self.reopens = False
            verdict = self._would_be = self._judge(tag, json_ended)
            self._asked = None
        if self._machine.may_be_strict and verdict is not Verdict.WAIT:
            verdict = self._judge_strictly(tag, verdict)
        if verdict is Verdict.IMPLIED and self.reopens and tag.start < self._machine.quoted_to:
            self.quoted = True
            verdict = Verdict.SPELLED
        if verdict is Verdict.TEXT and not tag.marked and self._is_own_close(tag, None):
            self._machine.note_surplus(tag)  # of plain calls before (rule 31)
        if tag.marked and verdict in (Verdict.TEXT, Verdict.SPELLED, Verdict.QUOTE):
            self.holds_tags = True
            kind = self._machine.rules.kind(tag, self._invoke.name)
            self.holds_close = self.holds_close or (tag.closing and kind in CALL_TAGS)
        return verdict

    def _judge_strictly(self, tag: Tag, verdict: Verdict) -> Verdict:
        """What the first doubtful tag of a block means: what the strict grammar says (rule 20)."""
        machine = self._machine
        kind = machine.rules.kind(tag, self._invoke.name)
        if tag.raw == machine.tags.parameter_close and verdict is Verdict.CLOSE:
            return verdict
        if self._is_repair(tag, kind, verdict):
            machine.forget_strict_block()  # what is repaired so would read strictly too
            return verdict
        if verdict is Verdict.TEXT and not tag.marked and tag.kind != "eos":
            return verdict
        accepted = machine.accepts_strictly(self._start, tag.start)
        if accepted is None:
            self._asked = tag
            return Verdict.WAIT
        if not accepted:
            machine.forget_strict_block()
            return verdict
        if verdict is Verdict.IMPLIED and tag.kind != "eos":  # nobody can tell which was meant
            machine.report_raw(kinds.QUOTED_MARKUP, tag.start, tag.raw)
        machine.read_strictly()
        return Verdict.STRICT

    def _is_repair(self, tag: Tag, kind: str | None, verdict: Verdict) -> bool:
        """Whether a value ends at a tag though the strict grammar may go on behind it (rule 20).

        At a parameter's tag it does; at a close that is odd or misspelled, where a parameter that
        is still missing follows. Before anything else the close may be quoted.
        """
        if verdict is Verdict.IMPLIED:
            return kind == "parameter"
        if verdict is not Verdict.CLOSE:
            return False
        ahead = self._machine.rules.look_past(tag.end)
        if not self._machine.rules.opens(ahead, "parameter", self._invoke.name):
            return False
        return isinstance(ahead, Tag) and not self.quoted and self._is_missing(ahead)

    def _judge(self, tag: Tag, json_ended: bool) -> Verdict:
        machine, tool = self._machine, self._invoke.name
        if self._looked[0] == tag.end:
            return self._judge_soon(tag)
        if tag.kind == "eos":
            return Verdict.TEXT if self.quoted else judge_eos(machine, tag)
        if tag.broken or tag.kind in TOKENS:
            return Verdict.TEXT
        kind = machine.rules.kind(tag, tool)
        if self._region and self._is_counted(tag, kind):
            return Verdict.TEXT
        if self._is_own_close(tag, kind):
            return Verdict.CLOSE if json_ended else self._judge_close(tag)
        if not self._region and is_odd_close(machine.rules, tag, "parameter", tool, self._key):
            return _decided(
                closes_in_run(machine.rules, tag.end, "parameter", tool, machine.block is not None),
                Verdict.CLOSE,
            )
        if json_ended and is_odd_close(machine.rules, tag, "invoke", tool):
            return _decided(
                closes_in_run(machine.rules, tag.end, "invoke", tool, machine.block is not None),
                Verdict.IMPLIED,
            )
        if not self._region and machine.rules.gives_argument(tag, tool) and self._lets_act(tag):
            return Verdict.IMPLIED
        if not tag.marked or tag.bare or kind not in CALL_TAGS or self._region:
            return Verdict.TEXT
        if tag.closing:
            if json_ended:  # which has decided where it ends (rule 4)
                return Verdict.IMPLIED
            if self.quoted:
                return Verdict.TEXT
            ends = self._ends_at_invoke if kind == "invoke" else self._ends_at_wrapper
            return _decided(ends(tag), Verdict.IMPLIED)
        if kind == "parameter":
            if json_ended and machine.rules.key(tag, tool) is not None:
                return Verdict.IMPLIED
            return Verdict.IMPLIED if self._lets_act(tag) else Verdict.TEXT
        return self._judge_quote(tag, kind or "", json_ended)

    # The value's own close.

    def _is_own_close(self, tag: Tag, kind: str | None) -> bool:
        if not tag.closing or tag.bare:
            return False
        is_same = tag.label == self._tag.label
        if tag.marked:
            return kind == "parameter" or (is_same and self._is_argument)
        return not self._tag.marked and is_same

    def _judge_close(self, tag: Tag) -> Verdict:
        ahead = self._machine.rules.look_past(tag.end)
        if ahead is Lookahead.MORE:
            return Verdict.WAIT
        follows = self._may_follow(tag, ahead)
        if follows is False and not self._region:
            return self._judge_soon(tag)
        return _decided(follows, Verdict.CLOSE, Verdict.SPELLED if tag.marked else Verdict.TEXT)

    def _judge_soon(self, tag: Tag) -> Verdict:
        soon = self._comes_soon(tag.end)
        self.is_remarked = bool(soon)
        return _decided(soon, Verdict.CLOSE, Verdict.SPELLED if tag.marked else Verdict.TEXT)

    def _may_follow(self, tag: Tag, ahead: Tag | Lookahead) -> bool | None:
        """Whether the grammar can go on after a close (rule 4)."""
        machine, tool = self._machine, self._invoke.name
        if not isinstance(ahead, Tag):
            if ahead is Lookahead.END or self._breaks_off(tag):
                return True
            return self._lost_bracket(tag)
        if ahead.kind == "eos":
            return self._is_end(ahead)
        if machine.rules.opens(ahead, "parameter", tool):
            return True
        if machine.rules.opens(ahead, "invoke", tool) or machine.rules.gives_argument(ahead, tool):
            return True
        if machine.rules.closes(ahead, "invoke", tool) or machine.rules.closes(
            ahead, "wrapper", tool
        ):
            return True
        if machine.rules.is_element(ahead, tool):
            return True
        if machine.rules.is_plain_parameter(ahead, tool):
            return True
        if ahead.closing and machine.rules.is_container(ahead, tool):
            return True
        self.opens_plainly = opens = self._opens_plain_call(tag, ahead)
        if opens is not False:
            return opens
        if is_odd_close(machine.rules, ahead, "invoke", tool):
            return closes_in_run(
                machine.rules, ahead.end, "invoke", tool, machine.block is not None
            )
        return False

    def _opens_plain_call(self, close: Tag, ahead: Tag) -> bool | None:
        """Whether a plain call follows a close that is plain, or is in a plain call (rule 31)."""
        rules = self._machine.rules
        is_plain = self._invoke.is_plain if close.marked else not self._tag.marked
        if self._machine.block is None or not is_plain or ahead.marked:
            return False
        if not ahead.closing or ahead.kind != "invoke":
            return is_plain_invoke(rules, ahead)
        after = rules.look_past(ahead.end)
        if not isinstance(after, Tag):
            return None if after is Lookahead.MORE else False
        opens = not after.marked and not after.closing and after.kind == "invoke"
        return opens and after.name is not None

    def _breaks_off(self, close: Tag) -> bool:
        """Whether the tag of a parameter or a call follows a close, but breaks off."""
        source, rules = self._machine.source, self._machine.rules
        at = source.past_all_space(close.end)
        tag = source.tag_at(at) if at < source.end and source.is_mark(at) else None
        if not isinstance(tag, Tag) or not tag.broken or tag.closing:
            return False
        return rules.kind(tag, self._invoke.name) in ("invoke", "parameter")

    def _lost_bracket(self, close: Tag) -> bool | None:
        """Whether a parameter's tag follows a close, without its bracket (rule 30)."""
        source = self._machine.source
        at = source.past_all_space(close.end)
        text = source.slice(at, at + len(_LOST))
        if text != _LOST and _LOST.startswith(text) and not source.final:
            return None
        return text == _LOST and not source.is_inert(at, at + len(_LOST))

    def _comes_soon(self, start: int) -> bool | None:
        """Whether a remark stands between the close and what must follow it (rule 11)."""
        machine, source, tool = self._machine, self._machine.source, self._invoke.name
        at = self._looked[1] if self._looked[0] == start else start
        behind = source.at(start)
        if behind in QUOTES_A_CLOSE:  # as a program or JSON has it, in a string
            return False
        if behind.isspace() and source.at(source.past_space(start)) == "\\":  # JSON's line end
            return False
        limit = start + LONGEST_REMARK
        while at <= limit:
            found = source.search(MARK, at, min(source.end, limit + 1))
            if found is None:
                at = min(source.end, limit + 1)
                if at > limit or source.final:
                    return False
                break
            at = source.place(found.start())
            tag = source.tag_at(at)
            if isinstance(tag, PartialTag):
                if source.final:
                    return False
                break
            if tag is None or not tag.marked or tag.broken or tag.bare:
                if tag is not None and self._is_own_close(tag, None):
                    return False
                at += 1
                continue
            kind = machine.rules.kind(tag, tool)
            if tag.closing and kind in ("invoke", "wrapper"):
                return True
            opens = kind == "parameter" or machine.rules.gives_argument(tag, tool)
            if opens and (tag.closing or self._lets_act(tag)):
                return not tag.closing
            if not tag.closing and kind in ("invoke", "wrapper"):
                return False
            at = tag.end
        else:
            return False
        self._looked = start, at
        return None

    # What implies a close (rule 12).

    def _opens_line(self, tag: Tag) -> bool:
        return self._machine.source.opens_line(tag.start)

    def _lets_act(self, tag: Tag) -> bool:
        """Whether a parameter's tag ends the value: on a new line, with a key that is missing."""
        return not self.quoted and self._opens_line(tag) and self._is_missing(tag)

    def _is_missing(self, tag: Tag) -> bool:
        """Whether a parameter's tag has a key that the call lacks, and may have."""
        machine, tool = self._machine, self._invoke.name
        key, keys = machine.rules.key(tag, tool), machine.tools.keys(tool)
        if key is None or not keys:
            return key is not None
        return key in keys and key != self._key and not self._invoke.call.has(key)

    def _ends_at_wrapper(self, tag: Tag) -> bool | None:
        machine = self._machine
        ahead = machine.rules.look_past(tag.end)
        if ahead is Lookahead.MORE:
            return None
        thought = isinstance(ahead, Tag) and ahead.kind == "think" and ahead.closing
        self.reopens = machine.rules.opens(ahead, "wrapper")
        return self.reopens or thought or self._is_end(ahead)

    def _is_end(self, ahead: Tag | Lookahead) -> bool | None:
        """Whether the text ends here, or an EOS stands here that ends it (rule 22)."""
        if isinstance(ahead, Tag) and ahead.kind == "eos":
            verdict = judge_eos(self._machine, ahead)
            return None if verdict is Verdict.WAIT else verdict is Verdict.IMPLIED
        return ahead is Lookahead.END

    def _ends_at_invoke(self, tag: Tag, is_second: bool = False) -> bool | None:
        machine = self._machine
        ahead = machine.rules.look_past(tag.end)
        if ahead is Lookahead.MORE:
            return None
        if not is_second and machine.rules.closes(ahead, "invoke") and isinstance(ahead, Tag):
            return self._ends_at_invoke(ahead, is_second=True)  # an orphan (rule 28)
        if not isinstance(ahead, Tag) or ahead.kind == "eos":
            return self._is_end(ahead)
        if machine.rules.opens(ahead, "wrapper"):
            self.reopens = True
            return True
        if machine.rules.opens(ahead, "invoke"):
            self.reopens = True
            return machine.rules.is_certain(ahead, machine.block is not None)
        return machine.rules.closes(ahead, "wrapper") and self._ends_at_wrapper(ahead)

    # Quoted regions: their tags are counted, and are text until their own close (rule 4).

    def _judge_quote(self, tag: Tag, kind: str, json_ended: bool) -> Verdict:
        machine = self._machine
        if kind == "invoke":
            if machine.rules.tool_called(tag) is None:
                return Verdict.TEXT
            opens = machine.rules.is_certain(tag, machine.block is not None)
            return _decided(opens, Verdict.IMPLIED if json_ended else Verdict.QUOTE)
        ahead = machine.rules.look_past(tag.end)
        if ahead is Lookahead.MORE:
            return Verdict.WAIT
        opens = machine.rules.opens(ahead, "invoke")
        return _decided(opens, Verdict.IMPLIED if json_ended else Verdict.QUOTE)

    def open_quote(self, tag: Tag) -> None:
        self.quoted = True
        if not tag.self_closed:
            self._count(self._machine.rules.kind(tag, self._invoke.name) or "")

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


def judge_eos(machine: Machine, tag: Tag) -> Verdict:
    """EOS ends a value where nothing follows it but EOS and white space (rule 22).

    It also does where a role token begins a turn that the model made up, in which nothing closes
    the value.
    """
    _, ahead = machine.after_eos(tag)
    if ahead is Lookahead.MORE:
        return Verdict.WAIT
    if isinstance(ahead, Tag) and ahead.kind == "role":
        return _decided(machine.closes_later(ahead.end), Verdict.TEXT, Verdict.IMPLIED)
    return Verdict.IMPLIED if ahead is Lookahead.END else Verdict.TEXT


class BodyJudge(ValueJudge):
    """Decides what tags mean in arguments that should be JSON, and are not."""

    __slots__ = ()

    def judge(self, tag: Tag, json_ended: bool = False) -> Verdict:
        machine = self._machine
        if tag.kind == "eos":
            return judge_eos(machine, tag)
        kind = machine.rules.kind(tag, self._invoke.name)
        self.holds_tags = self.holds_tags or (tag.marked and kind == "parameter")
        if tag.broken or not tag.marked or tag.bare or kind not in ("invoke", "wrapper"):
            return Verdict.TEXT
        if tag.closing:
            ends = self._ends_at_invoke if kind == "invoke" else self._ends_at_wrapper
            return _decided(ends(tag), Verdict.IMPLIED)
        if kind == "wrapper" or not self._opens_line(tag):
            return Verdict.TEXT
        return _decided(machine.rules.is_certain(tag, machine.block is not None), Verdict.IMPLIED)


class CallListJudge:
    """Decides what tags mean in a list of calls: only the wrapper's close and EOS end it."""

    __slots__ = ("_machine", "quoted")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.quoted = False

    def begin_again(self) -> None:
        """It remembers nothing of a way of reading."""

    def judge(self, tag: Tag, json_ended: bool = False) -> Verdict:
        if tag.kind == "eos":
            return judge_eos(self._machine, tag)
        return Verdict.IMPLIED if self._machine.rules.closes(tag, "wrapper") else Verdict.TEXT

    def open_quote(self, tag: Tag) -> None:
        """There are no quoted regions in such a list."""
