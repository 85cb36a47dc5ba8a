"""Exports sessions from a file or a running gateway into a file of rows.

One session is in memory at a time. Rows are written to `OUT.partial`, and `OUT.journal` says after
which session they end, so that an interrupted export continues where it stopped and ends with the
same bytes.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from dsv4.errors import Error, OptionError, mismatch
from dsv4.trajectories.recorded_calls import RecordedCall, seal_of
from dsv4.trajectories.session_file import SAID_OF_SESSION, SessionFile, SessionRecord
from dsv4.trajectories.trainer_client import Client
from dsv4.trajectories.trainer_rows import (
    ROW_FORMATS,
    Row,
    RowFormat,
    SessionRows,
    TokenBalance,
    session_rows,
)
from dsv4.trajectories.trajectory_builder import build

if TYPE_CHECKING:
    from dsv4.tokens import Tokenizer

_PAGE = 200
_PARQUET_ROWS = 256


class ExportError(Error):
    """Raised for a source that cannot be read, or an output that cannot be written."""


@dataclass(slots=True)
class Exported:
    """The result of an export.

    - `sessions`, `rows`, `left_out`: how many sessions were read and rows written, and how many
      trajectories were left out, by the reason.
    - `sampled_tokens`, `written_tokens`, `left_out_tokens`: the tokens that were sampled, those
      that are trained on in the rows, and the others by the reason: the first is the sum of both.
    - `unsealed`: how many closed sessions have no seal, because an older release recorded them.
    """

    sessions: int = 0
    rows: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    sampled_tokens: int = 0
    written_tokens: int = 0
    left_out_tokens: Counter[str] = field(default_factory=Counter)
    unsealed: int = 0

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Exported:
        """The summary with the `values` in a journal, as `asdict` gives them."""
        counters: dict[str, Any] = {
            name: Counter(values[name]) for name in ("left_out", "left_out_tokens")
        }
        return cls(**(values | counters))


def built_session(
    record: SessionRecord,
    calls: Collection[RecordedCall],
    *,
    shared: Literal["once", "all"] = "once",
    include: Collection[str] = (),
    tokenizer: Tokenizer | None = None,
) -> dict[str, Any]:
    """A session of a store with its trajectories, as a value for JSON; breaks are explained if
    there is a tokenizer."""
    explain = None
    if tokenizer is not None:
        from dsv4.trajectories.chain_breaks import explain_break

        explain = partial(explain_break, tokenizer)
    built = build(calls, shared=shared, include=include, explain=explain)
    for trajectory in built.trajectories:
        trajectory.turns = [
            turn.with_reward(record.rewards[turn.call]) if turn.call in record.rewards else turn
            for turn in trajectory.turns
        ]
    return {
        **{name: getattr(record, name) for name in ("id", "number", *SAID_OF_SESSION)},
        "closed": record.is_closed,
        **built.to_json(),
        "complete": built.complete and record.complete,
        "seal": _proven_seal(record, calls),
    }


def _proven_seal(record: SessionRecord, calls: Collection[RecordedCall]) -> dict[str, Any] | None:
    """The seal of a session, with whether its calls agree with it."""
    if record.seal is None:
        return None
    return {**record.seal.to_json(), "holds": seal_of(calls) == record.seal}


def read_sessions(
    source: str | os.PathLike[str],
    *,
    group: str | None = None,
    closed: bool = False,
    after: int = 0,
    key: str | None = None,
    shared: Literal["once", "all"] = "once",
    include: Collection[str] = (),
    tokenizer: Tokenizer | None = None,
) -> Iterator[dict[str, Any]]:
    """The sessions of a file or of a gateway, each with its trajectories.

    `source` is the file that `dsv4 serve --trajectories` writes, or the URL of a gateway, which may
    require an admin `key`. Only sessions of a `group`, only those that are `closed`, and only those
    `after` a number are given, in the order in which they were created. `shared` and `include` are
    as in `build`; a `tokenizer` is needed to explain breaks in a file's sessions. Raises an
    `ExportError`.
    """
    if is_url(source):
        client = Client(str(source), key)
        wanted: dict[str, str | int] = {} if group is None else {"group": group}
        for listed in client.sessions(after, **wanted, **({"closed": 1} if closed else {})):
            yield client.trajectories(listed["id"], shared=shared, include=",".join(include))
        return
    with _opened(source) as file:
        for record in _records(file, group, closed, after):
            found = file.session_with_calls(record.id)
            if found is not None:  # otherwise it was deleted in the meantime
                yield built_session(*found, shared=shared, include=include, tokenizer=tokenizer)


def read_session(
    path: str | os.PathLike[str],
    id: str,
    *,
    shared: Literal["once", "all"] = "once",
    include: Collection[str] = (),
    tokenizer: Tokenizer | None = None,
) -> dict[str, Any] | None:
    """One session of a file, as `read_sessions` gives it; None if there is none with this id."""
    with _opened(path) as file:
        found = file.session_with_calls(id)
        if found is None:
            return None
        return built_session(*found, shared=shared, include=include, tokenizer=tokenizer)


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[SessionFile]:
    try:
        with closing(SessionFile(path, read_only=True)) as file:
            yield file
    except (OSError, sqlite3.Error, ValueError) as error:
        if isinstance(error, Error):
            raise
        problem = getattr(error, "strerror", None) or error
        raise ExportError(f"{os.fspath(path)}: {problem}") from None


def is_url(source: str | os.PathLike[str]) -> bool:
    """Whether a source is a gateway, not a file."""
    return str(source).startswith(("http://", "https://"))


def _records(
    file: SessionFile, group: str | None, closed: bool, after: int
) -> Iterator[SessionRecord]:
    while page := file.sessions(
        group=group, closed=True if closed else None, after=after, limit=_PAGE
    ):
        yield from page
        after = page[-1].number


def export(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    format: RowFormat = "rows",
    group: str | None = None,
    closed: bool = False,
    key: str | None = None,
    shared: Literal["once", "all"] = "once",
    include: Collection[str] = (),
    resume: bool = False,
    overwrite: bool = False,
) -> Exported:
    """Writes the trajectories of a file or of a gateway as rows.

    `source`, `group`, `closed`, `key`, `shared` and `include` are as in `read_sessions`. `output`
    ends with `.jsonl` or `.parquet`; `format` is the trainer whose fields the rows have. `resume`
    continues an interrupted export, `overwrite` replaces an existing output. Returns the counts of
    what was read and written. Raises an `ExportError`, also for a session of which a sampled token
    is missing, and an `OptionError` for an option that is wrong.
    """
    if format not in ROW_FORMATS:
        expected = ", ".join(ROW_FORMATS)
        raise OptionError("format", mismatch(format, expected))
    path = Path(output)
    if path.suffix not in (".jsonl", ".parquet"):
        raise OptionError("output", f"found {path.name!r}, expected a name with .jsonl or .parquet")
    if path.exists() and not overwrite:
        raise ExportError(f"{path}: it is there already; choose another name, or overwrite it")
    job = [str(source), format, group, closed, shared, sorted(include)]
    try:
        with _PartialRows(path, job, resume) as partial:
            for session in read_sessions(
                source,
                group=group,
                closed=closed,
                after=partial.after,
                key=key,
                shared=shared,
                include=include,
            ):
                partial.add(session, session_rows(session, format))
            partial.finish()
    except OSError as error:
        raise ExportError(f"{path}: {error.strerror or error}") from None
    return partial.summary


class _PartialRows:
    """The rows so far, as JSON lines, and the journal that says where they end."""

    def __init__(self, path: Path, job: list[Any], resume: bool) -> None:
        self._path = path
        self._partial = path.with_name(path.name + ".partial")
        self._journal = path.with_name(path.name + ".journal")
        self._job = job
        self.after = 0
        self.summary = Exported()
        journal = self._read_journal() if resume else None
        self._file: BinaryIO = open(self._partial, "r+b" if journal else "wb")  # noqa: SIM115
        if journal:
            self.after = journal["after"]
            self.summary = Exported.from_json(journal["summary"])
            self._file.truncate(journal["size"])
            self._file.seek(journal["size"])

    def _read_journal(self) -> dict[str, Any] | None:
        try:
            journal: dict[str, Any] = json.loads(self._journal.read_text("utf-8"))
        except (OSError, ValueError):
            return None
        if journal.get("job") != self._job:
            problem = "it was begun with other options"
            raise ExportError(f"{self._journal}: {problem}; give the same ones, or start anew")
        return journal if self._partial.exists() else None

    def add(self, session: dict[str, Any], made: SessionRows) -> None:
        _check_balance(session, made.balance)
        for row in made.rows:
            line = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
            self._file.write(line.encode("utf-8", "replace") + b"\n")
        self.summary.sessions += 1
        self.summary.rows += len(made.rows)
        self.summary.left_out += made.left_out
        self.summary.sampled_tokens += made.balance.sampled
        self.summary.written_tokens += made.balance.written
        self.summary.left_out_tokens += made.balance.left_out
        self.summary.unsealed += session["closed"] and session.get("seal") is None
        self.after = session["number"]
        if self.summary.sessions % _PAGE == 0:
            self._note()

    def _note(self) -> None:
        self._file.flush()
        journal = {
            "job": self._job,
            "after": self.after,
            "size": self._file.tell(),
            "summary": asdict(self.summary),
        }
        beside = self._journal.with_name(self._journal.name + ".new")
        beside.write_text(json.dumps(journal), "utf-8")
        beside.replace(self._journal)

    def finish(self) -> None:
        self._file.close()
        if self._path.suffix == ".parquet":
            finished = self._partial.with_name(self._partial.name + ".parquet")
            _write_parquet(self._partial, finished)
            finished.replace(self._path)
            self._partial.unlink()
        else:
            self._partial.replace(self._path)
        self._journal.unlink(missing_ok=True)

    def __enter__(self) -> _PartialRows:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._file.closed:
            self._note()
            self._file.close()


def _check_balance(session: dict[str, Any], balance: TokenBalance) -> None:
    """Raises an `ExportError` if a sampled token is neither written nor left out for a reason, or
    if the tokens are not those that were sealed."""
    where, seal = f"session {session['id']}", session.get("seal")
    if balance.missing:
        account = f"sampled {balance.sampled}, written {balance.written}"
        left = f"left out {balance.left_out.total()}"
        raise ExportError(f"{where}: tokens are missing: {account}, {left}")
    if seal is not None and not seal["holds"]:
        found = f"found {balance.sampled} sampled tokens that are not those"
        raise ExportError(f"{where}: {found} of its seal, which has {seal['sampled_tokens']}")


# The types of columns by their names: the first row may have nulls where others have numbers. A
# value with another shape in every row is JSON in a column of text.
_COLUMNS = json.loads(Path(__file__).with_name("export_columns.json").read_text("utf-8"))
_PACKED = "routed_experts"


def _write_parquet(lines: Path, output: Path) -> None:
    try:
        pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        needed = "the extra `parquet`: pip install 'dsv4[parquet]'"
        raise ExportError(f"Parquet needs {needed}") from None
    writer = None
    with open(lines, encoding="utf-8") as file:
        while rows := [_parquet_row(json.loads(line)) for line in islice(file, _PARQUET_ROWS)]:
            schema = _schema(rows[0], pyarrow) if writer is None else writer.schema
            table = pyarrow.Table.from_pylist(rows, schema)
            writer = writer or parquet.ParquetWriter(output, schema)
            writer.write_table(table)
    if writer is None:
        parquet.write_table(pyarrow.table({}), output)
    else:
        writer.close()


def _parquet_row(row: Row) -> Row:
    texts = (*_COLUMNS["json"], *([_PACKED] if isinstance(row.get(_PACKED), dict) else ()))
    return {
        name: json.dumps(value, ensure_ascii=False) if name in texts else value
        for name, value in row.items()
    }


def _schema(row: Row, pyarrow: Any) -> Any:
    count, text, list_of = pyarrow.int64(), pyarrow.string(), pyarrow.list_
    kinds = {
        "ids": list_of(count),
        "logprobs": list_of(pyarrow.float64()),
        "float": pyarrow.float64(),
        "flag": pyarrow.bool_(),
        "count": count,
        "experts": list_of(list_of(list_of(pyarrow.int32()))),
        "place": pyarrow.struct({"instance_id": text, "repetition_id": count}),
        "json": text,
    }
    types = {name: kinds[kind] for kind, names in _COLUMNS.items() for name in names}
    # In rows of all fields they are packed, as JSON.
    types[_PACKED] = kinds["experts"] if "response_ids" in row else text
    types["rewards"] = kinds["logprobs" if isinstance(row.get("rewards"), list) else "float"]
    return pyarrow.schema([(name, types.get(name, text)) for name in row])
