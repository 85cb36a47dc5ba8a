"""Threads of Messages, with the vendor's own client: none are kept here, and its tool runner then
sends the whole conversation itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import anthropic
import pytest
from anthropic import beta_tool
from gateway import gateway, run
from test_sampled_turns_in_prompts import Agent

from dsv4._format.tokens import DSML, EOS, THINK_END
from dsv4.serve import Chunk

GO = {"role": "user", "content": "Go."}
TOOLS = [{"name": "bash", "description": "Runs it.", "input_schema": {"type": "object"}}]
ASKED = {"model": "any", "max_tokens": 1000, "system": "Be brief.", "tools": TOOLS}


class TwoCalls(Agent):
    """A backend that calls a tool twice, and then says that it is done."""

    async def stream(self, prompt: Any, ids: Any, options: Any) -> AsyncIterator[Chunk]:
        self.prompts.append(list(ids))
        n = len(self.prompts)
        text = f" Step {n}. {THINK_END}Done.{EOS}"
        if n < 3:
            text = (
                f" Step {n}. {THINK_END}\n\n<{DSML}tool_calls>\n"
                f'<{DSML}invoke name="bash">\n'
                f'<{DSML}parameter name="command" string="true">ls {n}</{DSML}parameter>\n'
                f"</{DSML}invoke>\n</{DSML}tool_calls>{EOS}"
            )
        yield Chunk(text, finish="stop")


@beta_tool
def bash(command: str) -> str:
    """Runs a command."""
    return f"ran {command}"


def prompts_of(work: Callable[[Any], Any], tokenizer: Any) -> list[str]:
    """What the model sees of what a client does."""

    async def scenario() -> list[list[int]]:
        backend = TwoCalls()
        async with gateway(backend) as g:
            await asyncio.to_thread(worked, work, g.url)
        return list(backend.prompts)

    return [tokenizer.decode(ids) for ids in run(scenario())]


def worked(work: Callable[[Any], Any], url: str) -> None:
    # Without TLS: to read the certificates of the system takes longer than most of these tests.
    http = anthropic.DefaultHttpxClient(verify=False)
    options: dict[str, Any] = {"max_retries": 0, "http_client": http}
    with anthropic.Anthropic(base_url=url, api_key="none", **options) as client:
        work(client)


def runs_tools(stream: bool, **options: Any) -> Callable[[Any], None]:
    """What the client's tool runner does, which is a thread unless it is told otherwise."""

    def work(client: Any) -> None:
        given = {**ASKED, "messages": [GO], "tools": [bash], "stream": stream, **options}
        runner = client.beta.messages.tool_runner(**given)
        answers = []
        for turn in runner:
            answers.append(turn.get_final_message() if stream else turn)
        assert [answer.stop_reason for answer in answers] == ["tool_use", "tool_use", "end_turn"]
        assert answers[-1].content[-1].text == "Done."

    return work


@pytest.mark.parametrize("stream", [True, False])
def test_a_tool_runner_sends_everything_itself(stream: bool, tokenizer: Any) -> None:
    threaded = prompts_of(runs_tools(stream), tokenizer)
    assert threaded == prompts_of(runs_tools(stream, thread=False), tokenizer)
    assert len(threaded) == 3


def test_a_thread_is_refused_in_the_clients_own_words(tokenizer: Any) -> None:
    def work(client: Any) -> None:
        with pytest.raises(anthropic.BadRequestError) as caught:
            client.beta.messages.thread(**ASKED).send(GO)
        assert type(caught.value).__name__ == "ThreadUnsupportedRequestError"

    assert prompts_of(work, tokenizer) == []
