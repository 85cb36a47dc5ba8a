"""A real browser: Chromium, wherever it is, driven by Playwright. Without them, tests are skipped.

make test-browser                         looks for chromium on the path
CHROMIUM=/opt/chrome make test-browser    uses this one

With `--static`, the playground is the page of static files, in which Python answers.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

# Nothing but the page is asked for, and root may run it.
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--static", action="store_true", help="test the playground of static files")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("no Chromium was found: install it, or name it in CHROMIUM")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def playground(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a playground: a server with the demo backend and its inspector, or files."""
    if request.config.getoption("--static"):
        yield request.getfixturevalue("static_playground")
        return
    pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
    from serving import served

    with served(inspect=True) as url:
        yield f"{url}/playground/"


@pytest.fixture(scope="session")
def static_playground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the playground as static files, built for this."""
    from serving import built_playground, files_served

    with files_served(built_playground(tmp_path_factory.mktemp("playground"))) as url:
        yield url


@pytest.fixture
def open_page(
    request: pytest.FixtureRequest, browser: Any, playground: str
) -> Iterator[Callable[..., Any]]:
    """Opens the playground. What the page throws or complains of fails the test."""
    contexts, complaints = [], []
    # Python starts in each page of static files, which may take half a minute on a busy machine.
    patience = 120_000 if request.config.getoption("--static") else 30_000

    def opened(
        fragment: str = "", width: int = 1280, height: int = 800, scheme: str = "light"
    ) -> Any:
        size = {"width": width, "height": height}
        context = browser.new_context(viewport=size, color_scheme=scheme)
        contexts.append(context)
        context.set_default_timeout(patience)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        tab = context.new_page()
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("console", lambda said: complaints.append(said.text) if _is_complaint(said) else 0)
        tab.goto(playground + fragment)
        tab.wait_for_selector("[role=tab]")
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert not complaints


def _is_complaint(said: Any) -> bool:
    """Errors, but not of the answers to bad requests, which the page shows itself."""
    return said.type == "error" and "status of 400" not in said.text


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which finds what a page keeps from people."""
    root = Path(__file__).parents[2]
    named = os.environ.get("AXE", root / "build/axe/node_modules/axe-core/axe.min.js")
    if not Path(named).exists():
        pytest.skip("axe-core was not found: `make test-browser` installs it where there is npm")
    return Path(named).read_text("utf-8")


@pytest.fixture
def tab(open_page: Callable[..., Any]) -> Any:
    """The playground with its prompt."""
    from serving import settle

    tab = open_page()
    tab.wait_for_selector(".rows .row")
    settle(tab)
    return tab
