"""dsv4 dataset"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from dsv4.cli.failure import DONE, FINDINGS, INTERRUPTED, MISUSE, Failure
from dsv4.cli.requests import add_prompt_arguments, add_tokenizer_argument, overrides_of

HELP = "ids and loss masks of a file of conversations, for training"
EXAMPLE = """
dsv4 dataset conversations.jsonl -o train.parquet
dsv4 dataset part-*.jsonl.gz -o train.jsonl.zst --policy answers --on-error skip
dsv4 dataset conversations.jsonl -o train.jsonl --resume
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        metavar="IN",
        nargs="+",
        help="JSON lines (.jsonl, also with .gz or .zst; - is stdin) or .parquet: a list of "
        "messages or a request in OpenAI's form on each line",
    )
    parser.add_argument(
        *("-o", "--output"),
        required=True,
        metavar="OUT",
        help="where to write input_ids and loss_mask: .jsonl, .jsonl.gz, .jsonl.zst or .parquet; "
        "- is stdout",
    )
    parser.add_argument(
        "--policy",
        metavar="NAME",
        help="what the mask lets a model learn: all that an assistant wrote (assistant, the "
        "default), its last turn (last_turn), all but reasoning (answers), or tool calls (calls)",
    )
    parser.add_argument(
        "--expand",
        action="store_true",
        help="an example for each stretch of assistant turns, with the reasoning it had when it "
        "was written",
    )
    add_prompt_arguments(parser)
    add_tokenizer_argument(parser)
    parser.add_argument(
        "--column", metavar="NAME", help="the column of a Parquet file that holds JSON text"
    )
    parser.add_argument(
        "--jobs",
        type=_count,
        metavar="N",
        help="processes to work with; one for each core if not given",
    )
    parser.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="work on this machine (the default), or where Ray runs",
    )
    parser.add_argument(
        "--on-error",
        choices=("fail", "skip"),
        default="fail",
        help="what a bad line does: end the run (the default), or be reported and left out",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on where an earlier run was stopped, if one was"
    )
    parser.add_argument(
        "--stats", action="store_true", help="print speed and memory to stderr at the end, as JSON"
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"found {text}, expected a number from 1 on")
    return int(text)


def run(args: argparse.Namespace) -> int:
    from dsv4.cli.bar import Bar
    from dsv4.dataset import BadLine, DatasetError, Interrupted, encode_files

    overrides, bar = overrides_of(args), Bar()
    try:
        summary = encode_files(
            args.files,
            args.output,
            policy=args.policy,
            expand=args.expand,
            thinking=overrides.thinking,
            effort=overrides.effort,
            dialect=overrides.dialect,
            drop_thinking=overrides.drop_thinking,
            bos=overrides.bos,
            task=overrides.task,
            tokenizer=args.tokenizer,
            column=args.column,
            jobs=args.jobs,
            engine=args.engine,
            on_error=args.on_error,
            resume=args.resume,
            watcher=bar,
        )
    except Interrupted as interrupt:
        raise Failure(f"interrupted{_going_on(interrupt.kept)}", INTERRUPTED) from None
    except DatasetError as error:
        status = FINDINGS if isinstance(error, BadLine) else MISUSE
        raise Failure(f"{error.problem}{_going_on(error.kept)}", status) from None
    if summary.bad:
        bar.say(f"dsv4: bad lines left out: {summary.bad}")
    if args.stats:
        bar.say(json.dumps(asdict(summary)))
    return DONE


def _going_on(kept: int) -> str:
    return f" (--resume goes on after {kept} conversations)" if kept else ""
