"""Forecasts for the built-in probes whose counts are kept between runs, in the user's cache folder.

They are not shipped with the package: such a table would be wrong after each change of a prompt, a
probe or a fault until somebody writes it again, and takes only seconds to make. What is kept is
known by a hash of all that determines it, so it cannot be out of date. Whatever cannot be read or
written is done without: then forecasts are made when they are asked for.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path

from dsv4.errors import Error
from dsv4.profiles.server_requests import Object
from dsv4.profiles.text_shields import TEXT_PLACES
from dsv4.tokens.vocabulary import find_vocabulary
from dsv4.verify.hypotheses import Counts, Forecaster, Hypothesis, Prediction, hypotheses
from dsv4.verify.probes import PROBES, requests_of_probes
from dsv4.verify.token_counts import PromptCounter

FOLDER_VARIABLE = "DSV4_CACHE_DIR"
PREFIX = "verify-counts-"
# Several releases on one machine do not drive out each other's counts.
MOST_KEPT = 4
MOST_BYTES = 4_000_000

_PACKAGE = Path(__file__).parent.parent
# What prompts and their counts are made by: all that `verify/hypotheses.py` imports.
_DETERMINING = (
    *("errors.py", "schema.py", "version.py", "types.py", "request.py"),
    *("_format", "_images", "_completion", "_encode", "_parse", "_decode"),
    *("_inputs", "api", "tokens", "profiles"),
    *("verify/probes.py", "verify/probes.json", "verify/hypotheses.py", "verify/token_counts.py"),
    "verify/kept_counts.py",  # how they are written
)
# In place of a count, where nobody can know the prompt.
_UNKNOWN = False


class KeptForecaster(Forecaster):
    """A forecaster for the built-in probes that takes the counts of servers with one fault or none
    from the user's cache folder.

    `own` are further requests, by names that no probe has. `notice` is called before counts are
    made for the folder, which takes some seconds. That happens only where a fault is looked for.
    """

    def __init__(
        self, own: Mapping[str, Object] | None = None, notice: Callable[[], None] | None = None
    ) -> None:
        super().__init__({**requests_of_probes(), **(own or {})})
        self._own = tuple(own or ())
        self._kept_rows = _KeptRows(self.counter, notice or (lambda: None))

    def count(self, hypothesis: Hypothesis, id: str) -> tuple[bool, Prediction]:
        needed = self.needed(hypothesis, id) if len(hypothesis.faults) > 1 else hypothesis
        row = self._kept_rows.row(needed) if id in PROBES else None
        return super().count(needed, id) if row is None else (id in row, row.get(id))

    def counts(self, hypothesis: Hypothesis) -> Counts:
        row = self._kept_rows.row(hypothesis)
        if row is None or self._own:
            return super().counts(hypothesis)
        return row


class _KeptRows:
    """The counts of hypotheses with one fault or none, read when first asked for."""

    def __init__(self, counter: PromptCounter, notice: Callable[[], None]) -> None:
        self._counter, self._notice = counter, notice
        self._rows: Mapping[Hypothesis, Counts] | None = None
        self._has_tried = False

    def row(self, hypothesis: Hypothesis) -> Counts | None:
        """The counts of one; None where they are not kept. Clean servers are few: only a faulty
        one is a reason to make what is not kept yet."""
        if self._rows is None:
            self._rows = _read(self._path) if self._path else {}
        if not self._rows and len(hypothesis.faults) == 1 and not self._has_tried:
            self._rows, self._has_tried = self._new_rows(), True
        return self._rows.get(hypothesis)

    @cached_property
    def _path(self) -> Path | None:
        """None where there is no folder, or no source to tell by whether it has changed."""
        try:
            return cache_folder() / f"{PREFIX}{_fingerprint()}.json"
        except (OSError, RuntimeError, Error):
            return None

    def _new_rows(self) -> Mapping[Hypothesis, Counts]:
        if self._path is None or not _can_be_kept(self._path):
            return {}
        self._notice()
        maker = Forecaster(requests_of_probes(), self._counter)
        rows = {hypothesis: maker.counts(hypothesis) for hypothesis in hypotheses()}
        _write(self._path, rows)
        return rows


@cache
def kept_forecasts() -> KeptForecaster:
    """The forecasts for the built-in probes, which all runs of a process share."""
    return KeptForecaster()


# Where they are kept.


def cache_folder() -> Path:
    """The folder of the user's caches that is dsv4's. Raises `RuntimeError` where there is none."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        return Path(folder)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        set_folder = os.environ.get("XDG_CACHE_HOME", "")
        base = set_folder if os.path.isabs(set_folder) else Path.home() / ".cache"
    return Path(base) / "dsv4"


def _fingerprint() -> str:
    """A hash of the source of all that determines the counts, and of the vocabulary."""
    whole = sha256()
    for path in (*determining_files(), Path(find_vocabulary(None))):
        content = path.read_bytes()
        whole.update(f"{path.name} {len(content)}\n".encode())
        whole.update(content)
    return whole.hexdigest()[:32]


def determining_files() -> Iterator[Path]:
    """The source that determines prompts and their counts."""
    for name in _DETERMINING:
        path = _PACKAGE / name
        inside = sorted(p for p in path.rglob("*") if p.is_file() and p.suffix != ".pyc")
        yield from inside if path.is_dir() else [path]


# Reading and writing: a line with a hash of the rest, and the rest as JSON, one list of counts for
# each hypothesis.


def _read(path: Path) -> Mapping[Hypothesis, Counts]:
    """The rows of a file; none where it is not there, or damaged."""
    try:
        if not path.is_file():  # opening anything else might wait forever
            return {}
        with path.open("rb") as file:
            return _decoded(file.read(MOST_BYTES + 1))
    except (OSError, RuntimeError, ValueError):
        return {}


def _decoded(data: bytes) -> Mapping[Hypothesis, Counts]:
    """The rows of a file. Raises `ValueError` where it is not whole, or anything else."""
    checksum, _, text = data.partition(b"\n")
    if len(data) > MOST_BYTES or checksum != _checksum(text):
        raise ValueError("damaged")
    rows = json.loads(text)
    expected = list(hypotheses())
    if not isinstance(rows, list) or len(rows) != len(expected):
        raise ValueError("found other hypotheses")
    return {each: _decoded_row(row) for each, row in zip(expected, rows, strict=True)}


def _checksum(text: bytes) -> bytes:
    return sha256(text).hexdigest().encode()


def _decoded_row(row: object) -> Counts:
    if not isinstance(row, list) or len(row) != len(PROBES):
        raise ValueError("found other probes")
    return {
        id: cell if type(cell) is int else _prediction(cell)
        for id, cell in zip(PROBES, row, strict=True)
        if cell is not _UNKNOWN
    }


def _prediction(cell: object) -> Prediction:
    if cell is None:
        return None
    if isinstance(cell, list) and all(_is_spelled(each) for each in cell):
        return {frozenset(places): count for count, *places in cell}
    raise ValueError("found something that is no count")


def _is_spelled(pair: object) -> bool:
    """Whether this is a count and the places whose special tokens act."""
    if not isinstance(pair, list) or not pair:
        return False
    count, *places = pair
    return type(count) is int and all(place in TEXT_PLACES for place in places)


def _encoded(rows: Mapping[Hypothesis, Counts]) -> bytes:
    cells = [[_cell(counts, id) for id in PROBES] for counts in rows.values()]
    text = json.dumps(cells, separators=(",", ":")).encode()
    return _checksum(text) + b"\n" + text


def _cell(counts: Counts, id: str) -> int | Sequence[Sequence[int | str]] | None:
    prediction = counts.get(id, _UNKNOWN)
    if prediction is None or isinstance(prediction, int):
        return prediction
    return [[count, *sorted(places)] for places, count in prediction.items()]


def _can_be_kept(path: Path) -> bool:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.access(path.parent, os.W_OK)
    except OSError:
        return False


def _write(path: Path, rows: Mapping[Hypothesis, Counts]) -> None:
    """Whole, or not at all."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        temporary.write_bytes(_encoded(rows))
        os.replace(temporary, path)
        _remove_old(path.parent)
    except OSError:
        with suppress(OSError):
            temporary.unlink()


def _remove_old(folder: Path) -> None:
    paths = sorted(folder.glob(f"{PREFIX}*.json"), key=lambda path: path.stat().st_mtime)
    for path in paths[:-MOST_KEPT]:
        path.unlink()
