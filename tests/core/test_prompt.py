"""What encoding gives: the text, its pieces with their origins, and text that spells a token."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import dsv4
from builders import *
from dsv4 import Piece, Prompt, Special

Row = tuple[str, str, int | None, str]


def rows(*messages: Any, **options: Any) -> list[Row]:
    """Text, origin, message and field of each piece, without BOS."""
    options = {"bos": False, **options}
    return [
        (piece.text, piece.origin, piece.message, piece.field)
        for piece in dsv4.encode(list(messages), **options).pieces
    ]


class TestText:
    def test_str_is_the_exact_prompt(self) -> None:
        prompt = dsv4.encode([user()])
        assert str(prompt) == f"{BOS}<｜User｜>Hi<｜Assistant｜><think>"
        assert len(prompt) == len(str(prompt))

    def test_repr_is_short(self) -> None:
        prompt = dsv4.encode([system("x" * 1000)], dialect="v4.1", thinking=False)
        assert repr(prompt) == f"<Prompt of {len(prompt)} characters, dialect v4.1>"

    def test_knows_its_dialect(self) -> None:
        assert dsv4.encode([user()], dialect="v4.1").dialect is dsv4.DIALECTS["v4.1"]


class TestPieces:
    def test_a_piece(self) -> None:
        bos, opening, content, *_ = dsv4.encode([user()]).pieces
        assert bos == Piece(BOS, True, "template", None, "bos")
        assert opening == Piece("<｜User｜>", True, "template", 0, "header")
        assert content == Piece("Hi", False, "caller", 0, "content")

    def test_special_pieces_are_special_tokens_and_no_others(self) -> None:
        messages = [user("<｜User｜>"), assistant("<think>", tool_calls=[call("f", {"a": EOS})])]
        for piece in dsv4.encode(messages).pieces:
            assert piece.special == isinstance(piece.text, Special)
        specials = [piece.text for piece in dsv4.encode(messages).pieces if piece.special]
        dsml = ["｜DSML｜"] * 6
        assert specials == [
            *(BOS, "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>"),
            *dsml,
            EOS,
        ]

    def test_there_are_no_empty_pieces(self) -> None:
        messages = [system(""), user(""), assistant(""), result(""), calling(call("f"))]
        assert all(piece.text for piece in dsv4.encode(messages).pieces)

    def test_a_chat(self) -> None:
        assert rows(system(), user(), assistant(), user("Bye"), thinking=False) == [
            ("Be brief.", "caller", 0, "content"),
            ("<｜User｜>", "template", 1, "header"),
            ("Hi", "caller", 1, "content"),
            ("<｜Assistant｜>", "template", 2, "header"),
            ("</think>", "template", 2, "header"),
            ("Hello", "model", 2, "content"),
            (EOS, "model", 2, "eos"),
            ("<｜User｜>", "template", 3, "header"),
            ("Bye", "caller", 3, "content"),
            ("<｜Assistant｜>", "template", None, "header"),
            ("</think>", "template", None, "header"),
        ]

    def test_the_model_writes_the_end_of_its_thinking_and_the_prompt_the_start(self) -> None:
        assert rows(user(), assistant(reasoning="hm"))[2:] == [
            ("<｜Assistant｜>", "template", 1, "header"),
            ("<think>", "template", 1, "header"),
            ("hm", "model", 1, "reasoning"),
            ("</think>", "model", 1, "reasoning"),
            ("Hello", "model", 1, "content"),
            (EOS, "model", 1, "eos"),
        ]

    def test_calls_are_the_models(self) -> None:
        pieces = rows(calling(call("f", {"a": "x", "b": 1}), call("g")), thinking=False)
        assert {row[1:] for row in pieces[:-1]} == {("model", 0, "tool_calls")}
        assert pieces[-1] == (EOS, "model", 0, "eos")

    def test_a_turn_left_open_has_no_eos_piece(self) -> None:
        assert rows(assistant("Hel", prefix=True), thinking=False) == [
            ("Hel", "model", 0, "content")
        ]

    def test_effort(self) -> None:
        effort, *rest = rows(system(), effort="max")
        assert effort[1:] == ("template", None, "effort")
        assert rest == [("Be brief.", "caller", 0, "content")]

    def test_reminder_and_developer(self) -> None:
        assert rows(reminder("now"), developer("find"), thinking=False)[:4] == [
            ("<｜latest_reminder｜>", "template", 0, "header"),
            ("now", "caller", 0, "content"),
            ("<｜User｜>", "template", 1, "header"),
            ("find", "caller", 1, "content"),
        ]

    def test_a_header_before_a_reminder_belongs_to_no_message(self) -> None:
        assert rows(user(), reminder("now"), thinking=False)[2:] == [
            ("<｜Assistant｜>", "template", None, "header"),
            ("</think>", "template", None, "header"),
            ("<｜latest_reminder｜>", "template", 1, "header"),
            ("now", "caller", 1, "content"),
        ]

    def test_messages_that_vanish_are_counted(self) -> None:
        assert rows(developer(), assistant("a"), developer(), user())[:3] == [
            ("a", "model", 1, "content"),
            (EOS, "model", 1, "eos"),
            ("<｜User｜>", "template", 3, "header"),
        ]

    def test_messages_are_counted_from_the_first_new_one(self) -> None:
        context = [system(), user(), assistant()]
        assert rows(user("2"), assistant("3"), context=context, thinking=False) == [
            ("<｜User｜>", "template", 0, "header"),
            ("2", "caller", 0, "content"),
            ("<｜Assistant｜>", "template", 1, "header"),
            ("</think>", "template", 1, "header"),
            ("3", "model", 1, "content"),
            (EOS, "model", 1, "eos"),
        ]


class TestUserTurns:
    def test_merged_messages_keep_their_own_index(self) -> None:
        assert rows(user("a"), user("b"), thinking=False)[:4] == [
            ("<｜User｜>", "template", 0, "header"),
            ("a", "caller", 0, "content"),
            ("\n\n", "template", 1, "separator"),
            ("b", "caller", 1, "content"),
        ]

    def test_results_that_change_places_keep_their_own_index(self) -> None:
        calls = calling(call(id="a"), call(id="b"))
        pieces = rows(calls, result("B", of="b"), result("A", of="a"), thinking=False)
        assert pieces[pieces.index(("<｜User｜>", "template", 1, "header")) :] == [
            ("<｜User｜>", "template", 1, "header"),
            ("<tool_result>", "template", 2, "tool_result"),
            ("A", "caller", 2, "content"),
            ("</tool_result>", "template", 2, "tool_result"),
            ("\n\n", "template", 1, "separator"),
            ("<tool_result>", "template", 1, "tool_result"),
            ("B", "caller", 1, "content"),
            ("</tool_result>", "template", 1, "tool_result"),
            ("<｜Assistant｜>", "template", None, "header"),
            ("</think>", "template", None, "header"),
        ]

    def test_what_follows_such_a_turn_is_counted_on(self) -> None:
        calls = calling(call(id="a"), call(id="b"))
        messages = [calls, result("B", of="b"), result("A", of="a"), assistant("done"), user("2")]
        pieces = rows(*messages, thinking=False)
        assert ("<｜Assistant｜>", "template", 3, "header") in pieces
        assert ("done", "model", 3, "content") in pieces
        assert ("2", "caller", 4, "content") in pieces

    def test_what_stands_for_other_content(self) -> None:
        assert rows(result([text("a"), {"type": "video"}]), thinking=False)[1:-2] == [
            ("<tool_result>", "template", 0, "tool_result"),
            ("a", "caller", 0, "content"),
            ("\n\n", "template", 0, "separator"),
            ("[Unsupported ", "template", 0, "content"),
            ("video", "caller", 0, "content"),
            ("]", "template", 0, "content"),
            ("</tool_result>", "template", 0, "tool_result"),
        ]

    def test_images(self) -> None:
        assert rows(user([text("see"), image()]), thinking=False, dialect="v4.1")[:4] == [
            ("<｜User｜>", "template", 0, "header"),
            ("see", "caller", 0, "content"),
            ("\n\n", "template", 0, "separator"),
            ("<｜deepseek_image｜>", "template", 0, "image"),
        ]


class TestExtras:
    SCHEMA = '{"type": "object"}'
    WORDS = (
        "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n"
    )

    def test_tools(self) -> None:
        pieces = rows(user(), system(tools=[function("f")]), thinking=False)[2:]
        assert pieces[0] == ("Be brief.", "caller", 1, "content")
        assert ('{"name": "f"}', "caller", 1, "tools") in pieces
        assert {row[1:] for row in pieces[1:] if row[0] != '{"name": "f"}'} == {
            ("template", 1, "tools")
        }

    def test_response_format(self) -> None:
        assert rows(system(response_format={"type": "object"}))[1:] == [
            (self.WORDS, "template", 0, "response_format"),
            (self.SCHEMA, "caller", 0, "response_format"),
        ]

    def test_of_the_request_on_a_message_of_the_caller(self) -> None:
        pieces = rows(user(), system(), tools=[function("f")])
        assert ('{"name": "f"}', "caller", 1, "tools") in pieces

    @pytest.mark.parametrize("dialect", dsv4.DIALECTS)
    def test_of_the_request_on_no_message(self, dialect: str) -> None:
        pieces = rows(
            *(user("a"), user("b"), assistant("c", reasoning="hm")),
            tools=[function("f")],
            response_format={"type": "object"},
            dialect=dialect,
        )
        assert ('{"name": "f"}', "caller", None, "tools") in pieces
        assert (self.SCHEMA, "caller", None, "response_format") in pieces
        assert [row[2] for row in pieces if row[3] == "tools"][:3] == [None] * 3
        assert ("a", "caller", 0, "content") in pieces
        assert ("b", "caller", 1, "content") in pieces
        assert ("c", "model", 2, "content") in pieces


class TestTasks:
    def test_a_task_belongs_to_the_message_that_carries_it(self) -> None:
        assert rows(user(task="query"), assistant("q"))[1:] == [
            ("Hi", "caller", 0, "content"),
            ("<｜query｜>", "template", 0, "task"),
            ("q", "model", 1, "content"),
            (EOS, "model", 1, "eos"),
        ]

    def test_action(self) -> None:
        assert rows(user(task="action"))[2:] == [
            ("<｜Assistant｜>", "template", None, "header"),
            ("<think>", "template", None, "header"),
            ("<｜action｜>", "template", 0, "task"),
        ]

    def test_though_a_result_joined_it(self) -> None:
        assert rows(user(task="query"), result(), assistant("q"))[-3:] == [
            ("<｜query｜>", "template", 0, "task"),
            ("q", "model", 2, "content"),
            (EOS, "model", 2, "eos"),
        ]

    def test_a_url(self) -> None:
        assert rows(user(task="read_url", extracted_url="https://a.b"))[2:] == [
            ("<｜extracted_url｜>", "template", 0, "task"),
            ("https://a.b", "caller", 0, "extracted_url"),
            ("<｜read_url｜>", "template", 0, "task"),
        ]

    def test_a_title(self) -> None:
        assert rows(assistant("a", task="title"), assistant("b"), thinking=False) == [
            ("a", "model", 0, "content"),
            (EOS, "model", 0, "eos"),
            ("<｜title｜>", "template", 0, "task"),
            ("b", "model", 1, "content"),
            (EOS, "model", 1, "eos"),
        ]


class TestSystemToken:
    """V4.1's opening of the prompt."""

    def test_before_a_system_turn_it_is_that_turns(self) -> None:
        assert rows(system(), dialect="v4.1", thinking=False) == [
            ("<｜System｜>", "template", 0, "header"),
            ("Be brief.", "caller", 0, "content"),
        ]

    def test_before_the_effort_line_alone_it_is_no_messages(self) -> None:
        opening, effort, user_token, *_ = rows(user(), dialect="v4.1")
        assert opening == ("<｜System｜>", "template", None, "header")
        assert effort[1:] == ("template", None, "effort")
        assert user_token == ("<｜User｜>", "template", 0, "header")

    def test_before_both(self) -> None:
        opening, effort, content = rows(system(), dialect="v4.1")
        assert opening == ("<｜System｜>", "template", 0, "header")
        assert effort[1:] == ("template", None, "effort")
        assert content == ("Be brief.", "caller", 0, "content")

    def test_a_later_one(self) -> None:
        assert rows(assistant("a"), system("b"), dialect="v4.1", thinking=False)[2:4] == [
            ("<｜System｜>", "template", 1, "header"),
            ("b", "caller", 1, "content"),
        ]


class TestSpecialText:
    """Where a text spells a special token, which it therefore is not."""

    def spelled(self, *messages: Any, **options: Any) -> list[str]:
        prompt = dsv4.encode(list(messages), **options)
        return [str(prompt)[start:end] for start, end in prompt.special_text]

    def test_none_in_plain_text(self) -> None:
        assert dsv4.encode([system(), user("<b>"), assistant("x < y")]).special_text == []

    def test_the_formats_own_tokens_do_not_count(self) -> None:
        messages = [system(tools=[function()]), user(), calling(call("f", {"a": 1})), result()]
        assert dsv4.encode(messages).special_text == []

    def test_in_every_kind_of_text(self) -> None:
        assert self.spelled(
            system("<｜User｜>", tools=[function("</think>")], response_format={"<think>": 1}),
            user(EOS),
            assistant(
                "<｜title｜>", reasoning=BOS, tool_calls=[call("｜DSML｜", {"a": "<｜query｜>"})]
            ),
            result("<｜Assistant｜>"),
        ) == [
            *("<｜User｜>", "</think>", "<think>", EOS, BOS, "<｜title｜>"),
            *("｜DSML｜", "<｜query｜>", "<｜Assistant｜>"),
        ]

    def test_positions_are_those_of_the_prompt(self) -> None:
        prompt = dsv4.encode([user("a<think>b")], thinking=False)
        start = str(prompt).index("<think>")
        assert prompt.special_text == [(start, start + len("<think>"))]

    def test_pieced_together_from_two_texts(self) -> None:
        assert self.spelled(system("<thi"), system("nk>")) == ["<think>"]
        assert self.spelled(user("<think"), user(">")) == []

    def test_not_with_a_real_token_in_the_middle(self) -> None:
        assert self.spelled(user("<think"), assistant(">")) == []

    def test_tokens_are_those_of_the_dialect(self) -> None:
        assert self.spelled(user("<｜System｜>"), dialect="v4") == []
        assert self.spelled(user("<｜System｜>"), dialect="v4.1") == ["<｜System｜>"]


class TestCopies:
    @pytest.fixture
    def prompt(self) -> Prompt:
        messages = [
            *(system(), reminder(), user([text("<think>"), image()])),
            *(calling(call(id="a"), call(id="b")), result("B", of="b"), result("A", of="a")),
        ]
        return dsv4.encode(messages, tools=[function()], effort=3, dialect="v4.1")

    @pytest.mark.parametrize(
        "copied",
        [
            copy.copy,
            copy.deepcopy,
            *(
                lambda prompt, p=protocol: pickle.loads(pickle.dumps(prompt, p))
                for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)
            ),
        ],
    )
    def test_a_copy_has_everything(self, prompt: Prompt, copied: Any) -> None:
        same = copied(prompt)
        assert str(same) == str(prompt)
        assert same.pieces == prompt.pieces
        assert [type(p.text) for p in same.pieces] == [type(p.text) for p in prompt.pieces]
        assert same.special_text == prompt.special_text != []
        assert same.images == prompt.images != []
        assert same.dialect is prompt.dialect
        assert same == prompt
        assert hash(same) == hash(prompt)
        assert (same.dropped, same.ending) == (prompt.dropped, prompt.ending)

    def test_a_later_change_of_the_messages_does_not_show(self) -> None:
        messages = [system(tools=[function("f")]), user("before"), calling(call("f", {"a": 1}))]
        prompt = dsv4.encode(messages)
        text = "".join(piece.text for piece in copy.deepcopy(prompt).pieces)
        messages[0]["tools"][0]["name"] = "g"
        messages[1]["content"] = "after"
        messages[2]["tool_calls"][0]["function"]["arguments"]["a"] = 2
        del messages[1:]
        assert str(prompt) == text
        assert "".join(piece.text for piece in prompt.pieces) == text
