"""dsv4 heal: the gateway that it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsv4.__main__ import main
from dsv4.serve.settings import Settings
from dsv4.serve.workers import uvicorn_runner

UPSTREAM = ["--upstream", "http://127.0.0.1:8000"]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings of servers that would have run."""
    found: list[Settings] = []

    def serve(settings: Settings, say: Any, listens: Any, banner: Any) -> int:
        found.append(settings)
        return 0

    monkeypatch.setattr(uvicorn_runner, "serve", serve)
    return found


def test_it_stands_beside_a_server_on_its_usual_port(started: list[Settings]) -> None:
    assert main(["heal", *UPSTREAM]) == 0
    [settings] = started
    assert (settings.backend, settings.port, settings.strip_markup) == ("chat", 8003, True)


def test_what_is_said_elsewhere_changes_its_defaults(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text("strip_markup = false\nport = 1234\n")
    monkeypatch.setenv("DSV4_PORT", "9000")
    monkeypatch.setenv("DSV4_BACKEND", "vllm")  # of a server that runs here, too
    assert main(["heal", *UPSTREAM, "--config", str(config)]) == 0
    assert main(["heal", *UPSTREAM, "--port", "9001"]) == 0
    first, second = started
    assert (first.backend, first.port, first.strip_markup) == ("chat", 9000, False)
    assert (second.backend, second.port, second.strip_markup) == ("chat", 9001, True)


def test_it_has_no_flag_for_what_makes_it_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["heal", "--help"])
    said = capsys.readouterr().out
    assert "--backend" not in said
    assert "--no-strip-markup" in said
    assert "8003" in said
