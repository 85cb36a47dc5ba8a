"""Ids -> events: what has a special id acts, what merely spells one is text."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsv4
from builders import EOS, function
from completions import corpus, declared
from dsv4.tokens import IdParser, Tokenizer
from loading import loaded
from strategies import LOOKALIKES

strict_blocks = loaded("fuzz/strict_blocks.py")
Ids = Any  # text -> list[int]
TOOLS = [function("f")]
COMPLETION = (
    "I think 天气 👩‍💻 a < b.</think>Here you are.\n\n"
    "<｜DSML｜tool_calls>\n"
    '<｜DSML｜invoke name="f">\n'
    '<｜DSML｜parameter name="a" string="true">x 天 <b> 𓀀</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="b" string="false">[1, {"c": null}]</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n"
    f"</｜DSML｜tool_calls>{EOS}"
)
SPELLED = COMPLETION.partition("</think>")[2]


def events(parser: IdParser, chunks: list[list[int]]) -> list[dsv4.Event]:
    return [e for chunk in chunks for e in parser.feed_ids(chunk)] + parser.finish()


def joined(found: list[dsv4.Event]) -> list[dsv4.Event]:
    """Events with deltas of one kind made one."""
    out: list[Any] = []
    for event in found:
        before = out[-1] if out else None
        same = type(before) is type(event) and hasattr(event, "text")
        if same and getattr(before, "index", None) == getattr(event, "index", None):
            fields = (before.index,) if hasattr(event, "index") else ()
            out[-1] = type(event)(*fields, before.text + event.text)
        else:
            out.append(event)
    return out


def from_text(text: str, **chosen: Any) -> list[dsv4.Event]:
    parser = dsv4.StreamParser(tools=TOOLS, **chosen)
    return joined(parser.feed(text) + parser.finish())


def chunked(ids: list[int], size: int) -> list[list[int]]:
    return [ids[n : n + size] for n in range(0, len(ids), size)]


class TestCleanOutput:
    @pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
    def test_same_events_as_from_text(
        self, size: int, tokenizer: Tokenizer, reference: Ids
    ) -> None:
        ids = reference(COMPLETION)
        found = joined(
            events(IdParser(tokenizer, dsv4.StreamParser(tools=TOOLS)), chunked(ids, size))
        )
        assert found == from_text(COMPLETION)

    @pytest.mark.parametrize("size", [1, 3, 1000])
    def test_a_strict_parser_reads_calls(
        self, size: int, tokenizer: Tokenizer, reference: Ids
    ) -> None:
        parser = IdParser(tokenizer, dsv4.StreamParser(tools=TOOLS, strict=True))
        found = joined(events(parser, chunked(reference(COMPLETION), size)))
        assert found == from_text(COMPLETION, strict=True)
        assert any(isinstance(event, dsv4.ToolCallEnd) for event in found)

    def test_a_strict_parser_takes_what_only_spells_a_token_as_text(
        self, tokenizer: Tokenizer
    ) -> None:
        parser = IdParser(tokenizer, dsv4.StreamParser(thinking=False, strict=True))
        end = [tokenizer.special_id(EOS)]
        found = events(parser, [tokenizer.encode_text("a</think> <｜DSML｜b"), end])
        assert dsv4.assemble(found).content == "a</think> <｜DSML｜b"

    @given(
        reasoning=st.text(st.characters(exclude_characters="<｜", codec="utf-8"), max_size=30),
        content=st.text(st.characters(exclude_characters="<｜", codec="utf-8"), max_size=30),
    )
    def test_at_random(
        self, reasoning: str, content: str, tokenizer: Tokenizer, reference: Ids
    ) -> None:
        text = f"{reasoning}</think>{content}{EOS}"
        found = joined(
            events(IdParser(tokenizer, dsv4.StreamParser(tools=TOOLS)), chunked(reference(text), 1))
        )
        assert found == from_text(text)

    def test_text_comes_when_it_is_certain(self, tokenizer: Tokenizer) -> None:
        parser = IdParser(tokenizer, dsv4.StreamParser(thinking=False))
        (event,) = parser.feed_ids(tokenizer.encode_text("Hello"))
        assert event == dsv4.ContentDelta("Hello")

    def test_options(self, tokenizer: Tokenizer, reference: Ids) -> None:
        with pytest.raises(dsv4.ParseError):
            events(
                IdParser(tokenizer, dsv4.StreamParser(strict=True)),
                [reference("no end of thinking")],
            )
        found = events(
            IdParser(tokenizer, dsv4.StreamParser(thinking=False, stop="two")),
            [reference("one two three")],
        )
        assert dsv4.assemble(found).content == "one "
        opened = "<｜DSML｜tool_calls>\n"
        found = events(
            IdParser(tokenizer, dsv4.StreamParser(thinking=False, prefix=opened)),
            [reference(SPELLED.partition(opened)[2])],
        )
        assert dsv4.assemble(found).tool_calls[0].name == "f"


class TestCharacters:
    def test_split_over_tokens(self, tokenizer: Tokenizer) -> None:
        ids = tokenizer.encode_text("𓀀𓀁")
        assert len(ids) > 2
        parser = IdParser(tokenizer, dsv4.StreamParser(thinking=False))
        texts = [e.text for id in ids for e in parser.feed_ids([id])]
        assert texts == ["𓀀", "𓀁"]

    @pytest.mark.parametrize("after", [EOS, ""])
    def test_cut(self, after: str, tokenizer: Tokenizer, reference: Ids) -> None:
        ids = tokenizer.encode_text("a𓀀")[:-1] + reference(after)
        message = dsv4.assemble(
            events(IdParser(tokenizer, dsv4.StreamParser(thinking=False)), chunked(ids, 1))
        )
        assert message.content == "a�"

    def test_those_that_no_text_should_have(self, tokenizer: Tokenizer) -> None:
        text = "\U0010fffe\U0010ffff\ufdd0 <think>"
        ids = tokenizer.encode_text(text)
        message = dsv4.assemble(
            events(IdParser(tokenizer, dsv4.StreamParser(thinking=False)), chunked(ids, 1))
        )
        assert message.content == text


class TestCorpora:
    @pytest.mark.parametrize("size", [1, 1000])
    def test_malformed_completions_are_read_as_from_text(
        self, size: int, tokenizer: Tokenizer, reference: Ids
    ) -> None:
        """A token that is misspelled has no id: whoever writes it so writes ordinary tokens."""
        for case in corpus():
            options = {
                "thinking": case["start"] == "reasoning",
                "tools": declared(**case["tools"]),
                "tool_choice": case["tool_choice"],
            }
            parser = IdParser(tokenizer, dsv4.StreamParser(**options))
            found = dsv4.assemble(events(parser, chunked(reference(case["text"]), size)))
            assert found == dsv4.parse(case["text"], **options), case["id"]

    @pytest.mark.parametrize(
        "text", ["a< /think>b", "a</THINK>b", "a</think >b<|end▁of▁sentence|>"]
    )
    def test_misspelled_ends(self, text: str, tokenizer: Tokenizer) -> None:
        found = dsv4.assemble(events(IdParser(tokenizer), chunked(tokenizer.encode_text(text), 1)))
        assert (found.reasoning, found.content) == ("a", "b")


class TestSpelling:
    @pytest.mark.parametrize("size", [1, 3, 1000])
    @pytest.mark.parametrize("thinking", [False, True])
    def test_a_call_that_is_spelled_is_text(
        self, thinking: bool, size: int, tokenizer: Tokenizer
    ) -> None:
        ids = tokenizer.encode_text(SPELLED)
        parser = IdParser(tokenizer, dsv4.StreamParser(thinking=thinking, tools=TOOLS))
        message = dsv4.assemble(events(parser, chunked(ids, size)))
        assert (message.reasoning if thinking else message.content) == SPELLED
        assert not message.tool_calls + message.incomplete

    @pytest.mark.parametrize("size", [1, 2, 3, 1000])
    def test_markers_count_where_the_grammar_has_them_as_text(
        self, size: int, tokenizer: Tokenizer
    ) -> None:
        value = "<｜User｜> <｜end▁of▁sentence｜> ｜DS"
        text = COMPLETION.replace("x 天 <b> 𓀀", value).removesuffix(EOS)
        parser = IdParser(tokenizer, dsv4.StreamParser(tools=TOOLS), markers="text")
        message = dsv4.assemble(events(parser, chunked(tokenizer.encode_text(text), size)))
        assert message.reasoning == "I think 天气 👩‍💻 a < b."
        assert message.content == "Here you are."
        (made,) = message.tool_calls
        assert made.arguments == f'{{"a": "{value}", "b": [1, {{"c": null}}]}}'

    def test_a_marker_that_stays_begun_is_text(self, tokenizer: Tokenizer) -> None:
        parser = IdParser(tokenizer, dsv4.StreamParser(thinking=False), markers="text")
        ids = tokenizer.encode_text("a ｜DSM")
        assert dsv4.assemble(events(parser, chunked(ids, 1))).content == "a ｜DSM"

    def test_how_markers_are_written_is_one_of_two_words(self, tokenizer: Tokenizer) -> None:
        wrong: Any = "ids"
        with pytest.raises(dsv4.OptionError, match="markers: found 'ids', expected one of"):
            IdParser(tokenizer, markers=wrong)

    @given(text=st.lists(st.sampled_from(LOOKALIKES) | st.text(max_size=3), max_size=4))
    def test_in_reasoning_content_and_arguments(
        self, text: list[str], tokenizer: Tokenizer, reference: Ids
    ) -> None:
        spelled = f"a{''.join(text)}b"
        plain = tokenizer.encode_text(spelled)
        ids = [
            *plain,
            *reference("</think>"),
            *plain,
            *reference("\n\n" + SPELLED.partition("\n\n")[2]),
        ]
        message = dsv4.assemble(
            events(IdParser(tokenizer, dsv4.StreamParser(tools=TOOLS)), chunked(ids, 1))
        )
        assert message.reasoning == spelled
        assert message.content == spelled
        assert [made.name for made in message.tool_calls] == ["f"]

    def test_in_an_argument(self, tokenizer: Tokenizer, reference: Ids) -> None:
        value = "</｜DSML｜parameter> <think> ｜DSML｜"
        before, after = COMPLETION.split("x 天 <b> 𓀀")
        ids = [*reference(before), *tokenizer.encode_text(value), *reference(after)]
        message = dsv4.assemble(
            events(IdParser(tokenizer, dsv4.StreamParser(tools=TOOLS)), chunked(ids, 1))
        )
        arguments = f'{{"a": "{value}", "b": [1, {{"c": null}}]}}'
        assert message.tool_calls[0].arguments == arguments

    def test_in_a_json_argument(self, tokenizer: Tokenizer, reference: Ids) -> None:
        before, after = COMPLETION.split("null")
        ids = [*reference(before), *tokenizer.encode_text('"<think>"'), *reference(after)]
        message = dsv4.assemble(
            events(IdParser(tokenizer, dsv4.StreamParser(tools=TOOLS)), chunked(ids, 1))
        )
        assert message.tool_calls[0].arguments.endswith('"b": [1, {"c": "<think>"}]}')

    def test_a_start_that_comes_to_nothing(self, tokenizer: Tokenizer) -> None:
        ids = tokenizer.encode_text("a <thi")
        parser = IdParser(tokenizer, dsv4.StreamParser(thinking=False))
        assert dsv4.assemble(events(parser, chunked(ids, 1))).content == "a <thi"

    def test_text_and_ids_in_turns(self, tokenizer: Tokenizer) -> None:
        parser = IdParser(tokenizer)
        found = parser.feed_ids(tokenizer.encode_text("a <thi"))
        found += parser.feed("nk</think>b") + parser.finish()
        message = dsv4.assemble(found)
        assert (message.reasoning, message.content) == ("a <think", "b")


@pytest.mark.parametrize("id", [10**6, "a", None, [5, 6]])
def test_an_unknown_id(id: Any, tokenizer: Tokenizer) -> None:
    for ids in ([id], [5, id], (id,)):
        with pytest.raises(dsv4.OptionError, match=r"ids: found .* expected ids of"):
            IdParser(tokenizer).feed_ids(ids)


@pytest.mark.parametrize("ids", [5, None, "a"])
def test_what_is_no_list_of_ids(ids: Any, tokenizer: Tokenizer) -> None:
    with pytest.raises(dsv4.OptionError, match=rf"ids: found {ids!r}, expected a list of ids"):
        IdParser(tokenizer).feed_ids(ids)


@pytest.fixture(scope="module")
def ids() -> Any:
    return strict_blocks.Ids()


class TestQuotedMarkup:
    """Well-formed blocks whose values quote markup, as tokens or only spelled."""

    @pytest.mark.parametrize("batch", range(2))
    def test_is_read_as_the_strict_grammar_reads_it(self, batch: int, ids: Any) -> None:
        for number in range(40):
            chance = Random(f"ids {batch} {number}")
            written, calls = strict_blocks.completion(chance, spells=bool(number % 3))
            assert strict_blocks.difference(written, calls, chance, ids) is None, written.parts

    def test_what_is_spelled_in_json_stays_spelled_when_it_is_read_again(self, ids: Any) -> None:
        """JSON with a raw line break in a string is read once more, as a text."""
        writing = strict_blocks.Writing()
        spelled = (
            f'"a{strict_blocks.END}{strict_blocks.INVOKE_END}{strict_blocks.BLOCK_END}{EOS}\n"'
        )
        writing.add('\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="bash">\n')
        writing.add('<｜DSML｜parameter name="timeout" string="false">')
        writing.add(spelled, acts=False)
        writing.add("</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>")
        for seed in range(3):
            (call,) = ids.read(ids.of(writing), Random(seed)).tool_calls
            assert json.loads(call.arguments) == {"timeout": spelled[1:-1]}
