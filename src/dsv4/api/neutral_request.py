"""A request in a form that belongs to no protocol: the fields it gives, the tools it declares, and
everything needed to write it again.

Every protocol is read into a `NeutralRequest` and can be written from one, so a request is
converted without further interpretation. Everything that depends on the dialect or the server's
settings comes later, in `api_request.py`.
"""

from __future__ import annotations

import base64
import binascii
import json
import marshal
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, cast

from dsv4._format.dialects import Dialect
from dsv4.api import request_content as contents
from dsv4.api import request_fields
from dsv4.api.errors import ApiError, wrong
from dsv4.api.request_content import Content, HistoryCall
from dsv4.api.request_fields import OFF, Check, JsonObject, clean_value, marshalled, maybe_json
from dsv4.types import JsonSchema, ToolChoiceMode

# The marks that come back with a turn.


# The text in a mark can be read and written by anyone, so it must not be trusted.
# The first kind names a stored turn, and is never shown to a model. In the histories of clients it
# may replace reasoning, too. The second kind holds the reasoning itself.
ID_MARK = "dsv4.1."
TEXT_MARK = "dsv4.2."


def mark_id(id: str) -> str:
    """A mark with a turn's id, which clients return unchanged: a version, the id in base64url."""
    return ID_MARK + _packed(id)


def mark_text(text: str) -> str:
    """A mark for reasoning, which clients return unchanged: a version, the text in base64url."""
    return TEXT_MARK + _packed(text)


def marked_id(mark: str) -> str | None:
    """The id in a `mark`, None if it is not one of dsv4's marks with an id."""
    return _unpacked(mark, ID_MARK)


def marked_text(mark: str) -> str | None:
    """The reasoning in a `mark`, None if it is not one of dsv4's marks with reasoning."""
    return _unpacked(mark, TEXT_MARK)


def _packed(text: str) -> str:
    data = text.encode("utf-8", "replace")
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _unpacked(mark: str, version: str) -> str | None:
    if not mark.startswith(version):
        return None
    data = mark[len(version) :]
    try:
        decoded = base64.b64decode(data + "=" * (-len(data) % 4), altchars=b"-_", validate=True)
        return decoded.decode("utf-8")
    except (binascii.Error, ValueError):
        return None


# A cache of what was read before: clients send the same tools and options with every request.
#
# The key is the client's value as marshal writes it, which tells 1 from True and keeps the order of
# keys. Cached values are read from a copy: the caller may change the original.


_V = TypeVar("_V")

# At most this many values, of at most this many bytes each.
CACHE_ENTRIES = 64
CACHE_BYTES = 262_144


class ReadCache(Generic[_V]):
    """A cache of the last few values, by the source they were read from. The oldest is evicted."""

    def __init__(self) -> None:
        self._values: dict[Hashable, _V] = {}
        self.get = self._values.get

    def keep(self, key: Hashable, value: _V, size: int) -> None:
        """Remembers a value that was read from `size` bytes, unless those are too many."""
        if size > CACHE_BYTES:
            return
        while len(self._values) >= CACHE_ENTRIES:
            try:
                self._values.pop(next(iter(self._values)), None)
            except (StopIteration, RuntimeError):  # another thread changed it
                break
        self._values[key] = value


# The messages of a request, by their roles: the format's own (docs/format.md, section 2).


class SystemEntry(TypedDict):
    """A system text. It may hold images, as clients send them; no prompt does."""

    role: Literal["system"]
    content: Content


class UserEntry(TypedDict):
    """A message of the user."""

    role: Literal["user"]
    content: Content


class ResultEntry(TypedDict):
    """The result of a tool."""

    role: Literal["tool"]
    tool_call_id: str | None
    content: Content


class _AssistantEntryRequired(TypedDict):
    role: Literal["assistant"]
    content: Content


class AssistantEntry(_AssistantEntryRequired, total=False):
    """A message of the model, or a part of one. `marks` are dsv4's marks that the client returned.
    It may have `TRAINING_FIELDS` too."""

    reasoning_content: str
    tool_calls: Sequence[HistoryCall]
    prefix: bool
    marks: tuple[str, ...]


# Fields of data sets about training on an answer. They are kept, but not part of the prompt.
TRAINING_FIELDS = ("weight", "loss", "train", "training")
# Fields of a message that only the released encoders read. They are kept for the encoder.
ENCODER_FIELDS = ("task", "extracted_url")
KEPT_FIELDS = (*TRAINING_FIELDS, *ENCODER_FIELDS)


def weighed(entries: list[Entry], source: JsonObject) -> list[Entry]:
    """The entries of a message or item, with its `weight` if that is 0, in a protocol without
    weights: if a part of a turn is not to be trained on, the whole turn is not."""
    if source.get("weight") != 0:
        return entries
    return [cast("Entry", {**entry, "weight": 0}) for entry in entries]


# The field for the entries that replace a message with `content_blocks`, in a dialect that reads
# them.
BLOCKS = "blocks"

Entry: TypeAlias = SystemEntry | UserEntry | ResultEntry | AssistantEntry

# The parts of a neutral request.

# The namespace, if any, and the name by which the client knows a tool.
ToolKey: TypeAlias = tuple["str | None", str]


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sampling parameters that the request gives."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    # Pairs of a token id and the number added to its logit.
    logit_bias: tuple[tuple[int, float], ...] | None = None


NO_SAMPLING = Sampling()
_SAMPLING_FIELDS = frozenset(Sampling.__slots__)


def combine_sampling(fields: JsonObject) -> None:
    """Combines the sampling fields of a request into one value."""
    if not _SAMPLING_FIELDS.isdisjoint(fields):
        names = _SAMPLING_FIELDS & fields.keys()
        fields["sampling"] = Sampling(**{name: fields.pop(name) for name in names})


@dataclass(frozen=True, slots=True)
class RequestTool:
    """A declared tool. `path` is its place in the request."""

    name: str
    path: str
    description: str | None = None
    parameters: JsonSchema | None = None
    namespace: str | None = None
    namespace_description: str | None = None
    # A custom tool takes one text, which may have to follow a grammar.
    kind: Literal["function", "custom"] = "function"
    format: JsonObject | None = None
    strict: bool | None = None

    @property
    def key(self) -> ToolKey:
        return self.namespace, self.name


@dataclass(frozen=True, slots=True, eq=False)
class RequestTools:
    """The tools of a request, and the names of those that cannot be run here."""

    tools: tuple[RequestTool, ...] = ()
    ignored: tuple[str, ...] = ()


NO_TOOLS = RequestTools()


@dataclass(frozen=True, slots=True)
class NeutralToolChoice:
    """The tool choice of a request. `allowed` limits the declared tools, unless it is None."""

    mode: Literal["auto", "none", "required", "tool"] = "auto"
    tool: ToolKey | None = None
    allowed: frozenset[ToolKey] | None = None
    # The path of the choice in the request.
    path: str = "tool_choice"


AUTO = NeutralToolChoice()
_choice_word: Callable[[object, str], ToolChoiceMode] = request_fields.one_of(
    "auto", "none", "required"
)


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """The form of an answer: a JSON object, or one that follows a schema."""

    schema: JsonObject | None = None
    name: str | None = None
    strict: bool | None = None


class NeutralRequest:
    """A request of any protocol. None marks a field that the request does not give.

    `messages` are one for each message, item or run of blocks of the body: nothing is merged or
    moved yet.
    """

    messages: list[Entry]
    model: str | None = None
    declared: RequestTools = NO_TOOLS
    choice: NeutralToolChoice = AUTO
    format: AnswerFormat | None = None
    thinking: bool | None = None
    effort: str | int | None = None
    effort_path: str = "effort"
    drop_thinking: bool | None = None
    # Whether the request itself wants thinking, not only a default.
    wants_thinking: bool = False
    # Whether a last assistant message is continued without a field that asks for it.
    continues: bool = True
    sampling: Sampling = NO_SAMPLING
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = False
    n: int = 1
    logprobs: bool = False
    top_logprobs: int = 0
    parallel: bool | None = None
    user: str | None = None
    cache_key: str | None = None
    # The path of the messages in the request, and their number: for errors.
    path: str = "messages"
    message_count: int = 0
    echo: Mapping[str, Any] = MappingProxyType({})

    @property
    def last_path(self) -> str:
        """The path of the last message."""
        return f"{self.path}[{self.message_count - 1}]"

    def __init__(self, fields: dict[str, Any]) -> None:
        # Fields that are not given keep the defaults of the class. Most requests give few, and a
        # constructor that sets every field takes longer than reading a short conversation.
        self.__dict__ = fields

    def own_fields(self, names: Iterable[str]) -> dict[str, Any]:
        """The fields among `names` that the request gives."""
        value = self.__dict__
        return {name: value[name] for name in names if name in value}

    def replaced(self, **changes: object) -> NeutralRequest:
        """The request with other values for some fields."""
        return NeutralRequest({**self.__dict__, **changes})


# Declared tools: the names by which the model sees them, and the client's own for its calls.


# The separators between a namespace and a name. V4.1 has its own, which came with the system token;
# earlier dialects get the one that clients themselves use for flat names.
FLAT_SEPARATOR, NAMESPACE_SEPARATOR = "__", "::"

# The only parameter of a custom tool.
CUSTOM_INPUT = "input"
CUSTOM_INPUT_SCHEMA = {
    "type": "object",
    "properties": {CUSTOM_INPUT: {"type": "string"}},
    "required": [CUSTOM_INPUT],
}


@dataclass(frozen=True, slots=True)
class ToolName:
    """The client's name of a tool, which may have another name in the prompt."""

    name: str
    namespace: str | None = None
    kind: Literal["function", "custom"] = "function"
    # The place in the request that declares it.
    path: str = field(default="", compare=False)


def prompt_name(key: ToolKey, dialect: Dialect) -> str:
    """The name by which the model sees a tool."""
    namespace, name = key
    if namespace is None:
        return name
    separator = FLAT_SEPARATOR if dialect.system_token is None else NAMESPACE_SEPARATOR
    return f"{namespace}{separator}{name}"


def chosen_tools(
    tools: Iterable[RequestTool], choice: NeutralToolChoice
) -> tuple[RequestTool, ...]:
    """The tools that a request wants shown. Raises where it names an undeclared one."""
    tools = tuple(tools)
    keys = {tool.key for tool in tools}
    wanted = choice.allowed if choice.allowed is not None else frozenset[ToolKey]()
    for key in (*sorted(wanted, key=str), *([choice.tool] if choice.tool else [])):
        if key not in keys:
            names = ", ".join(tool.name for tool in tools) or "no tool: none is declared"
            message = f"found the tool {key[1]!r}, expected one of {names}"
            raise ApiError(message, path=choice.path)
    if choice.allowed is not None:
        tools = tuple(tool for tool in tools if tool.key in wanted)
    if choice.mode == "required" and not tools:
        message = "found a call that must be made, expected tools: none is declared"
        raise ApiError(message, path=choice.path)
    return tools


def _prompt_function(tool: RequestTool, dialect: Dialect) -> dict[str, Any]:
    function: dict[str, Any] = {"name": prompt_name(tool.key, dialect)}
    description = tool_description(tool)
    if description is not None:
        function["description"] = description
    if tool.kind == "custom":
        function["parameters"] = CUSTOM_INPUT_SCHEMA
    elif tool.parameters is not None:
        function["parameters"] = tool.parameters
    return function


def tool_description(tool: RequestTool) -> str | None:
    """A tool's own description, after that of its namespace and before its grammar."""
    description = tool.description
    if tool.format is not None and tool.format.get("definition"):
        grammar = f"The input follows this grammar ({tool.format.get('syntax')}):\n"
        grammar += tool.format["definition"]
        description = f"{description}\n\n{grammar}" if description else grammar
    if tool.namespace_description:
        return f"{tool.namespace_description}\n{description or ''}"
    return description


def schema_at(value: object, path: str) -> JsonObject:
    """The JSON schema at a `path`: an object that can be written as JSON."""
    if not isinstance(value, dict):
        raise wrong(value, "a JSON schema: an object", path)
    return clean_value(value, path)


def read_function(function: JsonObject, path: str, schema: str = "parameters") -> RequestTool:
    """A function object. `schema` is the name of the field that holds its parameters."""
    parameters, strict = function.get(schema), function.get("strict")
    return RequestTool(
        request_fields.name_at(function, path),
        path,
        request_fields.maybe_text_at(function, "description", path),
        None if parameters is None else schema_at(parameters, f"{path}.{schema}"),
        strict=strict if isinstance(strict, bool) else None,
    )


def read_openai_choice(
    value: object,
    path: str,
    kinds: Collection[str],
    key: Callable[[object, str], ToolKey | None],
    holder: str | None = None,
) -> NeutralToolChoice:
    """A tool choice as OpenAI's protocols write it: a word, a tool of one of the `kinds`, which
    `key` reads, or a list of allowed tools. `holder` is the field with that list, unless it is
    beside the type."""
    if isinstance(value, str):
        return NeutralToolChoice(_choice_word(value, path))
    choice = request_fields.json_object(value, path)
    kind = request_fields.type_at(choice, path)
    if kind in kinds:
        return NeutralToolChoice("tool", key(value, path))
    if kind != "allowed_tools":
        expected = ", ".join(f'"{name}"' for name in kinds) + ' or "allowed_tools"'
        raise wrong(kind, expected, f"{path}.type")
    if holder is not None:
        path = f"{path}.{holder}"
        choice = request_fields.json_object(choice.get(holder), path)
    return _read_allowed(choice, path, key)


def _read_allowed(
    allowed: JsonObject, path: str, key: Callable[[object, str], ToolKey | None]
) -> NeutralToolChoice:
    """A choice that allows some of the tools. `key` reads one of its entries, or gives None."""
    value = allowed.get("mode")
    if value is not None:
        request_fields.one_of("auto", "required")(value, f"{path}.mode")
    mode: Literal["auto", "required"] = "required" if value == "required" else "auto"
    listed = request_fields.json_list(allowed.get("tools"), f"{path}.tools")
    keys = [key(item, f"{path}.tools[{n}]") for n, item in enumerate(listed)]
    return NeutralToolChoice(mode, allowed=frozenset(k for k in keys if k is not None))


def client_names(tools: Iterable[RequestTool], dialect: Dialect) -> dict[str, ToolName]:
    """The client's name of each tool, by its name in the prompt."""
    named = [(prompt_name(tool.key, dialect), tool) for tool in tools]
    refuse_duplicate_names((name, tool.path) for name, tool in named)
    return {name: ToolName(tool.name, tool.namespace, tool.kind, tool.path) for name, tool in named}


def joined_tools(declared: RequestTools, further: RequestTools) -> RequestTools:
    """The tools of a request and those of a message; one that both declare alike is listed once."""
    tools = {tool.key: tool for tool in declared.tools}
    for tool in further.tools:
        same = tools.setdefault(tool.key, tool)
        if replace(tool, path="") != replace(same, path=""):
            problem = (
                f"found another tool with the name {tool.name!r}, expected that of {same.path}"
            )
            raise ApiError(problem, path=tool.path)
    return RequestTools(tuple(tools.values()), (*declared.ignored, *further.ignored))


def refuse_duplicate_names(named: Iterable[tuple[str, str]]) -> None:
    """Raises where two tools have the same name. `named` are pairs of a name and its path."""
    names: set[str] = set()
    for name, path in named:
        if name in names:
            message = f"found a second tool with the name {name!r}, expected each name once"
            raise ApiError(message, path=f"{path}.name")
        names.add(name)


@dataclass(frozen=True, slots=True)
class VisibleTools:
    """Tools as the prompt shows them, and the table of their names."""

    functions: list[dict[str, Any]] | None
    names: Mapping[str, ToolName]
    forced: str | None


# A client sends the same tools with every request, and `cached_tools` reads them as the same value
# each time. The tools as a dialect shows them are cached for the last few.
@lru_cache(CACHE_ENTRIES)
def visible_tools(declared: RequestTools, dialect: Dialect) -> VisibleTools:
    """All tools that a request declares, as a dialect shows them."""
    return visible_tools_for(declared, AUTO, dialect)


def visible_tools_for(
    declared: RequestTools, choice: NeutralToolChoice, dialect: Dialect
) -> VisibleTools:
    """The tools that a request declares and chooses, as a dialect shows them."""
    names = client_names(declared.tools, dialect)
    tools = chosen_tools(declared.tools, choice)
    functions = [_prompt_function(tool, dialect) for tool in tools]
    forced = prompt_name(choice.tool, dialect) if choice.tool is not None else None
    return VisibleTools(functions or None, MappingProxyType(names), forced)


_known_tools = ReadCache[RequestTools]()


def cached_tools(read: Callable[[object, str], RequestTools], protocol: str) -> Check:
    """The check of a protocol's list of tools: `read`, with its results cached."""

    def check(tools: object, path: str) -> RequestTools:
        try:
            dumped = marshalled(tools)
        except ValueError:
            return read(tools, path)  # raises an error that names the problem
        key = (dumped, protocol)
        declared = _known_tools.get(key)
        if declared is None:
            declared = read(marshal.loads(dumped), path)
            _known_tools.keep(key, declared, len(dumped))
        return declared

    return check


# The form that an answer must have.


_format_kind = request_fields.one_of("text", "json_object", "json_schema")


def read_openai_format(value: object, path: str, holder: str | None = None) -> AnswerFormat | None:
    """The form as OpenAI's protocols write it. `holder` is the field with the schema and its name,
    unless these are beside the type."""
    form = request_fields.json_object(value, path)
    kind = _format_kind(form.get("type"), f"{path}.type")
    if kind != "json_schema":
        return AnswerFormat() if kind == "json_object" else None
    if holder is not None:
        path = f"{path}.{holder}"
        form = request_fields.json_object(form.get(holder), path)
    return read_answer_format(form, path)


def read_answer_format(holder: JsonObject, path: str) -> AnswerFormat:
    """The schema of an answer, with its name."""
    strict = holder.get("strict")
    return AnswerFormat(
        schema_at(holder.get("schema"), f"{path}.schema"),
        request_fields.maybe_text_at(holder, "name", path),
        strict if isinstance(strict, bool) else None,
    )


# Functions that all protocols need to write a request again.


def joined_turns(request: NeutralRequest) -> Iterator[Entry]:
    """The messages, those of one assistant turn joined. Only messages of users and tools have
    images: in others, a text names each."""
    open_turn: AssistantEntry | None = None
    for message in request.messages:
        if message["role"] in ("system", "assistant") and not isinstance(message["content"], str):
            message = message.copy()
            message["content"] = contents.without_images(message["content"])
        if message["role"] == "assistant":
            open_turn = message if open_turn is None else joined_turn(open_turn, message)
            continue
        if open_turn is not None:
            yield open_turn
            open_turn = None
        yield message
    if open_turn is not None:
        yield open_turn


def joined_turn(first: AssistantEntry, second: AssistantEntry) -> AssistantEntry:
    """Two assistant messages as one: their reasoning, then their texts, then their calls."""
    reasoning = (first.get("reasoning_content"), second.get("reasoning_content"))
    turn: AssistantEntry = {
        "role": "assistant",
        "reasoning_content": contents.BLANK_LINE.join(filter(None, reasoning)),
        "content": contents.joined_content(filter(None, (first["content"], second["content"]))),
    }
    if "tool_calls" in first or "tool_calls" in second:
        turn["tool_calls"] = (*first.get("tool_calls", ()), *second.get("tool_calls", ()))
    if "marks" in first or "marks" in second:
        turn["marks"] = (*first.get("marks", ()), *second.get("marks", ()))
    if second.get("prefix"):
        turn["prefix"] = True
    for part in (first, second):
        kept = {field: part[field] for field in KEPT_FIELDS if field in part}  # type: ignore[literal-required]
        turn.update(cast("AssistantEntry", kept))
    return turn


def function_tools(request: NeutralRequest, protocol: str) -> list[RequestTool]:
    """The tools that are shown, in a protocol that has only functions."""
    allowed = request.choice.allowed
    tools = [t for t in request.declared.tools if allowed is None or t.key in allowed]
    for tool in tools:
        if tool.kind == "custom" or tool.namespace is not None:
            what = "a custom tool" if tool.kind == "custom" else "a tool of a namespace"
            raise ApiError(f"found {what}, which {protocol} cannot say", path=tool.path)
    return tools


def function_calls(message: AssistantEntry, protocol: str) -> list[HistoryCall]:
    """The calls of a turn, in a protocol that has no namespaces."""
    calls = list(message.get("tool_calls", ()))
    for call in calls:
        if "namespace" in call:
            name = call["function"]["name"]
            problem = f"found a call of {name!r} in a namespace, which {protocol} cannot say"
            raise ApiError(problem, path="input")
    return calls


def arguments_text(arguments: contents.Arguments) -> str:
    """Arguments as text."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def arguments_object(arguments: contents.Arguments) -> JsonObject:
    """Arguments as an object. Text of anything else is one parameter, as the format writes it."""
    if isinstance(arguments, dict):
        return arguments
    value = maybe_json(arguments)
    return value if isinstance(value, dict) else {contents.RAW_ARGUMENTS: arguments}


def thinking_choice(request: NeutralRequest) -> bool | None:
    """Whether thinking is on or off, None where the request leaves it open."""
    if request.effort == OFF:
        return False
    forced = request.choice.mode in ("required", "tool")
    if request.thinking is None and forced:
        return request.wants_thinking
    return request.thinking


def without_nulls(**fields: object) -> dict[str, Any]:
    """The fields without those that are None."""
    return {name: value for name, value in fields.items() if value is not None}
