"""Comments cite their sources: "format.md, section 3", "rules 5 and 12". They are there.

A section is one of docs/format.md, and a rule one of docs/recovery.md, where no other page is
named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(ROOT.joinpath("src").rglob("*.py"))
TESTS = sorted(ROOT.joinpath("tests").rglob("*.py"))
PAGES = sorted(ROOT.joinpath("docs").glob("*.md"))

NUMBER = r"\d+(?:\.\d+)?"
NUMBERS = rf"(?P<numbers>{NUMBER}(?:(?:, and |, | and | or | to ){NUMBER})*)"
CITED = re.compile(rf"\b(?P<kind>section|rule)s? {NUMBERS}", re.IGNORECASE)
LINKED = re.compile(r"#(?P<kind>section|rule)-(?P<number>\d+(?:-\d+)?)")
NAMED_BEFORE = re.compile(r"(?<![\w-])(?P<page>[\w-]+)\.md(?:`?,? )?$")
# More than the name of any page.
BEFORE = 60
PAGE = re.compile(r"(?<![\w/.])(?:docs/)?(?P<name>[\w-]+\.md)\b")
PAGES_OF_OTHERS = {"AGENTS.md"}  # which Codex reads in the projects of its users
PAGE_OF = {"section": "format", "rule": "recovery"}
ANCHORS = {
    page: set(re.findall(r'<a id="(?:section|rule)-([\d-]+)">', text))
    for page in PAGE_OF.values()
    for text in [ROOT.joinpath("docs", f"{page}.md").read_text("utf-8")]
}


@lru_cache
def citations(source: str) -> list[tuple[str, str]]:
    """Pages with the numbers that are cited of them. Comments may go over the end of a line."""
    text = re.sub(r"\s*\n\s*#?\s*", " ", source)
    written = [
        (page_of(found, text), number.replace(".", "-"))
        for found in CITED.finditer(text)
        for number in each_number(found["numbers"])
    ]
    links = [(page_of(found, source), found["number"]) for found in LINKED.finditer(source)]
    return [(page, number) for page, number in (*written, *links) if page in ANCHORS]


def page_of(citation: re.Match[str], text: str) -> str:
    """The page that a citation names before it, or else the one that its kind is of."""
    start = citation.start()
    named = NAMED_BEFORE.search(text[max(start - BEFORE, 0) : start])
    return named["page"] if named else PAGE_OF[citation["kind"].lower()]


def each_number(numbers: str) -> Iterator[str]:
    """Those of "5, 7 to 9 and 12.1", with what "to" leaves out."""
    for part in re.split(", and |, | and | or ", numbers):
        first, _, last = part.partition(" to ")
        between = f"{first}{last}".isdigit() and last
        yield from map(str, range(int(first), int(last))) if between else (first,)
        if last:
            yield last


def test_what_is_cited_is_there() -> None:
    missing = [
        (str(path.relative_to(ROOT)), page, number)
        for path in (*SOURCES, *TESTS, *PAGES)
        if path != Path(__file__)
        for page, number in citations(path.read_text("utf-8"))
        if number not in ANCHORS[page]
    ]
    assert missing == []


def test_pages_that_are_named_are_there() -> None:
    missing = [
        (path.relative_to(ROOT), found["name"])
        for path in SOURCES
        for found in PAGE.finditer(path.read_text("utf-8"))
        if found["name"] not in PAGES_OF_OTHERS
        and not any((place / found["name"]).exists() for place in (ROOT, ROOT / "docs"))
    ]
    assert missing == []


def test_anchors() -> None:
    assert {"1", "13", "12-2", "11-6"} <= ANCHORS["format"]
    assert sorted(map(int, ANCHORS["recovery"])) == [*range(1, 48)]


@pytest.mark.parametrize(
    ("text", "page", "numbers"),
    [
        ("# see format.md, section\n    # 12.2", "format", ["12-2"]),
        ("(docs/recovery.md, rules 7, 8 and 99)", "recovery", ["7", "8", "99"]),
        ("is dropped (section 3, step 3).", "format", ["3"]),
        ('"""Rule 12. A tag"""', "recovery", ["12"]),
        ("# rule 34\n42", "recovery", ["34"]),
        ("Calls that may be quoted (rules 15, 24,\n# and 29)", "recovery", ["15", "24", "29"]),
        ("Rules 16 to 18.", "recovery", ["16", "17", "18"]),
        ("`format.md`, sections 9 or 11.1 to 11.3", "format", ["9", "11-1", "11-3"]),
        ("[a](recovery.md#rule-26) and [b](#section-12-1)", None, ["26", "12-1"]),
        ("RFC.md, section 400", None, []),
    ],
)
def test_a_citation_is_found_in_every_form(text: str, page: str | None, numbers: list[str]) -> None:
    found = citations(text)
    assert [number for _, number in found] == numbers
    assert page is None or {each for each, _ in found} == {page}


def test_nothing_that_looks_like_a_citation_is_passed_over() -> None:
    """With any number behind the word, over the end of a line too."""
    looks = re.compile(r"\b(?:section|rule)s?[\s#]+\d", re.IGNORECASE)
    for path in SOURCES:
        text = path.read_text("utf-8")
        assert len(looks.findall(text)) <= len(citations(text)), path


def test_the_code_cites() -> None:
    cited = [page for path in SOURCES for page, _ in citations(path.read_text("utf-8"))]
    assert min(cited.count("format"), cited.count("recovery") // 4) > 20
