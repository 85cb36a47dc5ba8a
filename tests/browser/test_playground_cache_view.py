"""The Cache view in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from accessibility import violations
from editing import after_caret, put
from serving import answered

Open = Callable[..., Any]


def settle(tab: Any) -> None:
    tab.wait_for_selector("section.cache .strip[aria-busy=false] .turn")


def example(tab: Any, title: str) -> None:
    with answered(tab, "cache"):
        folded = tab.locator("section.cache .options:not([open]) > summary")
        if folded.count():
            folded.click()
        tab.locator("section.cache").get_by_label("Examples").select_option(label=title)
    settle(tab)


@pytest.fixture
def tab(open_page: Open) -> Any:
    tab = open_page("#cache")
    settle(tab)
    return tab


def turns(tab: Any) -> list[str]:
    return tab.locator("section.cache .turn").all_inner_texts()


@pytest.mark.smoke
def test_a_growing_conversation_is_reused(tab: Any) -> None:
    example(tab, "Several turns")
    first, *others = turns(tab)
    assert "The first prompt: all of it is new." in first
    assert len(others) == 3
    for words in others:
        assert "of the prompt before are still a prefix" in words
        assert "all of it is reused" in words
    assert tab.locator(".turn.broken").count() == 0


def test_a_break_says_where_and_why(tab: Any) -> None:
    example(tab, "Old reasoning, a list of messages")
    words = tab.locator(".turn.broken").inner_text()
    assert "messages[2].header: reasoning is dropped once another user turn follows" in words
    tab.get_by_role("button", name="Show in the request").click()
    assert tab.locator("section.prompt").is_visible()
    tab.wait_for_selector("section.prompt .rows .row")
    assert after_caret(tab).startswith('"assistant"')


def test_what_other_clients_lose(tab: Any) -> None:
    example(tab, "Several turns")
    client = tab.get_by_role("button", name="The client drops reasoning")
    assert "loses 146 tokens" in client.inner_text()
    with answered(tab, "cache"):
        client.click()
    tab.wait_for_selector(".turn.broken")
    assert client.get_attribute("aria-pressed") == "true"
    assert "the client sent the turn back without its reasoning" in turns(tab)[1]
    with answered(tab, "cache"):
        tab.get_by_role("button", name="The client re-serialises arguments").click()
    tab.wait_for_function("() => document.querySelectorAll('.turn.broken').length === 1")
    assert "the client wrote the arguments anew" in turns(tab)[3]


def test_switches_are_those_of_the_prompt(tab: Any) -> None:
    example(tab, "Old reasoning, a list of messages")
    with answered(tab, "cache"):
        tab.locator("section.cache").get_by_label("Old reasoning").select_option("false")
    tab.wait_for_function("() => !document.querySelector('.turn.broken')")
    with answered(tab, "cache"):
        tab.locator("section.cache").get_by_label("Dialect").select_option("v4.1")
    tab.wait_for_function("() => document.querySelector('.turn').innerText.includes('tokens')")
    tab.get_by_role("tab", name="Prompt").click()
    assert tab.locator("section.prompt").get_by_label("Dialect").input_value() == "v4.1"


def test_a_request_that_cannot_be_read_is_refused(tab: Any) -> None:
    tab.get_by_role("tab", name="Prompt").click()
    put(tab, '[{"role": 5}]')
    tab.get_by_role("tab", name="Cache").click()
    tab.wait_for_selector("section.cache .problem")
    assert "[0].role" in tab.locator("section.cache .problem").inner_text()
    assert tab.locator(".turn").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_in_the_turns(open_page: Open, axe: str, scheme: str, width: int) -> None:
    tab = open_page("#cache", width=width, scheme=scheme)
    settle(tab)
    example(tab, "Old reasoning, a list of messages")
    assert violations(tab, axe) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
