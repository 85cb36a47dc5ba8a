"""The options of a dataset run: one frozen value, with defaults, help and checks.

The flags of `dsv4 dataset` are made from the fields, so that an option has one name, one default
and one description.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from dsv4._format.dialects import Dialect
from dsv4._inputs.request_bodies import RequestOverrides
from dsv4.api.api_request import BodyRules
from dsv4.dataset.dataset_errors import DatasetError
from dsv4.errors import short_repr
from dsv4.types import DialectName, Effort, ToolInput

TooLong: TypeAlias = Literal["fail", "drop", "cut"]
EngineName: TypeAlias = Literal["local", "ray"]
OnError: TypeAlias = Literal["fail", "skip"]
OptionPath: TypeAlias = str | os.PathLike[str]


def _option(default: object, help: str, flag: str | None = None, metavar: str | None = None) -> Any:
    """A field of the options. `flag` is its flag, if that is not its name."""
    metadata = {"help": help, "flag": flag, "metavar": metavar}
    return dataclasses.field(default=default, metadata=metadata)


def _shared(default: object = None) -> Any:
    """An option of prompts, whose flags several commands share."""
    return dataclasses.field(default=default, metadata={})


@dataclass(frozen=True, kw_only=True)
class DatasetOptions:
    """Options that turn conversations into training examples.

    `thinking`, `effort`, `dialect`, `tools`, `drop_thinking` and `bos` are those of `dsv4.Request`,
    `task` is set on every last message; if one is None, each line decides. `rules` are those of
    `dsv4.api.read`.
    """

    trainer: str | None = _option(
        None,
        "name the columns as this trainer does; it ignores others, and then trains on every token",
        "--for",
    )
    format: str | None = _option(
        None,
        "the output format, if the name of OUT does not tell it: jsonl, jsonl.gz, jsonl.zst or "
        "parquet",
        metavar="NAME",
    )
    pack: int | None = _option(
        None,
        "pack examples into rows of at most this many tokens, with position_ids and "
        "sequence_lengths",
        metavar="LENGTH",
    )
    max_length: int | None = _option(
        None,
        "the longest example, in tokens (default: the length of a packed row, if any)",
        metavar="N",
    )
    too_long: TooLong = _option(
        "fail",
        "what to do with a longer example: treat it as a bad line (fail, the default), leave it "
        "out (drop), or cut it after the last complete turn of the model (cut)",
    )
    preferences: bool = _option(
        False,
        "lines are pairs: a prompt with chosen and rejected, or two conversations that begin "
        "alike; with --for trl, write what its DPOTrainer reads",
    )
    kto: bool = _option(
        False,
        "lines are answers with a label, true or false; with --for trl, write what its KTOTrainer "
        "reads",
    )
    policy: str | None = _option(
        None,
        "what the loss mask selects: assistant (everything the model wrote, the default), "
        "last_turn, answers (everything but reasoning) or calls (tool calls)",
        metavar="NAME",
    )
    expand: bool = _option(
        False,
        "make several examples of a conversation where needed, so that every assistant turn keeps "
        "the reasoning that a single prompt would drop",
    )
    thinking: bool | None = _shared()
    effort: Effort | str | None = _shared()
    dialect: DialectName | Dialect | None = _shared()
    tools: Sequence[ToolInput] | None = _shared()
    drop_thinking: bool | None = _shared()
    bos: bool | None = _shared()
    task: str | None = _shared()
    rules: BodyRules | None = _shared()
    tokenizer: OptionPath | None = _option(
        None,
        "a tokenizer.json or a checkpoint folder (default: the bundled V4 vocabulary)",
        metavar="PATH",
    )
    column: str | None = _option(
        None, "the column of a Parquet file that has the conversations", metavar="NAME"
    )
    jobs: int | None = _option(None, "number of processes (default: one per core)", metavar="N")
    engine: EngineName = _option("local", "run on this machine (the default) or on Ray")
    on_error: OnError = _option(
        "fail",
        "what to do with a bad line: stop (fail, the default), or report it and continue (skip)",
    )
    ignore: Sequence[str] = _option(
        (),
        "train on lines with these errors of `check --for training`, separated by commas: "
        "reasoning_in_content, calls_in_content, other_markup, arguments_not_json; unread_field "
        "passes over fields of training that are not understood",
        metavar="KINDS",
    )
    rejects: OptionPath | None = _option(
        None, "with --on-error skip: also write bad lines to this file", metavar="FILE"
    )
    keep_untrained: bool = _option(False, "also write examples whose loss mask is all zero")
    carry: Sequence[str] | None = _option(
        None,
        "copy these fields (or Parquet columns), separated by commas, to each row, and add its "
        "file and line",
        metavar="NAMES",
    )
    resume: bool = _option(False, "continue an interrupted run; do nothing if it is finished")
    overwrite: bool = _option(
        False, "replace an output that is there already, or that of an interrupted run"
    )
    counts: bool = _option(
        False,
        "print statistics to stderr as JSON: lengths, tokens by field, speed and memory",
        "--stats",
    )

    def __post_init__(self) -> None:
        for name, what in (("ignore", "kinds"), ("carry", "names")):
            if getattr(self, name) is not None:
                values = tuple(option_list(getattr(self, name), name, what))
                object.__setattr__(self, name, values)
        for name in ("tokenizer", "rejects"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, option_path(getattr(self, name), name))
        for name, kind in OPTION_TYPES.items():
            _check_type(name, getattr(self, name), kind)

    @property
    def overrides(self) -> RequestOverrides:
        """The options of every prompt."""
        names = (field.name for field in dataclasses.fields(RequestOverrides))
        return RequestOverrides(**{name: getattr(self, name) for name in names})


def _check_type(name: str, value: object, kind: object) -> None:
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            expected = " or ".join(get_args(kind))
            raise DatasetError(f"{name}: found {short_repr(value)}, expected {expected}")
    elif kind is bool:
        if value.__class__ is not bool:
            raise DatasetError(f"{name}: found {short_repr(value)}, expected True or False")
    elif kind == int | None:
        if value is not None and (not isinstance(value, int) or value is True or value < 1):
            raise DatasetError(f"{name}: found {short_repr(value)}, expected at least 1")
    elif name in _NAMES and not isinstance(value, (str, type(None))):
        raise DatasetError(f"{name}: found {short_repr(value)}, expected the name of one")


_NAMES = ("policy", "column")  # names that are not looked up in tables
OPTION_TYPES: dict[str, Any] = get_type_hints(DatasetOptions)
DatasetOptions.__doc__ = f"{DatasetOptions.__doc__}\n" + "\n".join(
    f"    - `{field.name}`: {field.metadata['help']}"
    for field in dataclasses.fields(DatasetOptions)
    if field.metadata
)


# Paths and lists, as callers give them.


def option_path(path: object, option: str) -> str:
    """The path that an option gives."""
    path_text: object = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(path_text, str):
        raise DatasetError(f"{option}: found {short_repr(path)}, expected a path")
    return path_text


def option_paths(paths: object, option: str) -> list[str]:
    """The paths that an option gives: at least one."""
    listed = [option_path(path, option) for path in option_list(paths, option, "paths")]
    if not listed:
        raise DatasetError(f"{option}: found none, expected at least one path")
    return listed


def option_list(values: object, option: str, what: str) -> list[Any]:
    """The values that an option gives: any iterable except a text."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise DatasetError(f"{option}: found {short_repr(values)}, expected a list of {what}")
    return list(values)
