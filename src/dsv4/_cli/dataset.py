"""dsv4 dataset"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING

from dsv4._cli.command_options import add_prompt_arguments, add_tokenizer_argument, positive_integer
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

if TYPE_CHECKING:
    from dsv4._inputs.request_bodies import RequestOverrides
    from dsv4.dataset import Summary


EXAMPLE = """
dsv4 dataset conversations.jsonl -o train.parquet
dsv4 dataset part-*.jsonl.gz -o train.jsonl.zst --policy answers --on-error skip
dsv4 dataset conversations.jsonl -o train.jsonl --resume
dsv4 dataset conversations.jsonl -o train.parquet --for trl --expand
dsv4 dataset pairs.jsonl -o pairs.parquet --preferences --for trl
dsv4 dataset conversations.jsonl -o data --for megatron --pack 4096 --too-long cut
dsv4 dataset conversations.jsonl -o data.parquet --split train=0.95,valid=0.05 --stats
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from dsv4.dataset.output_formats import TRAINERS

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
    parser.add_argument(
        "--for",
        dest="trainer",
        choices=tuple(TRAINERS),
        help="name the columns as this trainer does; it ignores others, and then "
        "trains on every token",
    )
    parser.add_argument(
        "--format",
        choices=("jsonl", "jsonl.gz", "jsonl.zst", "parquet", "megatron", "numpy"),
        help="the output format, if the name of OUT does not tell it",
    )
    parser.add_argument(
        "--pack",
        type=positive_integer,
        metavar="LENGTH",
        help="pack examples into rows of at most this many tokens, with position_ids and "
        "sequence_lengths",
    )
    parser.add_argument(
        "--max-length",
        type=positive_integer,
        metavar="N",
        help="the longest example, in tokens (default: the length of a packed row, if any)",
    )
    parser.add_argument(
        "--too-long",
        choices=("fail", "drop", "cut", "left"),
        default="fail",
        help="what to do with a longer example: treat it as a bad line (fail, the default), leave "
        "it out (drop), cut it after the last complete turn of the model (cut), or take out its "
        "oldest rounds (left)",
    )
    parser.add_argument(
        "--pad-to-multiple",
        type=positive_integer,
        metavar="N",
        help="pad rows to a multiple of N tokens",
    )
    parser.add_argument(
        "--preferences",
        action="store_true",
        help="lines are pairs: prompt, chosen and rejected, or two conversations that begin alike; "
        "with --for trl, write what its DPOTrainer reads",
    )
    parser.add_argument(
        "--profile",
        metavar="SERVER",
        help="write each answer after the prompt that this server would build, for example "
        "vllm-0.32 or verl-0.9.1",
    )
    parser.add_argument(
        "--split",
        type=_split,
        metavar="PARTS",
        help="split the output into files, for example train=0.95,valid=0.05; a conversation "
        "always goes to the same file",
    )
    parser.add_argument(
        "--policy",
        metavar="NAME",
        choices=("assistant", "last_turn", "answers", "calls"),
        help="what the loss mask selects: assistant (everything the model wrote, the default), "
        "last_turn, answers (everything but reasoning) or calls (tool calls)",
    )
    parser.add_argument(
        "--expand",
        action="store_true",
        help="make several examples of a conversation where needed, so that every assistant turn "
        "keeps the reasoning that a single prompt would drop",
    )
    add_prompt_arguments(parser)
    add_tokenizer_argument(parser)
    parser.add_argument(
        "--column", metavar="NAME", help="the column of a Parquet file that has the conversations"
    )
    parser.add_argument(
        "--jobs",
        type=positive_integer,
        metavar="N",
        help="number of processes (default: one per core)",
    )
    parser.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="run on this machine (the default) or on Ray",
    )
    parser.add_argument(
        "--on-error",
        choices=("fail", "skip"),
        default="fail",
        help="what to do with a bad line: stop (fail, the default), or report it "
        "and continue (skip)",
    )
    parser.add_argument(
        "--ignore",
        metavar="KINDS",
        help="train on lines with these errors of `check --for training`, separated by commas: "
        "reasoning_in_content, calls_in_content, arguments_not_json",
    )
    parser.add_argument(
        "--rejects", metavar="FILE", help="with --on-error skip: also write bad lines to this file"
    )
    parser.add_argument(
        "--drop-untrained",
        action="store_true",
        help="leave out examples whose loss mask is all zero",
    )
    parser.add_argument(
        "--carry",
        metavar="NAMES",
        help="copy these fields (or Parquet columns), separated by commas, to each row, and add "
        "its file and line",
    )
    parser.add_argument(
        "--labels",
        action="store_true",
        help="write labels (the id, or -100 where the mask is 0) instead of loss_mask",
    )
    again = parser.add_mutually_exclusive_group()
    again.add_argument(
        "--resume",
        action="store_true",
        help="continue an interrupted run; do nothing if it is finished",
    )
    again.add_argument(
        "--overwrite",
        action="store_true",
        help="replace an output that is there already, or that of an interrupted run",
    )
    parser.add_argument(
        "--stats",
        action="store_true",
        help="print statistics to stderr as JSON: lengths, tokens by field, speed and memory",
    )


def run(args: argparse.Namespace) -> int:
    overrides = prompt_overrides(args)
    with silenced_libraries() if args.engine == "ray" else nullcontext():
        return _run(args, overrides)


def _run(args: argparse.Namespace, overrides: RequestOverrides) -> int:
    from dsv4._cli.command_output import ProgressBar
    from dsv4.dataset import BadLine, DatasetError, Interrupted, encode_files

    bar = ProgressBar()
    try:
        summary = encode_files(
            args.files,
            args.output,
            policy=args.policy,
            expand=args.expand,
            thinking=overrides.thinking,
            effort=overrides.effort,
            dialect=overrides.dialect,
            tools=overrides.tools,
            drop_thinking=overrides.drop_thinking,
            bos=overrides.bos,
            task=overrides.task,
            tokenizer=args.tokenizer,
            column=args.column,
            jobs=args.jobs,
            engine=args.engine,
            on_error=args.on_error,
            ignore=_names(args.ignore or ""),
            resume=args.resume,
            overwrite=args.overwrite,
            carry=None if args.carry is None else _names(args.carry),
            labels=args.labels,
            trainer=args.trainer,
            drop_untrained=args.drop_untrained,
            rejects=args.rejects,
            format=args.format,
            max_length=args.max_length,
            too_long=args.too_long,
            pack=args.pack,
            pad_to_multiple=args.pad_to_multiple,
            preferences=args.preferences,
            profile=args.profile,
            split=args.split,
            counts=args.stats,
            watcher=bar,
        )
    except Interrupted as interrupt:
        raise Failure(f"interrupted{_resume_hint(interrupt.kept)}", INTERRUPTED) from None
    except DatasetError as error:
        status = FINDINGS if isinstance(error, BadLine) else MISUSE
        raise Failure(f"{error.problem}{_resume_hint(error.kept)}", status) from None
    for line in _closing_lines(summary, args):
        bar.say(f"dsv4: {line}")
    if args.stats:
        counted = {"counts": summary.counts.to_dict()} if summary.counts else {}
        bar.say(json_text({**asdict(summary), **counted}))
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


def _closing_lines(summary: Summary, args: argparse.Namespace) -> Iterator[str]:
    """The result, and what to know before training on it."""
    if summary.resumed_nothing:
        yield f"{args.output} is finished: nothing was left to do (--overwrite does it again)"
        return
    if summary.bad:
        rejects = f", kept in {args.rejects}" if args.rejects else ""
        yield f"{plural(summary.bad, 'bad line')} left out{rejects}"
    if summary.cut or summary.dropped:
        examples = plural(summary.cut + summary.dropped, "example")
        yield f"{examples} too long: {_too_long_counts(summary)}"
    if summary.untrained:
        what = f"{plural(summary.untrained, 'example')} with nothing to train on"
        yield f"{what} left out" if args.drop_untrained else f"{what} (see --drop-untrained)"
    if summary.unanswered:
        what = f"{plural(summary.unanswered, 'conversation')} without an answer"
        yield f"{what} left out: there is nothing to expand"
    if summary.left_out:
        turns = f"the reasoning of {plural(summary.left_out, 'earlier turn')}"
        yield f"{turns} is not in the examples, as in a prompt (--expand keeps it)"
    if not (args.trainer or args.labels or args.preferences or _is_flat(args)):
        ignoring = "which TRL, Axolotl and torchtune ignore"
        yield f"the mask is in the column loss_mask, {ignoring} (--for writes their columns)"
    trained = f"{summary.trained:,} trained on"
    sizes = f"{plural(summary.examples, 'example')}, {plural(summary.tokens, 'token')}"
    time = f"{summary.seconds:,.1f} s"
    yield f"{plural(summary.conversations, 'conversation')}, {sizes}, {trained}, {time}"


def _is_flat(args: argparse.Namespace) -> bool:
    """Whether the output is arrays, which have no columns."""
    return args.format in ("megatron", "numpy") or args.output.endswith((".bin", ".npy"))


def _too_long_counts(summary: Summary) -> str:
    done = {"shortened by whole turns": summary.cut, "left out": summary.dropped}
    return ", ".join(f"{count:,} {what}" for what, count in done.items() if count)


def _resume_hint(kept: int) -> str:
    return f" (--resume continues after {plural(kept, 'conversation')})" if kept else ""
