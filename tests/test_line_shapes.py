"""The shapes of lines in data sets: what each is read as, held against prompts written by hand."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dsv4
from changing import changed
from dsv4._inputs.line_shapes import (
    LineConversation,
    line_conversations,
    line_pair,
    line_with_label,
)
from dsv4.api.neutral_request import mark_text
from dsv4.dataset import BadLine, DatasetError, DatasetOptions, Summary, encode_files
from dsv4.tokens.tokenizer import Tokenizer
from parts import fewer
from rows import each_row
from small_vocabulary import write_small_vocabulary

tokenizers = pytest.importorskip("tokenizers")

BOS, EOS = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
USER, ASSISTANT = "<｜User｜>", "<｜Assistant｜>"


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_vocabulary(tmp_path_factory.mktemp("vocabulary") / "tokenizer.json")


def run(
    lines: list[Any], folder: Path, vocabulary: Path, **options: Any
) -> tuple[list[Any], Summary]:
    path, out = folder / "in.jsonl", folder / "out.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    given = DatasetOptions(tokenizer=vocabulary, jobs=1, overwrite=True, **options)
    summary = encode_files([path], out, given)
    return [json.loads(line) for line in out.read_text().splitlines()], summary


# A prompt by hand: what is trained on stands in a list.
Q, A = f"{BOS}{USER}Hi{ASSISTANT}<think>", ["</think>Hello" + EOS]
PLAIN = [Q, A]
WITH_SYSTEM = [f"{BOS}Be kind{USER}Hi{ASSISTANT}<think>", ["</think>Hello" + EOS]]
THOUGHT = [Q, ["Greet.</think>Hello" + EOS]]
TWO = [
    f"{BOS}{USER}One{ASSISTANT}</think>",
    ["Eins" + EOS],
    f"{USER}Two{ASSISTANT}<think>",
    ["</think>Zwei" + EOS],
]
OPEN = [Q, ["</think>Hello"]]

HI = [{"role": "user", "content": "Hi"}]
HELLO = [*HI, {"role": "assistant", "content": "Hello"}]
TURNS = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]
NUMBERS = [
    {"role": "user", "content": "One"},
    {"role": "assistant", "content": "Eins"},
    {"role": "user", "content": "Two"},
    {"role": "assistant", "content": "Zwei"},
]
BLOCKS = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
ITEMS = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
OUTPUT = [
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}
]

CONVERSATIONS: list[Any] = [
    # Chat Completions
    pytest.param(HELLO, PLAIN, id="a list of messages"),
    pytest.param({"messages": HELLO}, PLAIN, id="Chat"),
    pytest.param(
        {"messages": HELLO, "model": "gpt-4o", "temperature": 0}, PLAIN, id="Chat, logged"
    ),
    pytest.param({"messages": NUMBERS, "prompt": "One", "prompt_id": "7"}, TWO, id="UltraChat"),
    pytest.param({"conversation": HELLO, "model": "vicuna"}, PLAIN, id="LMSYS"),
    pytest.param({"conversations": HELLO, "id": 1}, PLAIN, id="messages under another name"),
    pytest.param(
        {
            "messages": [
                *HI,
                {"role": "assistant", "content": "Hello", "reasoning_content": "Greet."},
            ]
        },
        THOUGHT,
        id="Chat with reasoning_content",
    ),
    pytest.param(
        {"messages": [*HI, {"role": "assistant", "content": "Hello", "thinking": "Greet."}]},
        THOUGHT,
        id="Chat with thinking, as for gpt-oss",
    ),
    pytest.param(
        {"messages": [*HI, {"role": "assistant", "content": "Hello", "prefix": True}]},
        OPEN,
        id="Chat that says prefix",
    ),
    pytest.param(
        {"messages": [*HI, {"role": "assistant", "content": "Hello", "wo_eos": True}]},
        OPEN,
        id="Chat that says wo_eos",
    ),
    # Chat with a system prompt beside it
    pytest.param({"system": "Be kind", "messages": HELLO}, WITH_SYSTEM, id="Chat with system"),
    pytest.param({"system": "", "messages": HELLO}, PLAIN, id="an empty system"),
    pytest.param({"system": None, "messages": HELLO}, PLAIN, id="no system"),
    pytest.param(
        {"system_prompt": "Be kind", "messages": HELLO}, WITH_SYSTEM, id="Chat with system_prompt"
    ),
    pytest.param(
        {"system": "Be kind", "messages": [{"role": "system", "content": "Be kind"}, *HELLO]},
        WITH_SYSTEM,
        id="the same system twice",
    ),
    pytest.param(
        {"system": "Be", "messages": [{"role": "system", "content": "kind"}, *HELLO]},
        [f"{BOS}Be\n\nkind{USER}Hi{ASSISTANT}<think>", ["</think>Hello" + EOS]],
        id="two systems",
    ),
    pytest.param(
        {"system_message": "Be kind", "conversations": TURNS}, WITH_SYSTEM, id="system_message"
    ),
    # an answer beside the messages
    pytest.param(
        {"messages": HI, "reasoning": "Greet.", "answer": "Hello", "model": "R1"},
        THOUGHT,
        id="Dolphin R1",
    ),
    pytest.param({"messages": HI, "prompt": "Hi", "response": "Hello"}, PLAIN, id="a log"),
    pytest.param({"conversations": TURNS[:1], "output": "Hello"}, PLAIN, id="turns and output"),
    pytest.param({"messages": HELLO, "answer": "42"}, PLAIN, id="messages with their answer"),
    pytest.param({"messages": json.dumps(HELLO), "tools": "[]"}, PLAIN, id="messages as text"),
    # Messages
    pytest.param(
        {"system": [{"type": "text", "text": "Be kind"}], "messages": HELLO, "max_tokens": 9},
        WITH_SYSTEM,
        id="Messages with a system block",
    ),
    pytest.param(
        {
            "messages": [
                *BLOCKS,
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Greet.", "signature": ""},
                        {"type": "text", "text": "Hello"},
                    ],
                },
            ]
        },
        THOUGHT,
        id="Messages with thinking",
    ),
    pytest.param(
        {"system": "Be kind", "messages": HELLO, "stop_sequences": ["x"]},
        WITH_SYSTEM,
        id="Messages by its fields",
    ),
    # Responses
    pytest.param({"input": ITEMS}, PLAIN, id="Responses"),
    pytest.param({"instructions": "Be kind", "input": ITEMS}, WITH_SYSTEM, id="with instructions"),
    pytest.param({"input": "Hi", "output": OUTPUT}, PLAIN, id="Responses, request and response"),
    # ShareGPT
    pytest.param({"conversations": TURNS}, PLAIN, id="ShareGPT"),
    pytest.param(TURNS, PLAIN, id="a list of turns"),
    pytest.param({"conversation": TURNS, "id": "x"}, PLAIN, id="turns in conversation"),
    pytest.param({"messages": TURNS}, PLAIN, id="turns in messages"),
    pytest.param({"conversations": TURNS, "system": "Be kind"}, WITH_SYSTEM, id="OpenThoughts"),
    pytest.param(
        {
            "conversations": [
                {"from": "system", "value": "Be kind", "weight": None},
                {"from": "user", "value": "Hi"},
                {"from": "assistant", "value": "Hello"},
            ],
            "system_prompt": "Be kind",
            "source": "x",
        },
        WITH_SYSTEM,
        id="OpenHermes",
    ),
    pytest.param({"conversations": ["Hi", "Hello"], "source": "x"}, PLAIN, id="LIMA"),
    pytest.param(
        {"conversations": TURNS, "instruction": "Hi", "response": "Hello"}, PLAIN, id="Magpie"
    ),
    # Alpaca
    pytest.param({"instruction": "Hi", "output": "Hello"}, PLAIN, id="Alpaca"),
    pytest.param(
        {"instruction": "Hi", "input": "", "output": "Hello", "text": "…"}, PLAIN, id="input"
    ),
    pytest.param(
        {"instruction": "Say it", "input": "Hi", "output": "Hello"},
        [f"{BOS}{USER}Say it\nHi{ASSISTANT}<think>", A],
        id="Alpaca with input",
    ),
    pytest.param(
        {"instruction": "Two", "output": "Zwei", "history": [["One", "Eins"]]},
        TWO,
        id="Alpaca with history",
    ),
    pytest.param(
        {"instruction": "Hi", "input": "", "output": "Hello", "system": "Be kind"},
        WITH_SYSTEM,
        id="Alpaca with system",
    ),
    pytest.param(
        {"instruction": "Say it", "context": "Hi", "response": "Hello", "category": "x"},
        [f"{BOS}{USER}Say it\nHi{ASSISTANT}<think>", A],
        id="Dolly",
    ),
    # a question and its answer
    pytest.param({"prompt": "Hi", "completion": "Hello"}, PLAIN, id="prompt and completion"),
    pytest.param({"prompt": HI, "completion": HELLO[1:]}, PLAIN, id="conversational prompt"),
    pytest.param(
        {"system": "Be kind", "prompt": "Hi", "completion": "Hello"}, WITH_SYSTEM, id="with system"
    ),
    pytest.param({"query": "Hi", "response": "Hello", "history": []}, PLAIN, id="ms-swift"),
    pytest.param({"question": "Hi", "answer": "Hello"}, PLAIN, id="GSM8K"),
    pytest.param(
        {"id": 1, "system_prompt": "Be kind", "question": "Hi", "response": "Hello"},
        WITH_SYSTEM,
        id="OpenOrca",
    ),
    pytest.param({"input": HI, "output": "Hello", "reasoning": "off"}, PLAIN, id="Nemotron"),
    pytest.param({"input": "Hi", "output": "Hello"}, PLAIN, id="input and output"),
    pytest.param(
        {"prompt": "Hi", "reasoning": "Greet.", "response": "Hello"}, THOUGHT, id="with reasoning"
    ),
]


def ids_of(text: str, vocabulary: Path) -> list[int]:
    """The ids of a text, by the file of the vocabulary and the library that reads such files."""
    added = {t["content"]: t["id"] for t in json.loads(vocabulary.read_text())["added_tokens"]}
    encode = tokenizers.Tokenizer.from_file(str(vocabulary)).encode
    special = "|".join(map(re.escape, sorted(added, key=len, reverse=True)))
    ids: list[int] = []
    for part in re.split(f"({special})", text):
        ids += [added[part]] if part in added else encode(part, add_special_tokens=False).ids
    return ids


def by_hand(parts: list[Any], vocabulary: Path) -> tuple[list[int], list[int]]:
    """Ids and mask of a prompt that is written out."""
    ids: list[int] = []
    mask: list[int] = []
    for part in parts:
        text = part if isinstance(part, str) else part[0]
        encoded = ids_of(text, vocabulary)
        ids += encoded
        mask += [int(part is not text)] * len(encoded)
    return ids, mask


@each_row("line, wanted", CONVERSATIONS)
def test_a_line_has_the_tokens_that_its_author_meant(
    line: Any, wanted: list[Any], vocabulary: Path, tmp_path: Path
) -> None:
    (row,), _ = run([line], tmp_path, vocabulary)
    assert (row["input_ids"], row["loss_mask"]) == by_hand(wanted, vocabulary)


# Tools: each spelling is the same conversation.

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"name": "weather", "description": "Now.", "parameters": SCHEMA}
TOOL = {"type": "function", "function": FUNCTION}
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "weather", "arguments": {"city": "Rome"}},
}
AS_TEXT = {**CALL, "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "Sun"}
SUN = {"role": "assistant", "content": "Sunny"}
CALLED = [*HI, {"role": "assistant", "content": "", "tool_calls": [CALL]}, RESULT, SUN]

WITH_TOOLS: list[Any] = [
    pytest.param({"messages": CALLED, "tools": [TOOL]}, id="Chat"),
    pytest.param({"messages": CALLED, "tools": [FUNCTION]}, id="bare functions"),
    pytest.param({"messages": CALLED, "tools": json.dumps([TOOL])}, id="tools as text"),
    pytest.param({"messages": CALLED, "tools": [json.dumps(TOOL)]}, id="each tool as text"),
    pytest.param(
        {
            "messages": [HI[0], {**CALLED[1], "tool_calls": [AS_TEXT]}, RESULT, SUN],
            "tools": [TOOL],
        },
        id="arguments as text",
    ),
    pytest.param(
        {
            "messages": [HI[0], {**CALLED[1], "tool_calls": json.dumps([AS_TEXT])}, RESULT, SUN],
            "tools": [TOOL],
        },
        id="calls as text",
    ),
    pytest.param(
        {
            "conversations": [
                {"from": "human", "value": "Hi"},
                {
                    "from": "function_call",
                    "value": '{"name": "weather", "arguments": {"city": "Rome"}}',
                },
                {"from": "observation", "value": "Sun"},
                {"from": "gpt", "value": "Sunny"},
            ],
            "tools": json.dumps([FUNCTION]),
        },
        id="ShareGPT",
    ),
    pytest.param(
        {
            "messages": [
                *BLOCKS,
                {
                    "role": "assistant",
                    "content": [
                        {
                            "type": "tool_use",
                            "id": "c1",
                            "name": "weather",
                            "input": {"city": "Rome"},
                        }
                    ],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "Sun"}],
                },
                {"role": "assistant", "content": "Sunny"},
            ],
            "tools": [{"name": "weather", "description": "Now.", "input_schema": SCHEMA}],
        },
        id="Messages",
    ),
    pytest.param(
        {
            "input": [
                {"role": "user", "content": "Hi"},
                {
                    "type": "function_call",
                    "call_id": "c1",
                    "name": "weather",
                    "arguments": '{"city": "Rome"}',
                },
                {"type": "function_call_output", "call_id": "c1", "output": "Sun"},
                {"role": "assistant", "content": "Sunny"},
            ],
            "tools": [{"type": "function", **FUNCTION}],
        },
        id="Responses",
    ),
    pytest.param(
        {"prompt": HI, "completion": CALLED[1:], "tools": [TOOL]}, id="prompt and completion"
    ),
]


@each_row("line", WITH_TOOLS)
def test_tools_are_the_same_in_every_shape(line: Any, vocabulary: Path, tmp_path: Path) -> None:
    (row,), summary = run([line], tmp_path, vocabulary)
    assert row["input_ids"] == ids_of(str(dsv4.encode(CALLED, tools=[TOOL])), vocabulary)
    assert summary.count("undeclared_tool") == 0


REFUSED: list[Any] = [
    pytest.param(
        {"question": "Hi", "solution": "Say it. Hello", "answer": "Hello"},
        "found answer and solution in one line",
        id="LIMO",
    ),
    pytest.param(
        {"messages": HI, "response": "Hello", "answer": "42"},
        "found messages with response and messages with answer in one line",
        id="two answers beside messages",
    ),
    pytest.param(
        {"image": "1.jpg", "conversations": [{"from": "human", "value": "<image>Hi"}, TURNS[1]]},
        "image: found '1.jpg', expected it in the messages",
        id="LLaVA",
    ),
    pytest.param(
        {"messages": HELLO, "images": ["1.jpg"]}, "images: found ['1.jpg']", id="LLaMA-Factory"
    ),
    pytest.param(
        {
            "messages": HELLO,
            "chat_template_kwargs": {"custom_instructions": "Be kind", "enable_thinking": False},
        },
        "chat_template_kwargs.custom_instructions: found 'Be kind'",
        id="SmolTalk2",
    ),
    pytest.param(
        {"conversations": [TURNS[0], {"from": "gpt", "value": "<|begin_of_thought|>Hm"}]},
        "conversations[1].value: the text holds reasoning",
        id="OpenThoughts",
    ),
    pytest.param(
        {
            "conversations": [
                TURNS[0],
                {"from": "gpt", "value": "<tool_call>\n{'name': 'f', 'arguments': {}}"},
            ]
        },
        "conversations[1].value: the text holds markup of tool calls",
        id="Hermes, with quotes that are not JSON's",
    ),
    pytest.param({"text": "Human: Hi"}, "found an object with text, expected messages", id="text"),
    pytest.param(
        {"input": "Hi", "target": "Hello"},
        "found an object with input, target, expected messages",
        id="an answer by another name",
    ),
    pytest.param({"role": "user", "content": "Hi"}, "put the messages in a list", id="one message"),
    pytest.param({"input": 5, "output": OUTPUT}, "input: found 5, expected text or a list", id="5"),
    pytest.param(
        {"question": "Hi", "answer": "42", "response": "Hello"},
        "found question with response and question with answer in one line",
        id="two answers",
    ),
    pytest.param(
        {"messages": HELLO, "question": "Hi", "answer": "42"},
        "found a list in messages and question with answer in one line, which mean different",
        id="two conversations",
    ),
    pytest.param(
        {"instructions": "Say it", "input": "Hi", "output": "Hello"},
        "found Responses items and input with output in one line",
        id="instructions with output",
    ),
    pytest.param(
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "c", "content": ""}],
                },
                {"role": "assistant", "content": "", "tool_calls": [CALL]},
            ]
        },
        "found Anthropic's blocks and OpenAI's calls in one line",
        id="two protocols",
    ),
    pytest.param(
        {"messages": HELLO, "functions": [FUNCTION]},
        "functions: found OpenAI's older",
        id="old tools",
    ),
    pytest.param(
        {"messages": [*HI, {"role": "assistant", "function_call": {"name": "x"}}]},
        "messages[1].function_call: found OpenAI's older form of a call (dsv4 check --fix",
        id="an old call",
    ),
    pytest.param(
        {"conversations": [{"from": "bot", "value": "Hi"}]},
        "conversations[0].from: found 'bot', expected one of",
        id="a speaker",
    ),
    pytest.param(
        {"conversations": [{"from": "human", "value": 5}, TURNS[1]]},
        "conversations[0].value: found 5",
        id="a turn's value",
    ),
    pytest.param({"instruction": "Hi", "input": 5, "output": "x"}, "input: found 5", id="an input"),
    pytest.param({"prompt": 5, "completion": "x"}, "prompt: found 5, expected text", id="a prompt"),
    pytest.param(
        {"conversations": [TURNS[0], {"from": "gpt", "value": "<think>Hm</think>Hello"}]},
        "conversations[1].value: the text holds reasoning or its tags",
        id="reasoning in a turn",
    ),
    pytest.param(
        {"instruction": "Hi", "output": "<think>Hm</think>Hello"},
        "output: the text holds reasoning",
        id="reasoning in an output",
    ),
    pytest.param(
        {"prompt": "Hi", "chosen": "A", "rejected": "B"}, "which --preferences", id="a pair"
    ),
    pytest.param(
        {"messages": HELLO, "rejected_response": "B"}, "which --preferences", id="ms-swift"
    ),
    pytest.param({"prompt": "Hi", "completion": "A", "label": True}, "which --kto reads", id="KTO"),
    pytest.param(
        {
            "messages": [
                HI[0],
                {"role": "assistant", "content": [{"type": "tool_use"}], "weight": 0},
            ]
        },
        "messages[1]: found a weight, which messages has no place for",
        id="a weight in blocks",
    ),
    pytest.param(
        {"query": "Hi", "response": "A", "history": ["x"]}, "history: found", id="history"
    ),
    pytest.param(
        {"instruction": "Human:Hi\nAssistant:Hello\nHuman:Bye\nAssistant:", "output": "Bye"},
        "instruction: found several turns in one text, expected a list of messages",
        id="BELLE's turns",
    ),
    pytest.param(
        {"prompt": "\n\nHuman: Hi\n\nAssistant:", "response": "Hello"},
        "prompt: found several turns in one text",
        id="Anthropic's turns",
    ),
    pytest.param(
        {"question": "Hi", "answer": ["Hello", "Hi there"]},
        "answer: found ['Hello', 'Hi there'], expected text",
        id="several wordings of an answer",
    ),
    pytest.param({"question": "Hi", "answer": ["Hello"]}, "answer: found ['Hello']", id="one of"),
    pytest.param(
        {"conversations": [{"role": "user", "value": "Hi"}, {"role": "gpt", "value": "Hello"}]},
        "conversations[0].value: found it beside role, expected content",
        id="names of two shapes in a message",
    ),
    pytest.param(
        {"question": "Who?", "context": "Ada was there.", "answer": "Ada"},
        "context: found text beside question",
        id="a passage beside a question",
    ),
]


@each_row("line, problem", REFUSED)
def test_a_line_that_may_mean_something_else_is_refused(
    line: Any, problem: str, vocabulary: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadLine) as caught:
        run([line], tmp_path, vocabulary)
    assert problem in str(caught.value)


def test_reasoning_in_a_turn_names_the_command_that_moves_it(
    vocabulary: Path, tmp_path: Path
) -> None:
    line = {"conversations": [TURNS[0], {"from": "gpt", "value": "<think>Hm</think>Hello"}]}
    with pytest.raises(BadLine, match=r"dsv4 check --fix moves it to where it belongs"):
        run([line], tmp_path, vocabulary)


# Weights, under the names that trainers have for them.


@each_row("flag", ["weight", "loss", "train", "training"])
def test_a_turn_that_is_not_trained_on(flag: str, vocabulary: Path, tmp_path: Path) -> None:
    no = 0 if flag == "weight" else False
    for key, line in (
        ("messages", [NUMBERS[0], {**NUMBERS[1], flag: no}, *NUMBERS[2:]]),
        ("conversations", [TURNS[0], {**TURNS[1], flag: no}, *TURNS]),
    ):
        (row,), _ = run([{key: line}], tmp_path, vocabulary)
        (other,), _ = run([{key: line[:1] + line[2:]}], tmp_path, vocabulary)
        assert sum(row["loss_mask"]) == sum(other["loss_mask"])


UNTRAINED = [
    pytest.param(
        "messages",
        [*HI, {"role": "assistant", "content": [{"type": "text", "text": "one"}]}],
        [*HI, *HI, {"role": "assistant", "content": [{"type": "text", "text": "two"}]}],
        id="Messages",
    ),
    pytest.param(
        "input",
        [
            *HI,
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": "R"},
        ],
        [*HI, {"type": "message", "role": "assistant", "content": "two"}],
        id="Responses",
    ),
]


@pytest.mark.parametrize(("field", "first", "last"), UNTRAINED)
def test_turns_of_other_protocols_have_weights(
    field: str, first: list[Any], last: list[Any], vocabulary: Path, tmp_path: Path
) -> None:
    def trained(weight: int) -> int:
        turns = [*first, *last]
        weights = [int("user" not in turn.values()) for turn in turns]
        weights[1] = weight
        (row,), _ = run([{field: turns, "system": [], "weight": weights}], tmp_path, vocabulary)
        return sum(row["loss_mask"])

    assert 0 < trained(0) < trained(1)


OURS = mark_text("Hm")
REASONING = [
    pytest.param({"summary": [{"text": "Sum"}]}, {"unread input.summary"}, id="a summary"),
    pytest.param(
        {"summary": [{"text": "Sum"}], "content": None, "encrypted_content": "gAAA"},
        {"unread input.summary", "unread input.encrypted_content"},
        id="a summary of what is sealed",
    ),
    pytest.param(
        {"summary": [], "encrypted_content": "gAAA"},
        {"unread input.encrypted_content"},
        id="sealed",
    ),
    pytest.param({"summary": [{"text": "Sum"}], "content": [{"text": "Hm"}]}, set(), id="both"),
    pytest.param({"summary": [{"text": "Sum"}], "encrypted_content": OURS}, set(), id="our mark"),
]


@pytest.mark.parametrize(("fields", "notes"), REASONING)
def test_a_summary_is_not_trained_as_reasoning(
    fields: dict[str, Any], notes: set[str], vocabulary: Path, tmp_path: Path
) -> None:
    kinds = {"content": "reasoning_text", "summary": "summary_text"}
    item: dict[str, Any] = {"type": "reasoning", **fields}
    for name, kind in kinds.items():
        item[name] = [{"type": kind, **part} for part in item.get(name) or ()]
    answer = {"type": "message", "role": "assistant", "content": "Yes"}
    (row,), summary = run([{"input": [*HI, item, answer]}], tmp_path, vocabulary)
    thought = "" if notes else "Hm"
    written = Tokenizer.load(vocabulary).decode(row["input_ids"])
    assert written.endswith(f"<think>{thought}</think>Yes{EOS}")
    assert {note for note in summary.notes if note.startswith("unread")} == notes


# Pairs.

CHOSEN, REJECTED = (
    [{"role": "assistant", "content": "Hello"}],
    [{"role": "assistant", "content": "No"}],
)
SAID = {"role": "system", "content": "Be kind"}
NO = [{"from": "gpt", "value": "No"}]

PAIRS: list[Any] = [
    pytest.param({"prompt": "Hi", "chosen": "Hello", "rejected": "No"}, id="texts"),
    pytest.param({"prompt": HI, "chosen": CHOSEN, "rejected": REJECTED}, id="messages"),
    pytest.param(
        {"prompt": "Hi", "question": "Hi", "chosen": HI + CHOSEN, "rejected": HI + REJECTED},
        id="one question twice",
    ),
    pytest.param({"prompt": HI, "chosen": CHOSEN[0], "rejected": REJECTED[0]}, id="one message"),
    pytest.param({"question": "Hi", "chosen": "Hello", "rejected": "No"}, id="Orca's pairs"),
    pytest.param(
        {"instruction": "Hi", "input": "", "chosen": "Hello", "rejected": "No"}, id="Alpaca"
    ),
    pytest.param({"chosen": HI + CHOSEN, "rejected": HI + REJECTED}, id="conversations"),
    pytest.param(
        {"prompt": "Hi", "chosen": HI + CHOSEN, "rejected": HI + REJECTED, "messages": HI + CHOSEN},
        id="UltraFeedback",
    ),
    pytest.param(
        {"prompt": HI, "chosen": HI + CHOSEN, "rejected": HI + REJECTED}, id="copied prompt"
    ),
    pytest.param(
        {"messages": HI, "chosen": CHOSEN[0], "rejected": REJECTED[0]}, id="prompt in messages"
    ),
    pytest.param(
        {"conversations": TURNS[:1], "chosen": TURNS[1], "rejected": NO[0]}, id="LLaMA-Factory"
    ),
    pytest.param({"chosen": TURNS, "rejected": [TURNS[0], *NO]}, id="two ShareGPT conversations"),
    pytest.param(
        {"input": {"messages": HI}, "preferred_output": CHOSEN, "non_preferred_output": REJECTED},
        id="OpenAI",
    ),
    pytest.param({"messages": HELLO, "rejected_response": "No"}, id="ms-swift"),
]


@each_row("line", PAIRS)
@pytest.mark.parametrize("beside", [None, "system", "system_prompt"])
def test_a_pair(line: dict[str, Any], beside: str | None, vocabulary: Path, tmp_path: Path) -> None:
    if beside and "preferred_output" in line:
        line = {**line, "input": {"messages": [SAID, *HI]}}
    elif beside:
        line = {**line, beside: "Be kind"}
    (row,), _ = run([line], tmp_path, vocabulary, preferences=True)
    prompt = (WITH_SYSTEM if beside else PLAIN)[0]
    assert row["prompt_ids"] == by_hand([prompt], vocabulary)[0]
    for side, text in (("chosen", "Hello"), ("rejected", "No")):
        ids, mask = by_hand([[f"</think>{text}{EOS}"]], vocabulary)
        assert (row[f"{side}_ids"], row[f"{side}_mask"]) == (ids, mask)


REFUSED_PAIRS: list[Any] = [
    pytest.param(
        {"chosen": "\n\nHuman: Hi", "rejected": "x"}, "chosen: found an answer, and no prompt"
    ),
    pytest.param({"messages": HELLO}, 'found an object with messages, expected "chosen"'),
    pytest.param(
        {"prompt": "Other", "chosen": HI + CHOSEN, "rejected": HI + REJECTED},
        "chosen: found a conversation that does not begin with prompt",
    ),
    pytest.param(
        {"prompt": "Hi", "chosen": "A", "rejected": "A"}, "rejected: found what is chosen"
    ),
    pytest.param({"prompt": "Hi", "question": "x", "chosen": "A", "rejected": "B"}, "one question"),
    pytest.param(
        {"prompt": HI, "chosen": [{"role": "assistant", "content": 5}], "rejected": "B"},
        "chosen[0].content: found 5",
    ),
    pytest.param({"prompt": HI, "chosen": [], "rejected": "B"}, "chosen: found []"),
    pytest.param(
        {"prompt": "Hi", "initial_reason_steps": "First,", "chosen": "A", "rejected": "B"},
        "initial_reason_steps: found 'First,', expected it in the messages",
    ),
    pytest.param([1], "expected an object"),
    pytest.param(
        {"prompt": [["Hi"]], "chosen": HI + CHOSEN, "rejected": "No"}, "does not begin with prompt"
    ),
]


@each_row("line, problem", REFUSED_PAIRS)
def test_a_pair_that_is_none(line: Any, problem: str, vocabulary: Path, tmp_path: Path) -> None:
    with pytest.raises(BadLine) as caught:
        run([line], tmp_path, vocabulary, preferences=True)
    assert problem in str(caught.value)


# Answers with a label.

LABELLED: list[Any] = [
    pytest.param({"prompt": "Hi", "completion": "Hello", "label": True}, id="texts"),
    pytest.param({"prompt": HI, "completion": CHOSEN, "label": True}, id="TRL"),
    pytest.param({"messages": HELLO, "label": True}, id="ms-swift"),
    pytest.param({"conversations": TURNS, "kto_tag": True}, id="LLaMA-Factory"),
    pytest.param({"instruction": "Hi", "output": "Hello", "kto_tag": True}, id="Alpaca"),
]


@each_row("line", LABELLED)
@pytest.mark.parametrize("label", [True, False])
def test_an_answer_with_a_label(
    line: dict[str, Any], label: bool, vocabulary: Path, tmp_path: Path
) -> None:
    name = "label" if "label" in line else "kto_tag"
    (row,), _ = run([{**line, name: label}], tmp_path, vocabulary, kto=True)
    ids, mask = by_hand([A], vocabulary)
    assert row == {
        "prompt_ids": by_hand([Q], vocabulary)[0],
        "completion_ids": ids,
        "completion_mask": mask,
        "label": label,
    }


@each_row(
    "line, problem",
    [
        ({"prompt": "Hi", "completion": "A"}, "label: found none, expected true or false"),
        ({"prompt": "Hi", "completion": "A", "label": "yes"}, "label: found 'yes', expected true"),
        ({"messages": HI, "label": True}, "found no answer at the end"),
        ({"messages": None, "label": True}, "messages: found None, expected a list of messages"),
        ({"messages": [], "label": True}, "found no answer at the end"),
        (
            {"prompt": "Hi", "completion": [{"role": "assistant", "content": 5}], "label": True},
            "completion[0].content: found 5",
        ),
    ],
)
def test_a_label_that_is_none(line: Any, problem: str, vocabulary: Path, tmp_path: Path) -> None:
    with pytest.raises(BadLine) as caught:
        run([line], tmp_path, vocabulary, kto=True)
    assert problem in str(caught.value)


# What a run notes of its data.

DEVELOPER = [{"role": "developer", "content": "Be kind"}, *HELLO]
THINKING = [*HI, {"role": "assistant", "content": "Hello", "reasoning_content": "Greet."}]
LATE = [{"type": "text", "text": "Hello"}, {"type": "thinking", "thinking": "Greet."}]

NOTES: list[Any] = [
    (DEVELOPER, "dropped_message"),
    ([*THINKING, *THINKING], "dropped_reasoning"),
    ({"messages": THINKING, "thinking": False}, "unwritten_reasoning"),
    ([*HI, {**HELLO[1], "prefix": True}], "open_turn"),
    ([*HI, {**HELLO[1], "wo_eos": True}], "open_turn"),
    (HELLO, "no_reasoning"),
    (HI, "nothing_to_learn"),
    (CALLED, "undeclared_tool"),
    ([*HELLO, HELLO[1]], "turn_without_token"),
    (HELLO[1:] + HELLO, "turn_without_token"),
    ({"messages": THINKING, "model": "DeepSeek-V3.2"}, "other_release"),
    ({"messages": THINKING, "context": HELLO}, "messages_in_context"),
    ([*HI, {"role": "assistant", "content": LATE}], "moved_blocks"),
    ({"messages": THINKING, "history": [["Hi", "Hello"]]}, "unread history"),
    ({"messages": THINKING, "prompt": "Bye"}, "unread prompt"),
    ({"messages": THINKING, "chosen": True}, "unread chosen"),
]


@each_row("line, kind", NOTES)
def test_what_is_noted(line: Any, kind: str, vocabulary: Path, tmp_path: Path) -> None:
    _, summary = run([THINKING, line, line], tmp_path, vocabulary)
    assert summary.notes[kind] == (2, f"{tmp_path / 'in.jsonl'}:2")
    assert summary.notes["copied_line"] == (1, f"{tmp_path / 'in.jsonl'}:3")


YES, NO = {"role": "assistant", "content": "Yes"}, {"role": "assistant", "content": "No"}
PAIR = {"chosen": [YES], "rejected": [NO]}
OPENAI_PAIR = {"input": {"messages": HI}, "preferred_output": [YES], "non_preferred_output": [NO]}
ASKED_PAIR = {**PAIR, "prompt": "Hi"}

# Pairs, and the field that is named once for both answers; None for one that is in the prompt.
PAIR_NOTES: list[Any] = [
    ({**ASKED_PAIR, "zzz": 1}, "zzz"),
    ({**ASKED_PAIR, "response": "Maybe"}, "response"),
    ({**ASKED_PAIR, "output": "Maybe"}, "output"),
    ({**PAIR, "prompt": HI, "history": [["a", "b"]]}, "history"),
    ({**PAIR, "messages": HI, "history": [["a", "b"]]}, "history"),
    ({"messages": [*HI, YES], "rejected_response": "No", "chosen": "Maybe"}, "chosen"),
    ({**OPENAI_PAIR, "zzz": 1}, "zzz"),
    ({**OPENAI_PAIR, "prompt": "Bye"}, "prompt"),
    ({**OPENAI_PAIR, "input": {"messages": HI, "metadata": {"a": 1}}}, "metadata"),
    ({**OPENAI_PAIR, "system": "Be kind"}, None),
    ({**OPENAI_PAIR, "tools": [{"name": "Be kind"}]}, None),
    # What only repeats the conversation, as UltraFeedback has it.
    ({**ASKED_PAIR, "system": "Be kind", "messages": [*HI, YES], "response": "No"}, None),
]


@each_row("line, name", PAIR_NOTES)
def test_no_field_of_a_pair_is_lost(
    line: Any, name: str | None, vocabulary: Path, tmp_path: Path
) -> None:
    (row,), summary = run([line], tmp_path, vocabulary, preferences=True)
    unread = {kind: n.times for kind, n in summary.notes.items() if kind.startswith("unread")}
    assert unread == ({} if name is None else {f"unread {name}": 1})
    decode = tokenizers.Tokenizer.from_file(str(vocabulary)).decode
    assert name is not None or "Be kind" in decode(row["prompt_ids"], skip_special_tokens=False)


@each_row(
    "line, problem",
    [
        ({**OPENAI_PAIR, "weight": 0}, "weight: found a field"),
        ({**OPENAI_PAIR, "images": ["x"]}, "images: found"),
        ({**OPENAI_PAIR, "messages": HELLO}, "messages: found another in input"),
        ({**ASKED_PAIR, "messages": DEVELOPER}, "messages: found another conversation"),
        ({**ASKED_PAIR, "conversations": TURNS[1:]}, "conversations: found another"),
        ({**PAIR, "instruction": "I", "input": "In", "context": "C"}, "found input and context"),
    ],
)
def test_a_pair_with_two_conversations(
    line: Any, problem: str, vocabulary: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadLine) as caught:
        run([line], tmp_path, vocabulary, preferences=True)
    assert problem in str(caught.value)


def test_reasoning_that_examples_keep_is_not_noted(vocabulary: Path, tmp_path: Path) -> None:
    _, summary = run([[*THINKING, *THINKING]], tmp_path, vocabulary, expand=True)
    assert "dropped_reasoning" not in summary.notes


def test_a_clean_run_has_nothing_to_note(vocabulary: Path, tmp_path: Path) -> None:
    assert run([THINKING], tmp_path, vocabulary)[1].notes == {}
    copied = {"messages": THINKING, "prompt": "Hi", "chosen": None, "rejected": None}
    assert run([copied], tmp_path, vocabulary)[1].notes == {}
    weighted = [*HI, {**THINKING[1], "weight": 1}]
    assert run([weighted], tmp_path, vocabulary)[1].notes == {}


# Files of rows.

ROWS: list[Any] = [
    pytest.param(
        {"instruction": "Hi", "input": "", "output": "Hello", "text": "…"}, PLAIN, id="Alpaca"
    ),
    pytest.param({"prompt": "Hi", "completion": "Hello", "id": 7}, PLAIN, id="prompt"),
    pytest.param({"system": "Be kind", "messages": HELLO}, WITH_SYSTEM, id="Chat with system"),
    pytest.param({"conversations": TURNS, "system_prompt": "Be kind"}, WITH_SYSTEM, id="ShareGPT"),
    pytest.param({"prompt": HI, "completion": HELLO[1:]}, PLAIN, id="lists"),
]


@each_row("line, wanted", ROWS)
@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_rows_of_a_file_are_lines(
    line: dict[str, Any], wanted: list[Any], ending: str, vocabulary: Path, tmp_path: Path
) -> None:
    path, out = tmp_path / f"in.{ending}", tmp_path / "out.jsonl"
    if ending == "json":
        path.write_text(json.dumps([line, line]))
    else:
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(
            arrow.Table.from_pylist([line] * 2), path
        )
    encode_files([path], out, DatasetOptions(tokenizer=vocabulary, jobs=1, overwrite=True))
    rows = [json.loads(text) for text in out.read_text().splitlines()]
    ids, mask = by_hand(wanted, vocabulary)
    assert rows == [{"input_ids": ids, "loss_mask": mask}] * 2


# A row of Parquet is read, refused and named as the same line of JSON is.
ROWS_LIKE_LINES: list[Any] = [
    {"messages": NUMBERS, "loss_mask": [0, 0, 0, 1]},
    {"messages": HELLO, "weight": 0},
    {"messages": HELLO, "label": 0},
    {"prompt": "Hi", "completion": "Hello", "label": 0},
    {"prompt": "Hi", "completion": "Hello", "label": 1},
    {"question": "Hi", "answer": "Hello", "reasoning": "Greet."},
    {"instruction": "Hi", "output": "Hello", "history": [["a", "b"]]},
    {"conversations": ["Hi", "Hello"]},
    {"messages": HELLO, "tools": ['{"type": "function", "function": {"name": "f"}}']},
    {"messages": HELLO, "model": "deepseek-v4.1", "developer": "S", "image_path": "x.png"},
    {"messages": HELLO, "chat_template_kwargs": {"enable_thinking": False}},
    {"messages": HELLO, "scores": [1.5], "id": 7, "is_good": True},
]


@each_row("line", [pytest.param(line, id=" ".join(line)) for line in ROWS_LIKE_LINES])
def test_a_row_of_parquet_is_the_line_of_json(
    line: dict[str, Any], vocabulary: Path, tmp_path: Path
) -> None:
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / "in.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist([line]), path)
    (tmp_path / "in.jsonl").write_text(json.dumps(line))
    found = []
    for source in (path, tmp_path / "in.jsonl"):
        options = DatasetOptions(tokenizer=vocabulary, jobs=1, overwrite=True)
        try:
            notes = sorted(encode_files([source], tmp_path / "out.jsonl", options).notes)
            found.append([*notes, (tmp_path / "out.jsonl").read_text()])
        except BadLine as error:
            found.append([str(error)])
    assert [text.replace("in.parquet", "in.jsonl") for text in found[0]] == found[1]


COLUMNS: list[Any] = [
    # The text of one column with all of a request: what the others say is not lost.
    (
        {"request": json.dumps({"messages": NUMBERS}), "loss_mask": [0, 0, 0, 0]},
        None,
        "^0 examples",
    ),
    ({"request": json.dumps({"messages": HELLO, "weights": 1}), "weights": 2}, None, "weights"),
    ({"request": json.dumps({"messages": HELLO, "n": 1}), "n": 2}, None, r"n \(column\)"),
    ({"talk": HELLO, "messages": "other"}, None, r"messages \(column\)"),
    ({"talk": HELLO, "system": "S", "note": "x"}, None, "note"),
    # With a column that was asked for, that and the tools.
    ({"messages": json.dumps(HELLO), "tools": "{bad"}, "messages", "tools: found"),
    ({"messages": HELLO, "tools": [{"name": "f"}]}, "messages", "tools is a struct"),
    ({"messages": HELLO, "tools": [{"name": "f"}]}, None, "tools is a struct"),
    ({"messages": HELLO, "response_format": {"type": "x"}}, None, "response_format is a struct"),
    ({"messages": HELLO, "metadata": {"tools": {"a": 1}}}, None, "metadata"),
    # What pandas writes for nothing.
    ({"messages": HELLO, "loss": float("nan")}, None, "^1 examples"),
    # Bytes are text.
    ({"prompt": b"Hi", "completion": b"\xff"}, None, "surrogate"),
]


@each_row("row, column, said", COLUMNS)
def test_no_column_of_parquet_is_lost(
    row: dict[str, Any], column: str | None, said: str, vocabulary: Path, tmp_path: Path
) -> None:
    arrow = pytest.importorskip("pyarrow")
    path, out = tmp_path / "in.parquet", tmp_path / "out.jsonl"
    pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist([row]), path)
    options = DatasetOptions(tokenizer=vocabulary, jobs=1, column=column, overwrite=True)
    try:
        summary = encode_files([path], out, options)
        found = f"{summary.examples} examples {summary.notes}"
    except DatasetError as error:
        found = str(error)
    assert re.search(said, found)


def test_pictures_beside_messages_in_parquet(vocabulary: Path, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    path, out = tmp_path / "in.parquet", tmp_path / "out.jsonl"
    table = arrow.Table.from_pylist([{"messages": HELLO, "image": {"bytes": b"x"}}])
    pytest.importorskip("pyarrow.parquet").write_table(table, path)
    options = DatasetOptions(tokenizer=vocabulary, jobs=1)
    with pytest.raises(DatasetError, match="column image: pictures are read where the messages"):
        encode_files([path], out, options)
    assert encode_files([path], out, replace(options, column="messages")).examples == 1


def test_labels_and_pairs_in_parquet(vocabulary: Path, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    for options, line in (
        ({"kto": True}, {"prompt": "Hi", "completion": "Hello", "label": False}),
        ({"preferences": True}, {"prompt": "Hi", "chosen": "Hello", "rejected": "No"}),
    ):
        parquet.write_table(arrow.Table.from_pylist([line]), path)
        for trainer in (None, "trl"):
            given = DatasetOptions(
                tokenizer=vocabulary, jobs=1, overwrite=True, trainer=trainer, **options
            )
            encode_files([path], out, given)
            (row,) = parquet.read_table(out).to_pylist()
            if trainer:
                assert set(row) == set(line)
                assert row["prompt"] == Q
            else:
                assert row["prompt_ids"] == by_hand([Q], vocabulary)[0]
            assert row.get("label") == line.get("label")


# Lines of every kind, with every field in which more than a text may stand.
ASKED, GIVEN = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLING = {"role": "assistant", "reasoning": "R", "tool_calls": [CALL], "trainable": 1}
FULL_LINES: list[dict[str, Any]] = [
    {
        "messages": [ASKED, CALLING, {"role": "tool", "tool_call_id": "1", "content": "x"}, GIVEN],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "loss_mask": [0, 1, 0, 1],
        "system": "Be kind",
    },
    {
        "messages": [ASKED, {"role": "assistant", "parts": ["Hello"], "masked": 0}],
        "functions": None,
        "chat_template_kwargs": {"thinking": True, "custom_instructions": ""},
        "conversation": [ASKED],
    },
    {
        "conversations": [
            {"from": "human", "value": "Hi"},
            {"from": "gpt", "value": "Hello", "tool_calls": [CALL]},
            {"from": "tool", "value": "x"},
            {"from": "function_call", "value": '{"name": "f", "arguments": {}}'},
            {"from": "observation", "value": "x"},
        ],
        "tools": "[]",
    },
    {"instruction": "Hi", "input": "", "output": "Hello", "history": [["One", "Eins"]]},
    {"prompt": [ASKED], "completion": [{**GIVEN, "thinking_blocks": [{"thinking": "R"}]}]},
    {"query": "Hi", "answer": "Hello", "solution": "Hello", "cot": "R", "context": ""},
    {"prompt": "Hi", "chosen": "Hello", "rejected": "No"},
    {"chosen": [ASKED, GIVEN], "rejected": [ASKED, {**GIVEN, "content": "No"}]},
    {
        "input": {"messages": [ASKED]},
        "preferred_output": [GIVEN],
        "non_preferred_output": [{**GIVEN, "content": "No"}],
    },
    {"messages": [ASKED, GIVEN], "rejected_response": "No", "kto_tag": True},
    {"prompt": "Hi", "completion": "Hello", "label": True},
    {
        "instructions": "Be kind",
        "input": [{"type": "message", "role": "user", "content": "Hi"}],
        "output": [{"type": "message", "role": "assistant", "content": [{"text": "Hello"}]}],
    },
    {
        "max_tokens": 9,
        "system": [{"type": "text", "text": "Be kind"}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "R"}]},
        ],
    },
]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"messages": [5, GIVEN], "loss_mask": [1, 1]}, r"messages\[0\]: found 5"),
        (
            {
                "input": {"messages": 5},
                "preferred_output": [GIVEN],
                "non_preferred_output": [GIVEN],
            },
            "input.messages: found 5, expected a list of messages",
        ),
        *(
            (
                {
                    "conversations": [
                        {"from": "human", "value": "Hi"},
                        {"from": "gpt", "value": "Hello", "tool_calls": calls},
                        {"from": "tool", "value": "x"},
                    ]
                },
                r"conversations\[2\]: found a result, expected a call before it",
            )
            for calls in ("ab", 5, [5], [{}], {"a": 1})
        ),
    ],
)
def test_what_is_no_message_is_refused_at_its_place(line: Any, problem: str) -> None:
    with pytest.raises(dsv4.Error, match=problem):
        line_conversations(line)[0].request.encode()


@pytest.mark.parametrize("read", [line_conversations, line_pair, line_with_label])
def test_a_changed_line_is_read_or_refused(read: Callable[[object], Iterable[object]]) -> None:
    dice, refused, count = random.Random(read.__name__), 0, fewer(6000, 20)
    for _ in range(count):
        line = changed(dice.choice(FULL_LINES), dice)
        try:
            for each in read(line):
                if isinstance(each, LineConversation):
                    each.request.encode()
        except dsv4.Error:
            refused += 1
    assert 0 < refused < count
