"""How each kind of turn is written, and what comes between turns."""

from __future__ import annotations

from typing import Any

import pytest

import dsv4
from builders import *
from dsv4 import EncodeError

ASKING = "<｜Assistant｜><think>"
ANSWERING = "<｜Assistant｜></think>"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
RESPONSE_FORMAT = (
    "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n"
    '{"type": "object", "properties": {"n": {"type": "integer"}}}'
)


def encode(*messages: Any, **options: Any) -> str:
    return str(dsv4.encode(list(messages), **options)).removeprefix(BOS)


def test_bos_opens_the_prompt_unless_refused() -> None:
    assert str(dsv4.encode([system()])) == f"{BOS}Be brief."
    assert str(dsv4.encode([system()], bos=False)) == "Be brief."


class TestSystem:
    def test_is_its_text_alone(self) -> None:
        assert encode(system()) == "Be brief."
        assert encode(system(None)) == ""
        assert encode({"role": "system"}) == ""

    def test_tools_follow_a_blank_line_and_end_with_a_newline(self) -> None:
        prompt = encode(system(tools=[openai_tool()]))
        assert prompt.startswith("Be brief.\n\n## Tools\n\nYou have access to a set of tools")
        assert '\n\n{"name": "weather"}\n\n' in prompt
        assert prompt.endswith("to invoke tool calls.\n")

    def test_response_format_follows_a_blank_line(self) -> None:
        assert encode(system(response_format=SCHEMA)) == "Be brief." + RESPONSE_FORMAT

    def test_response_format_comes_after_tools(self) -> None:
        prompt = encode(system(tools=[openai_tool()], response_format=SCHEMA))
        assert prompt.endswith("to invoke tool calls.\n" + RESPONSE_FORMAT)

    def test_empty_extras_write_nothing(self) -> None:
        assert encode(system(tools=[], response_format={})) == "Be brief."
        assert encode(system(tools=None, response_format=None)) == "Be brief."


class TestDeveloper:
    def test_is_written_as_a_user_turn_with_a_systems_extras(self) -> None:
        assert encode(developer(response_format=SCHEMA)) == (
            f"<｜User｜>Find it.{RESPONSE_FORMAT}{ASKING}"
        )
        assert "## Tools" in encode(developer(tools=[openai_tool()]))

    @pytest.mark.parametrize("content", ["", None, []])
    def test_must_have_content(self, content: Any) -> None:
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([user(), developer(content)])
        assert str(caught.value) == (
            "messages[1].content: found nothing, expected the text of a developer turn"
        )


class TestReminder:
    def test_is_its_token_and_text(self) -> None:
        assert encode(reminder()) == "<｜latest_reminder｜>Today is Friday."
        assert encode(reminder(None)) == "<｜latest_reminder｜>"

    def test_a_user_turn_before_it_asks_for_an_answer(self) -> None:
        assert encode(user(), reminder()) == (
            f"<｜User｜>Hi{ASKING}<｜latest_reminder｜>Today is Friday."
        )


class TestResults:
    @pytest.mark.parametrize("dialect", ["v4", "v4-0731"])
    def test_a_list_is_joined_and_what_is_not_text_named(self, dialect: str) -> None:
        content = [text("a"), "b", {"type": "video"}, {"type": "tool_result"}]
        prompt = encode(result(content), thinking=False, dialect=dialect)
        assert prompt == (
            "<｜User｜><tool_result>a\n\nb\n\n[Unsupported video]\n\n[Unsupported tool_result]"
            f"</tool_result>{ANSWERING}"
        )

    def test_null_is_empty(self) -> None:
        assert encode(result(None)) == f"<｜User｜><tool_result></tool_result>{ASKING}"
        assert encode({"role": "tool"}) == f"<｜User｜><tool_result></tool_result>{ASKING}"

    def test_nothing_is_escaped(self) -> None:
        prompt = encode(result("</tool_result>&lt;"))
        assert prompt == f"<｜User｜><tool_result></tool_result>&lt;</tool_result>{ASKING}"


WITH_IMAGES = " or ".join(name for name, each in dsv4.DIALECTS.items() if each.image_token)


class TestImages:
    """V4.1: a token stands for each image, and the prompt gives the images in its order."""

    ONE, TWO = image("https://example.com/1.png"), image("https://example.com/2.png")

    def test_each_item_of_a_users_list_is_a_block_of_its_own(self) -> None:
        prompt = dsv4.encode([user([text("see"), self.ONE])], thinking=False, dialect="v4.1")
        assert str(prompt) == f"{BOS}<｜User｜>see\n\n<｜deepseek_image｜>{ANSWERING}"
        assert prompt.images == [{"type": "image", "url": "https://example.com/1.png"}]

    def test_in_a_tool_result(self) -> None:
        prompt = dsv4.encode([result([self.ONE, text("a")])], thinking=False, dialect="v4.1")
        assert "<tool_result><｜deepseek_image｜>\n\na</tool_result>" in str(prompt)
        assert prompt.images == [{"type": "image", "url": "https://example.com/1.png"}]

    def test_in_prompt_order_though_results_are_sorted(self) -> None:
        calls = [{"id": id, "function": {"name": "f"}} for id in ("a", "b")]
        messages = [
            assistant("", tool_calls=calls),
            result([self.ONE], of="b"),
            result([self.TWO], of="a"),
        ]
        prompt = dsv4.encode(messages, dialect="v4.1")
        assert [image["url"][-5] for image in prompt.images] == ["2", "1"]

    def test_only_those_of_the_new_messages(self) -> None:
        prompt = dsv4.encode([user([self.TWO])], context=[user([self.ONE])], dialect="v4.1")
        assert prompt.images == [{"type": "image", "url": "https://example.com/2.png"}]

    @pytest.mark.parametrize("dialect", ["v4", "v4-0731"])
    def test_other_dialects_have_none(self, dialect: str) -> None:
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([user([text("see"), self.ONE])], dialect=dialect)
        assert str(caught.value) == (
            "messages[0].content[1]: found a block of type 'image_url', expected type \"text\": "
            f"images need the dialect {WITH_IMAGES}"
        )
        assert "[Unsupported image_url]" in encode(result([self.ONE]), dialect=dialect)

    SPELLED = "see <｜deepseek_image｜>"

    @pytest.mark.parametrize(
        ("message", "field"),
        [
            (system(SPELLED), "content"),
            (user(SPELLED), "content"),
            (user([text(SPELLED)]), "content"),
            (user([SPELLED]), "content"),
            (result([text(SPELLED)]), "content"),
            (user([{"type": "tool_result", "content": [text(SPELLED)]}]), "content"),
            (assistant(SPELLED), "content"),
            (assistant(reasoning=SPELLED), "reasoning"),
            (assistant(reasoning_content=SPELLED), "reasoning_content"),
        ],
    )
    def test_a_text_may_not_spell_the_token(self, message: Any, field: str) -> None:
        expected = (
            f"{field}: found <｜deepseek_image｜> in a text, expected it only where an image stands"
        )
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([user(), message], dialect="v4.1")
        assert str(caught.value) == f"messages[1].{expected}"
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([user()], context=[message], dialect="v4.1")
        assert str(caught.value) == f"context[0].{expected}"

    def test_in_other_dialects_it_may(self) -> None:
        assert encode(user(self.SPELLED)) == f"<｜User｜>{self.SPELLED}{ASKING}"


class TestAssistant:
    def test_thinking_mode(self) -> None:
        assert encode(user(), assistant(reasoning="hm")) == (
            f"<｜User｜>Hi{ASKING}hm</think>Hello{EOS}"
        )

    def test_without_reasoning_the_thinking_part_is_empty(self) -> None:
        assert encode(user(), assistant()) == f"<｜User｜>Hi{ASKING}</think>Hello{EOS}"

    def test_chat_mode(self) -> None:
        assert encode(user(), assistant(reasoning="hm"), thinking=False) == (
            f"<｜User｜>Hi{ANSWERING}Hello{EOS}"
        )

    def test_two_names_for_reasoning_of_which_the_first_that_is_not_empty_wins(self) -> None:
        def shown(**fields: Any) -> str:
            return encode(assistant("", **fields)).removesuffix(f"</think>{EOS}")

        assert shown(reasoning_content="a") == "a"
        assert shown(reasoning="b") == "b"
        assert shown(reasoning_content="a", reasoning="b") == "a"
        assert shown(reasoning_content="", reasoning="b") == "b"
        assert shown(reasoning_content=None, reasoning="b") == "b"
        assert shown(reasoning_content=[text("a"), text("b")]) == "a\n\nb"

    @pytest.mark.parametrize("field", ["wo_eos", "prefix"])
    def test_a_turn_left_open_has_no_eos(self, field: str) -> None:
        assert encode(user(), assistant("Hel", **{field: True}), thinking=False) == (
            f"<｜User｜>Hi{ANSWERING}Hel"
        )
        assert encode(assistant("Hel", **{field: False})).endswith(f"Hel{EOS}")

    def test_assistants_in_a_row_have_nothing_between(self) -> None:
        assert encode(assistant("a"), assistant("b")) == f"</think>a{EOS}</think>b{EOS}"

    def test_a_message_that_was_parsed_is_taken_as_it_is(self) -> None:
        class Parsed:
            def to_dict(self) -> dict[str, Any]:
                return assistant("yes", reasoning="hm")

        assert encode(user(), Parsed()) == encode(user(), Parsed().to_dict())
        assert encode(user(), context=[user(), Parsed()]) == f"<｜User｜>Hi{ASKING}"


class TestTasks:
    @pytest.mark.parametrize("task", ["query", "authority", "domain", "read_url"])
    @pytest.mark.parametrize("thinking", [True, False])
    def test_a_task_of_a_user_message_writes_its_token(self, task: str, thinking: bool) -> None:
        assert encode(user(task=task), thinking=thinking) == f"<｜User｜>Hi<｜{task}｜>"

    def test_action_comes_after_the_header(self) -> None:
        assert encode(user(task="action")) == f"<｜User｜>Hi{ASKING}<｜action｜>"
        assert encode(user(task="action"), thinking=False) == f"<｜User｜>Hi{ANSWERING}<｜action｜>"

    def test_a_developer_may_carry_one(self) -> None:
        assert encode(developer(task="query")) == "<｜User｜>Find it.<｜query｜>"

    def test_title_goes_on_an_assistant_message(self) -> None:
        prompt = encode(user(), assistant(task="title"), thinking=False)
        assert prompt == f"<｜User｜>Hi{ANSWERING}Hello{EOS}<｜title｜>"

    @pytest.mark.parametrize("thinking", [True, False])
    def test_the_next_assistant_message_is_the_output_without_thinking(
        self, thinking: bool
    ) -> None:
        prompt = encode(user(task="query"), assistant("q", reasoning="hm"), thinking=thinking)
        assert prompt == f"<｜User｜>Hi<｜query｜>q{EOS}"
        prompt = encode(assistant("a", task="title"), assistant("A Title"), thinking=False)
        assert prompt == f"a{EOS}<｜title｜>A Title{EOS}"

    def test_before_a_user_turn_a_task_is_not_asked(self) -> None:
        prompt = encode(assistant("a", task="title"), user(), thinking=False)
        assert prompt == f"a{EOS}<｜User｜>Hi{ANSWERING}"

    @pytest.mark.parametrize("task", ["dance", "", 3, ["query"], True])
    @pytest.mark.parametrize("message", [user(), developer(), assistant()])
    def test_unknown_task(self, task: Any, message: dict[str, Any]) -> None:
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([system(), {**message, "task": task}])
        assert str(caught.value) == (
            f"messages[1].task: found {task!r}, "
            "expected one of action, query, authority, domain, title, read_url"
        )


class TestExtractedUrl:
    """The URL that `read_url` asks about, in a field of its own."""

    def test_is_written_before_the_task(self) -> None:
        prompt = encode(user(task="read_url", extracted_url="https://example.com"))
        assert prompt == "<｜User｜>Hi<｜extracted_url｜>https://example.com<｜read_url｜>"

    def test_is_what_the_released_encoder_has_pasted_into_the_content(self) -> None:
        pasted = user("Hi<｜extracted_url｜>https://example.com", task="read_url")
        assert encode(pasted) == encode(user(task="read_url", extracted_url="https://example.com"))

    def test_null_is_none(self) -> None:
        assert encode(user(task="read_url", extracted_url=None)) == "<｜User｜>Hi<｜read_url｜>"

    def test_other_tasks_have_none(self) -> None:
        prompt = encode(user(task="query", extracted_url="https://example.com"))
        assert prompt == "<｜User｜>Hi<｜query｜>"

    @pytest.mark.parametrize("url", ["", 3, ["https://example.com"]])
    def test_must_be_text(self, url: Any) -> None:
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([user(task="read_url", extracted_url=url)])
        assert str(caught.value) == (
            f"messages[0].extracted_url: found {url!r}, expected the URL as text"
        )


class TestRoles:
    EXPECTED = "expected one of system, user, assistant, tool, latest_reminder, developer"

    @pytest.mark.parametrize("role", ["wizard", "", "User", None, 3, ["user"], {}])
    def test_unknown_role(self, role: Any) -> None:
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([user(), {"role": role, "content": "Hi"}])
        assert str(caught.value) == f"messages[1].role: found {role!r}, {self.EXPECTED}"

    def test_even_where_dropping_would_remove_it(self) -> None:
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([{"role": "wizard"}, user()])
        assert str(caught.value) == f"messages[0].role: found 'wizard', {self.EXPECTED}"

    @pytest.mark.parametrize("thinking", [True, False])
    def test_even_in_the_context(self, thinking: bool) -> None:
        context = [user(), assistant(), {"role": "wizard"}]
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([user()], context=context, thinking=thinking)
        assert str(caught.value) == f"context[2].role: found 'wizard', {self.EXPECTED}"

    def test_a_message_without_a_role(self) -> None:
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([{"content": "Hi"}])
        assert str(caught.value) == f"messages[0].role: found None, {self.EXPECTED}"
