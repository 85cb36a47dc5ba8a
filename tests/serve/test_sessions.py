"""Sessions: calls of any client recorded by their address, and read back as trajectories."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
from gateway import TOOLS, Gateway, gateway, run
from standins import free_port, redis_server

from dsv4.serve import Backend, BackendError, Chunk, Logprob, Model, Options
from dsv4.serve.sessions.session_calls import hashed
from dsv4.tokens import Tokenizer

TOKENIZER = Tokenizer.load()
EOS = TOKENIZER.special_id("<｜end▁of▁sentence｜>")
CHAT = "/v1/chat/completions"
KEYS = "admin trainer:t-key\nann:a-key\nbob:b-key\n"


@pytest.fixture(params=["sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "sessions.db")
    url: str = request.getfixturevalue("redis_url")
    redis.from_url(url).flushall()
    return url


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


class TextBackend(Backend):
    """Says texts, one after the other; what is an exception is raised after the first token."""

    grammar_form = None
    logprobs_mode = "raw"

    def __init__(self, *answers: str | Exception, logprobs: bool = True) -> None:
        self.answers = list(answers)
        self.logprobs = logprobs
        self.asked: list[Options] = []

    async def stream(self, prompt: Any, ids: Sequence[int] | None, options: Options) -> Any:
        self.asked.append(options)
        said = self.answers.pop(0)
        if isinstance(said, Exception):
            yield Chunk(ids=TOKENIZER.encode_text("So")[:1])
            raise said
        sampled = [*TOKENIZER.encode_text(said), EOS][: options.max_tokens]
        for n, id in enumerate(sampled):
            given = (Logprob("", -n / 8),) if self.logprobs else ()
            yield Chunk(ids=(id,), logprobs=given)
        yield Chunk(ids=(), finish="eos" if sampled[-1:] == [EOS] else "length")

    async def models(self) -> list[Model]:
        return [Model("tiny", 10_000)]

    async def aclose(self) -> None:
        pass


class PausingBackend(TextBackend):
    """Says a text in pieces of so many tokens, and waits after two of them."""

    def __init__(self, answer: str, piece: int) -> None:
        super().__init__(answer)
        self.piece = piece
        self.paused, self.goes_on = asyncio.Event(), asyncio.Event()

    async def stream(self, prompt: Any, ids: Sequence[int] | None, options: Options) -> Any:
        sampled = [*TOKENIZER.encode_text(str(self.answers.pop(0))), EOS]
        for n in range(0, len(sampled), self.piece):
            if n == 2 * self.piece:
                self.paused.set()
                await self.goes_on.wait()
            some = sampled[n : n + self.piece]
            yield Chunk(ids=some, logprobs=tuple(Logprob("", -0.5) for _ in some))
        yield Chunk(ids=(), finish="eos")


def asking(text: str, **rest: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **rest}


async def trajectories(at: Gateway, id: str, query: str = "", **headers: str) -> Any:
    status, body = await at.get(f"/sessions/{id}/trajectories{query}", **headers)
    assert status == 200, body
    return body


async def tool_loop(at: Gateway, path: str, id: str) -> list[Any]:
    """A call, its result, and the answer to that."""
    messages: list[Any] = [{"role": "user", "content": "RUN: ls"}]
    for result in ("one", "two"):
        body = {"messages": messages, "tools": TOOLS}
        _, _, answer = await at.post(path.format(id=id), body)
        message = answer["choices"][0]["message"]
        messages.append(message)
        for call in message.get("tool_calls", ()):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return messages


class TestRecording:
    def test_a_loop_with_tools_is_one_sequence(self, store: str) -> None:
        async def scenario() -> None:
            async with gateway(trajectories=store) as at:
                await tool_loop(at, "/sessions/{id}" + CHAT, "loop")
                made = await trajectories(at, "loop")
                (one,) = made["trajectories"]
                assert (made["exact"], made["complete"], made["calls"]) == (True, True, 2)
                assert (made["closed"], made["reward"]) == (False, None)
                assert sum(one["loss_mask"]) == made["sampled_tokens"] > 20
                known = [value for value in one["logprobs"] if value is not None]
                assert known == [0.0] * made["sampled_tokens"]
                text = TOKENIZER.decode(one["input_ids"])
                assert "DONE: one" in text
                turn = one["turns"][0]
                assert (turn["protocol"], turn["logprobs"]) == ("chat", "processed")
                assert turn["message"]["tool_calls"][0]["function"]["name"] == "bash"
                assert made["notes"] == []

        run(scenario())

    @pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
    @pytest.mark.parametrize("stream", [False, True])
    def test_every_protocol_under_each_of_its_addresses(
        self, protocol: str, stream: bool, tmp_path: Path
    ) -> None:
        paths = {
            "chat": ("/sessions/s1/v1/chat/completions", "/sessions/s1/chat/completions"),
            "responses": ("/sessions/s1/v1/responses", "/sessions/s1/responses"),
            "messages": ("/sessions/s1/anthropic/v1/messages", "/sessions/s1/v1/messages"),
        }
        body: dict[str, Any] = {"model": "m", "stream": stream}
        if protocol == "responses":
            body["input"] = "Hello"
        else:
            body |= {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 500}

        async def scenario() -> None:
            async with gateway(trajectories=str(tmp_path / "s.db")) as at:
                for path in paths[protocol]:
                    assert (await at.post(path, body))[0] == 200
                plain = paths[protocol][0].removeprefix("/sessions/s1")
                assert (await at.post(plain, body, **{"x-dsv4-session": "s1"}))[0] == 200
                assert (await at.post(plain, body))[0] == 200  # no session
                made = await trajectories(at, "s1")
                assert made["calls"] == 3
                turns = [t for one in made["trajectories"] for t in one["turns"]]
                assert [turn["protocol"] for turn in turns] == [protocol] * 3

        run(scenario())

    def test_ids_and_log_probabilities_are_the_engines(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            backend = TextBackend("Hm.</think>Yes.")
            async with gateway(backend, trajectories=str(tmp_path / "s.db")) as at:
                await at.post(f"/sessions/a{CHAT}", asking("Well?", temperature=0.5))
                (one,) = (await trajectories(at, "a"))["trajectories"]
                sampled = [
                    i for i, on in zip(one["input_ids"], one["loss_mask"], strict=True) if on
                ]
                assert TOKENIZER.decode(sampled) == "Hm.</think>Yes.<｜end▁of▁sentence｜>"
                values = [value for value in one["logprobs"] if value is not None]
                assert values == [-n / 8 for n in range(len(sampled))]
                turn = one["turns"][0]
                assert turn["sampling"]["temperature"] == 0.5
                assert (turn["finish"], turn["state"], turn["delivered"]) == (
                    "eos",
                    "finished",
                    True,
                )
                assert backend.asked[0].logprobs == 0

        run(scenario())

    def test_a_forced_call_is_opened_by_ids_that_were_not_sampled(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with gateway(trajectories=str(tmp_path / "s.db"), thinking=False) as at:
                forced = {"type": "function", "function": {"name": "bash"}}
                body = asking("RUN: ls", tools=TOOLS)
                _, _, answer = await at.post(f"/sessions/f{CHAT}", {**body, "tool_choice": forced})
                call = answer["choices"][0]["message"]
                result = {"tool_call_id": call["tool_calls"][0]["id"], "content": "x"}
                body["messages"] += [call, {"role": "tool", **result}]
                _, _, answer = await at.post(f"/sessions/f{CHAT}", body)
                assert answer["choices"][0]["message"]["content"] == "DONE: x"
                (one,) = (await trajectories(at, "f"))["trajectories"]
                turn = one["turns"][0]
                (start, _), asked = turn["sampled"][0], turn["prompt"][1]
                written = TOKENIZER.decode(one["input_ids"][asked:start])
                assert written.startswith("\n\n<｜DSML｜tool_calls>")
                assert not any(one["loss_mask"][:start])

        run(scenario())

    def test_a_backend_without_log_probabilities_or_ids_says_so(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            backend = TextBackend("a</think>b", logprobs=False)
            async with gateway(backend, trajectories=str(tmp_path / "s.db")) as at:
                await at.post(f"/sessions/a{CHAT}", asking("Well?"))
                made = await trajectories(at, "a")
                assert made["exact"] is False
                (note,) = made["notes"]
                assert note["message"] == "the backend gave no log-probabilities"
                assert set(made["trajectories"][0]["logprobs"]) == {None}

        run(scenario())

    def test_several_choices_are_several_calls(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            backend = TextBackend("a</think>b", "c</think>d")
            async with gateway(backend, trajectories=str(tmp_path / "s.db")) as at:
                await at.post(f"/sessions/a{CHAT}", asking("Well?", n=2))
                made = await trajectories(at, "a")
                assert (made["calls"], len(made["trajectories"])) == (2, 2)
                assert [note["kind"] for note in made["notes"]] == ["repeated"]

        run(scenario())

    def test_why_a_chain_breaks_is_said(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with gateway(trajectories=str(tmp_path / "s.db")) as at:
                path = f"/sessions/a{CHAT}"
                first = asking("Hello")["messages"]
                _, _, answer = await at.post(path, {"messages": first})
                said = answer["choices"][0]["message"]
                more = [*first, said, {"role": "user", "content": "And now?"}]
                await at.post(path, {"messages": more})  # without tools reasoning is dropped
                await at.post(path, {"messages": more, "tools": TOOLS})
                notes = (await trajectories(at, "a"))["notes"]
                assert [note["kind"] for note in notes] == ["reasoning_dropped", "tools_changed"]
                assert "reasoning is dropped once another user turn follows" in notes[0]["message"]

        run(scenario())


class TestEnds:
    def test_a_failed_call_is_kept_and_out_of_the_loss(self, store: str) -> None:
        async def scenario() -> None:
            backend = TextBackend(BackendError("out of memory"))
            async with gateway(backend, trajectories=store) as at:
                body = asking("Well?")
                assert (await at.post(f"/sessions/failed{CHAT}", body))[0] == 502
                made = await trajectories(at, "failed")
                assert [note["kind"] for note in made["notes"]] == ["failed", "inexact"]
                assert [sum(one["loss_mask"]) for one in made["trajectories"]] == [0]

        run(scenario())

    def test_a_stream_that_the_client_left_is_kept(self, store: str) -> None:
        async def scenario() -> None:
            async with gateway(trajectories=store, pace=20.0) as at:
                body = asking("Hello", stream=True)
                async with at.client.post(f"{at.url}/sessions/left{CHAT}", json=body) as answer:
                    await answer.content.readany()
                    answer.close()
                for _ in range(200):
                    made = await trajectories(at, "left")
                    if made["notes"] and made["notes"][0]["kind"] != "unfinished":
                        break
                    await asyncio.sleep(0.02)
                assert [note["kind"] for note in made["notes"]] == ["left"]
                assert made["complete"]
                assert made["sampled_tokens"] > 0

        run(scenario())

    def test_a_call_that_runs_is_unfinished(self, store: str) -> None:
        async def scenario() -> None:
            async with gateway(trajectories=store, pace=10.0) as at:
                body = asking("Hello", stream=True)
                async with at.client.post(f"{at.url}/sessions/runs{CHAT}", json=body) as answer:
                    await answer.content.readany()
                    made = await trajectories(at, "runs")
                    answer.close()
                assert (made["complete"], made["calls"]) == (False, 1)
                assert [note["kind"] for note in made["notes"]] == ["unfinished"]

        run(scenario())

    def test_a_refused_request_is_no_call(self, store: str) -> None:
        async def scenario() -> None:
            async with gateway(trajectories=store, context=50) as at:
                long = asking("word " * 100)
                assert (await at.post(f"/sessions/refused{CHAT}", long))[0] == 400
                _, seen = await at.get("/sessions/refused")
                assert (seen["turns"], seen["calls"]) == (0, 0)

        run(scenario())

    def test_limits_end_with_length(self, store: str) -> None:
        async def scenario() -> None:
            backend = TextBackend("one two three four five", "b</think>c")
            async with gateway(backend, trajectories=store) as at:
                limits = {"tokens": 3, "turns": 5}
                await at.post("/sessions", {"id": "limited", "limits": limits})
                for _ in range(2):
                    status, _, answer = await at.post(f"/sessions/limited{CHAT}", asking("Well?"))
                    assert (status, answer["choices"][0]["finish_reason"]) == (200, "length")
                assert [options.max_tokens for options in backend.asked] == [3]
                made = await trajectories(at, "limited")
                assert made["sampled_tokens"] == 3
                made = await trajectories(at, "limited", "?include=cut")
                assert sum(made["trajectories"][0]["loss_mask"]) == 3

        run(scenario())


class TestSessions:
    def test_one_is_made_rewarded_closed_and_deleted(self, store: str) -> None:
        async def scenario() -> None:
            backend = TextBackend("a</think>b")
            async with gateway(backend, trajectories=store) as at:
                sampling = {"temperature": 1.0, "top_p": 0.9, "seed": 7, "max_tokens": 50}
                asked = {"group": "g1", "metadata": {"task": 3}, "sampling": sampling}
                _, _, made = await at.post("/sessions", asked)
                id, urls = made["id"], made["urls"]
                assert len(id) > 30
                assert urls["openai"] == f"{at.url}/sessions/{id}/v1"
                assert urls["anthropic"] == f"{at.url}/sessions/{id}"
                path = urls["openai"].removeprefix(at.url) + "/chat/completions"
                await at.post(path, asking("Well?", temperature=0, max_tokens=9, seed=1))
                options = backend.asked[0]
                assert (options.temperature, options.top_p, options.seed) == (1.0, 0.9, 7)
                assert options.max_tokens == 50

                _, found = await at.get(f"/sessions/{id}/trajectories")
                call = found["trajectories"][0]["turns"][0]["call"]
                reward = {"reward": 0.5, "metadata": {"by": "test"}}
                assert (await at.post(f"/sessions/{id}/reward", reward))[0] == 200
                assert (await at.post(f"/sessions/{id}/reward", {"reward": 1, "call": call}))[
                    0
                ] == 200
                status, _, closed = await at.post(f"/sessions/{id}/close", {})
                assert (status, closed["closed"]) == (200, True)
                status, _, error = await at.post(path, asking("More?"))
                assert (status, "closed" in error["error"]["message"]) == (409, True)

                found = await trajectories(at, id)
                assert (found["reward"], found["group"], found["closed"]) == (0.5, "g1", True)
                assert found["metadata"] == {"task": 3}
                assert found["trajectories"][0]["turns"][0]["reward"] == 1.0
                async with at.client.delete(f"{at.url}/sessions/{id}") as answer:
                    assert answer.status == 200
                assert (await at.get(f"/sessions/{id}"))[0] == 404

        run(scenario())

    def test_they_are_listed_by_pages(self, store: str) -> None:
        async def scenario() -> None:
            async with gateway(trajectories=store) as at:
                for n in range(5):
                    group = "even" if n % 2 == 0 else "odd"
                    await at.post("/sessions", {"id": f"listed-{n}", "group": f"{group}-p"})
                await at.post("/sessions/listed-2/close", {})
                seen: list[str] = []
                after = 0
                while after is not None:
                    _, page = await at.get(f"/sessions?group=even-p&limit=2&after={after}")
                    seen += [each["id"] for each in page["data"]]
                    after = page["next"]
                assert seen == ["listed-0", "listed-2", "listed-4"]
                _, page = await at.get("/sessions?group=even-p&closed=1")
                assert [each["id"] for each in page["data"]] == ["listed-2"]

        run(scenario())

    def test_the_version_of_the_weights_is_kept_with_each_call(self, store: str) -> None:
        async def scenario() -> None:
            async with gateway(trajectories=store) as at:
                for version in ("v1", 2):
                    assert (await at.post("/admin/weights", {"version": version}))[0] == 200
                    await at.post(f"/sessions/weights{CHAT}", asking(f"Hello {version}"))
                made = await trajectories(at, "weights")
                versions = [
                    run["version"] for one in made["trajectories"] for run in one["weights"]
                ]
                assert versions == ["v1", 2]

        run(scenario())

    @pytest.mark.parametrize("piece", [1, 3])
    def test_a_change_during_a_call_has_its_border(self, store: str, piece: int) -> None:
        """Tokens that come together after a change may be of both versions."""

        async def scenario() -> None:
            backend = PausingBackend("Hm.</think>One two three four five six.", piece)
            async with gateway(backend, trajectories=store) as at:
                await at.post("/admin/weights", {"version": 1})
                call = asyncio.create_task(at.post(f"/sessions/border{CHAT}", asking("Count")))
                await backend.paused.wait()
                await at.post("/admin/weights", {"version": 2})
                backend.goes_on.set()
                await call
                made = await trajectories(at, "border")
            (one,) = made["trajectories"]
            ((start, end),) = one["turns"][0]["sampled"]
            border = start + 2 * piece
            mixed = [("mixed", border, border + piece)] if piece > 1 else []
            rest = border + piece if piece > 1 else border
            found = [tuple(run.values()) for run in one["weights"]]
            assert found == [(1, start, border), *mixed, (2, rest, end)]
            assert [note["kind"] for note in made["notes"]] == ["mixed_weights"]

        run(scenario())

    def test_reasoning_is_kept_where_the_session_wants_it(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with gateway(trajectories=str(tmp_path / "s.db")) as at:
                await at.post("/sessions", {"id": "kept", "drop_thinking": False})
                messages = asking("Hello")["messages"]
                for _ in range(3):
                    _, _, answer = await at.post(f"/sessions/kept{CHAT}", {"messages": messages})
                    said = answer["choices"][0]["message"]
                    messages = [*messages, said, {"role": "user", "content": "More."}]
                assert len((await trajectories(at, "kept"))["trajectories"]) == 1

        run(scenario())

    def test_a_closed_session_is_sealed_with_what_was_sampled(self, store: str) -> None:
        async def scenario() -> None:
            backend = PausingBackend("Hm.</think>One two three four five six.", 1)
            async with gateway(backend, trajectories=store) as at:
                running = asyncio.create_task(at.post(f"/sessions/s{CHAT}", asking("Count")))
                await backend.paused.wait()
                _, _, closed = await at.post("/sessions/s/close", {})
                backend.goes_on.set()
                assert (await running)[0] == 200
                assert closed["seal"]["sampled_tokens"] == 0
                made = await trajectories(at, "s")
                assert made["seal"]["holds"]
                assert made["seal"]["sampled_tokens"] == made["sampled_tokens"] > 3

        run(scenario())


class TestInspector:
    def test_the_live_view_shows_a_session_turn_by_turn(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with gateway(trajectories=str(tmp_path / "s.db"), inspect=True) as at:
                await tool_loop(at, "/sessions/{id}" + CHAT, "seen")
                await at.post(CHAT, asking("Hi"))
                json_type = {"content-type": "application/json"}
                _, _, told = await at.post("/playground/inspector/changes", {}, **json_type)
                assert [each["session"] for each in told["changed"]] == ["seen", "seen", None]
                _, _, shown = await at.post(
                    "/playground/inspector/session", {"session": "seen"}, **json_type
                )
                assert shown["summary"].startswith("2 calls, 1 trajectories, ")
                (written, prompt), (shade, sampled) = shown["turns"][0]["runs"]
                assert (written, shade) == ("written", "0")
                assert prompt.endswith("<think>")
                assert 'invoke name="bash"' in sampled
                for session, status in (("none", 404), ("../x", 400), (5, 400)):
                    body = {"session": session}
                    found = await at.post("/playground/inspector/session", body, **json_type)
                    assert found[0] == status

        run(scenario())


class TestOwners:
    def test_to_another_key_a_session_does_not_exist(self, store: str, tmp_path: Path) -> None:
        (tmp_path / "keys").write_text(KEYS)

        async def scenario() -> None:
            async with gateway(trajectories=store, api_key_file=str(tmp_path / "keys")) as at:
                trainer, ann, bob = ({"x-api-key": f"{k}-key"} for k in "tab")
                assert (await at.post(f"/sessions/hers{CHAT}", asking("Hi"), **ann))[0] == 200
                for protocol, body in (
                    ("chat/completions", asking("Hi")),
                    ("responses", {"input": "Hi"}),
                    ("messages", asking("Hi", max_tokens=9)),
                ):
                    status, _, error = await at.post(f"/sessions/hers/v1/{protocol}", body, **bob)
                    assert (status, error["error"]["message"]) == (404, "There is no such session.")
                    assert (error.get("type") == "error") is (protocol == "messages")
                # What a key may not read, reward or close, it may not even of its own.
                for method, path in (
                    ("get", "/sessions"),
                    ("get", "/sessions/hers/trajectories"),
                    ("post", "/sessions/hers/reward"),
                    ("post", "/sessions/hers/close"),
                    ("delete", "/sessions/hers"),
                    ("post", "/admin/weights"),
                ):
                    for key in (ann, bob):
                        asked = getattr(at.client, method)(at.url + path, headers=key, data=b"{}")
                        async with asked as answer:
                            assert answer.status == 403
                assert (await trajectories(at, "hers", **trainer))["calls"] == 1
                await at.post("/sessions", {"id": "his", "owner": "bob"}, **trainer)
                assert (await at.post(f"/sessions/his{CHAT}", asking("Hi"), **bob))[0] == 200
                assert (await at.post(f"/sessions/his{CHAT}", asking("Hi"), **trainer))[0] == 404
                assert (await at.post(f"/sessions/hers{CHAT}", asking("Hi")))[0] == 401

        run(scenario())

    def test_the_file_is_nobody_elses_to_read(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with gateway(trajectories=str(tmp_path / "s.db")) as at:
                await at.post(f"/sessions/a{CHAT}", asking("Hi"))
                for path in tmp_path.glob("s.db*"):
                    assert stat.S_IMODE(path.stat().st_mode) == 0o600

        run(scenario())


class TestBadInput:
    @pytest.mark.parametrize(
        ("body", "problem"),
        [
            ({"id": ".."}, "id: found '..', expected a session's id"),
            ({"id": "a/b"}, "id: found 'a/b', expected a session's id"),
            ({"id": "é"}, "id: found 'é'"),
            ({"id": 5}, "id: found 5"),
            ({"group": 5}, "group: found 5, expected a text of 1 to 256 characters"),
            ({"sampling": {"temperature": "hot"}}, "sampling.temperature: found 'hot'"),
            ({"sampling": {"top_k": 5}}, "sampling.top_k: found it, expected one of temperature"),
            (
                {"limits": {"turns": 0}},
                "limits.turns: found 0, expected a whole number",
            ),
            ({"drop_thinking": 1}, "drop_thinking: found 1"),
            ({"routed_experts": 0}, "routed_experts: found 0, expected true, false, or how many"),
            ({"routed_experts": "yes"}, "routed_experts: found 'yes'"),
            ({"routed_experts": True}, "routed_experts: found it, expected none: this server was"),
            ({"owner": "bob"}, "owner: found 'bob', expected none: no keys are asked for here"),
            ({"name": "x"}, "name: found it, expected one of id, group"),
        ],
    )
    def test_a_session_that_cannot_be_made(self, body: Any, problem: str, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with gateway(trajectories=str(tmp_path / "s.db")) as at:
                status, _, error = await at.post("/sessions", body)
                assert status == 400
                assert error["error"]["message"].startswith(problem)

        run(scenario())

    def test_wrong_rewards_ids_and_pages(self, store: str) -> None:
        async def scenario() -> None:
            async with gateway(trajectories=store) as at:
                await at.post("/sessions", {"id": "wrong"})
                for reward in ("1", None, True, "NaN"):
                    _, _, error = await at.post("/sessions/wrong/reward", {"reward": reward})
                    assert error["error"]["message"].startswith("reward: found ")
                raw = b'{"reward": NaN}'
                assert (await at.post("/sessions/wrong/reward", raw))[0] == 400
                assert (await at.post("/sessions/wrong/reward", {"reward": 1, "call": "x"}))[
                    0
                ] == 404
                assert (await at.post("/sessions/none/reward", {"reward": 1}))[0] == 404
                assert (await at.post("/sessions", {"id": "wrong"}))[0] == 409
                assert (await at.get("/sessions?limit=x"))[0] == 400
                assert (await at.get("/sessions/wrong/trajectories?shared=x"))[0] == 400
                assert (await at.post(f"/sessions/b%20d{CHAT}", asking("Hi")))[0] == 400
                status, _, error = await at.post(
                    f"/sessions/wrong{CHAT}", asking("Hi"), **{"x-dsv4-session": "other"}
                )
                assert (status, error["error"]["param"]) == (400, "x-dsv4-session")

        run(scenario())

    def test_a_server_without_sessions_says_so(self) -> None:
        async def scenario() -> None:
            async with gateway() as at:
                status, _, error = await at.post(CHAT, asking("Hi"), **{"x-dsv4-session": "a"})
                assert status == 400
                assert "--trajectories" in error["error"]["message"]
                assert (await at.post(f"/sessions/a{CHAT}", asking("Hi")))[0] == 404

        run(scenario())


class TestStoreFailures:
    def test_no_answer_is_lost_because_the_store_is_gone(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        port = free_port()

        async def scenario() -> None:
            async with gateway(trajectories=f"redis://127.0.0.1:{port}") as at:
                path = f"/sessions/gone{CHAT}"
                with redis_server(tmp_path, port):
                    assert (await at.post(path, asking("Hi")))[0] == 200
                assert (await at.post(path, asking("Hi")))[0] == 200
                assert (await at.get("/sessions/gone"))[0] == 503
                assert "dsv4_session_records_lost_total 1.0" in at.server.metrics.text().decode()
                with redis_server(tmp_path, port):
                    assert (await at.post(path, asking("Hi")))[0] == 200
                    await asyncio.sleep(0.05)
                    made = await trajectories(at, "gone")
                    assert (made["complete"], made["calls"]) == (False, 2)

        with caplog.at_level(logging.WARNING, "dsv4.serve"):
            run(scenario())
        assert f"session {hashed('gone')}: a call was not recorded" in caplog.text
        assert "session gone" not in caplog.text

    def test_no_answer_is_lost_because_the_disk_is_full(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with gateway(trajectories=str(tmp_path / "s.db")) as at:
                path, store = f"/sessions/disk{CHAT}", at.server.sessions.store

                async def limit(pages: int) -> None:
                    await store._do(
                        lambda file: file._db.execute(f"PRAGMA max_page_count = {pages}")
                    )

                assert (await at.post(path, asking("Hi")))[0] == 200
                await limit(1)
                for n in range(6):
                    body = asking(f"Hi {n} " + "word " * 2000, stream=n % 2 == 0)
                    assert (await at.post(path, body))[0] == 200
                await limit(1_000_000)
                assert (await at.post(path, asking("Hi again")))[0] == 200
                made = await trajectories(at, "disk")
                assert made["complete"] is False

        run(scenario())

    def test_a_store_that_is_full_keeps_what_is_open(self, store: str) -> None:
        async def scenario() -> None:
            async with gateway(trajectories=store, trajectory_bytes=3000) as at:
                await at.post(f"/sessions/full-1{CHAT}", asking("Hi"))
                for n in range(4):
                    assert (await at.post(f"/sessions/full-2{CHAT}", asking(f"Hi {n}")))[0] == 200
                made = await trajectories(at, "full-1")
                assert made["calls"] == 1
                await at.post("/sessions/full-1/close", {})
                await at.post("/sessions/full-2/close", {})
                assert (await at.post(f"/sessions/full-3{CHAT}", asking("Hi")))[0] == 200
                assert (await at.get("/sessions/full-1"))[0] == 404  # closed ones go first
                assert (await trajectories(at, "full-3"))["calls"] == 1
                await at.post("/sessions/full-3/close", {})

        run(scenario())

    def test_a_file_that_cannot_be_used_is_refused_at_the_start(self, tmp_path: Path) -> None:
        from dsv4.serve import SettingError, Settings, app

        (tmp_path / "s.db").write_bytes(b"no database" * 100)
        with pytest.raises(SettingError, match=r"trajectories: .*not a database"):
            app(Settings(trajectories=str(tmp_path / "s.db")))
        with pytest.raises(SettingError, match=r"trajectories: .*No such file or directory"):
            app(Settings(trajectories=os.fspath(tmp_path / "none" / "s.db")))


class TestRetention:
    def test_idle_sessions_are_closed_and_old_ones_deleted(
        self, store: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = time.time
        later = 0.0
        monkeypatch.setattr(time, "time", lambda: now() + later)

        async def scenario() -> None:
            nonlocal later
            async with gateway(trajectories=store, trajectory_idle=3600, trajectory_days=1) as at:
                path = f"/sessions/idle{CHAT}"
                assert (await at.post(path, asking("Hi")))[0] == 200
                later = 3601.0
                assert (await at.post(path, asking("Hi")))[0] == 409
                at.server.sessions.store._next_sweep = 0
                await at.post(f"/sessions/other-1{CHAT}", asking("Hi"))
                _, seen = await at.get("/sessions/idle")
                assert seen["closed"] is True
                later = 2 * 86400.0
                at.server.sessions.store._next_sweep = 0
                await at.post(f"/sessions/other-2{CHAT}", asking("Hi"))
                assert (await at.get("/sessions/idle"))[0] == 404

        run(scenario())
