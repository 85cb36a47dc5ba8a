"""A SQLite file that several connections and processes use: nothing that is written is lost."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from dsv4._inputs.database_file import open_database
from dsv4.trajectories.session_file import SessionFile, SessionRecord

# Another process reads the file and closes it, as an export or `sqlite3` does: if it finds nobody
# else there, SQLite deletes the write-ahead log.
READ = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(db.execute("SELECT COUNT(*) FROM sessions").fetchone()[0])
db.close()
"""


def count_elsewhere(path: Path) -> int:
    read = [sys.executable, "-c", READ, str(path)]
    return int(subprocess.run(read, capture_output=True, text=True, check=True).stdout)


class TestReadersOfTheFile:
    def test_another_process_may_open_and_close_it_between_every_two_writes(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "s.db"
        with closing(SessionFile(path)) as writer:
            for n in range(4):
                with writer.batch(to_disk=True):
                    writer.create(SessionRecord(f"s{n}", "-"))
                # The same process reads it by a connection of its own, as a route does.
                with closing(SessionFile(path, read_only=True)) as reader:
                    assert len(reader.sessions()) == n + 1
                assert count_elsewhere(path) == n + 1
        assert count_elsewhere(path) == 4

    @pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for open files")
    def test_no_journal_is_deleted_under_a_connection(self, tmp_path: Path) -> None:
        path = tmp_path / "s.db"
        with closing(SessionFile(path)) as writer:
            with writer.batch(to_disk=True):
                writer.create(SessionRecord("s", "-"))
            SessionFile(path, read_only=True).close()
            SessionFile(path).close()
            count_elsewhere(path)
            files = [
                os.readlink(f"/proc/self/fd/{n}")
                for n in os.listdir("/proc/self/fd")
                if os.path.islink(f"/proc/self/fd/{n}")
            ]
            assert not [name for name in files if name.endswith("(deleted)") and "s.db" in name]


class TestOpening:
    def test_a_new_file_is_its_owner_s_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "s.db"
        open_database(path, timeout=1).close()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_a_file_that_must_exist_is_not_made(self, tmp_path: Path) -> None:
        path = tmp_path / "s.db"
        with pytest.raises(FileNotFoundError):
            open_database(path, timeout=1, must_exist=True)
        assert not path.exists()

    def test_a_folder_is_no_file(self, tmp_path: Path) -> None:
        with pytest.raises((OSError, sqlite3.Error)):
            open_database(tmp_path, timeout=1)
