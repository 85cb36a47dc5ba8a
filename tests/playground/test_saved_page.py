"""The file that holds a conversation beside its prompt: all of it, linked, and harmless."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

import dsv4
from dsv4._playground.page_examples import example_sources
from dsv4._playground.page_functions import answer
from dsv4._playground.page_request import PlaygroundContext

HOSTILE = "</script><script>alert(1)</script></style></pre><img src=x onerror=alert(1)>&amp;\"'"
UNSEEN = ("label", "note", "fold")


class SavedPage(HTMLParser):
    """The two texts of a page, its links and ids, and the names of its elements."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.texts = {"source": "", "prompt": ""}
        self.links: list[str] = []
        self.ids: list[str] = []
        self.names: set[str] = set()
        self._open: list[list[str]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.names.add(tag)
        self.links += [given["href"]] if "href" in given else []
        self.ids += [given["id"]] if "id" in given else []
        if tag not in ("meta", "input"):
            self._open.append(given.get("class", "").split())

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        around = {name for classes in self._open for name in classes}
        if around.isdisjoint(UNSEEN) and "ghost" not in around:
            for name in self.texts.keys() & around:
                self.texts[name] += data


def saved(source: str, **body: Any) -> str:
    status, data = answer("page", json.dumps({"source": source, **body}), PlaygroundContext())
    assert status == 200, data
    html: str = json.loads(data)["html"]
    return html


@pytest.mark.parametrize("source", [each["source"] for each in example_sources()])
def test_it_holds_the_request_and_the_prompt(source: str) -> None:
    body = json.dumps({"source": source})
    status, data = answer("text", body, PlaygroundContext())
    if status != 200:
        pytest.skip("an example of a mistake")
    page = SavedPage(saved(source))
    assert page.texts == {"source": source, "prompt": json.loads(data)["prompt"]}


def test_every_link_leads_to_its_other_half() -> None:
    source = json.dumps(
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Weather?"},
            ],
            "tools": [{"type": "function", "function": {"name": "weather"}}],
        }
    )
    page = SavedPage(saved(source))
    assert len(page.links) > 6
    assert len(set(page.ids)) == len(page.ids)
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert {link[1] for link in page.links} == {"j", "r"}


def test_white_space_alone_is_no_link() -> None:
    html = saved(json.dumps([{"role": "user", "content": "One\n\n    \nTwo"}]))
    assert re.search(r'<span class="newline p\d+"', html)
    assert not re.search(r"<a [^>]*>\s*</a>", html)


def test_text_that_closes_elements_is_only_text() -> None:
    messages = [{"role": "user", "content": HOSTILE}]
    source = json.dumps(messages)
    page = SavedPage(saved(source))
    assert page.texts == {"source": source, "prompt": str(dsv4.encode(messages))}
    assert page.names.isdisjoint({"script", "img"})


def test_nothing_runs_and_nothing_is_loaded() -> None:
    html = saved('[{"role": "user", "content": "Hi"}]')
    assert "default-src 'none'" in html
    assert "<script" not in html
    assert "://" not in html


def test_a_prompt_of_a_server() -> None:
    html = saved('[{"role": "user", "content": "Hi"}]', shown="profile:vllm-0.32")
    assert "<h1>A prompt of vLLM" in html


def test_what_cannot_be_encoded_is_said_at_its_place() -> None:
    body = json.dumps({"source": '[{"role": "user", "content": 5}]'})
    status, data = answer("page", body, PlaygroundContext())
    assert status == 400
    assert json.loads(data)["error"]["path"] == "[0].content"
