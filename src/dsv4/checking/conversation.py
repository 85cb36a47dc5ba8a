"""What became of a conversation in its prompt, and what will surprise whoever wrote it.

Most findings compare what the messages say with what the prompt shows, so that they hold in every
mode and dialect.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

from dsv4.checking.findings import Finding, Location, path_of
from dsv4.encoding.conventions import NATIVE
from dsv4.encoding.pieces import Piece
from dsv4.encoding.prompt import Prompt
from dsv4.errors import shown
from dsv4.format import tokens
from dsv4.reading.bodies import role_of
from dsv4.request import Request


class Conversation:
    """A conversation that can be encoded, and what became of it. `passed` messages are known to be
    wrong: nothing more is said of them."""

    def __init__(self, request: Request, prompt: Prompt, passed: set[int | None]) -> None:
        self.request = request
        self.messages: Sequence[dict[str, Any]] = list(request.messages)
        self.prompt = prompt
        self.passed = passed

    def warnings(self) -> list[Finding]:
        kinds = (
            *(self.unmatched_results, self.unanswered_calls, self.undeclared_calls),
            *(self.odd_arguments, self.doubled_tools, self.dropped_reasoning, self.kept_reasoning),
            *(self.lost_fields, self.vanished, self.spelled_tokens, self.nothing_to_generate),
        )
        return [finding for kind in kinds for finding in kind() if self._counts(finding)]

    def _counts(self, finding: Finding) -> bool:
        return finding.index is None or finding.index not in self.passed

    @cached_property
    def written(self) -> set[tuple[int | None, str]]:
        """The fields of messages that are in the prompt with some text of their own."""
        return {
            (piece.message, piece.field)
            for piece in self.prompt.pieces
            if not piece.special or piece.field in ("task", "header")
        }

    @cached_property
    def present(self) -> set[int | None]:
        """The messages that are in the prompt at all."""
        return {piece.message for piece in self.prompt.pieces}

    # Calls and results.

    def unmatched_results(self) -> Iterator[Finding]:
        """Results that no call asked for, or that come a second time."""
        waiting: list[str] = []
        known: set[str] = set()
        for index, message in enumerate(self.messages):
            if role_of(message) == "assistant":
                waiting = [_call_id(call) for call in _calls(message)]
                known |= set(waiting)
            elif role_of(message) == "tool":
                problem = _take_call(waiting, str(message.get("tool_call_id") or ""), known)
                if problem:
                    yield _warning(("messages", index), "result_without_call", problem)

    def unanswered_calls(self) -> Iterator[Finding]:
        """Calls that the conversation goes on without."""
        for index, message in enumerate(self.messages):
            calls = _calls(message)
            answers = self._answers(index) if calls else None
            if answers is None:
                continue
            for n, call in enumerate(calls):
                if not _take_answer(answers, _call_id(call)):
                    place = ("messages", index, "tool_calls", n)
                    problem = f"the call of {_called(call)} has no result"
                    yield _warning(place, "call_without_result", problem)

    def _answers(self, index: int) -> list[str] | None:
        """The ids of the results before the next answer; None where the conversation ends."""
        if index == len(self.messages) - 1:
            return None
        ids: list[str] = []
        for message in self.messages[index + 1 :]:
            if role_of(message) == "assistant":
                break
            if role_of(message) == "tool":
                ids.append(str(message.get("tool_call_id") or ""))
        return ids

    def undeclared_calls(self) -> Iterator[Finding]:
        declared = {name for _, name in self._tool_names()}
        if not declared:
            return
        for index, n, call in self._all_calls():
            name = _called(call)
            if name not in declared:
                place = ("messages", index, "tool_calls", n, "function", "name")
                yield _warning(place, "undeclared_tool", f"no tool {shown(name)} is declared")

    def odd_arguments(self) -> Iterator[Finding]:
        for index, n, call in self._all_calls():
            arguments = call["function"].get("arguments")
            if isinstance(arguments, str) and not _is_json(arguments):
                place = ("messages", index, "tool_calls", n, "function", "arguments")
                problem = (
                    f"{shown(arguments)} is not JSON: it is written as one parameter, `arguments`"
                )
                yield _warning(place, "arguments_not_json", problem)

    def _all_calls(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        for index, message in enumerate(self.messages):
            for n, call in enumerate(_calls(message)):
                yield index, n, call

    # Tools.

    def doubled_tools(self) -> Iterator[Finding]:
        seen: dict[str, Location] = {}
        for place, name in self._tool_names():
            if name in seen:
                problem = f"{shown(name)} is the name of {path_of(seen[name])} too"
                yield _warning(place, "duplicate_tool", problem)
            seen.setdefault(name, place)

    def _tool_names(self) -> Iterator[tuple[Location, str]]:
        yield from _names(self.request.tools, ("tools",))
        for index, message in enumerate(self.messages):
            yield from _names(message.get("tools"), ("messages", index, "tools"))

    # What the format leaves out.

    def dropped_reasoning(self) -> Iterator[Finding]:
        for index, field in self._with_reasoning():
            if (index, "reasoning") in self.written:
                continue
            if not self.request.thinking:
                problem = "chat mode writes no reasoning"
            elif self._answers_task(index):
                problem = "the answer to a task has no reasoning"
            else:
                problem = "reasoning before the last user turn is dropped"
            yield _warning(("messages", index, field), "dropped_reasoning", problem)

    def kept_reasoning(self) -> Iterator[Finding]:
        """Tools switch dropping off: said once, where there is something that would be dropped."""
        if not (self.request.thinking and self.request.drop_thinking):
            return
        # Not before results: in a round of calls, the reasoning is meant to stay.
        asking = [n for n, m in enumerate(self.messages) if role_of(m) in ("user", "developer")]
        last = max(asking, default=-1)
        kept = [
            n for n, _ in self._with_reasoning() if n < last and (n, "reasoning") in self.written
        ]
        if kept:
            tools = next((place[:-1] for place, _ in self._tool_names()), ("messages",))
            problem = f"tools keep all reasoning in the prompt: that of {_listed(kept)} as well"
            yield _warning(tools, "tools_keep_reasoning", problem)

    def _with_reasoning(self) -> Iterator[tuple[int, str]]:
        for index, message in enumerate(self.messages):
            if role_of(message) == "assistant":
                field = next((name for name in NATIVE.reasoning_fields if message.get(name)), None)
                if field is not None:
                    yield index, field

    def _answers_task(self, index: int) -> bool:
        return index > 0 and self.messages[index - 1].get("task") is not None

    def lost_fields(self) -> Iterator[Finding]:
        """Fields that are not written where they stand."""
        for index, message in enumerate(self.messages):
            for field in ("task", "tools", "response_format"):
                given = message.get(field) if field != "task" else message.get(field) is not None
                if given and (index, field) not in self.written and not self._is_gone(index):
                    place = ("messages", index, field)
                    yield _warning(place, f"lost_{field}", self._why_lost(index, field))

    def _why_lost(self, index: int, field: str) -> str:
        role, before = role_of(self.messages[index]), self.messages[index - 1] if index else None
        if role == "tool" or (role == "user" and role_of(before) in ("user", "tool")):
            return f"the message joins the turn before it, and its {field} is lost"
        if field == "task":
            return "what follows is no answer, so the task is not written"
        return f"messages of role {role} write no {field}"

    def vanished(self) -> Iterator[Finding]:
        for index, message in enumerate(self.messages):
            if self._is_gone(index) and role_of(message) == "developer":
                problem = "a developer message before the last user turn is dropped as a whole"
                yield _warning(("messages", index), "dropped_message", problem)

    def _is_gone(self, index: int) -> bool:
        return index not in self.present

    # The text.

    def spelled_tokens(self) -> Iterator[Finding]:
        text, pieces = str(self.prompt), self.prompt.pieces
        ends = list(accumulate(len(piece.text) for piece in pieces))
        for start, end in self.prompt.special_text:
            piece = pieces[bisect_left(ends, end)]
            owner: Location = () if piece.message is None else ("messages", piece.message)
            place = (*owner, piece.field)
            problem = f"the text spells the special token {text[start:end]}"
            yield _warning(place, "special_token_in_text", problem)

    def nothing_to_generate(self) -> Iterator[Finding]:
        last = self.prompt.pieces[-1] if self.prompt.pieces else None
        if last is None or not _asks(last):
            finished = last is not None and last.field == "eos"
            how = "is finished" if finished else "asks for no answer"
            problem = f"nothing to generate: the last turn {how}"
            yield _warning(("messages", len(self.messages) - 1), "nothing_to_generate", problem)


def _asks(last: Piece) -> bool:
    """Whether the model writes something after the last piece of a prompt."""
    if last.origin == "model":
        return last.field != "eos"
    return last.special and last.field in ("header", "task") and last.text not in _TURNS


# Turns that are opened with one of these, and then hold nothing, ask for no answer.
_TURNS = (tokens.USER, tokens.SYSTEM, tokens.LATEST_REMINDER)


def _warning(location: Location, kind: str, problem: str) -> Finding:
    return Finding("warning", kind, location, problem)


def _calls(message: dict[str, Any]) -> Sequence[dict[str, Any]]:
    return message.get("tool_calls") or () if role_of(message) == "assistant" else ()


def _call_id(call: dict[str, Any]) -> str:
    return str(call.get("id") or "")


def _called(call: dict[str, Any]) -> str:
    return str(call["function"]["name"])


def _take_call(waiting: list[str], id: str, known: set[str]) -> str | None:
    """Takes the call that a result answers out of those that wait. Says why it cannot."""
    if id in waiting:
        waiting.remove(id)
        return None
    if not id and any(waiting):
        return "the result has no tool_call_id, so nothing says which call it answers"
    if not known:
        return "the result answers no call: there was none before it"
    if id in known:
        return f"the call {shown(id)} has a result already, or is of an earlier turn"
    return f"no call has the id {shown(id)}"


def _take_answer(answers: list[str], id: str) -> bool:
    if id in answers:
        answers.remove(id)
        return True
    if "" in answers:
        answers.remove("")
        return True
    return False


def _names(tools: Any, place: Location) -> Iterator[tuple[Location, str]]:
    for n, tool in enumerate(tools if isinstance(tools, list) else ()):
        function = tool.get("function", tool) if isinstance(tool, dict) else None
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            yield (*place, n), function["name"]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _listed(indices: Sequence[int]) -> str:
    few = ", ".join(f"messages[{index}]" for index in indices[:3])
    return f"{few} and {len(indices) - 3} more" if len(indices) > 3 else few
