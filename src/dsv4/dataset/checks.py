"""What can be known to be wrong before anything is done: one mistake, and not one of every line."""

from __future__ import annotations

from dsv4._format.dialects import dialect_named
from dsv4.dataset.asked import Run
from dsv4.dataset.failures import DatasetError
from dsv4.dataset.files import is_file, is_same, tokenizer_at
from dsv4.dataset.forms import FLAT, FORMS, OWN_COLUMNS
from dsv4.dataset.partial import unfinished_files
from dsv4.dataset.sources import source_of
from dsv4.errors import Error, short_repr
from dsv4.request import Request
from dsv4.tokens.masks import weigher


def check_options(run: Run) -> None:
    """Raises where an option is wrong, or where two do not go together."""
    if run.resume and run.overwrite:
        raise DatasetError("overwrite: found it with resume, expected one of them")
    if run.rejects is not None and run.on_error != "skip":
        raise DatasetError("rejects: only written if bad lines are skipped (--on-error skip)")
    if run.expand and run.policy is not None:
        raise DatasetError("policy: expand has a mask of its own, expected none")
    _check_kinds(run)
    _check_lengths(run)
    _check_carried(run)
    for name, allowed in (
        ("engine", ("local", "ray")),
        ("on_error", ("fail", "skip")),
        ("too_long", ("fail", "drop", "cut")),
    ):
        if getattr(run, name) not in allowed:
            found, expected = short_repr(getattr(run, name)), " or ".join(allowed)
            raise DatasetError(f"{name}: found {found}, expected {expected}")
    FORMS[run.job.form].needs()
    try:
        _check_encoding(run)
    except DatasetError:
        raise
    except Error as error:
        raise DatasetError(str(error)) from None
    except ValueError as error:  # the engine's own
        raise DatasetError(f"{run.tokenizer}: {error}") from None


_FLAGS = ("expand", "resume", "overwrite", "labels", "drop_unlearnable", "counts")


def _check_kinds(run: Run) -> None:
    for name in _FLAGS:
        if getattr(run, name).__class__ is not bool:
            raise DatasetError(
                f"{name}: found {short_repr(getattr(run, name))}, expected True or False"
            )
    if run.policy is not None and not isinstance(run.policy, str):
        raise DatasetError(f"policy: found {short_repr(run.policy)}, expected the name of one")


def _check_carried(run: Run) -> None:
    """A row must have room for what is carried along."""
    for name in run.carry or ():
        if not isinstance(name, str):
            raise DatasetError(f"carry: found {short_repr(name)}, expected the name of a field")
        if name in OWN_COLUMNS:
            raise DatasetError(f"carry: found {name}, which is a column of the output's own")
    for option in ("carry", "labels"):
        if getattr(run, option) and run.job.form in FLAT:
            problem = f"found it with .{run.job.form}, which holds ids and masks alone"
            raise DatasetError(f"{option}: {problem}: expected .jsonl or .parquet")


def _check_lengths(run: Run) -> None:
    numbers = (("jobs", run.jobs), ("pack", run.pack), ("max_length", run.longest))
    for name, number in numbers:
        if number is not None and (number.__class__ is not int or number < 1):
            raise DatasetError(f"{name}: found {short_repr(number)}, expected at least 1")
    if run.pack is None:
        return
    if run.longest is not None and run.longest > run.pack:
        problem = f"found {run.longest}, expected no more than the {run.pack} of a packed row"
        raise DatasetError(f"max_length: {problem}")
    if run.carry is not None:
        raise DatasetError("carry: found it with pack, expected a row for each example")


def _check_encoding(run: Run) -> None:
    """Encodes something that is known to be right."""
    tokenizer = tokenizer_at(run.tokenizer)
    weigher(run.job.policy, ())
    prompt = run.overrides.on(Request([{"role": "user", "content": "Hi"}])).encode()
    if run.overrides.dialect is not None:
        dialect = dialect_named(run.overrides.dialect)
        tokenizer.vocabulary.check(dialect.special_tokens, str(dialect))
    if run.tokenizer is not None:
        tokenizer.count(prompt)  # the bundled file is known to do


def check_files(run: Run) -> None:
    if "-" in run.inputs and (len(run.inputs) > 1 or run.resume or run.engine == "ray"):
        raise DatasetError("stdin must be the only input, and cannot be resumed or read by Ray")
    for path in run.inputs:
        source_of(path, run.column, run.carry).check()
    _check_written(run)
    if run.resume and not all(map(is_file, [*run.inputs, run.output])):
        problem = "needs files for input and output, which pipes and devices are not"
        raise DatasetError(f"resume: {problem}")


def _check_written(run: Run) -> None:
    """What is written must be none of what is read, nor one file twice."""
    inputs = [path for path in run.inputs if path != "-"]
    outputs = [] if run.output == "-" else [run.output, *unfinished_files(run.output)]
    for path in inputs:
        if any(is_same(path, output) for output in outputs):
            raise DatasetError(f"{path} is both input and output: choose another output")
    if run.rejects is not None and is_file(run.rejects):
        for path in (*inputs, *outputs):
            if is_same(path, run.rejects):
                raise DatasetError(f"rejects: found {path}, expected a file of its own")
