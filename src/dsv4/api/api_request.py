"""`ApiRequest`: a request of any protocol, understood. Everything that depends on the dialect
and on the server's settings is decided here, once for all protocols.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar, cast

from dsv4._completion.random_ids import new_id
from dsv4._encode.inputs import fields_of
from dsv4._encode.prompt import Prompt
from dsv4._format.dialects import V4, Dialect, dialect_for, dialect_named, dialect_served_as
from dsv4._parse.parser import StreamParser
from dsv4.api import neutral_request as neutral
from dsv4.api import request_content as contents
from dsv4.api.errors import ApiError
from dsv4.api.neutral_request import NeutralRequest
from dsv4.api.request_fields import EFFORTS, OFF
from dsv4.errors import Location, UnknownModel, path_of
from dsv4.request import Request
from dsv4.types import DialectName, TextPartParam, ToolChoice

ProtocolName: TypeAlias = Literal["chat", "responses", "messages"]
# The rules that a body is read by: the released encoder's, or those of a server that gets it.
BodyRules: TypeAlias = Literal["released", "body"]


@dataclass(frozen=True)
class ApiSettings:
    """The settings of a server that apply to all of its requests.

    - `thinking`, `effort`: the defaults for a request that does not give them.
    - `later_system`: the treatment of system messages after the first other message, in a dialect
      without a system token: a `"reminder"` in the user turn, `"in_place"` as the released encoder
      writes them, or `"in_front"`, joined to the first system message.
    - `read_images`: whether the backend reads images, in a dialect that has them. Their bytes are
      checked, unless it is `"unchecked"`: then the backend has to check them. `"paths"`: an
      image may also be the path of a file, as in a data set.
      `unsupported_images`: those that cannot be read are `"replace"`d by a text, or `"refuse"`d.
    - `last_answer`: the meaning of an assistant turn at the end. `"refuse"`: it is continued as its
      protocol defines it (Chat Completions requires a `prefix` for that), and refused otherwise.
      `"keep"`: in Chat Completions, a turn without a `prefix` is finished, as in a log. `"finish"`:
      all are finished, as in a data set, except those marked with `prefix` or `wo_eos`.
    - `grammars`: whether the backend takes grammars, so that a call can be forced after thinking.
    - `reasoning_field`: where Chat Completions writes reasoning: `"reasoning_content"`,
      `"reasoning"` or `"both"`.
    - `calls`: `"whole"` sends a call once it is complete, `"streamed"` sends its arguments as they
      are generated.
    - `fit_arguments`: whether the gateway makes arguments fit the schemas of their tools, where
      calls are sent whole.
    - `max_tokens`, `max_tokens_thinking`, `max_tokens_max_effort`: the most tokens of a completion
      where a request does not say.
    - `model`: the name that is echoed where a request gives none.
    - `drop_thinking`: whether old reasoning is dropped as the format does.
    - `strip_markup`: whether calls are removed from an answer where no tools are declared. They are
      text otherwise.
    """

    thinking: bool = True
    effort: str | int | None = "high"
    later_system: Literal["reminder", "in_place", "in_front"] = "reminder"
    read_images: bool | Literal["unchecked", "paths"] = True
    unsupported_images: Literal["replace", "refuse"] = "replace"
    last_answer: Literal["refuse", "keep", "finish"] = "refuse"
    grammars: bool = False
    reasoning_field: Literal["reasoning_content", "reasoning", "both"] = "reasoning_content"
    calls: Literal["whole", "streamed"] = "whole"
    fit_arguments: bool = False
    max_tokens: int = 8_192
    max_tokens_thinking: int = 65_536
    max_tokens_max_effort: int = 131_072
    model: str = "deepseek-v4"
    drop_thinking: bool = True
    strip_markup: bool = False


DEFAULT_SETTINGS = ApiSettings()


# The beginnings of call ids. The parser's own ids begin as those of Chat Completions.
CALL_ID_PREFIXES: dict[ProtocolName, str] = {
    "chat": "call_",
    "responses": "call_",
    "messages": "toolu_",
}


@dataclass(frozen=True)
class ApiRequest:
    """A request of any protocol, understood: the prompt's side of it, and the server's.

    - `request`: conversation and options; `request.encode()` is the prompt.
    - `protocol`: `"chat"`, `"responses"` or `"messages"`; `model`: the name to echo.
    - `max_tokens`: the most tokens to generate, `sampling` how to pick them.
    - `stream`, `include_usage`, `n`, `logprobs`, `top_logprobs`: the form of the response, and what
      it has to include.
    - `parallel`: False where generation must end after the first call.
    - `user`: the end user, as the client names it; `cache_key`: the client's key for requests that
      belong together.
    - `names`: the client's name of each tool, by the name in the prompt.
    - `ignored`: the tools that were left out because they cannot be run here; from `dsv4.api.read`
      also the fields that nothing reads, each at its first place, as `messages[0].name`.
    - `echo`: the fields of the request that a response repeats.
    - `marks`: by the index of an assistant turn in `request.messages`, the signatures and encrypted
      reasoning that came back with it.
    - `images`: the number of images in its messages; `replaced_images`: the number of others, which
      were replaced by a text.
    - `settings`: the settings it was read with.
    - `rules`: the rules it was read by, `"body"` or `"released"` (`dsv4.api.read`).
    - `notes`: sentences that name each assumption about something the body does not say.
    """

    request: Request
    protocol: ProtocolName
    model: str
    max_tokens: int
    sampling: neutral.Sampling = neutral.NO_SAMPLING
    stream: bool = False
    include_usage: bool = False
    n: int = 1
    logprobs: bool = False
    top_logprobs: int = 0
    parallel: bool = True
    user: str | None = None
    cache_key: str | None = None
    names: Mapping[str, neutral.ToolName] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    echo: Mapping[str, Any] = field(default_factory=dict)
    marks: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    images: int = 0
    replaced_images: int = 0
    settings: ApiSettings = DEFAULT_SETTINGS
    rules: BodyRules = "body"
    notes: tuple[str, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        # Values that requests share are read-only mappings, which cannot be pickled.
        state = dict(self.__dict__)
        return {n: dict(v) if isinstance(v, MappingProxyType) else v for n, v in state.items()}

    def parser(self, prompt: Prompt | None = None) -> StreamParser:
        """The parser of the model's output, set up for the prompt, with call ids of the protocol.

        `prompt` is the result of `request.encode()`; without it the prompt is encoded again. Calls
        are emitted as they are written, even those that are cut short: the writer holds them back.
        """
        ending = None if prompt is None else prompt.ending
        new_id = _NEW_CALL_IDS[self.protocol]
        if self.request.tools or not self.settings.strip_markup:
            return self.request.parser(ending=ending, new_id=new_id)
        # No tools are declared, so a call that is certainly one may be dropped. That needs tools
        # that are unknown and forbidden: with a list of tools known to be empty, markup is text.
        return StreamParser(
            ending=self.request.encode().ending if ending is None else ending,
            tool_choice="none",
            dialect=self.request.dialect,
            stop=self.request.stop,
            new_id=new_id,
        )


_NEW_CALL_IDS = {protocol: partial(new_id, prefix) for protocol, prefix in CALL_ID_PREFIXES.items()}


def protocol_call_id(protocol: ProtocolName, id: str) -> str:
    """The `id` of a call, from the parser or another server, in the form of a `protocol`. An empty
    one is replaced by a new one."""
    if not id:
        return _NEW_CALL_IDS[protocol]()
    other = CALL_ID_PREFIXES["chat"]
    return CALL_ID_PREFIXES[protocol] + id[len(other) :] if id.startswith(other) else id


# Locations in a `Request` as paths in the client's own body, for errors.


# A tool's schema, and the schema of an answer, as each protocol names them.
SCHEMA_FIELDS = {"chat": "parameters", "responses": "parameters", "messages": "input_schema"}
ANSWER_SCHEMA_FIELDS = {
    "chat": "response_format.json_schema.schema",
    "responses": "text.format.schema",
    "messages": "output_config.format.schema",
}
TOOLS_LOCATION, ANSWER_SCHEMA_LOCATION = ("tools",), ("response_format", "json_schema", "schema")


def client_path(call: ApiRequest, location: Location) -> str:
    """The path in the client's body that corresponds to a `location` in the request of `call`."""
    if location[:1] == TOOLS_LOCATION and len(location) > 1:
        start, rest = _tool_path(call, location[1]), location[2:]
        if rest[:1] == ("parameters",):
            rest = (SCHEMA_FIELDS[call.protocol], *rest[1:])
    elif location[:3] == ANSWER_SCHEMA_LOCATION:
        start, rest = ANSWER_SCHEMA_FIELDS[call.protocol], location[3:]
    else:
        return path_of(location)
    return path_of((start, *rest))


def _tool_path(call: ApiRequest, index: str | int) -> str:
    """The path at which the body declares a tool: its index and its name may differ there."""
    functions = [fields_of(tool) for tool in call.request.tools or ()]
    return call.names[functions[int(index)]["name"]].path


# The turns of a conversation.


REMINDER = "<system-reminder>\n{}\n</system-reminder>"
# The roles whose messages may hold images. In other messages, a text replaces each image.
_ROLES_WITH_IMAGES = ("user", "tool")


class TurnBuilder:
    """The conversation of a request: `messages` for the format, the `marks` of its turns, and the
    numbers of its `images` and of those that were `replaced`."""

    images = replaced = 0  # right for nearly all requests, so that they need not set it

    def __init__(self, request: NeutralRequest, dialect: Dialect, settings: ApiSettings) -> None:
        self.messages: list[neutral.Entry] = []
        self.marks: dict[int, tuple[str, ...]] = {}
        self._path = request.path
        self._dialect = dialect
        self._settings = settings
        self._system: list[str] = []  # texts of the first system message; below, its other fields
        self._system_fields: dict[str, Any] = {}
        self._later = settings.later_system if dialect.system_token is None else "in_place"
        for message in request.messages:
            self._add(message)
        self._end()
        self._begin()

    def _add(self, message: neutral.Entry) -> None:
        if neutral.BLOCKS in message:
            fields: Any = dict(message)
            blocks = fields.pop(neutral.BLOCKS)
            for each in blocks if self._dialect.lists_are_blocks else [fields]:
                self._add(each)
            return
        content = message["content"]
        if not isinstance(content, str):
            message = message.copy()
            message["content"] = self._readable(content, message["role"])
        if message["role"] == "assistant":
            self._add_assistant(message)
        elif message["role"] == "system":
            self._add_system(message)
        else:
            self.messages.append(message)

    def _readable(
        self, content: list[TextPartParam | contents.ImageBlock], role: str
    ) -> contents.Content:
        """The content with its images if they are read; otherwise with texts in their place."""
        reads = self._settings.read_images and self._dialect.image_token is not None
        if reads and role in _ROLES_WITH_IMAGES:
            return list(map(self._checked, content))
        why = f"images of this role ({role}) are not read" if reads else "images are not read"
        for block in content:
            if block["type"] != "text":
                if self._settings.unsupported_images == "refuse":
                    raise ApiError(f"found an image, expected text: {why}", path=block["path"])
                self.replaced += 1
        return contents.without_images(content)

    def _checked(
        self, block: TextPartParam | contents.ImageBlock
    ) -> TextPartParam | contents.ImageBlock:
        if block["type"] == "text":
            return block
        if self._settings.read_images == "unchecked" and block.get("problem") != contents.NO_FILES:
            content = contents.maybe_missing(block)
            self.images += content is block
            self.replaced += content is not block
            return content
        self.images += 1
        if self.images > contents.MAX_IMAGES:
            raise ApiError(f"found more than {contents.MAX_IMAGES} images", path=block["path"])
        return contents.checked_image(block, self._settings.read_images == "paths")

    # Consecutive assistant messages are one turn, even where thinking comes between other parts.

    def _add_assistant(self, message: neutral.AssistantEntry) -> None:
        if "tool_calls" in message and any("namespace" in c for c in message["tool_calls"]):
            message = {**message, "tool_calls": list(map(self._named, message["tool_calls"]))}
        last = self.messages[-1] if self.messages else None
        if last is not None and last["role"] == "assistant":
            self.messages[-1] = neutral.joined_turn(last, message)
        else:
            self.messages.append(message)

    def _named(self, call: contents.HistoryCall) -> contents.HistoryCall:
        if "namespace" not in call:
            return call
        function = call["function"]
        name = neutral.prompt_name((call["namespace"], function["name"]), self._dialect)
        return {"id": call["id"], "type": "function", "function": {**function, "name": name}}

    # System texts before the first turn are one message. The settings place later ones.

    def _add_system(self, message: neutral.SystemEntry) -> None:
        text = contents.without_images(message["content"])
        kept: Any = {name: message[name] for name in neutral.KEPT_FIELDS if name in message}  # type: ignore[literal-required]
        if not self.messages or self._later == "in_front":
            self._system.append(text)
            self._system_fields |= kept
        elif self._later == "reminder":
            self.messages.append(cast("neutral.UserEntry", reminder(text) | kept))
        else:
            self.messages.append(_system_entry(text, kept))

    def _end(self) -> None:
        """A prompt must end with something to answer: a last system text becomes a reminder."""
        if not self.messages and self._system:
            self.messages.append(reminder(self._system.pop()))
        elif not self.messages:
            raise ApiError("found no message, expected at least one", path=self._path)
        else:
            last = self.messages[-1]
            if last["role"] == "system" and self._dialect.system_token is None:
                self.messages[-1] = reminder(contents.without_images(last["content"]))

    def _begin(self) -> None:
        if self._system:
            kept: Any = self._system_fields
            text = contents.BLANK_LINE.join(self._system)
            self.messages.insert(0, _system_entry(text, kept))
        for index, message in enumerate(self.messages):
            if message["role"] == "assistant" and "marks" in message:
                self.marks[index] = message["marks"]
                unmarked = message.copy()
                del unmarked["marks"]
                self.messages[index] = unmarked


def _system_entry(text: str, kept: dict[str, Any]) -> neutral.SystemEntry:
    return cast("neutral.SystemEntry", {"role": "system", "content": text, **kept})


def reminder(text: str) -> neutral.UserEntry:
    """A system text as a part of the user's turn."""
    return {"role": "user", "content": REMINDER.format(text)}


def is_finished(request: NeutralRequest, settings: ApiSettings) -> bool:
    """Whether the messages end with an assistant turn that is complete, and no prefix."""
    last = request.messages[-1] if request.messages else None
    if last is None or last["role"] != "assistant" or last.get("prefix"):
        return False
    keeps = settings.last_answer == "keep" and not request.continues
    return keeps or settings.last_answer == "finish"


def check_end(request: NeutralRequest) -> None:
    """Raises where the messages end with a turn that the model is not asked to continue."""
    last = request.messages[-1] if request.messages else None
    if last is None or last["role"] != "assistant":
        return
    if not (request.continues or last.get("prefix")):
        expected = 'a message of the user or a tool, or "prefix": true to continue this one'
        message = f"found an assistant message at the end, expected {expected}"
        raise ApiError(message, path=request.last_path)
    turn = len(request.messages)
    while turn and request.messages[turn - 1]["role"] == "assistant":
        turn -= 1
    if any(m["role"] == "assistant" and m.get("tool_calls") for m in request.messages[turn:]):
        raise ApiError("found calls at the end, expected their results", path=request.last_path)
    if not any(message["role"] in ("user", "tool") for message in request.messages[:turn]):
        raise ApiError(
            "found no message to answer, expected a user message", path=request.last_path
        )


def continued_turns(
    messages: list[neutral.Entry], request: NeutralRequest, thinking: bool, settings: ApiSettings
) -> tuple[list[neutral.Entry], str]:
    """The messages, and the text that the model continues if a message cannot hold it.

    A last assistant turn is left open. One that has only reasoning cannot be left open: its
    reasoning is returned as the text.
    """
    if is_finished(request, settings):
        return messages, ""
    check_end(request)
    last = messages[-1]
    if last["role"] != "assistant":
        return messages, ""
    if last.get("content"):
        return [*messages[:-1], {**last, "prefix": True}], ""
    return messages[:-1], (last.get("reasoning_content") or "") if thinking else ""


# A neutral request -> `ApiRequest`.


NO_FIELDS: Mapping[str, Any] = MappingProxyType({})
T = TypeVar("T")


def chosen_dialect(
    dialect: DialectName | Dialect | None, model: object
) -> tuple[Dialect, tuple[str, ...]]:
    """The dialect, given or taken from the name of a model, and notes about that choice."""
    if dialect is not None:
        return dialect_named(dialect), ()
    return _dialect_of_model(model) if isinstance(model, str) and model else (V4, ())


@lru_cache
def _dialect_of_model(model: str) -> tuple[Dialect, tuple[str, ...]]:
    try:
        return dialect_for(model), ()
    except UnknownModel as error:
        served = dialect_served_as(model)
        if served is None:
            return V4, (f"{error.problem}; the prompt is that of v4",)
        note = f"{model!r} is a name of the official API, which serves {served.name} under it today"
        return served, (f"{note}; the profile deepseek-api has its prompts",)


def resolve(
    request: NeutralRequest,
    protocol: ProtocolName,
    dialect: DialectName | Dialect | None,
    settings: ApiSettings,
) -> ApiRequest:
    """The request as a dialect and a server's settings make it."""
    return ResolvedOptions(request, protocol, dialect, settings).with_messages(request)


class ResolvedOptions:
    """The options of a request, resolved for a dialect and a server's settings.

    They do not depend on the messages, so they can be cached.
    """

    def __init__(
        self,
        request: NeutralRequest,
        protocol: ProtocolName,
        dialect: DialectName | Dialect | None,
        settings: ApiSettings,
    ) -> None:
        self.request = request
        self.dialect, notes = chosen_dialect(dialect, request.model)
        self.settings = settings
        tools = _visible_tools(request, self.dialect)
        self.thinking: bool = _thinking(request, settings)
        effort = _effort(request, self.dialect, settings) if self.thinking else None
        self._request_fields = self._prompt_options(tools, effort)
        self._api_fields: dict[str, Any] = {
            **API_REQUEST_DEFAULTS,
            **_server_fields(request),
            "protocol": protocol,
            "model": request.model or settings.model,
            "max_tokens": request.max_tokens or most_tokens(self.thinking, effort, settings),
            "names": tools.names,
            "settings": settings,
            "notes": notes,
        }

    def _prompt_options(
        self, tools: neutral.VisibleTools, effort: str | int | None
    ) -> dict[str, Any]:
        """The fields of the `Request`, all but its messages."""
        request = self.request
        prompted: dict[str, Any] = {"effort": effort, "dialect": self.dialect}
        if not self.thinking:
            prompted["thinking"] = False
        if tools.functions is not None:
            prompted["tools"] = tools.functions
        if request.choice is not neutral.AUTO:
            prompted["tool_choice"] = _prompt_choice(request, tools)
        if request.format is not None:
            prompted["response_format"] = _response_format(request.format)
        if request.stop:
            prompted["stop"] = request.stop
        drops = request.drop_thinking
        if not (self.settings.drop_thinking if drops is None else drops):
            prompted["drop_thinking"] = False
        return prompted

    def with_messages(
        self, request: NeutralRequest, own: Mapping[str, Any] = NO_FIELDS
    ) -> ApiRequest:
        """The request with the messages of `request`."""
        turns = TurnBuilder(request, self.dialect, self.settings)
        messages, prefix = continued_turns(turns.messages, request, self.thinking, self.settings)
        request_fields = {"prefix": prefix} if prefix else NO_FIELDS
        values = {**own, "marks": turns.marks}
        if turns.images or turns.replaced:
            values |= {"images": turns.images, "replaced_images": turns.replaced}
        return self.with_turns(messages, values, request_fields)

    def with_turns(
        self,
        messages: Sequence[Mapping[str, object]],
        own: Mapping[str, Any] = NO_FIELDS,
        request_fields: Mapping[str, Any] = NO_FIELDS,
    ) -> ApiRequest:
        """The request with messages that need no conversion into turns.

        `own` are the fields of the `ApiRequest` that the options do not have, `request_fields`
        those of its `Request`. Constructors are not called: they would take longer than encoding a
        short conversation. They set fields one by one, and a `Request` repeats checks made here.
        """
        options = self._request_fields
        if request_fields:
            options = {**options, **request_fields}
        call = object.__new__(ApiRequest)
        values = call.__dict__
        values |= self._api_fields
        if own:
            values |= own
        values["request"] = Request._trusted(messages, options)
        return call


def _defaults(kind: type[ApiRequest]) -> dict[str, Any]:
    """The fields that may be left out, with their defaults."""
    values = {e.name: e.default for e in fields(kind) if e.default is not MISSING}
    factories = {
        e.name: e.default_factory() for e in fields(kind) if e.default_factory is not MISSING
    }
    return values | factories


API_REQUEST_DEFAULTS = _defaults(ApiRequest)


# Fields that concern only the server.
SERVER_FIELDS = (
    *("sampling", "stream", "include_usage", "n", "logprobs", "top_logprobs", "user", "cache_key"),
)


def _server_fields(request: NeutralRequest) -> dict[str, Any]:
    """The fields of an `ApiRequest` that are taken over unchanged."""
    served = request.own_fields(SERVER_FIELDS)
    served |= {"ignored": request.declared.ignored, "echo": request.echo}
    if request.parallel is False:
        served["parallel"] = False
    return served


def _visible_tools(request: NeutralRequest, dialect: Dialect) -> neutral.VisibleTools:
    if request.choice is neutral.AUTO:
        return neutral.visible_tools(request.declared, dialect)
    return neutral.visible_tools_for(request.declared, request.choice, dialect)


def _thinking(request: NeutralRequest, settings: ApiSettings) -> bool:
    """Whether the model thinks, which depends on whether it must call a tool."""
    thinking = False if request.effort == OFF else request.thinking
    if request.choice.mode not in ("required", "tool"):
        return settings.thinking if thinking is None else thinking
    # A call is forced by writing its beginning, which a model that thinks first cannot continue.
    if thinking is False or not request.wants_thinking:
        return False
    if not settings.grammars:
        message = (
            "found a call that must be made, and thinking, expected one of them: the backend takes "
            "no grammars. Switch thinking off, or leave the choice to the model"
        )
        raise ApiError(message, path=request.choice.path)
    return True


def _effort(request: NeutralRequest, dialect: Dialect, settings: ApiSettings) -> str | int | None:
    effort = request.effort if request.effort is not None else settings.effort
    return dialect_effort(effort, dialect, request.effort_path)


def _prompt_choice(request: NeutralRequest, tools: neutral.VisibleTools) -> ToolChoice:
    name = tools.forced
    if name in ("auto", "none", "required"):  # a tool may have the name of a mode
        return {"type": "function", "function": {"name": name}}
    return request.choice.mode if name is None else name


def _response_format(form: neutral.AnswerFormat) -> dict[str, Any]:
    if form.schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"schema": form.schema}}


def most_tokens(thinking: bool, effort: str | int | None, settings: ApiSettings) -> int:
    """The most tokens of a completion if a request does not give a limit."""
    if not thinking:
        return settings.max_tokens
    return settings.max_tokens_max_effort if effort == "max" else settings.max_tokens_thinking


@lru_cache
def dialect_effort(effort: str | int | None, dialect: Dialect, path: str) -> str | int | None:
    """The effort as the dialect names it, None where it has no text for it."""
    efforts = dialect.efforts
    if isinstance(effort, int):
        numbers = [each for each in efforts if isinstance(each, int)]
        if effort in numbers:
            return effort
        expected = f"{min(numbers)} to {max(numbers)}" if numbers else "a name: it has no numbers"
        message = f"found {effort}, expected for the dialect {dialect.name}: {expected}"
        raise ApiError(message, path=path)
    name = EFFORTS.get(effort, effort) if effort is not None else None
    return name if name in efforts else None
