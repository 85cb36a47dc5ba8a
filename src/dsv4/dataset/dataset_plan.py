"""The plan of a run: its files and options, values that follow from them, and the checks that need
no input.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dsv4._check.training_checks import UNFIT_KINDS
from dsv4._format.dialects import dialect_named
from dsv4._inputs.input_files import os_error_reason
from dsv4.dataset import output_formats
from dsv4.dataset.dataset_errors import DatasetError
from dsv4.dataset.dataset_options import DatasetOptions, option_path, option_paths
from dsv4.dataset.dataset_reader import (
    DEFAULT_CHUNK_SIZE,
    WITHOUT_BYTE_POSITIONS,
    ChunkSize,
    source_of,
)
from dsv4.dataset.example_encoder import EncodingJob
from dsv4.dataset.example_packing import chunk_bytes_for_packing
from dsv4.dataset.resumable_output import unfinished_files
from dsv4.errors import Error, short_repr
from dsv4.request import Request
from dsv4.tokens.masks import weigher
from dsv4.tokens.tokenizer import Tokenizer


def is_file(path: str) -> bool:
    """Whether a path is a regular file, or could become one."""
    try:
        return path != "-" and stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise DatasetError(f"{path}: {os_error_reason(error)}") from None


def is_same_path(path: str, other: str) -> bool:
    """Whether two paths lead to one file, which may not exist yet."""
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
        return output_formats.format_of_path(path)
    name = output_formats.format_by_ending(path) or "jsonl"
    if output_formats.DATASET_FORMATS[name].finish is not None:
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
class DatasetPlan:
    """A run: its files and options. `check_plan` checks it."""

    inputs: Sequence[str]
    output: str
    options: DatasetOptions

    @classmethod
    def of(cls, inputs: object, output: object, options: DatasetOptions) -> DatasetPlan:
        """The plan for files in any form that a caller may give."""
        target = option_path(output, "output")
        if options.format is not None:
            target = output_formats.path_with_ending(target, options.format)
        return cls(option_paths(inputs, "inputs"), target, options)

    @cached_property
    def format_name(self) -> str:
        return self.options.format or output_format_for(self.output)

    @cached_property
    def job(self) -> EncodingJob:
        return EncodingJob(
            self.options,
            self.format_name,
            output_formats.layout_for(self.options.trainer),
            engine="one-shot" if self.is_small else "auto",
            images=self._has_images,
        )

    @property
    def tokenizer(self) -> str | None:
        path = self.options.tokenizer
        return None if path is None else os.fspath(path)

    @property
    def rejects(self) -> str | None:
        path = self.options.rejects
        return None if path is None else os.fspath(path)

    @property
    def _has_images(self) -> bool:
        """Whether prompts may have images: by the dialect in the options, or the tokenizer's."""
        wanted = self.options.dialect
        try:
            if wanted:
                return dialect_named(wanted).image_token is not None
            return load_dataset_tokenizer(self.tokenizer).dialect.image_token is not None
        except Error:  # the check of the options reports it
            return False

    @property
    def chunks(self) -> ChunkSize:
        """The size of chunks: larger for packing, which is done within a chunk."""
        if self.options.pack is None:
            return DEFAULT_CHUNK_SIZE
        return ChunkSize(1 << 16, chunk_bytes_for_packing(self.options.pack), first=1 << 16)

    @cached_property
    def is_small(self) -> bool:
        """Whether several processes and a fast tokenizer cost more time than they save."""
        sizes = input_sizes(self.inputs)
        return self.options.engine == "local" and sizes is not None and sum(sizes) < SMALL_INPUT


# The checks: a wrong option is one error, not one for every line.


def check_plan(plan: DatasetPlan) -> None:
    """Raises if two options do not fit together, or do not fit the output."""
    options = plan.options
    if options.resume:
        _refuse(options, ["overwrite"], "found it with resume, expected one of them")
    if options.on_error != "skip":
        _refuse(options, ["rejects"], "only written if bad lines are skipped (--on-error skip)")
    if options.expand:
        _refuse(options, ["policy"], "expand has a mask of its own, expected none")
    for kind in options.ignore:
        if kind not in (*UNFIT_KINDS, "unread_field"):
            expected = f"expected one of {', '.join(UNFIT_KINDS)}"
            raise DatasetError(f"ignore: found {short_repr(kind)}, {expected}")
    if options.trainer is not None:
        _check_trainer(plan, output_formats.trainer_named(options.trainer))
    _check_lengths(options)
    if options.preferences or options.kto:
        _check_answers(options)
    _check_columns(options)
    output_formats.DATASET_FORMATS[plan.format_name].check_packages()
    try:
        _check_encoding(plan)
    except DatasetError:
        raise
    except Error as error:
        raise DatasetError(str(error)) from None
    except ValueError as error:  # the engine's own
        raise DatasetError(f"{plan.tokenizer}: {error}") from None


def _refuse(options: DatasetOptions, names: Sequence[str], problem: str) -> None:
    """Raises if one of these options is given."""
    for name in names:
        if getattr(options, name):
            raise DatasetError(f"{name}: {problem}")


def _check_trainer(plan: DatasetPlan, trainer: output_formats.Trainer) -> None:
    """Checks that the trainer reads what is written."""
    options, start = plan.options, f"found it for {plan.options.trainer}"
    if trainer.packing is not None:
        _refuse(options, ["pack"], f"{start}, which packs examples itself ({trainer.packing})")
    if trainer.texts:
        # Options that only apply to rows of ids are refused for rows of texts.
        _refuse(options, ["pack"], f"{start}, which computes ids itself")
        if plan.format_name == "parquet":
            problem = f"found .parquet for {options.trainer}, whose columns hold lists of texts"
            raise DatasetError(f"output: {problem}: expected .jsonl")


def _check_columns(options: DatasetOptions) -> None:
    """Checks that rows of the output can hold the carried columns."""
    reserved = [*output_formats.OWN_COLUMNS]
    if options.trainer is not None:
        reserved += output_formats.trainer_named(options.trainer).texts
    if options.preferences or options.kto:
        reserved += output_formats.ANSWER_COLUMNS
    for name in options.carry or ():
        if not isinstance(name, str):
            raise DatasetError(f"carry: found {short_repr(name)}, expected the name of a field")
        if name in reserved:
            raise DatasetError(f"carry: found {name}, which is a column of the output's own")


def _check_lengths(options: DatasetOptions) -> None:
    """Checks that examples fit into packed rows."""
    if options.pack is None:
        return
    if options.max_length is not None and options.max_length > options.pack:
        expected = f"expected no more than the {options.pack} of a packed row"
        raise DatasetError(f"max_length: found {options.max_length}, {expected}")
    if options.carry is not None:
        raise DatasetError("carry: found it with pack, expected a row for each example")


def _check_answers(options: DatasetOptions) -> None:
    """Checks that options only for conversations are not given for pairs or labelled answers."""
    kind = "preferences" if options.preferences else "kto"
    others = ["expand", "policy", "pack", "task"]
    if options.preferences:
        others.append("kto")
    _refuse(options, others, f"found it with {kind}, expected one of them")
    if options.trainer not in (None, "trl"):
        problem = f"found it for {options.trainer}, expected trl, or no trainer"
        raise DatasetError(f"{kind}: {problem}")
    if options.too_long == "cut":
        raise DatasetError(f"too_long: found cut with {kind}, expected fail or drop")


def _check_encoding(plan: DatasetPlan) -> None:
    """Encodes a conversation that is known to be valid, so that wrong options raise."""
    options, tokenizer = plan.options, load_dataset_tokenizer(plan.tokenizer)
    weigher(plan.job.policy, ())
    prompt = options.overrides.on(Request([{"role": "user", "content": "Hi"}])).encode()
    if options.dialect is not None:
        tokenizer.dialect_for(options.dialect)
    if plan.tokenizer is not None:
        tokenizer.count(prompt)  # the bundled file is known to be complete


def check_files(plan: DatasetPlan) -> None:
    options = plan.options
    if "-" in plan.inputs and (len(plan.inputs) > 1 or options.resume or options.engine == "ray"):
        raise DatasetError("stdin must be the only input, and cannot be resumed or read by Ray")
    for path in plan.inputs:
        source_of(path, options.column, options.carry).check()
    _check_output_paths(plan)
    if options.resume and not all(map(is_file, [*plan.inputs, plan.output])):
        problem = "needs files for input and output, which pipes and devices are not"
        raise DatasetError(f"resume: {problem}")


def _check_output_paths(plan: DatasetPlan) -> None:
    """Raises if a file is both read and written, or written twice."""
    inputs = [path for path in plan.inputs if path != "-"]
    outputs = [] if plan.output == "-" else [plan.output, *unfinished_files(plan.output)]
    for path in inputs:
        if any(is_same_path(path, output) for output in outputs):
            raise DatasetError(f"{path} is both input and output: choose another output")
    if plan.rejects is not None and is_file(plan.rejects):
        for path in (*inputs, *outputs):
            if is_same_path(path, plan.rejects):
                raise DatasetError(f"rejects: found {path}, expected a file of its own")
