"""Our reading of completions inside vLLM: a tool parser and a reasoning parser, both named `dsv4`.

    vllm serve MODEL --enable-auto-tool-choice \
        --tool-parser-plugin dsv4.compat.vllm_plugin --tool-call-parser dsv4 \
        --reasoning-parser-plugin dsv4.compat.vllm_plugin --reasoning-parser dsv4

Written for vLLM 0.32 and 0.33. Importing this module registers both. vLLM splits the work: the
reasoning parser reads up to the end of thinking and passes on the rest unchanged; the tool parser
reads content and calls. Calls are sent once they are complete, so that no client runs half of one.
For models of V4.1 the tool parser is `dsv4-v4.1`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from vllm.entrypoints.generate.base.protocol import (
    DeltaFunctionCall,
    DeltaMessage,
    DeltaToolCall,
    ExtractedToolCallInformation,
    FunctionCall,
    ToolCall,
)
from vllm.reasoning.abs_reasoning_parsers import ReasoningParser, ReasoningParserManager
from vllm.tool_parsers.abstract_tool_parser import ToolParser, ToolParserManager

from dsv4._completion.events import ContentDelta, Event, ReasoningDelta
from dsv4._completion.message import Message, assemble
from dsv4._completion.message import ToolCall as ReadCall
from dsv4._format.tokens import THINK_END, THINK_START
from dsv4._parse.parser import StreamParser
from dsv4.types import DialectName

NAME = "dsv4"


class VllmTool(Protocol):
    """A declared tool of either of OpenAI's protocols."""

    def model_dump(self, *, exclude_none: bool) -> dict[str, Any]: ...


class VllmRequest(Protocol):
    """A request of vLLM, as far as it is used here."""

    tools: Iterable[VllmTool] | None
    tool_choice: object
    skip_special_tokens: bool


class Completion:
    """A completion, whole or in pieces, and the single parser that reads it."""

    def __init__(self) -> None:
        self.thinking = False  # whether the text begins with reasoning
        self.dialect: DialectName | None = None  # that of the tool parser; None if there is none
        self._parser: StreamParser | None = None
        self._message: Message | None = None
        self._repeats: Sequence[Event] = ()

    def read(self, text: str, request: VllmRequest) -> Message:
        """The message in a whole text."""
        parser = self._new_parser(request)
        self._message = assemble([*parser.feed(text), *parser.finish()])
        return self._message

    def take(self, content: str) -> Message | None:
        """The message that was read last, if this is its content; it is returned only once."""
        message, self._message = self._message, None
        return message if message is not None and message.content == content else None

    def feed(self, text: str, request: VllmRequest) -> Message:
        """The part of the message that the next piece of a text adds."""
        if self._parser is None:
            self._parser = self._new_parser(request)
        return self._added(self._parser.feed(text))

    def finish(self) -> Message:
        """The part of the message that the end of a text adds."""
        parser, self._parser = self._parser, None
        return self._added([] if parser is None else parser.finish())

    def _new_parser(self, request: VllmRequest) -> StreamParser:
        return StreamParser(
            thinking=self.thinking,
            tools=[_function(tool) for tool in request.tools or ()],
            tool_choice="none" if request.tool_choice == "none" else "auto",
            dialect=self.dialect,
            calls="whole",
        )

    def _added(self, events: list[Event]) -> Message:
        # A duplicate parameter is reported when it comes, and counts when its call ends.
        message = assemble([*self._repeats, *events])
        self._repeats = [d for d in message.diagnostics if d.kind == "duplicate_parameter"][-1:]
        return message


class _Newest(threading.local):
    """The completion of the reasoning parser that was built last in this thread.

    vLLM builds the two parsers of a request one right after the other, the reasoning parser first,
    with the same tokenizer, and tells neither about the other. So the second finds the first here.
    """

    completion: Completion | None = None
    tokenizer: object = None

    def begin(self, tokenizer: object) -> Completion:
        self.tokenizer, self.completion = tokenizer, Completion()
        return self.completion

    def join(self, tokenizer: object, dialect: DialectName) -> Completion:
        begun, self.completion = self.completion, None
        completion = begun if begun is not None and self.tokenizer is tokenizer else Completion()
        self.tokenizer, completion.dialect = None, dialect
        return completion


_newest = _Newest()


class ReasoningReader:
    """Reads reasoning if the tool parser is not ours.

    It ends where content begins. The rest is passed on unchanged, because another tool parser may
    have to read it. Characters are read one by one, so that it ends at the same one however the
    text is cut.
    """

    def __init__(self, thinking: bool) -> None:
        self.ended = False
        self._parser = StreamParser(thinking=thinking, tools=[])

    def feed(self, text: str) -> tuple[str, str]:
        """More reasoning, and the text after it once content has begun."""
        reasoning = ""
        for n, character in enumerate(text, 1):
            more, content = _texts(self._parser.feed(character))
            reasoning += more
            if content:
                self.ended = True
                return reasoning, content + self._parser.held + text[n:]
        return reasoning, ""

    def finish(self) -> tuple[str, str]:
        """The same for the end of the text."""
        return ("", "") if self.ended else _texts(self._parser.finish())


def _texts(events: list[Event]) -> tuple[str, str]:
    reasoning = "".join(e.text for e in events if isinstance(e, ReasoningDelta))
    return reasoning, "".join(e.text for e in events if isinstance(e, ContentDelta))


def thinks_by_options(options: Mapping[str, object]) -> bool:
    """Whether vLLM's prompt leaves the model thinking, by a request's template options."""
    if options.get("reasoning_effort") == "none":
        return False
    switches = [options[name] for name in ("thinking", "enable_thinking") if name in options]
    return any(switches) if switches else True


def _with_named_tokens(request: VllmRequest) -> VllmRequest:
    """A request for which vLLM keeps BOS and EOS in texts. By default it removes them before a
    parser sees them, which would misquote a model that names one in its answer. The token that ends
    the answer is left out all the same."""
    request.skip_special_tokens = False
    return request


class Dsv4ReasoningParser(ReasoningParser):  # type: ignore[misc]
    """Gives reasoning, and leaves the rest to the tool parser."""

    engine_based_streaming = True

    def __init__(self, tokenizer: object, *args: object, **kwargs: object) -> None:
        super().__init__(tokenizer, *args, **kwargs)
        options = kwargs.get("chat_template_kwargs")
        self._thinks = thinks_by_options(options if isinstance(options, Mapping) else {})
        self._start_id = self.vocab.get(str(THINK_START))
        self._end_id = self.vocab.get(str(THINK_END))
        self._completion = _newest.begin(tokenizer)
        self._reader: ReasoningReader | None = None
        self._passed_on = False

    def adjust_request(self, request: VllmRequest) -> VllmRequest:
        return _with_named_tokens(request)

    @property
    def reasoning_start_str(self) -> str:
        return str(THINK_START)

    @property
    def reasoning_end_str(self) -> str:
        return str(THINK_END)

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Whether ids, of a prompt or with what was generated, leave the model past thinking."""
        for id in reversed(input_ids):
            if id in (self._start_id, self._end_id):
                return bool(id == self._end_id)
        return False

    def is_reasoning_end_streaming(
        self, input_ids: Sequence[int], delta_ids: Iterable[int]
    ) -> bool:
        return self._end_id in delta_ids

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """The ids after the end of reasoning; empty if it has not come."""
        if self._end_id not in input_ids:
            return []
        return input_ids[len(input_ids) - input_ids[::-1].index(self._end_id) :]

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        return list(token_ids).index(self._end_id) if self._end_id in token_ids else 0

    def adjust_initial_state_from_prompt(self, prompt_token_ids: Sequence[int]) -> None:
        """Called for a prompt that is not past thinking, which is surer than the options."""
        self._thinks = self._thinks or self._start_id in prompt_token_ids

    def extract_reasoning(
        self, model_output: str, request: VllmRequest
    ) -> tuple[str | None, str | None]:
        """Reasoning and content; without our tool parser, reasoning and the unparsed rest."""
        if self._shares:
            self._completion.thinking = self._thinks
            message = self._completion.read(model_output, request)
            return message.reasoning or None, message.content or None
        reader = ReasoningReader(self._thinks)
        reasoning, rest = map("".join, zip(reader.feed(model_output), reader.finish(), strict=True))
        return reasoning or None, rest or None

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
    ) -> DeltaMessage | None:
        """The unparsed text if our tool parser reads all of it; otherwise more reasoning."""
        if self._shares:
            self._completion.thinking = self._thinks
            self._passed_on = True
            return _delta("", delta_text)
        if self._reader is None:
            self._reader = ReasoningReader(self._thinks)
        return _delta(*self._reader.feed(delta_text))

    def has_engine_confirmed_reasoning_end(self) -> bool:
        """Whether the tool parser reads the text from here on."""
        return self._passed_on or (self._reader is not None and self._reader.ended)

    def finish_streaming(self) -> DeltaMessage | None:
        return None if self._reader is None else _delta(*self._reader.finish())

    @property
    def _shares(self) -> bool:
        return self._completion.dialect is not None


def _delta(
    reasoning: str, content: str, calls: Iterable[DeltaToolCall] = ()
) -> DeltaMessage | None:
    """One delta; None if there is nothing to send."""
    deltas = list(calls)
    if not (reasoning or content or deltas):
        return None
    return DeltaMessage(reasoning=reasoning or None, content=content or None, tool_calls=deltas)


class Dsv4ToolParser(ToolParser):  # type: ignore[misc]
    """Gives content and calls, and in a stream reasoning too."""

    engine_based_streaming = True
    # A forced call is written in the model's own format, not in vLLM's JSON, and read like others.
    supports_required_and_named = False
    # The name of the format in vLLM's grammars, for calls that it forces.
    structural_tag_model = "deepseek_v4"
    dialect: DialectName = "v4"

    def __init__(self, tokenizer: object, tools: object = None) -> None:
        super().__init__(tokenizer, tools)
        self._completion = _newest.join(tokenizer, self.dialect)

    def adjust_request(self, request: VllmRequest) -> VllmRequest:
        adjusted: VllmRequest = super().adjust_request(request)
        return _with_named_tokens(adjusted)

    def extract_tool_calls(
        self, model_output: str, request: VllmRequest
    ) -> ExtractedToolCallInformation:
        """Content and calls: as the reasoning parser read them, or of a text without reasoning."""
        message = self._completion.take(model_output)
        if message is None:
            self._completion.thinking = False
            message = self._completion.read(model_output, request)
        calls = [
            ToolCall(
                id=call.id,
                function=FunctionCall(id=call.id, name=_name(call), arguments=call.arguments),
            )
            for call in message.tool_calls
        ]
        content = message.content or None
        return ExtractedToolCallInformation(
            tools_called=bool(calls), tool_calls=calls, content=content
        )

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: VllmRequest,
    ) -> DeltaMessage | None:
        return self._sent(self._completion.feed(delta_text, request))

    def finish_streaming(self) -> DeltaMessage | None:
        """The delta for the end of the text."""
        return self._sent(self._completion.finish())

    def get_remaining_unstreamed_args(self) -> str:
        return ""  # a call is sent whole

    def _sent(self, added: Message) -> DeltaMessage | None:
        return _delta(added.reasoning, added.content, map(self._call, added.tool_calls))

    def _call(self, call: ReadCall) -> DeltaToolCall:
        # An abandoned call has a number among the parser's calls, but not among those sent.
        index = len(self.prev_tool_call_arr)
        name = _name(call)
        # vLLM looks here to see whether there were calls.
        self.current_tool_id = index
        self.prev_tool_call_arr.append({"name": name, "arguments": call.arguments})
        self.streamed_args_for_tool.append(call.arguments)
        function = DeltaFunctionCall(name=name, arguments=call.arguments)
        return DeltaToolCall(id=call.id, type="function", index=index, function=function)


class Dsv41ToolParser(Dsv4ToolParser):
    """The same for models whose own format is that of V4.1."""

    structural_tag_model = "deepseek_v4_1"
    dialect = "v4.1"


def _name(call: ReadCall) -> str:
    return call.name if call.namespace is None else f"{call.namespace}::{call.name}"


def _function(tool: VllmTool) -> dict[str, Any]:
    """A declared tool as a function object."""
    fields = tool.model_dump(exclude_none=True)
    function = fields.get("function", fields)
    return {k: function[k] for k in ("name", "description", "parameters") if k in function}


ToolParserManager.register_module(name=NAME, module=Dsv4ToolParser)
ToolParserManager.register_module(name=f"{NAME}-v4.1", module=Dsv41ToolParser)
ReasoningParserManager.register_module(name=NAME, module=Dsv4ReasoningParser)
