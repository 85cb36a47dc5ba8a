"""Reads prompts of the V4 family into messages and options."""

from __future__ import annotations

from typing import Any

from dsv4._decode.part_readers import ImageContent, Section, UserTurnPart
from dsv4._decode.plan_v4 import PromptPlan
from dsv4._decode.prompt_scan import Interpretation, LexemeKind, PromptReading, ScannedPrompt
from dsv4._decode.turn_splitter import PromptTurn
from dsv4._encode.prompt import BLANK_LINE
from dsv4._format.dialects import Dialect

# User turns that follow each other.


class AdjacentUserTurns:
    """Separators of user turns that follow each other without a header.

    The encoder would join two user messages. So one of them is a developer's, or the first carries
    a task, or an empty system message stands between.
    """

    def __init__(self, plan: PromptPlan) -> None:
        self._plan = plan
        turns = plan.turns
        self.developers = {
            n
            for n, turn in enumerate(turns if plan.scan.sections else ())
            if turn.role == "user" and plan.sections_of(n) and plan.stays(n)
        }
        self.guessed: set[int] = set()
        self.tasked: set[int] = set()
        self.parted: set[int] = set()
        for n in range(1, len(turns)) if plan.splitter.has_neighbours else ():
            before = turns[n - 1]
            joined = before.role == turns[n].role == "user" and not (
                before.next_header is not None or before.task
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


# A task that keeps the next user turn from joining one, and that is not written.
UNWRITTEN_TASK = "query"


def read_v4(scan: ScannedPrompt, interpretation: Interpretation) -> PromptReading:
    """Reads a prompt by one interpretation."""
    plan = PromptPlan(scan, interpretation)
    _MessageWriterV4(plan).write()
    return plan.reading


class _MessageWriterV4:
    """Writes the messages of a plan to its reading."""

    def __init__(self, plan: PromptPlan) -> None:
        self._plan = plan
        self._reading = plan.reading
        self._messages = plan.reading.messages
        self._text = plan.text
        self._pictures = ImageContent(plan.dialect.image_token, plan.scan.images)
        self._neighbours = AdjacentUserTurns(plan)
        # The number of calls in the last answer that has calls.
        self._calls = 0
        self._write_turn = {
            "system": self._system,
            "latest_reminder": self._reminder,
            "assistant": self._answer,
            "user": self._user,
        }

    def write(self) -> None:
        parted = self._neighbours.parted
        for n, turn in enumerate(self._plan.turns):
            self._write_turn[turn.role](n, turn)
            if turn.task is not None:
                self._put_task(turn.task)
            if n in parted:
                self._add("system", "")
        self._end()
        self._note_options()

    def _end(self) -> None:
        plan = self._plan
        last = plan.turns[-1] if plan.turns else None
        has_token = plan.dialect.system_token is not None
        if last is None and has_token:
            self._add("assistant", "", wo_eos=True)  # it writes nothing
        elif last is None:
            self._add("system", "")
        elif last.role == "user" and last.next_header is None and not (last.task or has_token):
            self._add("system", "")  # a user turn at the end would ask

    def _add(self, role: str, content: object, **fields: object) -> dict[str, Any]:
        message = {"role": role, "content": content, **fields}
        self._messages.append(message)
        return message

    def _content(self, start: int, end: int) -> Any:
        if self._plan.dialect.image_token is None:
            return self._text[start:end]
        before = self._pictures.unknown
        content = self._pictures.content(self._text[start:end])
        if self._pictures.unknown > before:
            self._note("image-unnamed", start, end, "the prompt does not say which picture this is")
        return content

    def _note(self, kind: str, start: int, end: int, text: str) -> None:
        """Adds a note about the message that is written next."""
        self._reading.note(kind, start, end, text, len(self._messages))

    # Turns.

    def _system(self, n: int, turn: PromptTurn) -> None:
        at = self._systems(n, turn.start)
        if at < turn.end or at == turn.start:
            self._add("system", self._content(at, turn.end))

    def _systems(self, n: int, at: int) -> int:
        """Writes system messages that end with tools or a format. Returns the rest's start."""
        for section in self._plan.sections_of(n):
            self._with_section("system", at, section)
            at = section.end
        return at

    def _with_section(self, role: str, start: int, section: Section) -> None:
        if not self._plan.interpretation.trusted:
            self._note(
                *("tools-from-text", section.start, section.end),
                "read as tools or a response format, which a text could also spell",
            )
        section.put_on(self._add(role, self._content(start, section.start)))

    def _reminder(self, n: int, turn: PromptTurn) -> None:
        self._add("latest_reminder", self._content(turn.start, turn.end))

    def _user(self, n: int, turn: PromptTurn) -> None:
        neighbours = self._neighbours
        if n in neighbours.guessed:
            self._note("developer-or-user", turn.start, turn.end, "read as a developer's turn")
            self._add("developer", self._content(turn.start, turn.end))
        elif turn.next_header is not None and not self._plan.is_structured(turn):
            self._user_text(turn.start, turn.end)
        elif n in neighbours.developers:
            self._with_section("developer", turn.start, self._plan.sections_of(n)[0])
        else:
            self._user_parts(n, n in neighbours.tasked)

    def _user_parts(self, n: int, tasked: bool) -> None:
        results = 0
        for part in self._plan.parts_of(n):
            if part.is_result:
                self._result(part, results)
                results += 1
                continue
            self._user_text(part.start, part.end)
            if tasked:
                self._note("developer-or-user", part.start, part.end, "kept apart by a task")
                self._messages[-1]["task"], tasked = UNWRITTEN_TASK, False

    def _user_text(self, start: int, end: int) -> None:
        if self._text.find(BLANK_LINE, start, end) >= 0:
            self._note("users-joined", start, end, "may have been several messages")
        self._messages.append({"role": "user", "content": self._content(start, end)})

    def _result(self, part: UserTurnPart, number: int) -> None:
        """Writes a result with the id of a call: one of no call would be sorted to the front."""
        if not self._calls:
            self._note("results-guessed", part.start, part.end, "read as a result, without a call")
        call = min(number, self._calls - 1) if self._calls else number
        self._add("tool", self._content(part.start, part.end), tool_call_id=f"call_{call}")

    def _answer(self, n: int, turn: PromptTurn) -> None:
        at, end = turn.start, turn.end
        if turn.header is None:
            at = self._systems(n, at)
        if turn.header is None and not turn.after_task:
            self._note("boundary-lost", turn.start, turn.end, "no header shows where it begins")
        reasoning = None
        if self._plan.shows_reasoning(n):
            think_end = self._plan.dialect.tokens.think_end
            reasoning_end = self._text.find(think_end, at, end)
            if reasoning_end < 0 and self._is_open_end(n, turn):
                self._reading.prefix = self._text[at:end]
                self._note("open-reasoning", at, end, "reasoning that has not ended")
                return
            if reasoning_end >= 0:
                reasoning, at = self._text[at:reasoning_end], reasoning_end + len(think_end)
        elif turn.header is LexemeKind.ANSWER and self._reading.thinking and n < self._plan.last:
            self._note("reasoning-dropped", at, at, "its reasoning was left out of the prompt")
        block = self._plan.scan.blocks.ending_at(at, end)
        if block is not None:
            self._note("ids-invented", block[0], end, "the ids of calls are not in a prompt")
            self._note("arguments-respelled", block[0], end, "as the format writes JSON")
        if not turn.closed:
            if (choice := self._forced(n, turn)) is not None:
                self._reading.tool_choice = choice
                return
            self._note("open-turn", turn.start, end, "a turn without its end")
        content = self._content(at, end if block is None else block[0])
        fields = {"reasoning_content": reasoning, "wo_eos": not turn.closed}
        calls = {} if block is None else {"tool_calls": block[1]}
        self._calls = self._calls if block is None else len(block[1])
        given = {field: value for field, value in fields.items() if value}
        self._messages.append({"role": "assistant", "content": content, **given, **calls})

    def _forced(self, n: int, turn: PromptTurn) -> str | None:
        """The tool choice that opens a call at the end of the prompt, if one is open there."""
        if n < len(self._plan.turns) - 1 or turn.header is not LexemeKind.ANSWER:
            return None
        tags, text = self._plan.dialect.tags, self._text[turn.start : turn.end]
        if not text.startswith(tags.block_open):
            return None
        names = [t["function"]["name"] for m in self._messages for t in m.get("tools", ())]
        openings = {"required": str(tags.block_open)} if names else {}
        for name in names:
            openings.setdefault(name, f"{tags.block_open}{tags.invoke_open}{name}{tags.name_end}")
        return next((choice for choice, opening in openings.items() if opening == text), None)

    def _is_open_end(self, n: int, turn: PromptTurn) -> bool:
        last = n == len(self._plan.turns) - 1
        return last and not turn.closed and turn.header is LexemeKind.THINK

    def _put_task(self, task: str) -> None:
        message = self._messages[-1]
        message["task"] = task
        if task == "read_url" and isinstance(message["content"], str):
            url_token = self._plan.dialect.tokens.extracted_url
            before, token, url = message["content"].rpartition(url_token)
            if token and url:
                message["content"], message["extracted_url"] = before, url

    # Options.

    def _note_options(self) -> None:
        plan, reading = self._plan, self._reading
        end = plan.start
        for lexeme in plan.splitter.demoted:
            spelling = self._text[lexeme.start : lexeme.end]
            reading.note("token-as-text", lexeme.start, lexeme.end, f"{spelling} has no place here")
        if not plan.splitter.headers and reading.effort is None:
            reading.note("mode-guessed", 0, end, "nothing shows whether the model thinks")
        if reading.thinking and _is_ambiguous(reading.effort, plan.dialect):
            reading.note("effort-ambiguous", 0, end, "other efforts write the same")
        if reading.context:
            reading.note("context-assumed", 0, end, "written after something else")


def _is_ambiguous(effort: str | int | None, dialect: Dialect) -> bool:
    text = dialect.efforts.get(effort)
    return sum(other == text for other in dialect.efforts.values()) > 1
