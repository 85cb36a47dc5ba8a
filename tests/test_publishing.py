"""What is published: one version, links that work, the same Pythons everywhere, a site."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import zlib
from hashlib import sha256
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, get_args

import pytest

import dsv4
from dsv4.types import DialectName
from dsv4.verify.report_views import RELEASES
from loading import ROOT, loaded


def read(name: str) -> str:
    return ROOT.joinpath(name).read_text("utf-8")


class TestVersion:
    def test_it_stands_in_one_place(self) -> None:
        assert f'__version__ = "{dsv4.__version__}"\n' in read("src/dsv4/version.py")
        assert 'version = { attr = "dsv4.version.__version__" }' in read("pyproject.toml")
        assert dsv4.__version__ not in read("pyproject.toml") + read("mkdocs.yml")

    def test_the_changelog_knows_it(self) -> None:
        first, *_ = re.findall(r"^## (.+)$", read("CHANGELOG.md"), re.MULTILINE)
        assert first in ("Unreleased", dsv4.__version__)
        assert f"## {dsv4.__version__}\n" in read("CHANGELOG.md")


@pytest.mark.parametrize("page", ["docs/dialects.md", "docs/format.md", "tests/vectors/README.md"])
def test_every_dialect_stands_on_the_pages_about_them(page: str) -> None:
    text = read(page)
    named = [name for name in dsv4.DIALECTS if re.search(rf"{re.escape(name)}(?![\w-]|\.\d)", text)]
    assert named == list(dsv4.DIALECTS)


def test_every_dialect_has_its_name_in_types_and_its_words_in_reports() -> None:
    assert set(get_args(DialectName)) == set(RELEASES) == set(dsv4.DIALECTS)


def test_the_sums_of_vectors_are_those_of_the_files() -> None:
    """Of one file for every dialect: bytes that are promised can be compared."""
    rows = re.findall(
        r"^\| `([^`]+)` \| vectors `([^`]+)`.* \| `([0-9a-f]+)` \|$",
        read("docs/compatibility.md"),
        re.MULTILINE,
    )
    assert {dialect for dialect, _, _ in rows} == set(dsv4.DIALECTS)
    vectors = ROOT / "tests" / "vectors"
    sums = {name: sha256((vectors / name).read_bytes()).hexdigest() for _, name, _ in rows}
    assert {name: sum for _, name, sum in rows} == sums


def test_whatever_can_be_imported_has_types() -> None:
    """A single file could not say so, and would not be packaged."""
    names = [path for path in ROOT.joinpath("src").iterdir() if not path.name.endswith("-info")]
    assert {path.name for path in names} >= {"dsv4", "encoding_dsv4"}
    packages = [path for path in names if path.name != "__pycache__"]
    assert [path.name for path in packages if not path.joinpath("py.typed").exists()] == []


class TestLinks:
    """The page of a package index has no files beside it."""

    ADDRESS = "https://forge.example/owner/dsv4"
    README = "[a](docs/a.md#b) ![c](docs/c.svg) [d](https://d.example) [e](#e) [f](mailto:f@f)"

    @pytest.fixture
    def setup(self) -> ModuleType:
        pytest.importorskip("setuptools")
        if sys.version_info < (3, 11):
            pytest.importorskip("tomli")
        return loaded("setup.py")

    def test_they_become_absolute(self, setup: ModuleType) -> None:
        assert setup.absolute(self.README, self.ADDRESS, "v1") == (
            f"[a]({self.ADDRESS}/blob/v1/docs/a.md#b) ![c]({self.ADDRESS}/raw/v1/docs/c.svg) "
            "[d](https://d.example) [e](#e) [f](mailto:f@f)"
        )

    def test_they_stay_where_there_is_no_address(self, setup: ModuleType) -> None:
        assert setup.absolute(self.README, "", "v1") == self.README

    def test_the_readme(self, setup: ModuleType) -> None:
        absolute = setup.absolute(read("README.md"), self.ADDRESS, "v1")
        targets = re.findall(r"\]\(([^)]+)\)", absolute)
        assert targets
        assert all(target.startswith("https://") for target in targets)
        assert setup.metadata()["long_description_content_type"] == "text/markdown"


class TestPythons:
    """Wherever Pythons are listed, they are the same."""

    CLASSIFIED = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', read("pyproject.toml"))

    def test_the_oldest(self) -> None:
        assert f'requires-python = ">={self.CLASSIFIED[0]}"' in read("pyproject.toml")
        assert f'python_version = "{self.CLASSIFIED[0]}"' in read("pyproject.toml")
        assert f"You need Python {self.CLASSIFIED[0]} or newer" in read("CONTRIBUTING.md")

    def test_those_that_are_tested(self) -> None:
        supported = loaded("scripts/other_pythons.py").SUPPORTED
        assert ["{}.{}".format(*version) for version in supported] == self.CLASSIFIED

    def test_those_of_the_forge(self) -> None:
        matrix = re.search(r"python: \[(.*)\]", read(".github/workflows/ci.yml"))
        assert matrix
        assert re.findall(r'"([\d.]+)"', matrix[1]) == self.CLASSIFIED

    def test_those_of_the_documentation(self) -> None:
        first, last = self.CLASSIFIED[0], self.CLASSIFIED[-1]
        assert f"Python {first} to {last}." in read("docs/compatibility.md")


def test_smoke_tests_are_there() -> None:
    assert [
        file for file in loaded("scripts/other_pythons.py").SMOKE if not (ROOT / file).exists()
    ] == []


def test_ci_runs_what_the_readme_says_and_nothing_else() -> None:
    [command] = re.findall(r"^(make test)\b.*all checks", read("README.md"), re.MULTILINE)
    lines = [line for line in read(".ci/run").splitlines() if not line.startswith(("#", "set "))]
    assert lines == ['cd "$(dirname "$0")/.."', f"exec {command}"]


def test_the_workflow_is_yaml() -> None:
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load(read(".github/workflows/ci.yml"))
    assert {"check", "tests", "distributions"} <= set(workflow["jobs"])
    others = [*ROOT.glob(".github/**/*.yml"), ROOT / ".pre-commit-config.yaml"]
    assert len(others) > 5
    assert all(isinstance(yaml.safe_load(path.read_text("utf-8")), dict) for path in others)


@pytest.mark.parametrize("name", ["ci", "follow"])
def test_actions_are_pinned_by_hash(name: str) -> None:
    """A tag can be moved to other code; a hash with the release behind it cannot."""
    workflow = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text("utf-8")
    used = re.findall(r"uses: (.*)", workflow)
    assert used
    pinned = re.compile(r"[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [action for action in used if not pinned.fullmatch(action)] == []


class TestRehearsal:
    """What `make release-rehearsal` makes of README.md."""

    @pytest.fixture
    def rehearsal(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
        module = loaded("scripts/release_rehearsal.py")
        monkeypatch.setattr(module, "HERE", tmp_path)
        monkeypatch.setattr(module, "SERVING_SECONDS", 1)
        (tmp_path / "user").mkdir()
        return module

    def test_it_runs_every_command_and_reaches_no_other_machine(
        self, rehearsal: ModuleType
    ) -> None:
        readme = (ROOT / "README.md").read_text("utf-8")
        commands = list(rehearsal.commands(readme))
        assert len(commands) == len(re.findall("^dsv4 ", readme, re.MULTILINE)) > 8
        assert not [line for line in commands if "://" in rehearsal.PLACEHOLDER.sub("", line)]

    @pytest.mark.parametrize(
        ("code", "problem"),
        [
            ("pass", ""),
            ("raise SystemExit(1)", ""),
            ("raise SystemExit(2)", "status 2"),
            ("raise KeyError(3)", "KeyError: 3"),
        ],
    )
    def test_a_command_that_fails_is_named(
        self, rehearsal: ModuleType, code: str, problem: str
    ) -> None:
        said = rehearsal.ending_failure([sys.executable, "-c", code])
        assert problem in said
        assert bool(said) == bool(problem)

    @pytest.mark.parametrize(
        ("code", "problem"),
        [
            ("print('http://127.0.0.1:1', flush=True); import time; time.sleep(9)", ""),
            ("print('http://127.0.0.1:1'); raise SystemExit(2)", "status 2"),
            ("import time; time.sleep(9)", "status -15: "),
        ],
    )
    def test_a_server_that_does_not_serve_is_named(
        self, rehearsal: ModuleType, code: str, problem: str
    ) -> None:
        said = rehearsal.serving_failure([sys.executable, "-c", code])
        assert problem in said
        assert bool(said) == bool(problem)


class TestLinksToThePlayground:
    """Pages open requests in the playground that is built beside them."""

    LINKED: dict[str, Any] = json.loads(read("docs/playground_links.json"))

    @pytest.fixture
    def site(self) -> ModuleType:
        return loaded("scripts/site.py")

    def test_each_is_used_and_no_other(self) -> None:
        pages = "".join(path.read_text("utf-8") for path in ROOT.glob("docs/*.md"))
        used = set(re.findall(r'\(playground-guide\.md "([^"]+)"\)', pages))
        assert used == set(self.LINKED)
        assert len(used) >= 10

    def test_they_hold_the_state_as_the_page_packs_it(self, site: ModuleType) -> None:
        view, packed = site.fragment("thinking").removeprefix("#").split("/1.")
        data = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        state = json.loads(zlib.decompress(data, wbits=-15))
        linked = self.LINKED["thinking"]
        assert view == "prompt"
        assert json.loads(state["request"]["source"]) == linked["request"]
        assert state["prompt"] == {"shown": linked["shown"], "beside": linked["beside"]}

    def test_they_lead_there_from_any_page(self, site: ModuleType) -> None:
        page = SimpleNamespace(url="servers/", file=SimpleNamespace(src_uri="servers.md"))
        link = '[See it](playground-guide.md "thinking").'
        written = site.on_page_markdown(link, page, config=None, files=None)
        assert written == f'<a href="../playground/{site.fragment("thinking")}">See it</a>.'


@pytest.mark.large
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    assert "WARNING" not in done.stderr
    reference = (tmp_path / "reference" / "dsv4" / "index.html").read_text("utf-8")
    headings = re.findall(r"<h2 id=.*?</h2>", reference, re.DOTALL)
    names = {re.sub(r"<[^>]+>|¶", " ", heading).split()[0] for heading in headings}
    assert set(dsv4.__all__) - names == {"__version__"}
