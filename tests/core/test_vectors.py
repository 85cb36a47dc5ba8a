"""What the released modules write and read, byte for byte. See vectors/README.md."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dsv4
import encoding_dsv4
import encoding_dsv32
import encoding_dsv41
import encoding_dsv41_1017
from builders import vectors
from rows import each_row
from strategies import ROLES

Case = dict[str, Any]


def cases(name: str, wanted: Callable[[Case], bool] = lambda case: True) -> list[Any]:
    return [
        pytest.param(case, id=f"{name}:{line} {case.get('note', '')}".strip())
        for line, case in enumerate(vectors(name), 1)
        if wanted(case)
    ]


def check(case: Case, expected: str, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Calls the function, which must leave its arguments alone, and compares its result."""
    before = copy.deepcopy((args, named))
    try:
        if "error" in case:
            with pytest.raises(ValueError, match=r"."):
                function(*args, **named)
            return None
        found = function(*args, **named)
    finally:
        assert repr((args, named)) == repr(before)
    assert plain(found) == case[expected]
    return found


def plain(value: Any) -> Any:
    """The value as JSON would give it back: the vectors have no tuples."""
    return str(value) if isinstance(value, dsv4.Prompt) else json.loads(json.dumps(value))


@each_row("case", cases("encode-v4.jsonl"))
def test_released_encoder(case: Case) -> None:
    check(case, "prompt", encoding_dsv4.encode_messages, case["messages"], **case["options"])


@each_row("case", cases("encode-v3.2.jsonl"))
def test_released_v32_encoder(case: Case) -> None:
    check(case, "prompt", encoding_dsv32.encode_messages, case["messages"], **case["options"])


@each_row("case", cases("parse-v3.2.jsonl"))
def test_released_v32_parser(case: Case) -> None:
    parse = encoding_dsv32.parse_message_from_completion_text
    check(case, "message", parse, case["text"], case["thinking_mode"])


@each_row("case", cases("parse-v4.jsonl"))
def test_released_parser(case: Case) -> None:
    parse = encoding_dsv4.parse_message_from_completion_text
    check(case, "message", parse, case["text"], case["thinking_mode"])


@each_row("case", [*cases("helpers-v4.jsonl"), *cases("helpers-v4-vision.jsonl")])
def test_released_functions(case: Case) -> None:
    check(case, "result", getattr(encoding_dsv4, case["function"]), *case["args"])


MODULES_V41 = {
    "v4.1-released": encoding_dsv41,
    "v4.1": encoding_dsv41,
    "v4.1-1017": encoding_dsv41_1017,
}


def cases_v41(kind: str, *files: str) -> list[Any]:
    return [
        pytest.param(MODULES_V41[file], *param.values, id=f"{file}-{param.id}")
        for file in files
        for param in cases(f"{kind}-{file}.jsonl")
    ]


@each_row("module, case", cases_v41("encode", "v4.1-released", "v4.1-1017"))
def test_released_v41_encoder(module: Any, case: Case) -> None:
    encode = module.encode_messages
    check(case, "prompt", encode, case["messages"], **case["options"])
    if "error" not in case:
        _, found = encode(case["messages"], **case["options"], return_multi_modal_data=True)
        assert found == {"images": case["images"]}


@each_row("module, case", cases_v41("helpers", "v4.1", "v4.1-1017"))
def test_released_v41_functions(module: Any, case: Case, tmp_path: Path) -> None:
    function, args = getattr(module, case["function"]), case["args"]
    if "file" in case:
        path = tmp_path / "cases.json"
        path.write_text(json.dumps(case["file"]), "utf-8")
        args = [str(path)]
    check(case, "result", function, *args, **case.get("kwargs", {}))


@each_row("case", cases("parse-v4.1.jsonl", lambda case: case["namespaces"]))
def test_released_v41_parser(case: Case) -> None:
    parse = encoding_dsv41.parse_message_from_completion_text
    check(case, "message", parse, case["text"], case["thinking_mode"])


def has_a_native_form(case: Case) -> bool:
    """Whether the native API promises the same: it refuses some of what was let by."""
    options, messages = case["options"], case["messages"]
    if options["thinking_mode"] not in ("chat", "thinking") or not messages:
        return False
    # A developer turn in the context: the native API renders every new turn all the same.
    if any(message.get("role") == "developer" for message in options.get("context") or ()):
        return False
    return "error" in case or all(message["role"] in ROLES for message in messages)


def is_v32_form(case: Case) -> bool:
    """The same for V3.2: where a developer turn vanishes, the released function fails."""
    developers = any(message.get("role") == "developer" for message in case["messages"])
    return has_a_native_form(case) and not (developers and "error" in case)


NATIVE_NAMES = {
    "drop_thinking": "drop_thinking",
    "reasoning_effort": "effort",
    "add_default_bos_token": "bos",
    "context": "context",
}


def native_options(options: dict[str, Any]) -> dict[str, Any]:
    named = {NATIVE_NAMES[name]: value for name, value in options.items() if name in NATIVE_NAMES}
    return {"thinking": options["thinking_mode"] == "thinking", **named}


@each_row(
    "dialect, case",
    [
        pytest.param(dialect, *param.values, id=param.id)
        for file in (*dsv4.DIALECTS, "v4.1-namespaces", "v4.1-released")
        for dialect in [file.removesuffix("-namespaces").removesuffix("-released")]
        for param in cases(
            f"encode-{file}.jsonl", has_a_native_form if file != "v3.2" else is_v32_form
        )
    ],
)
def test_native_encoder(dialect: str, case: Case) -> None:
    options = native_options(case["options"])
    prompt = check(case, "prompt", dsv4.encode, case["messages"], **options, dialect=dialect)
    if prompt is not None:
        assert "".join(piece.text for piece in prompt.pieces) == case["prompt"]
        # The release lists images by message, and some that it does not write; ours stand in the
        # order of the prompt, one for each placeholder.
        listed = Counter(map(str, case.get("images", [])))
        assert not Counter(map(str, prompt.images)) - listed
        places = [piece for piece in prompt.pieces if piece.special and piece.field == "image"]
        assert len(prompt.images) == len(places)
