"""The changes to a request that make another server accept it and read it as it was meant.

The profiles say what each server refuses and misreads (docs/servers.md). Here is the remedy for
each: an adaptation is a value with its reason, the servers that need it, and the change. A request
that needs none is passed on unchanged.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from dsv4._format.dialects import Dialect
from dsv4._format.texts import RESPONSE_FORMAT
from dsv4.api import ApiError
from dsv4.api.chat_requests import chat_options
from dsv4.api.neutral_request import NeutralRequest
from dsv4.api.request_fields import OFF, JsonObject
from dsv4.errors import EncodeError
from dsv4.profiles import PROFILES, Profile, load
from dsv4.profiles.official_api import (
    PROFILE_NAME,
    is_official_host,
    meant_name,
    served_release,
)
from dsv4.profiles.official_messages import is_web_tool
from dsv4.profiles.profile import OFFICIAL_API, profile_named
from dsv4.profiles.recipe_schemas import strict_parameters
from dsv4.profiles.server_requests import served_name
from dsv4.serve.backend import Model
from dsv4.serve.heal import adapted_messages, official_limits
from dsv4.serve.heal.adapted_messages import (
    ChatMessages,
    MessageChange,
    each_changed,
    with_value,
    without,
)
from dsv4.serve.settings import SettingError, Settings

DEEPSEEK, VLLM, SGLANG = PROFILE_NAME, "vllm", "sglang"
# The servers that requests can be adapted to, and their profiles.
SERVER_PROFILES: Mapping[str, str] = {
    DEEPSEEK: PROFILE_NAME,
    VLLM: "vllm-0.33",
    SGLANG: "sglang-0.5.23",
}
NONE = "none"
# The owner that the official API names for its models.
_OFFICIAL_OWNER = "deepseek"


@dataclass(frozen=True, slots=True)
class AdaptedServer:
    """A server that requests are adapted to, and how the operator wants that done.

    `name` is one of `SERVER_PROFILES`; `model` is the dialect as profiles name it. `off` are the
    ids of adaptations that are switched off.
    """

    name: str
    profile: Profile
    model: str
    settings: Settings
    off: frozenset[str]

    @property
    def title(self) -> str:
        """The server's name for people."""
        return "the official API" if self.name == DEEPSEEK else self.profile.server

    def thinks(self, body: JsonObject) -> bool:
        """Whether the model would think about a request."""
        try:
            return self.profile.mode(body, self.model).thinking
        except EncodeError:  # it will be refused, for another reason
            return True

    def for_model(self, model: object) -> AdaptedServer:
        """The server as it is for one of its models: the official API has two kinds of them."""
        release = served_release(meant_name(model)) if isinstance(model, str) else None
        if self.name != DEEPSEEK or release is None or self.settings.dialect is not None:
            return self
        return replace(self, model=served_name(str(release.dialect)))


def server_kind(settings: Settings, models: Sequence[Model] = ()) -> str:
    """The name of the server behind a gateway: the one in the settings, else the official API where
    the address or the models show it, else "none"."""
    if settings.adapt_for is not None:
        return settings.adapt_for
    owners = {model.owner for model in models}
    is_official = is_official_host(settings.first_upstream) or owners == {_OFFICIAL_OWNER}
    return DEEPSEEK if is_official else NONE


def adapted_server(kind: str, dialect: Dialect, settings: Settings) -> AdaptedServer | None:
    """The server for a name, or for a file that `dsv4 verify` saved. Returns None for "none"."""
    if kind == NONE:
        return None
    name, profile = _profile_of(kind)
    model = profile.own_dialect(served_name(dialect))
    return AdaptedServer(name, profile, model, settings, frozenset(settings.skip_adaptations))


def _profile_of(kind: str) -> tuple[str, Profile]:
    names = {profile_named(profile).family: name for name, profile in SERVER_PROFILES.items()}
    is_listed = kind in SERVER_PROFILES or kind in PROFILES
    if kind == "recipe-0.2.0":  # the official API is built on it
        return DEEPSEEK, OFFICIAL_API
    profile = profile_named(SERVER_PROFILES.get(kind, kind)) if is_listed else _saved_profile(kind)
    if profile.family not in names:
        problem = f"found a server like {profile.base_name}, which is not adapted to"
        raise SettingError("for", f"{kind}: {problem}")
    return names[profile.family], profile


def _saved_profile(path: str) -> Profile:
    try:
        return load(path)
    except (EncodeError, OSError) as error:
        expected = f"{', '.join(SERVER_PROFILES)}, none, or a file that `dsv4 verify --save` wrote"
        raise SettingError("for", f"{path}: {error}; expected one of {expected}") from None


# Thinking and effort.


# Tells each server in its own fields to think, or not to.
def _switched(body: JsonObject, server: AdaptedServer, thinking: bool) -> JsonObject:
    if server.name == DEEPSEEK:
        new_body = {**body, "thinking": {"type": "enabled" if thinking else "disabled"}}
        if not thinking:
            new_body.pop("reasoning_effort", None)
        return new_body
    options = body.get("chat_template_kwargs") or {}
    switches = {"thinking": thinking, "enable_thinking": thinking}
    return {**body, "chat_template_kwargs": {**options, **switches}}


def _request_options(body: JsonObject) -> NeutralRequest:
    """The thinking, effort and tool choice of a request, whichever fields it uses for them."""
    fields = ("thinking", "reasoning_effort", "chat_template_kwargs", "tool_choice")
    options = {name: body[name] for name in fields if name in body}
    own, switch = body.get("reasoning"), body.get("enable_thinking")
    if isinstance(own, dict) and own.get("effort") is not None:  # as routers of models write it
        options.setdefault("reasoning_effort", own["effort"])
    if isinstance(switch, bool) and not options.get("thinking"):  # as Qwen's servers read it
        options["thinking"] = {"type": "enabled" if switch else "disabled"}
    if isinstance(options.get("reasoning_effort"), float):  # as SGLang counts
        del options["reasoning_effort"]
    return chat_options(options)


def _is_forced(body: JsonObject) -> bool:
    choice = body.get("tool_choice")
    return choice == "required" or isinstance(choice, dict)


def _with_known_choice(body: JsonObject, server: AdaptedServer) -> JsonObject:
    """The request without a choice of an undeclared tool, and with each tool only once."""
    tools = body.get("tools")
    names = [_function_of(tool).get("name") for tool in tools or ()]
    first = [
        tool
        for n, tool in enumerate(tools or ())
        if is_web_tool(tool) or (names[n] not in names[:n])
    ]
    if tools and len(first) < len(tools):
        body = {**body, "tools": first}
    choice = body.get("tool_choice")
    wanted = _function_of(choice).get("name") if isinstance(choice, dict) else None
    is_lost = wanted is not None and wanted not in names
    return without(body, "tool_choice") if is_lost or (choice and not tools) else body


def _with_thinking(body: JsonObject, server: AdaptedServer) -> JsonObject:
    options = _request_options(body)
    thinking = False if options.effort == OFF else options.thinking
    if server.name == DEEPSEEK and body.get("thinking") == {"type": "enabled"}:
        thinking = True  # this field takes precedence over the effort there
    if thinking is None and _is_forced(body):
        return body
    thinking = server.settings.thinking if thinking is None else thinking
    return body if server.thinks(body) == thinking else _switched(body, server, thinking)


# The effort to send in place of one that a server refuses or takes for another.
_EFFORT_NAMES: Mapping[tuple[str, str], Mapping[str, str]] = {
    (VLLM, "v4"): {"medium": "high", "ultra": "max"},
    (VLLM, "v4.1"): {"minimal": "low", "medium": "high", "ultra": "max"},
}
# The numbers that the names stand for on the scale of V4.1.
_EFFORT_NUMBERS = {"low": 50, "high": 75, "max": 100}


def _with_effort(body: JsonObject, server: AdaptedServer) -> JsonObject:
    effort = _request_options(body).effort
    if effort is None or (effort == OFF and server.name == DEEPSEEK):
        return body
    if isinstance(effort, int):
        return _with_number(body, server, effort)
    name = _EFFORT_NAMES.get((server.name, server.model), {}).get(effort, effort)
    return body if body.get("reasoning_effort") == name else {**body, "reasoning_effort": name}


def _with_number(body: JsonObject, server: AdaptedServer, effort: int) -> JsonObject:
    if server.model == "v4.1" and server.name == SGLANG:
        return {**body, "reasoning_effort": min(effort, 99) / 100}
    if server.model == "v4.1" and server.name == VLLM:
        rest, options = without(body, "reasoning_effort"), body.get("chat_template_kwargs") or {}
        return {**rest, "chat_template_kwargs": {**options, "reasoning_effort": effort}}
    near = min(_EFFORT_NUMBERS, key=lambda name: abs(_EFFORT_NUMBERS[name] - effort))
    return {**body, "reasoning_effort": near}


def _with_possible_choice(body: JsonObject, server: AdaptedServer) -> JsonObject:
    if not _is_forced(body) or not server.thinks(body):
        return body
    if server.settings.forced_calls == "thinking-off":
        return _switched(body, server, False)
    if server.settings.forced_calls == "auto":
        return without(body, "tool_choice")
    problem = (
        f"found a call that must be made, and thinking, expected one of them: {server.title} "
        "refuses both together"
    )
    raise ApiError(problem, path="tool_choice")


# Tools.


def _with_allowed_tools(body: JsonObject, server: AdaptedServer) -> JsonObject:
    """The request with only the tools that may be called, because the server has no such choice."""
    choice = body.get("tool_choice")
    if not isinstance(choice, dict) or choice.get("type") != "allowed_tools":
        return body
    rule = _request_options(body).choice
    names = {name for _, name in rule.allowed or ()}
    tools = [tool for tool in body.get("tools") or () if _function_of(tool).get("name") in names]
    return {**body, "tools": tools, "tool_choice": rule.mode}


def _without_idle_tools(body: JsonObject, server: AdaptedServer) -> JsonObject:
    """The request without tools where none may be called, and without a choice where there are no
    tools."""
    if body.get("tools") and body.get("tool_choice") != "none":
        return body
    return without(body, "tools", "tool_choice")


def _function_of(tool: object) -> JsonObject:
    """The function in a tool; some clients leave out the object around it."""
    fields = tool if isinstance(tool, dict) else {}
    function = fields.get("function")
    return function if isinstance(function, dict) else fields


_SERVER_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_LONGEST_NAME = 128


def server_names(body: JsonObject) -> dict[str, str]:
    """The tools of a request whose names the server refuses, and their new names."""
    names = [str(_function_of(tool).get("name")) for tool in body.get("tools") or ()]
    in_use = set(names)
    new_names: dict[str, str] = {}
    for name in names:
        if _SERVER_NAME.fullmatch(name) or name in new_names:
            continue
        new = re.sub(r"[^A-Za-z0-9_-]", "_", name)
        if len(new) > _LONGEST_NAME or new in in_use or not new:
            digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:10]
            new = f"{new[: _LONGEST_NAME - 11]}_{digest}"
        in_use.add(new)
        new_names[name] = new
    return new_names


def _with_server_names(body: JsonObject, server: AdaptedServer) -> JsonObject:
    names = server_names(body)
    if not names:
        return body
    rename = partial(adapted_messages.renamed_tools, names=names)
    new_body = {
        **body,
        "tools": [renamed_tool(tool, names) for tool in body["tools"]],
        "messages": [rename(message) for message in body["messages"]],
    }
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        new_body["tool_choice"] = renamed_tool(choice, names)
    return new_body


def renamed_tool(tool: JsonObject, names: Mapping[str, str]) -> JsonObject:
    """A tool, or a choice of one, under another name."""
    function = _function_of(tool)
    name = function.get("name")
    if name not in names:
        return tool
    renamed = {**function, "name": names[str(name)]}
    return renamed if function is tool else {**tool, "function": renamed}


def _each_function(body: JsonObject, change: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """The request, with each tool's function changed by `change`."""

    def changed(tool: object) -> object:
        if is_web_tool(tool):
            return tool
        function = _function_of(tool)
        new = change(function)
        same = new is function and isinstance(tool, dict) and tool.get("type") == "function"
        return tool if same else {"type": "function", "function": new}

    tools = body.get("tools")
    return with_value(body, "tools", each_changed(tools, changed)) if tools else body


def _with_schema(function: JsonObject) -> JsonObject:
    parameters = function.get("parameters")
    if not isinstance(parameters, dict) or "type" in parameters:
        return function
    empty: JsonObject = {} if "properties" in parameters else {"properties": {}}
    return {**function, "parameters": {"type": "object", **empty, **parameters}}


def _with_schemas(body: JsonObject, server: AdaptedServer) -> JsonObject:
    body = _each_function(body, _with_schema)
    return _each_function(body, official_limits.with_valid_schema)


def _without_mixed_strictness(body: JsonObject, server: AdaptedServer) -> JsonObject:
    """The request without strict tools where the server would refuse them: all tools or none may be
    strict, the schema must be of the server's kind, and there may be no response format."""
    functions = [_function_of(tool) for tool in body.get("tools") or ()]
    if not any(function.get("strict") not in (None, False) for function in functions):
        return body
    if all(map(_is_strict, functions)) and body.get("response_format") is None:
        return body
    return _each_function(body, lambda function: without(function, "strict"))


def _is_strict(function: JsonObject) -> bool:
    """Whether a function is strict and its schema allows that."""
    try:
        strict_parameters(function.get("parameters"), "parameters")
    except EncodeError:
        return False
    return function.get("strict") is True


# Everything else.


def _with_old_length(body: JsonObject, server: AdaptedServer) -> JsonObject:
    newer, rest = body.get("max_completion_tokens"), without(body, "max_completion_tokens")
    return rest if newer is None else {**rest, "max_tokens": newer}


_JSON_WORD = "Answer with a JSON object."


def _with_visible_format(body: JsonObject, server: AdaptedServer) -> JsonObject:
    """A response format that the model can see, or that the server accepts."""
    form = body.get("response_format")
    form = form if isinstance(form, dict) else {}
    kind = form.get("type")
    if kind not in ("json_object", "json_schema"):
        return body
    if server.name == VLLM or (server.name == DEEPSEEK and kind == "json_schema"):
        schema = form if kind == "json_object" else (form.get("json_schema") or {}).get("schema")
        text = RESPONSE_FORMAT + json.dumps(schema, ensure_ascii=False)
    elif kind == "json_schema" or _says_json(body["messages"]):
        return body
    else:
        text = _JSON_WORD
    if server.name == DEEPSEEK and kind == "json_schema":  # it refuses this format
        body = {**body, "response_format": {"type": "json_object"}}
        text = f"{_JSON_WORD}\n\n{text}"
    return {**body, "messages": _with_system_text(body["messages"], text)}


def _says_json(messages: Sequence[JsonObject]) -> bool:
    texts = (adapted_messages.text_of(message.get("content")) for message in messages)
    return any(text and "json" in text.lower() for text in texts)


def _with_system_text(messages: Sequence[JsonObject], text: str) -> list[JsonObject]:
    """The messages with one more text at the end of the first system message."""
    if not messages or messages[0].get("role") != "system":
        return [{"role": "system", "content": text}, *messages]
    own = adapted_messages.text_of(messages[0].get("content"))
    both = f"{own}\n\n{text}" if own else text
    return [{**messages[0], "content": both}, *messages[1:]]


def _with_continuation(body: JsonObject, server: AdaptedServer) -> JsonObject:
    messages = body["messages"]
    last = messages[-1] if messages else {}
    if last.get("role") != "assistant" or not last.get("prefix"):
        return body
    if server.name == SGLANG:
        return {**body, "continue_final_message": True}
    if server.name == DEEPSEEK:  # it continues nothing where tools or JSON are used
        calls = any(m.get("tool_calls") or m.get("role") == "tool" for m in messages)
        is_taken = not (body.get("tools") or calls or body.get("response_format"))
        answers = [*messages[:-1], without(last, "prefix")]
        return body if is_taken else {**body, "messages": answers}
    problem = f"found an answer to continue, which {server.title} cannot: it begins a new turn"
    raise ApiError(problem, path=f"messages[{len(messages) - 1}].prefix")


def _in_messages(change: MessageChange) -> BodyChange:
    return _in_conversation(partial(each_changed, change=change))


def _in_conversation(change: Callable[[ChatMessages], ChatMessages]) -> BodyChange:
    def changed(body: JsonObject, server: AdaptedServer) -> JsonObject:
        return with_value(body, "messages", change(body["messages"]))

    return changed


def _of_body(change: Callable[[JsonObject], JsonObject]) -> BodyChange:
    return lambda body, server: change(body)


def _with_placed_systems(body: JsonObject, server: AdaptedServer) -> JsonObject:
    place = partial(adapted_messages.placed_systems, place=server.settings.systems)
    return _in_conversation(place)(body, server)


def _with_readable_parts(body: JsonObject, server: AdaptedServer) -> JsonObject:
    images = server.model == "v4.1"
    reads = partial(
        adapted_messages.readable_parts, images=images, files=images and server.name == DEEPSEEK
    )
    return _in_messages(reads)(body, server)


def _with_all_reasoning(body: JsonObject, server: AdaptedServer) -> JsonObject:
    if not server.thinks(body):
        return body
    fill = partial(
        adapted_messages.with_reasoning_everywhere,
        otherwise=server.settings.missing_reasoning,
        tools=bool(body.get("tools")),
    )
    return _in_conversation(fill)(body, server)


BodyChange: TypeAlias = Callable[[JsonObject, AdaptedServer], JsonObject]
_TEXTS: Mapping[str, Mapping[str, str]] = json.loads(
    Path(__file__).with_name("adaptation_texts.json").read_text("utf-8")
)


@dataclass(frozen=True, slots=True)
class Adaptation:
    """One change: its id and the servers that need it.

    `change` returns the body as the server takes it, or the same body where nothing changes. It is
    None for an adaptation that needs the store of turns (`request_adapter.py`).
    """

    id: str
    servers: tuple[str, ...]
    change: BodyChange | None
    models: tuple[str, ...] = ("v4", "v4.1")

    def is_for(self, server: AdaptedServer) -> bool:
        """Whether a server needs it."""
        return server.name in self.servers and server.model in self.models

    def applies(self, server: AdaptedServer) -> bool:
        """Whether requests to a server are changed in this way."""
        return self.is_for(server) and self.id not in server.off


ALL = (DEEPSEEK, VLLM, SGLANG)
RECIPE = (DEEPSEEK, SGLANG)
RESTORED_REASONING, RESTORED_TURNS = "reasoning", "turns"

# In the order in which they are applied. adaptation_texts.json says what each does, and why.
ADAPTATIONS: tuple[Adaptation, ...] = (
    Adaptation(RESTORED_REASONING, ALL, None),
    Adaptation(RESTORED_TURNS, ALL, None),
    Adaptation("reasoning-field", RECIPE, _in_messages(adapted_messages.with_read_field)),
    Adaptation("message-forms", ALL, _in_conversation(adapted_messages.complete_messages)),
    Adaptation("arguments", (VLLM,), _in_messages(adapted_messages.with_object_arguments)),
    Adaptation("parts", ALL, _with_readable_parts),
    Adaptation("developer", (DEEPSEEK, VLLM), _in_messages(adapted_messages.developer_as_system)),
    Adaptation("later-system", ALL, _with_placed_systems, ("v4",)),
    Adaptation("turn-parts", (DEEPSEEK,), _in_conversation(adapted_messages.joined_turns)),
    Adaptation("distinct-ids", RECIPE, _in_conversation(adapted_messages.distinct_ids)),
    Adaptation("results", RECIPE, _in_conversation(adapted_messages.paired_results)),
    Adaptation("call-ids", RECIPE, _in_conversation(adapted_messages.sorted_ids), ("v4",)),
    Adaptation("allowed-tools", ALL, _with_allowed_tools),
    Adaptation("idle-tools", (VLLM,), _without_idle_tools),
    Adaptation("tool-names", RECIPE, _with_server_names),
    Adaptation("tool-schemas", RECIPE, _with_schemas),
    Adaptation("tool-choice", (DEEPSEEK,), _with_known_choice),
    Adaptation("strict-tools", RECIPE, _without_mixed_strictness),
    Adaptation("effort", ALL, _with_effort),
    Adaptation("thinking", ALL, _with_thinking),
    Adaptation("forced-call", (DEEPSEEK,), _with_possible_choice),
    Adaptation("max-tokens", (DEEPSEEK,), _with_old_length),
    *(
        Adaptation(id, (DEEPSEEK,), _of_body(change))
        for id, change in official_limits.OFFICIAL_CHANGES.items()
    ),
    Adaptation("response-format", ALL, _with_visible_format),
    Adaptation("continuation", ALL, _with_continuation),
    Adaptation("missing-reasoning", (DEEPSEEK,), _with_all_reasoning),
)
ADAPTATION_IDS = tuple(adaptation.id for adaptation in ADAPTATIONS)


def check_ids(ids: Sequence[str]) -> None:
    """Raises a `SettingError` for an unknown id."""
    for id in ids:
        if id not in ADAPTATION_IDS:
            expected = f"one of {', '.join(ADAPTATION_IDS)}"
            raise SettingError("skip_adaptations", f"found {id!r}, expected {expected}")


def adapted(body: JsonObject, server: AdaptedServer) -> tuple[JsonObject, tuple[str, ...]]:
    """A request as a server takes it, and the ids of the adaptations that changed it. Raises an
    `ApiError` where the server can take nothing like it."""
    ids = []
    server = server.for_model(body.get("model"))
    for adaptation in ADAPTATIONS:
        if adaptation.change is not None and adaptation.applies(server):
            new_body = adaptation.change(body, server)
            if new_body is not body:
                ids.append(adaptation.id)
                body = new_body
    return body, tuple(ids)


def explanation(server: AdaptedServer | None) -> str:
    """The table for one server, as text: changes, reasons, and the adaptations switched off."""
    if server is None:
        return "Requests are passed on as they are. `--for` names a server to adapt them to.\n"
    lines = [f"Requests are adapted to {server.title}.", ""]
    for adaptation in (each for each in ADAPTATIONS if each.is_for(server)):
        off = "" if adaptation.applies(server) else " (switched off)"
        texts = _TEXTS[adaptation.id]
        lines += [f"{adaptation.id}{off}", f"    {texts['what']}", f"    {texts['why']}"]
    return "\n".join(lines) + "\n"
