"""The prompts of SGLang's own request handling, and those of the profile."""

from __future__ import annotations

import json
import os
import random
import subprocess
from typing import Any

import pytest
from requests_of import REQUESTS, mutated
from vllm_process import HERE, ROOT, sglang_python, vocabulary_folder

import dsv4
from dsv4 import profiles, verify

PROFILE = "sglang-0.5.23"
RANDOM_BODIES = 400
# SGLang's names of the formats.
SPECS = {"v4": "dsv4", "v4.1": "dsv41"}
USER = {"role": "user", "content": "Hi"}
PART = [{"type": "text", "text": "x"}]
# What the recorded requests do not ask.
OTHERS: list[Any] = [
    *({"messages": [{"role": "assistant", "content": "x", "prefix": prefix}, USER]}
      for prefix in (True, False, None, "yes", 1, "x", [])),
    *({"messages": [USER, {"role": "assistant", "content": content, "prefix": True}], **more}
      for content in ("x", "", None, PART)
      for more in ({}, {"continue_final_message": True}, {"tools": [{"function": {"name": "f"}}]})),
    *({"messages": [USER, {"role": "assistant", "content": "", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", **arguments}}]},
        {"role": "tool", "tool_call_id": "a", "content": "r"}]}
      for arguments in ({}, *({"arguments": given} for given in (None, {}, 5, [], "", "5", True)))),
    *({"messages": [USER], "reasoning_effort": effort} for effort in (0, 0.42, 0.99, 1, True, "x")),
    *({"messages": [USER], "chat_template_kwargs": given, **effort}
      for given in ("a", 5, [], {"thinking": None}, {"thinking": "x"})
      for effort in ({}, {"reasoning_effort": "high"}, {"reasoning_effort": "none"})),
    *({"messages": [USER], "response_format": {"type": "json_schema", "json_schema": {
        "schema": {"type": "object"}, **name}}}
      for name in ({}, {"name": None}, {"name": ""}, {"name": "o"}, {"name": 5})),
    *({"messages": [USER], "task": task} for task in ("action", "query", "x", 5)),
]  # fmt: skip


def prompts_of_sglang(dialect: str, bodies: list[Any]) -> list[str | None]:
    python = sglang_python()
    vocabulary = vocabulary_folder() / "tokenizer.json"
    done = subprocess.run(
        [python, HERE / "sglang_requests.py", SPECS[dialect], vocabulary],
        input="".join(f"{json.dumps(body)}\n" for body in bodies),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    if "No module named 'deepseek_recipe'" in done.stderr:
        pytest.skip(f"{python} has no deepseek-recipe, which SGLang writes prompts with")
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line[:1] in '"n']


def forecast(body: Any, dialect: str) -> str | None:
    """The profile's prompt; None where it refuses the request, or where its text has half a
    character, which no tokenizer takes."""
    try:
        prompt = profiles.render(body, PROFILE, dialect=dialect)
        prompt.encode()
    except (dsv4.Error, UnicodeEncodeError):
        return None
    return prompt


@pytest.mark.parametrize("dialect", SPECS)
def test_prompts_and_refusals_are_those_of_the_profile(dialect: str) -> None:
    seeds = random.Random(0).sample(range(10**6), RANDOM_BODIES)
    probes = [probe.request for probe in verify.probes()]
    bodies = [*REQUESTS, *probes, *OTHERS, *(mutated(seed) for seed in seeds)]
    answers = list(zip(bodies, prompts_of_sglang(dialect, bodies), strict=True))
    wrong = [
        f"{body}\n  SGLang {seen!r}\n  profile {forecast(body, dialect)!r}"
        for body, seen in answers
        if seen != forecast(body, dialect)
    ]
    refused = sum(seen is None for _, seen in answers)
    print(f"{dialect}: {len(bodies)} requests, {refused} refused, {len(wrong)} different")
    assert not wrong, f"{len(wrong)} of {len(bodies)}:\n" + "\n".join(wrong[:10])
