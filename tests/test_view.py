"""A prompt as rows, and in a notebook."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsv4
from builders import Model, assistant, image, system, user
from dsv4._view.characters import terminal_safe, width_of
from dsv4._view.html_page import css_classes_and_text, html_page
from dsv4._view.terminal_lines import ansi_lines, terminal_lines
from dsv4._view.view_rows import HEAD_LINES, MOVED, folded_row, roles_in, view_of
from dsv4.tokens import Tokenizer
from test_image_ids import SCREENSHOT

CALL = {"id": "a", "function": {"name": "f", "arguments": "{}"}}
MESSAGES = [
    system("Be brief."),
    user("Go."),
    assistant("", tool_calls=[CALL], reasoning="Hm."),
    {"role": "tool", "tool_call_id": "a", "content": "42"},
    user("And?"),
    {"role": "latest_reminder", "content": "Now."},
    user("So?"),
]


def test_the_prompt_shows_the_roles() -> None:
    prompt = dsv4.encode(MESSAGES, tools=[{"name": "f"}])
    assert roles_in(prompt) == {n: message["role"] for n, message in enumerate(MESSAGES)}


def test_rows_add_up_to_the_prompt() -> None:
    prompt = dsv4.encode(MESSAGES, tools=[{"name": "f"}])
    text = "".join(
        segment.text for row in view_of(prompt).rows for line in row.lines for segment in line
    )
    assert text.replace("⏎", "\n").replace("·", " ") == str(prompt)


def originals(prompt: dsv4.Prompt) -> str:
    segments = (s for row in view_of(prompt).rows for line in row.lines for s in line)
    return "".join(s.text if s.original is None else s.original for s in segments)


@given(st.text())
def test_every_sign_knows_what_it_stands_for(text: str) -> None:
    prompt = dsv4.encode([user(text)])
    assert originals(prompt) == str(prompt)


@given(st.text("a \t\r\x07\ud7fc"))
def test_a_page_keeps_tabs_whatever_stands_beside_them(text: str) -> None:
    segments = [
        s for row in view_of(dsv4.encode([user(text)])).rows for line in row.lines for s in line
    ]
    assert "".join(css_classes_and_text(segment)[1] for segment in segments).count(
        "\t"
    ) == text.count("\t")


@pytest.mark.parametrize("around", ["", "a"])
def test_text_that_spells_a_token_is_flagged(around: str) -> None:
    spelled = str(dsv4.DIALECTS["v4"].special_tokens[0])
    rows = view_of(dsv4.encode([user(f"{around}{spelled}{around}")])).rows
    flagged = [s.text for row in rows for line in row.lines for s in line if s.style == "flag"]
    assert "".join(flagged) == spelled


@given(st.text(), st.sampled_from([60, 100, 200]), st.booleans())
def test_no_line_is_too_wide(text: str, width: int, signs: bool) -> None:
    prompt = dsv4.encode([*MESSAGES, user(text)], tools=[{"name": "f", "description": text}])
    view = view_of(prompt, [*MESSAGES, user(text)], policy=None)
    lines = list(terminal_lines(view, width, True, signs))
    for segments in lines:  # in colour, a space at the end takes a column too
        assert width_of("".join(segment.text for segment in segments)) <= width
    for line in ansi_lines(lines, color=False):
        assert terminal_safe(line.rstrip("\n")) == line.rstrip("\n")


def test_no_token_of_a_conversation_sticks_out() -> None:
    view = view_of(dsv4.encode(MESSAGES, tools=[{"name": "f"}]), MESSAGES)
    for width in range(60, 120):
        for segments in terminal_lines(view, width, unfold=True, signs=False):
            assert width_of("".join(segment.text for segment in segments)) <= width


def test_results_in_another_order_say_so() -> None:
    calls = [{**CALL, "id": id} for id in "ab"]
    results = [{"role": "tool", "tool_call_id": id, "content": id} for id in "ba"]
    rows = view_of(dsv4.encode([user(), assistant("", tool_calls=calls), *results])).rows
    assert [row.message for row in rows if row.note == MOVED] == [3, 2]


def test_what_a_mask_lets_a_model_learn() -> None:
    rows = view_of(dsv4.encode(MESSAGES), policy="calls").rows
    assert {row.field for row in rows if row.trained} == {"tool_calls"}
    assert {row.trained for row in view_of(dsv4.encode(MESSAGES)).rows} == {None}


class TestGhosts:
    """What the conversation has and the prompt does not."""

    DROPPED = (user(), assistant(reasoning="Hm."), user("Bye"))

    def test_dropped_reasoning(self) -> None:
        prompt = dsv4.encode(self.DROPPED)
        rows = view_of(prompt, self.DROPPED).rows
        ghosts = [(n, row) for n, row in enumerate(rows) if row.ghost]
        ((place, ghost),) = ghosts
        assert (ghost.message, ghost.field, ghost.tokens) == (1, "reasoning", None)
        assert ghost.ghost == "dropped: reasoning before the last user turn is left out"
        assert (rows[place - 1].field, rows[place + 1].field) == ("header", "content")

    @pytest.mark.parametrize("sampled", [False, True])
    def test_of_what_parsing_gave(self, sampled: bool) -> None:
        answer = dsv4.parse("Hm.</think>Hello")
        given = dsv4.Sampled(answer, text="Hm.</think>Hello") if sampled else answer
        messages = [Model(user("Go.")), given, Model(user("And?"))]
        rows = view_of(dsv4.encode(messages), messages).rows
        assert {row.message: row.role for row in rows if row.message is not None} == {
            0: "user",
            1: "assistant",
            2: "user",
        }
        (ghost,) = (row for row in rows if row.ghost)
        assert [segment.text for line in ghost.lines for segment in line] == ["Hm."]

    def test_vanished_messages(self) -> None:
        messages = [{"role": "developer", "content": "Be kind."}, user()]
        prompt = dsv4.encode(messages)
        ghosts = [row for row in view_of(prompt, messages).rows if row.ghost]
        assert [(ghost.message, ghost.role) for ghost in ghosts] == [(0, "developer")]

    def test_a_page_marks_them(self) -> None:
        view = view_of(dsv4.encode(self.DROPPED), self.DROPPED)
        rows = re.findall(r'<span class="(row[^"]*)"', html_page(view, "", unfold=False))
        assert ["ghost" in classes for classes in rows] == [bool(row.ghost) for row in view.rows]


class TestFolding:
    def test_a_long_text_is_cut_into_two(self) -> None:
        for text in ("line\n" * 100, "x" * 10_000, "a  b\n" * 3 + "y" * 9_000):
            row = view_of(dsv4.encode([user(text)])).rows[2]
            folded = folded_row(row)
            assert folded.summary
            both = [s.text for line in (*folded.head, *folded.rest) for s in line]
            assert "".join(both) == "".join(s.text for line in row.lines for s in line)
            assert len(folded.head) <= HEAD_LINES

    def test_a_short_one_is_not(self) -> None:
        row = view_of(dsv4.encode([user("Hi\n" * 16)])).rows[2]
        assert folded_row(row) == (row.lines, (), None)


def test_a_notebook_shows_a_prompt() -> None:
    page = dsv4.encode([user("<script>alert(1)</script>")])._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert 'class="dsv4"' in page


class TestImages:
    """With the real vocabulary: what an image costs is said where tokens are."""

    def page(self, *blocks: Any) -> str:
        prompt = dsv4.encode([user([*blocks])], dialect="v4.1")
        return html_page(view_of(prompt, None, Tokenizer.load()), "a prompt", False)

    def test_a_picture_is_drawn_small_with_its_cost(self) -> None:
        page = self.page(SCREENSHOT)
        url = SCREENSHOT["image_url"]["url"]
        caption = "image 1, 1920 × 1080, 41 × 23 cells, 968 tokens"
        assert f'<img src="{url}" alt="{caption}">' in page
        assert f'<i class="note image">{caption}</i>' in page
        assert "img-src data:" in page

    @pytest.mark.parametrize(
        "url",
        [
            'https://a.b/"><script>alert(1)</script>.png',
            "data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIi8+",
            'data:image/png;base64,"><script>',
        ],
    )
    def test_nothing_else_is(self, url: str) -> None:
        page = self.page(image(url))
        assert "<img" not in page
        assert "<script>alert" not in page
        assert "size not known" in page
