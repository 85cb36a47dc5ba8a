"""Recorded cases, and what an implementation gets wrong in them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from loading import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from conformance import ConformanceCase, ConformanceOutcome, outcome_of, recorded_cases

CASES = list(recorded_cases())


def right_answer(case: ConformanceCase) -> dict[str, Any]:
    return json.loads(json.dumps(case.expected))


def outcome(case: ConformanceCase, **changes: object) -> ConformanceOutcome:
    return outcome_of(case, right_answer(case) | changes)


def first(kind: str, dialect: str, part: str) -> ConformanceCase:
    return next(
        case
        for case in CASES
        if case.kind == kind and case.dialect == dialect and part in case.expected
    )


def test_every_file_of_cases_is_read() -> None:
    files = {case.name.partition(":")[0] for case in CASES}
    assert files >= {"encode-v4", "encode-v4.1-namespaces", "parse-v3.2", "malformed", "third"}
    assert len(CASES) > 2_000


def test_what_is_expected_is_right() -> None:
    wrong = [case.name for case in CASES if outcome(case).verdict != "pass"]
    assert not wrong


@pytest.mark.parametrize(
    ("change", "section"),
    [
        (lambda prompt: prompt[1:], "section 1"),
        (lambda prompt: prompt.replace("Hi", "Ho"), "section 4"),
        (lambda prompt: prompt + "\n", "section 3"),
    ],
)
def test_a_prompt_that_differs_is_explained(change: Any, section: str) -> None:
    case = next(c for c in CASES if "Hi" in c.expected.get("prompt", "") and c.dialect == "v4")
    found = outcome(case, prompt=change(case.expected["prompt"]))
    assert (found.verdict, found.section) == ("fail", f"dsv4 docs format, {section}")
    assert found.difference.startswith("at character ")


def test_a_refusal_that_differs_is_explained() -> None:
    refused = outcome_of(first("encode", "v4", "prompt"), {"error": "no"})
    assert refused.difference == "refused ('no'), expected an answer"
    assert refused.section == "dsv4 docs format, section 2"
    answered = outcome_of(first("encode", "v4", "error"), {"prompt": "Hi"})
    assert answered.difference == "answered, expected an error"


def test_a_message_needs_no_role() -> None:
    case = first("parse", "v4", "message")
    message = dict(case.expected["message"])
    del message["role"]
    assert outcome(case, message=message).verdict == "pass"
    assert outcome(case, message={**message, "role": "user"}).verdict == "fail"
    other = outcome(case, message={**message, "content": "?"})
    assert (other.verdict, other.section) == ("fail", "dsv4 docs format, section 8")


@pytest.mark.parametrize(
    ("answer", "verdict", "words"),
    [
        ({"unsupported": "later"}, "unsupported", "later"),
        ("hello", "fail", "found 'hello', expected an object with the answer"),
        ({"message": 5}, "fail", "found no message, expected one as an object"),
    ],
)
def test_answers_that_are_none(answer: object, verdict: str, words: str) -> None:
    found = outcome_of(first("parse", "v4", "message"), answer)
    assert (found.verdict, found.difference) == (verdict, words)


def test_a_command_in_any_language(tmp_path: Path) -> None:
    from implementations import answers_of

    peer = tmp_path / "peer.py"
    answer = '{"id": json.loads(line)["id"], "unsupported": "all"}'
    peer.write_text(f"import json, sys\nfor line in sys.stdin:\n    print(json.dumps({answer}))\n")
    results = answers_of([sys.executable, peer], CASES[:5])
    assert [found.verdict for found, _ in results] == ["unsupported"] * 5
