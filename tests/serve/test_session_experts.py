"""Experts and versions of weights in sessions: asked for, kept, and with the tokens they are of."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from gateway import TOOLS, Gateway, gateway, run
from standins import SglangServer, StandIn, VllmServer, experts_at

from dsv4.tokens import Tokenizer
from dsv4.trajectories import rows_of
from dsv4.trajectories.routed_experts import RoutedExperts

CHAT = "/v1/chat/completions"
TOKENIZER = Tokenizer.load()
EOS = "<｜end▁of▁sentence｜>"
CALL = (
    'Look.</think>\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="bash">\n'
    '<｜DSML｜parameter name="command" string="true">ls</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n</｜DSML｜tool_calls>" + EOS
)
ANSWER = f"Read.</think>Done.{EOS}"
ENGINES = {"vllm": VllmServer, "sglang": SglangServer}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def settings(engine: str, url: str, tmp_path: Path) -> dict[str, Any]:
    return {
        "settings_backend": engine,
        "upstream": url,
        "trajectories": str(tmp_path / "s.db"),
        "routed_experts": True,
        "dialect": "v4",
        "upstream_reasoning": "grammar",
    }


async def loop(at: Gateway, id: str, turns: int, first: str = "List") -> list[Any]:
    """A tool loop of so many calls."""
    messages: list[Any] = [{"role": "user", "content": first}]
    for n in range(turns):
        body = {"messages": messages, "tools": TOOLS, "max_tokens": 400}
        status, _, answer = await at.post(f"/sessions/{id}{CHAT}", body)
        assert status == 200, answer
        messages.append(answer["choices"][0]["message"])
        for call in messages[-1].get("tool_calls", ()):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": f"file{n}"})
    return messages


async def trajectories(at: Gateway, id: str) -> Any:
    status, body = await at.get(f"/sessions/{id}/trajectories")
    assert status == 200, body
    return body


def check_alignment(one: dict[str, Any]) -> None:
    """Every token but the last has the experts that were chosen for it."""
    found = RoutedExperts.from_json(one["routed_experts"]).lists()
    assert found == [experts_at(place, id) for place, id in enumerate(one["input_ids"][:-1])]


async def made(at: Gateway, id: str, **options: Any) -> None:
    status, _, answer = await at.post("/sessions", {"id": id, "routed_experts": 2, **options})
    assert status == 200, answer


def test_a_loop_has_the_experts_of_every_token(engine: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        server = ENGINES[engine](TOKENIZER, CALL, CALL, ANSWER)
        async with (
            server.running() as url,
            gateway(**settings(engine, url, tmp_path)) as at,
        ):
            await made(at, "loop")
            await loop(at, "loop", 3)
            (one,) = (await trajectories(at, "loop"))["trajectories"]
            assert len(one["turns"]) == 3
            check_alignment(one)
            assert one["exact"]
            # What is kept of a call is what is new in it.
            size = (tmp_path / "s.db").stat().st_size
            assert size < 3_000_000

    run(scenario())


def test_branches_have_the_experts_of_what_they_share(engine: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        server = ENGINES[engine](TOKENIZER, CALL, ANSWER, ANSWER, ANSWER)
        async with server.running() as url, gateway(**settings(engine, url, tmp_path)) as at:
            await made(at, "tree")
            messages = await loop(at, "tree", 1)
            for text in ("one", "two"):
                other = [*messages, {"role": "user", "content": text}]
                body = {"messages": other, "tools": TOOLS, "max_tokens": 400}
                assert (await at.post(f"/sessions/tree{CHAT}", body))[0] == 200
            body = {"messages": messages[:1], "tools": TOOLS, "max_tokens": 400}
            assert (await at.post(f"/sessions/tree{CHAT}", body))[0] == 200  # a retry
            found = (await trajectories(at, "tree"))["trajectories"]
            assert len(found) == 3
            for one in found:
                check_alignment(one)

    run(scenario())


def test_a_call_that_broke_off_leaves_no_hole(engine: str, tmp_path: Path) -> None:
    """The next call reads what the broken one wrote, or was asked: it has all experts."""

    async def scenario() -> None:
        server = ENGINES[engine](TOKENIZER, CALL, ANSWER)
        async with server.running() as url, gateway(**settings(engine, url, tmp_path)) as at:
            await made(at, "left")
            messages = await loop(at, "left", 1)
            server.pause = 0.02
            body = {"messages": messages, "tools": TOOLS, "max_tokens": 400, "stream": True}
            async with at.client.post(f"{at.url}/sessions/left{CHAT}", json=body) as answer:
                await answer.content.readany()
                answer.close()
            server.pause = 0
            for _ in range(200):
                notes = (await trajectories(at, "left"))["notes"]
                if "left" in {note["kind"] for note in notes}:
                    break
                await asyncio.sleep(0.02)
            assert (await at.post(f"/sessions/left{CHAT}", {**body, "stream": False}))[0] == 200
            found = (await trajectories(at, "left"))["trajectories"]
            whole = [one for one in found if one["turns"][-1]["state"] == "finished"]
            assert whole
            for one in whole:
                check_alignment(one)

    run(scenario())


def test_experts_survive_another_gateway(engine: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        server = ENGINES[engine](TOKENIZER, CALL, CALL, ANSWER)
        async with server.running() as url:
            given = settings(engine, url, tmp_path) | {"replay": f"sqlite:{tmp_path / 'r.db'}"}
            async with gateway(**given) as at:
                await made(at, "s")
                messages = await loop(at, "s", 2)
            async with gateway(**given) as at:
                body = {"messages": messages, "tools": TOOLS, "max_tokens": 400}
                assert (await at.post(f"/sessions/s{CHAT}", body))[0] == 200
                for one in (await trajectories(at, "s"))["trajectories"]:
                    check_alignment(one)

    run(scenario())


def test_an_engine_that_does_not_tell_them_says_so(engine: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        server: Any = ENGINES[engine](TOKENIZER, ANSWER)
        server.tells_experts = False
        async with server.running() as url, gateway(**settings(engine, url, tmp_path)) as at:
            await made(at, "s")
            await loop(at, "s", 1)
            told = await trajectories(at, "s")
            assert told["trajectories"][0]["routed_experts"] is None
            assert "experts_missing" in {note["kind"] for note in told["notes"]}

    run(scenario())


def test_they_are_asked_for_only_where_a_session_wants_them(engine: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        server: StandIn = ENGINES[engine](TOKENIZER, ANSWER)
        async with server.running() as url, gateway(**settings(engine, url, tmp_path)) as at:
            await loop(at, "plain", 1)
            told = await trajectories(at, "plain")
            assert told["trajectories"][0]["routed_experts"] is None
            assert "experts_missing" not in {note["kind"] for note in told["notes"]}
            body = server.requests[-1]
            assert "return_routed_experts" not in body
            assert "token_ids" not in body
        given = settings(engine, url, tmp_path) | {"routed_experts": False}
        async with server.running() as url, gateway(**given | {"upstream": url}) as at:
            status, _, error = await at.post("/sessions", {"routed_experts": True})
            assert status == 400
            assert "started without `--routed-experts`" in error["error"]["message"]

    run(scenario())


def test_versions_of_weights_keep_their_border(engine: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        server: Any = ENGINES[engine](TOKENIZER, ANSWER)
        count = len(server.ids(ANSWER))
        server.versions = [
            {"version": "3", "start": 0, "end": 2},
            {"version": "4", "start": 2, "end": count},
        ]
        async with server.running() as url, gateway(**settings(engine, url, tmp_path)) as at:
            await made(at, "s", group="g")
            await loop(at, "s", 1)
            told = await trajectories(at, "s")
            (one,) = told["trajectories"]
            begin = one["turns"][0]["sampled"][0][0]
            assert one["weights"] == [
                {"version": "3", "start": begin, "end": begin + 2},
                {"version": "4", "start": begin + 2, "end": begin + count},
            ]
            assert "mixed_weights" in {note["kind"] for note in told["notes"]}
            (row,), _ = rows_of(told, "verl")
            steps = [row["extra_fields"][f"{name}_global_steps"] for name in ("min", "max")]
            assert steps == [3, 4]

    run(scenario())


def test_sglang_says_the_version_with_every_event(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = SglangServer(TOKENIZER, ANSWER)
        async with server.running() as url, gateway(**settings("sglang", url, tmp_path)) as at:
            await loop(at, "s", 1)
            (one,) = (await trajectories(at, "s"))["trajectories"]
            assert [run["version"] for run in one["weights"]] == ["7"]

    run(scenario())


def test_trainers_get_them_in_their_own_fields(engine: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        server = ENGINES[engine](TOKENIZER, CALL, ANSWER)
        async with server.running() as url, gateway(**settings(engine, url, tmp_path)) as at:
            await made(at, "s")
            await loop(at, "s", 2)
            await at.post("/sessions/s/reward", {"reward": 1.0})
            told = await trajectories(at, "s")
            ids = told["trajectories"][0]["input_ids"]
            wanted = [experts_at(place, id) for place, id in enumerate(ids[:-1])]
            (row,), _ = rows_of(told, "verl")
            assert row["routed_experts"] == wanted
            (row,), _ = rows_of(told, "skyrl")
            assert row["rollout_expert_indices"] == [*wanted, [[0, 0]] * 3]

    run(scenario())


@pytest.mark.parametrize("incremental", [False, True])
def test_log_probabilities_of_both_modes_of_sglang(incremental: bool, tmp_path: Path) -> None:
    async def scenario() -> None:
        server = SglangServer(TOKENIZER, ANSWER, incremental=incremental)
        async with server.running() as url, gateway(**settings("sglang", url, tmp_path)) as at:
            body = {"messages": [{"role": "user", "content": "Hi"}], "logprobs": True}
            _, _, answer = await at.post(f"/sessions/s{CHAT}", {**body, "max_tokens": 400})
            (one,) = (await trajectories(at, "s"))["trajectories"]
            assert one["exact"]
            count = len(server.ids(ANSWER))
            known = [value for value in one["logprobs"] if value is not None]
            assert known == [-n / 8 for n in range(1, count + 1)]
            shown = answer["choices"][0]["logprobs"]["content"]
            assert "".join(entry["token"] for entry in shown) == "Done."

    run(scenario())


@pytest.mark.parametrize("incremental", [False, True])
def test_log_probabilities_that_are_not_of_the_tokens_are_a_failure(
    incremental: bool, tmp_path: Path
) -> None:
    async def scenario() -> None:
        server = SglangServer(TOKENIZER, ANSWER, incremental=incremental)
        server.logprobs_lost = 1
        async with server.running() as url, gateway(**settings("sglang", url, tmp_path)) as at:
            body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 400}
            status, _, error = await at.post(f"/sessions/s{CHAT}", body)
            assert status == 502
            assert "log-probabilities for" in error["error"]["message"]

    run(scenario())
