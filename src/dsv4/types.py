"""The values that callers give: messages, tools, and the words that options take.

Messages and tools are plain dicts, as OpenAI's SDK and the released encoders have them. The classes
here describe those dicts to editors and type checkers, and do nothing when a program runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

from dsv4.errors import OptionError, short_repr

__all__ = [
    "AssistantMessageParam",
    "ContentParam",
    "ContentPartParam",
    "DeveloperMessageParam",
    "DialectName",
    "Effort",
    "FunctionCallParam",
    "FunctionParam",
    "ImagePartParam",
    "ImageUrlParam",
    "ImageUrlPartParam",
    "JsonSchema",
    "JsonSchemaFormatParam",
    "MessageInput",
    "MessageParam",
    "NamedToolChoiceParam",
    "ReminderMessageParam",
    "ResponseFormatParam",
    "Role",
    "Sampled",
    "SupportsModelDump",
    "SupportsToDict",
    "SystemMessageParam",
    "Task",
    "TextPartParam",
    "ThinkingMode",
    "ToolCallParam",
    "ToolChoice",
    "ToolChoiceMode",
    "ToolInput",
    "ToolMessageParam",
    "ToolParam",
    "ToolResultPartParam",
    "UserMessageParam",
]

# Words.

Role: TypeAlias = Literal["system", "user", "assistant", "tool", "latest_reminder", "developer"]
"""The speaker of a message."""

DialectName: TypeAlias = Literal["v4", "v4-0731", "v4-vision", "v4.1", "v4.1-1017", "v3.2"]
"""A release of the format, as in `dsv4.DIALECTS`."""

Effort: TypeAlias = Literal["low", "high", "max"] | int
"""The effort of thinking. Each dialect has some of the names; `v4.1` has 1 to 100 as well."""

ToolChoiceMode: TypeAlias = Literal["auto", "none", "required"]
"""Whether tools may, must not or must be called."""

ThinkingMode: TypeAlias = Literal["chat", "thinking"]
"""Whether the model thinks before it answers, as the released functions spell it."""

Task: TypeAlias = Literal["action", "query", "authority", "domain", "title", "read_url"]
"""A quick instruction, which a message carries in place of an answer's opening."""

JsonSchema: TypeAlias = Mapping[str, Any]
"""A JSON Schema, or any other JSON object that is passed on as it is."""


# Objects that are turned into dicts.


class SupportsToDict(Protocol):
    """An object that turns itself into a dict: messages of `openai` and `dsv4`, rows of pandas."""

    def to_dict(self) -> Mapping[str, Any]:
        """The fields as a dict."""
        ...


class SupportsModelDump(Protocol):
    """An object that turns itself into a dict: pydantic models."""

    def model_dump(self) -> Mapping[str, Any]:
        """The fields as a dict."""
        ...


# Content.


class TextPartParam(TypedDict):
    """A text in a list of content."""

    type: Literal["text"]
    text: str


class _ImageUrlRequired(TypedDict):
    url: str


class ImageUrlParam(_ImageUrlRequired, total=False):
    """The address of an image: a URL, or its data as one."""

    detail: str


class ImageUrlPartParam(TypedDict):
    """An image in a list of content, as OpenAI gives it."""

    type: Literal["image_url"]
    image_url: ImageUrlParam | str


class _ImageRequired(TypedDict):
    type: Literal["image"]


class ImagePartParam(_ImageRequired, total=False):
    """An image in a list of content, by one of three fields."""

    source: Mapping[str, Any]
    url: str
    data: str


class _ToolResultRequired(TypedDict):
    type: Literal["tool_result"]


class ToolResultPartParam(_ToolResultRequired, total=False):
    """The result of a tool, in a user's list of content."""

    tool_use_id: str
    content: str | Sequence[TextPartParam | ImageUrlPartParam | ImagePartParam | str] | None


ContentPartParam: TypeAlias = (
    TextPartParam | ImageUrlPartParam | ImagePartParam | ToolResultPartParam
)
"""One item of a list of content."""

ContentParam: TypeAlias = str | Sequence[ContentPartParam | str] | None
"""The content of a message: text, a list of parts, or nothing."""


# Tools and calls.


class _FunctionRequired(TypedDict):
    name: str


class FunctionParam(_FunctionRequired, total=False):
    """A function that the model may call, with the JSON Schema of its parameters."""

    description: str | None
    parameters: JsonSchema | None
    strict: bool | None
    namespace: str | None


class _ToolRequired(TypedDict):
    type: Literal["function"]
    function: FunctionParam


class ToolParam(_ToolRequired, total=False):
    """A tool, as OpenAI gives it."""

    namespace: str | Mapping[str, Any] | None


ToolInput: TypeAlias = (
    ToolParam | FunctionParam | Mapping[str, object] | SupportsToDict | SupportsModelDump
)
"""A tool: OpenAI's object, its function by itself, or an object that turns itself into one.

A dict that was put into a variable first is a `Mapping[str, object]` to type checkers.
"""


class _FunctionCallRequired(TypedDict):
    name: str


class FunctionCallParam(_FunctionCallRequired, total=False):
    """The function that is called. `arguments` is a JSON text, or the object itself."""

    arguments: str | Mapping[str, Any] | None
    namespace: str | None


class _ToolCallRequired(TypedDict):
    function: FunctionCallParam


class ToolCallParam(_ToolCallRequired, total=False):
    """A call of a tool in an assistant's message."""

    id: str | None
    type: Literal["function"]
    index: int
    namespace: str | None


class _ToolNameParam(TypedDict):
    name: str


class NamedToolChoiceParam(TypedDict):
    """A tool that must be called, as OpenAI names it."""

    type: Literal["function"]
    function: _ToolNameParam


ToolChoice: TypeAlias = ToolChoiceMode | str | NamedToolChoiceParam
"""The tools that may be called: a mode, the name of a tool, or OpenAI's object around one."""


# The response format.


class _PlainFormatParam(TypedDict):
    type: Literal["text", "json_object"]


class _SchemaRequired(TypedDict):
    schema: JsonSchema


class _NamedSchemaParam(_SchemaRequired, total=False):
    name: str
    description: str | None
    strict: bool | None


class JsonSchemaFormatParam(TypedDict):
    """An answer that must follow a JSON Schema."""

    type: Literal["json_schema"]
    json_schema: _NamedSchemaParam


ResponseFormatParam: TypeAlias = _PlainFormatParam | JsonSchemaFormatParam | JsonSchema
"""The form of the answer: OpenAI's object, or a JSON Schema by itself."""


# Messages.


class _MessageFields(TypedDict, total=False):
    """The fields that any message may have."""

    content: ContentParam
    content_blocks: Sequence[ContentPartParam | Mapping[str, Any]] | None
    name: str | None
    task: Task | None
    mask: Any


class _SystemRequired(TypedDict):
    role: Literal["system"]


class SystemMessageParam(_SystemRequired, _MessageFields, total=False):
    """A system message, with the tools and the response format of the conversation."""

    tools: Sequence[ToolInput] | None
    response_format: ResponseFormatParam | None


class _DeveloperRequired(TypedDict):
    role: Literal["developer"]


class DeveloperMessageParam(_DeveloperRequired, _MessageFields, total=False):
    """A developer's message, which the model sees as a user's turn."""

    tools: Sequence[ToolInput] | None
    response_format: ResponseFormatParam | None


class _UserRequired(TypedDict):
    role: Literal["user"]


class UserMessageParam(_UserRequired, _MessageFields, total=False):
    """A user's message."""

    tools: Sequence[ToolInput] | None
    wo_eos: bool
    extracted_url: str | None


class _AssistantRequired(TypedDict):
    role: Literal["assistant"]


class AssistantMessageParam(_AssistantRequired, _MessageFields, total=False):
    """An answer of the model: reasoning, text, and the calls of tools."""

    reasoning_content: ContentParam
    reasoning: ContentParam
    tool_calls: Sequence[ToolCallParam | SupportsToDict | SupportsModelDump] | None
    prefix: bool
    wo_eos: bool
    refusal: str | None


class _ToolMessageRequired(TypedDict):
    role: Literal["tool"]


class ToolMessageParam(_ToolMessageRequired, _MessageFields, total=False):
    """The result of a tool."""

    tool_call_id: str | None


class _ReminderRequired(TypedDict):
    role: Literal["latest_reminder"]


class ReminderMessageParam(_ReminderRequired, _MessageFields, total=False):
    """A reminder that stands before the model's turn."""


MessageParam: TypeAlias = (
    SystemMessageParam
    | DeveloperMessageParam
    | UserMessageParam
    | AssistantMessageParam
    | ToolMessageParam
    | ReminderMessageParam
)
"""A message as a dict, by its role."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """An assistant message together with the text or the tokens that the model wrote for it.

    `message` is the message as it was read, to which the rules of the format apply: a dict, or a
    parsed message. `text` is the model's text, after the header. If the format shows the turn, the
    prompt holds the text unchanged, and special tokens that it spells are real. If reasoning is
    dropped, the prompt holds the text after its end. `ids` are the tokens that were sampled: a
    `Tokenizer` uses them as they are. One of the two may be missing. Raises an `OptionError` for a
    `text` that is not text and for `ids` that are not a list.
    """

    message: AssistantMessageParam | SupportsToDict | SupportsModelDump
    text: str | None = None
    ids: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.text is not None and not isinstance(self.text, str):
            raise OptionError("text", f"found {short_repr(self.text)}, expected text")
        if isinstance(self.ids, (str, bytes)) or not isinstance(self.ids, (Sequence, type(None))):
            raise OptionError("ids", f"found {short_repr(self.ids)}, expected a list of ids")


MessageInput: TypeAlias = MessageParam | SupportsToDict | SupportsModelDump | Sampled
"""A message in any accepted form: a dict, an object that turns itself into one, or `Sampled`."""
