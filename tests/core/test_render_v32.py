"""V3.2's layout: turns stand by themselves, and results in a block of their own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsv4
import encoding_dsv32
from builders import *
from dsv4 import V3_2_SERVED, EncodeError
from strategies import json_objects, texts

ASKING = "<｜Assistant｜><think>"
ANSWERING = "<｜Assistant｜></think>"
ROUND = (user(), calling(call("f", id="a"), call("g", id="b"), reasoning="hm"))
THOUGHT = assistant(reasoning="hm")


def encode(*messages: Any, **options: Any) -> str:
    return str(dsv4.encode(list(messages), dialect="v3.2", **options)).removeprefix(BOS)


def error_of(*messages: Any, **options: Any) -> str:
    with pytest.raises((EncodeError, dsv4.OptionError)) as caught:
        encode(*messages, **options)
    return str(caught.value)


class TestTurns:
    def test_every_user_turn_brings_a_header(self) -> None:
        assert encode(user("a"), user("b")) == (f"<｜User｜>a{ANSWERING}<｜User｜>b{ASKING}")
        assert encode(user("a"), system("s")) == f"<｜User｜>a{ASKING}s"

    def test_old_reasoning_is_never_written(self) -> None:
        for options in ({}, {"drop_thinking": False}, {"tools": [function()]}):
            assert "hm" not in encode(user(), THOUGHT, user("2"), **options)
        assert encode(user(), THOUGHT) == f"<｜User｜>Hi{ASKING}hm</think>Hello{EOS}"

    def test_an_answer_needs_reasoning_or_calls(self) -> None:
        assert error_of(user(), assistant()) == (
            "messages[1].reasoning_content: found neither reasoning nor calls, "
            "expected one after the last user turn"
        )
        assert encode(user(), assistant(), thinking=False).endswith(f"Hello{EOS}")
        assert encode(user(), assistant(), user()).endswith(f"Hello{EOS}<｜User｜>Hi{ASKING}")

    def test_developer(self) -> None:
        prompt = encode(developer("find", response_format={"a": 1}), thinking=False)
        assert prompt.startswith("<｜User｜>\n\n## Response Format:")
        assert prompt.endswith(f'{{"a": 1}}\n\n# The user\'s message is: find{ANSWERING}')
        assert error_of(developer("")).startswith("messages[0].content: found nothing")

    def test_what_vanishes_is_left_out_and_counted_anew(self) -> None:
        messages = [developer(), THOUGHT, user("2"), THOUGHT]
        assert encode(*messages) == (f"Hello{EOS}<｜User｜>2{ASKING}hm</think>Hello{EOS}")
        with pytest.raises(EncodeError, match="counts wrongly"):
            encoding_dsv32.encode_messages(messages, "thinking")

    @pytest.mark.parametrize("message", [reminder(), {"role": "wizard", "content": "x"}])
    def test_other_roles(self, message: Any) -> None:
        assert error_of(message, user()).startswith("messages[0].role: found")

    def test_there_is_no_effort(self) -> None:
        assert error_of(user(), effort="high") == "effort: found 'high', expected None (v3.2)"

    def test_tools_must_be_right_wherever_they_stand(self) -> None:
        assert error_of(user(tools=["f"])).startswith("messages[0].tools[0]: found 'f'")
        assert encode(user(tools=[openai_tool()])) == f"<｜User｜>Hi{ASKING}"

    def test_the_requests_tools(self) -> None:
        prompt = encode(user(), tools=[openai_tool()])
        assert prompt.startswith("\n\n## Tools\n\nYou have access")
        assert '<functions>\n{"name": "weather"}\n</functions>\n<｜User｜>' in prompt
        assert "<｜DSML｜function_calls>" in prompt

    def test_the_tools_text_that_servers_send(self) -> None:
        served = str(dsv4.encode([user()], tools=[openai_tool()], dialect=V3_2_SERVED))
        section = served.split("## Tools")[1]
        assert "\n\n" not in section
        released = encode(user(), tools=[openai_tool()]).split("## Tools")[1]
        assert released.replace("\n\n", "\n") == section.removeprefix(BOS)


class TestResults:
    def test_are_a_block_of_their_own(self) -> None:
        assert encode(*ROUND, result("1"), result("2")).endswith(
            f"</｜DSML｜function_calls>{EOS}\n\n<function_results>\n<result>1</result>"
            "\n<result>2</result>\n</function_results>\n\n<think>"
        )

    def test_keep_their_order(self) -> None:
        prompt = encode(*ROUND, result("B", of="b"), result("A", of="a"))
        assert prompt.index(">B<") < prompt.index(">A<")

    def test_fewer_than_calls_leave_the_block_open(self) -> None:
        assert encode(*ROUND, result("1")).endswith("\n<result>1</result>")

    def test_before_the_last_user_turn_thinking_is_closed(self) -> None:
        messages = [*ROUND, result("1"), result("2"), THOUGHT, user()]
        assert "</function_results>\n\n</think>Hello" in encode(*messages)
        assert "</function_results>\n\n</think>" in encode(
            *ROUND, result(), result(), thinking=False
        )

    def test_after_a_context(self) -> None:
        prompt = encode(result("2"), context=[*ROUND, result("1")])
        assert prompt == "\n<result>2</result>\n</function_results>\n\n<think>"

    @pytest.mark.parametrize(
        "messages",
        [
            [result(), user()],
            [user(), result()],
            [user(), THOUGHT, result()],
            [*ROUND, result(), result(), result()],
            [*ROUND, user(), result()],
            [result(), result(), *ROUND],
        ],
    )
    def test_without_their_calls(self, messages: list[Any]) -> None:
        assert "expected one for each call" in error_of(*messages)


class TestViews:
    def test_pieces(self) -> None:
        messages = [*ROUND, result("1"), result("2"), THOUGHT]
        pieces = dsv4.encode(messages, dialect="v3.2").pieces
        found = [(p.text, p.origin, p.message, p.field) for p in pieces]
        start = next(n for n, row in enumerate(found) if row[2] == 2)
        assert found[start:] == [
            ("\n\n<function_results>", "template", 2, "tool_result"),
            ("\n<result>", "template", 2, "tool_result"),
            ("1", "caller", 2, "content"),
            ("</result>", "template", 2, "tool_result"),
            ("\n<result>", "template", 3, "tool_result"),
            ("2", "caller", 3, "content"),
            ("</result>", "template", 3, "tool_result"),
            ("\n</function_results>\n\n", "template", 3, "tool_result"),
            ("<think>", "template", 4, "header"),
            ("hm", "model", 4, "reasoning"),
            ("</think>", "model", 4, "reasoning"),
            ("Hello", "model", 4, "content"),
            (EOS, "model", 4, "eos"),
        ]

    @pytest.mark.parametrize(
        ("messages", "thinking", "kind"),
        [
            ([user()], True, "think"),
            ([user()], False, "answer"),
            ([*ROUND, result(), result()], True, "think"),
            ([*ROUND, result(), result()], False, "answer"),
            ([*ROUND, result()], True, "nothing"),
            ([user(), THOUGHT], True, "nothing"),
        ],
    )
    def test_ending(self, messages: Any, thinking: bool, kind: str) -> None:
        prompt = dsv4.encode(messages, dialect="v3.2", thinking=thinking)
        assert prompt.ending.kind == kind

    def test_a_call_that_must_be_made(self) -> None:
        prompt = encode(user(), tools=[function("f")], tool_choice="f", thinking=False)
        assert prompt.endswith(
            f'{ANSWERING}\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n'
        )


class TestDropIn:
    @given(texts, texts, json_objects)
    def test_what_is_written_is_read_back(
        self, reasoning: str, content: str, arguments: dict[str, Any]
    ) -> None:
        message = assistant(content, reasoning_content=reasoning, tool_calls=[call("f", arguments)])
        written = encoding_dsv32.encode_messages([message], "thinking").removeprefix(BOS)
        try:
            read = encoding_dsv32.parse_message_from_completion_text(written, "thinking")
        except ValueError:
            return  # a text that spells the markup
        assert (read["content"], read["reasoning_content"]) == (content, reasoning)

    def test_a_message_by_itself(self) -> None:
        messages = [*ROUND, result("1"), result("2"), THOUGHT]
        parts = [
            encoding_dsv32.render_message(n, messages, "thinking") for n in range(len(messages))
        ]
        assert BOS + "".join(parts) == encoding_dsv32.encode_messages(messages, "thinking")
        for index in (-1, 5):
            with pytest.raises(dsv4.OptionError, match="index: found"):
                encoding_dsv32.render_message(index, messages, "thinking")

    def test_an_unknown_mode(self) -> None:
        with pytest.raises(dsv4.OptionError, match="thinking_mode: found 'deep'"):
            encoding_dsv32.encode_messages([user()], "deep")
        assert encoding_dsv32.encode_messages([], "deep") == BOS

    def test_helpers(self) -> None:
        assert encoding_dsv32.render_tools([function("f")]).startswith("## Tools\n\nYou have")
        written = encoding_dsv32.encode_arguments_to_dsml({"name": "f", "arguments": '{"a": 1}'})
        assert written == '<｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>'
        with pytest.raises(dsv4.OptionError, match="arguments: found 'oops'"):
            encoding_dsv32.encode_arguments_to_dsml({"name": "f", "arguments": "oops"})
        block = (
            f'>\n<｜DSML｜invoke name="f">\n{written}\n</｜DSML｜invoke>\n</｜DSML｜function_calls>'
        )
        end, tag, calls = encoding_dsv32.parse_tool_calls(0, block)
        assert (end, tag) == (len(block), "</｜DSML｜function_calls>")
        assert calls == [{"name": "f", "arguments": '{"a": 1}'}]

    @pytest.mark.parametrize("wrong", [None, "Hi", user()])
    def test_what_is_no_list(self, wrong: Any) -> None:
        with pytest.raises(EncodeError, match="messages: found"):
            encoding_dsv32.encode_messages(wrong, "chat")


messages = st.lists(
    st.one_of(
        st.builds(user, texts),
        st.builds(system, texts),
        st.builds(assistant, texts, reasoning=texts.filter(bool)),
        st.builds(
            lambda n: [calling(call("f"), call("g")), result(), result()][:n], st.integers(1, 3)
        ),
    ),
    min_size=1,
    max_size=6,
).map(lambda made: [m for item in made for m in (item if isinstance(item, list) else [item])])


@given(messages, st.booleans(), st.data())
def test_a_prompt_can_be_written_in_two_parts(
    messages: list[Any], thinking: bool, data: st.DataObject
) -> None:
    whole = encode(*messages, thinking=thinking)
    cut = data.draw(st.integers(1, len(messages)))
    last_users = [n for n, message in enumerate(messages) if message["role"] == "user"]
    if cut == len(messages) or (last_users and last_users[-1] >= cut):
        return
    start = encode(*messages[:cut], thinking=thinking)
    assert whole == start + encode(*messages[cut:], context=messages[:cut], thinking=thinking)


@given(messages, st.booleans())
def test_pieces_tile_the_prompt(messages: list[Any], thinking: bool) -> None:
    prompt = dsv4.encode(messages, dialect="v3.2", thinking=thinking)
    assert "".join(piece.text for piece in prompt.pieces) == str(prompt)
    for piece in prompt.pieces:
        if piece.origin == "model":
            assert piece.message is not None
            assert messages[piece.message]["role"] == "assistant"
