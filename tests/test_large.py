"""A million of anything: `make test-large`.

Small inputs cannot show a function whose time grows with the square of its input, a recursion that
ends at the thousandth level, or a cache that never forgets. Nothing here is timed: what is not
linear does not come to an end.
"""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

import dsv4
import encoding_dsv4
from dsv4._view.terminal_lines import terminal_lines
from dsv4._view.view_rows import view_of
from dsv4.tokens.tokenizer import fit

pytestmark = pytest.mark.large

MILLION = 1_000_000
BLOCK, BLOCK_END = "<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"
INVOKE, INVOKE_END = '<｜DSML｜invoke name="write">', "</｜DSML｜invoke>"
TEXT, TEXT_END = '<｜DSML｜parameter name="text" string="true">', "</｜DSML｜parameter>"
VALUE = '<｜DSML｜parameter name="value" string="false">'
CALL = f"{INVOKE}{TEXT}Hi{TEXT_END}{INVOKE_END}"
TOOLS = [
    {
        "name": "write",
        "parameters": {"properties": {"text": {"type": "string"}, "value": {}}},
    }
]


class TestEncoding:
    def test_messages(self) -> None:
        messages: list[Any] = [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello", "reasoning_content": "Hm"},
        ] * (MILLION // 4)
        text = str(dsv4.encode(messages))
        assert text == encoding_dsv4.encode_messages(messages, "thinking")
        assert text.count("<｜User｜>Hi<｜Assistant｜>") == MILLION // 4
        assert text.count("Hm") == 1

    def test_a_text(self) -> None:
        content = "<｜User｜>" * (10 * MILLION)
        prompt = dsv4.encode([{"role": "user", "content": content}])
        assert content in str(prompt)
        assert len(prompt.pieces) == 5

    def test_results_that_come_in_the_wrong_order(self) -> None:
        numbers = range(MILLION // 10)
        calls = [{"id": str(n), "function": {"name": "f", "arguments": "{}"}} for n in numbers]
        results = [{"role": "tool", "tool_call_id": str(n), "content": f"<{n}>"} for n in numbers]
        prompt = str(dsv4.encode([{"role": "assistant", "tool_calls": calls}, *reversed(results)]))
        places = [prompt.index(f"<{n}>") for n in numbers[::1000]]
        assert places == sorted(places)

    def test_arguments_in_depth(self) -> None:
        deep = "[" * MILLION + "]" * MILLION
        call = {"function": {"name": "f", "arguments": json.dumps({"deep": 1})[:-2] + deep + "}"}}
        assert deep in str(dsv4.encode([{"role": "assistant", "tool_calls": [call]}]))

    def test_what_is_remembered_is_bounded(self) -> None:
        """Ten thousand conversations that share nothing leave less than they were."""
        tracemalloc.start()
        try:
            for n in range(10_000):
                arguments = json.dumps({"code": f"{n} " * 2000})
                call = {"function": {"name": "f", "arguments": arguments}}
                tools = [{"name": f"f{n}", "description": "x" * 10_000}]
                dsv4.encode([{"role": "assistant", "tool_calls": [call]}], tools=tools)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert held < 200 * MILLION


def in_chunks(text: str, size: int, **options: Any) -> dsv4.Message:
    parser = dsv4.StreamParser(**options)
    events = []
    for start in range(0, len(text), size):
        events += parser.feed(text[start : start + size])
    return dsv4.assemble(events + parser.finish())


class TestFitting:
    def test_results_of_one_call(self) -> None:
        results = [{"role": "tool", "tool_call_id": "a", "content": "r"}] * (MILLION // 4)
        calls = [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]
        old = [{"role": "user", "content": "old"}, {"role": "assistant", "content": "answer"}]
        messages = [*old, *old[:1], {"role": "assistant", "tool_calls": calls}, *results]
        request = dsv4.Request(messages)
        whole = len(request.encode())
        assert fit(len, request, whole - 1).removed == [0, 1]


class TestView:
    def test_a_word_that_fills_many_lines(self) -> None:
        view = view_of(dsv4.encode([{"role": "user", "content": "é" * MILLION}]))
        assert sum(1 for _ in terminal_lines(view, 80, unfold=True, signs=False)) > MILLION // 80

    def test_many_messages(self) -> None:
        messages = [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello", "reasoning_content": "Hm"},
        ] * (MILLION // 20)
        rows = view_of(dsv4.encode(messages), messages).rows
        assert sum(row.ghost is not None for row in rows) == MILLION // 20 - 1


class TestParsing:
    @pytest.mark.parametrize("thinking", [True, False])
    @pytest.mark.parametrize("start", ["", f"{BLOCK}{INVOKE}{TEXT}", f"{BLOCK}{INVOKE}{VALUE}"])
    @pytest.mark.parametrize(
        "piece",
        [
            *(
                "word ",
                "<",
                "< ",
                "`",
                "```\n",
                "\n",
                " ",
                "<｜",
                "<｜DSML｜",
                "</think>",
                "<think>",
            ),
            *(BLOCK, BLOCK_END, INVOKE, INVOKE_END, TEXT, TEXT_END, CALL, f"{BLOCK}{CALL}"),
            *("<tool ", '<invoke name="write">', '{"a": ', "[", '"', "\\", "<｜end▁of▁sentence｜>"),
        ],
    )
    def test_any_piece(self, thinking: bool, start: str, piece: str) -> None:
        text = start + piece * (MILLION // 4 // len(piece))
        options = {"thinking": thinking, "tools": TOOLS}
        message = dsv4.parse(text, **options)
        assert message == in_chunks(text, 997, **options)
        for call in (*message.tool_calls, *message.incomplete):
            assert isinstance(json.loads(call.arguments), dict)

    def test_one_character_at_a_time(self) -> None:
        prose, value = "word < " * 50_000, "line\n" * 50_000
        text = f"{prose}\n\n{BLOCK}{INVOKE}{TEXT}{value}{TEXT_END}{INVOKE_END}{BLOCK_END}"
        options = {"thinking": False, "tools": TOOLS}
        message = in_chunks(text, 1, **options)
        assert message == dsv4.parse(text, **options)
        assert json.loads(message.tool_calls[0].arguments) == {"text": value}

    def test_a_tag_that_never_ends(self) -> None:
        text = "<tool" + " " * MILLION
        assert in_chunks(text, 1, thinking=False, tools=TOOLS).content == text

    def test_a_long_argument(self) -> None:
        value = "naïve <code> & </code>\n" * (MILLION // 2)
        text = f"{BLOCK}\n{INVOKE}\n{TEXT}{value}{TEXT_END}\n{INVOKE_END}\n{BLOCK_END}"
        message = in_chunks(text, 65_536, thinking=False, tools=TOOLS)
        assert json.loads(message.tool_calls[0].arguments) == {"text": value}

    def test_strictly(self) -> None:
        value = "<" * MILLION
        text = f"\n\n{BLOCK}\n{INVOKE}\n{TEXT}{value}{TEXT_END}\n{INVOKE_END}\n{BLOCK_END}"
        message = dsv4.parse(text, thinking=False, strict=True)
        assert json.loads(message.tool_calls[0].arguments) == {"text": value}
