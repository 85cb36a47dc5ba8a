"""dsv4 special, version and template; and the page that documents all commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from running import ENVIRONMENT, ROOT, dsv4, printed

from dsv4 import __version__, compat
from dsv4._cli.main import COMMANDS
from dsv4._cli.version import EXTRAS
from dsv4.version import how_to_install
from loading import loaded
from rows import each_row


class TestSpecial:
    def test_the_table(self) -> None:
        lines = printed("special").splitlines()
        assert lines[0].split() == ["bos", "<｜begin▁of▁sentence｜>", "0"]
        assert len(lines) == 15

    def test_of_another_dialect(self) -> None:
        lines = printed("special", "--dialect", "v4.1").splitlines()
        assert lines[-1].split() == ["image", "<｜deepseek_image｜>", "129264"]

    def test_json(self) -> None:
        tokens = json.loads(printed("special", "--json"))
        assert {"name": "user", "spelling": "<｜User｜>", "id": 128803} in tokens


DEVELOPERS = ("all", "test", "fuzz", "docs", "dist", "browser", "training", "llamacpp")


class TestVersion:
    def test_with_nothing_installed(self) -> None:
        first, *parts = printed("version", bare=True).splitlines()
        assert first.startswith(f"dsv4 {__version__}, Python 3.")
        assert parts[0] == f"tokens   not installed: {how_to_install('tokens')}"
        assert [part.split()[0] for part in parts] == list(EXTRAS)

    def test_every_extra_is_listed(self) -> None:
        toml = pytest.importorskip("tomllib").loads((ROOT / "pyproject.toml").read_text("utf-8"))
        for_users = set(toml["project"]["optional-dependencies"]) - {*DEVELOPERS}
        assert for_users <= set(EXTRAS)

    def test_as_an_option(self) -> None:
        assert printed("--version") == printed("version")


def test_the_template(tmp_path: Path) -> None:
    template = compat.chat_template()
    assert printed("template") == template
    asked = printed("template", "--for", "minijinja", "--dialect", "v4.1")
    assert asked == compat.chat_template("v4.1", "minijinja")
    printed("template", "--output", tmp_path / "chat_template.jinja")
    assert (tmp_path / "chat_template.jinja").read_text("utf-8") == template


class TestDocumentation:
    def test_the_page_is_current(self) -> None:
        page = (ROOT / "docs" / "cli.md").read_text("utf-8")
        assert page == loaded("docs/write_cli.py").page(), "python docs/write_cli.py"

    @each_row("name", COMMANDS)
    def test_help_ends_with_examples(self, name: str) -> None:
        narrow = {"COLUMNS": "40", "NO_COLOR": "1"}
        _, _, examples = printed(name, "--help", variables=narrow).partition("\nexample:\n")
        assert f"dsv4 {name}" in examples

    def test_help_of_all(self) -> None:
        helped = printed("--help")
        assert all(f"    {name} " in helped for name in COMMANDS)
        assert dsv4().stderr.decode() == helped

    @pytest.mark.parametrize(
        ("arguments", "parsers", "commands"),
        [
            ([], 1, []),
            (["--help"], 1, []),
            (["encode", "--help"], 2, ["encode"]),
            (["--unknown", "special"], 2, []),
        ],
    )
    def test_only_what_is_asked_for_is_made_and_loaded(
        self, arguments: list[str], parsers: int, commands: list[str]
    ) -> None:
        code = f"""
import argparse, sys
made, make = [], argparse.ArgumentParser.__init__
argparse.ArgumentParser.__init__ = lambda self, **given: made.append(make(self, **given))
from dsv4._cli import main
try:
    main.main({arguments!r})
except SystemExit:
    pass
loaded = [name for name in main.COMMANDS if f"dsv4._cli.{{name}}" in sys.modules]
print((len(made), loaded))
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=ENVIRONMENT)
        assert done.stdout.decode().splitlines()[-1] == str((parsers, commands))
