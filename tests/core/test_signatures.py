"""The released functions take what they were released with, and nothing more."""

from __future__ import annotations

import inspect
import pickle
from types import ModuleType

import pytest

import dsv4
import encoding_dsv4
from dsv4.compat import vllm

SIGNATURES = {
    "encode_messages": (
        "messages, thinking_mode, context=None, drop_thinking=True, add_default_bos_token=True, "
        "reasoning_effort=None"
    ),
    "render_message": "index, messages, thinking_mode, drop_thinking=True, reasoning_effort=None",
    "render_tools": "tools",
    "merge_tool_messages": "messages",
    "sort_tool_results_by_call_order": "messages",
    "find_last_user_index": "messages",
    "_drop_thinking_messages": "messages",
    "encode_arguments_to_dsml": "tool_call",
    "decode_dsml_to_arguments": "tool_name, tool_args",
    "tools_from_openai_format": "tools",
    "tool_calls_from_openai_format": "tool_calls",
    "tool_calls_to_openai_format": "tool_calls",
    "parse_message_from_completion_text": "text, thinking_mode",
    "parse_tool_calls": "index, text",
    "_read_until_stop": "index, text, stop",
    "to_json": "value",
}


@pytest.mark.parametrize("module", [encoding_dsv4, vllm])
@pytest.mark.parametrize("name", SIGNATURES)
def test_a_released_function(module: ModuleType, name: str) -> None:
    function = getattr(module, name)
    assert inspect.isroutine(function)
    assert pickle.loads(pickle.dumps(function)).__name__ == name  # for pools of processes
    assert function.__name__ == name
    assert function.__doc__
    signature = inspect.signature(function)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    assert ", ".join(map(str, bare)) == SIGNATURES[name]
    assert all(p.kind is p.POSITIONAL_OR_KEYWORD for p in bare)
    assert function.__annotations__.keys() == {*signature.parameters, "return"}


@pytest.mark.parametrize("module", [encoding_dsv4, vllm])
@pytest.mark.parametrize("mode", ["chat", "thinking"])
def test_an_error_names_the_option_as_the_function_does(module: ModuleType, mode: str) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    for function, given in (
        (module.encode_messages, [messages, mode]),
        (module.render_message, [0, messages, mode]),
    ):
        with pytest.raises(dsv4.OptionError) as caught:
            function(*given, reasoning_effort="low")
        assert caught.value.path == "reasoning_effort"
    with pytest.raises(dsv4.OptionError) as caught:
        dsv4.encode(messages, thinking=mode == "thinking", effort="low", dialect="v4")
    assert caught.value.path == "effort"
