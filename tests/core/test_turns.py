"""From messages to turns: merging, sorting, dropping, and what a context changes."""

from __future__ import annotations

from typing import Any

import pytest

import dsv4
from builders import *

ASKING = "<｜Assistant｜><think>"
ANSWERING = "<｜Assistant｜></think>"


def encode(*messages: Any, **options: Any) -> str:
    return str(dsv4.encode(list(messages), **options)).removeprefix(BOS)


def results_in(prompt: str) -> list[str]:
    return [part.split("</tool_result>")[0] for part in prompt.split("<tool_result>")[1:]]


class TestMerging:
    def test_user_messages_in_a_row_are_one_turn(self) -> None:
        assert encode(user("a"), user("b")) == f"<｜User｜>a\n\nb{ASKING}"

    def test_a_tool_result_starts_a_user_turn(self) -> None:
        prompt = encode(calling(call()), result("sunny"))
        assert prompt.endswith(f"{EOS}<｜User｜><tool_result>sunny</tool_result>{ASKING}")

    def test_results_and_user_messages_join_each_other(self) -> None:
        prompt = encode(result("1"), user("a"), result("2"), user("b"))
        assert prompt == (
            "<｜User｜><tool_result>1</tool_result>\n\na\n\n<tool_result>2</tool_result>\n\nb"
            + ASKING
        )

    def test_empty_texts_are_blocks_too(self) -> None:
        assert encode(user(""), user(None), user("c")) == f"<｜User｜>\n\n\n\nc{ASKING}"

    def test_a_user_message_does_not_join_a_task_turn(self) -> None:
        prompt = encode(user("a", task="query"), user("b"))
        assert prompt == f"<｜User｜>a<｜User｜>b{ASKING}"

    def test_a_tool_result_joins_even_a_task_turn(self) -> None:
        prompt = encode(user("a", task="query"), result("1"))
        assert prompt == "<｜User｜>a\n\n<tool_result>1</tool_result><｜query｜>"

    def test_a_user_message_after_that_starts_a_turn(self) -> None:
        prompt = encode(user("a", task="query"), result("1"), user("b"))
        assert prompt == f"<｜User｜>a\n\n<tool_result>1</tool_result><｜User｜>b{ASKING}"

    def test_a_message_that_joins_loses_its_task(self) -> None:
        assert encode(user("a"), user("b", task="query")) == f"<｜User｜>a\n\nb{ASKING}"
        assert encode(result("1"), user("b", task="query")).endswith(f"\n\nb{ASKING}")

    def test_a_null_task_is_none(self) -> None:
        assert encode(user("a", task=None), user("b")) == f"<｜User｜>a\n\nb{ASKING}"

    def test_other_roles_end_a_turn(self) -> None:
        assert encode(user("a"), system("s"), user("b")) == f"<｜User｜>as<｜User｜>b{ASKING}"

    def test_content_blocks_on_input_are_ignored(self) -> None:
        assert encode(user("a", content_blocks=[{"type": "text", "text": "b"}])) == (
            f"<｜User｜>a{ASKING}"
        )


class TestSorting:
    """Results stand in the order of their calls; texts stay where they are."""

    def test_by_call_order(self) -> None:
        prompt = encode(
            calling(call(id="a"), call(id="b"), call(id="c")),
            result("C", of="c"),
            result("A", of="a"),
            result("B", of="b"),
        )
        assert results_in(prompt) == ["A", "B", "C"]

    def test_texts_stay_in_place(self) -> None:
        prompt = encode(
            calling(call(id="a"), call(id="b")),
            result("B", of="b"),
            user("and"),
            result("A", of="a"),
        )
        assert prompt.endswith(
            "<｜User｜><tool_result>A</tool_result>\n\nand\n\n<tool_result>B</tool_result>" + ASKING
        )

    def test_unknown_and_missing_ids_count_as_the_first_and_keep_their_order(self) -> None:
        prompt = encode(
            calling(call(id="a"), call(id="b")),
            result("B", of="b"),
            result("?", of="zzz"),
            result("-"),
            result("A", of="a"),
        )
        assert results_in(prompt) == ["?", "-", "A", "B"]

    def test_a_repeated_id_takes_its_last_position(self) -> None:
        prompt = encode(
            calling(call(id="a"), call(id="b"), call(id="a")),
            result("A", of="a"),
            result("B", of="b"),
        )
        assert results_in(prompt) == ["B", "A"]

    def test_an_empty_id_is_no_id(self) -> None:
        prompt = encode(calling(call(id="a"), call(id="")), result("-", of=""), result("A", of="a"))
        assert results_in(prompt) == ["-", "A"]

    def test_an_id_may_stand_on_the_function(self) -> None:
        calls = [
            {"function": {"name": "f", "id": "a"}},
            {"id": "", "function": {"name": "f", "id": "b"}},
        ]
        prompt = encode(calling(*calls), result("B", of="b"), result("A", of="a"))
        assert results_in(prompt) == ["A", "B"]
        prompt = encode(calling(*calls, call(id="c")), result("C", of="c"), result("B", of="b"))
        assert results_in(prompt) == ["B", "C"]

    def test_calls_without_ids_sort_nothing(self) -> None:
        prompt = encode(calling(call(), call()), result("B", of="b"), result("A", of="a"))
        assert results_in(prompt) == ["B", "A"]

    def test_the_most_recent_calls_decide(self) -> None:
        prompt = encode(
            calling(call(id="a"), call(id="b")),
            result("1", of="a"),
            calling(call(id="b"), call(id="a")),
            result("A", of="a"),
            result("B", of="b"),
        )
        assert results_in(prompt) == ["1", "B", "A"]

    def test_an_assistant_turn_without_calls_changes_nothing(self) -> None:
        prompt = encode(
            calling(call(id="a"), call(id="b")),
            assistant(),
            result("B", of="b"),
            result("A", of="a"),
        )
        assert results_in(prompt) == ["A", "B"]

    def test_only_results_of_one_turn_change_places(self) -> None:
        prompt = encode(
            calling(call(id="a"), call(id="b")), result("B", of="b"), system(), result("A", of="a")
        )
        assert results_in(prompt) == ["B", "A"]

    def test_ids_of_odd_types_are_no_ids(self) -> None:
        prompt = encode(
            calling(call(id=["a"]), call(id="b")), result("B", of="b"), result("A", of=["a"])
        )
        assert results_in(prompt) == ["A", "B"]


class TestDropping:
    """Old reasoning goes: that before the last user turn."""

    HISTORY = (user("1"), assistant("one", reasoning_content="old"), user("2"))

    def test_reasoning_before_the_last_user_turn_goes(self) -> None:
        assert encode(*self.HISTORY) == f"<｜User｜>1{ANSWERING}one{EOS}<｜User｜>2{ASKING}"

    def test_reasoning_after_it_stays(self) -> None:
        prompt = encode(*self.HISTORY, assistant("two", reasoning_content="new"))
        assert prompt.endswith(f"<｜User｜>2{ASKING}new</think>two{EOS}")

    def test_all_of_it_stays_on_request(self) -> None:
        prompt = encode(*self.HISTORY, drop_thinking=False)
        assert prompt == f"<｜User｜>1{ASKING}old</think>one{EOS}<｜User｜>2{ASKING}"

    def test_a_tool_result_counts_as_a_user_turn(self) -> None:
        prompt = encode(user("1"), assistant("one", reasoning_content="old"), result())
        assert "old" not in prompt

    def test_tools_keep_all_reasoning(self) -> None:
        assert "old</think>" in encode(system(tools=[openai_tool()]), *self.HISTORY)
        assert "old</think>" in encode(*self.HISTORY, tools=[openai_tool()])

    def test_tools_count_on_every_role_but_users(self) -> None:
        tools = [openai_tool()]
        assert "old" in encode(*self.HISTORY, assistant(tools=tools))
        assert "old" in encode(reminder(tools=tools), *self.HISTORY)
        assert "old" not in encode(user(tools=tools), *self.HISTORY)
        assert "old" not in encode(result(tools=tools), *self.HISTORY)

    def test_an_empty_list_of_tools_keeps_nothing(self) -> None:
        assert "old" not in encode(system(tools=[]), *self.HISTORY)

    def test_an_earlier_developer_turn_vanishes(self) -> None:
        assert encode(developer("find"), assistant("found"), user("2")) == (
            f"found{EOS}<｜User｜>2{ASKING}"
        )

    def test_the_last_developer_turn_stays_and_counts_as_a_user_turn(self) -> None:
        prompt = encode(user("1"), assistant("one", reasoning_content="old"), developer("find"))
        assert prompt == f"<｜User｜>1{ANSWERING}one{EOS}<｜User｜>find{ASKING}"

    def test_nothing_is_dropped_in_chat_mode(self) -> None:
        prompt = encode(developer("find"), assistant("found"), user("2"), thinking=False)
        assert prompt == f"<｜User｜>find{ANSWERING}found{EOS}<｜User｜>2{ANSWERING}"

    def test_system_turns_and_reminders_stay(self) -> None:
        assert encode(system(), reminder(), user()) == (
            f"Be brief.<｜latest_reminder｜>Today is Friday.<｜User｜>Hi{ASKING}"
        )

    def test_without_a_user_turn_nothing_is_dropped(self) -> None:
        assert encode(system("s"), assistant("a", reasoning="old")) == f"sold</think>a{EOS}"


class TestContext:
    """Messages that the prompt already holds: only what follows is written."""

    CONTEXT = (system(), user(), assistant(reasoning_content="greet"))

    def test_only_what_follows_is_written_and_without_bos(self) -> None:
        prompt = dsv4.encode([user("2")], context=list(self.CONTEXT))
        assert str(prompt) == f"<｜User｜>2{ASKING}"

    def test_nor_is_the_effort_written_again(self) -> None:
        prompt = dsv4.encode([user("2")], context=list(self.CONTEXT), effort="max")
        assert str(prompt) == f"<｜User｜>2{ASKING}"

    @pytest.mark.parametrize("nothing", [(), [], None])
    def test_an_empty_context_is_none(self, nothing: Any) -> None:
        assert str(dsv4.encode([user()], context=nothing)).startswith(BOS)

    def test_user_turns_do_not_merge_across(self) -> None:
        assert encode(user("2"), context=[user("1")]) == f"<｜User｜>2{ASKING}"
        assert encode(result("2"), context=[user("1")]).startswith("<｜User｜><tool_result>2")

    def test_results_are_sorted_by_calls_in_the_context(self) -> None:
        context = [user(), calling(call(id="a"), call(id="b"))]
        prompt = encode(result("B", of="b"), result("A", of="a"), context=context)
        assert results_in(prompt) == ["A", "B"]

    def test_tools_in_the_context_keep_all_reasoning(self) -> None:
        context = [system(tools=[openai_tool()]), user()]
        prompt = encode(assistant(reasoning="old"), user("2"), context=context)
        assert prompt == f"old</think>Hello{EOS}<｜User｜>2{ASKING}"

    def test_the_answer_to_a_question_in_the_context(self) -> None:
        assert encode(assistant(reasoning="hm"), context=[user()]) == f"hm</think>Hello{EOS}"

    def test_the_output_of_a_task_in_the_context_has_no_thinking_part(self) -> None:
        prompt = encode(assistant("Search", reasoning="hm"), context=[user(task="action")])
        assert prompt == f"Search{EOS}"

    def test_the_task_of_the_contexts_last_turn_counts_whatever_joined_it(self) -> None:
        context = [user(task="query"), result()]
        assert encode(assistant("weather", reasoning="hm"), context=context) == f"weather{EOS}"
        for context in ([user(), user(task="query")], [user(task="query"), user()]):
            assert encode(assistant(reasoning="hm"), context=context) == f"hm</think>Hello{EOS}"

    def test_a_context_may_vanish_as_a_whole(self) -> None:
        assert encode(user(), context=[developer()]) == f"<｜User｜>Hi{ASKING}"

    def test_every_new_turn_is_written_whatever_the_context_ends_with(self) -> None:
        # The released function passes over the first new turn here.
        context = [user(), assistant(), developer(), assistant()]
        assert encode(user("2"), context=context) == f"<｜User｜>2{ASKING}"
