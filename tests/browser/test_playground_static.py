"""The playground as static files: Python answers in the page, and nothing else is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from editing import put

LOADED = 120_000  # milliseconds: a busy machine takes long to start Python


class StaticPage:
    """A tab with the page, and the addresses that it asked for."""

    def __init__(self, context: Any, url: str) -> None:
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.tab = context.new_page()
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("request", lambda request: self.asked.append(request.url))
        self.url = url

    def open(self, fragment: str = "") -> Any:
        self.tab.goto(self.url + fragment)
        self.tab.wait_for_selector("[role=tab]")
        return self.tab

    def wait_for_python(self) -> None:
        self.tab.wait_for_selector(".loading", state="detached", timeout=LOADED)


@pytest.fixture
def new_page(browser: Any, static_playground: str) -> Iterator[Callable[..., StaticPage]]:
    contexts, pages = [], []

    def made(service_workers: str = "block") -> StaticPage:
        size = {"width": 1280, "height": 800}
        context = browser.new_context(viewport=size, service_workers=service_workers)
        contexts.append(context)
        pages.append(StaticPage(context, static_playground))
        return pages[-1]

    yield made
    for context in contexts:
        context.close()
    assert [complaint for page in pages for complaint in page.complaints] == []


def test_the_example_is_there_before_python_is(new_page: Callable[..., StaticPage]) -> None:
    page = new_page()
    page.tab.route("**/*.wasm", lambda route: None)  # it never comes
    tab = page.open()
    tab.wait_for_selector(".total:not(:empty)")
    assert "414 tokens" in tab.text_content(".total")
    assert tab.is_visible("progress")


@pytest.mark.smoke
def test_python_answers_in_the_page(new_page: Callable[..., StaticPage]) -> None:
    page = new_page()
    tab = page.open()
    page.wait_for_python()
    put(tab, '[{"role": "user", "content": "Straight from the browser"}]')
    tab.wait_for_selector('.total:not(:has-text("414"))')
    assert "Straight from the browser" in tab.inner_text("[aria-label=Prompt]")
    own = urlsplit(page.url).netloc
    assert {urlsplit(url).netloc for url in page.asked if not url.startswith("data:")} == {own}


def test_a_link_is_answered_though_python_is_not_there_yet(
    new_page: Callable[..., StaticPage],
) -> None:
    tab = new_page().open("#cache")  # of which no answer was prepared
    tab.wait_for_selector("section.cache .strip[aria-busy=false] .turn", timeout=LOADED)


def test_the_live_view_says_why_it_is_not_here(new_page: Callable[..., StaticPage]) -> None:
    tab = new_page().open("#live")
    assert "For both, run dsv4 playground --inspect" in tab.inner_text("#view-live")


def test_a_failed_start_is_told(new_page: Callable[..., StaticPage]) -> None:
    page = new_page()
    page.tab.route("**/dsv4.zip", lambda route: route.abort())
    tab = page.open()
    tab.wait_for_selector('#said:has-text("could not be loaded")', timeout=LOADED)
    assert tab.is_visible("text=Is it a good afternoon")  # what was prepared stays
    put(tab, '[{"role": "user", "content": "Anybody there?"}]')
    tab.wait_for_selector('.trouble:has-text("could not be loaded")')
    tab.wait_for_selector(".result.stale:not(.waiting)")


def test_a_second_visit_needs_no_network(new_page: Callable[..., StaticPage]) -> None:
    page = new_page(service_workers="allow")
    page.open()
    page.wait_for_python()
    page.tab.context.set_offline(True)
    page.tab.reload()
    page.tab.wait_for_selector("[role=tab]")
    page.wait_for_python()
    assert "could not" not in page.tab.text_content("#said")
