"""Traces as the page reads them: `trace.js`, run by Node, against a parser and the writers."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from stepping import sent, stepped

import dsv4
from completions import corpus
from dsv4._playground.completion_trace import cut_completion, stream_view_setup, trace_completion
from dsv4._playground.page_examples import COMPLETION_TOOLS
from dsv4._playground.page_request import PlaygroundContext
from dsv4.tokens import Tokenizer

NODE = shutil.which("node")
SCRIPT = Path(__file__).parents[1] / "javascript" / "unfold_traces.js"
WIDE = "Wide \U0001f327\U0001f327 <\U0001f327</think>\n\n\U0001f327 ok"


@pytest.mark.skipif(NODE is None, reason="needs Node")
@pytest.mark.parametrize("cut", ["character", "random", "token"])
def test_the_page_unfolds_a_trace_to_what_happened(cut: str) -> None:
    """Every step and every frame of a part of the corpus."""
    context = PlaygroundContext(Tokenizer.load())
    texts = [*(case["text"] for case in corpus()[::9]), WIDE]
    bodies = [{"text": text, "tools": COMPLETION_TOOLS, "cut": cut, "seed": 5} for text in texts]
    for body, unfolded in zip(bodies, unfold(bodies, context), strict=True):
        check(body, unfolded, context)


def unfold(bodies: list[dict[str, Any]], context: PlaygroundContext) -> list[Any]:
    traces = [{"text": b["text"], "answer": trace_completion(b, context)} for b in bodies]
    given = json.dumps({"states": stream_view_setup({}, context)["states"], "traces": traces})
    done = subprocess.run(
        [str(NODE), str(SCRIPT)], input=given.encode(), capture_output=True, check=True
    )
    unfolded: list[Any] = json.loads(done.stdout)
    return unfolded


def check(body: dict[str, Any], unfolded: Any, context: PlaygroundContext) -> None:
    pieces = cut_completion(body["text"], body["cut"], 5, context.tokenizer)
    events: list[tuple[int, Any]] = []
    for step, (state, held, why, brought) in enumerate(stepped(pieces, tools=COMPLETION_TOOLS), 1):
        events += ((step, event) for event in brought)
        shown = unfolded["steps"][step]
        assert shown["held"] == held
        assert shown["hold"]["reason"] == (why.reason if why else "")
        assert state in (shown["state"], None)
        for kind in ("reasoning", "content"):
            wanted = f"{kind.capitalize()}Delta"
            so_far = [e.text for _, e in events if type(e).__name__ == wanted]
            assert shown[kind] == "".join(so_far)
        starts = [e for _, e in events if isinstance(e, dsv4.ToolCallStart)]
        assert [name for name, _ in shown["calls"]] == [start.name for start in starts]
    for n, protocol in enumerate(("chat", "responses", "messages")):
        frames = sent(protocol, events, body, len(pieces) + 1)
        assert [(f["step"], f["frame"]) for f in unfolded["frames"][n]] == frames
        counts = [sum(step <= at for step, _ in frames) for at in range(len(pieces) + 2)]
        assert [shown["frames"][n] for shown in unfolded["steps"]] == counts
