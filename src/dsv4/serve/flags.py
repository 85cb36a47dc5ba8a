"""The settings as flags of a command."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from dsv4.serve.settings import HINTS, Settings, read_value

_ABSENT = argparse.SUPPRESS
_METAVARS = {
    **dict.fromkeys(("upstream_key_file", "api_key_file", "seal_key_file"), "FILE"),
    **dict.fromkeys(("config", "record"), "FILE"),
    **dict.fromkeys(("model", "upstream_model", "dialect"), "NAME"),
    "upstream": "URL",
    "tokenizer": "PATH",
    "host": "ADDRESS",
    "replay": "STORE",
}


def add_flags(parser: argparse.ArgumentParser, fixed: Mapping[str, Any] | None = None) -> None:
    """A flag for every setting. What is not given is not in the namespace.

    `fixed` are values that a command gives in place of defaults: what it switches on has no flag.
    """
    fixed = fixed or {}
    for field in dataclasses.fields(Settings):
        if fixed.get(field.name) is True:
            continue
        kind = HINTS[field.name]
        option = f"--{field.name.replace('_', '-')}"
        help = field.metadata["help"] + _default(fixed.get(field.name, field.default))
        if kind is bool and field.name.startswith("no_"):
            # Its own negation: argparse would take `--no-auth` for the opposite of `--auth`.
            parser.add_argument(option, action="store_true", default=_ABSENT, help=help)
        elif kind is bool:
            parser.add_argument(
                option, action=argparse.BooleanOptionalAction, default=_ABSENT, help=help
            )
        elif get_origin(kind) is Literal:
            parser.add_argument(option, choices=get_args(kind), default=_ABSENT, help=help)
        else:
            metavar = _METAVARS.get(field.name) or _metavar(kind)
            parser.add_argument(option, metavar=metavar, default=_ABSENT, help=help)


def _default(value: Any) -> str:
    if value in (None, (), False):
        return ""
    return f" (default: {str(value).lower() if value is True else value})"


def _metavar(kind: Any) -> str:
    members = get_args(kind) or (kind,)
    if get_origin(kind) is tuple:
        return "A,B"
    return "N" if int in members or float in members else "TEXT"


def flags_of(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that were given as flags."""
    given = {name: v for name, v in vars(args).items() if name in HINTS}
    return {
        name: read_value(value, HINTS[name], f"--{name.replace('_', '-')}")
        if isinstance(value, str) and get_origin(HINTS[name]) is not Literal
        else value
        for name, value in given.items()
    }
