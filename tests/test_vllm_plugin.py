"""The plugin for vLLM: what its two parsers read together is what `dsv4.parse` reads.

These run with vLLM's own classes where it is installed, else with a stand-in for them.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import dsv4
from completions import TOOLS, block, calling, corpus, cuts, declared
from loading import loaded
from rows import each_row
from vllm_stand_in import vllm_or_its_stand_in

THINK, END_THINK = "<think>", "</think>"
IDS = {THINK: 1, END_THINK: 2}
OTHER_ID = 9
LS = block(calling("bash", command="ls"))
EXAMPLE = f"A call looks so:\n\n```\n{LS.strip()}\n```\nNow the answer.{END_THINK}Done."


class Read(NamedTuple):
    reasoning: str
    content: str
    calls: list[tuple[str, str]]


class Asked(NamedTuple):
    """A request, as far as it matters to parsers."""

    thinking: bool = True
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | None = None
    parsers: tuple[str | None, str | None] = ("dsv4", "dsv4")


@pytest.fixture(scope="module")
def vllm() -> Iterator[Any]:
    with vllm_or_its_stand_in() as found:
        yield found


def new_parser(vllm: Any, asked: Asked) -> tuple[Any, Any]:
    reasoning, tools = asked.parsers
    compose = vllm.get_parser(
        reasoning_parser_name=reasoning, tool_parser_name=tools, enable_auto_tools=True
    )
    request = vllm.new_request(
        model="m",
        messages=[{"role": "user", "content": "Hi"}],
        tools=asked.tools or None,
        tool_choice=asked.tool_choice if asked.tools else None,
    )
    tokenizer = SimpleNamespace(get_vocab=lambda: IDS)
    options = {"thinking": asked.thinking}
    return compose(tokenizer, request.tools, chat_template_kwargs=options), request


def read_whole(vllm: Any, text: str, asked: Asked) -> Read:
    parser, request = new_parser(vllm, asked)
    reasoning, content, calls = parser.parse(text, request, enable_auto_tools=True)
    return Read(reasoning or "", content or "", [(c.name, c.arguments) for c in calls or ()])


def read_streamed(vllm: Any, pieces: list[tuple[str, list[int]]], asked: Asked) -> Read:
    parser, request = new_parser(vllm, asked)
    prompt = [IDS[THINK if asked.thinking else END_THINK]]
    reasoning, content, calls = "", "", []
    for left, (text, ids) in zip(range(len(pieces), 0, -1), pieces, strict=True):
        delta = parser.parse_delta(text, ids, request, prompt_token_ids=prompt, finished=left == 1)
        if delta is None:
            continue
        reasoning += delta.reasoning or ""
        content += delta.content or ""
        for call in delta.tool_calls:
            assert call.index == len(calls)
            calls.append((call.function.name, call.function.arguments))
    return Read(reasoning, content, calls)


def with_ids(chunks: list[str]) -> list[tuple[str, list[int]]]:
    """Chunks with ids, as far as parsers look at those."""
    return [(chunk, [IDS[END_THINK] if END_THINK in chunk else OTHER_ID]) for chunk in chunks]


def read_everywhere(vllm: Any, text: str, asked: Asked) -> Read:
    """What is read of a text, which is the same whole and streamed, wherever it is cut."""
    whole = read_whole(vllm, text, asked)
    for chunks in cuts(text):
        assert read_streamed(vllm, with_ids(chunks or [""]), asked) == whole, chunks
    return whole


def parsed(text: str, asked: Asked) -> Read:
    message = dsv4.parse(
        text,
        thinking=asked.thinking,
        tools=asked.tools or [],
        tool_choice=asked.tool_choice or "auto",
    )
    calls = [(call.name, call.arguments) for call in message.tool_calls]
    return Read(message.reasoning, message.content, calls)


def without_blank_content(read: Read) -> Read:
    """vLLM itself drops content of white space beside calls, in whole answers."""
    return read._replace(content="") if read.calls and not read.content.strip() else read


def asked_in(case: dict[str, Any]) -> Asked:
    return Asked(case["start"] == "reasoning", declared(**case["tools"]), case["tool_choice"])


every_case = each_row("case", [pytest.param(case, id=case["id"]) for case in corpus()])


class TestCorpus:
    @every_case
    def test_a_whole_answer_is_the_message_that_parse_gives(
        self, vllm: Any, case: dict[str, Any]
    ) -> None:
        asked = asked_in(case)
        expected = without_blank_content(parsed(case["text"], asked))
        assert read_whole(vllm, case["text"], asked) == expected

    @every_case
    def test_a_streamed_answer_is_the_message_that_parse_gives(
        self, vllm: Any, case: dict[str, Any]
    ) -> None:
        asked = asked_in(case)
        expected = parsed(case["text"], asked)
        for chunks in cuts(case["text"]):
            assert read_streamed(vllm, with_ids(chunks), asked) == expected, chunks

    @every_case
    def test_so_is_one_that_comes_token_by_token(
        self, vllm: Any, case: dict[str, Any], tokenizer: Any, reference: Any
    ) -> None:
        asked = asked_in(case)
        pieces = token_deltas(tokenizer, reference(case["text"]))
        assert read_streamed(vllm, pieces, asked) == parsed(case["text"], asked)


def token_deltas(tokenizer: Any, ids: list[int]) -> list[tuple[str, list[int]]]:
    """Each id with the text it completes: none in the middle of a character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return [(decoder.decode(tokenizer.bytes_of(id)), [id]) for id in ids]


class TestReasoning:
    def test_an_example_in_a_fence_is_not_run(self, vllm: Any) -> None:
        asked = Asked(tools=TOOLS)
        read = read_everywhere(vllm, EXAMPLE, asked)
        assert read == parsed(EXAMPLE, asked)
        assert read.calls == []
        assert read.content == "Done."

    def test_a_call_in_the_middle_of_a_line_is_made(self, vllm: Any) -> None:
        text = f"Let me look. {LS.strip()}"
        read = read_everywhere(vllm, text, Asked(tools=TOOLS))
        assert read == ("Let me look. ", "", [("bash", '{"command": "ls"}')])

    def test_reasoning_goes_on_after_a_call(self, vllm: Any) -> None:
        text = f"Look.{LS}\nGood.{END_THINK}Done."
        read = read_everywhere(vllm, text, Asked(tools=TOOLS))
        assert read == ("Look.\nGood.", "Done.", [("bash", '{"command": "ls"}')])

    def test_later_spans_of_it_are_not_lost(self, vllm: Any) -> None:
        text = f"First.{END_THINK}Well, {THINK}then{END_THINK}done."
        read = read_everywhere(vllm, text, Asked())
        assert read == ("First.\nthen", "Well, done.", [])

    def test_reasoning_that_is_off_may_come_all_the_same(self, vllm: Any) -> None:
        text = f"{THINK}Hm.{END_THINK}Done.{LS}"
        read = read_everywhere(vllm, text, Asked(thinking=False, tools=TOOLS))
        assert read == ("Hm.", "Done.", [("bash", '{"command": "ls"}')])

    def test_stray_ends_of_it_are_not_shown(self, vllm: Any) -> None:
        text = f"Hm.{END_THINK}Done.{END_THINK} Really."
        assert read_everywhere(vllm, text, Asked()) == ("Hm.", "Done. Really.", [])

    def test_a_prompt_that_leaves_the_model_thinking_counts_more_than_options(
        self, vllm: Any
    ) -> None:
        parser, request = new_parser(vllm, Asked(thinking=False))
        delta = parser.parse_delta(
            "Hm.", [OTHER_ID], request, prompt_token_ids=[IDS[THINK]], finished=True
        )
        assert (delta.reasoning, delta.content) == ("Hm.", None)


@pytest.mark.parametrize("parsers", [("dsv4", None), (None, "dsv4"), ("dsv4", "dsv4")])
def test_special_tokens_that_the_model_names_are_not_taken_out(
    vllm: Any, parsers: tuple[str | None, str | None]
) -> None:
    parser, request = new_parser(vllm, Asked(parsers=parsers))
    assert request.skip_special_tokens
    assert not parser.adjust_request(request).skip_special_tokens


class TestCalls:
    def test_with_tool_choice_none_no_call_is_made(self, vllm: Any) -> None:
        asked = Asked(tools=TOOLS, tool_choice="none")
        assert read_everywhere(vllm, f"Hm.{END_THINK}Done.{LS}", asked) == ("Hm.", "Done.", [])

    def test_without_tools_a_block_is_text(self, vllm: Any) -> None:
        text = f"Hm.{END_THINK}Done.{LS}"
        assert read_everywhere(vllm, text, Asked()) == ("Hm.", f"Done.{LS}", [])

    def test_one_that_is_cut_short_is_not_sent(self, vllm: Any) -> None:
        text = f"Hm.{END_THINK}Done.{LS}".partition("ls<")[0]
        assert read_everywhere(vllm, text, Asked(tools=TOOLS)) == ("Hm.", "Done.", [])

    def test_one_that_is_given_up_leaves_no_gap(self, vllm: Any) -> None:
        nameless = calling("bash", command="ls").replace(' name="command"', "")
        text = f"Hm.{END_THINK}{block(nameless, calling('read', path='a'))}"
        asked = Asked(tools=TOOLS)
        assert read_everywhere(vllm, text, asked).calls == [("read", '{"path": "a"}')]

    def test_a_parameter_that_comes_twice_is_sent_once(self, vllm: Any) -> None:
        twice = calling("bash", command="ls")
        first = twice.partition("\n")[2].partition("\n")[0]
        twice = twice.replace(first, f"{first.replace('ls', 'pwd')}\n{first}")
        text = f"Hm.{END_THINK}{block(twice)}"
        asked = Asked(tools=TOOLS)
        assert read_everywhere(vllm, text, asked).calls == [("bash", '{"command": "ls"}')]

    def test_v4_1_has_namespaces(self, vllm: Any) -> None:
        text = f"Hm.{END_THINK}{block(calling('git::log'))}"
        tools = declared(**{"git::log": {}})
        asked = Asked(tools=tools, parsers=("dsv4", "dsv4-v4.1"))
        assert read_everywhere(vllm, text, asked).calls == [("git::log", "{}")]

    def test_vllm_is_told_of_those_that_were_sent(self, vllm: Any) -> None:
        tokenizer = SimpleNamespace(get_vocab=lambda: IDS)
        parser = vllm.plugin.Dsv4ToolParser(tokenizer)
        _, request = new_parser(vllm, Asked(tools=TOOLS))
        parser.extract_tool_calls_streaming("", LS, LS, [], [], [], request)
        parser.finish_streaming()
        assert parser.prev_tool_call_arr == [{"name": "bash", "arguments": '{"command": "ls"}'}]
        assert parser.get_remaining_unstreamed_args() == ""


class TestOneParserWithoutTheOther:
    def test_a_reasoning_parser_passes_on_what_follows_as_it_stands(self, vllm: Any) -> None:
        asked = Asked(tools=TOOLS, parsers=("dsv4", None))
        rest = f"Done.{LS}{THINK}?{END_THINK}"
        assert read_everywhere(vllm, f"Hm.{END_THINK}{rest}", asked) == ("Hm.", rest, [])

    def test_it_reads_fences_too(self, vllm: Any) -> None:
        asked = Asked(tools=TOOLS, parsers=("dsv4", None))
        read = read_everywhere(vllm, EXAMPLE, asked)
        assert read == (EXAMPLE.partition(END_THINK)[0], "Done.", [])

    @pytest.mark.parametrize("text", ["", "Hm.", "2 <", f"Hm.{END_THINK}", f"Hm.{END_THINK}\n"])
    def test_it_keeps_what_comes_at_the_end(self, vllm: Any, text: str) -> None:
        asked = Asked(parsers=("dsv4", None))
        assert read_everywhere(vllm, text, asked) == parsed(text, asked)

    def test_a_tool_parser_reads_content(self, vllm: Any) -> None:
        asked = Asked(thinking=False, tools=TOOLS, parsers=(None, "dsv4"))
        read = read_everywhere(vllm, f"Done.{LS}", asked)
        assert read == ("", "Done.", [("bash", '{"command": "ls"}')])

    def test_parsers_of_different_tokenizers_are_strangers(self, vllm: Any) -> None:
        one, other = (SimpleNamespace(get_vocab=lambda: IDS) for _ in range(2))
        reasoning = vllm.plugin.Dsv4ReasoningParser(one)
        vllm.plugin.Dsv4ToolParser(other)
        _, request = new_parser(vllm, Asked(tools=TOOLS))
        assert reasoning.extract_reasoning(f"Hm.{END_THINK}{LS}", request) == ("Hm.", LS)

    def test_a_tool_parser_joins_one_reasoning_parser(self, vllm: Any) -> None:
        tokenizer = SimpleNamespace(get_vocab=lambda: IDS)
        _, request = new_parser(vllm, Asked(tools=TOOLS))
        reasoning = vllm.plugin.Dsv4ReasoningParser(tokenizer)
        first, second = (vllm.plugin.Dsv4ToolParser(tokenizer) for _ in range(2))
        _, content = reasoning.extract_reasoning(f"Hm.{END_THINK}Done.{LS}", request)
        assert second.extract_tool_calls(content, request).tool_calls == []
        assert len(first.extract_tool_calls(content, request).tool_calls) == 1

    def test_a_text_that_the_reasoning_parser_did_not_read_is_read(self, vllm: Any) -> None:
        tokenizer = SimpleNamespace(get_vocab=lambda: IDS)
        _, request = new_parser(vllm, Asked(tools=TOOLS))
        reasoning = vllm.plugin.Dsv4ReasoningParser(tokenizer)
        tools = vllm.plugin.Dsv4ToolParser(tokenizer)
        reasoning.extract_reasoning(f"Hm.{END_THINK}Done.", request)
        assert len(tools.extract_tool_calls(LS, request).tool_calls) == 1


class TestIds:
    """What vLLM asks by ids, of prompts and for grammars."""

    @pytest.mark.parametrize(
        ("ids", "ended"), [([], False), ([1], False), ([1, 9, 2, 9], True), ([2, 9, 1, 9], False)]
    )
    def test_reasoning_has_ended_by_the_last_token(
        self, vllm: Any, ids: list[int], ended: bool
    ) -> None:
        parser = vllm.plugin.Dsv4ReasoningParser(SimpleNamespace(get_vocab=lambda: IDS))
        assert parser.is_reasoning_end(ids) is ended

    def test_content_ids(self, vllm: Any) -> None:
        parser = vllm.plugin.Dsv4ReasoningParser(SimpleNamespace(get_vocab=lambda: IDS))
        assert parser.extract_content_ids([9, 2, 8, 7]) == [8, 7]
        assert parser.extract_content_ids([9, 8]) == []


def test_the_example_that_drives_the_plugin(vllm: Any, capsys: pytest.CaptureFixture[str]) -> None:
    loaded("examples/servers/try_vllm_plugin.py").main()
    assert "3 completions of v4 and v4.1 read" in capsys.readouterr().out
