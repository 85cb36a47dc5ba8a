"""Pages of Markdown: short lines, links that lead somewhere, and a script that wraps them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loading import ROOT, loaded

wrap_markdown = loaded("scripts/wrap_markdown.py")
DOCUMENTS = wrap_markdown.documents()
every_document = pytest.mark.parametrize(
    "path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT))
)

LINK = re.compile(r"\]\((?![a-z]+:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(markdown: str) -> set[str]:
    """What a link may name: headings as forges spell them, and ids."""
    prose = re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    slugs = (re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(prose))
    return {slug.replace(" ", "-") for slug in slugs} | set(re.findall(r'id="([^"]+)"', markdown))


def test_there_are_documents() -> None:
    names = {path.name for path in DOCUMENTS}
    assert {"README.md", "format.md", "recovery.md", "CONTRIBUTING.md", "SECURITY.md"} <= names


@every_document
def test_lines_are_short(path: Path) -> None:
    long = list(wrap_markdown.too_long(path.read_text("utf-8")))
    assert not long, f"{path}: `make format` wraps these lines: {[number for number, _ in long]}"


@every_document
def test_links_lead_somewhere(path: Path) -> None:
    for link in LINK.finditer(path.read_text("utf-8")):
        target = path.parent / link["path"] if link["path"] else path
        assert target.exists(), f"{path}: {link[0]}"
        if link["anchor"] and target.suffix == ".md":
            assert link["anchor"] in anchors(target.read_text("utf-8")), f"{path}: {link[0]}"


class TestWrapping:
    def test_a_paragraph(self) -> None:
        text = "word " * 60
        wrapped = wrap_markdown.wrapped(text)
        assert wrapped.split() == text.split()
        assert max(map(len, wrapped.splitlines())) <= wrap_markdown.LIMIT

    def test_items_hang(self) -> None:
        wrapped = wrap_markdown.wrapped("- " + "word " * 60 + "\n10. " + "word " * 60)
        lines = wrapped.splitlines()
        assert [line[:4] for line in lines] == ["- wo", "  wo", "  wo", "10. ", "    ", "    "]

    @pytest.mark.parametrize(
        "text",
        [
            "| a table | " + "word " * 40 + "|\n",
            "```python\n" + "word " * 60 + "\n```\n",
            "# " + "word " * 40 + "\n",
            "<!-- " + "word " * 40 + "-->\n",
            "short\nlines\nstay\n",
        ],
    )
    def test_what_stays(self, text: str) -> None:
        assert wrap_markdown.wrapped(text) == text
        assert not list(wrap_markdown.too_long(text))

    def test_links_and_code_stay_whole(self) -> None:
        link = "[a text of words](https://example.com/" + "a" * 100 + ")"
        wrapped = wrap_markdown.wrapped("word " * 20 + link + " `some code here` " + "word " * 20)
        assert link in wrapped
        assert "`some code here`" in wrapped

    def test_no_line_turns_into_an_item(self) -> None:
        text = "word " * 23 + "- 1. # word " * 10
        assert not any(
            wrap_markdown.ITEM.match(line) for line in wrap_markdown.wrapped(text).splitlines()
        )

    def test_once_is_enough(self) -> None:
        text = "word " * 23 + "- 1. # word " * 10 + "`code` " * 50
        wrapped = wrap_markdown.wrapped(text)
        assert wrap_markdown.wrapped(wrapped) == wrapped

    def test_long_lines_are_found(self) -> None:
        assert list(wrap_markdown.too_long("short\n" + "a" * 120)) == [(2, "a" * 120)]
