"""`dsv4 docs`, and that whatever sends a reader to a page names one that is installed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

import pytest
from running import dsv4

from dsv4._why.doc_pages import doc_pages
from loading import ROOT

SOURCE = ROOT / "src" / "dsv4"
# Not the file of instructions that Codex puts into its conversations under this name.
MARKDOWN_FILE = re.compile(r"(?<=[\w-])(?<!AGENTS)\.md\b")
SENT_TO = re.compile(r"dsv4 docs ([\w-]+)")


def test_pages_are_listed_with_their_titles() -> None:
    said = dsv4("docs").stdout.decode()
    assert re.search(r"^why-dsml +Why do I see", said, re.MULTILINE)
    assert len(said.splitlines()) == len(list(ROOT.glob("docs/*.md")))


@pytest.mark.parametrize("name", ["why-dsml", "why-dsml.md", "docs/why-dsml.md#which-cause-is-it"])
def test_a_page_is_printed_as_it_is(name: str) -> None:
    assert dsv4("docs", name).stdout == (ROOT / "docs/why-dsml.md").read_bytes()


def test_a_page_that_is_not_there() -> None:
    done = dsv4("docs", "why-dsmx")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"did you mean why-dsml?" in done.stderr


def shown_texts(source: str) -> Iterator[str]:
    """The texts of a module that a reader may see: all but its docstrings."""
    nodes = list(ast.walk(ast.parse(source)))
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documentation = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, holders) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            documentation.add(id(node.value))  # the text below a public value
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in documentation:
            yield node.value


@lru_cache
def all_shown_texts() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text("utf-8")
        if MARKDOWN_FILE.search(source) or "dsv4 docs" in source:
            found += ((path.name, text) for text in shown_texts(source))
    for pattern in ("*.json", "*.js", "*.html", "*.txt"):
        for path in sorted(SOURCE.rglob(pattern)):
            if "vendor" in path.parts:  # what others wrote sends nobody to our pages
                continue
            text = re.sub(r"^\s*(?://|\*|/\*).*$", "", path.read_text("utf-8"), flags=re.MULTILINE)
            found.append((path.name, text))
    return found


def test_nobody_is_sent_to_a_file_of_the_repository() -> None:
    """A wheel has no docs/: `dsv4 docs NAME` works everywhere."""
    sent = [
        (name, text[max(found.start() - 30, 0) : found.end()])
        for name, text in all_shown_texts()
        for found in MARKDOWN_FILE.finditer(text)
    ]
    assert sent == []


def test_every_page_that_a_reader_is_sent_to_exists() -> None:
    named = {page for _, text in all_shown_texts() for page in SENT_TO.findall(text)}
    assert {"why-dsml", "format", "recovery", "playground-guide"} <= named
    assert named - {"NAME"} <= set(doc_pages())
