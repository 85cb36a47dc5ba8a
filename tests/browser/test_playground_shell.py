"""The playground's shell in a real browser: tabs, links, what it may load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_the_first_view_is_open(open_page: Callable[..., Any]) -> None:
    tab = open_page()
    assert tab.locator("[role=tab][aria-selected=true]").inner_text() == "Prompt"
    assert tab.locator("section.prompt").is_visible()
