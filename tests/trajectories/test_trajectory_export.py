"""Sessions of a file or of a gateway, exported as rows."""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsv4.errors import OptionError
from dsv4.trajectories import ExportError, RecordedCall, TokenRun, export, read_sessions
from dsv4.trajectories.session_file import Retention, SessionFile, SessionRecord, SessionRefused
from dsv4.trajectories.trainer_rows import ROW_FORMATS
from parts import fewer

KEEP = Retention(2**40, 2**40, 2**40)
# Where each format has what is trained on.
MASKS = {
    "rows": "loss_mask",
    "trl": "env_mask",
    "verl": "response_mask",
    "skyrl": "loss_masks",
}


@st.composite
def random_session(draw: st.DrawFn) -> list[RecordedCall]:
    """Calls that go on, branch, repeat and break off, some without log-probabilities."""
    calls: list[RecordedCall] = []
    for n in range(draw(st.integers(1, 6))):
        old = draw(st.sampled_from(calls)) if calls and draw(st.booleans()) else None
        begun = [] if old is None else [*old.prompt, *(id for run in old.runs for id in run.ids)]
        prompt = [*begun, *draw(st.lists(st.integers(0, 2), min_size=1, max_size=3))]
        ids = draw(st.lists(st.integers(0, 2), max_size=3))
        logprobs = [-0.5 if draw(st.integers(0, 5)) else None for _ in ids]
        state = draw(st.sampled_from(["finished", "finished", "cut", "left", "failed"]))
        calls.append(
            RecordedCall(
                f"c{n}",
                0,
                prompt,
                (TokenRun(ids, True, logprobs),) if ids else (),
                state=state,
                delivered=draw(st.booleans()),
            )
        )
    return calls


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
                "dsv4.trajectories.trajectory_export.session_rows", failing_after(stop_after)
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
            patched.setattr("dsv4.trajectories.trajectory_export.session_rows", failing_after(2))
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


class TestBalance:
    """Sampled = written + left out by reason, whatever the calls and whatever the rows."""

    @given(sessions=st.lists(random_session(), min_size=1, max_size=4), order=st.randoms())
    @settings(
        max_examples=fewer(200, 16),
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @pytest.mark.parametrize("format", ROW_FORMATS)
    def test_every_sampled_token_is_written_or_left_out_for_a_reason(
        self,
        sessions: list[list[RecordedCall]],
        order: random.Random,
        format: Any,
        tmp_path: Path,
    ) -> None:
        path = tmp_path / "s.db"
        path.unlink(missing_ok=True)
        with closing(SessionFile(path)) as file:
            for n, calls in enumerate(sessions):
                file.create(SessionRecord(f"s{n}", "-", reward=None if n % 2 else 1.0))
                file.enter(f"s{n}", "-", [call.id for call in calls], KEEP)
                # They end in any order, and some of them when the session is closed already.
                ends = order.sample(calls, len(calls))
                is_open = order.randint(0, len(ends))
                for call in ends[:is_open]:
                    file.finish(f"s{n}", call)
                file.close_session(f"s{n}")
                for call in ends[is_open:]:
                    file.finish(f"s{n}", call)
        done = export(path, tmp_path / "out.jsonl", format=format, overwrite=True)
        assert done.sampled_tokens == sum(call.sampled for calls in sessions for call in calls)
        assert done.sampled_tokens == done.written_tokens + done.left_out_tokens.total()
        assert (done.unsealed, done.left_out_tokens["damaged"]) == (0, 0)
        rows = lines(tmp_path / "out.jsonl")
        assert done.written_tokens == sum(sum(row[MASKS[format]]) for row in rows)

    def test_a_seal_is_the_count_and_the_hash_of_sampled_ids_in_the_order_of_ends(
        self, tmp_path: Path
    ) -> None:
        first = RecordedCall("c1", 0, [1], (TokenRun([2], False), TokenRun([258, 4], True)))
        second = RecordedCall("c2", 0, [1], (TokenRun([5], True, [-0.5]),))
        file = SessionFile(tmp_path / "s.db")
        file.create(SessionRecord("s", "-"))
        file.enter("s", "-", ["c1", "c2", "c3"], KEEP)
        file.finish("s", second)
        file.finish("s", first)
        seal = file.close_session("s").seal
        ids = b"\5\0\0\0" + b"\2\1\0\0" + b"\4\0\0\0"
        assert seal == (3, hashlib.sha256(ids).hexdigest())
        # A call that ran when the session was closed is sealed too.
        file.finish("s", RecordedCall("c3", 0, [1], (TokenRun([6], True, [-0.5]),)))
        record = file.session("s")
        assert record is not None
        assert record.seal == (4, hashlib.sha256(ids + b"\6\0\0\0").hexdigest())

    def test_files_of_older_releases_are_read_upgraded_and_said_to_have_no_seal(
        self, path: Path, tmp_path: Path
    ) -> None:
        with closing(sqlite3.connect(path)) as older:
            for table, column in (("sessions", "ended"), ("sessions", "seal"), ("calls", "ended")):
                older.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
            older.execute("PRAGMA user_version = 1")
            older.commit()
        done = export(path, tmp_path / "out.jsonl")
        assert (done.sessions, done.unsealed, done.sampled_tokens) == (5, 1, 15)
        with closing(SessionFile(path)) as file:
            file.enter("s0", "-", ["more"], KEEP)
            file.finish("s0", RecordedCall("more", 0, [1], (TokenRun([6], True, [-0.5]),)))
            assert file.close_session("s0").seal is None
            file.create(SessionRecord("new", "-"))
            assert file.close_session("new").seal is not None


def failing_after(count: int) -> Callable[..., Any]:
    """What makes rows, and is interrupted after so many sessions."""
    from dsv4.trajectories.trainer_rows import session_rows

    def numbered() -> Iterator[int]:
        yield from range(count)
        raise KeyboardInterrupt

    numbers = numbered()

    def made(*args: Any) -> Any:
        next(numbers)
        return session_rows(*args)

    return made
