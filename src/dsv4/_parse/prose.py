"""Reasoning and content, stop strings in them, and the tags that lead from them to calls
(recovery.md, rules 5, 6, 9, 15, 16 and 17).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dsv4._format import tokens
from dsv4._format.spellings import CLOSING_BRACKETS, ECHO, JSON_WRAPPERS, OPENING_BRACKETS
from dsv4._parse import events as kinds
from dsv4._parse.blocks import InvokeOpening
from dsv4._parse.events import ContentDelta, DiagnosticKind, ReasoningDelta, StopHit
from dsv4._parse.held_calls import QuotedCalls
from dsv4._parse.lexer import PLAIN_LABEL
from dsv4._parse.limits import LONGEST_TAG
from dsv4._parse.lines import LineTracker
from dsv4._parse.machine import Machine, Move, ParserState
from dsv4._parse.patterns import pattern
from dsv4._parse.quoting import PARTNERS, QUOTES, Quoting
from dsv4._parse.source import NOWHERE
from dsv4._parse.tag import TOKENS, PartialTag, Tag
from dsv4._parse.tag_rules import (
    Lookahead,
    begins_json_calls,
    is_plain_invoke,
    is_plain_label,
    is_plain_wrapper,
    opens_json_calls,
    plain_call_follows,
)

# Stop strings: prose ends before the first of them, wherever the chunks are cut.


class StopMatch(NamedTuple):
    """Where in a text a stop string was found, and which."""

    at: int
    string: str


class StopStrings:
    """Finds stop strings in text, and how much of its end may still become one."""

    __slots__ = ("_longest", "_starts", "_stops")

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._longest = max(map(len, self._stops), default=0)
        self._starts = {stop[:size] for stop in self._stops for size in range(1, len(stop))}

    def find(self, text: str) -> StopMatch | None:
        """The string that is whole first, as if the text came letter by letter."""
        found = [(at + len(s), at, s) for s in self._stops if (at := text.find(s)) >= 0]
        if not found:
            return None
        _, at, string = min(found)
        return StopMatch(at, string)

    def start_at_end(self, text: str) -> int:
        """How many characters of the text's end a stop string may begin with."""
        for size in range(min(self._longest - 1, len(text)), 0, -1):
            if text[-size:] in self._starts:
                return size
        return 0


_MOST_NAMED = 128  # characters of tokens in a row
# What ends a prompt that is shown in a line.
_ENDS_INLINE = {quote: pattern(f"[{close}\n]") for quote, close in PARTNERS.items()}
_THINK_END = str(tokens.THINK_END)
# The token alone on a line, and what may still become that.
_LONE = rf"[{OPENING_BRACKETS}]?{tokens.DSML}[{CLOSING_BRACKETS}]?"
_LONE_TOKEN = pattern(rf"{_LONE}(?=[ \t\r]{{0,4}}\n)")
_MAYBE_LONE_TOKEN = pattern(rf"{_LONE}[ \t\r]{{0,4}}\Z")


class ProseReader:
    """Reads reasoning and content.

    It outlives the blocks between them: `resume` begins again where reading stands.
    """

    def __init__(
        self, machine: Machine, reasoning: bool, stops: StopStrings | None, stop_in_all: bool
    ) -> None:
        self._machine = machine
        self._source = machine.source
        self._stops = stops
        self._stop_everywhere = stop_in_all
        self.reasoning = reasoning
        self.unclosed = reasoning  # no end of the reasoning was met
        self.lines = LineTracker()
        self.quoting = Quoting(machine.source.pos)
        # How far the text was looked at. It is shown up to the source's `pos`.
        self._at = machine.source.pos
        self.reasoning_shown = False
        self.joining = False  # the next reasoning begins on a line of its own
        self._is_transcript = False  # a fence shows several turns: nothing behind it acts
        self._roles_are_text = False
        self._named_to = NOWHERE  # tokens and markup before this place are named
        self._inline = (NOWHERE, 0)  # how far behind which token its quote was looked for
        self._behind_quoted_plain = False  # a plain tag that a quote stands directly before
        self._openers = 0  # opening tags that were left as text
        self._names_think_tag = (
            False  # this line names an opening think tag, so the next close is talk too
        )
        self.plain_wrapper = False  # a wrapper without the DSML token was opened
        self._example_end = machine.source.pos  # blocks in a fence before this are in an example

    def resume(self, lines: LineTracker | None = None, to: int | None = None) -> ProseReader:
        """Goes on where reading stands; or, up to the place `to`, with what is text for sure."""
        if lines is not None:
            self.lines = lines
        if self._source.pos > self._at:
            self.quoting.pass_call(self._source.pos)
        if to is None:
            self._at = self._source.pos
        else:
            self._look(to)
        return self

    def skip(self, text: str) -> None:
        """The text up to where reading stands was looked at by somebody else."""
        self.quoting.follow(text, self._at)
        self._at += len(text)

    @property
    def is_idle(self) -> bool:
        """Whether text in which no tag begins may be shown as it comes."""
        if self._stops is not None or self.joining or self._names_think_tag:
            return False
        if self._behind_quoted_plain:
            return False
        return not self.reasoning or self.reasoning_shown

    @property
    def _is_example(self) -> bool:
        """Whether markup is shown and does nothing."""
        return self._is_transcript or self.lines.fenced

    def follow(self, text: str) -> bool:
        """Follows text that was shown as it came. Says whether the next may need no following."""
        self.lines.follow(text)
        return self.lines.needs_no_following

    # Going through the text.

    def read(self) -> Move | None:
        source, at = self._source, self._at
        while (at := source.next_mark(at)) < source.end:
            tag = source.tag_at(at) or self._machine.rules.doubled(at)
            if tag is None:
                tag = self._lone_token(at)
            if tag is None:
                at += 1
                continue
            self._look(at)
            if isinstance(tag, PartialTag):
                if self._may_act(tag, at):
                    break
                source.pending = None
                at += 1
            elif self._is_text(tag):
                at += 1  # what stands in it may act, as if it had not been read as a tag
            else:
                if (halted := self._show_up_to(at)) is not None:
                    return halted
                before = source.pos, self._at
                move = self._read_tag(tag)
                if move is not None or before == (source.pos, self._at):
                    return move
                at = self._at
        self._look(at)
        return self._show_up_to(at)

    def _lone_token(self, at: int) -> Tag | PartialTag | None:
        """The token alone on a line, before a block or a call (rule 34)."""
        source = self._source
        lone = source.match(_LONE_TOKEN, at)
        if lone is None and not source.final and source.match(_MAYBE_LONE_TOKEN, at):
            return PartialTag.MAYBE
        if lone is None or source.is_inert(at, source.place(lone.end())):
            return None
        self._look(at)
        tag = Tag("parameter", at, lone[0])
        tag.marked = True
        left_over = self._is_left_over(tag)
        if left_over is None:
            return PartialTag.MAYBE
        return tag if left_over else None

    def _look(self, to: int) -> None:
        """Looks at the text up to `to`."""
        if to > self._at:
            text = self._source.slice(self._at, to)
            if "\n" in text:
                self._names_think_tag = False
            if self._behind_quoted_plain and not text.isspace():
                self._behind_quoted_plain = False
            self.lines.follow(text)
            self.quoting.follow(text, self._at)
            self._at = to
            if self._machine.quotations:
                self._machine.follow_quotations(not text.isspace())

    def _may_act(self, partial: PartialTag, at: int) -> bool:
        """Whether what may become a tag would mean anything here."""
        if partial is not PartialTag.NAME and partial is not PartialTag.PLAIN:
            return True
        tools = self._machine.tools
        if tools.none_declared or self._is_example:
            return False
        if partial is PartialTag.NAME:
            return bool(tools.parameters)
        if not tools.parameters:
            return False
        label = self._source.match(PLAIN_LABEL, at)
        return label is not None and is_plain_label(label[1])

    def _is_text(self, tag: Tag) -> bool:
        """Whether a tag is text wherever it stands in prose, and no deviation."""
        if tag.kind == "role" and (tag.raw != ECHO or tag.start != 0):
            return self.reasoning or self._is_example or self._roles_are_text
        if tag.marked:  # a bar, spaces and the word are prose, if no tag's name follows (rule 18)
            return tag.spaced and self._machine.rules.kind(tag) is None
        if tag.kind in TOKENS:
            return False
        return tag.closing or self._is_example or not is_plain_label(tag.label)

    def end(self) -> Move | None:
        """The text has ended: what waited for more is text, unless it is certain to be markup."""
        source, machine = self._source, self._machine
        while self._at < source.end:
            if source.tag_at(self._at) is PartialTag.SURELY:
                if self._may_be_cut(self._at) and machine.rules.may_become_call(self._at):
                    self.flush()
                    machine.report_cut(self._at)
                    self._at = source.end
                    return None
                machine.report(kinds.MARKUP_AS_TEXT, self._at, source.end)
                self._look(source.end)
            self._look(self._at + 1)
            if (move := self.read()) is not None:
                return move
        return self._show_up_to(source.end, complete=True)

    def _may_be_cut(self, at: int) -> bool:
        """Whether markup at `at`, where the text ends in it, is no talk (rule 33)."""
        quoted = self._source.char_before(at) in QUOTES
        return not (self._machine.tools.none_declared or self._is_example or quoted)

    # Showing text.

    def _show_up_to(self, to: int, complete: bool = False) -> Move | None:
        """Shows the prose up to `to`, but for what may belong to a block or to a stop string.

        With `complete` something else follows, and all of it is shown.
        """
        source = self._source
        text = source.slice(source.pos, to)
        if not text:
            return None
        kept = 0
        if not complete and text[-1] == "\n":
            kept = 2 if text[-2:] == "\n\n" else 1
        if self._stops is not None and (self._stop_everywhere or not self.reasoning):
            certain = text[: len(text) - kept]
            if (hit := self._stops.find(certain)) is not None:
                self._show(text[: hit.at])
                self._machine.emit(StopHit(hit.string))
                source.advance(source.pos + hit.at)
                return (ParserState.HALTED,)
            if not complete:
                waiting = kept + self._stops.start_at_end(certain)
                kept = max(waiting, self._stops.start_at_end(text))
        self._show(text[: len(text) - kept])
        source.advance(to - kept)
        return None

    def _show(self, text: str) -> None:
        """Shows the text that stands where reading is; not what the prompt has shown already."""
        told = -self._source.pos
        if told > 0:
            text = text[told:]
        if not text:
            return
        if self._machine.holds:  # asked here too: most text holds nothing
            self._machine.settle_calls(Lookahead.TEXT)
        if not self.reasoning:
            self._machine.emit(ContentDelta(text))
            return
        if self.joining and self.reasoning_shown:
            text = "\n" + text
        self.joining = False
        self.reasoning_shown = self.reasoning_shown or not text.isspace()
        self._machine.emit(ReasoningDelta(text))

    def flush(self) -> Move | None:
        """Shows all that was looked at."""
        return self._show_up_to(self._at, complete=True)

    # Tags.

    def _read_tag(self, tag: Tag) -> Move | None:
        """Does what a tag means. Changes nothing while more text must come first."""
        machine, fenced = self._machine, self._is_example
        if tag.start < self._named_to:
            return self.leave(tag) if tag.marked else self._pass(tag)
        if tag.kind in ("eos", "bos", "role"):
            return self._read_token(tag)
        if tag.kind == "think":
            return self._read_think(tag)
        if tag.kind == "native":
            return self._read_native(tag)
        if not tag.marked:
            return self._read_plain(tag)
        kind = machine.rules.kind(tag)
        if tag.broken or tag.bare or kind is None:
            return self.leave(tag)
        if fenced:
            return self._read_fenced(tag, kind)
        if tag.closing:
            return self.leave(tag) if self._openers else self._orphans(tag)
        if machine.tools.none_declared:
            return self._read_undeclared(tag, kind)
        if kind == "wrapper":
            return self._read_wrapper(tag)
        if kind == "invoke" and machine.rules.tool_called(tag) is not None:
            return self._read_invoke(tag)
        if self._is_left_over(tag) is not False:
            return self._drop_left_over(tag)
        if kind == "invoke" or tag.self_closed or tag.name is None or self._openers:
            return self.leave(tag)
        if (halted := self.flush()) is not None:
            return halted
        self._hold_if_quoted(tag)
        return (ParserState.STRAY if self.lines.blank else ParserState.LOST, tag)

    def _is_left_over(self, tag: Tag) -> bool | None:
        """Whether the beginning of a call stands on a line of its own, before the call (rule 34).

        None: not known yet.
        """
        if tag.attributes or tag.closing or tag.self_closed or not self.lines.blank:
            return False
        if self._machine.tools.none_declared or self._is_example:
            return False
        return self._call_begins_below(tag.end)

    def _call_begins_below(self, at: int) -> bool | None:
        """Whether a block or a call of a declared tool begins on a later line. None: not known."""
        rules = self._machine.rules
        ahead = rules.look_ahead(at)
        if not isinstance(ahead, Tag):
            return None if ahead is Lookahead.MORE else False
        if "\n" not in self._source.slice(at, ahead.start):
            return False
        name = rules.tool_called(ahead)
        is_call = rules.opens(ahead, "invoke") and self._machine.tools.may_be_tool(name or "")
        return rules.opens(ahead, "wrapper") or (is_call and name is not None)

    def _drop_left_over(self, tag: Tag) -> Move | None:
        if self._is_left_over(tag) is None:
            return None
        if (halted := self.flush()) is not None:
            return halted
        self._hold_if_quoted(tag)
        return self._remove(kinds.UNEXPECTED_TAG, tag)

    def _pass(self, tag: Tag) -> Move | None:
        """Leaves a tag in the text, where it is no deviation."""
        self._look(tag.end)
        return None

    def leave(self, tag: Tag) -> Move | None:
        """Leaves markup in the text."""
        self._machine.report_raw(kinds.MARKUP_AS_TEXT, tag.start, tag.raw)
        if not tag.broken and not self._is_example:
            self._openers = max(self._openers + (-1 if tag.closing else 1), 0)
        self._look(tag.end)
        return None

    def _remove(self, kind: DiagnosticKind, tag: Tag) -> Move | None:
        if (halted := self.flush()) is not None:
            return halted
        self._machine.report_raw(kind, tag.start, tag.raw)
        self._source.advance(tag.end)
        self._at = tag.end
        return None

    # Tokens (rules 17, 22, 25 and 27).

    def _read_token(self, tag: Tag) -> Move | None:
        named = self._is_named(tag)
        if named is None:
            return None
        if named:
            return self._pass(tag)
        if tag.kind == "eos":
            return self._read_eos(tag)
        if tag.kind == "role" and (tag.raw != ECHO or tag.start != 0):
            return self.flush() or (ParserState.ROLE, tag)
        return self._remove(kinds.STRAY_TOKEN, tag)

    def _is_named(self, tag: Tag) -> bool | None:
        """Whether a token is named: quoted, or in a code fence that goes on. None: not known."""
        quote = self._source.char_before(tag.start)
        quoted = quote in PARTNERS and self._is_in_quotes(tag, quote)
        if quoted is not False:
            return quoted
        if not self._is_example or self.lines.at_closing_run:
            return False
        _, ahead = self._machine.after_eos(tag)
        if ahead is Lookahead.MORE:
            return None
        if isinstance(ahead, Tag) and ahead.kind == "role" and tag.kind == "eos":
            self._is_transcript = True  # it is shown, and nothing in it runs
        return ahead is not Lookahead.END

    def _is_in_quotes(self, tag: Tag, quote: str) -> bool | None:
        """Whether the quote before a token closes behind it, and other tokens. None: not known."""
        source, at = self._source, tag.end
        longest = 0 if self.reasoning else _MOST_NAMED  # reasoning ends wherever its end stands
        while at < source.end and at - tag.start <= longest and source.is_mark(at):
            found = source.tag_at(at)
            if isinstance(found, PartialTag) and not source.final:
                return None
            if not isinstance(found, Tag) or found.kind not in TOKENS:
                break
            at = found.end
        if at == source.end and not source.final:
            return None
        if at < source.end and source.at(at) in PARTNERS[quote]:
            self._named_to = at
            return True
        return self._shows_prompt(tag, quote)

    def _shows_prompt(self, tag: Tag, quote: str) -> bool | None:
        """Whether a line shows a prompt in quotes, from BOS or a role on. None: not known."""
        if self.reasoning or tag.kind == "eos":
            return False
        source = self._source
        at = self._inline[1] if self._inline[0] == tag.start else tag.end
        found = source.search(_ENDS_INLINE[quote], at, source.end)
        if found is None:
            self._inline = (tag.start, source.end)
            return None if source.end - tag.start <= LONGEST_TAG and not source.final else False
        if found[0] == "\n" or source.place(found.start()) - tag.start > LONGEST_TAG:
            return False
        self._named_to = source.place(found.start())
        return True

    def leave_roles(self) -> None:
        """Leaves role tokens in the text, because no turn was made up."""
        self._roles_are_text = True

    def _read_eos(self, tag: Tag) -> Move | None:
        """EOS is the end where nothing follows it; a role token after it begins a made-up turn."""
        ahead = self._machine.rules.look_past(tag.end)
        if ahead is Lookahead.MORE:
            return None
        self._end_section()
        self._machine.eos = ahead is Lookahead.END
        if tag.end == self._source.end:
            halted = self.flush()
            self._source.advance(tag.end)
            self._at = tag.end
            return halted
        if isinstance(ahead, Tag) and ahead.kind == "role":
            if (halted := self.flush()) is not None:
                return halted
            self._machine.eos = True
            return (ParserState.INVENTED,)
        return self._remove(kinds.STRAY_TOKEN, tag)

    # Thinking (rules 6, 13, 15 and 17).

    def _read_think(self, tag: Tag) -> Move | None:
        after_quote = self._source.char_before(tag.start) in QUOTES
        if tag.closing and tag.raw != _THINK_END and after_quote:  # with spaces in it
            return self._pass(tag)
        if self.reasoning:
            return self._end_reasoning(tag) if tag.closing else self._read_echo(tag)
        if self._is_example:
            return self._pass(tag)
        if not tag.closing:
            if after_quote:
                self._look(tag.end)
                self._names_think_tag = True
                return None
            return self._begin_reasoning(tag)
        if self._names_think_tag:
            self._look(tag.end)
            self._names_think_tag = False
            return None
        if after_quote:
            if tag.end == self._source.end and not self._source.final:
                return None
            if self._source.at(tag.end) in QUOTES:
                return self._pass(tag)
        return self._remove(kinds.STRAY_THINK, tag)

    def _end_section(self) -> None:
        """No quotation goes on behind this."""
        self._machine.end_quotations()
        self.quoting = Quoting(self._at)

    def _end_reasoning(self, tag: Tag) -> Move | None:
        self._end_section()
        if (halted := self.flush()) is not None:
            return halted
        if tag.raw != _THINK_END:
            self._machine.report_raw(kinds.MISSPELLED_TAG, tag.start, tag.raw)
        self._source.advance(tag.end)
        self._at = tag.end
        self.reasoning = self.unclosed = self.joining = False
        self.lines = LineTracker()
        return None

    def _read_echo(self, tag: Tag) -> Move | None:
        if self.lines.fenced:
            return self._pass(tag)
        if not self._said_any():  # the prompt's own, written once more
            return self._remove(kinds.STRAY_THINK, tag)
        self._machine.report_raw(kinds.STRAY_THINK, tag.start, tag.raw)
        return self._pass(tag)

    def _said_any(self) -> bool:
        waiting = self._source.slice(self._source.pos, self._at)
        return self.reasoning_shown or bool(waiting.strip())

    def _begin_reasoning(self, tag: Tag) -> Move | None:
        self._end_section()
        halted = self._remove(kinds.THINK_IN_CONTENT, tag)
        self.reasoning = self.unclosed = self.joining = True
        self.lines = LineTracker()
        return halted

    # Blocks and calls (rules 2 and 5).

    def _read_wrapper(self, tag: Tag) -> Move | None:
        if self._machine.rules.names_tool(tag):  # it is the call, if what must follow does
            certain = self._machine.rules.is_certain(tag, wrapped=False)
            if certain is not False:
                return None if certain is None else self._read_invoke(tag)
        certain = True if self.lines.blank else self._holds_calls(tag)
        if certain is None:
            return None
        if not certain:
            return self.leave(tag)
        return self.enter_calls(tag) or (ParserState.BLOCK, tag)

    def _holds_calls(self, tag: Tag) -> bool | None:
        """Whether a wrapper in the middle of a line holds calls. None: not known."""
        machine = self._machine
        ahead = machine.rules.look_ahead(tag.end)
        if ahead is Lookahead.MORE:
            return None
        if ahead is Lookahead.BRACE:
            return begins_json_calls(machine.rules, self._source.past_space(tag.end))
        if ahead is Lookahead.END:
            begins_tag = self._source.past_space(tag.end) < self._source.end
            return self._may_be_cut(tag.start) and (begins_tag or self._is_known_cut)
        if machine.rules.opens(ahead, "invoke") and isinstance(ahead, Tag):
            certain = machine.rules.is_certain(ahead, wrapped=True)
            ends = certain is False and machine.rules.look_past(ahead.end) is Lookahead.END
            declared = ends and machine.tools.may_be_tool(machine.rules.tool_called(ahead) or "")
            return (declared and self._may_be_cut(tag.start)) or certain
        return False

    @property
    def _is_known_cut(self) -> bool:
        ended = self._source.ended
        return ended is not None and ended.is_cut

    def _read_undeclared(self, tag: Tag, kind: str) -> Move | None:
        """If no tools are declared, a block is text, unless it holds no call."""
        machine = self._machine
        if kind != "wrapper" or not self.lines.blank:
            return self.leave(tag)
        ahead = machine.rules.look_ahead(tag.end)
        if ahead is Lookahead.MORE:
            return None
        if machine.rules.closes(ahead, "wrapper"):
            return self.enter_calls(tag) or (ParserState.BLOCK, tag)
        return self.leave(tag)

    def _read_invoke(self, tag: Tag) -> Move | None:
        """A call without a wrapper: only of a declared tool, and only when it is certain."""
        machine = self._machine
        name = machine.rules.tool_called(tag)
        declared = name is not None and machine.tools.given and machine.tools.declares(name)
        if not declared and not (machine.rules.is_example(name) and self.lines.blank):
            return self.leave(tag)
        certain = machine.rules.is_certain(tag, wrapped=False)
        if certain is None:
            return None
        if not certain and tag.self_closed and self.lines.blank:
            ahead = self._source.at(tag.end)
            if not ahead and not self._source.final:
                return None
            certain = ahead in ("", "\n")
        if not certain and not self._is_cut_opening(tag):
            return self.leave(tag)
        if (halted := self.enter_calls(tag)) is not None:
            return halted
        machine.report_raw(kinds.MISSING_WRAPPER, tag.start, "")
        return (ParserState.INVOKE, InvokeOpening(tag))

    def _is_cut_opening(self, tag: Tag) -> bool:
        """Whether the text was cut behind the opening of a call without a wrapper (rule 33)."""
        source = self._source
        ends = not tag.self_closed and self._machine.rules.look_ahead(tag.end) is Lookahead.END
        if not ends or not self._may_be_cut(tag.start):
            return False
        if source.past_space(tag.end) < source.end or self._is_known_cut:
            return True
        return self.lines.blank and not source.stopped

    def enter_calls(self, tag: Tag) -> Move | None:
        """Leaves prose for a block, or for a call without one. A blank line goes with it."""
        source, machine = self._source, self._machine
        machine.blank_line = source.slice(source.pos, tag.start).endswith("\n\n")
        halted = self._show_up_to(tag.start - 2 * machine.blank_line, complete=True)
        if halted is not None:
            return halted
        self._hold_if_quoted(tag)
        if self.reasoning:
            machine.report_raw(kinds.CALL_IN_REASONING, tag.start, "")
        if machine.blocks:
            machine.report_raw(kinds.SECOND_BLOCK, tag.start, "")
        machine.blocks += 1
        source.advance(tag.start)
        return None

    def _hold_if_quoted(self, tag: Tag) -> None:
        """Where a quotation is open, what is read from here on waits for its close (rule 29)."""
        machine, before = self._machine, self._source.char_before(tag.start)
        quotation = self.quoting.around(before, self.lines.is_indented)
        if quotation is None or any(hold.covers(quotation) for hold in machine.quotations):
            return
        if machine.hold is not None:
            machine.hold.settle(tag)
        QuotedCalls(machine, quotation, lambda to, quoting: self._leave_quoted(tag, to, quoting))

    def _leave_quoted(self, tag: Tag, to: int, quoting: Quoting) -> None:
        """The text from a tag up to `to` is quoted, and stays."""
        source = self._source
        self._machine.report_raw(kinds.MARKUP_AS_TEXT, tag.start, tag.raw)
        self.quoting = quoting
        self.quoting.pass_quotation(to)
        self._at = to
        lines = source.slice(source.pos, to).rpartition("\n")
        self.lines = LineTracker()
        self.lines.follow("." if lines[2].strip() else lines[2])

    # Inside a code fence (rule 15).

    def _read_fenced(self, tag: Tag, kind: str) -> Move | None:
        machine = self._machine
        opens = kind == "wrapper" and not tag.closing and self.lines.blank
        if not opens or not self.lines.after_blank or machine.tools.none_declared:
            return self.leave(tag)
        if self._is_transcript:
            return self.leave(tag)
        if tag.start < self._example_end or tag.raw != tag.canonical(machine.tags.calls):
            return self.leave(tag)
        return (ParserState.FENCED, tag)

    def leave_example(self, tag: Tag, to: int) -> None:
        """A block in a fence was an example up to `to`: what it quotes never runs.

        Nor is it held once more, so that blocks in blocks take linear time.
        """
        self._example_end = to
        self.leave(tag)

    # Closing tags (rules 9 and 17).

    def _orphans(self, tag: Tag) -> Move | None:
        if (halted := self.flush()) is not None:
            return halted
        self._hold_if_quoted(tag)
        return (ParserState.ORPHANS, tag, self.lines.blank)

    # Calls without the DSML token, and those of older models (rules 1 and 13).

    def _read_plain(self, tag: Tag) -> Move | None:
        """A plain call, or a plain wrapper before a call."""
        machine = self._machine
        if self._source.char_before(tag.start) in QUOTES or self._behind_quoted_plain:
            self._look(tag.end)
            self._behind_quoted_plain = True
            return None
        if is_plain_invoke(machine.rules, tag):
            return self._read_plain_invoke(tag, None)
        if tag.attributes or tag.self_closed or not is_plain_wrapper(tag.label):
            return self._pass(tag)
        ahead = machine.rules.look_ahead(tag.end)
        if ahead is Lookahead.MORE:
            return None
        if ahead is Lookahead.BRACE and tag.label in JSON_WRAPPERS and self.lines.blank:
            return (ParserState.PLAIN, tag, tag)
        if not isinstance(ahead, Tag):
            return self._pass(tag)
        if self.lines.blank or self._source.opens_line(ahead.start):
            holds = opens_json_calls(machine.rules, ahead)
            if holds is None:
                return None
            if holds:
                return (ParserState.PLAIN, tag, ahead)
        if is_plain_invoke(machine.rules, ahead):
            return self._read_plain_invoke(ahead, tag)
        if machine.rules.opens(ahead, "invoke") and machine.tools.declares(
            machine.rules.tool_called(ahead) or ""
        ):
            certain = machine.rules.is_certain(ahead, wrapped=False)
            if certain is None:
                return None
            if certain:
                halted = self.enter_calls(tag)
                machine.report_raw(kinds.MISSPELLED_TAG, tag.start, tag.raw)
                return halted or (ParserState.BLOCK, tag)
        return self._pass(tag)

    def _read_plain_invoke(self, tag: Tag, wrapper: Tag | None) -> Move | None:
        follows = plain_call_follows(self._machine.rules, tag)
        if follows is None:
            return None
        if not follows:
            return self._pass(tag if wrapper is None else wrapper)
        return (ParserState.PLAIN, wrapper or tag, tag)

    def _read_native(self, tag: Tag) -> Move | None:
        # After another such token that was left as text, this one is text too.
        quoted = self._source.char_before(tag.start) in QUOTES | {tag.raw[-1]}
        if tag.closing or quoted or self._is_example or self._machine.tools.none_declared:
            return self._pass(tag)
        return (ParserState.NATIVE, tag)
