"""Decisions about a prompt of the V4 family that precede turning its turns into messages.

They are: thinking, dropping, and turns that no token separates from the text before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dsv4._decode.part_readers import Section, UserTurnPart, user_turn_parts
from dsv4._decode.prompt_scan import (
    HEADERS,
    Interpretation,
    LexemeKind,
    PromptLexeme,
    PromptReading,
    PromptSpelling,
    ScannedPrompt,
    lexemes,
)
from dsv4._decode.turn_splitter import PromptTurn, TurnSplitter, TurnState
from dsv4._encode.prompt import BLANK_LINE
from dsv4._format.dialects import Dialect


def separate_unmarked_turns(
    turns: list[PromptTurn], shows_reasoning: list[bool], scan: ScannedPrompt
) -> list[PromptTurn]:
    """The turns, split where no token separates a turn from the one before.

    An answer without its end leaves no trace of its end, and one without a header none of its
    beginning; nor does a system text. But if tokens are known to be tokens, the end of reasoning
    and a block of calls can only belong to an answer, and a tools section only to a system text.

    `shows_reasoning` says for each turn whether an answer in its place has a thinking part.
    """
    return [
        part
        for turn, reasons in zip(turns, shows_reasoning, strict=True)
        for part in _separated(turn, reasons, scan)
    ]


def _separated(turn: PromptTurn, reasons: bool, scan: ScannedPrompt) -> Iterator[PromptTurn]:
    if turn.next_header is not None:  # a header follows: all of it is the question
        yield turn
        return
    for part in _without_sections(turn, scan):
        if part.role == "assistant":
            yield from _separate_answers(part, reasons, scan)
        else:
            yield from _without_answer(part, reasons, scan)


def _without_sections(turn: PromptTurn, scan: ScannedPrompt) -> Iterator[PromptTurn]:
    """A turn, and the system texts with tools or a format that follow it."""
    sections = scan.sections_in(turn.start, turn.end)
    if (
        turn.role == "system"
        or not sections
        or (turn.role == "user" and sections[-1].end == turn.end)
    ):
        yield turn
        return
    at = turn.start
    if turn.role != "assistant" or turn.header is not None or turn.after_task:
        yield replace(turn, end=sections[0].start, closed=False, task=None)
        at = sections[0].start
    for section in sections:
        yield PromptTurn("system", at, section.end)
        at = section.end
    if turn.role == "assistant" and turn.closed:
        yield PromptTurn("assistant", at, turn.end, task=turn.task)
    elif at < turn.end:
        yield PromptTurn("system", at, turn.end)


def _without_answer(turn: PromptTurn, reasons: bool, scan: ScannedPrompt) -> Iterator[PromptTurn]:
    """A turn, and the open answers that follow it."""
    sections = scan.sections_in(turn.start, turn.end)
    begin = sections[-1].end if sections else turn.start
    at = _first_trace(begin, turn.end, reasons, scan)
    if at is None:
        yield turn
        return
    yield replace(turn, end=at)
    if turn.role == "user":
        yield PromptTurn("system", at, at)
    yield from _separate_answers(PromptTurn("assistant", at, turn.end, closed=False), reasons, scan)


def _first_trace(start: int, end: int, reasons: bool, scan: ScannedPrompt) -> int | None:
    """The place of the first text that only an answer has."""
    thought = scan.text.find(scan.dialect.tokens.think_end, start, end) if reasons else -1
    block = scan.blocks.next_in(start, end)
    places = [place for place in (thought, block) if place is not None and place >= 0]
    return min(places, default=None)


def _separate_answers(turn: PromptTurn, reasons: bool, scan: ScannedPrompt) -> Iterator[PromptTurn]:
    """The answers in a turn. All but the last have no end of their own."""
    at = turn.start
    while True:
        content = at
        if reasons:
            thought = scan.text.find(scan.dialect.tokens.think_end, at, turn.end)
            content = at if thought < 0 else thought + len(scan.dialect.tokens.think_end)
        end = _end_of_content(content, turn.end, reasons, scan)
        if end is None:
            yield replace(turn, start=at)
            return
        yield replace(turn, start=at, end=end, closed=False, task=None)
        turn = replace(turn, header=None, after_task=False)
        at = end


def _end_of_content(start: int, end: int, reasons: bool, scan: ScannedPrompt) -> int | None:
    """The end of an answer's content and calls, if another answer follows."""
    thought = scan.text.find(scan.dialect.tokens.think_end, start, end) if reasons else -1
    block = scan.blocks.next_in(start, end)
    if block is not None and (thought < 0 or block < thought):
        stop = scan.blocks.by_start[block][0]
        return stop if stop < end else None
    return thought if thought >= 0 else None


# Stands for all messages before a prompt that continues a conversation.
ASSUMED_CONTEXT = ({"role": "latest_reminder", "content": ""},)


def _efforts(dialect: Dialect) -> list[tuple[str | int, str]]:
    """The efforts that write something, each once: a number rather than a name."""
    by_text: dict[str, str | int] = {}
    for effort, text in dialect.efforts.items():
        if text and effort is not None and not isinstance(by_text.get(text), int):
            by_text[text] = effort
    return [(effort, text) for text, effort in by_text.items()]


class PromptPlan:
    """The turns of a prompt, and the facts that are needed to write them as messages."""

    def __init__(self, scan: ScannedPrompt, interpretation: Interpretation) -> None:
        self.scan, self.interpretation = scan, interpretation
        self.text, self.dialect = scan.text, scan.dialect
        self.reading = PromptReading()
        # Whether the system token opens the prompt.
        self.opened = False
        self.start = self._read_opening()
        listed = lexemes(self.text, self.dialect, self.start, scan.protected)
        self._settle_context(listed)
        has_token = self.dialect.system_token is not None
        goes_on = self.opened and bool(self.reading.context)
        self.splitter = TurnSplitter(
            *(self.text, listed, self.start, has_token, self.dialect.made[PromptSpelling].tasks),
            interpretation.trusted,
            TurnState.SYSTEM if goes_on else TurnState.BETWEEN,
            interpretation.joined,
        )
        self.turns = self.splitter.turns
        self._settle_mode()
        if has_token:
            self._settle_systems()
        self._look_at_turns()
        self._settle_dropping()
        if self.splitter.has_hidden_answers:
            for n in range(1, len(self.turns)):
                self._find_answer(n)
        if self.dialect.image_token is not None and not has_token:
            self._part_images(self.dialect.image_token)
        if not interpretation.trusted:
            if self.reading.thinking and self._has_loose_ends():
                self._rejoin()
        else:
            reasons = [self.shows_reasoning(n) for n in range(len(self.turns))]
            self.turns = separate_unmarked_turns(self.turns, reasons, scan)
            self._look_at_turns()

    def _look_at_turns(self) -> None:
        # The last turn that asks: before it, old reasoning may be dropped.
        turns, scan = self.turns, self.scan
        backwards = range(len(turns) - 1, -1, -1)
        self.last = next((n for n in backwards if self._asks(n)), -1)
        self._sections: list[list[Section]] = [[]] * len(turns)
        if self.interpretation.sections and scan.sections:
            self._sections = [scan.sections_in(turn.start, turn.end) for turn in turns]

    def _asks(self, n: int) -> bool:
        turn = self.turns[n]
        if turn.role != "user" or self.dialect.results_ask:
            return turn.role == "user" or (turn.role == "system" and turn.opened)
        parts = self.parts_of(n)
        return not parts or not all(part.is_result for part in parts)

    @property
    def has_developers(self) -> bool:
        return "developer" in self.dialect.roles

    def _read_opening(self) -> int:
        """Reads BOS, the system token and the effort. Returns the start of the first turn."""
        text, reading, at = self.text, self.reading, 0
        bos = self.dialect.tokens.bos
        if text.startswith(bos):
            reading.bos, at = True, len(bos)
        token = self.dialect.system_token
        if token is not None and text.startswith(token, at):
            self.opened, at = True, at + len(token)
        if self.interpretation.thinking is not False and (self.opened or token is None):
            for effort, spelling in _efforts(self.dialect):
                if text.startswith(spelling, at):
                    reading.effort = effort
                    return at + len(spelling)
        return at

    def _settle_context(self, listed: list[PromptLexeme]) -> None:
        """Assumes a context if the prompt cannot begin a conversation, by its system token.

        In such a dialect, a thinking prompt that begins a conversation begins with an effort, and
        the first system turn of all asks for nothing.
        """
        reading = self.reading
        if self.dialect.system_token is None or reading.bos or reading.effort is not None:
            return
        thinks = self.interpretation.thinking
        if thinks is None:
            thinks = any(lexeme.kind is LexemeKind.THINK for lexeme in listed)
        if thinks or (self.opened and listed[0].kind in HEADERS):
            reading.context = ASSUMED_CONTEXT

    def _settle_mode(self) -> None:
        thinking = self.reading.effort is not None or LexemeKind.THINK in self.splitter.headers
        wanted = self.interpretation.thinking
        self.reading.thinking = thinking if wanted is None else wanted

    def _settle_systems(self) -> None:
        """Corrects system turns without the token: only the first of a conversation has none."""
        reading, turns = self.reading, self.turns
        plain = bool(turns) and turns[0].role == "system" and not turns[0].opened
        is_first = self.opened and not reading.context
        if is_first and not plain and (reading.effort is None or _starts_opened(turns)):
            turns.insert(0, self._first_system())
        for turn in turns if reading.context or not self.opened else turns[1:]:
            if turn.role == "system" and not turn.opened:
                turn.role, turn.closed = "assistant", False

    def _first_system(self) -> PromptTurn:
        """The system turn that opens the prompt, if no token separates it from the next turn.

        It is empty, or it ends with the tools before an answer that has no header.
        """
        end, first = self.start, self.turns[0] if self.turns else None
        if first is not None and first.role == "assistant" and self.interpretation.sections:
            sections = self.scan.sections_in(first.start, first.end)
            end = first.start = sections[-1].end if sections else first.start
        return PromptTurn("system", self.start, end)

    def _settle_dropping(self) -> None:
        reading, turns = self.reading, self.turns
        if not self.scan.sections:
            tools = False
        elif self.interpretation.trusted:
            tools = self.interpretation.sections and any(s.tools for s in self.scan.sections)
        else:
            tools = any(s.tools for n in range(len(turns)) for s in self.sections_of(n))
        aloud = any(turn.next_header is LexemeKind.THINK for turn in turns[: max(self.last, 0)])
        drop = not (reading.thinking and aloud and not tools)
        reading.drop = drop if self.interpretation.drop is None else self.interpretation.drop
        self.dropping = reading.thinking and reading.drop and not tools

    def sections_of(self, n: int) -> list[Section]:
        """The sections that can be taken off a turn: all of a system's, a developer's last one."""
        turn, sections = self.turns[n], self._sections[n]
        if turn.role == "system" or (turn.role == "assistant" and turn.header is None):
            return sections
        if turn.role != "user" or not sections:
            return []
        ends = sections[-1].end == turn.end and sections[-1].start > turn.start
        return sections[-1:] if ends and self.has_developers else []

    def shows_reasoning(self, n: int) -> bool:
        """Whether an answer, the turn `n`, has a thinking part."""
        shows = self.reading.thinking and (not self.dropping or n > self.last)
        return shows and not self.turns[n].after_task

    def _find_answer(self, n: int) -> None:
        """Finds the beginning of an answer that no token separates from the turn before it.

        Its signs are a tools section before it, the end of its reasoning, or a block of calls.
        """
        answer, before, between = self.turns[n], n - 1, None
        if answer.role != "assistant" or answer.start != answer.end or answer.header is not None:
            return
        if self.turns[before].role == "system" and before > 0:
            between, before = self.turns[before], before - 1
        question = self.turns[before]
        if answer.after_task or question.end != answer.end or question.role == "assistant":
            return
        sections = self._sections[before] if between is not None else []
        if between is not None and sections:
            question.end = between.start = sections[-1].start
            between.end = answer.start = sections[-1].end
            self._sections[n - 1], self._sections[before] = sections[-1:], sections[:-1]
            return
        if self.shows_reasoning(n):
            at = self.text.find(self.dialect.tokens.think_end, question.start, question.end)
        else:
            block = self.scan.blocks.ending_at(question.start, question.end)
            at = -1 if block is None else block[0]
        if at >= 0:
            question.end = answer.start = at
            if between is not None:
                between.start = between.end = at

    def _part_images(self, image: str) -> None:
        """Separates user turns from system texts that directly follow their last image."""
        parted = []
        for turn in self.turns:
            parted.append(turn)
            if turn.role != "user" or turn.next_header is not None:
                continue
            at = self.text.rfind(image, turn.start, turn.end) + len(image)
            if at < turn.start + len(image):
                continue
            result_end = self.dialect.texts.result_end
            if self.text.startswith(result_end, at, turn.end):
                at += len(result_end)
            if at < turn.end and not self.text.startswith(BLANK_LINE, at):
                parted.append(PromptTurn("system", at, turn.end, task=turn.task))
                turn.end, turn.task = at, None
        self.turns = parted
        self._look_at_turns()

    def _has_loose_ends(self) -> bool:
        """Whether text follows an answer that no token of its own opens."""
        loose = (n for n, turn in enumerate(self.turns) if turn.role == "system" and n)
        return self.splitter.has_bare_answers or next(loose, None) is not None

    def _rejoin(self) -> None:
        """Joins an answer with the turn after it if the token between them can only be text.

        That is so if a thinking part would be without its end.
        """
        joined: list[PromptTurn] = []
        for n, turn in enumerate(self.turns):
            before = joined[-1] if joined else None
            if before is not None and self._belongs_to(before, n, turn):
                self.splitter.demoted.append(PromptLexeme(LexemeKind.EOS, before.end, turn.start))
                before.end, before.task = turn.end, turn.task
                before.closed = turn.role == "assistant" and turn.closed
            else:
                joined.append(turn)
        if len(joined) < len(self.turns):
            self.turns = joined
            self._look_at_turns()

    def _belongs_to(self, before: PromptTurn, n: int, turn: PromptTurn) -> bool:
        if (
            before.role != "assistant"
            or not before.closed
            or before.task
            or turn.header is not None
        ):
            return False
        if turn.after_task or turn.opened or turn.role not in ("assistant", "system"):
            return False
        if not self.shows_reasoning(n) or before.after_task:
            return False
        think_end = self.dialect.tokens.think_end
        ends = [self.text.find(think_end, t.start, t.end) >= 0 for t in (before, turn)]
        return not ends[0] or (turn.role == "assistant" and not ends[1])

    def parts_of(self, n: int) -> list[UserTurnPart]:
        """A user turn, cut into results and texts. If nothing was called, results are text, unless
        it matters whether a turn has any text."""
        turn = self.turns[n]
        if self.interpretation.results and turn.task is None and self._may_have_results(turn):
            parts = user_turn_parts(self.text, turn.start, turn.end, self.dialect)
            called = self.scan.first_call < turn.start or not self.dialect.results_ask
            if called or any(map(self._is_pictured, parts)):
                return parts
        return [UserTurnPart(False, turn.start, turn.end)]

    def is_structured(self, turn: PromptTurn) -> bool:
        """Whether a user turn may be more than a text."""
        return bool(self.scan.sections) or self._may_have_results(turn)

    def _may_have_results(self, turn: PromptTurn) -> bool:
        return self.text.find(self.dialect.texts.result_start, turn.start, turn.end) >= 0

    def _is_pictured(self, part: UserTurnPart) -> bool:
        token = self.dialect.image_token
        return (
            part.is_result
            and token is not None
            and self.text.find(token, part.start, part.end) >= 0
        )

    def stays(self, n: int) -> bool:
        """Whether a developer's turn would be in the prompt: before the last question it is dropped
        together with old reasoning."""
        return not self.dropping or n >= self.last


def _starts_opened(turns: list[PromptTurn]) -> bool:
    return bool(turns) and turns[0].opened
