"""Counts that are kept between runs: what they hold, and when they are made again."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from http_servers import served
from running import ENVIRONMENT, dsv4
from stand_ins import FORECASTER, VLLM, StandIn, server

import dsv4 as package
from dsv4.verify import Forecaster, Hypothesis
from dsv4.verify import kept_counts as kept
from dsv4.verify.hypotheses import hypotheses
from dsv4.verify.kept_counts import KeptForecaster, cache_folder, determining_files
from dsv4.verify.probes import PROBES, requests_of_probes

COMPACT = server("vllm-0.32", "v4", "tools-compact")
SOURCE = Path(package.__file__).parent


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without counts, for few hypotheses: all of them would take seconds. They are known
    by the hash of a file in place of the vocabulary, which has megabytes."""
    some = [VLLM, COMPACT, server("dsv4", "v4-0731", "thinking-never"), server("llama.cpp")]
    monkeypatch.setattr(kept, "hypotheses", lambda: iter(some))
    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setattr(kept, "find_vocabulary", lambda path: tmp_path / "tokenizer.json")
    monkeypatch.setenv("DSV4_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def counted(*asked: Hypothesis) -> list[str]:
    """What is said while these are counted, as a new process would."""
    said: list[str] = []
    forecaster = KeptForecaster(notice=lambda: said.append("made"))
    for hypothesis in asked:
        assert forecaster.counts(hypothesis) == FORECASTER.counts(hypothesis)
    return said


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


class TestKeeping:
    def test_they_are_made_once(self, folder: Path) -> None:
        assert counted(COMPACT, VLLM) == ["made"]
        assert counted(VLLM, COMPACT) == []
        (file,) = files(folder)
        assert file.name.startswith("verify-counts-")

    def test_a_clean_server_is_no_reason_to_make_them(self, folder: Path) -> None:
        assert counted(VLLM) == []
        assert not folder.exists()

    def test_they_are_what_a_forecaster_makes(self) -> None:
        """All that are kept are read; one of many is made again."""
        maker = Forecaster(requests_of_probes(), FORECASTER.counter)
        for hypothesis in [*hypotheses()][::97]:
            assert FORECASTER.counts(hypothesis) == maker.counts(hypothesis), hypothesis

    def test_requests_of_ones_own_are_counted_beside_them(self, folder: Path) -> None:
        counted(COMPACT)
        own = KeptForecaster({"mine": PROBES["plain"].request})
        plain = FORECASTER.counts(COMPACT)["plain"]
        assert own.counts(COMPACT) == {**FORECASTER.counts(COMPACT), "mine": plain}

    def test_those_of_old_releases_are_removed(self, folder: Path) -> None:
        folder.mkdir()
        for age in range(9):
            old = folder / f"verify-counts-{age}.json"
            old.write_text("{}")
            os.utime(old, (1_000 - age, 1_000 - age))
        (folder / "other.json").write_text("{}")
        counted(COMPACT)
        names = [path.name for path in files(folder)]
        assert len(names) == 5
        assert {"other.json", "verify-counts-0.json", "verify-counts-2.json"} < set(names)

    def test_other_sources_have_other_counts(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        counted(COMPACT)
        changed = tmp_path / "probes.py"
        changed.write_text("# another release\n")
        monkeypatch.setattr(kept, "determining_files", lambda: iter([changed]))
        assert counted(COMPACT) == ["made"]
        assert len(files(folder)) == 2

    def test_another_vocabulary_has_other_counts(self, folder: Path, tmp_path: Path) -> None:
        counted(COMPACT)
        (tmp_path / "tokenizer.json").write_text('{"model": 1}')
        assert counted(COMPACT) == ["made"]
        assert len(files(folder)) == 2


def signed(text: bytes) -> bytes:
    return sha256(text).hexdigest().encode() + b"\n" + text


class TestDamage:
    @pytest.mark.parametrize(
        "change",
        [
            lambda data: b"",
            lambda data: data[: len(data) // 2],
            lambda data: data.replace(b"84", b"85", 1),
            lambda data: b"\xff\x00" * 1_000,
            lambda data: data + b" " * kept.MOST_BYTES,
            lambda data: signed(b"[]"),
            lambda data: signed(b'{"rows": 1}'),
            lambda data: signed(b"[[],[],[],[]]"),
            lambda data: signed(data.partition(b"\n")[2].replace(b"84", b'"84"', 1)),
            lambda data: signed(data.partition(b"\n")[2].replace(b"84", b"[[]]", 1)),
            lambda data: signed(data.partition(b"\n")[2].replace(b"84", b'[[1,"nowhere"]]', 1)),
            lambda data: signed(b"[" * 100_000),
        ],
    )
    def test_a_file_that_is_not_whole_is_made_again(
        self, folder: Path, change: Callable[[bytes], bytes]
    ) -> None:
        counted(COMPACT)
        (file,) = files(folder)
        whole = file.read_bytes()
        file.write_bytes(change(whole))
        assert counted(COMPACT) == ["made"]
        assert file.read_bytes() == whole

    def test_what_is_no_file(self, folder: Path) -> None:
        counted(COMPACT)
        (file,) = files(folder)
        file.unlink()
        file.mkdir()
        assert counted(COMPACT) == ["made"]
        assert files(folder) == [file]

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders here")
    def test_a_pipe_is_not_waited_for(self, folder: Path) -> None:
        counted(COMPACT)
        (file,) = files(folder)
        file.unlink()
        os.mkfifo(file)
        assert counted(COMPACT) == ["made"]

    def test_without_a_folder_nothing_is_kept(self, folder: Path) -> None:
        folder.write_text("a file in its place")
        assert counted(COMPACT, VLLM) == []

    def test_without_the_sources_nothing_is_kept(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kept, "determining_files", lambda: iter([folder / "zipped.py"]))
        assert counted(COMPACT) == []
        assert not folder.exists()


class TestTheFolder:
    @pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
    @pytest.mark.parametrize(
        ("variables", "expected"),
        [
            ({"DSV4_CACHE_DIR": "/c"}, "/c"),
            ({"XDG_CACHE_HOME": "/x"}, "/x/dsv4"),
            ({"XDG_CACHE_HOME": "relative"}, "/home/me/.cache/dsv4"),
            ({}, "/home/me/.cache/dsv4"),
        ],
    )
    def test_it_is_the_users(
        self, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("DSV4_CACHE_DIR", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"HOME": "/home/me", **variables}.items():
            monkeypatch.setenv(name, value)
        assert str(cache_folder()) == expected


IMPORTED = re.compile(r"^ *from (dsv4[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)


def imported(path: Path) -> Iterator[Path]:
    """The modules of the package that a file imports. `dsv4` itself loads on demand what it has,
    so whoever takes a module from it depends on that module alone."""
    for module, names in IMPORTED.findall(path.read_text("utf-8")):
        submodules = (f"{module}.{each}" for each in re.findall(r"\w+", names))
        for name in (*([] if module == "dsv4" else [module]), *submodules):
            place = SOURCE.parent.joinpath(*name.split("."))
            yield from (f for f in (place.with_suffix(".py"), place / "__init__.py") if f.exists())


def test_whatever_determines_the_counts_tells_them_from_others() -> None:
    waiting, seen = [SOURCE / "verify" / "hypotheses.py"], set[Path]()
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += imported(path)
    assert len(seen) > 50
    assert sorted(seen - set(determining_files())) == []


@pytest.mark.large
def test_the_command_says_that_it_makes_them(tmp_path: Path) -> None:
    faulty = StandIn(server("dsv4", "v4-0731", "effort-max-as-high"))
    with served(faulty) as url:
        for said in (True, False):
            done = dsv4(
                *("verify", url, "--yes", "--only", "effort"),
                env={**ENVIRONMENT, "DSV4_CACHE_DIR": str(tmp_path)},
            )
            assert done.returncode == 1
            assert (b"this is kept for the next time" in done.stderr) is said
