"""The playground's shell in a real browser: tabs, links, copies, what it may load."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from accessibility import violations
from editing import put, text_of
from serving import answered, served

from dsv4._playground.page_functions import PAGE_FUNCTIONS
from dsv4._playground.page_request import PlaygroundContext
from dsv4.version import how_to_install

Open = Callable[..., Any]
MESSAGES = [{"role": "user", "content": "Grüße 😀 <b>"}]


def write(tab: Any, value: Any) -> None:
    with answered(tab, "prompt"):
        put(tab, json.dumps(value))


def address(tab: Any, word: str) -> str:
    """The address of the page, once the state has been written into it."""
    tab.wait_for_function("word => location.hash.startsWith(word)", arg=word)
    tab.wait_for_timeout(500)
    return tab.url.partition("#")[2]


def test_the_first_view_is_open(open_page: Open) -> None:
    tab = open_page()
    assert tab.locator("[role=tab][aria-selected=true]").inner_text() == "Prompt"
    assert tab.locator("section.prompt").is_visible()


def test_the_keyboard_goes_from_tab_to_tab(open_page: Open) -> None:
    tab = open_page()
    tab.get_by_role("tab", name="Prompt").focus()
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("document.activeElement.textContent") == "Cache"
    assert tab.locator("section.cache").is_visible()
    assert tab.locator("section.prompt").is_hidden()
    tab.keyboard.press("Home")
    assert tab.locator("section.prompt").is_visible()
    tab.keyboard.press("End")
    tab.keyboard.press("ArrowRight")
    assert tab.locator("section.prompt").is_visible()


@pytest.mark.smoke
def test_a_link_restores_the_page(open_page: Open) -> None:
    tab = open_page()
    write(tab, MESSAGES)
    section = tab.locator("section.prompt")
    section.get_by_label("Dialect").select_option("v4-0731")
    section.get_by_label("Thinking").select_option("false")
    section.get_by_label("Tokens", exact=True).select_option("borders")
    section.get_by_label("Beside").select_option("profile:vllm-0.32")
    fragment = address(tab, "#prompt/1.")
    assert "dialect" not in fragment  # packed

    other = open_page(f"#{fragment}")
    other.wait_for_selector(".rows .differs")
    section = other.locator("section.prompt")
    assert json.loads(text_of(other)) == MESSAGES
    assert section.get_by_label("Dialect").input_value() == "v4-0731"
    assert section.get_by_label("Thinking").input_value() == "false"
    assert section.get_by_label("Tokens", exact=True).input_value() == "borders"
    assert section.get_by_label("Beside").input_value() == "profile:vllm-0.32"


def test_a_link_of_another_view_restores_it(open_page: Open) -> None:
    tab = open_page()
    write(tab, MESSAGES)
    tab.get_by_role("tab", name="Cache").click()
    tab.wait_for_selector(".turn")
    other = open_page(f"#{address(tab, '#cache/1.')}")
    other.wait_for_selector(".turn")
    other.get_by_role("tab", name="Prompt").click()
    assert json.loads(text_of(other)) == MESSAGES


@pytest.mark.parametrize(
    "fragment",
    [
        *("#prompt/1.!!!!", "#prompt/1.AAAA", "#prompt/9.AAAA", "#nothing", "#constructor", "#/"),
        # A list where slices should be; slices of the wrong kind.
        "#prompt/1.i1bKzNPJzNOJVahWyiwBAA",
        *("#prompt/1.q1YqSi0sTS0u0bGqVirOLy1KTlWysjC2jI1NVrKqNdQBAA",),
    ],
)
def test_a_link_that_cannot_be_read_is_no_harm(open_page: Open, fragment: str) -> None:
    tab = open_page(fragment)
    tab.wait_for_selector(".rows .row")


def test_values_of_the_wrong_kind_in_a_link_are_no_harm(open_page: Open) -> None:
    tab = open_page()
    tab.wait_for_selector(".rows .row")
    packed = tab.evaluate(
        """async () => {
          const { Store } = await import("./state.js");
          const wrong = { source: { a: 1 }, dialect: [], thinking: "<b>", effort: 5, caret: "x" };
          const own = { tokens: {}, beside: 7, shown: "nobody", mode: [] };
          const slices = { request: wrong, prompt: own, cache: [1], __proto__x: { y: 1 } };
          return new Store({ view: "prompt", slices }).toFragment();
        }"""
    )
    other = open_page(packed)
    other.wait_for_selector(".trouble:not([hidden])")
    assert "expected" in other.locator(".trouble").inner_text()
    with answered(other, "prompt"):
        other.locator("section.prompt").get_by_label("Examples").select_option(index=1)


def test_what_is_too_long_has_no_link(open_page: Open) -> None:
    tab = open_page()
    # Text that does not pack.
    letters = tab.evaluate(
        """async () => {
          const letters = Array.from({ length: 24 }, () =>
            btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(60_000)))));
          await navigator.clipboard.writeText("nothing");
          return letters.join("");
        }"""
    )
    put(tab, json.dumps([{"role": "user", "content": letters}]))
    tab.wait_for_timeout(600)  # a long text is handed on when typing has paused
    tab.get_by_role("button", name="Copy a link to this page").click()
    tab.wait_for_function(
        "() => document.querySelector('#said').textContent.includes('too long for a link')"
    )
    assert tab.evaluate("() => navigator.clipboard.readText()") == "nothing"


@pytest.mark.smoke
def test_nothing_is_sent_anywhere_else(open_page: Open, playground: str) -> None:
    asked: list[str] = []
    tab = open_page()
    tab.on("request", lambda request: asked.append(request.url))
    write(tab, MESSAGES)
    tab.get_by_role("tab", name="Cache").click()
    tab.wait_for_selector(".turn")
    address(tab, "#cache/1.")
    tab.reload()
    tab.wait_for_selector(".turn")
    assert asked
    assert all(url.startswith(playground) for url in asked)


def copied(tab: Any, name: str) -> str:
    tab.evaluate("() => navigator.clipboard.writeText('')")
    tab.locator("section:not([hidden])").get_by_role("button", name=name).click()
    tab.wait_for_function("() => document.querySelector('#said').textContent.includes('Copied')")
    return tab.evaluate("() => navigator.clipboard.readText()")


@pytest.mark.parametrize(
    ("form", "name"), [("curl", "curl"), ("python", "Python"), ("pytest", "pytest")]
)
def test_copies_are_those_of_what_is_shown(
    open_page: Open, playground: str, form: str, name: str
) -> None:
    tab = open_page()
    write(tab, MESSAGES)
    # A page without a server names the one that `dsv4 playground` starts.
    served = playground.endswith("/playground/")
    url = playground.removesuffix("/playground/") if served else "http://127.0.0.1:8004"
    body = {"source": json.dumps(MESSAGES), "form": form, "view": "prompt", "url": url}
    assert (
        copied(tab, f"Copy this as {name}")
        == PAGE_FUNCTIONS["copy"](body, PlaygroundContext())["text"]
    )


def test_the_link_and_the_prompt_are_copied(open_page: Open, playground: str) -> None:
    tab = open_page()
    write(tab, MESSAGES)
    link = copied(tab, "Copy a link to this page")
    assert link.startswith(f"{playground}#prompt/1.")
    body = {"source": json.dumps(MESSAGES)}
    assert copied(tab, "Copy prompt") == PAGE_FUNCTIONS["text"](body, PlaygroundContext())["prompt"]


def test_a_key_is_asked_for_and_stays_in_the_tab(browser: Any, axe: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    keys.chmod(0o600)
    with served(api_key_file=str(keys)) as url:
        tab = browser.new_page()
        tab.goto(f"{url}/playground/")
        field = tab.get_by_label("This server asks for an API key")
        field.fill("wrong")
        tab.get_by_role("button", name="Use it").click()
        tab.wait_for_function("() => document.querySelector('#key')?.value === ''")
        assert violations(tab, axe) == []
        field.fill("secret")
        tab.get_by_role("button", name="Use it").click()
        tab.wait_for_selector(".rows .row")
        assert "secret" not in tab.url
        kept = tab.evaluate("JSON.stringify([{ ...localStorage }, { ...sessionStorage }])")
        assert kept == '[{"dsv4-theme":"system"},{}]'
        tab.close()


def test_without_the_extra_tokens_the_page_says_so(browser: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("dsv4.serve.asgi_app.load_tokenizer", lambda settings: None)
    with served() as url:
        tab = browser.new_page()
        tab.goto(f"{url}/playground/")
        tab.wait_for_selector(".rows .row")
        assert how_to_install("tokens") in tab.locator(".facts").inner_text()
        assert tab.get_by_label("Tokens", exact=True).is_disabled()
        tab.close()
