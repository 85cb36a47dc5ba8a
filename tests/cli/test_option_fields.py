"""Options as the fields of a dataclass: what each kind of field takes."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields, is_dataclass
from inspect import get_annotations
from typing import Literal

import pytest

from dsv4._cli import command_options
from dsv4._cli.command_texts import COMMANDS, OPTION_HELP
from dsv4._cli.main import load_command
from dsv4._cli.option_fields import add_options, argument, option, options_of, switch


@dataclass(kw_only=True)
class Inherited:
    quiet: bool = switch()


@dataclass(kw_only=True)
class Options(Inherited):
    files: list[str] = argument("FILE", "*")
    most_lines: int | None = option()
    form: Literal["text", "json"] = option(default="text")
    rules: str | None = option("--as")
    ignore: list[str] = option(default=[])
    ids: bool = switch(group="shown")
    names: bool = switch(group="shown")


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


def test_every_option_has_its_words_and_every_word_its_option() -> None:
    modules = [command_options, *map(load_command, COMMANDS)]
    classes = [c for module in modules for c in vars(module).values() if isinstance(c, type)]
    named = {
        c.__name__: list(get_annotations(c))
        for c in classes
        if is_dataclass(c) and any("names" in each.metadata for each in fields(c))
    }
    listed = {name: list(texts) for name, texts in OPTION_HELP.items()}
    assert {name: names for name, names in named.items() if names} == listed
