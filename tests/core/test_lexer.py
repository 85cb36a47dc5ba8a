"""Tags one at a time, with no context: what is one, what is none, what may become one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completions import DSML
from dsv4._parse.lexer import read_tag
from dsv4._parse.tag import PartialTag, Tag
from dsv4._parse.text_buffer import TextBuffer


def read(text: str, final: bool = False) -> Tag | PartialTag | None:
    source = TextBuffer(read_tag)
    source.append(text)
    source.final = final
    return source.tag_at(0)


def read_slowly(text: str, final: bool = False) -> Tag | PartialTag | None:
    """The same, character by character."""
    source = TextBuffer(read_tag)
    found: Tag | PartialTag | None = None
    for character in text:
        source.append(character)
        found = source.tag_at(0)
    source.final = final
    return source.tag_at(0) if final else found


def seen(found: Tag | PartialTag | None) -> Any:
    if not isinstance(found, Tag):
        return found
    names = ("kind", "label", "raw", "closing", "self_closed", "marked", "bare", "broken")
    return *(getattr(found, name) for name in names), tuple(found.attributes.items())


def tag(text: str) -> Tag:
    found = read(text)
    assert isinstance(found, Tag), found
    assert seen(read_slowly(text)) == seen(found)
    return found


class TestHeads:
    @pytest.mark.parametrize(
        "head",
        [
            *(
                f"<{DSML}",
                "<|DSML|",
                "<||DSML||",
                "<‖DSML‖",
                "<DSML",
                "<dsml|",
                "<｜DSML",
                "<DSML｜",
            ),
            *(
                "< | DSML | ",
                "< ｜DSML｜",
                "<|DSML|\n",
                "＜｜DSML｜",
                "<│DSML│",
                "<¦DSML¦",
                "<ǀDsMlǀ",
            ),
        ],
    )
    def test_spellings_of_the_token(self, head: str) -> None:
        found = tag(f'{head}invoke name="f">')
        assert (found.kind, found.name, found.marked, found.closing) == ("invoke", "f", True, False)

    @pytest.mark.parametrize("head", [f"</{DSML}", f"<{DSML}/", "</ | DSML | ", "＜/｜DSML｜"])
    def test_closing_ones(self, head: str) -> None:
        found = tag(f"{head}invoke>")
        assert (found.kind, found.closing, found.marked) == ("invoke", True, True)

    @pytest.mark.parametrize(
        "text", ["< DSML call x", "<\nDSML call x", f"{DSML} is it now", "<1", "<<"]
    )
    def test_what_is_none(self, text: str) -> None:
        assert read(text) is read_slowly(text) is None

    @pytest.mark.parametrize(
        ("text", "kind", "closing"),
        [
            *(("<think>", "think", False), ("</think>", "think", True)),
            *(("< /think>", "think", True), ("</ think>", "think", True)),
            *(("<｜end▁of▁sentence｜>", "eos", False), ("<｜User｜>", "role", False)),
        ],
    )
    def test_tokens(self, text: str, kind: str, closing: bool) -> None:
        found = tag(text)
        assert (found.kind, found.closing, found.end) == (kind, closing, len(text))

    def test_ordinary_text_that_spells_one_is_text(self) -> None:
        for text in ("<think>x", f"<{DSML}invoke>"):
            source = TextBuffer(read_tag)
            source.append(text, inert=True)
            found = source.tag_at(0)
            assert found is None or (isinstance(found, Tag) and not found.marked)
        source = TextBuffer(read_tag)
        source.append("<", inert=True)
        source.append(DSML)
        source.append("invoke>", inert=True)
        found = source.tag_at(0)
        assert isinstance(found, Tag)
        assert found.marked

    def test_without_a_bracket(self) -> None:
        found = tag(f"{DSML}invoke>")
        assert (found.bare, found.closing, found.kind) == (True, True, "invoke")
        assert tag(f"{DSML} invoke>").label == "invoke"
        assert read(f"{DSML}  invoke>") is None
        assert read(f"{DSML}invoke now>") is None

    def test_a_close_without_a_name(self) -> None:
        found = tag(f"</{DSML}>")
        assert (found.label, found.closing) == ("", True)


class TestAttributes:
    @pytest.mark.parametrize(
        "text",
        [
            'name="f" string="true"',
            "name='f' string='true'",
            "name=f string=true",
            "name=“f” string=“true”",
            'name = "f"  string = "true" ',
            'name="f"\n  string="true"',
            'Name="f" STRING="true"',
            'string="true" name="f"',
            'name="f"string="true"',
            'name="f" string="true" |',
        ],
    )
    def test_forms(self, text: str) -> None:
        found = tag(f"<{DSML}parameter {text}>")
        assert (found.name, found.string) == ("f", "true")

    def test_the_name_after_the_tag(self) -> None:
        assert tag(f'<{DSML}invoke="f">').name == "f"
        assert tag(f'<{DSML}parameter="k" string="true">').name == "k"

    @pytest.mark.parametrize("name", ["a", "div", "elsewhere", "x" * 70, "/b", "|c"])
    def test_what_has_no_name_of_its_own(self, name: str) -> None:
        text = f'<{name}="x">'
        assert read(text) is read_slowly(text) is None

    @pytest.mark.parametrize(
        "text",
        [
            *('name="q" allowfullscreen', 'name="q" {...props}', 'name="q"b c="d"', "is reserved"),
            *('name="a\n\nb"', 'name="a</think>"', f'name="a<{DSML}"', 'name="<｜User｜>"'),
        ],
    )
    def test_what_no_tag_holds(self, text: str) -> None:
        assert read(f"<tool {text}>") is None
        broken = tag(f"<{DSML}tool {text}>")
        assert broken.broken

    @pytest.mark.parametrize("name", ['a"b', 'a" b', "a>b", "<b", "a'b", ""])
    def test_a_tag_in_the_strict_spelling_is_one(self, name: str) -> None:
        found = tag(f'<{DSML}parameter name="{name}" string="true">')
        assert (found.name, found.string, found.broken) == (name, "true", False)

    @pytest.mark.parametrize(
        ("value", "meant"),
        [
            ('"{"a": "b"}"', '{"a": "b"}'),
            ('"{"a": "}"}"', '{"a": "}"}'),
            ('"{\\"a\\": 1}"', '{"a": 1}'),
            ("'{\"a\": 1}'", '{"a": 1}'),
        ],
    )
    def test_an_object_ends_where_it_ends(self, value: str, meant: str) -> None:
        found = tag(f'<{DSML}invoke name="f" arguments={value}/>')
        assert (found.attributes["arguments"], found.self_closed) == (meant, True)


class TestEnds:
    @pytest.mark.parametrize("end", [">", "＞", "<", "＜"])
    @pytest.mark.parametrize("start", ["<", "</", "＜", "＜/"])
    @pytest.mark.parametrize(
        "name", ["x", "div", "section", "blockquote", "x:invoke", "tools", "dialogues", "thinker"]
    )
    def test_a_name_and_nothing_else(self, start: str, name: str, end: str) -> None:
        found = tag(f"{start}{name}{end}")
        assert found.raw == f"{start}{name}{end}".rstrip("<＜")
        assert (found.label, found.closing, found.marked) == (name, "/" in start, False)

    @pytest.mark.parametrize("name", ["x", "section", "blockquotes"])
    def test_a_name_may_go_on(self, name: str) -> None:
        assert read(f"<{name}") is read_slowly(f"<{name}") is PartialTag.NAME

    @pytest.mark.parametrize(
        ("text", "end"),
        [
            (f"<{DSML}tool_calls>", ">"),
            (f"<{DSML}tool_calls｜>", ">"),
            (f"<{DSML}tool_calls <b", " "),
            (f"<{DSML}tool_calls\n<b", "s"),
            (f"<{DSML}tool_calls\nfoo bar", "s"),
            (f'<{DSML}invoke name="f"\nx y', '"'),
            (f'<{DSML}invoke name="f" \n />', ">"),
        ],
    )
    def test_with_a_bracket_or_without(self, text: str, end: str) -> None:
        found = tag(text)
        assert found.raw[-1] == end

    @pytest.mark.parametrize(
        ("text", "partial"),
        [
            *(("<", PartialTag.MAYBE), ("<t", PartialTag.MAYBE), ("<to", PartialTag.NAME)),
            *(
                ("<tool ", PartialTag.PLAIN),
                (f"<{DSML}", PartialTag.SURELY),
                ("< | DS", PartialTag.MAYBE),
            ),
            (f'<{DSML}invoke name="', PartialTag.SURELY),
        ],
    )
    def test_what_may_become_one(self, text: str, partial: PartialTag) -> None:
        assert read(text) is read_slowly(text) is partial

    def test_a_newline_at_the_end_of_all_text_ends_it(self) -> None:
        found = read(f"<{DSML}tool_calls\n", final=True)
        assert isinstance(found, Tag)
        assert read(f"<{DSML}tool_calls", final=True) is PartialTag.SURELY

    @pytest.mark.parametrize("again", [" ", "x", ' a="1"', " a=1", "\n"])
    @pytest.mark.parametrize("start", ["<tool", f"<{DSML}invoke", f'<{DSML}invoke name="'])
    def test_what_is_too_long_is_none(self, start: str, again: str) -> None:
        text = start + again * 1100 + ">"
        assert seen(read(text)) == seen(read_slowly(text))
        found = read(text)
        assert found is None or (isinstance(found, Tag) and (found.broken or found.end < 1025))


PARTS = (
    *("<", "</", ">", "/>", DSML, "|DSML|", "invoke", "parameter", "tool_calls", "x", " ", "\n"),
    *('name="', '"', "'", "=", "string=true", "{", "}", "\\", "“", "<think>", "｜", "\n\n", "a b"),
)


@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join), st.booleans())
def test_pieces_make_no_difference(text: str, final: bool) -> None:
    text = f"<{text}"
    whole, slow = read(text, final), read_slowly(text, final)
    if isinstance(whole, PartialTag) and isinstance(slow, PartialTag):
        return
    assert seen(whole) == seen(slow)
