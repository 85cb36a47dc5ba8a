"""A request: every option in one place, with the prompt and the parser that belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, fields
from typing import Any, TypedDict

from dsv4._completion.random_ids import new_call_id
from dsv4._encode.encode import check_options, visible_tools
from dsv4._encode.encode import encode as encode
from dsv4._encode.inputs import maybe_dict
from dsv4._encode.prompt import Prompt
from dsv4._format.dialects import Dialect
from dsv4._format.endings import Ending
from dsv4._parse.parser import StreamParser
from dsv4._parse.parser_options import CallDelivery
from dsv4.types import DialectName, Effort, MessageInput, ResponseFormatParam, ToolChoice, ToolInput


class RequestOptions(TypedDict, total=False):
    """The options of a `Request`, for functions that pass them on as keywords."""

    tools: Iterable[ToolInput] | None
    tool_choice: ToolChoice
    response_format: ResponseFormatParam | None
    thinking: bool
    effort: Effort | None
    drop_thinking: bool
    bos: bool
    context: Iterable[MessageInput]
    dialect: DialectName | Dialect
    stop: Sequence[str] | str
    prefix: str


@dataclass(frozen=True)
class Request:
    """A conversation and every option of it.

    Options are checked when a request is created, messages when they are encoded. Only iterators,
    which can be read only once, are copied: do not change what you passed.

    - `messages`: OpenAI-style dicts; objects that can turn themselves into one, such as parsed
      messages, messages of the `openai` package and other pydantic models; or `Sampled` turns.
    - `tools`: OpenAI tools or bare function objects, for the first system message.
    - `tool_choice`: "auto"; "none", which shows no tools; "required" or the name of a tool, as text
      or as OpenAI's object, which open the call in the prompt when `thinking` is off.
    - `response_format`: a JSON schema, or OpenAI's object around one.
    - `thinking`: whether the model thinks before it answers.
    - `effort`: how hard it thinks, by the names or numbers of the dialect.
    - `drop_thinking`: whether reasoning before the last user turn is left out.
    - `bos`: whether the prompt begins with BOS.
    - `context`: messages that are in the prompt already; only the text after them is written.
    - `dialect`: the release of the format, by name or as a `Dialect`.
    - `stop`: texts at which the model's answer ends, for the parser.
    - `prefix`: the start of the answer, written after the header as the model's own text.

    Raises an `OptionError` for an option with a wrong type or value.
    """

    messages: Iterable[MessageInput]
    _: KW_ONLY
    tools: Iterable[ToolInput] | None = None
    tool_choice: ToolChoice = "auto"
    response_format: ResponseFormatParam | None = None
    thinking: bool = True
    effort: Effort | None = None
    drop_thinking: bool = True
    bos: bool = True
    context: Iterable[MessageInput] = ()
    dialect: DialectName | Dialect = "v4"
    stop: Sequence[str] | str = ()
    prefix: str = ""

    def __post_init__(self) -> None:
        for name in ("messages", "tools", "context", "stop"):
            value = getattr(self, name)
            if hasattr(value, "__next__"):
                object.__setattr__(self, name, list(value))
        check_options(
            self.tools,
            self.tool_choice,
            self.response_format,
            self.thinking,
            self.effort,
            self.drop_thinking,
            self.bos,
            self.dialect,
            self.stop,
            self.prefix,
        )

    @classmethod
    def _trusted(
        cls, messages: Sequence[Mapping[str, object]], options: Mapping[str, Any]
    ) -> Request:
        """A request of dicts and of options that have been checked already.

        The constructor would check them once more and set fields one by one, which takes longer
        than a short conversation takes to encode.
        """
        request = object.__new__(cls)
        values = request.__dict__
        values |= _DEFAULTS
        values |= options
        values["messages"] = messages
        return request

    def encode(self) -> Prompt:
        """The exact prompt.

        Raises an `EncodeError` for a message that the format cannot express, and an `OptionError`
        for an option that does not fit the messages.
        """
        return encode(
            self.messages,
            tools=self.tools,
            tool_choice=self.tool_choice,
            response_format=self.response_format,
            thinking=self.thinking,
            effort=self.effort,
            drop_thinking=self.drop_thinking,
            bos=self.bos,
            context=self.context,
            dialect=self.dialect,
            prefix=self.prefix,
        )

    def parser(
        self,
        *,
        ending: Ending | None = None,
        strict: bool = False,
        calls: CallDelivery = "streamed",
        new_id: Callable[[], str] = new_call_id,
    ) -> StreamParser:
        """A parser for the text that the model writes after the prompt.

        `ending` is the prompt's, if you have encoded it: it is not encoded again then. With
        `strict` it accepts only well-formed completions; with `calls="whole"` nothing of a
        call is seen before it is complete; `new_id` makes the ids of calls. Returns a
        `StreamParser` that fits the prompt that `encode` returns: it begins in the reasoning or the
        answer, as the prompt leaves the model, or inside the block that a forced `tool_choice`
        opens. Raises the same errors as `encode`.
        """
        return StreamParser(
            ending=self.encode().ending if ending is None else ending,
            tools=self._visible_tools(),
            tool_choice=self.tool_choice,
            dialect=self.dialect,
            strict=strict,
            stop=self.stop,
            calls=calls,
            new_id=new_id,
        )

    def _visible_tools(self) -> list[Any]:
        """The tools that the prompt shows: the request's own, and those on its messages."""
        own = () if self.tools is None else self.tools
        before = () if self.context is None else self.context
        tools = (*own, *(tool for _, tool in visible_tools(before, self.messages)))
        return [tool if tool.__class__ is dict else _converted(tool) for tool in tools]


def _converted(tool: object) -> object:
    fields = maybe_dict(tool)
    return tool if fields is None else fields


_DEFAULTS = {each.name: each.default for each in fields(Request) if each.default is not MISSING}
