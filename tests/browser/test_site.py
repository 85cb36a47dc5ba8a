"""The site of the documents, as readers see it: both schemes, wide and on a phone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from accessibility import violations
from serving import files_served

ROOT = Path(__file__).parents[2]
PAGES = (
    *("", "why-dsml/", "serving/", "servers/", "verify/", "training/", "format/"),
    *("parsing/", "cli/", "CHANGELOG/", "reference/dsv4/"),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("mkdocstrings", reason="`make docs` installs it")
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(target)]
    subprocess.run(command, cwd=ROOT, check=True)
    with files_served(target) as url:
        yield url


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, site: str, axe: str, scheme: str, width: int) -> None:
    size = {"width": width, "height": 800}
    context = browser.new_context(viewport=size, color_scheme=scheme)
    tab = context.new_page()
    found = []
    for page in PAGES:
        tab.goto(site + page)
        found += [(page, *violation) for violation in violations(tab, axe)]
    context.close()
    assert found == []


def test_no_page_asks_another_origin(browser: Any, site: str) -> None:
    context = browser.new_context()
    tab = context.new_page()
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    for page in PAGES:
        tab.goto(site + page)
        tab.wait_for_load_state("networkidle")
    context.close()
    home = urlsplit(site).netloc
    assert [url for url in asked if urlsplit(url).netloc not in (home, "")] == []


# What people type, and the page that is to be the first.
SEARCHES = {
    "DSML appears in my answers": "why-dsml/",
    "leaked markup": "errors/",
    "reasoning_content must be passed back": "errors/",
    "400 tool_choice": "errors/",
    "insufficient balance": "errors/",
    "stream disconnected before completion": "errors/",
    "vllm tool-call-parser": "from-vllm-parser/",
    "encoding_dsv4": "from-encoding-dsv4/",
    "claude code with deepseek v4": "serving/",
    "chat template jinja": "template/",
}


def test_search_finds_what_people_ask(browser: Any, site: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    tab = context.new_page()
    found = {}
    for words in SEARCHES:
        tab.goto(site)
        tab.locator("input.md-search__input").fill(words)
        first = tab.locator(".md-search-result__link").first
        first.wait_for()
        address = urlsplit(first.get_attribute("href") or "")
        found[words] = address.path.removeprefix(urlsplit(site).path)
    context.close()
    assert found == SEARCHES
