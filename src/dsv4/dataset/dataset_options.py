"""The options of a dataset run, what follows from them, and the checks that need no input."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dsv4._check.training_checks import UNFIT_KINDS
from dsv4._format.dialects import dialect_named
from dsv4._inputs.input_files import os_error_reason
from dsv4._inputs.request_bodies import RequestOverrides
from dsv4.dataset.dataset_errors import DatasetError
from dsv4.dataset.dataset_reader import (
    DEFAULT_CHUNK_SIZE,
    WITHOUT_BYTE_POSITIONS,
    ChunkSize,
    source_of,
)
from dsv4.dataset.example_encoder import (
    WHOLE_DATASET,
    EncodingJob,
    SplitShare,
    chunk_bytes_for_packing,
    served_name,
)
from dsv4.dataset.output_formats import (
    ARRAY_FORMATS,
    DATASET_FORMATS,
    OWN_COLUMNS,
    PREFERENCE_COLUMNS,
    format_by_ending,
    format_of_path,
    layout_for,
    trainer_named,
)
from dsv4.dataset.resumable_output import unfinished_files
from dsv4.errors import Error, short_repr
from dsv4.profiles.profile import profile_named
from dsv4.request import Request
from dsv4.tokens.masks import weigher
from dsv4.tokens.tokenizer import Tokenizer

# Paths and lists, as callers give them.


def option_path(path: object, option: str) -> str:
    """The path that an option gives."""
    found: object = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(found, str):
        raise DatasetError(f"{option}: found {short_repr(path)}, expected a path")
    return found


def option_paths(paths: object, option: str) -> list[str]:
    """The paths that an option gives: at least one."""
    found = [option_path(path, option) for path in option_list(paths, option, "paths")]
    if not found:
        raise DatasetError(f"{option}: found none, expected at least one path")
    return found


def option_list(values: object, option: str, what: str) -> list[Any]:
    """The values that an option gives: any iterable except a text."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise DatasetError(f"{option}: found {short_repr(values)}, expected a list of {what}")
    return list(values)


def is_file(path: str) -> bool:
    """Whether a path is a regular file, or could become one."""
    try:
        return path != "-" and stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise DatasetError(f"{path}: {os_error_reason(error)}") from None


def is_same_path(path: str, other: str) -> bool:
    """Whether two paths lead to one file, which may not be there yet."""
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def input_sizes(paths: Sequence[str]) -> list[int] | None:
    """The sizes of the inputs, if positions in them can be compared with these."""
    if any(path == "-" or path.endswith(WITHOUT_BYTE_POSITIONS) for path in paths):
        return None
    try:
        return [os.stat(path).st_size for path in paths]
    except OSError:
        return None


def output_format_for(path: str) -> str:
    """The format of an output, which may be a pipe or a device."""
    if is_file(path):
        return format_of_path(path)
    name = format_by_ending(path) or "jsonl"
    if DATASET_FORMATS[name].finish is not None:
        raise DatasetError(f"output: {path} is a pipe or a device, which cannot take .{name}")
    return name


def load_dataset_tokenizer(path: str | None) -> Tokenizer:
    try:
        return Tokenizer.load(path)
    except OSError as error:
        raise DatasetError(f"{path}: {os_error_reason(error)}") from None


# Inputs of fewer bytes are encoded before a second process has started.
SMALL_INPUT = 500_000


@dataclass(frozen=True)
class DatasetOptions:
    """The options of a run. `check_options` and `check_files` check them."""

    inputs: Sequence[str]
    output: str
    overrides: RequestOverrides
    policy: str | None
    expand: bool
    tokenizer: str | None
    column: str | None
    jobs: int | None
    engine: str
    on_error: str
    resume: bool
    overwrite: bool
    carry: tuple[str, ...] | None
    labels: bool
    trainer: str | None
    drop_untrained: bool
    rejects: str | None
    format_name: str | None = None
    max_length: int | None = None
    too_long: str = "fail"
    pack: int | None = None
    share: SplitShare = WHOLE_DATASET
    counts: bool = False
    ignore: tuple[str, ...] = ()
    pad_to_multiple: int | None = None
    preferences: bool = False
    profile: str | None = None

    @cached_property
    def job(self) -> EncodingJob:
        return EncodingJob(
            self.overrides,
            self.policy or "assistant",
            self.expand,
            self.tokenizer,
            self.format_name or output_format_for(self.output),
            self.carry,
            layout_for(self.trainer, self.labels),
            self.drop_untrained,
            self.rejects is not None,
            "one-shot" if self.is_small else "auto",
            self.pack if self.max_length is None else self.max_length,
            self.too_long,
            self.pack,
            self.share,
            self.counts,
            self._has_images,
            self.ignore,
            self.pad_to_multiple,
            self._tells_shared,
            self.preferences,
            self.preferences and self.trainer is not None,
            self.profile,
        )

    @property
    def _tells_shared(self) -> bool:
        """Whether a conversation may have several rows, which tell what they have in common."""
        has_column = layout_for(self.trainer, self.labels).shared is not None
        return (self.expand or self.profile is not None) and has_column and self.pack is None

    @property
    def _has_images(self) -> bool:
        """Whether prompts may have images: by the dialect that is asked for, or the tokenizer's."""
        wanted = self.overrides.dialect
        try:
            dialect = (
                dialect_named(wanted) if wanted else load_dataset_tokenizer(self.tokenizer).dialect
            )
        except Error:  # the check of the options reports it
            return False
        return dialect.image_token is not None

    @property
    def chunks(self) -> ChunkSize:
        """How large chunks are: rows of several examples are packed within one."""
        return (
            DEFAULT_CHUNK_SIZE
            if self.pack is None
            else ChunkSize(1 << 16, chunk_bytes_for_packing(self.pack), first=1 << 16)
        )

    @cached_property
    def is_small(self) -> bool:
        """Whether several processes and a fast tokenizer cost more time than they save."""
        known = input_sizes(self.inputs)
        return self.engine == "local" and known is not None and sum(known) < SMALL_INPUT


# The checks: a wrong option is one error, not one for every line.


def check_options(options: DatasetOptions) -> None:
    """Raises where an option is wrong, or where two do not go together."""
    if options.resume and options.overwrite:
        raise DatasetError("overwrite: found it with resume, expected one of them")
    if options.rejects is not None and options.on_error != "skip":
        raise DatasetError("rejects: only written if bad lines are skipped (--on-error skip)")
    if options.expand and options.policy is not None:
        raise DatasetError("policy: expand has a mask of its own, expected none")
    _check_types(options)
    _check_ignored(options)
    _check_trainer(options)
    _check_lengths(options)
    _check_preferences(options)
    _check_profile(options)
    _check_carried(options)
    for name, allowed in (
        ("engine", ("local", "ray")),
        ("on_error", ("fail", "skip")),
        ("too_long", ("fail", "drop", "cut", "left")),
    ):
        if getattr(options, name) not in allowed:
            found, expected = short_repr(getattr(options, name)), " or ".join(allowed)
            raise DatasetError(f"{name}: found {found}, expected {expected}")
    DATASET_FORMATS[options.job.format_name].check_packages()
    try:
        _check_encoding(options)
    except DatasetError:
        raise
    except Error as error:
        raise DatasetError(str(error)) from None
    except ValueError as error:  # the engine's own
        raise DatasetError(f"{options.tokenizer}: {error}") from None


_FLAGS = ("expand", "resume", "overwrite", "labels", "drop_untrained", "counts", "preferences")


def _check_types(options: DatasetOptions) -> None:
    for name in _FLAGS:
        if getattr(options, name).__class__ is not bool:
            raise DatasetError(
                f"{name}: found {short_repr(getattr(options, name))}, expected True or False"
            )
    if options.policy is not None and not isinstance(options.policy, str):
        raise DatasetError(f"policy: found {short_repr(options.policy)}, expected the name of one")


def _check_ignored(options: DatasetOptions) -> None:
    for kind in options.ignore:
        if kind not in UNFIT_KINDS:
            expected = f"expected one of {', '.join(UNFIT_KINDS)}"
            raise DatasetError(f"ignore: found {short_repr(kind)}, {expected}")


def _check_trainer(options: DatasetOptions) -> None:
    """Checks that the trainer reads what is written."""
    if options.trainer is None:
        return
    if options.labels:
        raise DatasetError("labels: found it with trainer, which names the columns")
    trainer = trainer_named(options.trainer)
    if trainer.format_name is None and options.job.format_name in ARRAY_FORMATS:
        problem = f"found .{options.job.format_name}, which {options.trainer} does not read"
        raise DatasetError(f"output: {problem}: expected .jsonl or .parquet")
    if options.pack is not None and trainer.packing is not None:
        problem = f"found it for {options.trainer}, which packs examples itself ({trainer.packing})"
        raise DatasetError(f"pack: {problem}")


def _check_carried(options: DatasetOptions) -> None:
    """Checks that rows of the output can hold the carried columns."""
    for name in options.carry or ():
        if not isinstance(name, str):
            raise DatasetError(f"carry: found {short_repr(name)}, expected the name of a field")
        if name in OWN_COLUMNS:
            raise DatasetError(f"carry: found {name}, which is a column of the output's own")
    for option in ("carry", "labels"):
        if getattr(options, option) and options.job.format_name in ARRAY_FORMATS:
            problem = f"found it with .{options.job.format_name}, which holds only ids and masks"
            raise DatasetError(f"{option}: {problem}: expected .jsonl or .parquet")


def _check_lengths(options: DatasetOptions) -> None:
    for name in ("jobs", "pack", "max_length", "pad_to_multiple"):
        number = getattr(options, name)
        if number is not None and (number.__class__ is not int or number < 1):
            raise DatasetError(f"{name}: found {short_repr(number)}, expected at least 1")
    _check_padding(options)
    if options.pack is None:
        return
    if options.max_length is not None and options.max_length > options.pack:
        problem = (
            f"found {options.max_length}, expected no more than the {options.pack} of a packed row"
        )
        raise DatasetError(f"max_length: {problem}")
    if options.carry is not None:
        raise DatasetError("carry: found it with pack, expected a row for each example")


def _check_padding(options: DatasetOptions) -> None:
    """Padding must not make rows longer than was asked for."""
    for name in ("pack", "max_length"):
        most = getattr(options, name)
        if options.pad_to_multiple and most is not None and most % options.pad_to_multiple:
            problem = f"found {options.pad_to_multiple}, expected a divisor of {name}, {most}"
            raise DatasetError(f"pad_to_multiple: {problem}")


def _check_preferences(options: DatasetOptions) -> None:
    """Checks that nothing is asked of pairs that only conversations have."""
    if not options.preferences:
        return
    for name in ("expand", "policy", "labels", "pack", "pad_to_multiple", "profile"):
        if getattr(options, name):
            raise DatasetError(f"{name}: found it with preferences, expected one of them")
    if options.overrides.task is not None:
        raise DatasetError("task: found it with preferences, expected one of them")
    if options.trainer not in (None, "trl"):
        problem = f"found it for {options.trainer}, expected trl, or no trainer"
        raise DatasetError(f"preferences: {problem}")
    if options.job.format_name in ARRAY_FORMATS:
        problem = f"found .{options.job.format_name}, which has no place for pairs"
        raise DatasetError(f"output: {problem}: expected .jsonl or .parquet")
    if options.too_long in ("cut", "left"):
        problem = f"found {options.too_long} with preferences, expected fail or drop"
        raise DatasetError(f"too_long: {problem}")
    for name in options.carry or ():
        if name in PREFERENCE_COLUMNS:
            raise DatasetError(f"carry: found {name}, which is a column of the output's own")


def _check_profile(options: DatasetOptions) -> None:
    """Checks that a server's prompts are not asked to be others."""
    if options.profile is None:
        return
    try:
        profile = profile_named(options.profile)
    except Error as error:
        raise DatasetError(str(error)) from None
    if options.policy is not None:
        raise DatasetError("policy: found it with profile, expected one of them")
    for name, value in vars(options.overrides).items():
        if value is not None and name not in ("dialect", "tools"):
            problem = "found it with profile, expected it in each line, as the server reads it"
            raise DatasetError(f"{name}: {problem}")
    dialect = served_name(options.overrides.dialect or "v4")
    if dialect not in profile.dialects:
        expected = " or ".join(profile.dialects)
        raise DatasetError(f"dialect: found {dialect}, expected {expected} on {profile.server}")
    if options.too_long == "left":
        raise DatasetError("too_long: found left with profile, expected fail, drop or cut")


def _check_encoding(options: DatasetOptions) -> None:
    """Encodes a conversation that is known to be right."""
    tokenizer = load_dataset_tokenizer(options.tokenizer)
    weigher(options.job.policy, ())
    prompt = options.overrides.on(Request([{"role": "user", "content": "Hi"}])).encode()
    if options.overrides.dialect is not None:
        tokenizer.dialect_for(options.overrides.dialect)
    if options.tokenizer is not None:
        tokenizer.count(prompt)  # the bundled file is known to be complete


def check_files(options: DatasetOptions) -> None:
    if "-" in options.inputs and (
        len(options.inputs) > 1 or options.resume or options.engine == "ray"
    ):
        raise DatasetError("stdin must be the only input, and cannot be resumed or read by Ray")
    for path in options.inputs:
        source_of(path, options.column, options.carry).check()
    _check_output_paths(options)
    if options.resume and not all(map(is_file, [*options.inputs, options.output])):
        problem = "needs files for input and output, which pipes and devices are not"
        raise DatasetError(f"resume: {problem}")


def _check_output_paths(options: DatasetOptions) -> None:
    """What is written must be none of what is read, nor one file twice."""
    inputs = [path for path in options.inputs if path != "-"]
    outputs = [] if options.output == "-" else [options.output, *unfinished_files(options.output)]
    for path in inputs:
        if any(is_same_path(path, output) for output in outputs):
            raise DatasetError(f"{path} is both input and output: choose another output")
    if options.rejects is not None and is_file(options.rejects):
        for path in (*inputs, *outputs):
            if is_same_path(path, options.rejects):
                raise DatasetError(f"rejects: found {path}, expected a file of its own")


def split_shares(split: Mapping[str, float]) -> dict[str, SplitShare]:
    """The stretches of the parts, by name. Together they are the whole."""
    if not isinstance(split, Mapping) or not split:
        raise DatasetError(
            f"split: found {short_repr(split)}, expected shares of parts by their names"
        )
    for name, share in split.items():
        if not isinstance(name, str) or not name or not all(c.isalnum() or c in "-_" for c in name):
            raise DatasetError(
                f"split: found the name {short_repr(name)}, expected letters and digits"
            )
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
            raise DatasetError(
                f"split: found {short_repr(share)} for {name}, expected a share up to 1"
            )
    if abs(sum(split.values()) - 1) > 1e-9:
        found = " + ".join(map(str, split.values()))
        raise DatasetError(f"split: found {found}, expected shares that add up to 1")
    return dict(_consecutive_shares(split))


def _consecutive_shares(split: Mapping[str, float]) -> Iterator[tuple[str, SplitShare]]:
    low = 0.0
    for n, (name, share) in enumerate(split.items(), 1):
        high = 1.0 if n == len(split) else low + share
        yield name, SplitShare(low, high)
        low = high


def split_output_path(output: str, part: str, format_name: str) -> str:
    """Where a part goes: `train.jsonl` -> `train.valid.jsonl` for the part `valid`."""
    folder, name = os.path.split(output)
    return os.path.join(folder, f"{name.removesuffix(f'.{format_name}')}.{part}.{format_name}")
