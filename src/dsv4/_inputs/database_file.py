"""A SQLite file that only its owner may read, opened in the one way that is safe beside others."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress


def open_database(
    path: str | os.PathLike[str], *, timeout: float, must_exist: bool = False
) -> sqlite3.Connection:
    """A connection to the file at `path`, which is made where it is missing; with `must_exist` it
    is not. `timeout` is how many seconds to wait for a lock of others. Raises an `OSError` or a
    `sqlite3.Error` for a file that cannot be used.
    """
    if must_exist:
        os.stat(path)
    else:
        # An existing file is left to SQLite. A process loses all of its POSIX locks on a file when
        # it closes any descriptor of it, even one that SQLite knows nothing about. Another process
        # then takes itself for the last one, and deletes the log that this one goes on writing to.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    return sqlite3.connect(path, timeout=timeout, isolation_level=None)
