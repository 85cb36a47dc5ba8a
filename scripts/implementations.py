"""Holds every implementation in implementations/ against the recorded cases of `dsv4 conform`, and
writes docs/implementations.md: python scripts/implementations.py [NAME …]

Each runs in an environment of its own, made from its lock file, below build/implementations. With
names, only those are run, and the page stays as it is: their part of it is printed.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import dsv4
from dsv4.compat import templates
from dsv4.compat.conformance import (
    ConformanceCase,
    ConformanceOutcome,
    bundled_cases,
    outcome_of,
)

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "implementations"
BUILD = ROOT / "build" / "implementations"
PAGE = ROOT / "docs" / "implementations.md"
SECONDS = 900
# What became of a case, and the answer itself.
Result = tuple[ConformanceOutcome, dict[str, Any]]
# What a parser may do to a completion, the worst first.
MISTAKES = ("invented", "wrong arguments", "lost", "leaked", "refused", "other texts")
EXAMPLE_LENGTH = 150
# Packages with wheels for one platform, of which only Python files are run, which run anywhere.
PLATFORMS = dict.fromkeys(("ftllm", "twinkle-kit", "lmdeploy"), "x86_64-manylinux_2_31")


# Running one.


def installed(name: str) -> Path:
    """The Python of an implementation's environment, made where it is missing."""
    folder, lock = BUILD / name, FOLDER / name / "requirements.lock"
    python, stamp = folder / "bin" / "python", folder / "installed.lock"
    if not stamp.exists() or stamp.read_text("utf-8") != lock.read_text("utf-8"):
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "--quiet", "--clear", folder], check=True)
        options = ["--quiet", "--no-deps", "--require-hashes", "--python", python]
        options += ["--python-platform", PLATFORMS[name]] if name in PLATFORMS else []
        subprocess.run([*uv, "pip", "install", *options, "-r", lock], check=True)
        stamp.write_text(lock.read_text("utf-8"), "utf-8")
    return python


def results_of(name: str, cases: Sequence[ConformanceCase]) -> list[Result]:
    """What an implementation answers to every case."""
    template = BUILD / "template.jinja"
    template.write_text(templates.chat_template(), "utf-8")
    lines = (json.dumps({"id": n, **case.request}) for n, case in enumerate(cases))
    done = subprocess.run(
        [installed(name), FOLDER / name / "adapter.py", template],
        input="\n".join(lines),
        stdout=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
        check=True,
        env={
            "PYTHONPATH": str(ROOT / "scripts"),
            "PYTHONWARNINGS": "ignore",
            "PATH": "/usr/bin:/bin",
        },
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if [answer["id"] for answer in answers] != list(range(len(cases))):
        raise SystemExit(f"{name}: {len(answers)} answers to {len(cases)} cases")
    pairs = zip(cases, answers, strict=True)
    return [(outcome_of(case, _judged(case, answer)), answer) for case, answer in pairs]


def _judged(case: ConformanceCase, answer: dict[str, Any]) -> dict[str, Any]:
    """An answer as it is judged: a parser that gives calls only is right about texts."""
    if "message" not in answer or "content" in answer["message"] or "message" not in case.expected:
        return answer
    texts = ("content", "reasoning_content")
    wanted = {name: text for name, text in case.expected["message"].items() if name in texts}
    return {"message": {**wanted, **answer["message"]}}


# What a parser got wrong.


def mistake_of(outcome: ConformanceOutcome, answer: dict[str, Any]) -> str:
    """The worst mistake in a reading that is not right."""
    if "message" not in answer:
        return "refused"
    wanted_calls = outcome.case.expected["message"].get("calls") or ()
    expected = [(call["name"], call["arguments"]) for call in wanted_calls]
    found = [_read(call["function"]) for call in answer["message"].get("tool_calls") or ()]
    names, wanted = Counter(n for n, _ in found), Counter(n for n, _ in expected)
    if names - wanted:
        return "invented"
    if wanted - names:
        return "lost"
    if repr(found) != repr(expected):
        return "wrong arguments"
    texts = (answer["message"].get(name) or "" for name in ("content", "reasoning_content"))
    return "leaked" if any("DSML" in text for text in texts) else "other texts"


def _read(function: dict[str, Any]) -> tuple[Any, Any]:
    try:
        return function["name"], json.loads(function["arguments"])
    except (TypeError, ValueError):
        return function["name"], function["arguments"]


# The page.


def prompt_rows(name: str, results: Sequence[Result]) -> Iterator[str]:
    for dialect in dict.fromkeys(outcome.case.dialect for outcome, _ in results):
        own = [
            each
            for each in results
            if each[0].case.dialect == dialect and _is_offered(each, "encode")
        ]
        if own:
            equal = sum(outcome.verdict == "pass" for outcome, _ in own)
            refused = sum("error" in answer for outcome, answer in own if outcome.verdict == "fail")
            differing = len(own) - equal - refused
            yield _row(name, version(name), dialect, len(own), equal, differing, refused)


def parser_row(name: str, results: Sequence[Result]) -> str | None:
    own = [each for each in results if _is_offered(each, "parse")]
    strict = [each for each in own if each[0].case.request["strict"]]
    tolerant = [each for each in own if not each[0].case.request["strict"]]
    if not own:
        return None
    right = sum(outcome.verdict == "pass" for outcome, _ in tolerant)
    exact = sum(outcome.verdict == "pass" for outcome, _ in strict)
    wrong = Counter(mistake_of(*each) for each in tolerant if each[0].verdict == "fail")
    kinds = (wrong[kind] for kind in MISTAKES)
    return _row(
        name, version(name), f"{exact} of {len(strict)}", f"{right} of {len(tolerant)}", *kinds
    )


def _is_offered(result: Result, kind: str) -> bool:
    outcome, _ = result
    return outcome.case.kind == kind and outcome.verdict != "unsupported"


def differences(name: str, results: Sequence[Result]) -> Iterator[str]:
    """Each kind of difference in prompts, with the smallest example of it."""
    kinds: dict[str, list[ConformanceOutcome]] = {}
    for outcome, _ in results:
        if outcome.verdict == "fail" and outcome.case.kind == "encode":
            kinds.setdefault(f"{outcome.case.dialect}, {_kind(outcome)}", []).append(outcome)
    if kinds:
        yield f"\n### {name}\n"
    for kind, own in sorted(kinds.items(), key=lambda item: -len(item[1])):
        smallest = min(own, key=lambda outcome: len(json.dumps(outcome.case.request)))
        words = smallest.difference.replace("`", "'").replace("\n", " ")
        if len(words) > EXAMPLE_LENGTH * 2:
            words = words[: EXAMPLE_LENGTH * 2] + " …"
        yield f"- {kind}: {len(own)}. The smallest, `{smallest.case.name}`:"
        yield f"\n  ```text\n  {words}\n  ```\n"


def _kind(outcome: ConformanceOutcome) -> str:
    if outcome.difference.startswith(("refused", "answered")):
        taken = outcome.difference.startswith("answered")
        return "taken, where the release refuses" if taken else "refused, where the release writes"
    return outcome.section.replace("dsv4 docs format, section", "[section](format.md)")


def way_of(name: str) -> str:
    """What is run of an implementation, in the words of its adapter."""
    module = ast.parse((FOLDER / name / "adapter.py").read_text("utf-8"))
    words = " ".join((ast.get_docstring(module) or "").split())
    return words.partition(": ")[2].replace("|", "\\|")


def version(name: str) -> str:
    first = (FOLDER / name / "requirements.in").read_text("utf-8").split("\n")[0]
    return first.partition("==")[2]


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def page(results: dict[str, list[Result]], seconds: float) -> str:
    size = sum(path.stat().st_size for path in BUILD.rglob("*") if path.is_file()) / 1e9
    prompts = [row for name, own in results.items() for row in prompt_rows(name, own)]
    parsers = [row for name, own in results.items() if (row := parser_row(name, own))]
    kinds = [line for name, own in results.items() for line in differences(name, own)]
    ways = [_row(name, version(name), way_of(name)) for name in results]
    head = (FOLDER / "page_head.txt").read_text("utf-8")
    measured = {"date": date.today().strftime("%-d %B %Y"), "version": dsv4.__version__}
    measured |= {"minutes": f"{max(1, round(seconds / 60))}", "size": f"{size:.1f}"}
    for name, value in measured.items():
        head = head.replace(f"{{{name}}}", value)
    tables = (("ways", ways), ("prompts", prompts), ("parsers", parsers), ("differences", kinds))
    for name, rows in tables:
        head = head.replace(f"<!-- {name} -->", "\n".join(rows).strip())
    return head


def main(names: Sequence[str]) -> None:
    known = sorted(path.parent.name for path in FOLDER.glob("*/adapter.py"))
    BUILD.mkdir(parents=True, exist_ok=True)
    cases = [case for case in bundled_cases() if case.kind != "pieces"]
    start, results = time.monotonic(), {}
    for name in names or known:
        print(name, flush=True)
        results[name] = results_of(name, cases)
    if names:
        for name, own in results.items():
            print(
                "\n".join(
                    [*prompt_rows(name, own), parser_row(name, own) or "", *differences(name, own)]
                )
            )
    else:
        PAGE.write_text(page(results, time.monotonic() - start), "utf-8")
        subprocess.run([sys.executable, ROOT / "scripts" / "wrap_markdown.py"], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
