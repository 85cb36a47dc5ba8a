"""Output that is not complete: beside its final name, with a journal of how far it has got.

    OUT.partial   what was written so far
    OUT.journal   the job, the position in the input, and how much of OUT.partial belongs to it

The journal is written after the output that it speaks of. A run that ended anywhere goes on from
the journal: what the partial file has beyond it is cut off and made again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from io import FileIO
from time import monotonic
from typing import Any, BinaryIO, Protocol

from dsv4.dataset.chunks import START, Position
from dsv4.dataset.failures import DatasetError
from dsv4.dataset.forms import FORMS
from dsv4.dataset.job import Done
from dsv4.errors import shown
from dsv4.reading.failures import reason

# Writing to the disk for certain takes a while, so it is not done for every chunk.
SECONDS_BETWEEN_ENTRIES = 0.25


@dataclass(frozen=True)
class Progress:
    """What was read and written."""

    after: Position = START
    size: int = 0
    conversations: int = 0
    examples: int = 0
    tokens: int = 0
    bad: int = 0
    complete: bool = False

    def plus(self, done: Done) -> Progress:
        return Progress(
            done.after,
            self.size + len(done.data),
            self.conversations + done.conversations,
            self.examples + done.examples,
            self.tokens + done.tokens,
            self.bad + len(done.bad),
        )


class Sink(Protocol):
    """Where the output goes."""

    progress: Progress

    def add(self, done: Done) -> None: ...

    def finish(self) -> None: ...

    def stop(self) -> int:
        """Ends before the end. Returns how many conversations need not be encoded again."""


class Stream:
    """Output that somebody reads as it is written: stdout, a pipe, a device."""

    def __init__(self, file: BinaryIO | FileIO, name: str) -> None:
        self.progress = Progress()
        self._file = file
        self._name = name

    def add(self, done: Done) -> None:
        with _telling(self._name):
            _write(self._file, done.data)
        self.progress = self.progress.plus(done)

    def finish(self) -> None:
        with _telling(self._name):
            self._file.flush()

    def stop(self) -> int:
        return 0


class Partial:
    """Output that takes its name when it is complete."""

    def __init__(self, path: str, form: str, job: dict[str, Any], resume: bool) -> None:
        self._path = os.path.realpath(path)  # so that a link stays a link
        self._partial = f"{self._path}.partial"
        self._journal = f"{self._path}.journal"
        self._form = FORMS[form]
        self._job = job
        with _telling(path):
            self.progress = self._resumed() if resume else Progress()
            if not self.progress.complete or os.path.exists(self._partial):
                self._open()
            self._kept = monotonic()

    def add(self, done: Done) -> None:
        with _telling(self._partial):
            _write(self._file, done.data)
        self.progress = self.progress.plus(done)
        if monotonic() - self._kept >= SECONDS_BETWEEN_ENTRIES:
            self._keep()

    def _keep(self) -> None:
        progress = self.progress
        with _telling(self._partial):
            os.fsync(self._file.fileno())
        with _telling(self._journal):
            _replace(self._journal, json.dumps({"job": self._job, "progress": asdict(progress)}))
        self._kept = monotonic()

    def finish(self) -> None:
        """Gives the output its name. Whatever this is stopped in, resuming completes it."""
        if os.path.exists(self._partial):
            self.progress = replace(self.progress, complete=True)
            self._keep()
            with _telling(self._path):
                self._name_it()
            self._file.close()
        os.unlink(self._journal)

    def stop(self) -> int:
        """Leaves no files where nothing was done."""
        if self.progress == Progress():
            self._file.close()
            os.unlink(self._partial)
            os.unlink(self._journal)
            return 0
        if not self.progress.complete:
            with suppress(DatasetError):  # a full disk, perhaps: then the journal stays as it is
                self._keep()
        return self.progress.conversations

    def _name_it(self) -> None:
        if self._form.finished is None:
            os.replace(self._partial, self._path)
            return
        whole = f"{self._path}.whole"
        try:
            with open(self._partial, "rb") as packed:
                self._form.finished(packed, whole)
            os.replace(whole, self._path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(whole)
        os.unlink(self._partial)

    def _resumed(self) -> Progress:
        entry = _entry(self._journal)
        if entry is None:
            return Progress()
        for what, then in entry["job"].items():
            if then != self._job.get(what):
                raise _other_job(self._journal, what, then, self._job.get(what))
        fields = entry["progress"]
        progress = Progress(**{**fields, "after": Position(*fields["after"])})
        size = _size(self._partial)
        if size is None and progress.complete and os.path.exists(self._path):
            return progress  # it was stopped after the output had got its name
        if size is None or size < progress.size:
            found = "not there" if size is None else "shorter than the journal says"
            raise _not_resumable(f"{self._partial} is {found}")
        return progress

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        # Without a buffer: what a full disk refused must not be tried again on closing.
        self._file = FileIO(os.open(self._partial, flags, 0o666), "r+")
        _lock(self._file, self._path)
        self._file.truncate(self.progress.size)
        self._file.seek(self.progress.size)
        if not self.progress.size:
            self._keep()  # so that no journal of an earlier run speaks of this output


def _write(file: BinaryIO | FileIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _other_job(journal: str, what: str, then: Any, now: Any) -> DatasetError:
    problem = f"{what} was {shown(then)} and is {shown(now)}"
    return _not_resumable(f"{problem} ({journal})")


def _not_resumable(problem: str) -> DatasetError:
    return DatasetError(f"cannot resume: {problem}; start over without resume")


def _entry(journal: str) -> Any:
    try:
        with open(journal, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None
    except ValueError:
        raise _not_resumable(f"{journal} is damaged") from None


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None


def _replace(path: str, text: str) -> None:
    """Writes a file that is there as it was, or whole."""
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


def _lock(file: FileIO, path: str) -> None:
    """Two runs that write one output would spoil it. The lock goes when the process does."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DatasetError(f"{path} is being written by another run") from None


@contextmanager
def _telling(name: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DatasetError(f"cannot write {name}: {reason(error)}") from None
