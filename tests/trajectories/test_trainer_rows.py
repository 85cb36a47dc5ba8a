"""Rows for trainers, held against the definitions in the trainers' own packages where they are
installed (`make test-training`). verl and SkyRL are not imported: they need a GPU's packages.
"""

from __future__ import annotations

import ast
import re
from importlib import metadata
from typing import Any

import pytest

from dsv4.trajectories import batch_of, rows_of


def turn(call: str, prompt: list[int], *sampled: list[int], **rest: Any) -> dict[str, Any]:
    made = {"call": call, "prompt": prompt, "sampled": list(sampled), "trained": True}
    return {**made, "state": "finished", "delivered": True, "started": 1.0, "ended": 3.5, **rest}


def sequence(**rest: Any) -> dict[str, Any]:
    """Two turns: [1 2 | 3] [4 | 5 6]."""
    return {
        "input_ids": [1, 2, 3, 4, 5, 6],
        "loss_mask": [0, 0, 1, 0, 1, 1],
        "logprobs": [None, None, -0.3, None, -0.5, -0.6],
        "turns": [turn("c1", [0, 2], [2, 3]), turn("c2", [3, 4], [4, 6])],
        "weights": [{"version": 1, "start": 2, "end": 6}],
        "exact": True,
        **rest,
    }


def session(*sequences: dict[str, Any], **rest: Any) -> dict[str, Any]:
    made = {"id": "s", "number": 7, "group": "g", "reward": 0.5, "closed": True, "complete": True}
    calls = {
        turn["call"]: sum(end - start for start, end in turn["sampled"])
        for one in sequences
        for turn in one["turns"]
    }
    return {
        **made,
        "sampled_tokens": sum(calls.values()),
        "trajectories": list(sequences),
        **rest,
    }


SHORT = {
    "input_ids": [9, 8],
    "loss_mask": [0, 1],
    "logprobs": [None, -0.1],
    "turns": [turn("c0", [0, 1], [1, 2], started=0.0)],
}
UNTRAINED = {"loss_mask": [0] * 6}


class TestRows:
    def test_everything_that_is_known(self) -> None:
        (row,), left = rows_of(session(sequence()))
        assert (row["session"], row["group"], row["reward"], row["complete"]) == (
            "s",
            "g",
            0.5,
            True,
        )
        assert row["input_ids"] == [1, 2, 3, 4, 5, 6]
        assert not left

    @pytest.mark.parametrize("format", ["trl", "verl"])
    def test_the_prompt_is_what_comes_before_the_first_sampled_token(self, format: Any) -> None:
        (row,), left = rows_of(session(sequence()), format)
        rest = "completion" if format == "trl" else "response"
        assert (row["prompt_ids"], row[f"{rest}_ids"]) == ([1, 2], [3, 4, 5, 6])
        mask, logprobs = (
            ("env_mask", "logprobs") if format == "trl" else ("response_mask", "response_logprobs")
        )
        # A null would be not a number in the loss, even where the mask is 0.
        assert (row[mask], row[logprobs]) == ([1, 0, 1, 1], [-0.3, 0.0, -0.5, -0.6])
        assert not left

    def test_verl_gets_what_its_output_requires(self) -> None:
        (row,), _ = rows_of(session(sequence()), "verl")
        assert (row["reward_score"], row["num_turns"]) == (0.5, 4)
        assert row["metrics"] == {"generate_sequences": 5.0}
        assert row["extra_fields"]["session"] == "s"

    @pytest.mark.parametrize("format", ["trl", "verl"])
    def test_each_sequence_of_a_session_is_a_row_that_says_so(self, format: Any) -> None:
        found = session(sequence(**SHORT), sequence(), sequence(**UNTRAINED))
        rows, left = rows_of(found, format)
        assert [row["prompt_ids"] for row in rows] == [[9], [1, 2]]
        said = rows if format == "trl" else [row["extra_fields"] for row in rows]
        assert [(each["session"], each["group"]) for each in said] == [("s", "g")] * 2
        assert [(each["sequence"], each["sequences"]) for each in said] == [(0, 2), (1, 2)]
        assert left == {"nothing to train on": 1}

    @pytest.mark.parametrize("format", ["trl", "verl", "skyrl"])
    @pytest.mark.parametrize("trained", [True, False])
    def test_a_session_that_ended_at_a_limit_stays_in_its_group(
        self, format: Any, trained: bool
    ) -> None:
        turns = [turn("c1", [0, 2], [2, 3]), turn("c2", [3, 4], [4, 6], state="cut")]
        mask = [0, 0, int(trained), 0, 0, 0]
        (row,), left = rows_of(session(sequence(turns=turns, loss_mask=mask)), format)
        marks = {
            "trl": row.get("truncated"),
            "verl": row.get("extra_fields", {}).get("truncated"),
            "skyrl": row.get("stop_reasons") == "length",
        }
        assert marks[format] is True
        assert not left

    def test_a_call_that_sampled_nothing_is_no_row(self) -> None:
        empty = sequence(turns=[turn("c1", [0, 6], state="cut")], loss_mask=[0] * 6)
        assert rows_of(session(empty), "verl") == ([], {"nothing to train on": 1})

    def test_skyrl_takes_each_and_knows_the_last(self) -> None:
        rows, left = rows_of(session(sequence(**SHORT), sequence()), "skyrl")
        assert [row["prompt_token_ids"] for row in rows] == [[9], [1, 2]]
        assert [row["is_last_step"] for row in rows] == [False, True]
        assert rows[0]["trajectory_ids"] == {"instance_id": "g", "repetition_id": 7}
        assert [row["rewards"] for row in rows] == [0.5, 0.5]
        assert not left

    def test_rewards_of_turns_stand_at_their_last_tokens(self) -> None:
        turns = [turn("c1", [0, 2], [2, 3], reward=2.0), turn("c2", [3, 4], [4, 6])]
        (row,), _ = rows_of(session(sequence(turns=turns)), "skyrl")
        assert row["rewards"] == [2.0, 0.0, 0.0, 0.5]

    def test_what_a_trainer_cannot_take_is_left_out(self) -> None:
        unknown = sequence(logprobs=[None] * 6)
        for format in ("trl", "skyrl"):
            rows, left = rows_of(session(unknown), format)  # type: ignore[arg-type]
            assert (rows, left) == ([], {"log-probabilities are missing": 1})
        (row,), _ = rows_of(session(unknown), "verl")
        assert row["response_logprobs"] is None
        assert rows_of(session(sequence(), reward=None), "skyrl") == ([], {"no reward": 1})

    def test_a_batch_is_a_list_for_each_field(self) -> None:
        rows, _ = rows_of(session(sequence(**SHORT), sequence()), "skyrl")
        assert batch_of(rows)["response_ids"] == [[8], [3, 4, 5, 6]]
        assert batch_of([]) == {}


# The packages themselves.


def source_of(package: str, file: str) -> str:
    try:
        found = [each for each in metadata.files(package) or () if str(each) == file]
    except metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed here: its fields are not compared")
    return found[0].read_text()


def fields_of(source: str, name: str) -> dict[str, bool]:
    """The fields of a class, and whether each has a default."""
    classes = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ClassDef)]
    (found,) = [each for each in classes if each.name == name]
    return {
        str(each.target.id): each.value is not None
        for each in found.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }


def test_verl_has_these_fields() -> None:
    source = source_of("verl", "verl/experimental/agent_loop/agent_loop.py")
    fields = fields_of(source, "AgentLoopOutput")
    (row,), _ = rows_of(session(sequence()), "verl")
    assert row.keys() <= fields.keys()
    assert {name for name, optional in fields.items() if not optional} <= row.keys()
    assert row["metrics"].keys() <= fields_of(source, "AgentLoopMetrics").keys()


def test_skyrl_has_these_fields() -> None:
    source = source_of("skyrl", "skyrl/train/generators/base.py")
    (row,), _ = rows_of(session(sequence()), "skyrl")
    assert row.keys() <= fields_of(source, "GeneratorOutput").keys()
    assert row["trajectory_ids"].keys() == fields_of(source, "TrajectoryID").keys()


def test_trl_asks_for_these_fields() -> None:
    source = source_of("trl", "trl/trainer/grpo_trainer.py")
    (row,), _ = rows_of(session(sequence()), "trl")
    required = re.search(r"required_keys = (\{.*?\})", source)
    assert required is not None
    assert ast.literal_eval(required[1]) <= row.keys()
    assert 'extra_fields.pop("env_mask"' in source
