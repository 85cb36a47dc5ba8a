"""Files as a run sees them: what they are, and what belongs in them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from typing import Any

from dsv4._inputs.input_files import os_error_reason
from dsv4.dataset.failures import DatasetError
from dsv4.dataset.forms import FORMS, form_of
from dsv4.dataset.sources import COMPRESSED
from dsv4.errors import short_repr
from dsv4.tokens.tokenizer import Tokenizer


def path_of(path: Any, option: str) -> str:
    """The path that an option gives."""
    found = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(found, str):
        raise DatasetError(f"{option}: found {short_repr(path)}, expected a path")
    return found


def paths_of(paths: Any, option: str) -> list[str]:
    """The same of a list, which must have one at least."""
    found = [path_of(path, option) for path in listed(paths, option, "paths")]
    if not found:
        raise DatasetError(f"{option}: found none, expected at least one path")
    return found


def listed(values: Any, option: str, what: str) -> list[Any]:
    """What an option gives, of which any iterable will do but a text."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise DatasetError(f"{option}: found {short_repr(values)}, expected a list of {what}")
    return list(values)


def is_file(path: str) -> bool:
    """Whether there is a file, or could be."""
    try:
        return path != "-" and stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise DatasetError(f"{path}: {os_error_reason(error)}") from None


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
        raise DatasetError(f"{path}: {os_error_reason(error)}") from None
