"""The requests that pages of the documentation open in the playground."""

from __future__ import annotations

import base64
import json
import re
import zlib
from types import ModuleType
from typing import Any

import pytest

from dsv4._playground.page_functions import answer
from dsv4._playground.page_request import PlaygroundContext
from loading import ROOT, loaded

LINKS: dict[str, Any] = json.loads((ROOT / "docs" / "playground_links.json").read_text("utf-8"))
PAGES = "".join(path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md"))


@pytest.fixture
def site() -> ModuleType:
    return loaded("scripts/site.py")


def test_each_is_linked_and_no_other() -> None:
    assert len(LINKS) >= 10
    assert set(re.findall(r'\(playground-guide\.md "([^"]+)"\)', PAGES)) == set(LINKS)


@pytest.mark.parametrize("name", LINKS)
def test_it_opens_two_prompts_that_differ(name: str, site: ModuleType) -> None:
    view, packed = site.fragment(name).removeprefix("#").split("/1.")
    data = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    state = json.loads(zlib.decompress(data, wbits=-15))
    assert view == "prompt"
    assert json.loads(state["request"]["source"]) == LINKS[name]["request"]
    body = {**state["request"], "sides": [state["prompt"]["shown"], state["prompt"]["beside"]]}
    status, sent = answer("prompt", json.dumps(body), PlaygroundContext())
    shown = json.loads(sent)
    assert status == 200
    assert [side["problem"] for side in shown["sides"] if "problem" in side] == []
    assert shown["same"] is False
    assert shown["reasons"]


def test_a_link_leads_from_any_page(site: ModuleType) -> None:
    class Page:
        url = "servers/"

        class file:
            src_uri = "servers.md"

    class Files:
        @staticmethod
        def get_file_from_path(path: str) -> None:
            return None

    class Config:
        repo_url = None

    link = '[See it](playground-guide.md "thinking").'
    written = site.on_page_markdown(link, Page, Config, Files)
    assert written == f'<a href="../playground/{site.fragment("thinking")}">See it</a>.'
