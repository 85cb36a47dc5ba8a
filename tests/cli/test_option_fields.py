"""Options as the fields of a dataclass: what each kind of field takes."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Literal

import pytest

from dsv4._cli.option_fields import add_options, argument, option, options_of, switch


@dataclass(kw_only=True)
class Inherited:
    quiet: bool = switch("say nothing")


@dataclass(kw_only=True)
class Options(Inherited):
    files: list[str] = argument("what to read", "FILE", "*")
    most_lines: int | None = option("how many")
    form: Literal["text", "json"] = option("which form", default="text")
    rules: str | None = option("whose rules", "--as")
    ignore: list[str] = option("what to leave out", default=[])
    ids: bool = switch("ids", group="shown")
    names: bool = switch("names", group="shown")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(exit_on_error=False)
    add_options(made, Options)
    return made


def read(*arguments: str) -> Options:
    return options_of(Options, parser().parse_args(arguments))


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        ([], "files", []),
        (["a", "b"], "files", ["a", "b"]),
        ([], "most_lines", None),
        (["--most-lines", "1"], "most_lines", 1),
        ([], "form", "text"),
        (["--form", "json"], "form", "json"),
        (["--as", "body"], "rules", "body"),
        ([], "ignore", []),
        (["--ignore", "a", "--ignore", "b"], "ignore", ["a", "b"]),
        ([], "quiet", False),
        (["--quiet"], "quiet", True),
        (["--names"], "names", True),
    ],
)
def test_a_field(arguments: list[str], field: str, value: object) -> None:
    assert getattr(read(*arguments), field) == value


@pytest.mark.parametrize(
    "arguments",
    [
        ["--most-lines", "0"],
        ["--most-lines", "-1"],
        ["--most-lines", "1.5"],
        ["--form", "xml"],
        ["--rules", "body"],
        ["--ids", "--names"],
    ],
)
def test_what_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises((SystemExit, argparse.ArgumentError)):
        read(*arguments)


def test_a_list_is_not_shared_between_runs() -> None:
    read("--ignore", "a")
    assert read().ignore == []


def test_inherited_options_come_last() -> None:
    flags = [action.dest for action in parser()._actions]
    assert flags[-1] == "quiet"
