"""What servers do differently, as a table: a row for each topic, a cell for each server.

docs/servers.md shows the table. A cell holds the words for both dialects, or for V4 and V4.1 apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from dsv4.profiles import asked
from dsv4.profiles.asked import Touches

Words: TypeAlias = str | tuple[str, str]

# The columns of the table: a profile, and the name of its cell.
COLUMNS = {
    "vllm-0.32": "vllm",
    "sglang-0.5.23": "sglang",
    "recipe-0.2.0": "recipe",
    "llama.cpp": "llama",
}


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A row: what it is about, which requests touch on it, and each server's way.

    SGLang writes its prompts with deepseek-recipe, so its cell may be left out. Some topics matter
    only where a server lets the model think.
    """

    kind: str
    title: str
    touches: Touches
    vllm: Words
    recipe: Words
    llama: Words
    sglang: Words | None = None
    matters_in_chat: bool = True

    def cell(self, profile: str) -> Words:
        found: Words | None = getattr(self, COLUMNS[profile])
        return self.recipe if found is None else found

    def words(self, profile: str, dialect: str) -> str:
        """What a server does, in words."""
        cell = self.cell(profile)
        return cell if isinstance(cell, str) else cell[dialect == "v4.1"]


TOPICS: tuple[Topic, ...] = (
    Topic(
        kind="tools-place",
        title="where the tools section goes",
        touches=asked.tools_and_systems,
        vllm="after the first system message, wherever it stands; else in front",
        recipe=(
            "after all system messages, in front",
            "after the first message if it is a system message, else in front",
        ),
        llama="after all system messages, in front; without any, no blank line before it",
    ),
    Topic(
        kind="tools-empty",
        title="`tools: []`",
        touches=asked.no_tools_list,
        vllm="refused",
        recipe="no tools",
        llama="no tools",
    ),
    Topic(
        kind="schema-fields",
        title="the fields of a tool",
        touches=asked.odd_schemas,
        vllm="name, description, parameters, null where absent; then `strict`, if given",
        recipe='name, description (`""`), parameters (`{}`); `strict: true` rebuilds the parameters'
        "; names and schemas are checked",
        llama='name, description (`""`), parameters (`{}`); a null description is refused',
    ),
    Topic(
        kind="choice-none",
        title='`tool_choice: "none"`',
        touches=asked.choice_none,
        vllm="the tools stay in the prompt",
        recipe="no tools section, and old reasoning is dropped",
        llama="the tools stay in the prompt",
    ),
    Topic(
        kind="choice-required",
        title='`tool_choice: "required"`',
        touches=asked.choice_required,
        vllm="leaves no trace",
        sglang="leaves no trace",
        recipe="needs thinking to be off; the prompt ends with an open block of calls",
        llama="leaves no trace",
    ),
    Topic(
        kind="choice-named",
        title="`tool_choice` names a tool",
        touches=asked.choice_named,
        vllm="leaves no trace; all tools stay",
        sglang="that tool alone is shown",
        recipe="that tool alone is shown; needs thinking to be off; the prompt ends with an open "
        "block of calls",
        llama="leaves no trace; all tools stay",
    ),
    Topic(
        kind="choice-without-tools",
        title="`tool_choice` without tools",
        touches=asked.choice_without_tools,
        vllm="refused",
        recipe="ignored",
        llama="ignored",
    ),
    Topic(
        kind="calls-order",
        title="parallel calls",
        touches=asked.unsorted_calls,
        vllm="as given",
        recipe=("sorted by id, and their results too", "as given"),
        llama="as given",
    ),
    Topic(
        kind="results-order",
        title="results",
        touches=asked.results_out_of_order,
        vllm="in the order of the calls; an unknown id comes first",
        recipe=(
            "sorted by id; one for each call, right after it, else refused",
            "in the order of the calls; one for each call, right after it, else refused",
        ),
        llama="in the order of the calls; any number of them",
    ),
    Topic(
        kind="arguments-empty",
        title="a call without arguments (`{}`)",
        touches=asked.empty_arguments,
        vllm="an empty line",
        recipe=("no line", "an empty line"),
        llama="an empty line",
    ),
    Topic(
        kind="arguments-malformed",
        title="arguments that are no JSON object",
        touches=asked.lost_arguments,
        vllm="lost: written as a call without arguments",
        recipe="one parameter named `arguments`, as text",
        llama="refused",
    ),
    Topic(
        kind="arguments-object",
        title="arguments given as an object",
        touches=asked.arguments_as_object,
        vllm="refused",
        sglang="read as if they were text",
        recipe="refused",
        llama="read as if they were text",
    ),
    Topic(
        kind="arguments-nan",
        title="arguments that only Python takes for JSON (`NaN`, `1e400`)",
        touches=asked.odd_json,
        vllm="read as Python reads them",
        recipe="one parameter named `arguments`, as text",
        llama="read, and written as a C++ stream writes them",
    ),
    Topic(
        kind="numbers",
        title="numbers in arguments and schemas",
        touches=asked.numbers,
        vllm="as Python writes them",
        sglang="as deepseek-recipe; integers beyond 64 bits in a schema are refused",
        recipe=(
            "small floats not as Python (`0.00001`, `1e-7`); integers beyond 64 bits are floats",
            "as Python writes them; integers beyond 64 bits are floats",
        ),
        llama="rounded to six significant digits",
    ),
    Topic(
        kind="minus-zero",
        title="`-0` in arguments",
        touches=asked.minus_zero,
        vllm="`0`",
        recipe="`-0.0`",
        llama="`0`",
    ),
    Topic(
        kind="content-lists",
        title="content in several parts is joined with",
        touches=asked.lists,
        vllm=("a blank line; a tool's result with a line break", "a blank line"),
        recipe="a blank line",
        llama="a line break",
    ),
    Topic(
        kind="images",
        title="parts that are no text",
        touches=asked.images,
        vllm="not covered by this profile",
        recipe=("`[Unsupported Image]`", "a placeholder for each image"),
        llama="not covered by this profile",
    ),
    Topic(
        kind="content-null",
        title="null content",
        touches=asked.null_content,
        vllm="refused, but for assistants",
        sglang="empty; refused for users",
        recipe="refused, but for an assistant with calls",
        llama="empty",
    ),
    Topic(
        kind="json-object",
        title="`response_format: json_object`",
        touches=asked.json_object,
        vllm="leaves no trace",
        recipe=(
            "asks for a JSON object in words of its own; refused if no message says `json`",
            'asks for the schema `{"type": "json_object"}`; refused if no message says `json`',
        ),
        llama="asks for the schema `{}`",
    ),
    Topic(
        kind="json-schema",
        title="`response_format: json_schema`",
        touches=asked.json_schema,
        vllm="leaves no trace",
        recipe="the schema is shown; refused with strict tools",
        llama="the schema is shown",
    ),
    Topic(
        kind="system-later",
        title="a system message further down",
        touches=asked.later_system,
        vllm=("in its place, as plain text", "in its place, as a system turn that asks"),
        recipe=("moved to the front, to the others", "in its place, as a system turn"),
        llama="moved to the front, to the others",
    ),
    Topic(
        kind="system-asks",
        title="a system message before an answer, or last",
        touches=asked.lone_system,
        vllm="the header of an answer follows it",
        recipe="the header comes with the answer, or at the end",
        llama="the header comes with the answer, or at the end",
    ),
    Topic(
        kind="system-empty",
        title="an empty system message",
        touches=asked.empty_system,
        vllm=("nothing", "opens a system turn"),
        recipe="left out",
        llama="nothing",
    ),
    Topic(
        kind="system-billing",
        title="a billing header in the system message",
        touches=asked.billing,
        vllm=("its line is cut", "kept"),
        recipe="cut",
        llama="kept",
    ),
    Topic(
        kind="developer",
        title="a developer message",
        touches=asked.developer,
        vllm="a user turn, which vanishes before the last one unless old reasoning is kept",
        sglang="becomes a system message",
        recipe="refused",
        llama="becomes a system message",
    ),
    Topic(
        kind="reminder",
        title="a `latest_reminder` message",
        touches=asked.reminder,
        vllm=("in its place; the header before it", "refused"),
        recipe=(
            "in its place; the header after it",
            "in its place; the header after it; the second of two is left out",
        ),
        llama="left out",
    ),
    Topic(
        kind="reasoning-old",
        title="reasoning of earlier answers",
        touches=asked.answers_without_tools,
        matters_in_chat=False,
        vllm="written after the last user turn; everywhere with tools or `drop_thinking: false`",
        recipe="written only where a tools section is",
        llama="written after the last user turn; everywhere with tools or any tool message",
    ),
    Topic(
        kind="answer-last",
        title="an assistant message at the end",
        touches=asked.answer_last,
        vllm="a closed turn; the prompt ends there",
        sglang="becomes a user message; its calls and reasoning are lost",
        recipe="history: a new answer begins after it",
        llama="continued: left open",
    ),
    Topic(
        kind="answer-prefix",
        title="`prefix: true` on it",
        touches=asked.prefix,
        vllm="ignored",
        sglang="ignored",
        recipe="continued: left open; not with tools, calls or json_object",
        llama="continued, as without it",
    ),
    Topic(
        kind="answer-header",
        title="an answer that follows no user turn",
        touches=asked.answer_without_question,
        vllm="no header",
        recipe="a header before every answer",
        llama="a header before every answer",
    ),
    Topic(
        kind="user-empty",
        title="an empty user message among others",
        touches=asked.empty_user_in_run,
        vllm="adds a blank line",
        recipe=("left out", "adds a blank line"),
        llama="adds a blank line",
    ),
    Topic(
        kind="task",
        title="`task`",
        touches=asked.task,
        vllm="of a message: its token is written",
        sglang="of the request: its token is written",
        recipe="ignored",
        llama="ignored",
    ),
    Topic(
        kind="messages-none",
        title="no messages",
        touches=asked.no_messages,
        vllm="a prompt without turns",
        recipe="refused",
        llama="a prompt without turns",
    ),
)
