"""Where the prompts of two servers differ, and why: a table of differences, and the comparison of
one request.

docs/servers.md shows the table. A cell holds the words for both dialects, or for V4 and V4.1
separately.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from dsv4.errors import EncodeError, Location
from dsv4.profiles import request_facts
from dsv4.profiles.profile import Profile, profile_named, render
from dsv4.profiles.request_facts import RequestFact
from dsv4.profiles.server_requests import (
    Object,
    RequestBody,
    ThinkingMode,
    as_object,
    served_dialect,
)

# The table: a row for each difference, a cell for each server.


CellWords: TypeAlias = str | tuple[str, str]

# The columns of the table: a profile, and the name of its cell.
DIFFERENCE_COLUMNS = {
    "vllm-0.33": "vllm",
    "vllm-0.32": "vllm_0_32",
    "sglang-0.5.23": "sglang",
    "recipe-0.2.0": "recipe",
    "llama.cpp": "llama_august",
    "llama.cpp-2026.10": "llama",
    "verl-0.9.1": "verl",
}
# Cells that may be left out, and those that hold for them then.
_SAME_CELLS = {"vllm_0_32": "vllm", "sglang": "recipe", "llama_august": "llama"}


@dataclass(frozen=True, kw_only=True)
class ServerDifference:
    """A row: what it is about, which requests it applies to, and each server's way.

    SGLang writes its prompts with deepseek-recipe, so its cell may be left out, and so may those of
    an older vLLM and an older llama.cpp. Some rows matter only where a server lets the model think.
    """

    kind: str
    title: str
    applies_to: RequestFact
    vllm: CellWords
    recipe: CellWords
    llama: CellWords
    verl: CellWords
    vllm_0_32: CellWords | None = None
    sglang: CellWords | None = None
    llama_august: CellWords | None = None
    matters_in_chat: bool = True

    def cell(self, profile: str) -> CellWords:
        column = DIFFERENCE_COLUMNS[profile]
        found: CellWords | None = getattr(self, column)
        same: CellWords = getattr(self, _SAME_CELLS.get(column, column))
        return same if found is None else found

    def words(self, profile: str, dialect: str) -> str:
        """What a server does, in words."""
        cell = self.cell(profile)
        return cell if isinstance(cell, str) else cell[dialect == "v4.1"]


_AFTER_LAST_TURN = (
    "written after the last user turn; everywhere with tools or `drop_thinking: false`"
)

DIFFERENCES: tuple[ServerDifference, ...] = (
    ServerDifference(
        kind="tools-place",
        title="where the tools section goes",
        applies_to=request_facts.tools_and_systems,
        vllm="after the first system message, wherever it stands; else in front",
        recipe=(
            "after all system messages, in front",
            "after the first message if it is a system message, else in front",
        ),
        llama="after all system messages, in front; without any, no blank line before it",
        verl="in front, before the system text",
    ),
    ServerDifference(
        kind="tools-first",
        title="tools and one system message, in front",
        applies_to=request_facts.tools_and_leading_system,
        vllm="the tools section after its text",
        recipe="the tools section after its text",
        llama="the tools section after its text",
        verl="the tools section before its text",
    ),
    ServerDifference(
        kind="tools-empty",
        title="`tools: []`",
        applies_to=request_facts.no_tools_list,
        vllm="refused",
        recipe="no tools",
        llama="no tools",
        verl="no tools",
    ),
    ServerDifference(
        kind="schema-fields",
        title="the fields of a tool",
        applies_to=request_facts.odd_schemas,
        vllm="name, description, parameters, null where absent; then `strict`, if given",
        recipe='name, description (`""`), parameters (`{}`); `strict: true` rebuilds the parameters'
        "; names and schemas are checked",
        llama='name, description (`""`), parameters (`{}`); refused: a null description, and '
        "parameters that no grammar can be made of",
        llama_august='name, description (`""`), parameters (`{}`); a null description is refused',
        verl="as given",
    ),
    ServerDifference(
        kind="choice-none",
        title='`tool_choice: "none"`',
        applies_to=request_facts.choice_none,
        vllm="the tools stay in the prompt",
        recipe="no tools section, and old reasoning is dropped",
        llama="the tools stay in the prompt",
        verl="the tools stay in the prompt",
    ),
    ServerDifference(
        kind="choice-required",
        title='`tool_choice: "required"`',
        applies_to=request_facts.choice_required,
        vllm="leaves no trace",
        sglang="leaves no trace",
        recipe="needs thinking to be off; the prompt ends with an open block of calls",
        llama="leaves no trace",
        verl="leaves no trace",
    ),
    ServerDifference(
        kind="choice-named",
        title="`tool_choice` names a tool",
        applies_to=request_facts.choice_named,
        vllm="leaves no trace; all tools stay",
        sglang="only that tool is shown",
        recipe="only that tool is shown; needs thinking to be off; the prompt ends with an open "
        "block of calls",
        llama="leaves no trace; all tools stay",
        verl="leaves no trace; all tools stay",
    ),
    ServerDifference(
        kind="choice-without-tools",
        title="`tool_choice` without tools",
        applies_to=request_facts.choice_without_tools,
        vllm="refused",
        recipe="ignored",
        llama="ignored",
        verl="ignored",
    ),
    ServerDifference(
        kind="calls-order",
        title="parallel calls",
        applies_to=request_facts.unsorted_calls,
        vllm="as given",
        recipe=("sorted by id, and their results too", "as given"),
        llama="as given",
        verl="as given",
    ),
    ServerDifference(
        kind="results-order",
        title="results",
        applies_to=request_facts.results_out_of_order,
        vllm="in the order of the calls; an unknown id comes first",
        recipe=(
            "sorted by id; one for each call, right after it, else refused",
            "in the order of the calls; one for each call, right after it, else refused",
        ),
        llama="in the order of the calls, an unknown id first; any number of them; those after a "
        "system message by themselves",
        verl="as given; any number of them",
    ),
    ServerDifference(
        kind="arguments-empty",
        title="a call without arguments (`{}`)",
        applies_to=request_facts.empty_arguments,
        vllm="an empty line",
        recipe=("no line", "an empty line"),
        llama="an empty line",
        verl="an empty line",
    ),
    ServerDifference(
        kind="arguments-malformed",
        title="arguments that are no JSON object",
        applies_to=request_facts.lost_arguments,
        vllm="lost: written as a call without arguments",
        recipe="one parameter named `arguments`, as text",
        llama="refused; but null stands for none",
        llama_august="refused",
        verl="one parameter named `arguments`",
    ),
    ServerDifference(
        kind="arguments-object",
        title="arguments given as an object",
        applies_to=request_facts.arguments_as_object,
        vllm="refused",
        sglang="read as if they were text",
        recipe="refused",
        llama="read as if they were text",
        verl="read as if they were text",
    ),
    ServerDifference(
        kind="arguments-nan",
        title="arguments that only Python takes for JSON (`NaN`, `1e400`)",
        applies_to=request_facts.odd_json,
        vllm="read as Python reads them",
        recipe="one parameter named `arguments`, as text",
        llama="refused",
        llama_august="read, and written as a C++ stream writes them",
        verl="read as Python reads them",
    ),
    ServerDifference(
        kind="numbers",
        title="numbers in arguments and schemas",
        applies_to=request_facts.numbers,
        vllm="as Python writes them",
        sglang="as deepseek-recipe; integers beyond 64 bits in a schema are refused",
        recipe=(
            "small floats not as Python (`0.00001`, `1e-7`); integers beyond 64 bits are floats",
            "as Python writes them; integers beyond 64 bits are floats",
        ),
        llama="rounded to six significant digits; integers from 2^63 to 2^64 become negative, "
        "larger ones floats",
        llama_august="rounded to six significant digits; integers beyond 63 bits are floats",
        verl="as Python writes them",
    ),
    ServerDifference(
        kind="minus-zero",
        title="`-0` in arguments",
        applies_to=request_facts.minus_zero,
        vllm="`0`",
        recipe="`-0.0`",
        llama="`0`",
        verl="`0`",
    ),
    ServerDifference(
        kind="content-lists",
        title="content in several parts is joined with",
        applies_to=request_facts.lists,
        vllm=("a blank line; a tool's result with a line break", "a blank line"),
        recipe="a blank line",
        llama="a line break; a blank line in an answer that is gone on with",
        verl="nothing",
    ),
    ServerDifference(
        kind="images",
        title="parts that are no text",
        applies_to=request_facts.images,
        vllm="not covered by this profile",
        recipe=("`[Unsupported Image]`", "a placeholder for each image"),
        llama="refused",
        verl="left out",
    ),
    ServerDifference(
        kind="content-null",
        title="null content",
        applies_to=request_facts.null_content,
        vllm="refused, but for assistants",
        sglang="empty; refused for users",
        recipe="refused, but for an assistant with calls",
        llama="empty; no content at all is refused, but for an assistant with calls",
        verl="empty",
    ),
    ServerDifference(
        kind="json-object",
        title="`response_format: json_object`",
        applies_to=request_facts.json_object,
        vllm="leaves no trace",
        recipe=(
            "asks for a JSON object in words of its own; refused if no message says `json`",
            'asks for the schema `{"type": "json_object"}`; refused if no message says `json`',
        ),
        llama='asks for the schema `{"type": "object"}`',
        llama_august="asks for the schema `{}`",
        verl="leaves no trace",
    ),
    ServerDifference(
        kind="json-schema",
        title="`response_format: json_schema`",
        applies_to=request_facts.json_schema,
        vllm="leaves no trace",
        recipe="the schema is shown; refused with strict tools",
        llama='the schema is shown, an empty one as `{"type": "object"}`',
        llama_august="the schema is shown",
        verl="leaves no trace",
    ),
    ServerDifference(
        kind="json-schema-own",
        title="a `json_schema` of the request itself",
        applies_to=request_facts.own_json_schema,
        vllm="ignored",
        recipe="ignored",
        llama="the schema is shown",
        verl="ignored",
    ),
    ServerDifference(
        kind="system-later",
        title="a system message further down",
        applies_to=request_facts.later_system,
        vllm=("in its place, as plain text", "in its place, as a system turn that asks"),
        recipe=("moved to the front, to the others", "in its place, as a system turn"),
        llama="moved to the front, to the others",
        verl="in its place, as plain text",
    ),
    ServerDifference(
        kind="system-asks",
        title="a system message before an answer, or last",
        applies_to=request_facts.lone_system,
        vllm="the header of an answer follows it",
        recipe="the header comes with the answer, or at the end",
        llama="the header comes with the answer, or at the end",
        verl="the header comes with the answer, or at the end",
    ),
    ServerDifference(
        kind="system-empty",
        title="an empty system message",
        applies_to=request_facts.empty_system,
        vllm=("nothing", "opens a system turn"),
        recipe="left out",
        llama="nothing",
        verl="nothing",
    ),
    ServerDifference(
        kind="system-billing",
        title="a billing header in the system message",
        applies_to=request_facts.billing,
        vllm=("its line is cut", "kept"),
        recipe="cut",
        llama="kept",
        verl="kept",
    ),
    ServerDifference(
        kind="developer",
        title="a developer message",
        applies_to=request_facts.developer,
        vllm="a user turn, which vanishes before the last one unless old reasoning is kept",
        sglang="becomes a system message",
        recipe="refused",
        llama="becomes a system message",
        verl="a turn of its own with the token of a user",
    ),
    ServerDifference(
        kind="reminder",
        title="a `latest_reminder` message",
        applies_to=request_facts.reminder,
        vllm=("in its place; the header before it", "refused"),
        recipe=(
            "in its place; the header after it",
            "in its place; the header after it; the second of two is left out",
        ),
        llama="left out",
        verl="in its place; the header after it",
    ),
    ServerDifference(
        kind="role-unknown",
        title="a role that is not known",
        applies_to=request_facts.unknown_role,
        vllm=("vanishes where a developer message does, else refused", "refused"),
        recipe="refused",
        llama="left out",
        verl="refused",
    ),
    ServerDifference(
        kind="reasoning-old",
        title="reasoning of earlier answers",
        applies_to=request_facts.answers_without_tools,
        matters_in_chat=False,
        vllm=(_AFTER_LAST_TURN, f"{_AFTER_LAST_TURN}; results alone are no user turn"),
        vllm_0_32=_AFTER_LAST_TURN,
        recipe="written only where a tools section is",
        llama="written after the last user turn; everywhere with tools or any tool message",
        verl=_AFTER_LAST_TURN,
    ),
    ServerDifference(
        kind="answer-last",
        title="an assistant message at the end",
        applies_to=request_facts.answer_last,
        vllm="a closed turn; the prompt ends there",
        sglang="becomes a user message; its calls and reasoning are lost",
        recipe="history: a new answer begins after it",
        llama="continued: left open; nothing of an empty one; refused with calls, or after another",
        llama_august="continued: left open, without its calls; nothing of an empty one; refused "
        "after another",
        verl="history: a new answer begins after it",
    ),
    ServerDifference(
        kind="answer-prefix",
        title="`prefix: true` on it",
        applies_to=request_facts.prefix,
        vllm="ignored",
        sglang="ignored",
        recipe="continued: left open; not with tools, calls or json_object",
        llama="continued, as without it",
        verl="ignored",
    ),
    ServerDifference(
        kind="answer-header",
        title="an answer that follows no user turn",
        applies_to=request_facts.answer_without_question,
        vllm="no header",
        recipe="a header before every answer",
        llama="a header before every answer",
        verl="a header before every answer",
    ),
    ServerDifference(
        kind="user-empty",
        title="an empty user message among others",
        applies_to=request_facts.empty_user_in_run,
        vllm="adds a blank line",
        recipe=("left out", "adds a blank line"),
        llama="adds a blank line",
        verl="adds a blank line",
    ),
    ServerDifference(
        kind="task",
        title="`task`",
        applies_to=request_facts.task,
        vllm="of a message: its token is written",
        sglang="of the request: its token is written",
        recipe="ignored",
        llama="ignored",
        verl="of a message: its token is written",
    ),
    ServerDifference(
        kind="messages-none",
        title="no messages",
        applies_to=request_facts.no_messages,
        vllm="a prompt without turns",
        recipe="refused",
        llama="the header of an answer",
        verl="a prompt without turns",
    ),
    ServerDifference(
        kind="generation-prompt",
        title="`add_generation_prompt: false`",
        applies_to=request_facts.no_generation_prompt,
        vllm="ignored",
        recipe="ignored",
        llama="no header at the end",
        verl="ignored",
    ),
)


# The comparison of one request.


@dataclass(frozen=True)
class Reason:
    """Something that two servers do differently with a request.

    `location` is the place in the request that it is about; empty where it is about all of it.
    """

    kind: str
    location: Location
    message: str


@dataclass(frozen=True)
class Side:
    """What one server makes of the request: a prompt, or an error."""

    profile: Profile
    prompt: str | None
    error: EncodeError | None


@dataclass(frozen=True)
class Comparison:
    """Two servers' prompts for one request.

    `shared` is the number of characters they begin with alike. `reasons` is empty where they write
    the same.
    """

    first: Side
    second: Side
    shared: int
    reasons: tuple[Reason, ...]

    @property
    def same(self) -> bool:
        """Whether both servers build the same prompt. A request that both refuse has none."""
        return self.first.prompt == self.second.prompt is not None


def compare(
    body: RequestBody, first: str | Profile, second: str | Profile, *, dialect: str = "v4"
) -> Comparison:
    """Say where the prompts of two servers part for one request, and why.

    `body`, `dialect` and the servers `first` and `second` are as for `render`. Raises `EncodeError`
    for a name or a dialect that is not known; a request that a server refuses is a `Side` with an
    error.
    """
    served_dialect(dialect)
    sides = _side(body, first, dialect), _side(body, second, dialect)
    texts = tuple(side.prompt or "" for side in sides)
    shared = _same_start(*texts)
    same = sides[0].prompt == sides[1].prompt is not None
    reasons = () if same else tuple(_reasons(as_object(body), sides, dialect))
    return Comparison(*sides, shared, reasons)


def _side(body: RequestBody, name: str | Profile, dialect: str) -> Side:
    profile = profile_named(name)
    try:
        return Side(profile, render(body, name, dialect=dialect), None)
    except EncodeError as error:
        return Side(profile, None, error)


def _same_start(a: str, b: str) -> int:
    differing = (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return next(differing, min(len(a), len(b)))


def _reasons(body: Object, sides: tuple[Side, Side], dialect: str) -> Iterator[Reason]:
    for side in sides:
        if side.error is not None:
            message = f"{side.profile.server} refuses the request: {side.error}"
            yield Reason("refused", side.error.location, message)
    yield from _fault_reasons(sides)
    thinking = True
    if all(side.error is None for side in sides):
        thinking = any(_mode(side, body, dialect).thinking for side in sides)
        yield from _modes(body, sides, dialect)
    for row in DIFFERENCES:
        if not thinking and not row.matters_in_chat:
            continue
        location = row.applies_to(body)
        words = [_words(row, side.profile, dialect) for side in sides]
        if location is not None and words[0] != words[1]:
            ways = "; ".join(
                f"{side.profile.server}: {way}" for side, way in zip(sides, words, strict=True)
            )
            yield Reason(row.kind, location, f"{row.title}. {ways}")


def _words(row: ServerDifference, profile: Profile, dialect: str) -> str:
    """What a server does, in words. The gateway's way is not in the table."""
    if profile.base_name not in DIFFERENCE_COLUMNS:
        return "as the released encoder"
    return row.words(profile.base_name, dialect)


def _fault_reasons(sides: tuple[Side, Side]) -> Iterator[Reason]:
    """The faults of saved servers."""
    for side in sides:
        for fault in side.profile.faults:
            yield Reason("fault", (), f"{side.profile.server}: {fault.fault.message}")


def _mode(side: Side, body: Object, dialect: str) -> ThinkingMode:
    return side.profile.mode(body, side.profile.own_dialect(dialect))


def _modes(body: Object, sides: tuple[Side, Side], dialect: str) -> Iterator[Reason]:
    first, second = (_mode(side, body, dialect) for side in sides)
    names = [side.profile.server for side in sides]
    if first.thinking != second.thinking:
        thinks, not_ = names if first.thinking else reversed(names)
        message = f"{thinks} lets the model think, {not_} does not"
        yield Reason("thinking", _mode_location(body), message)
    elif first.effort != second.effort:
        written = [_effort_words(mode.effort) for mode in (first, second)]
        message = f"{names[0]} writes {written[0]}, {names[1]} {written[1]}"
        yield Reason("effort", _mode_location(body), message)


def _mode_location(body: Object) -> Location:
    """The option that has to do with thinking, if the request has one."""
    for field in ("reasoning_effort", "thinking", "chat_template_kwargs"):
        if body.get(field) is not None:
            return (field,)
    return ()


def _effort_words(effort: str) -> str:
    if not effort:
        return "no effort text"
    start = effort.split("\n")[0].removeprefix("Reasoning Effort: ")
    return f"“Reasoning Effort: {start[:40].rstrip(' .')}…”"
