"""Code that all server profiles share: reading the fields of a request, refusing one, and the
dialects as servers write them.

No other module changes the encoder's own dialects for a server.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from dsv4._format.dialects import DIALECTS, ROLES, V4_0731, V4_1, Dialect
from dsv4.errors import EncodeError, location_of, mismatch, short_repr
from dsv4.types import Effort, MessageInput

# Refusals.


def server_refusal(path: str, problem: str) -> EncodeError:
    """The error of a server that refuses a request: the path, as people write it, and why."""
    return EncodeError(location_of(path), problem)


# Reading the body of a request.


def unexpected(value: object, expected: str, path: str) -> EncodeError:
    """The refusal of a value that is not what it should be."""
    return server_refusal(path, mismatch(value, expected))


Object: TypeAlias = dict[str, Any]
# A Chat Completions request, or only its messages.
RequestBody: TypeAlias = Object | Sequence[MessageInput | Object]


def object_at(value: object, path: str) -> Object:
    if not isinstance(value, dict):
        raise unexpected(value, "an object", path)
    return value


def maybe_object(value: object, path: str) -> Object:
    """An object, empty if the field is absent or null."""
    return {} if value is None else object_at(value, path)


def template_options(body: Object) -> Object:
    """The options of the template; empty if they are not an object, which some servers accept."""
    value = body.get("chat_template_kwargs")
    return value if isinstance(value, dict) else {}


def list_at(value: object, path: str) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)):
        raise unexpected(value, "a list", path)
    return value


def maybe_list(value: object, path: str) -> Sequence[Any]:
    """A list, empty if the field is absent or null."""
    return () if value is None else list_at(value, path)


def text_at(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise unexpected(value, "text", path)
    return value


def maybe_text(value: object, path: str) -> str | None:
    """Text, or None if the field is absent or null."""
    return None if value is None else text_at(value, path)


def bool_at(value: object, path: str) -> bool:
    """True or false, and no other value that may stand for them."""
    if not isinstance(value, bool):
        raise unexpected(value, "true or false", path)
    return value


def function_of(value: object, path: str, *kind: str) -> tuple[Object, Object, str]:
    """The fields, the function and the function's name of a tool or call. `kind` is its type if it
    does not give one."""
    fields = object_at(value, path)
    one_of(fields.get("type", *kind), ("function",), f"{path}.type")
    function = object_at(fields.get("function"), f"{path}.function")
    return fields, function, text_at(function.get("name"), f"{path}.function.name")


def calls_of(
    message: Object, path: str, read: Callable[[object, str], object], *kind: str
) -> Iterator[Object]:
    """The calls of an answer, whose arguments `read` reads. `kind` is as for `function_of`."""
    path = f"{path}.tool_calls"
    for n, call in enumerate(maybe_list(message.get("tool_calls"), path)):
        at = f"{path}[{n}]"
        fields, function, name = function_of(call, at, *kind)
        arguments = read(function.get("arguments"), f"{at}.function.arguments")
        id = text_at(fields.get("id"), f"{at}.id")
        yield {"id": id, "function": {"name": name, "arguments": arguments}}


# Values that Pydantic, which vLLM and SGLang use, reads as a flag.
_FLAGS: dict[object, bool] = {
    **dict.fromkeys((True, "true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys((False, "false", "f", "no", "n", "off", "0"), False),
}


def flag_at(value: object, path: str) -> bool:
    word = value.lower() if isinstance(value, str) else value
    flag = _FLAGS.get(word) if isinstance(word, (str, int, float)) else None
    if flag is None:
        raise unexpected(value, "true or false", path)
    return flag


def one_of(value: object, expected: Sequence[str], path: str) -> str:
    if not isinstance(value, str) or value not in expected:
        raise unexpected(value, f"one of {', '.join(expected)}", path)
    return value


def messages_of(body: Object) -> Iterator[tuple[Object, str]]:
    """Every message with its path."""
    for index, message in enumerate(list_at(body.get("messages"), "messages")):
        path = f"messages[{index}]"
        yield object_at(message, path), path


TOOL_CHOICES = ("none", "auto", "required")


def named_choice(choice: object) -> str | None:
    """The name of the tool that a `tool_choice` asks for; None if it is absent, or a mode."""
    if isinstance(choice, dict):
        one_of(choice.get("type"), ("function",), "tool_choice.type")
        function = object_at(choice.get("function"), "tool_choice.function")
        return text_at(function.get("name"), "tool_choice.function.name")
    if choice is not None:
        one_of(choice, TOOL_CHOICES, "tool_choice")
    return None


def check_chosen(wanted: str | None, names: Collection[object]) -> None:
    """Refuse a `tool_choice` that names a tool which is not declared."""
    if wanted is not None and wanted not in names:
        problem = f"found {short_repr(wanted)}, which is no tool"
        raise server_refusal("tool_choice.function.name", problem)


def as_object(body: object) -> Object:
    """The body of a request: an object with messages. A bare list of messages is one too."""
    return {"messages": body} if isinstance(body, (list, tuple)) else object_at(body, "request")


# The dialects as servers write them, which is not always as they were released.


# vLLM and SGLang serve V4.1 with a copy of the encoder from before namespaces, which keeps the
# developer role and does not look for the image placeholder in texts.
V4_1_COPY = replace(V4_1, roles=ROLES, image_text_refused=False, arguments="text", namespaces=False)

# Every server writes the revised effort texts on V4.
ServedDialects: TypeAlias = Mapping[str, Dialect]
SERVED_DIALECTS: ServedDialects = {"v4": V4_0731, "v4.1": V4_1_COPY}
# vLLM 0.33 has a newer copy.
VLLM_0_33_DIALECTS: ServedDialects = {
    **SERVED_DIALECTS,
    "v4.1": replace(V4_1_COPY, results_ask=False, image_text_refused=True),
}


# The official API has a name for each release. In its newest, results do not ask for an answer.
OFFICIAL_DIALECTS: ServedDialects = {
    **SERVED_DIALECTS,
    "v4-0731": V4_0731,
    "v4.1-1017": replace(V4_1_COPY, name="v4.1-1017", results_ask=False),
}


def served_name(dialect: str | Dialect) -> str:
    """The name under which servers know a dialect: they write all releases of V4 alike, and all of
    V4.1. A name that is not a dialect is returned as it is, for an error to quote."""
    named = DIALECTS.get(dialect) if isinstance(dialect, str) else dialect
    if not isinstance(named, Dialect) or named.layout != "v4":
        return str(dialect)
    return "v4" if named.system_token is None else "v4.1"


def served_dialect(name: str, served: ServedDialects = SERVED_DIALECTS) -> Dialect:
    """The dialect that a server writes for `name`, which is "v4" or "v4.1"."""
    served_as = served.get(name) if isinstance(name, str) else None
    if served_as is None:
        raise unexpected(name, f"one of {', '.join(served)}", "dialect")
    return served_as


# Differences between servers, as far as values can express them.


BLANK_LINE = "\n\n"


@dataclass(frozen=True)
class ServerRules:
    """A server's rules for reading requests for models of one dialect.

    - `roles`: the roles that messages may have; None if the encoder decides.
    - `efforts`: the allowed values of `reasoning_effort`; None if any.
    - `thinking_switches`: the options of `chat_template_kwargs` that switch thinking.
    - `reasoning_fields`: the fields of a message that hold reasoning; the first one given counts.
    - `separator`: the text between the texts of a content list; `result_separator`: for a tool's.
    """

    roles: tuple[str, ...] | None
    efforts: tuple[str, ...] | None
    thinking_switches: tuple[str, ...] = ()
    reasoning_fields: tuple[str, ...] = ("reasoning_content",)
    separator: str = BLANK_LINE
    result_separator: str = BLANK_LINE

    def role(self, value: object, path: str) -> str:
        return text_at(value, path) if self.roles is None else one_of(value, self.roles, path)

    def effort(self, body: Object) -> object:
        """The effort that a request asks for; None if it does not ask for any."""
        effort = body.get("reasoning_effort")
        if effort is not None and self.efforts is not None:
            one_of(effort, self.efforts, "reasoning_effort")
        return effort

    def switches(self, arguments: Object) -> list[bool]:
        """The thinking switches in the template's options, in the order in which they count."""
        return [bool(arguments[name]) for name in self.thinking_switches if name in arguments]

    def reasoning(self, message: Object) -> object:
        for name in self.reasoning_fields:
            if name in message:
                return message[name]
        return None


def with_extras(messages: list[Object], extras: Object, most: int | None = None) -> list[Object]:
    """The messages with `extras` in the first system message among the first `most`; without one,
    in a new system message in front."""
    for index, message in enumerate(messages[:most]):
        if message["role"] == "system":
            return [*messages[:index], {**message, **extras}, *messages[index + 1 :]]
    return [{"role": "system", "content": "", **extras}, *messages]


@dataclass(frozen=True)
class ThinkingMode:
    """Whether the model thinks, and the text about its effort that a server writes."""

    thinking: bool
    effort: str


def thinking_mode(
    thinking: bool, effort: str | int, dialect: str, served: ServedDialects = SERVED_DIALECTS
) -> ThinkingMode:
    """The mode of a server that writes the dialect's own texts."""
    text = served_dialect(dialect, served).efforts[effort] if thinking else ""
    return ThinkingMode(thinking, text)


def v4_1_effort(effort: object, efforts: Mapping[str, Effort]) -> Effort:
    """An effort of V4.1 in a template's options: a number, or one of these names."""
    if effort is None:
        return "high"
    if type(effort) is int and 1 <= effort <= 100:
        return effort
    if not isinstance(effort, str) or effort not in efforts:
        expected = f"one of {', '.join(efforts)}, or a number from 1 to 100"
        raise unexpected(effort, expected, "reasoning_effort")
    return efforts[effort]
