"""The released functions: the same results, and errors where the original failed on an assertion.

The vectors hold most of what there is to say; here stands what they cannot show.
"""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsv4
import encoding_dsv4
import encoding_dsv32
import encoding_dsv41
import encoding_dsv41_1017
from builders import *
from dsv4.compat import release, vllm
from encoding_dsv4 import (
    _drop_thinking_messages,
    encode_arguments_to_dsml,
    encode_messages,
    merge_tool_messages,
    render_message,
    render_tools,
    sort_tool_results_by_call_order,
    tools_from_openai_format,
)
from strategies import conversations

ASKING = "<｜Assistant｜><think>"


def error_of(function: Any, *args: Any, **named: Any) -> str:
    with pytest.raises(dsv4.Error) as caught:
        function(*args, **named)
    return str(caught.value)


def test_the_released_module_is_this_one_under_its_name() -> None:
    for name in release.__all__:
        assert getattr(encoding_dsv4, name) is getattr(release, name)


class TestEncodeMessages:
    def test_a_role_that_stays_and_has_no_way_to_be_written(self) -> None:
        messages = [{"role": "direct_search_results", "content": "x"}, user()]
        for mode in ("thinking", "chat"):
            problem = error_of(encode_messages, messages, mode)
            assert problem.startswith("messages[0].role: found 'direct_search_results', expected")
        assert encode_messages([{"role": "wizard"}, user()], "thinking").endswith(f"Hi{ASKING}")

    def test_the_quick_start(self) -> None:
        prompt = encode_messages([system(), user()], thinking_mode="thinking")
        assert prompt == f"{BOS}Be brief.<｜User｜>Hi{ASKING}"
        assert type(prompt) is str

    def test_no_messages_no_prompt(self) -> None:
        assert encode_messages([], "thinking") == BOS
        assert encode_messages([], "thinking", add_default_bos_token=False) == ""
        assert encode_messages([], "thinking", reasoning_effort="max") == BOS

    def test_a_context_that_ends_with_a_developer_turn_makes_the_first_new_turn_disappear(
        self,
    ) -> None:
        context = [user(), assistant(), developer(), assistant()]
        assert encode_messages([user("2")], "thinking", context=context) == ""
        assert encode_messages([user("2")], "chat", context=context).startswith("<｜User｜>2")
        assert (
            encode_messages([user("2"), assistant("3")], "thinking", context) == f"</think>3{EOS}"
        )

    def test_as_many_disappear_as_dropping_takes_from_the_contexts_end(self) -> None:
        context = [user(), developer(), {"role": "wizard"}]
        messages = [user("2"), assistant("3"), user("4")]
        assert encode_messages(messages[:1], "thinking", context) == ""
        assert encode_messages(messages, "thinking", context) == f"<｜User｜>4{ASKING}"

    def test_an_unknown_role_that_is_dropped_is_no_error(self) -> None:
        messages = [{"role": "wizard", "content": "Hi"}, user()]
        assert encode_messages(messages, "thinking") == f"{BOS}<｜User｜>Hi{ASKING}"
        assert error_of(encode_messages, messages, "chat").startswith(
            "messages[0].role: found 'wizard', expected one of system, user"
        )

    def test_nor_is_one_in_the_context(self) -> None:
        context = [{"role": "wizard"}, user()]
        for mode in ("chat", "thinking"):
            assert encode_messages([user("2")], mode, context).startswith("<｜User｜>2")
        assert error_of(encode_messages, [user()], "chat", [{"role": 3}]).startswith(
            "context[0].role: found 3, expected one of system, user"
        )

    def test_fields_of_the_native_api_mean_nothing(self) -> None:
        messages = [user(task="read_url", extracted_url="https://a.b"), assistant("a", prefix=True)]
        assert encode_messages(messages, "chat") == f"{BOS}<｜User｜>Hi<｜read_url｜>a{EOS}"

    def test_a_tool_needs_no_name(self) -> None:
        messages = [system(tools=[{"function": {"description": "x"}}])]
        assert '{"description": "x"}' in encode_messages(messages, "chat")

    def test_but_it_must_be_a_tool(self) -> None:
        assert error_of(encode_messages, [system(tools=[{}])], "chat") == (
            'messages[0].tools[0]: found {}, expected a tool with a "function"'
        )

    def test_anything_true_drops(self) -> None:
        messages: Any = [user(), assistant(reasoning="old"), user()]
        assert "old" not in encode_messages(messages, "thinking", drop_thinking=1)  # type: ignore
        assert "old" in encode_messages(messages, "thinking", drop_thinking=None)  # type: ignore


class TestDepartures:
    """Where the results differ from the original's on purpose."""

    def test_arguments_given_as_an_object_are_rendered_as_its_parameters(self) -> None:
        prompts = [
            encode_messages([calling(call("f", arguments))], "chat")
            for arguments in ({"a": 1}, '{"a": 1}')
        ]
        assert prompts[0] == prompts[1]

    def test_both_names_of_reasoning_are_read(self) -> None:
        for field in ("reasoning", "reasoning_content"):
            prompt = encode_messages([user(), assistant(**{field: "hm"})], "thinking")
            assert prompt.endswith(f"{ASKING}hm</think>Hello{EOS}")

    def test_null_content_is_empty(self) -> None:
        for message in (user, result):
            assert encode_messages([message(None)], "chat") == encode_messages(
                [message("")], "chat"
            )

    def test_a_list_of_text_blocks_is_joined(self) -> None:
        for message in (system, user, assistant, developer, result):
            blocks = message([text("a"), text("b")])
            assert encode_messages([blocks], "chat") == encode_messages([message("a\n\nb")], "chat")


class TestErrors:
    @pytest.mark.parametrize("mode", ["deep", "", None, True, ["chat"]])
    def test_unknown_mode(self, mode: Any) -> None:
        expected = f'thinking_mode: found {mode!r}, expected "chat" or "thinking"'
        assert error_of(encode_messages, [user()], mode) == expected
        assert error_of(render_message, 0, [user()], mode) == expected

    @pytest.mark.parametrize("mode", ["chat", "thinking"])
    def test_unknown_effort(self, mode: str) -> None:
        expected = 'reasoning_effort: found \'extreme\', expected None, "high" or "max" (v4)'
        assert error_of(encode_messages, [user()], mode, reasoning_effort="extreme") == expected
        assert error_of(render_message, 0, [user()], mode, True, "extreme") == expected

    @pytest.mark.parametrize("messages", [None, "Hi", 3, user()])
    def test_what_is_no_list(self, messages: Any) -> None:
        problem = f"found {messages!r}, expected a list of messages"
        assert error_of(encode_messages, messages, "chat") == f"messages: {problem}"
        if messages:
            assert error_of(encode_messages, [], "chat", messages) == f"context: {problem}"

    @pytest.mark.parametrize("message", [None, "Hi", 3, []])
    def test_what_is_no_message(self, message: Any) -> None:
        problem = f'found {message!r}, expected a message: a dict with a "role"'
        assert error_of(encode_messages, [user(), message], "chat") == f"messages[1]: {problem}"
        assert error_of(encode_messages, [user()], "chat", [message]) == f"context[0]: {problem}"
        assert error_of(render_message, 0, [user(), message], "chat") == f"messages[1]: {problem}"
        assert error_of(merge_tool_messages, [user(), message]) == f"messages[1]: {problem}"

    def test_arguments(self) -> None:
        assert error_of(encode_arguments_to_dsml, {"name": "f", "arguments": "[1]"}) == (
            "arguments: found '[1]', expected a JSON object"
        )

    def test_tools(self) -> None:
        assert error_of(tools_from_openai_format, [openai_tool(), 3]) == (
            "tools[1]: found 3, expected a tool object"
        )

    @pytest.mark.parametrize("module", [encoding_dsv4, encoding_dsv32, vllm])
    @pytest.mark.parametrize(
        ("name", "arguments", "problem"),
        [
            ("parse_message_from_completion_text", (None, "chat"), "text: found None"),
            ("parse_message_from_completion_text", (b"x", "chat"), "text: found b'x'"),
            ("parse_tool_calls", (0, None), "text: found None"),
            ("parse_tool_calls", ("0", "x"), "index: found '0'"),
            ("render_message", ("0", [user()], "chat"), "index: found '0'"),
            ("render_message", (0, 5, "chat"), "messages: found 5"),
            ("render_tools", (5,), "tools: found 5"),
            ("encode_arguments_to_dsml", (None,), "tool_call: found None"),
        ],
    )
    def test_arguments_of_the_wrong_kind(
        self, module: Any, name: str, arguments: tuple[Any, ...], problem: str
    ) -> None:
        assert error_of(getattr(module, name), *arguments).startswith(problem)


class TestRenderMessage:
    def test_an_index_outside(self) -> None:
        for index in (-1, 1):
            assert error_of(render_message, index, [user()], "chat") == (
                f"index: found {index}, expected one of 1 messages"
            )

    def test_a_tool_message_must_be_merged_first(self) -> None:
        assert error_of(render_message, 1, [user(), result()], "chat") == (
            "messages[1].role: found a tool message, expected it merged into a user message"
        )

    def test_content_blocks_are_the_turns(self) -> None:
        message = user("not this", content_blocks=[text("a"), {"type": "video"}])
        assert render_message(0, [message], "chat") == (
            "<｜User｜>a\n\n[Unsupported video]<｜Assistant｜></think>"
        )

    @given(conversations, st.sampled_from(["chat", "thinking"]), st.booleans())
    def test_a_prompt_is_its_messages_rendered_one_by_one(
        self, messages: list[Any], mode: str, drop: bool
    ) -> None:
        merged = sort_tool_results_by_call_order(merge_tool_messages(messages))
        drops = drop and not any(message.get("tools") for message in merged)
        kept = _drop_thinking_messages(merged) if drops and mode == "thinking" else merged
        parts = [render_message(n, kept, mode, drops, "max") for n in range(len(kept))]
        prompt = encode_messages(messages, mode, drop_thinking=drop, reasoning_effort="max")
        assert BOS + "".join(parts) == prompt


class TestOthers:
    def test_none_of_them_changes_its_arguments(self) -> None:
        messages = [
            *(
                user(),
                calling(call(id="a"), call(id="b")),
                result("B", of="b"),
                result("A", of="a"),
            ),
            *(assistant(reasoning="old"), user()),
        ]
        merged = merge_tool_messages(messages)
        before = copy.deepcopy((messages, merged))
        merge_tool_messages(messages)[0]["content_blocks"].clear()
        sort_tool_results_by_call_order(merged)
        _drop_thinking_messages(merged)
        assert (messages, merged) == before

    def test_dropping_takes_both_names_of_reasoning(self) -> None:
        messages = [assistant(reasoning="a", reasoning_content="b"), user()]
        assert _drop_thinking_messages(messages) == [assistant(), user()]

    def test_tools_section(self) -> None:
        section = render_tools([{"name": "f"}, {"name": "g"}])
        assert section.startswith("## Tools\n\n")
        assert '\n{"name": "f"}\n{"name": "g"}\n' in section
        assert (
            section
            == str(dsv4.encode([system("", tools=[{"name": "f"}, {"name": "g"}])])).split(
                "\n\n", 1
            )[1]
        )


class TestStrictReading:
    """What the released functions take, though no encoder writes it."""

    HEAD = '\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="{}">\n'
    CALL = (
        HEAD + '<｜DSML｜parameter name="a" string="true">1</｜DSML｜parameter>\n</｜DSML｜invoke'
    )
    END = ">\n</｜DSML｜tool_calls>"

    @pytest.mark.parametrize("name", ["f\ng", 'f">\ng', "\nf"])
    def test_a_name_with_a_line_end(self, name: str) -> None:
        completion = self.CALL.format(name) + self.END
        message = encoding_dsv4.parse_message_from_completion_text(completion, "chat")
        assert message["tool_calls"][0]["function"] == {"name": name, "arguments": '{"a": "1"}'}

    def test_a_text_that_ends_in_the_close_of_a_call(self) -> None:
        for completion, arguments in (
            (self.CALL.format("f"), '{"a": "1"}'),
            (self.HEAD.format("f") + "</｜DSML｜invoke", "{}"),
        ):
            message = encoding_dsv4.parse_message_from_completion_text(completion, "chat")
            assert message["tool_calls"][0]["function"]["arguments"] == arguments
            found = encoding_dsv4.parse_tool_calls(completion.index(">"), completion)
            assert found == (
                len(completion),
                "</｜DSML｜invoke",
                [{"name": "f", "arguments": arguments}],
            )

    def test_other_ends_are_refused(self) -> None:
        for end in (">", ">\n", ">\n</｜DSML｜tool_calls", "x"):
            completion = self.CALL.format("f") + end
            with pytest.raises(dsv4.ParseError):
                encoding_dsv4.parse_message_from_completion_text(completion, "chat")

    def test_calls_past_the_end(self) -> None:
        completion = self.CALL.format("f") + self.END
        for index in (len(completion), len(completion) + 9):
            assert encoding_dsv4.parse_tool_calls(index, completion) == (index, None, [])


def released_after(context: list[Any], messages: list[Any]) -> str:
    """What the released function does with a context, by its own parts: both are dropped together,
    and as many turns are passed over as are left of the context when it is dropped by itself."""
    before = sort_tool_results_by_call_order(merge_tool_messages(context))
    both = [*merge_tool_messages(context), *merge_tool_messages(messages)]
    kept = _drop_thinking_messages(sort_tool_results_by_call_order(both))
    start = len(_drop_thinking_messages(before))
    return "".join(render_message(n, kept, "thinking") for n in range(start, len(kept)))


def test_a_result_without_content_in_v4_1() -> None:
    blocks = [{"type": "tool_result", "tool_use_id": "a"}]
    prompt = encoding_dsv41.encode_messages([user(blocks)], "chat")
    assert "<｜User｜><tool_result></tool_result><｜Assistant｜>" in prompt


def test_turns_that_disappear_after_a_context() -> None:
    roles = ("developer", "assistant", "user", "system", "latest_reminder")
    for count in (1, 2):
        for context in product(roles, repeat=count):
            for new in product(roles, repeat=3):
                before = [{"role": role, "content": f"c{n}"} for n, role in enumerate(context)]
                after = [{"role": role, "content": f"m{n}"} for n, role in enumerate(new)]
                written = encode_messages(after, "thinking", context=before)
                assert written == released_after(before, after), (context, new)


def test_a_context_that_ends_with_a_developer() -> None:
    after = [developer("b"), assistant("c"), user("d")]
    written = encode_messages(after, "thinking", context=[developer("a")])
    assert written == str(dsv4.encode([user("d")], bos=False))


class TestVllm:
    def test_its_template(self) -> None:
        assert vllm.thinking_template == "{reasoning}"
        assert release.thinking_template == "{reasoning_content}"

    def test_what_came_later_is_not_there(self) -> None:
        assert not hasattr(vllm, "render_content")
        with pytest.raises(AttributeError, match=r"vLLM 0\.20\.2"):
            vllm.render_content  # noqa: B018


PICTURE = {"type": "image_url", "image_url": {"url": "a.png"}}
NO_IMAGE = "[Unsupported image_url]"


@pytest.mark.parametrize("module", [encoding_dsv41, encoding_dsv41_1017])
class TestFunctionsOfTextInV41:
    """What `render_message` and `_encode_messages_text` make of what only `encode_messages` turns
    into text, as SGLang's copy of September's file and October's own file do."""

    @pytest.mark.parametrize(
        ("message", "expected"),
        [
            (
                {"role": "user", "content_blocks": [text("a"), PICTURE, {"type": "audio"}]},
                f"<｜User｜>a\n\n{NO_IMAGE}\n\n[Unsupported audio]<｜Assistant｜></think>",
            ),
            (
                {
                    "role": "user",
                    "content_blocks": [
                        {"type": "tool_result", "tool_use_id": "c", "content": [text("a"), PICTURE]}
                    ],
                },
                f"<｜User｜><tool_result>a\n\n{NO_IMAGE}</tool_result><｜Assistant｜></think>",
            ),
            ({"role": "assistant", "content_blocks": [text("a")]}, "<｜end▁of▁sentence｜>"),
            ({"role": "system", "content": "s", "content_blocks": [text("a")]}, "<｜System｜>s"),
            (
                {"role": "user", "content": "a <｜deepseek_image｜>"},
                "<｜User｜>a <｜deepseek_image｜><｜Assistant｜></think>",
            ),
        ],
    )
    def test_a_message(self, module: Any, message: dict[str, Any], expected: str) -> None:
        assert module.render_message(0, [message], "chat") == expected
        prompt = module._encode_messages_text([message], "chat", add_default_bos_token=False)
        assert prompt == expected

    def test_the_messages_stay_as_they_are(self, module: Any) -> None:
        message = {"role": "user", "content_blocks": [PICTURE]}
        module._encode_messages_text([message], "chat", [message])
        assert message == {"role": "user", "content_blocks": [PICTURE]}

    def test_octobers_messages_are_merged_and_sorted_before(self, module: Any) -> None:
        blocks = [
            {"type": "tool_result", "tool_use_id": id, "content": id.upper()} for id in ("b", "a")
        ]
        calls = [{"id": id, "function": {"name": "f", "arguments": "{}"}} for id in ("a", "b")]
        asked = {"role": "assistant", "content": "", "tool_calls": calls}
        messages = [user("x"), user("y"), asked, {"role": "user", "content_blocks": blocks}]
        prompt = module._encode_messages_text(messages, "chat")
        if module is encoding_dsv41_1017:
            assert prompt.startswith(f"{BOS}<｜User｜>x<｜User｜>y<｜Assistant｜>")
            assert prompt.index(">B<") < prompt.index(">A<")
        else:
            assert prompt.startswith(f"{BOS}<｜User｜>x\n\ny<｜Assistant｜>")
            assert prompt.index(">A<") < prompt.index(">B<")
        for messages in ([{"content": "x"}], [3]):
            assert error_of(module._encode_messages_text, messages, "chat").startswith(
                "messages[0]"
            )
            assert error_of(module._encode_messages_text, [], "chat", messages)

    @pytest.mark.parametrize("nothing", [{}, "", ()])
    def test_what_is_empty_has_no_items(self, module: Any, nothing: Any) -> None:
        assert module.merge_tool_messages(nothing) == []
        assert module.process_image_messages(nothing) == ([], [])
        assert module.encode_messages([], "chat", nothing) == module.encode_messages([], "chat")

    def test_a_namespace_is_text(self, module: Any) -> None:
        problem = "namespace: found {}, expected the name of a namespace"
        assert error_of(module._split_tool_name, "f", {}) == problem
