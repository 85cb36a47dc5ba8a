"""Splits a prompt of the V4 family into turns, with one state: whose turn it is.

A text may spell tokens. A token in a place that the format has no token for is text: the table
below gives the effect of each token in each state, and the functions look ahead if it depends on
the text that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, auto
from functools import cached_property

from dsv4._decode.prompt_scan import HEADERS, LexemeKind, PromptLexeme


class TurnState(IntEnum):
    """The turn to which the text before the next lexeme belongs."""

    BETWEEN = 0  # no turn: a system text, or an answer without a header
    SYSTEM = auto()  # a system turn with a token of its own
    USER = auto()
    REMINDER = auto()
    ANSWER = auto()  # after a header
    TASKED = auto()  # after the token of a task


@dataclass(slots=True)
class PromptTurn:
    """A stretch of the prompt with one role.

    `role` is "system", "user", "latest_reminder" or "assistant". `header` is the header before an
    answer, THINK, ANSWER or None; `next_header` is the one that follows a question.
    """

    role: str
    start: int
    end: int
    header: LexemeKind | None = None
    closed: bool = True
    next_header: LexemeKind | None = None
    task: str | None = None
    after_task: bool = False
    opened: bool = False  # whether a token of its own opens a system turn


@dataclass
class TurnSplitter:
    """Walks the lexemes once. `trusted` says that every lexeme is a token, not a spelling."""

    text: str
    lexemes: list[PromptLexeme]
    start: int
    has_system_token: bool
    tasks: Mapping[str, str]  # the name of each task, by its token
    trusted: bool
    initial: TurnState = TurnState.BETWEEN
    joined: bool = False
    turns: list[PromptTurn] = field(default_factory=list)
    # Lexemes that were taken for text.
    demoted: list[PromptLexeme] = field(default_factory=list)
    # Every header, of any turn.
    headers: list[LexemeKind] = field(default_factory=list)
    # Whether a question follows another; whether an answer has no header; and whether nothing shows
    # where one begins. All are rare, and need more work.
    has_neighbours: bool = False
    has_bare_answers: bool = False
    has_hidden_answers: bool = False

    def __post_init__(self) -> None:
        self._ahead = _LookAhead(self.lexemes)
        self._state, self._begin = self.initial, self.start
        self._header: LexemeKind | None = None
        for index, lexeme in enumerate(self.lexemes):
            if not _TABLE[self._state][lexeme.kind](self, index, lexeme):
                self.demoted.append(lexeme)

    def _enter(
        self, state: TurnState, lexeme: PromptLexeme, header: LexemeKind | None = None
    ) -> bool:
        self._state, self._begin, self._header = state, lexeme.end, header
        if header is not None:
            self.headers.append(header)
        return True

    def _text_before(self, lexeme: PromptLexeme) -> bool:
        return lexeme.start > self._begin

    def _close(
        self, lexeme: PromptLexeme, next_header: LexemeKind | None = None, closed: bool = False
    ) -> None:
        """Turns the text up to a lexeme into a turn."""
        state, start, end = self._state, self._begin, lexeme.start
        if state is TurnState.USER:
            turn = PromptTurn("user", start, end, None, True, next_header)
        elif state is TurnState.ANSWER:
            turn = PromptTurn("assistant", start, end, self._header, closed)
        elif state is TurnState.SYSTEM:
            turn = PromptTurn("system", start, end, next_header=next_header, opened=True)
        elif state is TurnState.REMINDER:
            turn = PromptTurn("latest_reminder", start, end)
        elif state is TurnState.TASKED:
            turn = PromptTurn("assistant", start, end, closed=closed, after_task=True)
        elif end > start:
            turn = PromptTurn("system", start, end)
        else:
            return
        self.turns.append(turn)

    # The effects of lexemes. Each returns whether the lexeme is a token: else it is text.

    def _next_turn(self, index: int, lexeme: PromptLexeme) -> bool:
        """A token that opens a turn, outside of a question."""
        self._close(lexeme)
        return self._enter(_OPENS[lexeme.kind], lexeme)

    def _is_spelled_in_question(self, index: int) -> bool:
        return not self.trusted and (self.joined or self._ahead.is_asked(index))

    def _turn_in_question(self, index: int, lexeme: PromptLexeme) -> bool:
        """A turn after a question without a header for its answer."""
        if self.joined and lexeme.kind is LexemeKind.USER and not self.trusted:
            return False
        self.has_neighbours = True
        return self._next_turn(index, lexeme)

    def _turn_in_answer(self, index: int, lexeme: PromptLexeme) -> bool:
        """A token that opens a turn, after a header: it ends an answer that was left open."""
        if lexeme.kind is LexemeKind.REMINDER and not self._text_before(lexeme):
            return self._enter(TurnState.REMINDER, lexeme)  # it follows the header of a question
        if not self.trusted and self._ahead.answer_goes_on(index):
            return False
        return self._next_turn(index, lexeme)

    def _header_after_question(self, index: int, lexeme: PromptLexeme) -> bool:
        self._close(lexeme, next_header=lexeme.kind)
        return self._enter(TurnState.ANSWER, lexeme, lexeme.kind)

    def _header_of_action(self, index: int, lexeme: PromptLexeme) -> bool:
        """A header without a question: only an action's may stand there."""
        if not self._ahead.is_action(index):
            return False
        self._close(lexeme)
        return self._enter(TurnState.ANSWER, lexeme, lexeme.kind)

    def _end_of_answer(self, index: int, lexeme: PromptLexeme) -> bool:
        self._close(lexeme, closed=True)
        return self._enter(TurnState.BETWEEN, lexeme)

    def _end_of_bare_answer(self, index: int, lexeme: PromptLexeme) -> bool:
        """The end of an answer without a header: all of the text counts as the answer."""
        self.has_bare_answers = True
        self.turns.append(PromptTurn("assistant", self._begin, lexeme.start))
        return self._enter(TurnState.BETWEEN, lexeme)

    def _end_after_reminder(self, index: int, lexeme: PromptLexeme) -> bool:
        """The end of an answer whose beginning nothing shows. The plan has to find it."""
        if self.joined and not self.trusted:
            return False
        return self._hidden(lexeme, "assistant")

    def _hidden(self, lexeme: PromptLexeme, *roles: str) -> bool:
        """The end of turns of these roles, the last an answer, whose beginning nothing shows."""
        self.has_bare_answers = self.has_hidden_answers = True
        self._close(lexeme)
        self.turns += (PromptTurn(role, lexeme.start, lexeme.start) for role in roles)
        return self._enter(TurnState.BETWEEN, lexeme)

    def _reminder_in_question(self, index: int, lexeme: PromptLexeme) -> bool:
        """A reminder after a question whose header is missing: after a system text, therefore."""
        if self.has_system_token or self._is_spelled_in_question(index):
            return False
        self._close(lexeme)
        self.turns.append(PromptTurn("system", lexeme.start, lexeme.start))
        return self._enter(TurnState.REMINDER, lexeme)

    def _end_in_question(self, index: int, lexeme: PromptLexeme) -> bool:
        """The end of an answer without a header, after a system text without a visible start."""
        if self.has_system_token or self._is_spelled_in_question(index):
            return False
        return self._hidden(lexeme, "system", "assistant")

    def _task_of_question(self, index: int, lexeme: PromptLexeme) -> bool:
        if not self.trusted and self._ahead.is_asked(index):
            return False
        self._close(lexeme)
        return self._task(lexeme)

    def _task_between(self, index: int, lexeme: PromptLexeme) -> bool:
        """A task of the turn that has just ended, or of a system text."""
        self._close(lexeme)
        return bool(self.turns) and self._task(lexeme)

    def _task_of_open_answer(self, index: int, lexeme: PromptLexeme) -> bool:
        if not self.trusted and self._ahead.answer_goes_on(index):
            return False
        self._close(lexeme)
        return self._task(lexeme)

    def _action(self, index: int, lexeme: PromptLexeme) -> bool:
        """An action: right after its header, which belongs to a question, not to an answer."""
        if self._text_before(lexeme) or not self.turns:
            return False
        self.turns[-1].next_header = None
        return self._task(lexeme)

    def _task(self, lexeme: PromptLexeme) -> bool:
        self.turns[-1].task = self.tasks[self.text[lexeme.start : lexeme.end]]
        return self._enter(TurnState.TASKED, lexeme)

    def _nothing(self, index: int, lexeme: PromptLexeme) -> bool:
        return False

    def _finish(self, index: int, lexeme: PromptLexeme) -> bool:
        is_awaited = self._state in (TurnState.ANSWER, TurnState.TASKED)
        if not is_awaited or self._text_before(lexeme):
            self._close(lexeme)
        return True


class _LookAhead:
    """Facts about the lexemes after each lexeme: found for all of them when first needed."""

    def __init__(self, lexemes: list[PromptLexeme]) -> None:
        self._lexemes = lexemes

    @cached_property
    def _asked(self) -> list[bool]:
        """Whether a header comes before another question, from each lexeme on."""
        return self._first(HEADERS, (LexemeKind.USER, LexemeKind.SYSTEM, LexemeKind.END))

    @cached_property
    def _goes_on(self) -> list[bool]:
        """Whether an end comes before a header, from each lexeme on."""
        return self._first((LexemeKind.EOS,), (*HEADERS, LexemeKind.END))

    def _first(self, wanted: tuple[LexemeKind, ...], others: tuple[LexemeKind, ...]) -> list[bool]:
        is_open, answers = False, []
        for lexeme in reversed(self._lexemes):
            is_open = lexeme.kind in wanted or (is_open and lexeme.kind not in others)
            answers.append(is_open)
        return answers[::-1]

    def is_asked(self, index: int) -> bool:
        """Whether the question around a lexeme goes on, up to its header."""
        return self._asked[index + 1]

    def answer_goes_on(self, index: int) -> bool:
        """Whether the answer around a lexeme goes on, up to its end."""
        return self._goes_on[index + 1]

    def is_action(self, index: int) -> bool:
        after = self._lexemes[index + 1]
        return after.kind is LexemeKind.ACTION and after.start == self._lexemes[index].end


_OPENS = {
    LexemeKind.USER: TurnState.USER,
    LexemeKind.SYSTEM: TurnState.SYSTEM,
    LexemeKind.REMINDER: TurnState.REMINDER,
}
_Step = Callable[[TurnSplitter, int, PromptLexeme], bool]


def _row(
    turn: _Step,
    reminder: _Step | None = None,
    header: _Step = TurnSplitter._header_of_action,
    eos: _Step = TurnSplitter._end_of_answer,
    task: _Step = TurnSplitter._task_of_open_answer,
    action: _Step = TurnSplitter._nothing,
) -> list[_Step]:
    """The effect of each kind of lexeme in a state. By default a reminder has that of any turn, and
    the others have that which they have in an answer."""
    steps = {
        **dict.fromkeys((LexemeKind.USER, LexemeKind.SYSTEM), turn),
        LexemeKind.REMINDER: reminder or turn,
        **dict.fromkeys(HEADERS, header),
        LexemeKind.EOS: eos,
        LexemeKind.TASK: task,
        LexemeKind.ACTION: action,
        LexemeKind.END: TurnSplitter._finish,
    }
    return [steps[kind] for kind in LexemeKind]


_IN_QUESTION = (
    *(TurnSplitter._reminder_in_question, TurnSplitter._header_after_question),
    *(TurnSplitter._end_in_question, TurnSplitter._task_of_question),
)
_ROWS: dict[TurnState, list[_Step]] = {
    TurnState.BETWEEN: _row(
        TurnSplitter._next_turn,
        eos=TurnSplitter._end_of_bare_answer,
        task=TurnSplitter._task_between,
    ),
    TurnState.SYSTEM: _row(TurnSplitter._next_turn, *_IN_QUESTION),
    TurnState.USER: _row(TurnSplitter._turn_in_question, *_IN_QUESTION),
    TurnState.REMINDER: _row(TurnSplitter._next_turn, eos=TurnSplitter._end_after_reminder),
    TurnState.ANSWER: _row(TurnSplitter._turn_in_answer, action=TurnSplitter._action),
    TurnState.TASKED: _row(TurnSplitter._turn_in_answer),
}
# By state and kind, whose numbers begin with 0.
_TABLE = [_ROWS[state] for state in TurnState]
