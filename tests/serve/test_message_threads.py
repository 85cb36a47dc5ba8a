"""Threads of Messages, with the vendor's own client: a turn sends what is new, and the model sees
what it would see if the client had sent everything."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic import beta_tool
from gateway import Gateway, gateway, gateway_before, key_file, run
from standins import ChatServer
from test_healing import answer
from test_sampled_turns_in_prompts import Agent
from test_turn_stores import redis_url  # noqa: F401

from dsv4._format.tokens import DSML, EOS, THINK_END
from dsv4.serve import Chunk

GO = {"role": "user", "content": "Go."}
ON = {"role": "user", "content": "Go on."}
TOOLS = [{"name": "bash", "description": "Runs it.", "input_schema": {"type": "object"}}]
ASKED = {"model": "any", "max_tokens": 1000, "system": "Be brief.", "tools": TOOLS}
# Every store that threads can be kept in, with both forms of answers between them.
in_every_store = pytest.mark.parametrize(
    ("replay", "stream"),
    [("memory", True), ("memory", False), ("sqlite", False), ("redis", True)],
    indirect=["replay"],
)


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


@pytest.fixture
def replay(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The setting for a store."""
    if request.param == "redis":
        url: str = request.getfixturevalue("redis_url")
        return url
    return f"sqlite:{tmp_path / 'turns.db'}" if request.param == "sqlite" else "memory"


def prompts_of(work: Callable[[Any], Any], tokenizer: Any, **settings: Any) -> list[str]:
    """What the model sees of what a client does."""

    async def scenario() -> list[list[int]]:
        backend = settings.pop("backend", None) or TwoCalls()
        async with gateway(backend, **settings) as g:
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


@in_every_store
def test_a_tool_runner_gets_the_prompts_of_a_client_that_sends_everything(
    replay: str, stream: bool, tokenizer: Any
) -> None:
    threaded = prompts_of(runs_tools(stream), tokenizer, replay=replay)
    plain = prompts_of(runs_tools(stream, thread=False), tokenizer, replay=replay)
    assert threaded == plain
    assert "Be brief." in threaded[-1]
    assert "Runs a command." in threaded[-1]
    assert all(f" Step {n}. " in threaded[-1] and f"ran ls {n}" in threaded[-1] for n in (1, 2))


@pytest.mark.parametrize(("kept", "stream"), [("off", True), ("sealed", False)])
def test_where_nothing_is_kept_a_tool_runner_sends_everything_itself(
    kept: str, stream: bool, tokenizer: Any, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text("a key of sixteen bytes or more")
    settings = {"replay": kept, "seal_key_file": str(key) if kept == "sealed" else None}
    threaded = prompts_of(runs_tools(stream), tokenizer, **settings)
    assert threaded == prompts_of(runs_tools(stream, thread=False), tokenizer, **settings)
    assert len(threaded) == 3


@in_every_store
def test_a_thread_gets_the_prompts_of_a_client_that_sends_everything(
    replay: str, stream: bool, tokenizer: Any
) -> None:
    def said(thread: Any, message: Any) -> Any:
        if not stream:
            return thread.send(message)
        with thread.stream(message) as events:
            return events.get_final_message()

    def result(answer: Any) -> Any:
        block = {"type": "tool_result", "tool_use_id": answer.content[-1].id, "content": "ok"}
        return {"role": "user", "content": [block]}

    def threaded(client: Any) -> None:
        thread = client.beta.messages.thread(**ASKED)
        first = said(thread, GO)
        assert thread.previous_message_id == first.id
        second = said(thread, result(first))
        said(thread, result(second))
        said(thread, ON)

    def plain(client: Any) -> None:
        messages: list[Any] = [GO]
        for n in range(4):
            answer = client.messages.create(messages=messages, **ASKED)
            messages.append({"role": "assistant", "content": answer.content})
            messages.append(result(answer) if n < 2 else ON)

    prompts = prompts_of(threaded, tokenizer, replay=replay)
    assert len(prompts) == 4
    assert prompts == prompts_of(plain, tokenizer, replay=replay)


def test_a_thread_without_a_store_is_refused_in_the_clients_own_words(tokenizer: Any) -> None:
    def work(client: Any) -> None:
        with pytest.raises(anthropic.BadRequestError) as caught:
            client.beta.messages.thread(**ASKED).send(GO)
        assert type(caught.value).__name__ == "ThreadUnsupportedRequestError"

    assert prompts_of(work, tokenizer, replay="off") == []


def test_a_lost_thread_is_begun_again_with_everything(tokenizer: Any) -> None:
    async def scenario() -> list[list[int]]:
        backend = TwoCalls()
        async with gateway(backend) as g:
            await asyncio.to_thread(worked, lambda client: forgotten(client, g), g.url)
        return backend.prompts

    def forgotten(client: Any, g: Gateway) -> None:
        thread = client.beta.messages.thread(**ASKED)
        thread.send(GO)
        store: Any = g.server.storage.turns.store
        store._entries.clear()
        store._leads.clear()
        id = thread.messages[-1]["content"][-1].id
        result = {"type": "tool_result", "tool_use_id": id, "content": "ok"}
        thread.send({"role": "user", "content": [result]})

    _, second = (tokenizer.decode(ids) for ids in run(scenario()))
    assert "Be brief." in second
    assert " Step 1. " in second


def test_threads_of_one_key_are_not_found_by_another(tmp_path: Path) -> None:
    keys = key_file(tmp_path, "ann:a-secret\nbob:b-secret\n")

    async def scenario() -> None:
        async with gateway(api_key_file=str(keys)) as g:
            body = {**ASKED, "messages": [GO], "thread": {"type": "create"}}
            _, _, answer = await g.post("/v1/messages", body, **{"x-api-key": "a-secret"})
            thread = {"type": "continue", "previous_message_id": answer["id"]}
            body = {"max_tokens": 9, "messages": [ON], "thread": thread}
            status, _, _ = await g.post("/v1/messages", body, **{"x-api-key": "a-secret"})
            assert status == 200
            status, _, refused = await g.post("/v1/messages", body, **{"x-api-key": "b-secret"})
            assert status == 404
            assert refused["error"]["details"] == {"error_code": "thread_not_found"}

    run(scenario())


def test_what_is_wrong_with_a_thread_is_said() -> None:
    async def scenario() -> None:
        async with gateway() as g:
            body = {**ASKED, "messages": [GO], "thread": {"type": "create"}}
            _, _, answer = await g.post("/v1/messages", body)
            known = {"type": "continue", "previous_message_id": answer["id"]}
            for changes, path, code in (
                ({"thread": "create"}, "thread:", None),
                ({"thread": {"type": "begin"}}, "thread.type:", None),
                ({"thread": {"type": "continue"}}, "thread.previous_message_id:", None),
                ({"thread": known, "messages": None}, "messages:", None),
                ({"thread": known, "system": "Be long."}, "system:", "thread_fingerprint_mismatch"),
                ({"thread": known, "tools": []}, "tools:", "thread_fingerprint_mismatch"),
            ):
                status, _, refused = await g.post("/v1/messages", {**body, **changes})
                error = refused["error"]
                assert (status, error["type"]) == (400, "invalid_request_error"), changes
                assert error["message"].startswith(path)
                assert error.get("details", {}).get("error_code") == code
            status, _, _ = await g.post("/v1/messages", {**body, "thread": known})
            assert status == 200  # the same tools and system text once more

    run(scenario())


def test_the_prompt_of_a_long_thread_is_not_made_in_the_loop() -> None:
    async def scenario() -> list[bool]:
        in_loop: list[bool] = []
        async with gateway() as g:
            ids_of = g.server.model.ids_of

            def noted(prompt: Any) -> Any:
                in_loop.append(threading.current_thread() is threading.main_thread())
                return ids_of(prompt)

            g.server.model.ids_of = noted  # type: ignore[method-assign]
            body = {**ASKED, "messages": [GO], "thread": {"type": "create"}}
            _, _, answer = await g.post("/v1/messages", {**body, "system": "word " * 50_000})
            thread = {"type": "continue", "previous_message_id": answer["id"]}
            await g.post("/v1/messages", {"max_tokens": 9, "messages": [ON], "thread": thread})
        return in_loop

    assert run(scenario()) == [False, False]


def test_a_message_can_be_continued_more_than_once() -> None:
    async def scenario() -> list[str]:
        async with gateway(debug=True) as g:
            body = {**ASKED, "messages": [GO], "thread": {"type": "create"}}
            _, _, answer = await g.post("/v1/messages", body)
            thread = {"type": "continue", "previous_message_id": answer["id"]}
            prompts = []
            for text in ("One.", "Two."):
                messages = [{"role": "user", "content": text}]
                body = {"max_tokens": 9, "messages": messages, "thread": thread}
                _, _, answer = await g.post("/v1/messages", body, **{"x-dsv4-debug": "1"})
                prompts.append(answer["dsv4"]["prompt"])
            return prompts

    one, two = run(scenario())
    assert one.replace("One.", "Two.") == two


def test_a_message_without_a_thread_is_not_kept() -> None:
    async def scenario() -> None:
        async with gateway() as g:
            _, _, answer = await g.post("/v1/messages", {**ASKED, "messages": [GO]})
            thread = {"type": "continue", "previous_message_id": answer["id"]}
            body = {**ASKED, "messages": [ON], "thread": thread}
            status, _, _ = await g.post("/v1/messages", body)
            assert status == 404

    run(scenario())


def test_a_recording_has_the_whole_conversation(tmp_path: Path) -> None:
    file = tmp_path / "exchanges.jsonl"

    async def scenario() -> None:
        async with gateway(record=str(file)) as g:
            body = {**ASKED, "messages": [GO], "thread": {"type": "create"}}
            _, _, answer = await g.post("/v1/messages", body)
            thread = {"type": "continue", "previous_message_id": answer["id"]}
            await g.post("/v1/messages", {"max_tokens": 9, "messages": [ON], "thread": thread})

    run(scenario())
    recorded = [json.loads(line)["request"] for line in file.read_text().splitlines()]
    assert [len(request["messages"]) for request in recorded] == [1, 3]
    assert all("thread" not in request for request in recorded)
    assert recorded[1]["tools"] == TOOLS


def test_a_chat_server_behind_gets_the_whole_conversation(tokenizer: Any) -> None:
    async def scenario() -> Any:
        upstream = ChatServer(tokenizer, answer({"content": "Hello."}))
        async with gateway_before(upstream.running()) as g:
            body = {**ASKED, "messages": [GO], "thread": {"type": "create"}}
            _, _, first = await g.post("/v1/messages", body)
            thread = {"type": "continue", "previous_message_id": first["id"]}
            await g.post("/v1/messages", {"max_tokens": 9, "messages": [ON], "thread": thread})
        return upstream.requests[-1]

    sent = run(scenario())
    assert [message["role"] for message in sent["messages"]] == [
        *("system", "user", "assistant", "user"),
    ]
    assert sent["messages"][2]["content"] == "Hello."
    assert sent["tools"][0]["function"]["name"] == "bash"
