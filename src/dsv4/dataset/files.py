"""Files as a run sees them: what they are, and what belongs in them."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from dsv4.dataset.failures import DatasetError
from dsv4.dataset.forms import FORMS, form_of
from dsv4.dataset.sources import COMPRESSED
from dsv4.reading.failures import reason
from dsv4.tokens.tokenizer import Tokenizer


def is_file(path: str) -> bool:
    """Whether there is a file, or could be."""
    try:
        return path != "-" and stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise DatasetError(f"{path}: {reason(error)}") from None


def is_same(path: str, other: str) -> bool:
    """Whether two paths lead to one file, which may not be there yet."""
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def sizes(paths: Sequence[str]) -> list[int] | None:
    """The sizes of the inputs, if positions in them can be compared with these."""
    if any(path == "-" or path.endswith(COMPRESSED) for path in paths):
        return None
    try:
        return [os.stat(path).st_size for path in paths]
    except OSError:
        return None


def form_for(path: str) -> str:
    """The form of an output, which may be a pipe or a device."""
    if is_file(path):
        return form_of(path)
    form = next((form for form in FORMS if path.endswith(f".{form}")), "jsonl")
    if FORMS[form].finished is not None:
        raise DatasetError(f"output: {path} is a pipe or a device, which cannot take .{form}")
    return form


def tokenizer_at(path: str | None) -> Tokenizer:
    try:
        return Tokenizer.load(path)
    except OSError as error:
        raise DatasetError(f"{path}: {reason(error)}") from None
