"""dsv4 conform, with implementations that are right, wrong, or none."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from running import ROOT, dsv4, printed, refused

from dsv4 import encode
from dsv4.compat import conformance
from dsv4.compat.conformance import bundled_cases, prompt_ids
from dsv4.tokens import Tokenizer
from loading import loaded

TESTS = ROOT / "tests"
# Answers as this implementation does, and then changes something.
PEER = """
import json, sys
from dsv4.compat.conformance import own_answer
for line in sys.stdin:
    request = json.loads(line)
    answer = own_answer(request)
    CHANGE
    print(json.dumps({"id": request["id"], **answer}), flush=True)
"""


def peer(change: str = "pass") -> tuple[str, ...]:
    return ("--", sys.executable, "-c", PEER.replace("CHANGE", change))


def few(folder: Path, file: str, count: int) -> tuple[object, ...]:
    """Options that take the first recorded rows of a file alone."""
    rows = (TESTS / file).read_text("utf-8").split("\n")[:count]
    (folder / Path(file).name).write_text("\n".join(rows), "utf-8")
    return "--vectors", folder


V4, V4_1 = "vectors/encode-v4.jsonl", "vectors/encode-v4.1.jsonl"
PARSED = "vectors/parse-v4.jsonl"


class TestSelf:
    def test_all_that_is_recorded_is_answered_right(self) -> None:
        command = ("--", sys.executable, "-m", "dsv4", "conform", "--answer")
        report = json.loads(printed("conform", "--json", "-", *command))
        assert (report["failed"], report["differences"]) == (0, [])
        passed = {(part["kind"], part["dialect"]): part["pass"] for part in report["parts"]}
        assert passed["encode", "v4"] >= 217
        assert passed["encode", "v4.1-1017"] >= 360
        assert passed["parse", "v4"] > 300
        assert passed["pieces", "v4"] > 183
        assert not any(part["unsupported"] for part in report["parts"])

    def test_a_wheel_has_the_same_cases(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expected = list(bundled_cases())
        bundle = tmp_path / "cases.zip"
        with ZipFile(bundle, "w") as archive:
            for folder, pattern in loaded("setup.py").CASES:
                for path in sorted((TESTS / folder).glob(pattern)):
                    archive.write(path, path.name)
        monkeypatch.setattr(conformance, "BUNDLE", bundle)
        assert list(bundled_cases()) == expected
        assert {case.name.partition(":")[0] for case in expected} >= {"third", "encode-v4.1"}


class TestOthers:
    def test_one_that_is_right(self, tmp_path: Path) -> None:
        few(tmp_path, V4, 2)
        options = (*few(tmp_path, V4_1, 5), "--dialect", "v4.1")
        assert "5 of 5 right" in printed("conform", *options, *peer())

    @pytest.mark.parametrize(
        ("change", "kind", "section"),
        [
            ('answer["prompt"] = answer["prompt"][1:]', "encode", "section 1"),
            ('answer["prompt"] = answer["prompt"].replace("Hi", "Ho")', "encode", "section 4"),
            ('answer["prompt"] += "\\n"', "encode", "section 3"),
            ('answer = {"error": "no"}', "encode", "section 2"),
            ('answer["message"]["content"] = "?"', "parse", "section 8"),
        ],
    )
    def test_what_differs_is_explained(
        self, change: str, kind: str, section: str, tmp_path: Path
    ) -> None:
        changed = f"if 'prompt' in answer: {change}" if kind == "encode" else change
        changed = f"if 'message' in answer: {change}" if kind == "parse" else changed
        options = few(tmp_path, V4 if kind == "encode" else PARSED, 30)
        done = dsv4("conform", *options, "--json", "-", *peer(changed))
        assert done.returncode == 1, done.stderr
        report = json.loads(done.stdout)
        assert report["failed"] > 0
        sections = {each["section"] for each in report["differences"]}
        assert f"dsv4 docs format, {section}" in sections

    def test_the_report_in_words(self, tmp_path: Path) -> None:
        wrong = "if 'prompt' in answer: answer['prompt'] = '\\x1b[31m<b>'"
        done = dsv4("conform", *few(tmp_path, V4, 15), *peer(wrong))
        text = done.stdout.decode()
        assert "encode-v4:1: at character 0: found" in text
        by_section = re.findall(r"dsv4 docs format, section \d+: (\d+) answers? differs?", text)
        assert sum(map(int, by_section)) == 15
        assert text.count("at character 0") == len(by_section)
        assert "--all prints all of them" in text
        assert "\x1b" not in text

    def test_a_message_needs_what_the_table_has_and_no_role(self, tmp_path: Path) -> None:
        """Whoever follows the table of the documents sends texts and calls."""
        change = "if 'message' in answer: answer['message'].pop('role', None)"
        options = few(tmp_path, PARSED, 12)
        assert " of " in printed("conform", *options, *peer(change))
        other = "if 'message' in answer: answer['message']['role'] = 'user'"
        done = dsv4("conform", *options, "--json", "-", *peer(other))
        sections = json.loads(done.stdout)["sections"]
        assert sum(each["failed"] for each in sections) == json.loads(done.stdout)["failed"] > 0

    def test_ids_in_place_of_a_prompt(self, tmp_path: Path) -> None:
        """As the vocabulary of the checkpoint gives them."""
        ids = "if 'prompt' in answer: answer = {'ids': prompt_ids(answer['prompt'], 'v4')}"
        start = "from dsv4.compat.conformance import own_answer"
        command = [part.replace(start, f"{start}, prompt_ids") for part in peer(ids)]
        options = few(tmp_path, V4, 3)
        assert "3 of 3 right" in printed("conform", *options, *command)
        wrong = [part.replace("prompt'],", "prompt'][1:],") for part in command]
        done = dsv4("conform", *options, *wrong)
        assert done.returncode == 1
        assert b"at id 0: found [" in done.stdout

    def test_the_ids_are_those_of_the_tokenizer(self) -> None:
        for dialect in ("v4", "v4.1"):
            prompt = encode([{"role": "user", "content": "Hi 北京"}], dialect=dialect)
            assert prompt_ids(str(prompt), dialect) == Tokenizer.load().encode(prompt)

    def test_what_is_not_supported_is_no_difference(self, tmp_path: Path) -> None:
        some = "answer = {'unsupported': 'later'} if request['do'] == 'parse' else answer"
        text = printed("conform", *few(tmp_path, PARSED, 4), *peer(some))
        assert "parse   v4             0 of 0 right, 4 not supported" in text

    def test_deepseek_recipe_where_it_claims_to(self, tmp_path: Path) -> None:
        pytest.importorskip("deepseek_recipe")
        words = ("Hi", "  two\n\nlines ", "naïve 北京 🛰", '{"a": [1, 2.50, null]}')
        turns = [{"role": "user", "content": words[0]}, {"role": "assistant", "content": words[1]}]
        systems: list[list[Any]] = [[], [{"role": "system", "content": words[2]}]]
        for dialect in ("v4-0731", "v4.1"):
            chats = [
                [*s, *t, {"role": "user", "content": w}]
                for s in systems
                for t in ([], turns)
                for w in words
            ]
            rows = [
                {
                    **{"messages": chat, "options": {"thinking_mode": "chat"}},
                    "prompt": str(encode(chat, thinking=False, dialect=dialect)),
                }
                for chat in chats
            ]
            lines = "\n".join(map(json.dumps, rows))
            (tmp_path / f"encode-{dialect}.jsonl").write_text(lines, "utf-8")
        command = ("--", sys.executable, TESTS / "cli" / "recipe_peer.py")
        report = json.loads(printed("conform", "--vectors", tmp_path, "--json", "-", *command))
        assert sum(part["pass"] for part in report["parts"]) == 32


class TestWhatCannotBeAsked:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ([], "found no command, expected one after --"),
            (["--", "no-such-command"], "no-such-command: "),
            (["--", "true"], "encode-v3.2:1: the command ended with status 0, without an answer"),
            (["--timeout", "1", "--", "sleep", "60"], "encode-v3.2:1: no answer in 1 seconds"),
            (["--vectors", "nowhere", "--", "cat"], "--vectors: nowhere: found no such folder"),
        ],
    )
    def test_it_is_said_in_one_line(self, arguments: list[str], words: str) -> None:
        assert words in refused("conform", *arguments)

    def test_an_answer_that_is_no_json(self, tmp_path: Path) -> None:
        done = dsv4("conform", *few(tmp_path, V4, 1), "--", "sed", "-u", "s/.*/hello/")
        assert done.returncode == 1
        assert b"expected an object with the answer" in done.stdout

    def test_answers_in_another_order(self, tmp_path: Path) -> None:
        done = dsv4("conform", *few(tmp_path, V4, 1), *peer("request['id'] += 1"))
        assert b"an answer to 2, expected one to 1" in done.stdout

    def test_requests_that_are_none(self) -> None:
        lines = b'5\n{"do": "dance"}\n{\n{"do": "encode"}\n'
        answers = printed("conform", "--answer", stdin=lines).splitlines()
        assert all("unsupported" in json.loads(answer) for answer in answers)
        assert len(answers) == 4
