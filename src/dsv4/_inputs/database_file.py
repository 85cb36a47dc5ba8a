"""A SQLite file that only its owner may read, opened in the only way that is safe while other
processes use it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress


def open_database(
    path: str | os.PathLike[str], *, timeout: float, must_exist: bool = False
) -> sqlite3.Connection:
    """A connection to the file at `path`. A missing file is created, unless it `must_exist`.
    `timeout` is the number of seconds to wait for a lock of others. Raises an `OSError` or a
    `sqlite3.Error` for a file that cannot be used.
    """
    if must_exist:
        os.stat(path)
    else:
        # Only SQLite opens an existing file. A process loses all of its POSIX locks on a file when
        # it closes any descriptor of it, even one that SQLite does not know. Another process then
        # considers itself the last user, and deletes the log that this one continues to write.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    return sqlite3.connect(path, timeout=timeout, isolation_level=None)
