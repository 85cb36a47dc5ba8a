"""dsv4 dataset --prove: rows of a file as a trainer loads them, shown and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import groupby
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

from dsv4._cli import command_output as shared
from dsv4._cli.command_options import load_tokenizer, tokenizer_errors_at
from dsv4._view.characters import terminal_safe, terminal_safe_lines

if TYPE_CHECKING:
    from dsv4.dataset.trainer_proof import ProvedRow
    from dsv4.tokens import Tokenizer

SHOWN_ROWS = 10


def prove_files(paths: Sequence[str], flags: Mapping[str, Any]) -> int:
    """The command's status: whether TRL trains on exactly what the files say."""
    unused = sorted(flags.keys() - {"tokenizer"})
    if unused:
        raise shared.Failure(f"--prove reads a finished file: {', '.join(unused)} has no effect")
    tokenizer = load_tokenizer(flags.get("tokenizer"))
    return max([_prove_file(path, tokenizer) for path in paths])


def _prove_file(path: str, tokenizer: Tokenizer) -> int:
    rows, paint = _loaded_rows(path), shared.Paint()
    with shared.output() as file:
        for row in rows[:SHOWN_ROWS]:
            file.writelines(_shown(row, tokenizer, paint))
    differing = [(row, *found) for row in rows if (found := row.difference)]
    for row, index, problem in differing:
        token = tokenizer.decode(row.written.ids[index : index + 1])
        shared.complain(f"{row.place}: input_ids[{index}] ({shared.json_text(token)}): {problem}")
    count = shared.plural(len(rows), "row")
    how = f"otherwise in {len(differing)} of" if differing else "exactly what the file says in"
    shared.complain(f"{path}: trl trains {how} {count}")
    return shared.FINDINGS if differing else shared.DONE


def _loaded_rows(path: str) -> list[ProvedRow]:
    from dsv4.dataset import BadLine, DatasetError
    from dsv4.dataset.trainer_proof import prove

    unheard = StringIO()  # for progress bars and warnings of libraries
    try:
        with redirect_stdout(unheard), redirect_stderr(unheard), catch_warnings():
            simplefilter("ignore")
            return prove(path)
    except DatasetError as error:
        status = shared.FINDINGS if isinstance(error, BadLine) else shared.MISUSE
        raise shared.Failure(str(error), status) from None


def _shown(row: ProvedRow, tokenizer: Tokenizer, paint: shared.Paint) -> Iterator[str]:
    """A row in colour. Without colours, signs enclose the text that is trained on."""
    tokens = list(zip(*row.loaded, strict=True))[: len(row.written.ids)]
    count = sum(label >= 0 for _, label in tokens)
    sizes = f"{shared.plural(len(tokens), 'token')}, {count:,} trained on"
    yield paint(f"{terminal_safe(row.place)}: {sizes}", "bold") + "\n"
    for trained, stretch in groupby(tokens, key=lambda token: token[1] >= 0):
        with tokenizer_errors_at(row.place):
            text = terminal_safe_lines(tokenizer.decode([id for id, _ in stretch]))
        signed = f"⟦{text}⟧" if trained and not paint.on else text
        yield paint(signed, "green" if trained else "dim")
    yield "\n\n"
