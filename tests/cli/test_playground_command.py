"""dsv4 playground: what it serves, and the browser that it opens."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from dsv4._cli.main import main
from dsv4.serve.banner import playground_banner_text
from dsv4.serve.settings import Settings
from dsv4.serve.workers import uvicorn_runner


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The settings of servers that would have run, and the pages that would have opened."""
    found: list[Any] = []
    opened = threading.Event()

    def serve(settings: Settings, say: Any, listens: Any, banner: Any) -> int:
        found.append(settings)
        assert banner is playground_banner_text
        listens("http://127.0.0.1:8004")
        opened.wait(0.2)
        return 0

    def open_(address: str) -> None:
        found.append(address)
        opened.set()

    monkeypatch.setattr(uvicorn_runner, "serve", serve)
    monkeypatch.setattr("webbrowser.open", open_)
    return found


def test_it_serves_the_page_on_loopback_and_opens_it(started: list[Any]) -> None:
    assert main(["playground"]) == 0
    settings, address = started
    assert settings.playground
    assert settings.is_loopback
    assert settings.port == 8004
    assert address == "http://127.0.0.1:8004/playground/"


def test_flags_are_those_of_the_server(started: list[Any]) -> None:
    assert main(["playground", "--no-browser", "--port", "9000", "--dialect", "v4.1"]) == 0
    [settings] = started
    assert (settings.port, settings.dialect, settings.playground) == (9000, "v4.1", True)


def test_help_names_its_own_port(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["playground", "--help"])
    said = capsys.readouterr().out
    assert "8004" in said
    assert "--no-playground" not in said


def test_help_lists_what_a_reader_of_prompts_needs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["playground", "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 30
    assert any("dsv4 serve --help" in line for line in lines)
    assert not any("--seal-key-file" in line for line in lines)
