"""Turns -> messages and options, for the V4 family."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dsv4.decoding.blocks import Part, Pictures, parts
from dsv4.decoding.calls import Blocks
from dsv4.decoding.decoded import Note
from dsv4.decoding.lexemes import HEADERS, Kind, lexemes
from dsv4.decoding.sections import Section, sections
from dsv4.decoding.turns import Turn, Walk
from dsv4.format import tokens
from dsv4.format.dialects import Dialect

# Stands for everything that came before a prompt that goes on with a conversation.
ASSUMED_CONTEXT = ({"role": "latest_reminder", "content": ""},)
# A task that keeps a user turn from being joined by the next, and is written nowhere else.
UNWRITTEN_TASK = "query"


@dataclass(frozen=True)
class Choice:
    """What to make of a prompt where it can be read in two ways. None means: look."""

    thinking: bool | None = None
    drop: bool | None = None
    sections: bool = True
    results: bool = True
    trusted: bool = False


@dataclass
class Reading:
    """A conversation, as it was read. `prefix` is the model's reasoning, where that is open."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    thinking: bool = False
    effort: str | int | None = None
    drop: bool = True
    bos: bool = False
    context: tuple[dict[str, Any], ...] = ()
    prefix: str = ""
    notes: list[Note] = field(default_factory=list)

    def note(self, kind: str, start: int, end: int, text: str, message: int | None = None) -> None:
        self.notes.append(Note(kind, start, end, message, text))


@dataclass(frozen=True)
class Found:
    """What stands in a text whichever way it is read: found once for all readings."""

    text: str
    dialect: Dialect
    sections: list[Section]
    blocks: Blocks

    @staticmethod
    def of(text: str, dialect: Dialect) -> Found:
        return Found(text, dialect, sections(text, dialect), Blocks(text, dialect.tags))

    @property
    def protected(self) -> Iterator[tuple[int, int]]:
        yield from ((section.start, section.end) for section in self.sections)
        yield from ((start, end) for start, (end, _) in self.blocks.found.items())

    def sections_in(self, start: int, end: int) -> list[Section]:
        return [s for s in self.sections if start <= s.start and s.end <= end]


def read(found: Found, choice: Choice) -> Reading:
    """A prompt of the V4 family, read in one way."""
    return _Reader(found, choice).reading


class _Reader:
    def __init__(self, found: Found, choice: Choice) -> None:
        self.found, self.choice = found, choice
        self.text, self.dialect = found.text, found.dialect
        self.reading = Reading()
        self.pictures = Pictures(self.dialect.image_token)
        self.calls = 0  # of the last answer that made any
        self.called = False
        start = self._opening()
        walk = Walk(
            self.text,
            lexemes(self.text, self.dialect, start, found.protected),
            start,
            self.dialect.system_token is not None,
            choice.trusted,
        )
        self.turns, self.pending = walk.turns, walk.pending
        self._settle(walk, start)
        self._write()

    # What stands before the first turn.

    def _opening(self) -> int:
        """Where the first turn begins. Reads BOS, the system token and the effort."""
        text, reading = self.text, self.reading
        at = 0
        if text.startswith(tokens.BOS):
            reading.bos, at = True, len(tokens.BOS)
        self.opened = False
        token = self.dialect.system_token
        if token is not None and text.startswith(token, at):
            self.opened, at = True, at + len(token)
        self.effort_end = at
        if self.choice.thinking is not False and (self.opened or token is None):
            for effort, written in _efforts(self.dialect):
                if text.startswith(written, at):
                    reading.effort, self.effort_end = effort, at + len(written)
                    return self.effort_end
        return at

    def _settle(self, walk: Walk, start: int) -> None:
        """Decides on mode, context and dropping."""
        reading, turns = self.reading, self.turns
        thinking = reading.effort is not None or Kind.THINK in walk.headers
        reading.thinking = thinking if self.choice.thinking is None else self.choice.thinking
        if self.dialect.system_token is not None:
            self._settle_systems(start)
        self.last = max((n for n, turn in enumerate(turns) if self._asks(n, turn)), default=-1)
        self.section_of = {
            n: self.found.sections_in(turn.start, turn.end) if self.choice.sections else []
            for n, turn in enumerate(turns)
        }
        tools = any(s.tools for n in range(len(turns)) for s in self._usable_sections(n))
        aloud = any(turn.asked is Kind.THINK for turn in turns[: max(self.last, 0)])
        drop = not (reading.thinking and aloud and not tools)
        reading.drop = drop if self.choice.drop is None else self.choice.drop
        self.dropping = reading.thinking and reading.drop and not tools
        for n in range(1, len(turns)):
            self._find_answer(n)

    def _find_answer(self, n: int) -> None:
        """Where an answer begins that nothing parts from the turn before it.

        What shows is the end of its reasoning, or the end of a tools section before it.
        """
        answer, before = self.turns[n], self.turns[n - 1]
        if answer.role != "assistant" or answer.start != answer.end or answer.header is not None:
            return
        between = before if before.role == "system" and before.start == before.end else None
        before = self.turns[n - 2] if between is not None and n > 1 else before
        if answer.after_task or before.end != answer.end or before.role == "assistant":
            return
        at = before.end
        found = self.section_of[self.turns.index(before)] if between is not None else []
        if between is not None and found:
            before.end, between.start, between.end = found[-1].start, found[-1].start, found[-1].end
            self.section_of[n - 1] = found[-1:]
            answer.start = between.end
        elif self._shows(n, answer):
            at = self.text.find(tokens.THINK_END, before.start, before.end)
            if at >= 0:
                before.end = answer.start = at
                if between is not None:
                    between.start = between.end = at

    def _settle_systems(self, start: int) -> None:
        """Where systems have a token, only the first turn of a conversation has none."""
        reading, turns = self.reading, self.turns
        starts_plain = bool(turns) and turns[0].role == "system" and not turns[0].opened
        if reading.thinking and reading.effort is None and not reading.bos:
            reading.context = ASSUMED_CONTEXT
            if self.opened and starts_plain:
                turns[0].opened = True
            elif self.opened:
                turns.insert(0, Turn("system", start, start, opened=True))
        elif self.opened and not starts_plain and (
            reading.effort is None or (turns and turns[0].opened)
        ):
            turns.insert(0, Turn("system", start, start))
        for turn in turns[1:]:
            if turn.role == "system" and not turn.opened:
                turn.role, turn.closed = "assistant", False

    def _asks(self, n: int, turn: Turn) -> bool:
        return turn.role == "user" or (turn.role == "system" and turn.opened)

    def _usable_sections(self, n: int) -> list[Section]:
        """The sections of a turn that can be taken off: any of a system's, a developer's last."""
        turn, found = self.turns[n], self.section_of[n]
        if turn.role == "system" or (turn.role == "assistant" and turn.header is None):
            return found
        if turn.role == "user" and self._ends_without_header(n):
            return found[-1:]
        if turn.role == "user" and "developer" in self._roles and found:
            last = found[-1]
            if last.end == turn.end and last.start > turn.start:
                return [last]
        return []

    def _ends_without_header(self, n: int) -> bool:
        after = self.turns[n + 1 : n + 3]
        return [t.role for t in after] == ["system", "assistant"] and after[0].start == after[1].end

    @property
    def _roles(self) -> tuple[str, ...]:
        from dsv4.encoding.turns import ROLES

        return ROLES

    # Messages.

    def _write(self) -> None:
        developers, tasked, parted = self._neighbours()
        for n, turn in enumerate(self.turns):
            if turn.role == "system":
                self._system(n, turn)
            elif turn.role == "latest_reminder":
                self._reminder(n, turn)
            elif turn.role == "assistant":
                self._answer(n, turn)
            elif n in developers:
                self._developer(n, turn)
            else:
                self._user(turn, n in tasked)
            if n in parted:
                self._add({"role": "system", "content": ""})
            if turn.task is not None:
                self._put_task(turn)
        last = self.turns[-1] if self.turns else None
        if last is not None and last.role == "user" and last.asked is None and last.task is None:
            if self.dialect.system_token is None:
                self._add({"role": "system", "content": ""})
        if not self.reading.messages:
            self._add(self._nothing())

    def _nothing(self) -> dict[str, Any]:
        """A message that writes nothing."""
        if self.dialect.system_token is None:
            return {"role": "system", "content": ""}
        return {"role": "assistant", "content": "", "wo_eos": True}

    def _add(self, message: dict[str, Any]) -> None:
        self.reading.messages.append(message)

    def _put_task(self, turn: Turn) -> None:
        message = self.reading.messages[-1]
        message["task"] = turn.task
        content = message["content"]
        if turn.task == "read_url" and isinstance(content, str):
            before, token, url = content.rpartition(tokens.EXTRACTED_URL)
            if token and url:
                message["content"], message["extracted_url"] = before, url

    def _neighbours(self) -> tuple[set[int], set[int], set[int]]:
        """Which user turns are developers', which carry a task, after which a system stands."""
        developers = {
            n
            for n, turn in enumerate(self.turns)
            if turn.role == "user" and self._usable_sections(n) and self._stays(n)
        }
        tasked: set[int] = set()
        parted: set[int] = set()
        for n in range(1, len(self.turns)):
            before, turn = self.turns[n - 1], self.turns[n]
            if not before.role == turn.role == "user" or before.asked or before.task:
                continue
            if n - 1 in developers or n in developers:
                continue
            if self._may_be_developer(n):
                developers.add(n)
            elif self._may_be_developer(n - 1) and n - 1 not in developers:
                developers.add(n - 1)
            elif not self._begins_with_result(n) and not self._begins_with_result(n - 1):
                tasked.add(n - 1)
            else:
                parted.add(n - 1)
        return developers, tasked, parted

    def _stays(self, n: int) -> bool:
        return not self.dropping or n >= self.last

    def _may_be_developer(self, n: int) -> bool:
        turn = self.turns[n]
        plain = turn.end > turn.start and not any(part.is_result for part in self._parts(turn))
        return "developer" in self._roles and plain and self._stays(n)

    def _begins_with_result(self, n: int) -> bool:
        return self._parts(self.turns[n])[0].is_result

    def _parts(self, turn: Turn) -> list[Part]:
        """A user turn in results and texts. Without calls before, results are taken for text."""
        if self.choice.results and turn.task is None:
            found = parts(self.text, turn.start, turn.end, self.dialect.image_token)
            if self._calls_before(turn) or any(p.is_result and self._has_image(p) for p in found):
                return found
        return [Part(False, turn.start, turn.end)]

    def _calls_before(self, turn: Turn) -> bool:
        return any(start < turn.start for start in list(self.found.blocks.found)[:1])

    def _has_image(self, part: Part) -> bool:
        token = self.dialect.image_token
        return token is not None and self.text.find(token, part.start, part.end) >= 0

    def _content(self, start: int, end: int) -> Any:
        return self.pictures.content(self.text[start:end])

    def _system(self, n: int, turn: Turn) -> None:
        at = turn.start
        for section in self._usable_sections(n):
            self._add(_with_section(self._content(at, section.start), "system", section))
            at = section.end
        if at < turn.end or at == turn.start:
            self._add({"role": "system", "content": self._content(at, turn.end)})

    def _developer(self, n: int, turn: Turn) -> None:
        found = self._usable_sections(n)
        end = found[0].start if found else turn.end
        content = self._content(turn.start, end)
        self._add(
            _with_section(content, "developer", found[0])
            if found
            else {"role": "developer", "content": content}
        )

    def _user(self, turn: Turn, tasked: bool) -> None:
        results = 0
        for part in self._parts(turn):
            content = self._content(part.start, part.end)
            if part.is_result:
                call = min(results, max(self.calls - 1, 0)) if self.calls else results
                self._add({"role": "tool", "tool_call_id": f"call_{call}", "content": content})
                results += 1
            else:
                self._add({"role": "user", "content": content})
                if tasked:
                    self.reading.messages[-1]["task"] = UNWRITTEN_TASK
                    tasked = False

    def _reminder(self, n: int, turn: Turn) -> None:
        content = self._content(turn.start, turn.end)
        self._add({"role": "latest_reminder", "content": content})

    def _shows(self, n: int, turn: Turn) -> bool:
        """Whether an answer shows a thinking part."""
        return (
            self.reading.thinking
            and (not self.dropping or n > self.last)
            and not turn.after_task
        )

    def _answer(self, n: int, turn: Turn) -> None:
        at = turn.start
        for section in self._usable_sections(n):  # of a system text that nothing parts from it
            self._add(_with_section(self._content(at, section.start), "system", section))
            at = section.end
        message: dict[str, Any] = {"role": "assistant"}
        if self._shows(n, turn):
            end = self.text.find(tokens.THINK_END, at, turn.end)
            if end < 0:
                if n == len(self.turns) - 1 and not turn.closed and turn.header is Kind.THINK:
                    self.reading.prefix = self.text[at : turn.end]
                    return
                end = at
                at -= len(tokens.THINK_END)
            if end > at:
                message["reasoning_content"] = self.text[at:end]
            at = end + len(tokens.THINK_END)
        end = turn.end
        block = self.found.blocks.ending_at(at, end)
        if block is not None:
            end = block[0]
        message["content"] = self._content(at, end)
        if block is not None:
            message["tool_calls"] = block[1]
            self.calls = len(block[1])
        if not turn.closed:
            message["wo_eos"] = True
        self._add(message)


def _with_section(content: Any, role: str, section: Section) -> dict[str, Any]:
    message = {"role": role, "content": content}
    if section.tools:
        message["tools"] = section.tools
    if section.response_format is not None:
        message["response_format"] = section.response_format
    return message


def _efforts(dialect: Dialect) -> list[tuple[str | int, str]]:
    """The efforts that write something, each once: a number rather than a name."""
    written: dict[str, str | int] = {}
    for effort, text in dialect.efforts.items():
        if text and effort is not None and not isinstance(written.get(text), int):
            written[text] = effort
    return [(effort, text) for text, effort in written.items()]
