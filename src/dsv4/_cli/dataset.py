"""dsv4 dataset"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import Field, asdict, fields
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from dsv4._cli.command_options import PromptOptions
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
from dsv4._cli.conversation_files import prompt_overrides
from dsv4._cli.option_fields import add_options, options_of, positive_integer
from dsv4.dataset import dataset_notes as notes
from dsv4.dataset.dataset_notes import MOST_COMPARED

if TYPE_CHECKING:
    from dsv4.dataset import DatasetOptions, Summary


EXAMPLE = """
dsv4 dataset conversations.jsonl -o train.parquet
dsv4 dataset part-*.jsonl.gz -o train.jsonl.zst --policy answers --on-error skip
dsv4 dataset conversations.jsonl -o train.jsonl --resume
dsv4 dataset conversations.jsonl -o train.parquet --for trl --expand
dsv4 dataset pairs.jsonl -o pairs.parquet --preferences --for trl
dsv4 dataset labelled.jsonl -o labelled.parquet --kto --for trl
dsv4 dataset conversations.jsonl -o data --for megatron --pack 4096 --too-long cut
dsv4 dataset conversations.jsonl -o data.parquet --split train=0.95,valid=0.05 --stats
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from dsv4.dataset.dataset_options import DatasetOptions

    parser.add_argument(
        "files",
        metavar="IN",
        nargs="+",
        help="JSON lines (.jsonl, .jsonl.gz, .jsonl.zst; - is stdin), a JSON array of "
        "conversations (.json), or .parquet",
    )
    parser.add_argument(
        *("-o", "--output"),
        required=True,
        metavar="OUT",
        help="where to write input_ids and loss_mask: .jsonl, .jsonl.gz, .jsonl.zst, .parquet, "
        ".bin (Megatron, with .idx) or .npy (NumPy); - is stdout, as .jsonl",
    )
    for field in fields(DatasetOptions):
        if field.metadata:
            _add_flag(parser, field)
    add_options(parser, PromptOptions)


def _add_flag(parser: argparse.ArgumentParser, field: Field[Any]) -> None:
    """The flag of an option. What is not given is not in the namespace."""
    from dsv4.dataset.dataset_options import OPTION_TYPES
    from dsv4.dataset.output_formats import TRAINERS

    flag = field.metadata["flag"] or f"--{field.name.replace('_', '-')}"
    kind = OPTION_TYPES[field.name]
    described: dict[str, Any] = {
        "help": field.metadata["help"],
        "dest": field.name,
        "default": argparse.SUPPRESS,
    }
    if kind is bool:
        parser.add_argument(flag, action="store_true", **described)
        return
    choices = _CHOICES.get(field.name, get_args(kind) if get_origin(kind) is Literal else None)
    if field.name == "trainer":
        choices = tuple(TRAINERS)
    metavar = field.metadata["metavar"]
    type: Callable[[str], Any] = _READERS.get(
        field.name, positive_integer if int in get_args(kind) else str
    )
    parser.add_argument(flag, choices=choices, metavar=metavar, type=type, **described)


def run(args: argparse.Namespace) -> int:
    from dsv4.dataset.dataset_options import OPTION_TYPES, DatasetOptions

    overrides = vars(prompt_overrides(options_of(PromptOptions, args)))
    flags = {n: v for n, v in vars(args).items() if n in OPTION_TYPES and n not in overrides}
    options = DatasetOptions(**flags, **overrides)
    with silenced_libraries() if options.engine == "ray" else nullcontext():
        return _run(args, options)


def _run(args: argparse.Namespace, options: DatasetOptions) -> int:
    from dsv4._cli.progress_bar import ProgressBar
    from dsv4.dataset import BadLine, DatasetError, Interrupted, encode_files

    bar = ProgressBar()
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


def _split(text: str) -> dict[str, float]:
    split: dict[str, float] = {}
    for part in text.split(","):
        name, equals, share = part.partition("=")
        try:
            split[name] = float(share)
        except ValueError:
            equals = ""
        if not equals:
            problem = f"found {part}, expected a name and a share, as train=0.95"
            raise argparse.ArgumentTypeError(problem)
    return split


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


_CHOICES = {
    "format": ("jsonl", "jsonl.gz", "jsonl.zst", "parquet", "megatron", "numpy"),
    "policy": ("assistant", "last_turn", "answers", "calls"),
}
_READERS = {"split": _split, "ignore": _names, "carry": _names}


def _closing_lines(summary: Summary, output: str, options: DatasetOptions) -> Iterator[str]:
    """The result, and what to know before training on it."""
    if summary.resumed_nothing:
        yield f"{output} is finished: nothing was left to do (--overwrite does it again)"
        return
    if summary.bad:
        rejects = f", kept in {options.rejects}" if options.rejects else ""
        yield f"{plural(summary.bad, 'bad line')} left out{rejects}"
    for kind, words in _ADVICE.items():
        if kind in summary.notes:
            count, first = summary.notes[kind]
            yield f"{words(count, summary, options)}; the first: {first}"
    if not (
        options.trainer or options.labels or options.preferences or options.kto
    ) and not _is_flat(output, options):
        ignoring = "which TRL, Axolotl and torchtune ignore"
        yield f"the mask is in the column loss_mask, {ignoring} (--for writes their columns)"
    trained = f"{summary.trained:,} trained on"
    sizes = f"{plural(summary.examples, 'example')}, {plural(summary.tokens, 'token')}"
    time = f"{summary.seconds:,.1f} s"
    yield f"{plural(summary.conversations, 'conversation')}, {sizes}, {trained}, {time}"


def _is_flat(output: str, options: DatasetOptions) -> bool:
    """Whether the output is arrays, which have no columns."""
    return options.format in ("megatron", "numpy") or output.endswith((".bin", ".npy"))


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


def _sentence(text: str, one: str) -> Callable[[int, Summary, DatasetOptions], str]:
    """Words with the number of something in place of `{}`."""
    return lambda count, summary, options: text.format(plural(count, one))


# What was found in the data -> what is said of it, with the flag that changes it. What is left out
# comes first.
_ADVICE: Mapping[str, Callable[[int, Summary, DatasetOptions], str]] = {
    notes.LEFT_MESSAGE: _sentence(
        "{} left out: the format drops it before the last user turn "
        "(as system, it stays; --strict-data refuses such lines)",
        "developer message",
    ),
    notes.LEFT_REASONING: _sentence(
        "the reasoning of {} is not in the examples, as in a prompt (--expand keeps it)",
        "earlier turn",
    ),
    notes.UNWRITTEN_REASONING: _sentence(
        "the reasoning of {} is not in the examples: thinking is off there (--mode thinking)",
        "answer",
    ),
    notes.LEFT_FIELD: _sentence(
        "{} left out, which the format has no place for (dsv4 check names them)", "field"
    ),
    notes.OPEN_TURN: _sentence("{} without EOS: the lines say prefix or wo_eos", "answer"),
    notes.TOO_LONG: _sentence("{} too long, and left out (--max-length)", "example"),
    notes.CUT: _sentence(
        "{} too long, and shortened by whole turns (--max-length, --too-long)", "example"
    ),
    notes.NOTHING_TO_LEARN: _untrained,
    notes.NO_REASONING: _without_reasoning,
    notes.UNDECLARED_TOOL: _sentence(
        "{} of tools that the line does not declare (--tools declares them for all)", "call"
    ),
    notes.COPY: _copies,
    notes.UNKNOWN_MODEL: _sentence(
        "{} with a model whose dialect is not known, read as v4 (--dialect chooses another)",
        "conversation",
    ),
    notes.OTHER_RELEASE: _sentence(
        "{} in the format of another release than v4, as the line says (--dialect chooses one)",
        "conversation",
    ),
    notes.UNOPENED: _sentence(
        "{} of the assistant after no question: the token that opens it is missing "
        "(join such turns with the one before, or leave them out)",
        "turn",
    ),
}


def _resume_hint(count: int) -> str:
    return f" (--resume continues after {plural(count, 'conversation')})" if count else ""
