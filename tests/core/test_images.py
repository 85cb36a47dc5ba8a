"""Images and content lists, in the dialects that have them (format.md, section 12)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsv4
from builders import *
from dsv4 import EncodeError
from strategies import texts

TOKEN = "<｜deepseek_image｜>"
ANSWERING = "<｜Assistant｜></think>"
DIALECTS = ("v4-vision", "v4.1")
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def encode(*messages: Any, dialect: str = "v4.1") -> dsv4.Prompt:
    return dsv4.encode(list(messages), thinking=False, bos=False, dialect=dialect)


class TestRecords:
    @every_dialect
    @pytest.mark.parametrize(
        ("block", "record"),
        [
            (image("u"), {"url": "u"}),
            ({"type": "image_url", "image_url": "u"}, {"url": "u"}),
            ({"type": "image", "url": "u"}, {"url": "u"}),
            ({"type": "image", "source": {"data": "AA"}}, {"source": {"data": "AA"}}),
            ({"type": "image", "data": "AA", "url": "u"}, {"url": "u", "data": "AA"}),
            ({"type": "image", "data": "", "url": "u"}, {"url": "u", "data": ""}),
        ],
    )
    def test_what_they_hold(self, block: Any, record: Any, dialect: str) -> None:
        prompt = encode(user([block]), dialect=dialect)
        assert prompt.images == [{"type": "image", **record}]
        assert list(prompt.images[0]) == ["type", *record]

    @every_dialect
    @pytest.mark.parametrize(
        ("block", "place"),
        [
            ({"type": "image_url"}, "image_url"),
            ({"type": "image_url", "image_url": None}, "image_url"),
            ({"type": "image_url", "image_url": {"url": ""}}, "image_url"),
            ({"type": "image_url", "image_url": {}}, "image_url"),
            ({"type": "image"}, "source"),
            ({"type": "image", "url": "", "data": None}, "source"),
        ],
    )
    def test_an_image_needs_a_source(self, block: Any, place: str, dialect: str) -> None:
        for message, path in (
            (user([text("a"), block]), ("content", 1)),
            (result([block]), ("content", 0)),
            (assistant([block]), ("content", 0)),
            (user([{"type": "tool_result", "content": [block]}]), ("content", 0, "content", 0)),
        ):
            with pytest.raises(EncodeError, match=r"found .*, expected") as caught:
                encode(message, dialect=dialect)
            assert caught.value.location == ("messages", 0, *path, place)


class TestLists:
    @every_dialect
    def test_items_of_a_users_list_are_blocks(self, dialect: str) -> None:
        items = [text("a"), image(), {"type": "audio"}, {"type": "tool_result", "content": "r"}]
        assert str(encode(user(items), dialect=dialect)) == (
            f"<｜User｜>a\n\n{TOKEN}\n\n[Unsupported audio]"
            f"\n\n<tool_result>r</tool_result>{ANSWERING}"
        )

    @every_dialect
    def test_an_empty_list_adds_no_separator(self, dialect: str) -> None:
        assert str(encode(user([]), user("b"), dialect=dialect)) == f"<｜User｜>b{ANSWERING}"
        assert str(encode(user("a"), user([]), dialect=dialect)) == f"<｜User｜>a{ANSWERING}"

    @every_dialect
    def test_on_other_roles_texts_and_images_are_joined(self, dialect: str) -> None:
        items = [text("a"), {"type": "audio"}, "b", 5, image()]
        assert str(encode(system(items), dialect=dialect)).endswith(f"a\n\n{TOKEN}")
        assert str(encode(assistant(items), dialect=dialect)) == f"a\n\n{TOKEN}{EOS}"
        assert str(encode(reminder(items), dialect=dialect)).endswith(f"｜>a\n\n{TOKEN}")
        assert f"<tool_result>a\n\n{TOKEN}</tool_result>" in str(
            encode(result(items), dialect=dialect)
        )

    def test_a_developers_too(self) -> None:
        prompt = encode(developer([image()]), dialect="v4-vision")
        assert str(prompt) == f"<｜User｜>{TOKEN}{ANSWERING}"
        with pytest.raises(EncodeError, match="expected the text of a developer turn"):
            encode(developer([{"type": "audio"}]), dialect="v4-vision")

    @every_dialect
    @pytest.mark.parametrize("item", ["a", 5, None, text(None), {"type": "text"}])
    def test_what_is_no_block_of_a_users_list(self, item: Any, dialect: str) -> None:
        with pytest.raises(EncodeError, match=r"^messages\[0\]\.content\[0\]"):
            encode(user([item]), dialect=dialect)

    @every_dialect
    def test_results_in_a_list_are_sorted_too(self, dialect: str) -> None:
        blocks = [
            {"type": "tool_result", "tool_use_id": id, "content": id.upper()} for id in ("b", "a")
        ]
        blocks.insert(1, text("and"))
        prompt = encode(calling(call(id="a"), call(id="b")), user(blocks), dialect=dialect)
        assert str(prompt).endswith(
            f"<｜User｜><tool_result>A</tool_result>\n\nand\n\n<tool_result>B</tool_result>{ANSWERING}"
        )


class TestContentBlocks:
    @every_dialect
    def test_take_the_place_of_a_users_content(self, dialect: str) -> None:
        prompt = encode(user("a", content_blocks=[text("b"), image()]), dialect=dialect)
        assert str(prompt) == f"<｜User｜>b\n\n{TOKEN}{ANSWERING}"
        assert str(encode(user("a", content_blocks=None), dialect=dialect)) == (
            f"<｜User｜>a{ANSWERING}"
        )

    @every_dialect
    def test_and_of_a_list_on_other_roles(self, dialect: str) -> None:
        message = assistant([text("a")], content_blocks=[text("b")])
        assert str(encode(message, dialect=dialect)) == f"b{EOS}"

    @every_dialect
    def test_beside_a_text_they_are_not_written(self, dialect: str) -> None:
        prompt = encode(assistant("a", content_blocks=[text("b"), image("u")]), dialect=dialect)
        assert str(prompt) == f"a{EOS}"
        assert prompt.images == []
        assert prompt.dropped == (dsv4.Omission(0, "content_blocks", "unread"),)

    @every_dialect
    def test_empty_ones_leave_the_users_text(self, dialect: str) -> None:
        alone = encode(user("a", content_blocks=[]), dialect=dialect)
        assert str(alone) == str(encode(user("a"), dialect=dialect))
        assert alone.dropped == ()

    @every_dialect
    def test_but_as_released_not_in_a_turn_with_other_blocks(self, dialect: str) -> None:
        joined = encode(user("a", content_blocks=[]), user("b"), dialect=dialect)
        assert str(joined) == str(encode(user("b"), dialect=dialect))
        assert joined.dropped == (dsv4.Omission(0, "content", "unread"),)

    def test_errors_name_them(self) -> None:
        with pytest.raises(EncodeError) as caught:
            encode(user("a", content_blocks=[text("b"), 5]))
        assert caught.value.location == ("messages", 0, "content_blocks", 1)


@every_dialect
def test_pieces(dialect: str) -> None:
    pieces = encode(assistant([text("a"), image()]), dialect=dialect).pieces
    assert [(p.text, p.origin, p.field) for p in pieces] == [
        ("a", "model", "content"),
        ("\n\n", "model", "content"),
        (TOKEN, "template", "image"),
        (EOS, "model", "eos"),
    ]


def test_later_turns_of_the_system_ask_in_v41_alone() -> None:
    messages = [system("s"), assistant("a"), system("t")]
    assert str(encode(*messages)).endswith(f"<｜System｜>t{ANSWERING}")
    assert str(encode(*messages, dialect="v4-vision")).endswith(f"a{EOS}t")


blocks = st.one_of(
    texts.map(text), st.integers(0, 9).map(lambda n: image(f"{n}.png")), st.just({"type": "audio"})
)
lists = st.lists(
    blocks | st.builds(lambda inner: {"type": "tool_result", "content": inner}, st.lists(blocks)),
    max_size=4,
)
messages = st.lists(
    st.one_of(
        st.builds(user, texts | lists),
        st.builds(user, texts, content_blocks=lists),
        st.builds(result, texts | lists, st.sampled_from(["a", "b", None])),
        st.builds(system, texts | lists),
        st.builds(assistant, texts | lists),
        st.just(calling(call(id="a"), call(id="b"))),
        st.builds(reminder, texts | lists),
    ),
    min_size=1,
    max_size=6,
)


@given(messages, st.sampled_from(DIALECTS), st.booleans())
def test_every_token_has_its_record(messages: list[Any], dialect: str, thinking: bool) -> None:
    prompt = dsv4.encode(messages, thinking=thinking, dialect=dialect)
    shown = [piece for piece in prompt.pieces if piece.field == "image"]
    assert all(piece.special and piece.text == TOKEN for piece in shown)
    assert len(prompt.images) == len(shown)
    assert "".join(piece.text for piece in prompt.pieces) == prompt.text
    assert prompt.text.startswith(BOS)
