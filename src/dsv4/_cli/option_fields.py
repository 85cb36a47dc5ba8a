"""The options of a command as the fields of a dataclass: flag, kind and default in one place.

The value of a flag follows from the type of its field: a `bool` is a switch, a whole number counts
from 1 on, a `Literal` lists its choices, and a list takes a value each time that it is given. Its
help text is in command_texts.json, by the names of the class and of the field.
"""

from __future__ import annotations

import argparse
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import Field, field, fields
from inspect import get_annotations
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from dsv4._cli.command_texts import OPTION_HELP

OptionsT = TypeVar("OptionsT")


def argument(metavar: str | None = None, nargs: str | None = None) -> Any:
    """A field that is given by its position. `nargs` is as in argparse."""
    default: list[str] | None = [] if nargs == "*" else None
    return _field(default, names=(), metavar=metavar, nargs=nargs)


def option(
    *names: str,
    default: object = None,
    metavar: str | tuple[str, ...] | None = None,
    choices: Sequence[str] | None = None,
    type: Callable[[str], Any] | None = None,
    group: str = "",
    **others: object,
) -> Any:
    """A field that has a flag.

    `names` are its flags, if they differ from the name of the field. Of fields with the same
    `group`, only one may be given. `others` are further arguments of argparse.
    """
    details = {"metavar": metavar, "choices": choices, "type": type, **others}
    return _field(default, names=names or None, group=group, **details)


def switch(*names: str, group: str = "") -> Any:
    """A field that is true if its flag is given."""
    return option(*names, default=False, group=group)


def _field(default: object, **metadata: object) -> Any:
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def add_options(parser: argparse.ArgumentParser, options: type) -> None:
    """Adds the options that the fields of a dataclass define. Inherited ones come after its own."""
    kinds = get_type_hints(options)
    groups: dict[str, Any] = {"": parser}
    texts = ChainMap(*(OPTION_HELP.get(kind.__name__, {}) for kind in options.__mro__))
    for each in _own_first(options):
        metadata = dict(each.metadata)
        names, group = metadata.pop("names"), metadata.pop("group", "")
        if group not in groups:
            groups[group] = parser.add_mutually_exclusive_group()
        names = (f"--{each.name.replace('_', '-')}",) if names is None else names
        details = {**_details(each, kinds[each.name]), **_without_nones(metadata)}
        if names:
            details["dest"] = each.name
        help = texts.get(each.name, "")
        details["help"] = argparse.SUPPRESS if help is None else help
        groups[group].add_argument(*(names or [each.name]), **details)


def options_of(options: type[OptionsT], args: argparse.Namespace) -> OptionsT:
    """The given options, as an instance of the dataclass."""
    return options(**{each.name: getattr(args, each.name) for each in fields(options)})  # type: ignore[arg-type]


def _own_first(options: type) -> Iterator[Field[Any]]:
    by_name = {each.name: each for each in fields(options)}
    for kind in options.__mro__:
        for name in get_annotations(kind):
            if name in by_name:
                yield by_name.pop(name)


def _details(each: Field[Any], kind: Any) -> dict[str, Any]:
    """The arguments of argparse that follow from the type and the default of a field."""
    kind = _without_none(kind)
    if kind is bool or each.metadata["names"] == ():
        return details_of(kind)
    default = each.default_factory() if callable(each.default_factory) else each.default
    if get_origin(kind) is list:
        return {"action": "append", "default": default, **details_of(get_args(kind)[0])}
    return {"default": default, **details_of(kind)}


def details_of(kind: Any) -> dict[str, Any]:
    """The arguments of argparse for an option with values of a type."""
    kind = _without_none(kind)
    if kind is bool:
        return {"action": "store_true"}
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind)}
    return {"type": positive_integer} if kind is int else {}


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        return next(each for each in get_args(kind) if each is not type(None))
    return kind


def _without_nones(metadata: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if value is not None}


def positive_integer(text: str) -> int:
    """The type of an option that takes a whole number from 1 on."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"found {text}, expected a whole number from 1 on")
    return int(text)
