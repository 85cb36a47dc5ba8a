"""Comments cite their sources: "format.md, section 3", "recovery.md, rule 12". They are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = sorted(ROOT.joinpath("src").rglob("*.py"))
TESTS = sorted(ROOT.joinpath("tests").rglob("*.py"))

NUMBER = r"\d+(?:\.\d+)?"
NUMBERS = rf"(?P<numbers>{NUMBER}(?:(?:, |,? and | to ){NUMBER})*)"
CITED = re.compile(
    rf"(?:(?P<section>format)\.md, sections?|(?P<rule>recovery)\.md, rules?) {NUMBERS}"
)
PAGE = re.compile(r"(?<![\w/.])(?:docs/)?(?P<name>[\w-]+\.md)\b")
ANCHORS = {
    page: set(re.findall(r'<a id="(?:section|rule)-([\d-]+)">', text))
    for page in ("format", "recovery")
    for text in [ROOT.joinpath("docs", f"{page}.md").read_text("utf-8")]
}


def citations(source: str) -> list[tuple[str, str]]:
    """Pages with the numbers that are cited of them. Comments may go over the end of a line."""
    text = re.sub(r"\s*\n\s*#?\s*", " ", source)
    return [
        (found["section"] or found["rule"], number.replace(".", "-"))
        for found in CITED.finditer(text)
        for number in re.findall(NUMBER, found["numbers"])
    ]


def test_what_is_cited_is_there() -> None:
    missing = [
        (path.relative_to(ROOT), page, number)
        for path in [*SOURCES, *TESTS]
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
        if not any((place / found["name"]).exists() for place in (ROOT, ROOT / "docs"))
    ]
    assert missing == []


def test_anchors() -> None:
    assert {"1", "13", "12-2", "11-6"} <= ANCHORS["format"]
    rules = sorted(map(int, ANCHORS["recovery"]))
    # Rules 36 to 47 come one by one.
    assert rules[:35] == [*range(1, 36)], "a number is missing"
    assert {*rules} <= {*range(1, 48)}


def test_citations_are_found() -> None:
    comment = "# see format.md, section\n    # 12.2, and recovery.md, rules 7, 8 and 99\n"
    assert citations(comment) == [
        ("format", "12-2"),
        *(("recovery", "7"), ("recovery", "8"), ("recovery", "99")),
    ]


def test_the_code_cites() -> None:
    cited = {page for path in SOURCES for page, _ in citations(path.read_text("utf-8"))}
    assert cited == {"format", "recovery"}
