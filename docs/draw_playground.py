"""Draws the pictures of the playground, and the card of the site, from the real page.

    python docs/draw_playground.py

Needs the extras `serve`, `tokens` and `browser`, and Chromium on the path or in CHROMIUM.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
SIZE = {"width": 1280, "height": 800}


@contextmanager
def playground() -> Iterator[str]:
    """The address of a playground, started as anybody starts it."""
    command = [sys.executable, "-m", "dsv4", "playground", "--no-browser", "--port", "0"]
    command += ["--inspect", "--pace", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = (re.search(r"playground +(\S+)", line) for line in process.stderr)
        yield next(match[1] for match in found if match)
    finally:
        process.terminate()
        process.wait()


def prompt(tab: Any) -> None:
    """A part of the prompt is pointed at, and its source is lit."""
    tab.locator(".rows .text .reasoning").first.hover()


def beside(tab: Any) -> None:
    """Two servers beside each other."""
    tab.get_by_label("Show", exact=True).select_option("profile:vllm-0.32")
    tab.get_by_label("Beside", exact=True).select_option("profile:sglang-0.5.23")
    tab.wait_for_selector(".rows .differs")


def cache(tab: Any) -> None:
    """A client that drops reasoning."""
    tab.get_by_label("Examples").first.select_option(label="Several turns")
    tab.get_by_role("tab", name="Cache").click()
    tab.get_by_role("button", name="The client drops reasoning").click()
    tab.wait_for_selector(".turn.broken")


def stream(tab: Any) -> None:
    """A tag that is missing, about to be implied."""
    tab.get_by_role("tab", name="Stream").click()
    tab.get_by_label("Example", exact=True).select_option(label="No closing tags")
    tab.wait_for_selector(".stream:not(.busy) .map i")
    slider = tab.locator(".track input")
    slider.evaluate("s => { s.value = 212; s.dispatchEvent(new Event('input')); }")


def live(tab: Any) -> None:
    """A malformed answer of the demo backend, and what the inspector says of it."""
    tab.get_by_role("tab", name="Live").click()
    tab.get_by_label("Offer tools").check()
    for words in ("Which tools do you have?", "RUN: ls -l\nBREAK: no-closers"):
        tab.get_by_label("Your message").fill(words)
        tab.get_by_role("button", name="Send", exact=True).click()
        tab.wait_for_selector(".request:not(:has(.running)) .done")
        tab.wait_for_selector(".composer textarea")
        tab.wait_for_timeout(500)
    tab.locator(".request").first.click()
    tab.wait_for_selector(".details .repairs")


# Each picture: what is done on the page first, in which colours, and how high it is.
PICTURES: dict[str, tuple[Callable[[Any], None], str, int]] = {
    "card": (prompt, "light", 640),  # what a link to the site shows elsewhere
    "playground-prompt": (prompt, "light", 800),
    "playground-beside": (beside, "light", 720),
    "playground-cache": (cache, "dark", 700),
    "playground-stream": (stream, "light", 900),
    "playground-live": (live, "light", 900),
}


def main() -> None:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    flags = ["--no-sandbox", "--disable-gpu"]
    with playground() as url, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=flags)
        for name, (act, scheme, height) in PICTURES.items():
            size = {**SIZE, "height": height}
            tab = browser.new_page(viewport=size, color_scheme=scheme)
            tab.goto(url)
            tab.wait_for_selector(".rows .row")
            act(tab)
            tab.wait_for_timeout(500)  # until colours have changed
            tab.screenshot(path=HERE / f"{name}.png")
            tab.close()
        browser.close()


if __name__ == "__main__":
    main()
