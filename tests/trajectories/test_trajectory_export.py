"""Sessions of a file or of a gateway, exported as rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dsv4.errors import OptionError
from dsv4.trajectories import ExportError, RecordedCall, TokenRun, export, read_sessions
from dsv4.trajectories.session_file import Retention, SessionFile, SessionRecord, SessionRefused

KEEP = Retention(2**40, 2**40, 2**40)


def add_session(file: SessionFile, id: str, turns: int, **said: Any) -> None:
    """A session of turns with three tokens each: two of the prompt and one sampled."""
    file.create(SessionRecord(id, "-", **said))
    ids: list[int] = []
    for n in range(turns):
        file.enter(id, "-", [f"{id}-{n}"], KEEP)
        prompt = [*ids, 10, n]
        run = TokenRun([20 + n], True, [-0.25])
        file.finish(id, RecordedCall(f"{id}-{n}", 0, prompt, (run,)))
        ids = [*prompt, 20 + n]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = SessionFile(tmp_path / "s.db")
    with file.batch(to_disk=False):
        for n in range(5):
            add_session(file, f"s{n}", n + 1, group="even" if n % 2 == 0 else "odd")
            file.update(f"s{n}", lambda _, n=n: {"reward": float(n)})
        file.close_session("s2")
    file.close()
    return tmp_path / "s.db"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


class TestFile:
    def test_what_is_stored_of_a_call_does_not_grow_with_the_session(self, tmp_path: Path) -> None:
        file = SessionFile(tmp_path / "s.db")
        ids, sizes = [1] * 1000, [0]
        with file.batch(to_disk=False):
            file.create(SessionRecord("long", "-"))
            for n in range(400):
                file.enter("long", "-", [f"c{n}"], KEEP)
                prompt = [*ids, *range(50)]
                run = TokenRun([n] * 50, True, [0.0] * 50)
                file.finish("long", RecordedCall(f"c{n}", 0, prompt, (run,)))
                (record,) = file.sessions()
                sizes.append(record.size)
                ids = [*prompt, *run.ids]
        added = [b - a for a, b in pairwise(sizes)][1:]
        assert max(added) <= min(added) + 20  # the digits of numbers
        (session,) = read_sessions(tmp_path / "s.db")
        (one,) = session["trajectories"]
        assert one["input_ids"] == ids

    def test_a_session_of_another_owner_is_unknown(self, path: Path) -> None:
        file = SessionFile(path)
        with pytest.raises(SessionRefused) as refused:
            file.enter("s0", "ann", ["c"], KEEP)
        assert refused.value.why == "unknown"
        with pytest.raises(SessionRefused) as refused:
            file.enter("s2", "-", ["c"], KEEP)
        assert refused.value.why == "closed"


class TestExport:
    def test_rows_come_in_the_order_in_which_sessions_were_made(
        self, path: Path, tmp_path: Path
    ) -> None:
        done = export(path, tmp_path / "out.jsonl")
        assert (done.sessions, done.rows, dict(done.left_out)) == (5, 5, {})
        rows = lines(tmp_path / "out.jsonl")
        assert [(row["session"], row["reward"]) for row in rows] == [
            (f"s{n}", float(n)) for n in range(5)
        ]
        assert rows[1]["input_ids"] == [10, 0, 20, 10, 1, 21]
        assert rows[1]["loss_mask"] == [0, 0, 1, 0, 0, 1]
        assert sorted(p.name for p in tmp_path.glob("out.*")) == ["out.jsonl"]

    def test_only_those_that_are_wanted(self, path: Path, tmp_path: Path) -> None:
        export(path, tmp_path / "even.jsonl", group="even")
        assert [row["session"] for row in lines(tmp_path / "even.jsonl")] == ["s0", "s2", "s4"]
        export(path, tmp_path / "closed.jsonl", closed=True)
        assert [row["session"] for row in lines(tmp_path / "closed.jsonl")] == ["s2"]

    @pytest.mark.parametrize("format", ["rows", "trl", "verl", "skyrl"])
    def test_parquet_has_the_same_rows(self, path: Path, tmp_path: Path, format: Any) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        export(path, tmp_path / "out.parquet", format=format)
        export(path, tmp_path / "out.jsonl", format=format)
        found = parquet.read_table(tmp_path / "out.parquet").to_pylist()
        for row, expected in zip(found, lines(tmp_path / "out.jsonl"), strict=True):
            for name, value in expected.items():
                as_text = isinstance(value, (dict, list)) and isinstance(row[name], str)
                assert (json.loads(row[name]) if as_text else row[name]) in (value, "null")

    @pytest.mark.parametrize("stop_after", [0, 1, 3])
    def test_an_interrupted_export_continues_and_ends_with_the_same_bytes(
        self, path: Path, tmp_path: Path, stop_after: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        export(path, tmp_path / "whole.jsonl")
        out = tmp_path / "out.jsonl"
        with monkeypatch.context() as patched:
            patched.setattr(
                "dsv4.trajectories.trajectory_export.rows_of", failing_after(stop_after)
            )
            with pytest.raises(KeyboardInterrupt):
                export(path, out)
        assert not out.exists()
        done = export(path, out, resume=True)
        assert (done.sessions, done.rows) == (5, 5)
        assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()

    def test_it_continues_with_the_same_options_only(
        self, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            patched.setattr("dsv4.trajectories.trajectory_export.rows_of", failing_after(2))
            with pytest.raises(KeyboardInterrupt):
                export(path, tmp_path / "out.jsonl")
        with pytest.raises(ExportError, match="begun with other options"):
            export(path, tmp_path / "out.jsonl", resume=True, format="verl")

    def test_wrong_options_and_files(self, path: Path, tmp_path: Path) -> None:
        with pytest.raises(OptionError, match="format: found 'x', expected rows, trl, verl, skyrl"):
            export(path, tmp_path / "out.jsonl", format="x")  # type: ignore[arg-type]
        with pytest.raises(OptionError, match=r"output: found 'out.csv'"):
            export(path, tmp_path / "out.csv")
        with pytest.raises(ExportError, match="No such file or directory"):
            export(tmp_path / "none.db", tmp_path / "out.jsonl")
        (tmp_path / "text.db").write_text("no database" * 100)
        with pytest.raises(ExportError, match="not a database"):
            export(tmp_path / "text.db", tmp_path / "out2.jsonl")
        (tmp_path / "there.jsonl").touch()
        with pytest.raises(ExportError, match="it is there already"):
            export(path, tmp_path / "there.jsonl")
        export(path, tmp_path / "there.jsonl", overwrite=True)


def failing_after(count: int) -> Callable[..., Any]:
    """What makes rows, and is interrupted after so many sessions."""
    from dsv4.trajectories import rows_of

    def numbered() -> Iterator[int]:
        yield from range(count)
        raise KeyboardInterrupt

    numbers = numbered()

    def made(*args: Any) -> Any:
        next(numbers)
        return rows_of(*args)

    return made
