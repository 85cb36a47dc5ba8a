"""The demo model as a backend: it reads the prompt back, chooses an answer by rules, writes it
with the encoder, and sends it token by token.

With it the gateway works without a GPU, and clients can be tested against answers that are known
beforehand: docs/gateway-backends.md lists the rules. An answer is well-formed because the encoder
writes it; where a malformed one is asked for, it is then broken in one of the ways that real models
break it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from typing import Any

from dsv4._decode import decode
from dsv4._encode.encode import encode
from dsv4._encode.inputs import fields_of
from dsv4._encode.prompt import Prompt
from dsv4._format import tokens
from dsv4._format.dialects import Dialect, dialect_named
from dsv4._format.tokens import EOS
from dsv4.api.neutral_request import arguments_object
from dsv4.api.request_fields import without_surrogates
from dsv4.schema import Schema, conjunction, listed, own_types, properties_of, required_of
from dsv4.serve.backend import (
    Backend,
    Chunk,
    Chunks,
    Counts,
    Form,
    Logprob,
    LogprobsMode,
    Model,
    Options,
)
from dsv4.serve.markup_ids import markup_ids
from dsv4.tokens import Tokenizer
from dsv4.types import AssistantMessageParam, ToolCallParam

# The prompt's task for the model, read back from the prompt itself.


# Texts that agents put into a turn beside the user's own.
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DemoPrompt:
    """The end of a prompt, and the options that it leaves to the model."""

    text: str  # the user's, without reminders; empty if a result comes last
    results: tuple[str, ...]  # of tools, if they come last
    again: str  # the user's text, if a result comes last and it asks for more turns
    tools: tuple[dict[str, Any], ...]  # the function objects
    response_format: Any
    thinking: bool
    reasons: bool  # whether its reasoning is yet to be written
    dialect: Dialect
    turns: int
    # The block of calls that is open, and the tool whose call it has begun.
    open_block: str
    tool_name: str | None


def read_prompt(prompt: Prompt) -> DemoPrompt:
    """The task of the prompt."""
    request = decode(prompt, dialect=prompt.dialect).request
    messages = [each for message in request.messages for each in _with_results(fields_of(message))]
    ending = request.encode().ending
    text, results = _last_texts(messages)
    dialect = dialect_named(prompt.dialect)
    reasoning_end = str(tokens.THINK_END)
    answer = ending.open.rpartition(reasoning_end)[2]
    opens_block = str(dialect.tags.block_open).strip() in answer
    return DemoPrompt(
        text=text,
        results=results,
        again=asked_again(messages) if results else "",
        tools=tuple(_functions(messages)),
        response_format=next(filter(None, (m.get("response_format") for m in messages)), None),
        thinking=ending.thinking,
        reasons=ending.thinking and reasoning_end not in ending.open,
        dialect=dialect,
        turns=len(messages),
        open_block=answer if opens_block else "",
        tool_name=_begun_tool(ending.open, dialect),
    )


# Behind a malformed call, results are read back as a user's text.
_RESULT = re.compile(f"{tokens.RESULT_START}(.*?){tokens.RESULT_END}\\s*", re.DOTALL)


def _with_results(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message; or the results at the start of a user's text, and the rest of that text."""
    content = message.get("content") or ""
    if message.get("role") != "user" or not content.startswith(tokens.RESULT_START):
        yield message
        return
    at = 0
    while match := _RESULT.match(content, at):
        yield {"role": "tool", "content": match[1]}
        at = match.end()
    if content[at:]:
        yield {**message, "content": content[at:]}


def _last_texts(messages: list[dict[str, Any]]) -> tuple[str, tuple[str, ...]]:
    """The user's last text, or the results that came after it."""
    last: list[tuple[str, str]] = []
    for message in messages:
        role = message.get("role")
        if role == "assistant" and not message.get("wo_eos"):
            last = []
        elif role in ("user", "tool", "developer"):
            text = message.get("content") or ""
            text = text if role == "tool" else _REMINDER.sub("", text).strip()
            if text or role == "tool":
                last.append((role, text))
    results = _last_of(last, from_tools=True)
    return ("", results) if results else ("\n".join(_last_of(last, from_tools=False)), ())


def _last_of(texts: list[tuple[str, str]], *, from_tools: bool) -> tuple[str, ...]:
    """The texts at the end of the list that all are results of tools, or all are not."""
    last = takewhile(lambda each: (each[0] == "tool") is from_tools, reversed(texts))
    return tuple(text for _, text in reversed(list(last)))


def asked_again(messages: list[dict[str, Any]]) -> str:
    """The last text that asks for several turns, if fewer have followed it."""
    turns = 0
    for message in reversed(messages):
        if message.get("role") == "assistant":
            turns += 1
        elif message.get("role") in ("user", "developer"):
            text = _REMINDER.sub("", message.get("content") or "")
            if match := _TURNS.search(text):
                return text.replace(_TURN, str(turns + 1)) if turns < int(match[1]) - 1 else ""
    return ""


def _functions(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    tools = [tool for message in messages for tool in message.get("tools") or ()]
    return [tool.get("function", tool) for tool in tools]


def _begun_tool(text: str, dialect: Dialect) -> str | None:
    """The tool whose call an open turn has begun."""
    _, opening, rest = text.rpartition(str(dialect.tags.invoke_open))
    return rest.partition('"')[0] if opening else None


# The rules for answers.


_RUN = re.compile(r"^[ \t>\"']*RUN: *(.+?)[ \t]*$", re.MULTILINE)
_CALL = re.compile(r"^[ \t>\"']*CALL: *(\S+) *(\{.*\})?[ \t]*$", re.MULTILINE)
# The number of turns in a loop: each of them calls a tool, except the last.
_TURNS = re.compile(r"^[ \t>\"']*TURNS: *(\d{1,4})[ \t]*$", re.MULTILINE)
_TURN = "{turn}"
_BREAK = re.compile(r"^[ \t>\"']*BREAK: *(\S+)[ \t]*$", re.MULTILINE)

# Agents' names for their shell, the most particular first, with its parameter.
_SHELLS = ("Bash", "bash", "shell", "exec_command", "run_shell_command", "local_shell", "terminal")
_COMMANDS = ("command", "cmd")


@dataclass(frozen=True, slots=True)
class DemoAnswer:
    """A turn of the model. `flaw` names the way in which it is malformed."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    flaw: str | None = None


def answer_to(task: DemoPrompt, tokens: int | None) -> DemoAnswer:
    """The answer of the demo model. `tokens` is the length of the prompt, where it is known."""
    if task.again:
        task = replace(task, text=task.again, results=())
    elif _TURNS.search(task.text):
        task = replace(task, text=task.text.replace(_TURN, "1"))
    breaking = _BREAK.search(task.text)
    calls = _asked_calls(task)
    if task.results:
        lines = ([*result.strip().splitlines(), ""][0].strip() for result in task.results)
        return DemoAnswer("\n".join(f"DONE: {line}" for line in lines), "The tools have answered.")
    if breaking:
        call = calls or _any_call(task)
        return DemoAnswer("Here is one.", "A malformed answer is wanted.", call, breaking[1])
    if calls:
        names = ", ".join(name for name, _ in calls)
        return DemoAnswer("", f"I have been asked to use {names}.", calls)
    if task.response_format is not None:
        value = smallest_value(task.response_format)
        return DemoAnswer(json.dumps(value, ensure_ascii=False), "The smallest value will do.")
    return DemoAnswer(_default_answer(task, tokens), "Nothing was asked that I have a rule for.")


def _asked_calls(task: DemoPrompt) -> tuple[tuple[str, dict[str, Any]], ...]:
    """The calls that the user's lines ask for; the one that the prompt has begun where none do."""
    if not task.tools:
        return ()
    places: list[tuple[int, str, dict[str, Any]]] = []
    for match in _RUN.finditer(task.text):
        call = _shell_call(task, match[1].rstrip("\"'"))
        if call:
            places.append((match.start(), *call))
    for match in _CALL.finditer(task.text):
        arguments = without_surrogates(arguments_object(match[2] or "{}"))
        places.append((match.start(), match[1], arguments))
    calls = tuple((name, arguments) for _, name, arguments in sorted(places, key=lambda c: c[0]))
    if task.tool_name is not None:
        of_name = tuple(call for call in calls if call[0] == task.tool_name)
        return of_name or ((task.tool_name, _smallest_arguments(_tool(task, task.tool_name))),)
    return calls or (_any_call(task) if task.open_block else ())


def _any_call(task: DemoPrompt) -> tuple[tuple[str, dict[str, Any]], ...]:
    if not task.tools:
        return ()
    tool = task.tools[0]
    return ((str(tool.get("name")), _smallest_arguments(tool)),)


def _tool(task: DemoPrompt, name: str) -> dict[str, Any]:
    return next((tool for tool in task.tools if tool.get("name") == name), {})


def _smallest_arguments(tool: dict[str, Any]) -> dict[str, Any]:
    value = smallest_value(tool.get("parameters") or {"type": "object"})
    return value if isinstance(value, dict) else {}


def _parameters(tool: dict[str, Any]) -> dict[str, Any]:
    schema = tool.get("parameters")
    return dict(properties_of(schema)) if isinstance(schema, Mapping) else {}


def _shell_call(task: DemoPrompt, command: str) -> tuple[str, dict[str, Any]] | None:
    tool = _shell(task)
    if tool is None:
        return None
    properties = _parameters(tool)
    key = next((key for key in _COMMANDS if key in properties), _COMMANDS[0])
    schema = properties.get(key)
    is_list = isinstance(schema, dict) and schema.get("type") == "array"
    value = ["bash", "-lc", command] if is_list else command
    return str(tool["name"]), {**_smallest_arguments(tool), key: value}


def _shell(task: DemoPrompt) -> dict[str, Any] | None:
    by_name = {tool.get("name"): tool for tool in task.tools}
    by_shell = (by_name[name] for name in _SHELLS if name in by_name)
    taking = (tool for tool in task.tools if _parameters(tool).keys() & set(_COMMANDS))
    return next(chain(by_shell, taking), None)


def _default_answer(task: DemoPrompt, tokens: int | None) -> str:
    length = "" if tokens is None else f" {tokens:,} tokens,"
    messages = "1 message" if task.turns == 1 else f"{task.turns} messages"
    tools = "1 tool" if len(task.tools) == 1 else f"{len(task.tools)} tools"
    mode = "thinking" if task.thinking else "chat"
    return (
        f"This is the demo backend of dsv4, not a model. Your prompt has{length} "
        f"{messages} and {tools}, in the dialect {task.dialect}, "
        f"{mode} mode. Write a line `RUN: <command>` to see a tool call."
    )


# The smallest JSON value that fits a schema, as far as it can be found without a search.

_MAX_DEPTH = 32
# A value has no more parts (letters, items and members), whatever its schema asks for.
_MAX_PARTS = 10_000
_EMPTY = {"boolean": False, "null": None}


def smallest_value(schema: object) -> object:
    """A value for `schema`."""
    return _SmallestValues(schema).value(schema)


class _SmallestValues:
    """Values for the parts of one schema, `root`, in which references are looked up."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._parts_left = _MAX_PARTS

    def value(self, schema: object, depth: int = 0) -> object:
        self._parts_left -= 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._parts_left < 0:
            return {}
        if "const" in schema:
            return schema["const"]
        for keyword in ("enum", "examples"):
            if values := listed(schema, keyword):
                return values[0]
        if "default" in schema:
            return schema["default"]
        if "$ref" in schema or "allOf" in schema:
            return self.value(self._merged(schema), depth + 1)
        for keyword in ("anyOf", "oneOf"):
            if alternatives := listed(schema, keyword):
                return self.value(alternatives[0], depth + 1)
        return self._by_type(schema, depth)

    def _by_type(self, schema: Schema, depth: int) -> object:
        default = "object" if "properties" in schema else "string"
        kind = next(iter(own_types(schema)), default)
        if kind == "object":
            properties = properties_of(schema)
            names = required_of(schema)
            return {name: self.value(properties.get(name, {}), depth + 1) for name in names}
        if kind == "array":
            items, count = schema.get("items", {}), self._take(schema.get("minItems"))
            return [self.value(items, depth + 1) for _ in range(count)]
        if kind == "string":
            return "demo".ljust(self._take(schema.get("minLength")), "o")
        return _number(schema) if kind in ("integer", "number") else _EMPTY.get(kind)

    def _take(self, least: object) -> int:
        """The number of parts that a schema asks for, as far as any are left."""
        count = min(max(least, 0), max(self._parts_left, 0)) if isinstance(least, int) else 0
        self._parts_left -= count
        return count

    def _merged(self, schema: Schema) -> Schema:
        """A schema merged with those that it refers to and those that it lists under `allOf`."""
        parts = conjunction(schema, self._root)
        fields = {keyword: part[keyword] for part in reversed(parts) for keyword in part}
        fields["properties"] = {
            name: member for part in reversed(parts) for name, member in properties_of(part).items()
        }
        fields["required"] = [name for part in parts for name in required_of(part)]
        return {key: value for key, value in fields.items() if key not in ("$ref", "allOf")}


def _number(schema: Schema) -> object:
    least, above, most = (
        schema.get(keyword) for keyword in ("minimum", "exclusiveMinimum", "maximum")
    )
    if isinstance(least, (int, float)):
        return least
    if isinstance(above, (int, float)):
        return above + 1
    return min(1, most) if isinstance(most, (int, float)) else 1


# An answer as the model would write it.


def write_answer(answer: DemoAnswer, task: DemoPrompt) -> str:
    """The text that the model would generate after the prompt."""
    text = _model_text(answer, task)
    return text if answer.flaw is None else _broken_text(text, answer.flaw, task.dialect)


def _model_text(answer: DemoAnswer, task: DemoPrompt) -> str:
    """The answer's own text, without the part that the prompt has already."""
    calls: list[ToolCallParam] = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(answer.calls)
    ]
    message: AssistantMessageParam = {
        "role": "assistant",
        "content": answer.content,
        "tool_calls": calls,
    }
    if task.reasons:
        message["reasoning_content"] = answer.reasoning
    prompt = encode(
        [{"role": "user", "content": ""}, message], thinking=task.reasons, dialect=task.dialect
    )
    texts = (p.text for p in prompt.pieces if p.origin == "model" and p.message == 1)
    # The prompt may have opened a block of calls.
    return "".join(texts).removeprefix(task.open_block)


def _broken_text(text: str, kind: str, dialect: Dialect) -> str:
    if kind in BREAKERS:
        return BREAKERS[kind](text, dialect)
    reasoning, kinds = text.split(str(tokens.THINK_END))[0], ", ".join(sorted(BREAKERS))
    return f"{reasoning}{tokens.THINK_END}The kinds are: {kinds}{tokens.EOS}"


def _without_wrapper(text: str, dialect: Dialect) -> str:
    tags = dialect.tags
    return text.replace(str(tags.block_open), "\n\n").replace(str(tags.block_close), "")


def _without_closers(text: str, dialect: Dialect) -> str:
    tags = dialect.tags
    for closer in (tags.parameter_close, tags.invoke_close, tags.block_close):
        text = text.replace(str(closer), "")
    return text


def _in_reasoning(text: str, dialect: Dialect) -> str:
    """The block leaks into the reasoning, which is never closed."""
    return text.replace(str(tokens.THINK_END), "")


def _with_plain_bars(text: str, dialect: Dialect) -> str:
    dsml = str(tokens.DSML)
    return text.replace(dsml, dsml.replace(dsml[0], "|"))


def _cut(text: str, dialect: Dialect) -> str:
    """The text ends in the middle of an argument."""
    closer = text.rfind(str(dialect.tags.parameter_close))
    return text[: max(closer - 2, 0)] if closer > 0 else text[: len(text) // 2]


def _with_text_after(text: str, dialect: Dialect) -> str:
    return text.removesuffix(str(tokens.EOS)) + f"\n\nThat is it.{tokens.EOS}"


BREAKERS: dict[str, Callable[[str, Dialect], str]] = {
    "no-wrapper": _without_wrapper,
    "no-closers": _without_closers,
    "in-reasoning": _in_reasoning,
    "plain-bars": _with_plain_bars,
    "cut": _cut,
    "text-after": _with_text_after,
}


# The backend.


DEMO_MODEL = Model("dsv4-demo", 1_048_576)
# Characters in a piece, where there is no vocabulary to split by.
_PIECE_LENGTH = 4


class DemoBackend(Backend):
    """The demo model, in this process: token by token, at a settable pace."""

    grammar_form: Form | None = None
    logprobs_mode: LogprobsMode = "processed"

    def __init__(self, tokenizer: Tokenizer | None, pace: float) -> None:
        self._tokenizer = tokenizer
        self._wait = 1 / pace if pace else 0.0

    async def stream(self, prompt: Prompt, ids: Sequence[int] | None, options: Options) -> Chunks:
        # It sees what a model sees: ids, and nothing beyond them.
        if ids is not None and self._tokenizer is not None:
            prompt = self._tokenizer.prompt(ids)
        task = await asyncio.to_thread(read_prompt, prompt)
        text = write_answer(answer_to(task, None if ids is None else len(ids)), task)
        pieces = list(self._pieces(text, options.logprobs is not None))
        output = pieces[: options.max_tokens]
        loop = asyncio.get_running_loop()
        due = loop.time()
        for piece in output:
            due += self._wait
            await asyncio.sleep(max(due - loop.time(), 0))
            yield piece
        counts = Counts(len(ids) if ids is not None else None, None, len(output))
        # A text without an end was cut off, as by an engine that stops at its limit.
        is_cut = len(output) < len(pieces) or not text.endswith(EOS)
        yield Chunk(ids=(), finish="length" if is_cut else "eos", counts=counts)

    def _pieces(self, text: str, with_logprobs: bool) -> Iterator[Chunk]:
        if self._tokenizer is None:
            yield from (
                Chunk(text[n : n + _PIECE_LENGTH]) for n in range(0, len(text), _PIECE_LENGTH)
            )
        else:
            for id in markup_ids(self._tokenizer, text):
                certain = Logprob(self._tokenizer.decode([id]), 0.0)  # it had no other choice
                yield Chunk(ids=(id,), logprobs=(certain,) if with_logprobs else ())

    async def models(self) -> list[Model]:
        return [DEMO_MODEL]

    async def aclose(self) -> None:
        pass
