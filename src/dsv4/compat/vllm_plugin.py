"""Our reading of completions inside vLLM: a tool parser and a reasoning parser, both named `dsv4`.

    vllm serve MODEL --enable-auto-tool-choice \\
        --tool-parser-plugin dsv4.compat.vllm_plugin --tool-call-parser dsv4 \\
        --reasoning-parser-plugin dsv4.compat.vllm_plugin --reasoning-parser dsv4

Written for vLLM 0.32. Importing this module registers both. vLLM splits the work: the reasoning
parser reads up to the end of thinking and passes on what follows as it stands, the tool parser
reads content and calls. Calls are sent once they are complete, so that nobody runs half of one.
For models of V4.1 the tool parser is `dsv4-v4.1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

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

from dsv4.format.dialects import DIALECTS
from dsv4.format.tokens import DSML, EOS, THINK_END, THINK_START
from dsv4.parsing.events import (
    ArgumentsDelta,
    ContentDelta,
    Event,
    ReasoningDelta,
    ToolCallStart,
)
from dsv4.parsing.message import assemble
from dsv4.parsing.parser import StreamParser

NAME = "dsv4"

# Reasoning ends at its token. A model that forgets it and makes calls ends it with their block, at
# the beginning of a line: that is left to the tool parser.
_BLOCKS = sorted({f"<{DSML}{dialect.tags.calls}" for dialect in DIALECTS.values()})
_MARKERS = (str(THINK_END), *_BLOCKS)
_END = re.compile("|".join([re.escape(THINK_END), *(rf"(?<=\n){re.escape(b)}" for b in _BLOCKS)]))
_LONGEST = max(map(len, _MARKERS))


class ReasoningEnd:
    """Looks for the end of reasoning in a text that comes in pieces."""

    def __init__(self) -> None:
        self.found = False
        self._before = "\n"  # the last character that was given out: a text begins a line
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """More reasoning, and what follows it: the rest of the text, once the end has come."""
        text = self._before + self._held + text
        self._held = ""
        match = _END.search(text)
        if match is None:
            self._held = _maybe_marker(text[1:])
            reasoning = text[1 : len(text) - len(self._held)]
            self._before = reasoning[-1:] or self._before
            return reasoning, ""
        self.found = True
        end = match.end() if match.group() == THINK_END else match.start()
        return text[1 : match.start()], text[end:]

    def finish(self) -> str:
        """What was held back because an end might have begun there."""
        held, self._held = self._held, ""
        return held


def _maybe_marker(text: str) -> str:
    """The end of a text, if one of the markers may begin there."""
    start = text.rfind("<", -_LONGEST)
    tail = text[start:] if start >= 0 else ""
    return tail if tail and any(marker.startswith(tail) for marker in _MARKERS) else ""


def thinks(options: dict[str, Any]) -> bool:
    """Whether vLLM's prompt leaves the model thinking, by a request's template options."""
    if options.get("reasoning_effort") == "none":
        return False
    switches = [options[name] for name in ("thinking", "enable_thinking") if name in options]
    return any(switches) if switches else True


class Dsv4ReasoningParser(ReasoningParser):  # type: ignore[misc]
    """Reads reasoning up to its end."""

    engine_based_streaming = True

    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(tokenizer, *args, **kwargs)
        self._thinks = thinks(kwargs.get("chat_template_kwargs") or {})
        self._start_id = self.vocab.get(str(THINK_START))
        self._end_id = self.vocab.get(str(THINK_END))
        self._end = ReasoningEnd()

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
        """The ids after the end of reasoning, none if it has not come."""
        if self._end_id not in input_ids:
            return []
        return input_ids[len(input_ids) - input_ids[::-1].index(self._end_id) :]

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        return list(token_ids).index(self._end_id) if self._end_id in token_ids else 0

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        """Reasoning, and what follows it as it stands."""
        if not self._thinks:
            return None, model_output
        end = ReasoningEnd()
        reasoning, rest = end.feed(model_output)
        return (_cleaned(reasoning + end.finish()) or None), rest or None

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
    ) -> Any:
        reasoning, rest = self._end.feed(delta_text)
        reasoning = _cleaned(reasoning)
        return _message(reasoning, rest) if reasoning or rest else None

    def has_engine_confirmed_reasoning_end(self) -> bool:
        return self._end.found

    def finish_streaming(self) -> Any:
        held = self._end.finish()
        return _message(held, "") if held else None


def _cleaned(reasoning: str) -> str:
    """Reasoning without tokens that a model may echo and that say nothing."""
    for token in (THINK_START, EOS):
        reasoning = reasoning.replace(token, "")
    return reasoning


def _message(reasoning: str, content: str) -> Any:
    return DeltaMessage(reasoning=reasoning or None, content=content or None)


class Dsv4ToolParser(ToolParser):  # type: ignore[misc]
    """Reads content and calls."""

    engine_based_streaming = True
    # A forced call is written in the model's own format, not in vLLM's JSON, and read like any.
    supports_required_and_named = False
    # What vLLM's grammars call the format, for those that it forces.
    structural_tag_model = "deepseek_v4"
    dialect = "v4"

    def __init__(self, tokenizer: Any, tools: Any = None) -> None:
        super().__init__(tokenizer, tools)
        self._parser: StreamParser | None = None

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        """Content and calls of a whole text."""
        parser = self._new_parser(request)
        message = assemble([*parser.feed(model_output), *parser.finish()])
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
        request: Any,
    ) -> Any:
        if self._parser is None:
            self._parser = self._new_parser(request)
        return self._delta(self._parser.feed(delta_text))

    def finish_streaming(self) -> Any:
        """What the end of the text brings."""
        parser, self._parser = self._parser, None
        return None if parser is None else self._delta(parser.finish())

    def get_remaining_unstreamed_args(self) -> str:
        return ""  # a call is sent whole

    def _new_parser(self, request: Any) -> StreamParser:
        return StreamParser(
            thinking=False,
            tools=[_function(tool) for tool in request.tools or ()],
            tool_choice="none" if request.tool_choice == "none" else "auto",
            dialect=self.dialect,
            calls="whole",
        )

    def _delta(self, events: list[Event]) -> Any:
        """The events as one delta, None if there is nothing to send."""
        content = "".join(e.text for e in events if isinstance(e, ContentDelta))
        reasoning = "".join(e.text for e in events if isinstance(e, ReasoningDelta))
        calls = [self._call(e, events) for e in events if isinstance(e, ToolCallStart)]
        if not (content or reasoning or calls):
            return None
        return DeltaMessage(content=content or None, reasoning=reasoning or None, tool_calls=calls)

    def _call(self, start: ToolCallStart, events: list[Event]) -> Any:
        name = _name(start)
        parts = [e.text for e in events if isinstance(e, ArgumentsDelta) and e.index == start.index]
        arguments = "".join(parts)
        # vLLM looks here to see whether there were calls.
        self.current_tool_id = start.index
        self.prev_tool_call_arr.append({"name": name, "arguments": arguments})
        self.streamed_args_for_tool.append(arguments)
        function = DeltaFunctionCall(name=name, arguments=arguments)
        return DeltaToolCall(id=start.id, type="function", index=start.index, function=function)


class Dsv41ToolParser(Dsv4ToolParser):
    """The same for models whose own format is that of V4.1."""

    structural_tag_model = "deepseek_v4_1"
    dialect = "v4.1"


def _name(call: Any) -> str:
    return call.name if call.namespace is None else f"{call.namespace}::{call.name}"


def _function(tool: Any) -> dict[str, Any]:
    """A declared tool of either of OpenAI's protocols as a function object."""
    given: dict[str, Any] = tool.model_dump(exclude_none=True)
    function = given.get("function", given)
    return {k: function[k] for k in ("name", "description", "parameters") if k in function}


ToolParserManager.register_module(name=NAME, module=Dsv4ToolParser)
ToolParserManager.register_module(name=f"{NAME}-v4.1", module=Dsv41ToolParser)
ReasoningParserManager.register_module(name=NAME, module=Dsv4ReasoningParser)
