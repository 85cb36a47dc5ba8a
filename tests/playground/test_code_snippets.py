"""What is copied runs as it is, and says what the page shows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pytest
from copied import printed, run_cases, sent_by

from dsv4._playground.cache_view import VARIANTS
from dsv4._playground.page_examples import EXAMPLE_REQUESTS, example_sources
from dsv4._playground.page_functions import PAGE_FUNCTIONS
from dsv4._playground.page_problem import PageProblem
from dsv4._playground.page_request import PlaygroundContext
from dsv4.tokens import Tokenizer
from parts import ALL

BENCH = PlaygroundContext(tokenizer=Tokenizer.load())
SOURCES = {example["title"]: example["source"] for example in example_sources()}
HOSTILE = json.dumps(
    [
        {
            "role": "user",
            "content": "'\"\\ \x00\x1b[31m\u202e ''' \"\"\" {x} $HOME `id` \ud800 \u2028",
        }
    ]
)
NAN = '[{"role": "user", "content": "Hi", "x": NaN}]'


def call(name: str, **body: Any) -> Any:
    return PAGE_FUNCTIONS[name](body, BENCH)


def paired(many: Iterable[str], few: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each of the many once, and each of the few."""
    return zip(many, cycle(few), strict=False)


@pytest.mark.parametrize("title", EXAMPLE_REQUESTS)
def test_python_prints_the_prompt(
    title: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = {"source": SOURCES[title], "thinking": False, "dialect": "v4-0731"}
    code = call("copy", form="python", view="prompt", **body)["text"]
    assert printed(code, tmp_path, capsys) == call("text", **body)["prompt"]


@pytest.mark.parametrize("shown", ["profile:vllm-0.32", "dialect:v4.1"])
@pytest.mark.parametrize("title", EXAMPLE_REQUESTS)
def test_python_prints_what_another_side_writes(
    title: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = {"source": SOURCES[title], "shown": shown}
    code = call("copy", form="python", view="prompt", **body)["text"]
    assert printed(code, tmp_path, capsys) == call("text", **body)["prompt"]


def test_cases_pass_and_fail_where_something_else_comes_out(tmp_path: Path) -> None:
    prompts = [*SOURCES.values(), HOSTILE, NAN]
    cases = [call("copy", form="pytest", view="prompt", source=source) for source in prompts]
    for source, variant in (product if ALL else paired)(SOURCES.values(), VARIANTS):
        cases.append(call("copy", form="pytest", view="cache", source=source, variant=variant))
    source = SOURCES["Several turns"]
    prompt = call("copy", form="pytest", view="prompt", source=source)["text"]
    turns = call("copy", form="pytest", view="cache", source=source)["text"]
    wrong = [
        prompt.replace("Be brief", "Be long", 1),
        turns.replace("request = chat", "request = replace(chat").replace(
            ").request", ").request, drop_thinking=True, tools=None)"
        ),
    ]
    told = run_cases([*wrong, *(case["text"] for case in cases)], tmp_path)
    assert f"2 failed, {len(cases)} passed" in told
    assert all(f"FAILED test_copied_{n}.py" in told for n in range(2))


def test_python_prints_the_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = {"source": SOURCES["Old reasoning, a list of messages"]}
    code = call("copy", form="python", view="cache", **body)["text"]
    [turn] = call("cache", **body)["turns"][1:]
    assert printed(code, tmp_path, capsys).strip() == str(
        (turn["message"], turn["field"], turn["cause"])
    )


@pytest.mark.parametrize("source", [SOURCES["Several turns"], HOSTILE])
def test_a_shell_reads_the_body_of_curl_whole(source: str) -> None:
    text = call("copy", form="curl", view="prompt", source=source, thinking=False)["text"]
    sent = sent_by(text)
    assert sent == {"thinking": False, "request": json.loads(source)}
    assert PAGE_FUNCTIONS["text"](sent, BENCH) == call("text", source=source, thinking=False)


def test_a_form_that_there_is_not_is_refused() -> None:
    with pytest.raises(PageProblem, match="found 'perl', expected one of curl, python, pytest"):
        call("copy", form="perl", source="[]")
