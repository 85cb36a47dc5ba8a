"""Output that an interrupted run can continue: a partial file beside its final name, and a journal.

    OUT.partial   what has been written so far
    OUT.journal   the job, the position in the input, and how much of OUT.partial belongs to it

The journal is written after the output that it describes. A run that ended anywhere continues from
the journal: anything that the partial file holds beyond it is cut off and encoded again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from io import FileIO
from time import monotonic
from typing import Any, BinaryIO

from dsv4._inputs.input_files import os_error_reason
from dsv4.dataset.dataset_errors import DatasetError
from dsv4.dataset.dataset_notes import LineNotes, NotedLines
from dsv4.dataset.dataset_reader import INPUT_START, InputPosition
from dsv4.dataset.dataset_statistics import DatasetCounts, RunCounts
from dsv4.dataset.example_encoder import EncodedChunk
from dsv4.dataset.output_formats import DATASET_FORMATS
from dsv4.errors import short_repr

# Waiting for the disk (fsync) takes a while, so it is not done for every chunk.
SECONDS_BETWEEN_JOURNAL_ENTRIES = 0.25


@dataclass(frozen=True, kw_only=True)
class Progress(RunCounts):
    """The amount that has been read and written."""

    after: InputPosition = INPUT_START
    size: int = 0
    rejects: int = 0
    complete: bool = False

    def after_chunk(self, chunk: EncodedChunk) -> Progress:
        return replace(
            self.plus(chunk.counted),
            after=chunk.after,
            size=self.size + len(chunk.data),
            rejects=self.rejects + len(chunk.rejects),
        )

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Progress:
        """The progress that the journal has saved."""
        notes = {kind: NotedLines(*noted) for kind, noted in saved["notes"].items()}
        counts = saved["counts"] and DatasetCounts.from_json(saved["counts"])
        after = InputPosition(*saved["after"])
        return cls(**{**saved, "after": after, "notes": LineNotes(notes), "counts": counts})


class OutputSink:
    """Output to stdout, a pipe or a device, which cannot be resumed. Subclasses do more."""

    def __init__(self, file: BinaryIO | FileIO, name: str) -> None:
        self.progress = Progress()
        self._file = file
        self._name = name

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing left to do: an earlier run has completed the output."""
        return False

    def add(self, chunk: EncodedChunk) -> None:
        with write_errors(self._name):
            _write_all(self._file, chunk.data)
            self._file.flush()
        self.progress = self.progress.after_chunk(chunk)

    def finish(self) -> None:
        """Completes the output."""

    def stop(self) -> int:
        """Stops early. Returns how many conversations need not be encoded again."""
        return 0


class ResumableSink(OutputSink):
    """Output to a file, which gets its final name when it is complete."""

    def __init__(
        self, path: str, format_name: str, job: dict[str, Any], resume: bool, overwrite: bool
    ) -> None:
        self._path = os.path.realpath(path)  # so that a link stays a link
        self._partial, self._journal = unfinished_files(self._path)
        self._format = DATASET_FORMATS[format_name]
        self._job = job
        self._journaled_at = monotonic()
        self._open: FileIO | None = None
        with write_errors(path):
            if resume and not os.path.exists(self._journal) and os.path.exists(self._path):
                self.progress = Progress(complete=True)  # an earlier run has finished
            elif resume and self._has_final_name():
                self.progress = self._resumed()
            else:
                self._open = _open_and_lock(self._partial, self._path)
                super().__init__(self._open, self._partial)
                self._start(self._open, resume, overwrite)

    @property
    def is_finished(self) -> bool:
        return self.progress.complete and not os.path.exists(self._journal)

    def _start(self, file: FileIO, resume: bool, overwrite: bool) -> None:
        try:
            if not resume and not overwrite:
                self._refuse_interrupted()
                self._refuse_finished()
            self.progress = self._resumed() if resume else Progress()
        except BaseException:
            self.close()
            raise
        file.truncate(self.progress.size)
        file.seek(self.progress.size)
        if not self.progress.size:
            self._write_journal()  # so that no journal of an earlier run describes this output

    def _refuse_interrupted(self) -> None:
        """Raises if an earlier run was interrupted: its work is not discarded silently."""
        entry = _journal_entry(self._journal)
        count = 0 if entry is None else entry["progress"].get("conversations")
        if count:
            problem = f"an earlier run was stopped after {count} conversations"
            ways = "continue it (--resume) or replace it (--overwrite)"
            raise DatasetError(f"{self._path}: {problem}: {ways}")

    def _refuse_finished(self) -> None:
        """Raises if the output exists already: it may have taken days."""
        if os.path.exists(self._path):
            self.close()
            for path in (self._partial, self._journal):
                with suppress(FileNotFoundError):
                    os.unlink(path)
            problem = "is there already: replace it (--overwrite) or choose another name"
            raise DatasetError(f"{self._path} {problem}")

    def add(self, chunk: EncodedChunk) -> None:
        super().add(chunk)
        if monotonic() - self._journaled_at >= SECONDS_BETWEEN_JOURNAL_ENTRIES:
            self._write_journal()

    def _write_journal(self) -> None:
        entry = {"job": self._job, "progress": vars(self.progress)}
        with write_errors(self._partial):
            os.fsync(self._file.fileno())
        with write_errors(self._journal):
            _write_atomically(self._journal, json.dumps(entry, default=vars))
        self._journaled_at = monotonic()

    def finish(self) -> None:
        """Gives the output its name. If this is stopped at any point, resuming completes it."""
        if self._open is not None:
            self.progress: Progress = replace(self.progress, complete=True)
            self._write_journal()
            with write_errors(self._path):
                self._take_final_name()
        with suppress(FileNotFoundError):
            os.unlink(self._journal)

    def stop(self) -> int:
        # If nothing was done, no files are left.
        if not self.progress.conversations:
            self.close()
            os.unlink(self._partial)
            os.unlink(self._journal)
            return 0
        if not self.progress.complete:
            with suppress(DatasetError):  # a full disk, perhaps: then the journal stays as it is
                self._write_journal()
        return self.progress.conversations

    def close(self) -> None:
        """Closes the file, which releases its lock."""
        if self._open is not None:
            self._open.close()

    def _take_final_name(self) -> None:
        if self._format.finish is None:
            os.replace(self._partial, self._path)
            return
        whole = f"{self._path}.whole"
        try:
            with open(self._partial, "rb") as packed:
                self._format.finish(packed, whole)
            os.replace(whole, self._path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(whole)
        os.unlink(self._partial)

    def _has_final_name(self) -> bool:
        """Whether an earlier run was stopped after the output had got its name."""
        return not os.path.exists(self._partial) and os.path.exists(self._path)

    def _resumed(self) -> Progress:
        entry = _journal_entry(self._journal)
        if entry is None:
            return Progress()
        for what, then in entry["job"].items():
            if then != self._job.get(what):
                difference = (
                    f"{what} was {short_repr(then)} and is {short_repr(self._job.get(what))}"
                )
                raise _not_resumable(f"{difference} ({self._journal})")
        try:
            progress = Progress.from_json(entry["progress"])
        except (TypeError, ValueError, KeyError, AttributeError):
            raise _not_resumable(f"{self._journal} is damaged") from None
        if progress.complete and self._has_final_name():
            return progress
        size = os.stat(self._partial).st_size
        if size < progress.size:
            raise _not_resumable(f"{self._partial} is shorter than the journal says")
        return progress


def unfinished_files(path: str) -> tuple[str, str]:
    """The files beside an unfinished output: the partial output and the journal."""
    return f"{path}.partial", f"{path}.journal"


def _open_and_lock(partial: str, path: str) -> FileIO:
    """The file of a run, locked so that no other run writes it."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
    # Without a buffer: data that a full disk refused must not be written again on closing.
    file = FileIO(os.open(partial, flags, 0o666), "r+")
    try:
        _lock(file, path)
        if not _is_same_file(file, partial):
            # Between opening and locking, the run that had the lock gave the file its final name.
            raise DatasetError(f"{path} was just written by another run")
    except BaseException:
        file.close()
        raise
    return file


def _write_all(file: BinaryIO | FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _not_resumable(problem: str) -> DatasetError:
    return DatasetError(f"cannot resume: {problem}; replace it (--overwrite)")


def _journal_entry(journal: str) -> dict[str, dict[str, Any]] | None:
    try:
        with open(journal, encoding="utf-8") as file:
            entry = json.load(file)
        InputPosition(*entry["progress"]["after"])
        return {"job": dict(entry["job"]), "progress": dict(entry["progress"])}
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _not_resumable(f"{journal} is damaged") from None


def _write_atomically(path: str, text: str) -> None:
    """Writes a file so that it has either its old content or all of the new one."""
    new = f"{path}.new"
    try:
        with open(new, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(new)
        raise


def _is_same_file(file: FileIO, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _lock(file: FileIO, path: str) -> None:
    """Locks a file: two runs would spoil an output. The lock ends with the process."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DatasetError(f"{path} is being written by another run") from None


@contextmanager
def write_errors(name: str) -> Iterator[None]:
    """Turns system errors in writing a file into `DatasetError`, except a closed pipe."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DatasetError(f"cannot write {name}: {os_error_reason(error)}") from None


class RejectsFile:
    """The file of bad lines, if there is one. A resumed run truncates it to its earlier size."""

    def __init__(self, path: str | None, begin: Progress) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        if path is not None:
            with write_errors(path):
                self._file = open(path, "r+b" if begin.rejects else "wb")  # noqa: SIM115
                self._file.truncate(begin.rejects)
                self._file.seek(begin.rejects)

    def add(self, lines: bytes) -> None:
        if self._file is not None and lines:
            with write_errors(self._path or ""):
                self._file.write(lines)
                self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
