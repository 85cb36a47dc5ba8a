"""What the plugin needs of vLLM 0.32, for environments that do not have it.

Modules of vLLM's names, with the classes that the plugin imports, and a parser composed of the two
of a request that calls them in vLLM's order, with what vLLM passes on. Where vLLM is installed,
the tests take it instead.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

PLUGIN = "dsv4.compat.vllm_plugin"


@dataclass
class FunctionCall:
    name: str
    arguments: str
    id: str | None = None


@dataclass
class ToolCall:
    function: FunctionCall
    id: str


@dataclass
class DeltaFunctionCall:
    name: str | None = None
    arguments: str | None = None


@dataclass
class DeltaToolCall:
    index: int
    id: str | None = None
    type: str | None = None
    function: DeltaFunctionCall | None = None


@dataclass
class DeltaMessage:
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[DeltaToolCall] = field(default_factory=list)


@dataclass
class ExtractedToolCallInformation:
    tools_called: bool
    tool_calls: list[ToolCall]
    content: str | None = None


class ReasoningParser:
    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any) -> None:
        self.vocab = tokenizer.get_vocab()

    def adjust_initial_state_from_prompt(self, prompt_token_ids: list[int]) -> None:
        """Nothing, for parsers that do not look at prompts."""


class ToolParser:
    def adjust_request(self, request: Any) -> Any:
        return request

    def __init__(self, tokenizer: Any, tools: Any = None) -> None:
        self.prev_tool_call_arr: list[dict[str, Any]] = []
        self.current_tool_id = -1
        self.streamed_args_for_tool: list[str] = []


class Registry:
    def __init__(self) -> None:
        self.classes: dict[str, Any] = {}

    def register_module(self, name: str, module: Any) -> None:
        self.classes[name] = module

    def import_plugin(self, name: str) -> None:
        import_module(name)

    import_tool_parser = import_reasoning_parser = import_plugin


TOOL_PARSERS, REASONING_PARSERS = Registry(), Registry()


class ChatCompletionRequest:
    def __init__(
        self,
        *,
        model: str,
        messages: list[Any],
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        stream: bool = False,
    ) -> None:
        self.tools = [Tool(tool) for tool in tools] if tools else None
        self.tool_choice = tool_choice or ("auto" if tools else "none")
        self.skip_special_tokens = True


@dataclass
class Tool:
    given: dict[str, Any]

    def model_dump(self, exclude_none: bool) -> dict[str, Any]:
        return self.given


class ParserManager:
    @staticmethod
    def get_parser(
        tool_parser_name: str | None = None,
        reasoning_parser_name: str | None = None,
        **others: Any,
    ) -> Any:
        reasoning_class = REASONING_PARSERS.classes.get(reasoning_parser_name or "")
        tool_class = TOOL_PARSERS.classes.get(tool_parser_name or "")

        def compose(tokenizer: Any, tools: Any = None, **options: Any) -> Composed:
            reasoning = reasoning_class and reasoning_class(tokenizer, **options)
            return Composed(reasoning, tool_class and tool_class(tokenizer, tools))

        return compose


class Composed:
    """The two parsers of a request, either of which may be missing, as vLLM uses them."""

    def __init__(self, reasoning: Any, tools: Any) -> None:
        self._reasoning = reasoning
        self._tools = tools
        self._begun = False
        self._past_reasoning = False

    def adjust_request(self, request: Any) -> Any:
        for parser in filter(None, (self._reasoning, self._tools)):
            request = parser.adjust_request(request)
        return request

    # A whole text.

    def parse(
        self, text: str, request: Any, enable_auto_tools: bool
    ) -> tuple[str | None, str | None, list[FunctionCall]]:
        reasoning, content = None, text
        if self._reasoning:
            reasoning, content = self._reasoning.extract_reasoning(text, request)
        if not self._tools:
            return reasoning, content, []
        found = self._tools.extract_tool_calls(content or "", request=request)
        calls = [] if request.tool_choice == "none" else [c.function for c in found.tool_calls]
        if calls and found.content and not found.content.strip():
            return reasoning, None, calls  # vLLM drops white space beside calls
        return reasoning, found.content, calls

    # A stream.

    def parse_delta(
        self,
        text: str,
        ids: list[int],
        request: Any,
        prompt_token_ids: list[int] | None = None,
        *,
        finished: bool,
    ) -> DeltaMessage | None:
        if not self._begun and prompt_token_ids is not None:
            self._look_at(prompt_token_ids)
        delta = self._read(text, ids, request)
        return _joined(delta, self._rest()) if finished else delta

    def _look_at(self, prompt: list[int]) -> None:
        self._begun = True
        self._past_reasoning = not self._reasoning or self._reasoning.is_reasoning_end(prompt)
        if not self._past_reasoning:
            self._reasoning.adjust_initial_state_from_prompt(prompt)

    def _read(self, text: str, ids: list[int], request: Any) -> DeltaMessage | None:
        if self._past_reasoning:
            return self._read_on(text, ids, request)
        delta: DeltaMessage | None = self._reasoning.extract_reasoning_streaming(
            "", text, text, [], ids, ids
        )
        if not self._reasoning.has_engine_confirmed_reasoning_end():
            return delta
        self._past_reasoning = True
        delta = _joined(delta, self._reasoning.finish_streaming()) or DeltaMessage()
        reasoning = DeltaMessage(reasoning=delta.reasoning)
        content_ids = self._reasoning.extract_content_ids(ids)
        return _joined(reasoning, self._read_on(delta.content or "", content_ids, request))

    def _read_on(self, text: str, ids: list[int], request: Any) -> DeltaMessage | None:
        if not self._tools:
            return DeltaMessage(content=text)
        delta: DeltaMessage | None = self._tools.extract_tool_calls_streaming(
            "", text, text, [], ids, ids, request
        )
        if delta and request.tool_choice == "none":
            delta.tool_calls = []
        return delta

    def _rest(self) -> DeltaMessage | None:
        last = self._tools if self._past_reasoning else self._reasoning
        rest: DeltaMessage | None = last.finish_streaming() if last else None
        return rest


def _joined(one: DeltaMessage | None, other: DeltaMessage | None) -> DeltaMessage | None:
    if one is None or other is None:
        return one or other
    content = (one.content or "") + (other.content or "")
    reasoning = (one.reasoning or "") + (other.reasoning or "")
    return DeltaMessage(content or None, reasoning or None, one.tool_calls + other.tool_calls)


MODULES: dict[str, dict[str, Any]] = {
    "vllm": {"__version__": "0.32 (stand-in)"},
    "vllm.entrypoints": {},
    "vllm.entrypoints.generate": {},
    "vllm.entrypoints.generate.base": {},
    "vllm.entrypoints.generate.base.protocol": {
        kind.__name__: kind
        for kind in (
            *(DeltaFunctionCall, DeltaMessage, DeltaToolCall, ExtractedToolCallInformation),
            *(FunctionCall, ToolCall),
        )
    },
    "vllm.entrypoints.openai": {},
    "vllm.entrypoints.openai.chat_completion": {},
    "vllm.entrypoints.openai.chat_completion.protocol": {
        "ChatCompletionRequest": ChatCompletionRequest
    },
    "vllm.parser": {},
    "vllm.parser.parser_manager": {"ParserManager": ParserManager},
    "vllm.reasoning": {"ReasoningParserManager": REASONING_PARSERS},
    "vllm.reasoning.abs_reasoning_parsers": {
        "ReasoningParser": ReasoningParser,
        "ReasoningParserManager": REASONING_PARSERS,
    },
    "vllm.tool_parsers": {"ToolParserManager": TOOL_PARSERS},
    "vllm.tool_parsers.abstract_tool_parser": {
        "ToolParser": ToolParser,
        "ToolParserManager": TOOL_PARSERS,
    },
}


def _module(name: str, names: dict[str, Any]) -> ModuleType:
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    vars(module).update(names)
    return module


@contextmanager
def vllm_or_its_stand_in() -> Iterator[Any]:
    """What tests use of vLLM, with the plugin loaded: the real one where there is one."""
    stood_in = {} if find_spec("vllm") else {name: _module(name, MODULES[name]) for name in MODULES}
    sys.modules.update(stood_in)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what vLLM imports is full of them
            found = _loaded()
        yield found
    finally:
        for name in (*stood_in, PLUGIN):
            sys.modules.pop(name, None)


def _loaded() -> Any:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.parser_manager import ParserManager

    import dsv4.compat.vllm_plugin as plugin

    return SimpleNamespace(
        new_request=ChatCompletionRequest, get_parser=ParserManager.get_parser, plugin=plugin
    )
