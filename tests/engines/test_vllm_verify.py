"""`dsv4 verify` over a real vLLM, with flags that people start it with: what each report says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from vllm_process import MODEL_NAME, OWN_PARSERS, RunningVllm, TinyModel

from dsv4.verify import HttpServer, Reply, Report, run


class CountsAlone(HttpServer):
    """Does not ask for the prompt itself."""

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        if path.startswith("/../") or path.endswith("/render"):
            return Reply(404)
        asked = {key: value for key, value in body.items() if key != "return_token_ids"}
        return super().post(path, asked)


def named(report: Report) -> tuple[str, str, list[str]]:
    prompt = report.to_dict()["prompt"]
    return prompt["profile"], prompt["dialect"], prompt["faults"]


@pytest.fixture(scope="module")
def vllm(model: TinyModel) -> Iterator[RunningVllm]:
    with model.served(*OWN_PARSERS, "--enable-prompt-tokens-details") as server:
        yield server


def test_it_is_named_by_its_prompts(vllm: RunningVllm) -> None:
    report = run(HttpServer(f"{vllm.url}/v1"), MODEL_NAME, mode="full")
    assert named(report) == ("vllm-0.32", "v4-0731", [])
    assert set(report.evidence) >= {"E0", "E1", "E2", "E3"}
    assert report.verdict.explained == report.verdict.of > 60
    assert report.notes == ()  # what was announced suffices for all of it
    assert {"order-tools", "order-system", "cache-loop"} <= {f.id for f in report.findings}
    assert report.groups["safety"] == "fault"


# What a vLLM 0.32 does by itself, and what anybody who writes to it can do.
WAYS = {
    *("tools-kept-at-none", "tool-choice-ignored", "response-format-unseen"),
    *("thinking-type-ignored", "developer-dropped", "effort-medium-as-low"),
}
INJECTIONS = {f"inject-{place}" for place in ("user", "result", "tool", "history")}
# What comes of an answer, which is a random model's.
MEASURED = {"output-unseen", "output-no-call", "protocols-counted", "raw-tokens", "raw-bos"}
DEFAULTS = "--default-chat-template-kwargs"
# By flags: the faults that are named; those that refusals show, which are possible for a quick run
# and named by a default one; every statement of a default report besides those of `MEASURED`, and
# how many requests are too long.
FLAGS: list[tuple[tuple[str, ...], list[str], list[str], set[str], int]] = [
    ((*OWN_PARSERS, "--enable-prompt-tokens-details"), [], [], WAYS | INJECTIONS, 0),
    # Without a parser, tools are refused, so that nothing is known of those in prompts.
    ((), [], ["tools-refused"], (WAYS | INJECTIONS | {"tools-refused"}) - {"inject-tool"}, 0),
    # While it does not think, it keeps a developer's message.
    (
        (*OWN_PARSERS, DEFAULTS, '{"thinking": false}'),
        ["thinking-off-by-default"],
        [],
        (WAYS | INJECTIONS | {"thinking-off-by-default"}) - {"developer-dropped"},
        0,
    ),
    (
        (*OWN_PARSERS, DEFAULTS, '{"thinking": true, "reasoning_effort": "max"}'),
        ["effort-max-by-default"],
        [],
        WAYS | INJECTIONS | {"effort-max-by-default"},
        0,
    ),
    ((*OWN_PARSERS, "--max-model-len", "1024"), [], [], WAYS | INJECTIONS, 2),
]


@contextmanager
def started(model: TinyModel, flags: tuple[str, ...]) -> Iterator[str]:
    with model.served(*flags) as server:
        yield f"{server.url}/v1"


@pytest.mark.parametrize(("flags", "faults", "refused", "statements", "too_long"), FLAGS)
def test_every_statement_is_true_of_it(
    model: TinyModel,
    flags: tuple[str, ...],
    faults: list[str],
    refused: list[str],
    statements: set[str],
    too_long: int,
) -> None:
    with started(model, flags) as url:
        for client in (CountsAlone, HttpServer):
            for mode in ("quick", "default"):
                report = run(client(url), MODEL_NAME, mode=mode)  # type: ignore[arg-type]
                possible = refused if mode == "quick" else []
                expected = faults if possible else [*faults, *refused]
                assert named(report) == ("vllm-0.32", "v4-0731", expected)
                assert list(report.verdict.possible) == possible
                if mode == "default":
                    assert {f.id for f in report.findings} - MEASURED == statements
                    assert len(report.notes) == bool(too_long)
                    assert all(f"({too_long})" in note for note in report.notes)
