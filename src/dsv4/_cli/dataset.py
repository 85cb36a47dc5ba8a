"""dsv4 dataset"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import Field, asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from dsv4._cli.command_options import EncodingOptions
from dsv4._cli.command_output import (
    DONE,
    FINDINGS,
    INTERRUPTED,
    MISUSE,
    Failure,
    json_text,
    plural,
    silenced_libraries,
)
from dsv4._cli.command_texts import ADVICE
from dsv4._cli.conversation_files import encoding_overrides, read_session
from dsv4._cli.dataset_proof import prove_files
from dsv4._cli.option_fields import add_options, argument, details_of, option, options_of
from dsv4.dataset import dataset_notes as notes
from dsv4.dataset.dataset_notes import MOST_COMPARED

if TYPE_CHECKING:
    from dsv4.dataset import DatasetOptions, Summary


@dataclass(kw_only=True)
class DatasetFiles:
    """The input files, and the output file or the trainer of a proof."""

    files: list[str] = argument("IN", "+")
    output: str | None = option("-o", "--output", metavar="OUT", group="purpose")
    prove: str | None = option(choices=("trl",), group="purpose")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from dsv4.dataset.dataset_options import DatasetOptions

    add_options(parser, DatasetFiles)
    for field in fields(DatasetOptions):
        if field.metadata:
            _add_flag(parser, field)
    add_options(parser, EncodingOptions)


def _add_flag(parser: argparse.ArgumentParser, field: Field[Any]) -> None:
    """Adds the flag of an option. A flag that is not given is not in the namespace."""
    from dsv4.dataset.dataset_options import OPTION_TYPES
    from dsv4.dataset.output_formats import TRAINERS

    flag = field.metadata["flag"] or f"--{field.name.replace('_', '-')}"
    about = {name: field.metadata[name] for name in ("help", "metavar") if field.metadata[name]}
    own = {"choices": tuple(TRAINERS)} if field.name == "trainer" else _OWN_DETAILS.get(field.name)
    details = {**details_of(OPTION_TYPES[field.name]), **(own or {}), **about}
    parser.add_argument(flag, dest=field.name, default=argparse.SUPPRESS, **details)


def run(args: argparse.Namespace) -> int:
    from dsv4.dataset.dataset_options import OPTION_TYPES, DatasetOptions

    overrides = vars(encoding_overrides(options_of(EncodingOptions, args)))
    flags = {n: v for n, v in vars(args).items() if n in OPTION_TYPES and n not in overrides}
    if args.prove is not None:
        return prove_files(args.files, flags)
    if args.output is None:
        raise Failure(
            "-o is missing: expected -o OUT, or --prove TRAINER and a file that was written"
        )
    options = DatasetOptions(**flags, **overrides)
    with silenced_libraries() if options.engine == "ray" else nullcontext():
        return _run(args, options)


def _run(args: argparse.Namespace, options: DatasetOptions) -> int:
    from dsv4._cli.progress_bar import ProgressBar
    from dsv4.dataset import BadLine, DatasetError, Interrupted, encode_files

    bar = ProgressBar()
    for path in args.files:
        read_session(path)  # prints whose copy of the model's output is trained on
    try:
        summary = encode_files(args.files, args.output, options, watcher=bar)
    except Interrupted as interrupt:
        raise Failure(f"interrupted{_resume_hint(interrupt.kept)}", INTERRUPTED) from None
    except DatasetError as error:
        status = FINDINGS if isinstance(error, BadLine) else MISUSE
        skip = "; --on-error skip leaves bad lines out"
        hint = skip if isinstance(error, BadLine) and options.on_error == "fail" else ""
        raise Failure(f"{error.problem}{hint}{_resume_hint(error.kept)}", status) from None
    for line in _closing_lines(summary, args.output, options):
        bar.say(f"dsv4: {line}")
    if options.counts:
        counted = {"counts": summary.counts.to_dict()} if summary.counts else {}
        notes = {kind: noted._asdict() for kind, noted in summary.notes.items()}
        bar.say(json_text({**asdict(summary), "notes": notes, **counted}))
    return DONE


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


# Details of flags for argparse that do not follow from their types.
_OWN_DETAILS: dict[str, dict[str, Any]] = {
    "format": {"choices": ("jsonl", "jsonl.gz", "jsonl.zst", "parquet")},
    "policy": {"choices": ("assistant", "last_turn", "answers", "calls")},
    "ignore": {"type": _names},
    "carry": {"type": _names},
}


def _closing_lines(summary: Summary, output: str, options: DatasetOptions) -> Iterator[str]:
    """The lines with the result, and with advice to read before training on it."""
    if summary.resumed_nothing:
        yield f"{output} is finished: nothing was left to do (--overwrite does it again)"
        return
    if summary.bad:
        rejects = f", kept in {options.rejects}" if options.rejects else ""
        yield f"{plural(summary.bad, 'bad line')} left out{rejects}"
    for kind, sentence in ADVICE.items():
        if kind in summary.notes:
            count, first = summary.notes[kind]
            if sentence is None:
                words = _OWN_WORDS[kind](count, summary, options)
            else:
                text, noun = sentence
                words = text.format(plural(count, noun))
            yield f"{words}; the first: {first}"
    for kind, (count, first) in summary.notes.items():
        if kind.startswith(notes.UNREAD):
            name = kind.removeprefix(notes.UNREAD)
            yield f"the field {name} is not used ({plural(count, 'line')}); the first: {first}"
    if not (options.trainer or options.preferences or options.kto):
        ignoring = "which TRL, Axolotl and torchtune ignore"
        yield f"the mask is in the column loss_mask, {ignoring} (--for writes their columns)"
    trained = f"{summary.trained:,} trained on"
    sizes = f"{plural(summary.examples, 'example')}, {plural(summary.tokens, 'token')}"
    time = f"{summary.seconds:,.1f} s"
    yield f"{plural(summary.conversations, 'conversation')}, {sizes}, {trained}, {time}"


def _without_reasoning(count: int, summary: Summary, options: DatasetOptions) -> str:
    share = f"{count:,} of {plural(summary.answers, 'answer')}"
    have, them = ("has", "it") if count == 1 else ("have", "them")
    return f"{share} {have} no reasoning; --mode chat trains {them} without thinking"


def _untrained(count: int, summary: Summary, options: DatasetOptions) -> str:
    what = f"{plural(count, 'example')} with nothing to train on"
    return what if options.keep_untrained else f"{what} left out (--keep-untrained writes them)"


def _copies(count: int, summary: Summary, options: DatasetOptions) -> str:
    one = "is a copy of an earlier one" if count == 1 else "are copies of earlier ones"
    about = "about " if summary.conversations > MOST_COMPARED else ""
    return f"{about}{plural(count, 'line')} {one}, and trained on again"


# Advice that depends on more than a number.
_OWN_WORDS: Mapping[str, Callable[[int, Summary, DatasetOptions], str]] = {
    notes.NOTHING_TO_LEARN: _untrained,
    notes.NO_REASONING: _without_reasoning,
    notes.COPY: _copies,
}


def _resume_hint(count: int) -> str:
    return f" (--resume continues after {plural(count, 'conversation')})" if count else ""
