"""Names that others rely on. A change here is a change for everybody who uses dsv4."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, get_type_hints

import pytest

import dsv4
import encoding_dsv4
import encoding_dsv32
import encoding_dsv41
import encoding_dsv41_1017
from builders import VECTORS
from dsv4.compat import vllm

REQUIRED = inspect.Parameter.empty

# The released functions: parameters, in order, with their defaults.
RELEASED: dict[str, dict[str, Any]] = {
    "encode_messages": {
        "messages": REQUIRED,
        "thinking_mode": REQUIRED,
        "context": None,
        "drop_thinking": True,
        "add_default_bos_token": True,
        "reasoning_effort": None,
    },
    "render_message": {
        "index": REQUIRED,
        "messages": REQUIRED,
        "thinking_mode": REQUIRED,
        "drop_thinking": True,
        "reasoning_effort": None,
    },
    "render_tools": {"tools": REQUIRED},
    "merge_tool_messages": {"messages": REQUIRED},
    "sort_tool_results_by_call_order": {"messages": REQUIRED},
    "find_last_user_index": {"messages": REQUIRED},
    "encode_arguments_to_dsml": {"tool_call": REQUIRED},
    "tools_from_openai_format": {"tools": REQUIRED},
    "tool_calls_from_openai_format": {"tool_calls": REQUIRED},
    "tool_calls_to_openai_format": {"tool_calls": REQUIRED},
    "parse_message_from_completion_text": {"text": REQUIRED, "thinking_mode": REQUIRED},
    "parse_tool_calls": {"index": REQUIRED, "text": REQUIRED},
    "decode_dsml_to_arguments": {"tool_name": REQUIRED, "tool_args": REQUIRED},
    "_drop_thinking_messages": {"messages": REQUIRED},
    "_read_until_stop": {"index": REQUIRED, "text": REQUIRED, "stop": REQUIRED},
}
RELEASED_CONSTANTS = {
    "bos_token": "<｜begin▁of▁sentence｜>",
    "eos_token": "<｜end▁of▁sentence｜>",
    "thinking_start_token": "<think>",
    "thinking_end_token": "</think>",
    "dsml_token": "｜DSML｜",
    "USER_SP_TOKEN": "<｜User｜>",
    "ASSISTANT_SP_TOKEN": "<｜Assistant｜>",
    "LATEST_REMINDER_SP_TOKEN": "<｜latest_reminder｜>",
    "DS_TASK_SP_TOKENS": {
        "action": "<｜action｜>",
        "query": "<｜query｜>",
        "authority": "<｜authority｜>",
        "domain": "<｜domain｜>",
        "title": "<｜title｜>",
        "read_url": "<｜read_url｜>",
    },
    "VALID_TASKS": {"action", "query", "authority", "domain", "title", "read_url"},
}
released_modules = pytest.mark.parametrize("module", [encoding_dsv4, vllm])


def test_the_package() -> None:
    assert set(dsv4.__all__) == {
        # encoding
        *("Request", "encode", "Prompt", "Piece", "Origin", "Field", "Special", "Sampled"),
        *("Ending", "EndingKind", "Omission", "OmissionRule", "set_cache_size"),
        # parsing
        *("parse", "parse_task", "Message", "ToolCall", "StreamParser", "assemble"),
        *("fit_arguments", "FittedArguments"),
        *("ReasoningDelta", "ContentDelta", "ToolCallStart", "ArgumentsDelta", "ToolCallEnd"),
        *("ToolCallAborted", "Diagnostic", "StopHit", "End", "Event"),
        *("Finish", "AbortReason", "DiagnosticKind", "Hold"),
        # looking and training
        *(
            "check",
            "Finding",
            "FindingKind",
            "FINDING_KINDS",
            "dataset",
            "profiles",
            "decode",
            "Decoded",
            "Note",
        ),
        # both
        *("DIALECTS", "V3_2_SERVED", "Dialect", "dialect_for", "types", "__version__"),
        *("Error", "OptionError", "EncodeError", "ParseError", "UnknownModel"),
        # pictures
        *("ImageError", "ImageGrid", "image_block", "image_grid", "image_size"),
    }
    assert all(hasattr(dsv4, name) for name in dsv4.__all__)


def test_the_names_of_tokens() -> None:
    from dsv4 import tokens

    assert set(tokens.__all__) == {
        *("Difference", "Example", "Fitted", "IdParser", "Sample", "Session", "Span"),
        *("Tokenizer", "VocabularyError", "why_not_prefix"),
    }


def test_the_names_for_transformers() -> None:
    from dsv4.compat import chat_template, hf

    assert callable(chat_template)
    assert callable(hf.apply_chat_template)
    assert callable(hf.install)


def test_options_of_parsing_are_given_by_name() -> None:
    text, *options = inspect.signature(dsv4.parse).parameters.values()
    assert text.name == "text"
    parser = inspect.signature(dsv4.StreamParser).parameters
    assert {o.name: o.default for o in options if o.name != "reason"} == {
        name: option.default for name, option in parser.items()
    }
    assert all(o.kind is o.KEYWORD_ONLY for o in (*options, *parser.values()))


def test_options_are_given_by_name() -> None:
    for function in (dsv4.encode, dsv4.Request):
        first, *options = inspect.signature(function).parameters.values()
        assert first.name == "messages"
        assert all(option.kind is option.KEYWORD_ONLY for option in options)


def test_the_short_way_has_the_defaults_of_a_request() -> None:
    request = inspect.signature(dsv4.Request).parameters
    short = inspect.signature(dsv4.encode).parameters
    assert {name: p.default for name, p in short.items()} == {
        name: request[name].default for name in short
    }


@released_modules
@pytest.mark.parametrize("name", RELEASED)
def test_released_functions(module: ModuleType, name: str) -> None:
    assert defaults(getattr(module, name)) == RELEASED[name]


@released_modules
def test_released_constants(module: ModuleType) -> None:
    assert {name: getattr(module, name) for name in RELEASED_CONSTANTS} == RELEASED_CONSTANTS


@released_modules
def test_released_templates(module: ModuleType) -> None:
    expected = json.loads((VECTORS / "constants-v4.json").read_text("utf-8"))
    if module.__name__ == "dsv4.compat.vllm":
        expected["thinking_template"] = "{reasoning}"
    assert {name: getattr(module, name) for name in expected} == expected
    assert all(name in module.__all__ for name in expected)


@released_modules
def test_to_json(module: ModuleType) -> None:
    assert module.to_json({"城": [1, None, "é"]}) == '{"城": [1, null, "é"]}'


def defaults(function: Any) -> dict[str, Any]:
    """What a caller can give by position, with defaults. Parameters by name alone are our own."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}


@pytest.mark.parametrize("module", [encoding_dsv41, encoding_dsv41_1017])
def test_the_modules_released_with_v4_1(module: ModuleType) -> None:
    expected = json.loads((VECTORS / "constants-v4.1.json").read_text("utf-8"))
    for name, listed in expected.pop("signatures").items():
        parameters = inspect.signature(getattr(module, name)).parameters.values()
        found = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters]
        assert (name, found) == (name, listed)
        assert name in module.__all__
    for name, value in expected.items():
        found = getattr(module, name)
        assert (name, sorted(found) if isinstance(found, set) else found) == (name, value)
        assert name in module.__all__


def test_the_copies_have_the_names_of_the_released_module() -> None:
    assert vllm.__all__ == encoding_dsv4.__all__
    assert set(encoding_dsv32.__all__) < set(encoding_dsv4.__all__)
    for module in (encoding_dsv4, encoding_dsv32, encoding_dsv41, encoding_dsv41_1017, vllm):
        assert [name for name in module.__all__ if not hasattr(module, name)] == []


def functions_of(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public functions of a module and of its classes, properties included."""
    for name in module.__all__:
        value = getattr(module, name)
        members = [] if not inspect.isclass(value) else vars(value).items()
        for place, each in ((name, value), *((f"{name}.{member}", v) for member, v in members)):
            found = each.fget if isinstance(each, property) else getattr(each, "__func__", each)
            if inspect.isfunction(found) and "._" not in place:
                yield place, found


@pytest.mark.parametrize(
    "module", [dsv4, encoding_dsv4, encoding_dsv41, encoding_dsv41_1017, encoding_dsv32, vllm]
)
def test_every_annotation_can_be_resolved(module: ModuleType) -> None:
    """Also of modules that are loaded when somebody needs them: `dsv4.types` is one."""
    found = dict(functions_of(module))
    assert found
    for place, function in found.items():
        hints = get_type_hints(function)
        assert hints or not function.__annotations__, place


def test_annotations_do_not_load_what_they_name() -> None:
    loaded = "[name for name in ('dsv4.types', 'dsv4._images.image_grid') if name in sys.modules]"
    encoded = "dsv4.encode([{'role': 'user', 'content': 'a'}])"
    script = f"import sys, dsv4; {encoded}; print({loaded})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.decode().strip() == "[]"
