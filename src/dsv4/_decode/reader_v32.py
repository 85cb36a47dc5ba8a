"""Reads V3.2 prompts into messages and options.

V3.2 merges nothing: every user turn has its own header, and results stand in a block of their own
right after the answer that called for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dsv4._decode.part_readers import Section
from dsv4._decode.prompt_scan import (
    HEADERS,
    Interpretation,
    LexemeKind,
    PromptLexeme,
    PromptReading,
    ScannedPrompt,
    lexemes,
)
from dsv4._format.dialects import Dialect


class _ResultWords:
    """The words around results, as a dialect spells them."""

    def __init__(self, dialect: Dialect) -> None:
        own, words = dialect.tokens, dialect.texts
        self.end = words.one_result_end
        self.block_open = words.results_start + words.one_result_start
        self.between = words.one_result_end + words.one_result_start
        closing = words.one_result_end + words.results_end
        self.closings = {
            closing + own.think_start: LexemeKind.THINK,
            closing + own.think_end: LexemeKind.ANSWER,
        }


def read_v32(scan: ScannedPrompt, interpretation: Interpretation) -> PromptReading:
    """Reads a prompt by one interpretation."""
    return _ReaderV32(scan, interpretation).reading


@dataclass
class _TurnV32:
    """A future message: a stretch of text, and the header before it if it is an answer."""

    role: str
    start: int
    end: int
    header: LexemeKind | None = None
    call: int = 0


def _next_of_kind(listed: list[PromptLexeme], *kinds: LexemeKind) -> list[int]:
    """For each lexeme, the index of the next of some kinds after it; -1 where there is none."""
    following, after = -1, []
    for index in range(len(listed) - 1, -1, -1):
        after.append(following)
        if listed[index].kind in kinds:
            following = index
    return after[::-1]


class _ReaderV32:
    def __init__(self, scan: ScannedPrompt, interpretation: Interpretation) -> None:
        self._scan, self._interpretation, self._text = scan, interpretation, scan.text
        self.reading = PromptReading()
        self._turns: list[_TurnV32] = []
        self._header: LexemeKind | None = None  # of the answer that is to come
        self._headers: list[LexemeKind] = []
        self._own = scan.dialect.tokens
        self._words = scan.dialect.made[_ResultWords]
        self.reading.bos = self._text.startswith(self._own.bos)
        self._start = len(self._own.bos) if self.reading.bos else 0
        self._walk()
        self._write()

    # Lexemes -> turns.

    def _walk(self) -> None:
        listed = lexemes(self._text, self._scan.dialect, self._start, self._scan.protected)
        headers, ends = _next_of_kind(listed, *HEADERS), _next_of_kind(listed, LexemeKind.EOS)
        at = self._start
        for index, lexeme in enumerate(listed):
            if lexeme.start < at:  # inside a result, or the header of a user turn
                continue
            if lexeme.kind is LexemeKind.USER and self._is_asked(headers[index], ends[index]):
                header = listed[headers[index]]
                self._unclosed(at, lexeme)
                self._turns.append(_TurnV32("user", lexeme.end, header.start, header.kind))
                at = self._open(header.kind, header.end)
            elif lexeme.kind is LexemeKind.EOS:
                at = self._answer(at, lexeme, listed[index + 1].start)
            elif lexeme.kind is LexemeKind.END:
                self._unclosed(at, lexeme)
            else:
                self._demote(lexeme)

    def _is_asked(self, header: int, end: int) -> bool:
        """Whether a header ends a user turn.

        If a user token is only spelled, in an answer, the end of that turn comes first.
        """
        answering = self._header is not None and not self._interpretation.trusted
        return header >= 0 and not (answering and 0 <= end < header)

    def _demote(self, lexeme: PromptLexeme) -> None:
        spelling = self._text[lexeme.start : lexeme.end]
        text = f"{spelling} has no place here"
        self.reading.note("token-as-text", lexeme.start, lexeme.end, text)

    def _open(self, header: LexemeKind, at: int) -> int:
        self._header = header
        self._headers.append(header)
        return at

    def _unclosed(self, at: int, lexeme: PromptLexeme) -> None:
        """Text that no end closes: a system's, or an answer that the model has begun to write."""
        if at < lexeme.start:
            self._turns.append(_TurnV32("system", at, lexeme.start, self._header))
        self._header = None

    def _answer(self, at: int, lexeme: PromptLexeme, bound: int) -> int:
        self._turns.append(_TurnV32("assistant", at, lexeme.start, self._header))
        self._header = None
        block = self._scan.blocks.ending_at(at, lexeme.start)
        if block is None or not self._text.startswith(self._words.block_open, lexeme.end):
            return lexeme.end
        return self._results(lexeme.end + len(self._words.block_open), len(block[1]), bound)

    def _results(self, at: int, calls: int, bound: int) -> int:
        """The results after an answer: one for each call, or fewer in a block without an end.

        `bound` is the place of the next token. A result may spell one, so it only bounds a block
        without an end; in any case, a result does not reach into the next block.
        """
        text, start = self._text, at
        limit = text.find(self._words.block_open, at)
        limit = len(text) if limit < 0 else limit
        for call in range(calls - 1):
            end = text.find(self._words.between, at, limit)
            if end < 0:
                return self._some_results(start, calls, bound)
            self._turns.append(_TurnV32("tool", at, end, call=call))
            at = end + len(self._words.between)
        ends = [(end, c) for c in self._words.closings if (end := text.find(c, at, limit)) >= 0]
        if not ends:
            return self._some_results(start, calls, bound)
        end, closing = min(ends)
        self._turns.append(_TurnV32("tool", at, end, call=calls - 1))
        return self._open(self._words.closings[closing], end + len(closing))

    def _some_results(self, at: int, calls: int, bound: int) -> int:
        text = self._text
        while self._turns[-1].role == "tool" and self._turns[-1].start >= at:
            self._turns.pop()
        for call in range(calls):
            follows = text.find(self._words.between, at, bound) if call < calls - 1 else -1
            end = follows if follows >= 0 else text.rfind(self._words.end, at, bound)
            if end < 0:
                break
            self._turns.append(_TurnV32("tool", at, end, call=call))
            at = end + len(self._words.between if follows >= 0 else self._words.end)
            if follows < 0:
                return at
        return at

    # Turns -> messages.

    def _write(self) -> None:
        reading, asking = self.reading, [n for n, t in enumerate(self._turns) if t.role == "user"]
        self._last = asking[-1] if asking else -1
        thinking = LexemeKind.THINK in self._headers
        reading.thinking = (
            thinking if self._interpretation.thinking is None else self._interpretation.thinking
        )
        if not self._headers:
            reading.note("mode-guessed", 0, self._start, "nothing shows whether the model thinks")
        for n, turn in enumerate(self._turns):
            self._write_turn(n, turn)
        if not reading.messages:
            self._add("system", "")
        if self._interpretation.drop is not None:
            reading.drop = self._interpretation.drop

    def _write_turn(self, n: int, turn: _TurnV32) -> None:
        if turn.role == "user":
            self._user(n, turn)
        elif turn.role == "assistant":
            self._assistant(n, turn)
        elif turn.role == "tool":
            content = self._text[turn.start : turn.end]
            self._add("tool", content, tool_call_id=f"call_{turn.call}")
        elif turn.header is not None and n == len(self._turns) - 1 and self._interpretation.results:
            self.reading.prefix = self._text[turn.start : turn.end]
            self.reading.note("open-turn", turn.start, turn.end, "a turn without its end")
        else:
            self._system(turn.start, turn.end)

    def _add(self, role: str, content: str, **fields: object) -> dict[str, Any]:
        message = {"role": role, "content": content, **fields}
        self.reading.messages.append(message)
        return message

    def _sections(self, start: int, end: int) -> list[Section]:
        return self._scan.sections_in(start, end) if self._interpretation.sections else []

    def _system(self, start: int, end: int) -> None:
        at = self._systems(start, end)
        if at < end or at == start:
            self._add("system", self._text[at:end])

    def _systems(self, at: int, end: int) -> int:
        for section in self._sections(at, end):
            message = self._add("system", self._text[at : section.start])
            _put_section(section, message, self.reading)
            at = section.end
        return at

    def _user(self, n: int, turn: _TurnV32) -> None:
        at = turn.start
        sections = [s for s in self._sections(at, turn.end) if s.start == at]
        if sections:
            at = sections[0].end
        words = self._scan.dialect.texts.developer_message
        if self._interpretation.sections and self._text.startswith(words, at, turn.end):
            content = self._text[at + len(words) : turn.end]
            if content:
                message = self._add("developer", content)
                for section in sections:
                    _put_section(section, message, self.reading)
                if self.reading.thinking and n < self._last:
                    self.reading.drop = False
                return
        self._add("user", self._text[turn.start : turn.end])

    def _holds_tools(self, turn: _TurnV32) -> bool:
        """Whether a turn after a header holds tools, which have tokens that no answer can spell: a
        system message between results and an answer does."""
        sections = self._sections(turn.start, turn.end) if self._interpretation.trusted else []
        return any(section.tools for section in sections)

    def _assistant(self, n: int, turn: _TurnV32) -> None:
        at = turn.start
        if turn.header is None or self._holds_tools(turn):
            at = self._systems(turn.start, turn.end)
        index = len(self.reading.messages)
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        if self.reading.thinking and n > self._last:
            end = self._text.find(self._own.think_end, at, turn.end)
            if end >= 0:
                message["reasoning_content"] = self._text[at:end]
                at = end + len(self._own.think_end)
        if turn.header is None:
            note = "no header shows where it begins"
            self.reading.note("boundary-lost", turn.start, turn.end, note, index)
        elif turn.header is LexemeKind.ANSWER and self.reading.thinking and n < self._last:
            note = "its reasoning was left out of the prompt"
            self.reading.note("reasoning-dropped", at, at, note, index)
        block = self._scan.blocks.ending_at(at, turn.end)
        message["content"] = self._text[at : turn.end if block is None else block[0]]
        if block is not None:
            message["tool_calls"] = block[1]
            note = "the ids of calls are not in a prompt"
            self.reading.note("ids-invented", block[0], turn.end, note, index)
        self.reading.messages.append(message)


def _put_section(section: Section, message: dict[str, Any], reading: PromptReading) -> None:
    section.put_on(message)
    index = len(reading.messages) - 1
    note = "read as tools or a response format, which a text could also spell"
    reading.note("tools-from-text", section.start, section.end, note, index)
