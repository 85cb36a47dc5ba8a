"""Prompts of the V4 family -> messages and options."""

from __future__ import annotations

from typing import Any

from dsv4.decoding.blocks import Part, Pictures, parts
from dsv4.decoding.glue import unglued
from dsv4.decoding.lexemes import HEADERS, Kind, Lexeme, lexemes
from dsv4.decoding.reading import Choice, Found, Reading
from dsv4.decoding.sections import BLANK_LINE, Section
from dsv4.decoding.turns import State, Turn, Walk
from dsv4.format import tokens
from dsv4.format.dialects import Dialect

# Stands for everything that came before a prompt that goes on with a conversation.
ASSUMED_CONTEXT = ({"role": "latest_reminder", "content": ""},)
# A task that keeps a user turn from being joined by the next, and is written nowhere.
UNWRITTEN_TASK = "query"


def read_v4(found: Found, choice: Choice) -> Reading:
    """A prompt, read in one way."""
    plan = Plan(found, choice)
    _Writer(plan).write()
    return plan.reading


def _efforts(dialect: Dialect) -> list[tuple[str | int, str]]:
    """The efforts that write something, each once: a number rather than a name."""
    written: dict[str, str | int] = {}
    for effort, text in dialect.efforts.items():
        if text and effort is not None and not isinstance(written.get(text), int):
            written[text] = effort
    return [(effort, text) for text, effort in written.items()]


class Plan:
    """The turns of a prompt, and all that must be known before they are written as messages."""

    def __init__(self, found: Found, choice: Choice) -> None:
        self.found, self.choice = found, choice
        self.text, self.dialect = found.text, found.dialect
        self.reading = Reading()
        # Whether the system token opens the prompt.
        self.opened = False
        self.start = self._read_opening()
        listed = lexemes(self.text, self.dialect, self.start, found.protected)
        self._settle_context(listed)
        has_token = self.dialect.system_token is not None
        goes_on = self.opened and bool(self.reading.context)
        self.walk = Walk(
            *(self.text, listed, self.start, has_token, choice.trusted),
            State.SYSTEM if goes_on else State.BETWEEN,
            choice.joined,
        )
        self.turns = self.walk.turns
        self._settle_mode()
        if has_token:
            self._settle_systems()
        self._look_at_turns()
        self._settle_dropping()
        for n in range(1, len(self.turns)):
            self._find_answer(n)
        if self.dialect.image_token is not None and not has_token:
            self._part_images(self.dialect.image_token)
        if not choice.trusted:
            self._rejoin()
        else:
            shown = [self.shows_reasoning(n) for n in range(len(self.turns))]
            self.turns = unglued(self.turns, shown, found)
            self._look_at_turns()

    def _look_at_turns(self) -> None:
        # The last turn that asks: before it, old reasoning may be dropped.
        self.last = max((n for n, turn in enumerate(self.turns) if _asks(turn)), default=-1)
        self._sections = [
            self.found.sections_in(turn.start, turn.end) if self.choice.sections else []
            for turn in self.turns
        ]

    @property
    def has_developers(self) -> bool:
        return "developer" in self.dialect.roles

    def _read_opening(self) -> int:
        """BOS, the system token and the effort. Returns where the first turn begins."""
        text, reading, at = self.text, self.reading, 0
        if text.startswith(tokens.BOS):
            reading.bos, at = True, len(tokens.BOS)
        token = self.dialect.system_token
        if token is not None and text.startswith(token, at):
            self.opened, at = True, at + len(token)
        if self.choice.thinking is not False and (self.opened or token is None):
            for effort, written in _efforts(self.dialect):
                if text.startswith(written, at):
                    reading.effort = effort
                    return at + len(written)
        return at

    def _settle_context(self, listed: list[Lexeme]) -> None:
        """Where systems have a token, some prompts can only go on with a conversation.

        One that thinks begins with an effort, and the first system turn of all asks for nothing.
        """
        reading = self.reading
        if self.dialect.system_token is None or reading.bos or reading.effort is not None:
            return
        thinks = self.choice.thinking
        if thinks is None:
            thinks = any(lexeme.kind is Kind.THINK for lexeme in listed)
        if thinks or (self.opened and listed[0].kind in HEADERS):
            reading.context = ASSUMED_CONTEXT

    def _settle_mode(self) -> None:
        thinking = self.reading.effort is not None or Kind.THINK in self.walk.headers
        wanted = self.choice.thinking
        self.reading.thinking = thinking if wanted is None else wanted

    def _settle_systems(self) -> None:
        """Where systems have a token, only the first turn of a conversation has none."""
        reading, turns = self.reading, self.turns
        plain = bool(turns) and turns[0].role == "system" and not turns[0].opened
        shown = self.opened and not reading.context
        if shown and not plain and (reading.effort is None or _starts_opened(turns)):
            turns.insert(0, Turn("system", self.start, self.start))
        for turn in turns if reading.context else turns[1:]:
            if turn.role == "system" and not turn.opened:
                turn.role, turn.closed = "assistant", False

    def _settle_dropping(self) -> None:
        reading, turns = self.reading, self.turns
        if self.choice.trusted:
            tools = self.choice.sections and any(s.tools for s in self.found.sections)
        else:
            tools = any(s.tools for n in range(len(turns)) for s in self.sections_of(n))
        aloud = any(turn.asked is Kind.THINK for turn in turns[: max(self.last, 0)])
        drop = not (reading.thinking and aloud and not tools)
        reading.drop = drop if self.choice.drop is None else self.choice.drop
        self.dropping = reading.thinking and reading.drop and not tools

    def sections_of(self, n: int) -> list[Section]:
        """The sections that can be taken off a turn: any of a system's, a developer's last."""
        turn, found = self.turns[n], self._sections[n]
        if turn.role == "system" or (turn.role == "assistant" and turn.header is None):
            return found
        if turn.role != "user" or not found:
            return []
        if self._answered_without_header(n):
            return found[-1:]
        ends = found[-1].end == turn.end and found[-1].start > turn.start
        return found[-1:] if ends and self.has_developers else []

    def _answered_without_header(self, n: int) -> bool:
        after = self.turns[n + 1 : n + 3]
        return [t.role for t in after] == ["system", "assistant"] and after[0].start == after[1].end

    def shows_reasoning(self, n: int) -> bool:
        """Whether a turn, an answer, has a thinking part."""
        shown = self.reading.thinking and (not self.dropping or n > self.last)
        return shown and not self.turns[n].after_task

    def _find_answer(self, n: int) -> None:
        """Where an answer begins that nothing parts from the turn before it.

        What shows is a tools section before it, the end of its reasoning, or a block of calls.
        """
        answer, before, between = self.turns[n], n - 1, None
        if answer.role != "assistant" or answer.start != answer.end or answer.header is not None:
            return
        if self.turns[before].role == "system" and before > 0:
            between, before = self.turns[before], before - 1
        asked = self.turns[before]
        if answer.after_task or asked.end != answer.end or asked.role == "assistant":
            return
        found = self._sections[before] if between is not None else []
        if between is not None and found:
            asked.end = between.start = found[-1].start
            between.end = answer.start = found[-1].end
            self._sections[n - 1], self._sections[before] = found[-1:], found[:-1]
            return
        if self.shows_reasoning(n):
            at = self.text.find(tokens.THINK_END, asked.start, asked.end)
        else:
            block = self.found.blocks.ending_at(asked.start, asked.end)
            at = -1 if block is None else block[0]
        if at >= 0:
            asked.end = answer.start = at
            if between is not None:
                between.start = between.end = at

    def _part_images(self, image: str) -> None:
        """Parts a user turn from a system text that touches its last image."""
        parted = []
        for turn in self.turns:
            parted.append(turn)
            if turn.role != "user" or turn.asked is not None:
                continue
            at = self.text.rfind(image, turn.start, turn.end) + len(image)
            ends = (BLANK_LINE, tokens.RESULT_END)
            if turn.start + len(image) <= at < turn.end and not self.text.startswith(ends, at):
                parted.append(Turn("system", at, turn.end, task=turn.task))
                turn.end, turn.task = at, None
        self.turns = parted
        self._look_at_turns()

    def _rejoin(self) -> None:
        """Joins an answer with what follows it where the token between them can only be text.

        That is so where a thinking part would be without its end.
        """
        joined: list[Turn] = []
        for n, turn in enumerate(self.turns):
            before = joined[-1] if joined else None
            if before is not None and self._belongs_to(before, n, turn):
                self.walk.demoted.append(Lexeme(Kind.EOS, before.end, turn.start))
                before.end, before.task = turn.end, turn.task
                before.closed = turn.role == "assistant" and turn.closed
            else:
                joined.append(turn)
        if len(joined) < len(self.turns):
            self.turns = joined
            self._look_at_turns()

    def _belongs_to(self, before: Turn, n: int, turn: Turn) -> bool:
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
        ends = [self.text.find(tokens.THINK_END, t.start, t.end) >= 0 for t in (before, turn)]
        return not ends[0] or (turn.role == "assistant" and not ends[1])

    def parts_of(self, n: int) -> list[Part]:
        """A user turn in results and texts. Where nothing was called, results are text."""
        turn = self.turns[n]
        if self.choice.results and turn.task is None:
            found = parts(self.text, turn.start, turn.end, self.dialect.image_token)
            if self.found.first_call < turn.start or any(map(self._is_pictured, found)):
                return found
        return [Part(False, turn.start, turn.end)]

    def _is_pictured(self, part: Part) -> bool:
        token = self.dialect.image_token
        return (
            part.is_result
            and token is not None
            and self.text.find(token, part.start, part.end) >= 0
        )

    def stays(self, n: int) -> bool:
        """Whether a turn of a role that does not last is written."""
        return not self.dropping or n >= self.last


def _asks(turn: Turn) -> bool:
    return turn.role == "user" or (turn.role == "system" and turn.opened)


def _starts_opened(turns: list[Turn]) -> bool:
    return bool(turns) and turns[0].opened


class Neighbours:
    """What keeps user turns apart that follow each other without a header.

    The encoder would join two user messages. So one of them is a developer's, or the first carries
    a task, or an empty system message stands between.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        turns = plan.turns
        self.developers = {
            n
            for n, turn in enumerate(turns)
            if turn.role == "user" and plan.sections_of(n) and plan.stays(n)
        }
        self.guessed: set[int] = set()
        self.tasked: set[int] = set()
        self.parted: set[int] = set()
        for n in range(1, len(turns)):
            before = turns[n - 1]
            joined = before.role == turns[n].role == "user" and not (
                before.asked is not None or before.task
            )
            if joined and not (self._is_developer(n - 1) or self._is_developer(n)):
                self._part(n - 1, n)

    def _is_developer(self, n: int) -> bool:
        return n in self.developers or n in self.guessed

    def _part(self, before: int, n: int) -> None:
        if self._may_be_developer(n):
            self.guessed.add(n)
        elif self._may_be_developer(before):
            self.guessed.add(before)
        elif any(self._plan.parts_of(turn)[0].is_result for turn in (before, n)):
            self.parted.add(before)
        else:
            self.tasked.add(before)

    def _may_be_developer(self, n: int) -> bool:
        plan, turn = self._plan, self._plan.turns[n]
        if not plan.has_developers or turn.start == turn.end or not plan.stays(n):
            return False
        return not any(part.is_result for part in plan.parts_of(n))


class _Writer:
    """Writes the messages of a plan to its reading."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._reading = plan.reading
        self._messages = plan.reading.messages
        self._text = plan.text
        self._pictures = Pictures(plan.dialect.image_token)
        self._neighbours = Neighbours(plan)
        # How many calls the last answer made that made any.
        self._calls = 0
        self._write_turn = {
            "system": self._system,
            "latest_reminder": self._reminder,
            "assistant": self._answer,
            "user": self._user,
        }

    def write(self) -> None:
        plan = self._plan
        for n, turn in enumerate(plan.turns):
            self._write_turn[turn.role](n, turn)
            if n in self._neighbours.parted:
                self._add("system", "")
            if turn.task is not None:
                self._put_task(turn.task)
        self._end()
        self._note_options()

    def _end(self) -> None:
        plan = self._plan
        last = plan.turns[-1] if plan.turns else None
        has_token = plan.dialect.system_token is not None
        if last is None and has_token:
            self._add("assistant", "", wo_eos=True)  # which writes nothing
        elif last is None:
            self._add("system", "")
        elif last.role == "user" and last.asked is None and not (last.task or has_token):
            self._add("system", "")  # a user turn at the end would ask

    def _add(self, role: str, content: Any, **fields: Any) -> dict[str, Any]:
        message = {"role": role, "content": content, **fields}
        self._messages.append(message)
        return message

    def _content(self, start: int, end: int) -> Any:
        before = self._pictures.count
        content = self._pictures.content(self._text[start:end])
        if self._pictures.count > before:
            self._note("image-unnamed", start, end, "images are numbered, their sources are lost")
        return content

    def _note(self, kind: str, start: int, end: int, text: str) -> None:
        """A note about the message that is written next."""
        self._reading.note(kind, start, end, text, len(self._messages))

    # Turns.

    def _system(self, n: int, turn: Turn) -> None:
        at = self._systems(n, turn.start)
        if at < turn.end or at == turn.start:
            self._add("system", self._content(at, turn.end))

    def _systems(self, n: int, at: int) -> int:
        """The system messages that end with tools or a format. Returns where the rest begins."""
        for section in self._plan.sections_of(n):
            self._with_section("system", at, section)
            at = section.end
        return at

    def _with_section(self, role: str, start: int, section: Section) -> None:
        if not self._plan.choice.trusted:
            self._note(
                *("tools-from-text", section.start, section.end),
                "read as tools or a response format, which a text could also spell",
            )
        message = self._add(role, self._content(start, section.start))
        if section.tools:
            message["tools"] = section.tools
        if section.response_format is not None:
            message["response_format"] = section.response_format

    def _reminder(self, n: int, turn: Turn) -> None:
        self._add("latest_reminder", self._content(turn.start, turn.end))

    def _user(self, n: int, turn: Turn) -> None:
        known = self._neighbours
        if n in known.guessed:
            self._note("developer-or-user", turn.start, turn.end, "read as a developer's turn")
            self._add("developer", self._content(turn.start, turn.end))
        elif n in known.developers:
            self._with_section("developer", turn.start, self._plan.sections_of(n)[0])
        else:
            self._user_parts(n, n in known.tasked)

    def _user_parts(self, n: int, tasked: bool) -> None:
        results = 0
        for part in self._plan.parts_of(n):
            if part.is_result:
                self._result(part, results)
                results += 1
                continue
            if self._text.find(BLANK_LINE, part.start, part.end) >= 0:
                self._note("users-joined", part.start, part.end, "may have been several messages")
            message = self._add("user", self._content(part.start, part.end))
            if tasked:
                self._note("developer-or-user", part.start, part.end, "kept apart by a task")
                message["task"], tasked = UNWRITTEN_TASK, False

    def _result(self, part: Part, number: int) -> None:
        """A result. An id of no call would be sorted to the front, so it gets one of the calls'."""
        if not self._calls:
            self._note("results-guessed", part.start, part.end, "read as a result, without a call")
        call = min(number, self._calls - 1) if self._calls else number
        self._add("tool", self._content(part.start, part.end), tool_call_id=f"call_{call}")

    def _answer(self, n: int, turn: Turn) -> None:
        at, end = self._systems(n, turn.start), turn.end
        if turn.header is None and not turn.after_task:
            self._note("boundary-lost", turn.start, turn.end, "no header shows where it begins")
        reasoning = None
        if self._plan.shows_reasoning(n):
            reasoning_end = self._text.find(tokens.THINK_END, at, end)
            if reasoning_end < 0 and self._is_open_end(n, turn):
                self._reading.prefix = self._text[at:end]
                self._note("open-reasoning", at, end, "reasoning that has not ended")
                return
            if reasoning_end >= 0:
                reasoning, at = self._text[at:reasoning_end], reasoning_end + len(tokens.THINK_END)
        elif turn.header is Kind.ANSWER and self._reading.thinking and n < self._plan.last:
            self._note("reasoning-dropped", at, at, "its reasoning was left out of the prompt")
        block = self._plan.found.blocks.ending_at(at, end)
        if block is not None:
            self._note("ids-invented", block[0], end, "the ids of calls are not in a prompt")
            self._note("arguments-respelled", block[0], end, "as the format writes JSON")
        if not turn.closed:
            self._note("open-turn", turn.start, end, "a turn without its end")
        message = self._add("assistant", self._content(at, end if block is None else block[0]))
        if reasoning:
            message["reasoning_content"] = reasoning
        if block is not None:
            message["tool_calls"] = block[1]
            self._calls = len(block[1])
        if not turn.closed:
            message["wo_eos"] = True

    def _is_open_end(self, n: int, turn: Turn) -> bool:
        last = n == len(self._plan.turns) - 1
        return last and not turn.closed and turn.header is Kind.THINK

    def _put_task(self, task: str) -> None:
        message = self._messages[-1]
        message["task"] = task
        if task == "read_url" and isinstance(message["content"], str):
            before, token, url = message["content"].rpartition(tokens.EXTRACTED_URL)
            if token and url:
                message["content"], message["extracted_url"] = before, url

    # Options.

    def _note_options(self) -> None:
        plan, reading = self._plan, self._reading
        end = plan.start
        for lexeme in plan.walk.demoted:
            spelling = self._text[lexeme.start : lexeme.end]
            reading.note("token-as-text", lexeme.start, lexeme.end, f"{spelling} has no place here")
        if not plan.walk.headers and reading.effort is None:
            reading.note("mode-guessed", 0, end, "nothing shows whether the model thinks")
        if reading.thinking and _is_ambiguous(reading.effort, plan.dialect):
            reading.note("effort-ambiguous", 0, end, "other efforts write the same")
        if reading.context:
            reading.note("context-assumed", 0, end, "written after something else")


def _is_ambiguous(effort: str | int | None, dialect: Dialect) -> bool:
    text = dialect.efforts.get(effort)
    return sum(other == text for other in dialect.efforts.values()) > 1
