"""dsv4 dataset --prove, where there is nothing to prove with. With TRL itself: test_trainers.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from running import ENVIRONMENT, said

pytest.importorskip("tokenizers")


@pytest.mark.parametrize("missing", ["torch", "trl"])
def test_a_package_that_is_not_installed_is_one_line(tmp_path: Path, missing: str) -> None:
    for name in ("torch", "tokenizers", "datasets", "transformers", "trl"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / f"{missing}.py").write_text(f"raise ImportError('none', name='{missing}')")
    (tmp_path / "train.jsonl").write_text('{"input_ids": [0], "labels": [-100]}\n')
    path = os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]])
    environment = {**ENVIRONMENT, "PYTHONPATH": path}
    done = said("dataset", "--prove", "trl", tmp_path / "train.jsonl", env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"dsv4: --prove trl needs the package {missing}: pip install")


HELP = "(see dsv4 dataset --help)"
WRONG = {
    "an option that has no effect": (
        ["--prove", "trl", "a.jsonl", "--pack", "5"],
        "dsv4: --prove reads a finished file: pack has no effect\n",
    ),
    "neither an output nor a proof": (
        ["a.jsonl"],
        "dsv4: -o is missing: expected -o OUT, or --prove TRAINER and a file that was written\n",
    ),
    "both": (
        ["--prove", "trl", "a.jsonl", "-o", "b.jsonl"],
        f"dsv4 dataset: argument -o/--output: not allowed with argument --prove {HELP}\n",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use(case: str) -> None:
    arguments, complaint = WRONG[case]
    assert said("dataset", *arguments) == (2, "", complaint)
