"""Where in a line prose stands, and whether in a code fence."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsv4._parse.lines import LineTracker
from parts import fewer


def after(*pieces: str) -> LineTracker:
    lines = LineTracker()
    for piece in pieces:
        lines.follow(piece)
    return lines


class TestFences:
    @pytest.mark.parametrize(
        "text",
        [
            *("```\n", "```python\n", "```python title=x\n", "~~~\n", "~~~ x ` y\n", "````\n```\n"),
            *(
                "   ```\n",
                "      ```\n",
                "- ```js\n",
                "1. ```\n",
                "> ```\n> ",
                "> a\n> ```\n> x\n>",
                "- > ```\n  > ",
                "Here: ```js\n",
                "a ~~~\n",
            ),
            *("~~~\n```\n", "```\n~~~\n", "```\n``\n", "```\nx ```\n", "```\n```js\n", "a```\nx"),
        ],
    )
    def test_open(self, text: str) -> None:
        assert after(text).fenced
        assert after(*text).fenced

    @pytest.mark.parametrize(
        "text",
        [
            *(
                "```\nx\n```\n",
                "~~~\nx\n~~~~\n",
                "````\n```\n````\n",
                "- ```\n  x\n  ```\n",
                "``\n",
            ),
            *(
                "```ls```\n",
                "```a``` b\n",
                "use ```a``` and ```b```\n",
                "Type ``` first.\n",
                "`x`\n",
            ),
            # A fence that stands in a quotation ends with it.
            *("> ```\n> x\n> ```\n", ">~~~\n>~~~\n", "> ```\n", "> ```\nx\n> ", "> ```\n\n> "),
            *("> ```\n`a` > b", "1``` a b\n", "-~~~ a b\n"),
            *("a ~~b~~ c\n", "```\nx\n   ```  \n", "``````\nx\n``````\n", "```a`\n", "x `` y\n"),
        ],
    )
    def test_not_open(self, text: str) -> None:
        assert not after(text).fenced
        assert not after(*text).fenced

    def test_what_may_be_one_in_this_line(self) -> None:
        assert after("```x").fenced
        assert after("see ``` x").fenced
        assert after("see ```js ~~~").fenced
        assert after(*"see ```js ~~~").fenced
        assert not after("see ``` x ``` y").fenced


class TestBlank:
    @pytest.mark.parametrize("text", ["", "\n", "a\n", "a\n  ", " \t", "a\n\n"])
    def test_a_marker_would_open_the_line(self, text: str) -> None:
        assert after(text).blank

    @pytest.mark.parametrize("text", ["a", "\na", "`", "- "])
    def test_or_not(self, text: str) -> None:
        assert not after(text).blank

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("\n\n", True),
            ("a\n\n", True),
            ("a\n \n", True),
            ("a\n", False),
            ("", False),
            ("\n", True),
        ],
    )
    def test_after_a_blank_line(self, text: str, expected: bool) -> None:
        assert after(text).after_blank is expected
        assert after(*text).after_blank is expected


@settings(max_examples=fewer(3000, 10))
@given(st.lists(st.text("`~a -1.>\n\t", max_size=5) | st.sampled_from(("```", "~~~"))))
def test_pieces_make_no_difference(pieces: list[str]) -> None:
    text = "".join(pieces)
    whole, cut, in_characters = after(text), after(*pieces), after(*text)
    for name in ("fenced", "blank", "after_blank"):
        assert getattr(whole, name) == getattr(cut, name) == getattr(in_characters, name), name
