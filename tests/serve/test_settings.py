"""Settings: flags before variables before the file before the defaults."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

from dsv4.serve.settings import (
    HELP,
    SETTING_TYPES,
    SettingError,
    Settings,
    add_flags,
    flag_of,
    flags_of,
    load,
    to_toml,
)
from rows import each_row


def test_flags_win_over_variables_and_those_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "dsv4.toml"
    path.write_text('port = 1\nhost = "a"\neffort = "max"\ncors-origins = ["x", "y"]\n')
    environ = {"DSV4_PORT": "2", "DSV4_HOST": "b", "DSV4_CONFIG": str(path), "DSV4_OTHER": "?"}
    found = load({"port": 3}, environ)
    assert (found.port, found.host, found.effort) == (3, "b", "max")
    assert found.cors_origins == ("x", "y")


def test_every_setting_has_its_help_and_nothing_else_has() -> None:
    assert sorted(HELP) == sorted(SETTING_TYPES)
    assert all(HELP.values())


def test_variables_are_read_by_type() -> None:
    environ = {
        "DSV4_DEBUG": "yes",
        "DSV4_PACE": "0.5",
        "DSV4_CORS_ORIGINS": "a, b",
        "DSV4_CONTEXT": "9",
    }
    found = load({}, environ)
    assert (found.debug, found.pace, found.cors_origins, found.context) == (
        True,
        0.5,
        ("a", "b"),
        9,
    )


def test_what_is_printed_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "dsv4.toml"
    settings = Settings(model='a "b"', cors_origins=("x",), context=5, debug=True)
    path.write_text(to_toml(settings), encoding="utf-8")
    assert load({}, {}, str(path)) == Settings(
        model='a "b"', cors_origins=("x",), context=5, debug=True, config=str(path)
    )


@each_row(
    "values, problem",
    [
        ({"port": "80"}, "port: found '80', expected a whole number"),
        ({"port": True}, "port: found True, expected a whole number"),
        ({"port": 65536}, "port: found 65536, expected at most 65535"),
        ({"effort": "lots"}, "effort: found 'lots', expected minimal or low"),
        ({"pace": float("nan")}, "pace: found nan, expected at least 0"),
        ({"workers": 0}, "workers: found 0, expected at least 1"),
        ({"port": 99_999}, "port: found 99999, expected at most 65535"),
        ({"backend": "vlm"}, "backend: found 'vlm', expected demo or vllm"),
        ({"backend": "vllm"}, "upstream: found none, expected the URL of the vllm server"),
        ({"upstream": "gpu:8000"}, "upstream: found 'gpu:8000', expected http"),
        ({"upstream": "http://gpu:eight"}, "upstream: found 'http://gpu:eight', expected http"),
        ({"upstream": "http://"}, "upstream: found 'http://', expected http"),
        ({"replay": "disk"}, "replay: found 'disk', expected off, memory"),
        ({"replay": "sqlite"}, "replay: found 'sqlite'"),
        ({"replay": "sealed"}, "seal_key_file: found none"),
        ({"cors_origins": "x"}, "cors_origins: found 'x', expected a list of texts"),
        ({"debug": 1}, "debug: found 1, expected true or false"),
    ],
)
def test_what_makes_no_sense_is_refused(values: dict[str, object], problem: str) -> None:
    with pytest.raises(SettingError) as caught:
        Settings(**values)  # type: ignore[arg-type]
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("prot = 1\n", "found the key 'prot', expected a setting"),
        ("port = \n", "not TOML"),
        (b"\xff", "not TOML"),
        ('port = "1"\n', "port: found '1'"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str | bytes, problem: str) -> None:
    path = tmp_path / "dsv4.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingError, match=problem):
        load({"config": str(path)}, {})


def test_a_missing_file_and_a_bad_variable_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"none\.toml: no such file"):
        load({"config": str(tmp_path / "none.toml")}, {})
    with pytest.raises(SettingError, match="DSV4_PORT: found 'x', expected a number"):
        load({}, {"DSV4_PORT": "x"})
    with pytest.raises(SettingError, match="DSV4_DEBUG: found 'maybe', expected true or false"):
        load({}, {"DSV4_DEBUG": "maybe"})


def test_each_flag_sets_what_it_says() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    for name, kind in SETTING_TYPES.items():
        flag = flag_of(name)
        if kind is bool:
            assert flags_of(parser.parse_args([flag])) == {name: True}
        else:
            assert list(
                flags_of(
                    parser.parse_args(
                        [flag, (get_args(kind) if get_origin(kind) is Literal else "1")[0]]
                    )
                )
            ) == [name]
