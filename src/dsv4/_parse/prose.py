"""Reasoning and content, and the tags that lead from them to calls (recovery.md, rules 5, 6, 9, 15
to 17, 22 to 25, 27, 29, 33, 34, 41 and 47).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dsv4._completion.events import ContentDelta, DiagnosticKind, ReasoningDelta, StopHit
from dsv4._completion.limits import LONGEST_MENTION, LONGEST_QUOTE, LONGEST_SPACE
from dsv4._completion.patterns import pattern
from dsv4._completion.reasons import Ended
from dsv4._format import tokens
from dsv4._format.spellings import BAR, ECHO, JSON_WRAPPERS
from dsv4._parse import after_calls, cut_calls, loose_parts, named_tokens, quotations
from dsv4._parse.blocks import open_block
from dsv4._parse.call_reader import begin_call
from dsv4._parse.lexer import PLAIN_LABEL, PLAIN_NAME
from dsv4._parse.plain_and_native import OddCalls, find_native_calls, find_plain_calls
from dsv4._parse.quoting import QUOTES, Quoting
from dsv4._parse.reading import PROSE, ParserState, Reading
from dsv4._parse.stop_strings import StopStrings
from dsv4._parse.tag import MAYBE_TAG, TAG_NAME, TOKENS, PartialTag, Tag
from dsv4._parse.tag_rules import IN_FENCE, IN_PROSE, is_plain_label, is_plain_wrapper
from dsv4._parse.text_buffer import ANYWHERE, NOWHERE, Refused, Steps
from dsv4._parse.twins import twin_of

# The name of a tag without the token; only the token on its line; a bracket too many before it.
_HEAD = pattern(rf"{PLAIN_NAME}|(<?{tokens.DSML}>?)[ \t\r]{{0,8}}(\n|\Z)|(<<)(?:{BAR}|\Z)")
_THINK_END = str(tokens.THINK_END)


class _Halted(Exception):
    """A stop string has ended the text."""


class ProseReader:
    """Reads prose up to a block or a call."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._buffer = reading.buffer
        self._rules = reading.rules
        self._prose = reading.prose

    # Going through the text.

    def read(self) -> Steps[None]:
        reading, buffer, prose = self._reading, self._buffer, self._prose
        at = prose.at
        try:
            while reading.state is PROSE:
                at = buffer.next_mark(at if at > prose.at else prose.at)
                tag = self._tag_at(at) if at < buffer.end else None
                is_here = at < buffer.end and tag is not MAYBE_TAG
                if is_here and (tag is None or self._is_idle(tag, at)):
                    at += 1  # a tag inside it counts, as if this had not been read as a tag
                    continue
                self._look_before(at)
                self._show_up_to(at)
                if isinstance(tag, Tag):
                    yield from self._reader_of(tag)(tag) or ()
                    at = prose.at
                elif (yield from buffer.more_of(at, None if tag is TAG_NAME else tag)):
                    pass
                elif tag is None:
                    return self._show_up_to(at, complete=True)
                else:
                    self._end_in_tag(tag, at)
                    at = max(at + 1, prose.at)
        except _Halted:
            reading.end_call()
            reading.enter(PROSE)
            reading.enter(ParserState.HALTED)
        return None

    def _tag_at(self, at: int) -> Tag | PartialTag | None:
        """The tag or part that begins at `at`; also with a bracket too many, or only the token on
        its line.

        By its name a tag without the DSML token is immediately known to mean nothing in prose.
        """
        buffer = self._buffer
        head = buffer.match(_HEAD, at)
        if head is None:
            return buffer.tag_at(at)
        name, token, line_end, doubled = head.groups()
        if name:
            return buffer.tag_at(at) if is_plain_label(name) else None
        if doubled:
            return self._rules.doubled(at)
        if (tag := buffer.tag_at(at)) is not None:
            return tag
        if line_end:
            return Tag("invoke", at, token, marked=True)
        return None if buffer.final else MAYBE_TAG

    def _is_idle(self, tag: Tag | PartialTag, at: int) -> bool:
        """Whether a tag, or a part that may become one, is mere text here and not a deviation."""
        prose = self._prose
        if isinstance(tag, PartialTag):
            if tag is not TAG_NAME and tag is not PartialTag.PLAIN:
                return False
            if not self._may_become_plain_call(tag, at):
                return True
        elif tag.kind == "role" and (tag.raw != ECHO or tag.start != 0):
            if prose.reasoning or (prose.roles_are_text and tag.raw != ECHO):
                return True
        elif tag.marked:  # a bar, spaces and the word are prose, if no tag's name follows (rule 18)
            return tag.spaced and self._rules.kind(tag) is None
        elif tag.kind in TOKENS:
            return False
        elif tag.closing or not is_plain_label(tag.label):
            return True
        self._look_before(at)
        return self._prose.is_example

    def _may_become_plain_call(self, tag: PartialTag, at: int) -> bool:
        label = self._buffer.match(PLAIN_LABEL, at) if tag is PartialTag.PLAIN else None
        may_be_named = tag is TAG_NAME or (label is not None and is_plain_label(label[2]))
        return may_be_named and bool(self._reading.tools.declared)

    def _look_before(self, mark: int) -> None:
        """Looks at the text before a mark. Text behind a stop string quotes nothing."""
        stops = self._stops if self._reading.quotations else None
        if stops and (stop := stops.find(self._buffer.slice(self._reading.pos, mark))) is not None:
            mark = self._reading.pos + stop[0] + len(stop[1])
        self._look(mark)

    def _look(self, to: int) -> None:
        """Looks at the text up to `to`."""
        prose = self._prose
        if to > prose.at:
            text = self._buffer.slice(prose.at, to)
            prose.names_think_tag = prose.names_think_tag and "\n" not in text
            prose.quoting.follow(text, prose.at)
            prose.at = to
            if prose.quoting.is_due:
                quotations.check(self._reading)

    def _end_in_tag(self, tag: PartialTag, at: int) -> None:
        """The text ends inside a possible tag: it is text, unless it is certain to be markup."""
        if tag is not PartialTag.SURELY:
            return
        reading, end, ended = self._reading, self._buffer.end, self._buffer.ended
        alone = ended in (None, Ended.LENGTH)
        if cut_calls.may_be_cut(reading, at) and cut_calls.may_become_call(reading, at, alone):
            self._show_up_to(at, complete=True)  # a call that is cut shows no markup (rule 33)
            reading.report_cut(at)
            self._prose.at = end
        else:
            reading.report_span("markup_as_text", at, end)
            self._look(end)

    # Showing text.

    @property
    def _stops(self) -> StopStrings | None:
        """The stop strings that act here."""
        settings = self._reading.settings
        return settings.stops if settings.stop_everywhere or not self._prose.reasoning else None

    def _show_up_to(self, to: int, complete: bool = False) -> None:
        """Shows the prose up to `to`, but for an end that may belong to a block or a stop string.

        With `complete` something else follows, and all of it is shown.
        """
        reading, stops = self._reading, self._reading.settings.stops and self._stops
        if to <= reading.pos:
            return
        text = self._buffer.slice(reading.pos, to)
        tail = 0 if complete or text[-1] != "\n" else 1 + text.endswith("\n\n")
        if stops is not None:
            certain = text[: len(text) - tail]
            if (stop := stops.find(certain)) is not None:
                hit, string = stop
                self._show(text[:hit])
                reading.emit(StopHit(string))
                reading.advance(reading.pos + hit)
                raise _Halted
            if not complete:
                tail = max(tail + stops.start_at_end(certain), stops.start_at_end(text))
        self._show(text[: len(text) - tail])
        reading.pos = to - tail

    def _show(self, text: str) -> None:
        """Shows the text at the current position, without the part that the prompt already has."""
        reading, prose = self._reading, self._prose
        reading.note_shown(text)
        if reading.pos < 0:
            text = text[-reading.pos :]
        if not text:
            return
        if reading.doubt is not None or reading.refuses:
            reading.settle()
        if reading.quotations:
            quotations.note_text(reading, text)
        if not prose.reasoning:
            reading.events.append(ContentDelta(text))
            return
        if prose.joining and prose.reasoning_shown:
            text = "\n" + text
        prose.joining = False
        prose.reasoning_shown = prose.reasoning_shown or not text.isspace()
        reading.emit(ReasoningDelta(text))

    def _flush(self) -> None:
        """Shows all that was looked at."""
        self._show_up_to(self._prose.at, complete=True)

    # Tags.

    def _reader_of(self, tag: Tag) -> Callable[[Tag], Steps[None] | None]:
        """The method that reads a tag here. A tag that is named, or has no bracket, is text."""
        if tag.start == self._buffer.border_at and tag.closing is self._prose.reasoning:
            return self._read_border
        if tag.start < self._prose.named_to:
            return self._read_markup if tag.marked else self._pass
        if tag.bare:
            opens_line = self._prose.is_blank and not self._prose.is_example
            is_wrapper = tag.kind == "wrapper" and opens_line
            return self._read_bare_wrapper if is_wrapper else self._read_markup
        word = self._rules.meaning(tag, IN_FENCE if self._prose.is_example else IN_PROSE)
        reader: Callable[[Tag], Steps[None] | None] = getattr(self, f"_read_{word}")
        return reader

    def _pass(self, tag: Tag) -> None:
        """Leaves a tag in the text, without reporting a deviation."""
        self._look(tag.end)

    def _read_markup(
        self, tag: Tag, to: int = NOWHERE, kind: DiagnosticKind = "markup_as_text"
    ) -> None:
        """Leaves markup in the text: a tag, or everything from it up to `to`."""
        prose, to = self._prose, max(to, tag.end)
        if tag.label or tag.closing:  # the mere token is prose (rule 18)
            self._reading.report_span(kind, tag.start, to)
            if not tag.broken and not prose.is_example:
                prose.openers = max(prose.openers + (-1 if tag.closing else 1), 0)
        self._look(to)
        if not prose.openers and prose.quoting_before is not None:
            prose.quoting, prose.quoting_before = prose.quoting_before, None
            self._pass_calls(to)

    def _note_quotes(self) -> None:
        """Calls are left in the text, tag by tag: their content closes no quotation."""
        if not self._prose.openers:
            self._prose.quoting_before = twin_of(self._prose.quoting, {})

    def _remove(self, kind: DiagnosticKind | None, tag: Tag) -> None:
        self._flush()
        if kind is not None:
            self._reading.report(kind, tag.start, tag.raw)
        self._skip_to(tag.end)

    def _skip_to(self, to: int, begin_line: bool = False) -> None:
        """Goes on behind text that is not shown."""
        self._prose.quoting.settle("<")  # the text that follows stands elsewhere
        self._reading.advance(to)
        self._prose.at = to
        if begin_line:
            self._prose.quoting.begin_line()

    # Tokens (rules 17, 22, 25 and 27).

    def _read_token(self, tag: Tag) -> Steps[None]:
        is_echo = tag.raw == ECHO and tag.start == 0
        if (yield from named_tokens.is_named(self._reading, tag)):
            self._pass(tag)
        elif tag.kind == "eos":
            yield from self._read_eos(tag)
        elif tag.kind == "role" and not is_echo:
            self._flush()
            yield from self._read_role(tag)
        else:
            self._remove("stray_token", tag)

    def _read_eos(self, tag: Tag) -> Steps[None]:
        """EOS is the end where nothing follows it; a role token after it begins a made-up turn."""
        reading = self._reading
        if any(quotation.fence for quotation in reading.quotations):
            _, behind = yield from self._rules.after_eos(tag)
            if behind.kind == "end":
                quotations.end_text(reading, is_cut=False)
        quotations.end_section(reading, tag.start)
        self._flush()
        reading.end_call()
        ahead = yield from self._rules.look_past(tag.end)
        reading.tally.eos = ahead.kind in ("role", "end")
        if ahead.kind == "role":
            self._flush()
            yield from self._read_invented()
        else:
            self._remove(None if tag.end == self._buffer.end else "stray_token", tag)

    def _read_role(self, tag: Tag) -> Steps[None]:
        """Text behind a role token: a turn that was made up, if an answer opens in it (rule 27).

        If none does for long, the token was only mentioned: "the user's token begins a turn." From
        then on it takes an answer's own opening to say that a turn was made up (rule 47).
        """
        reading, buffer, at = self._reading, self._buffer, tag.start
        # `Done.`, the token of a user, `More?`, that of an assistant and a think tag.
        limit = at if self._prose.roles_are_text else at + LONGEST_MENTION
        reading.enter(ParserState.ROLE)
        while (ahead := (yield from buffer.next_tag(at, limit))) is not None:
            at = ahead.end
            if ahead.raw == ECHO and ahead.kind == "role":
                behind = yield from buffer.next_tag(at, at)
                if behind is not None and behind.kind == "think":
                    return (yield from self._read_invented())
        self._prose.roles_are_text = True
        self._look(tag.end)
        reading.enter(PROSE)

    def _read_invented(self) -> Steps[None]:
        """A turn that the model made up after its own. All of it is removed (rule 17)."""
        reading, buffer = self._reading, self._buffer
        reading.enter(ParserState.INVENTED)
        reading.end_call()
        while (yield from buffer.more()):
            pass
        start = reading.pos
        # Diagnostics do not quote the prompt.
        beginning = buffer.slice(start, max(start, 0) + LONGEST_QUOTE)
        reading.report("made_up_turn", start, beginning, buffer.end - start)
        reading.advance(buffer.end)

    # Thinking (rules 6, 13, 15 and 17). "Look: ", a think span and "done." is an answer with
    # reasoning in it (rule 6); a think tag directly after a backtick is talk (rule 17).

    def _read_think(self, tag: Tag) -> Steps[None]:
        prose, buffer = self._prose, self._buffer
        after_quote = buffer.char_before(tag.start) in QUOTES
        if tag.closing and tag.raw != _THINK_END and after_quote:  # with spaces in it
            return self._pass(tag)
        if prose.reasoning:
            return self._turn_to(False, tag) if tag.closing else self._read_echo(tag)
        if self._prose.is_example:
            return self._pass(tag)
        if not (tag.closing or after_quote):
            return self._turn_to(True, tag)
        if prose.names_think_tag or not tag.closing:
            prose.names_think_tag = not tag.closing
            return self._pass(tag)
        if after_quote and tag.end == buffer.end:
            yield from buffer.more()
        if after_quote and buffer.at(tag.end) in QUOTES:
            return self._pass(tag)
        return self._remove("stray_think", tag)

    def _read_border(self, tag: Tag) -> None:
        self._turn_to(not tag.closing, tag)

    def _turn_to(self, reasoning: bool, tag: Tag) -> None:
        """Reasoning ends, or begins in content."""
        prose = self._prose
        kind: DiagnosticKind = "think_in_content" if reasoning else "misspelled_tag"
        quotations.end_section(self._reading, tag.start)
        self._remove(None if tag.raw == _THINK_END else kind, tag)
        if not reasoning:
            self._reading.end_call()
        prose.reasoning = prose.joining = reasoning
        prose.quoting = Quoting()

    def _read_echo(self, tag: Tag) -> None:
        reading, prose = self._reading, self._prose
        if prose.quoting.lines().fenced:
            return self._pass(tag)
        if not prose.reasoning_shown and not self._buffer.slice(reading.pos, prose.at).strip():
            return self._remove("stray_think", tag)  # the prompt's own, written once more
        reading.report("stray_think", tag.start, tag.raw)
        return self._pass(tag)

    # Blocks and calls. `Calls stand in <D tool_calls> and its close.` is text (rule 5); the opening
    # of a declared tool's call with its parameter is a call, though no block is around it (rule 2).

    def _read_wrapper(self, tag: Tag) -> Steps[None]:
        rules = self._rules
        if self._reading.tools.none_declared:  # a block is text, unless it holds no call
            ahead = (yield from rules.look_ahead(tag.end)) if self._prose.is_blank else tag
            acts = rules.role(ahead) == "/wrapper"
        elif rules.names_tool(tag) and (yield from rules.is_certain(tag, wrapped=False)):
            return (yield from self._read_invoke(tag))
        else:
            acts = self._prose.is_blank or (yield from self._holds_calls(tag))
            acts = acts or (yield from cut_calls.is_cut(self._reading, tag))
        if not acts:
            if rules.role((yield from rules.look_ahead(tag.end))) == "invoke":
                self._note_quotes()
            return self._read_markup(tag)
        yield from self._open_block(tag)

    def _read_bare_wrapper(self, tag: Tag) -> Steps[None]:
        """The DSML token and `tool_calls>` on a new line, before a declared call (rule 43)."""
        ahead = yield from self._rules.look_ahead(tag.end)
        if self._rules.role(ahead) != "invoke" or not self._rules.calls_declared(ahead):
            return self._read_markup(tag)
        yield from self._open_block(replace(tag, closing=False, bare=False, mended=True))

    def _open_block(self, tag: Tag) -> Steps[None]:
        blank_line = self._is_after_blank_line(tag)
        if (yield from self._enter_calls(tag)):
            open_block(self._reading, tag, blank_line)

    def _holds_calls(self, tag: Tag) -> Steps[bool]:
        """Whether a wrapper in the middle of a line holds calls."""
        ahead = yield from self._rules.look_ahead(tag.end)
        if ahead.kind == "brace":
            return (yield from self._rules.begins_json_calls(ahead.start))
        if self._rules.role(ahead) == "invoke":
            certain = yield from self._rules.is_certain(ahead, wrapped=True)
            at = yield from self._buffer.past_space(ahead.end)
            # Nothing of the call has come (rule 33).
            cut = at == self._buffer.end or cut_calls.begins_tag(self._reading, at)
            return certain and (ahead.self_closed or not cut)
        return False

    def _read_invoke(self, tag: Tag) -> Steps[None]:
        """A call without a wrapper: only of a declared tool, and only when it is certain."""
        reading = self._reading
        name = self._rules.tool_called(tag)
        is_declared = reading.tools.declares(name)
        if reading.tools.none_declared:
            return self._read_markup(tag)
        if not is_declared and not (self._rules.is_example(name) and self._prose.is_blank):
            return (yield from self._read_stub(tag))
        certain = yield from self._rules.is_certain(tag, wrapped=False)
        if not certain and tag.self_closed:
            certain = yield from self._has_its_line(tag)
        if not certain and not (is_declared and (yield from cut_calls.is_cut(self._reading, tag))):
            yield from self._read_uncertain(tag)
        elif (yield from self._enter_calls(tag)):
            reading.report("missing_wrapper", tag.start, "")
            yield from begin_call(reading, tag)
        return None

    def _has_its_line(self, tag: Tag) -> Steps[bool]:
        """Whether a tag has its line to itself."""
        buffer = self._buffer
        if tag.end == buffer.end and self._prose.is_blank:
            yield from buffer.more()
        return self._prose.is_blank and buffer.at(tag.end) in ("", "\n")

    def _read_uncertain(self, tag: Tag) -> Steps[None]:
        """An invoke that is left as text. With a damaged parameter behind it, it was meant.

        `string="true>` stands there, say, and the block has lost its opening too.
        """
        at = yield from self._buffer.past_space(tag.end, LONGEST_SPACE)
        ahead = yield from self._buffer.tag(at)
        is_damaged = isinstance(ahead, Tag) and ahead.broken and ahead.kind == "parameter"
        is_meant = is_damaged and self._prose.is_blank and not self._prose.is_example
        self._note_quotes()
        self._read_markup(tag, kind="dropped_call" if is_meant else "markup_as_text")

    def _enter_calls(self, tag: Tag) -> Steps[bool]:
        """Leaves prose for a block, or for a call without one. A blank line before it is dropped.

        False: prose is not left, because the calls are quoted.
        """
        reading, prose = self._reading, self._prose
        start = tag.start - 2 * self._is_after_blank_line(tag)
        self._show_up_to(start, complete=True)
        if (yield from self._are_quoted(tag)):
            return False
        if prose.reasoning:
            reading.report("call_in_reasoning", tag.start, "")
        if reading.tally.blocks:
            reading.report("second_block", tag.start, "")
        reading.tally.blocks += 1
        reading.advance(tag.start)
        return True

    def _is_after_blank_line(self, tag: Tag) -> bool:
        return self._buffer.slice(self._reading.pos, tag.start).endswith("\n\n")

    # Calls that may be quoted (rules 15, 24, 29, 40, 41 and 44).

    def _are_quoted(self, tag: Tag) -> Steps[bool]:
        """Whether calls, or parts of them, that begin at a tag are quoted.

        If they may be, they are read as if they were not, until the text that follows decides.
        """
        quotation = quotations.around(self._reading, tag)
        if quotation is None:
            return False
        refused = yield from quotations.attempt(self._reading, quotation)
        self._leave_calls(tag, refused)
        return True

    def _leave_calls(self, tag: Tag, refused: Refused) -> None:
        """Calls are quoted: they are text, as far as the refusal says."""
        kind: DiagnosticKind = "dropped_call" if refused.is_dropped else "markup_as_text"
        self._reading.report(kind, tag.start, tag.raw)
        to = max(refused.to, tag.end)
        if self._prose.is_example:  # the fence may close in them
            return self._look(to)
        return self._pass_calls(to, refused.closed)

    def _pass_calls(self, to: int, closed: int = ANYWHERE) -> None:
        """Leaves calls in the text. Their content opens and closes no quotation."""
        self._prose.quoting.pass_calls(closed)
        self._prose.names_think_tag, self._prose.at = False, to

    def _read_fenced(self, tag: Tag) -> Steps[None]:
        """Calls in a fence: an example, or the model forgot to close the fence (rule 41).

        Three backticks, `ls`, a block and the end: that is a call. A fence that holds nothing but
        the block shows it.
        """
        reading = self._reading
        is_shown = self._prose.is_transcript or reading.tools.none_declared
        may_act = self._may_act_in_fence(tag) and not is_shown and quotations.may_try(reading)
        if not may_act or not (yield from self._may_be_meant(tag)):
            return self._read_markup(tag)
        reading.enter(ParserState.FENCED)
        may_be_behind = self._has_lost_line_end(tag)
        refused = yield from quotations.attempt(reading, quotations.in_fence(reading, tag))
        reading.enter(PROSE)
        thought_end = quotations.thought_end(reading, tag.start)
        if thought_end is not None:
            refused.to = min(refused.to, thought_end)
        refused.is_dropped = refused.is_dropped or may_be_behind
        return self._leave_calls(tag, refused)

    def _may_act_in_fence(self, tag: Tag) -> bool:
        """Whether a tag opens a line, and the fence holds something else, or a blank line.

        It may have lost the line end behind the close of a fence. A tag behind other markup belongs
        to that, unless that is a wrapper without its bracket: of two blocks both are calls, or
        neither is.
        """
        lines, line = self._prose.quoting.lines(), self._line_before(tag)
        opens = lines.blank and (lines.after_blank or lines.holds_text)
        is_behind_tag = line.endswith(">") and tokens.DSML in line[1:]
        return (opens or (lines.at_closing_run and lines.holds_text)) and not is_behind_tag

    def _line_before(self, tag: Tag) -> str:
        """The last line before a tag that is not blank."""
        return self._buffer.just_before(tag.start).rstrip().rpartition("\n")[2]

    def _has_lost_line_end(self, tag: Tag) -> bool:
        """Whether a line end or a bracket is lost between the close of a fence and a tag."""
        is_behind_token = self._line_before(tag).startswith(tokens.DSML)
        return self._prose.quoting.lines().at_closing_run or is_behind_token

    def _may_be_meant(self, tag: Tag) -> Steps[bool]:
        """Whether a wrapper in a fence holds a call of a declared tool, or a tag is such a call."""
        rules, tools = self._rules, self._reading.tools
        if rules.role(tag) == "invoke":
            is_declared = rules.calls_declared(tag)
            return is_declared and (yield from rules.is_certain(tag, wrapped=False))
        ahead = yield from rules.look_past(tag.end)
        while rules.role(ahead) == "wrapper":
            ahead = yield from rules.look_past(ahead.end)
        return rules.role(ahead) == "invoke" and tools.may_be_tool(rules.tool_called(ahead))

    # Closing tags, and parameters without a call (rules 5, 9, 17 and 34).

    def _read_parts(self, tag: Tag) -> Steps[None]:
        """Parts of a call outside of any: they are dropped, unless they are quoted, or are text."""
        reading, openers, opens_line = self._reading, self._prose.openers, self._prose.is_blank
        if openers if tag.closing else reading.tools.none_declared:
            return self._read_markup(tag)
        if not tag.closing and (tag.self_closed or tag.name is None or openers):
            return (yield from self._read_stub(tag))
        self._flush()
        kind: DiagnosticKind = "dropped_call"
        if tag.closing:
            kind, state, end_of = "orphan_closer", ParserState.ORPHANS, loose_parts.end_of_orphans
        elif opens_line:
            state, end_of = ParserState.STRAY, loose_parts.end_of_stray
        else:
            state, end_of = ParserState.LOST, loose_parts.end_of_lost
        reading.enter(state)
        end, goes = yield from end_of(reading, tag)
        reading.enter(PROSE)
        if not goes:
            self._read_markup(tag, end)
        elif not (yield from self._are_quoted(tag)):
            reading.report_span(kind, tag.start, end)
            self._skip_to(end, begin_line=opens_line)
            if reading.quotations:
                ahead = yield from self._rules.look_ahead(end)
                yield from quotations.settle(reading, ahead)

    def _read_stub(self, tag: Tag) -> Steps[None]:
        """A tag without content that a model wrote before it began once more (rule 34).

        On a line of its own directly before a block or an invoke it is dropped: an invoke's tag
        without a name, say, and on the next line that of the call.
        """
        rules, tools, begins = self._rules, self._reading.tools, False
        if not tag.attributes and not tag.self_closed and self._prose.is_blank:
            ahead = yield from rules.look_ahead(tag.end)
            role, may_call = rules.role(ahead), tools.may_be_tool(rules.tool_called(ahead))
            begins = role == "wrapper" or (role == "invoke" and may_call)
            begins = begins and "\n" in self._buffer.slice(tag.end - 1, ahead.start)
        if not begins:
            return self._read_markup(tag)
        return self._remove("unexpected_tag", tag)

    # Calls without the DSML token, and those of older models (rules 1 and 13).

    def _read_plain(self, tag: Tag) -> Steps[None]:
        """A plain call, or a plain wrapper before a call."""
        rules = self._rules
        is_quoted = self._buffer.char_before(tag.start) in QUOTES
        is_simple = is_quoted or not (tag.attributes or tag.self_closed)
        wraps = is_simple and is_plain_wrapper(tag.label)
        ahead = (yield from rules.look_ahead(tag.end)) if wraps else tag
        holds_object = ahead.kind == "brace" and tag.label in JSON_WRAPPERS
        if is_quoted:
            return (yield from self._pass_plain(tag, tag if holds_object else ahead, holds_object))
        if holds_object and self._prose.is_blank:
            return (yield from self._read_plain_calls(tag, tag))
        opens_line = wraps and (self._prose.is_blank or self._buffer.opens_line(ahead.start))
        holds_json = opens_line and (yield from rules.opens_json_calls(ahead))
        if holds_json or rules.is_plain_invoke(ahead):
            return (yield from self._read_plain_calls(tag, ahead))
        return (yield from self._read_plain_wrapper(tag, ahead))

    def _pass_plain(self, first: Tag, tag: Tag, holds_object: bool) -> Steps[None]:
        """Leaves plain calls directly behind a quote in the text: one in a wrapper with it."""
        is_invoke = self._rules.is_plain_invoke(tag)
        calls = OddCalls(None, tag.end)
        if holds_object or (is_invoke and (yield from self._rules.is_certain(tag, wrapped=False))):
            self._reading.enter(ParserState.PLAIN)
            calls = yield from find_plain_calls(self._reading, first, tag)
        self._pass_odd_calls(tag if is_invoke else first, calls)

    def _read_plain_wrapper(self, tag: Tag, ahead: Tag) -> Steps[None]:
        """A plain tag, which opens a block if it is a wrapper before a call with the token."""
        rules = self._rules
        calls = ahead is not tag and rules.role(ahead) == "invoke" and rules.calls_declared(ahead)
        if not calls or not (yield from rules.is_certain(ahead, wrapped=False)):
            return self._pass(tag)
        return (yield from self._open_block(tag))

    def _read_plain_calls(self, first: Tag, tag: Tag) -> Steps[None]:
        """Calls without the DSML token. They begin at `first`, which is `tag` or a wrapper."""
        rules = self._rules
        if rules.is_plain_invoke(tag) and not (yield from rules.is_certain(tag, wrapped=False)):
            return self._pass(first)
        self._reading.enter(ParserState.PLAIN)
        calls = yield from find_plain_calls(self._reading, first, tag)
        return (yield from self._make(first, calls, "plain_markup"))

    def _read_native(self, tag: Tag) -> Steps[None]:
        before = self._buffer.char_before(tag.start)
        # After another such token that was left as text, this one is text too.
        is_text = tag.closing or before == tag.raw[-1] or self._prose.is_example
        if is_text or self._reading.tools.none_declared:
            return self._pass(tag)
        self._reading.enter(ParserState.NATIVE)
        calls = yield from find_native_calls(self._reading, tag)
        if before in QUOTES:
            return self._pass_odd_calls(tag, calls)
        return (yield from self._make(tag, calls, "native_markup"))

    def _pass_odd_calls(self, tag: Tag, calls: OddCalls) -> None:
        """Leaves calls directly behind a quote in the text."""
        self._reading.enter(PROSE)
        if not calls.calls:
            return self._pass(tag)
        return self._pass_calls(calls.end)

    def _make(self, first: Tag, calls: OddCalls, kind: DiagnosticKind) -> Steps[None]:
        """Makes calls that were found whole; or leaves them in the text."""
        reading = self._reading
        if calls.calls is None:
            reading.enter(PROSE)
            if calls.has_rest:  # the JSON of a call that cannot be read (rule 28)
                reading.report("dropped_call", first.start, first.raw)
            return self._look(calls.end)
        if not (yield from self._enter_calls(first)):
            return reading.enter(PROSE)
        kind = "forbidden_call" if reading.settings.forbidden else kind
        reading.report_span(kind, first.start, calls.end)
        reading.advance(calls.end)
        self._prose.plain_wrapper = self._prose.plain_wrapper or calls.wraps
        for name, arguments in calls.calls:
            reading.whole_call(name, arguments, calls.end)
        if calls.cut is not None:
            reading.part_of_call(*calls.cut)
        if calls.has_rest and self._buffer.final and calls.end == self._buffer.end:
            reading.report_cut(calls.end)
        elif calls.has_rest:
            reading.report("dropped_call", calls.end, "")
        return (yield from after_calls.read_after(reading))
