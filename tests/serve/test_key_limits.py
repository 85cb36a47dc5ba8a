"""What keys may use: limits that hold, for one process and for several, and guesses that wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway import gateway, run
from standins import THINK_END, Scripted

from dsv4.serve import Chunk
from dsv4.serve.access.api_keys import WrongKeys, read_keys
from dsv4.serve.access.key_usage import read_limits
from dsv4.serve.settings import SettingError

CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
ANSWER = (f"Hm.{THINK_END}", Chunk(text="Hello.", finish="eos"))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("request=5", "found 'request=5', expected one of requests=, tokens="),
        ("requests", "found 'requests', expected one of"),
        ("requests=0", "found '0', expected a number of 1 or more"),
        ("streams=many", "found 'many', expected a number"),
        ("streams=1 streams=2", "found streams twice"),
        ("models=,", "found no model"),
        ("expires=tomorrow", "found 'tomorrow', expected a date"),
    ],
)
def test_a_limit_that_cannot_be_read_is_named(words: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=problem):
        read_limits(words.split())
    file = tmp_path / "keys"
    file.write_text(f"# ours\nann:secret {words}\n")
    with pytest.raises(SettingError, match=f"line 2: {problem}"):
        read_keys(str(file))


def test_limits_in_the_words_of_each_protocol(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(
        "slow:a requests=1\nold:b expires=2020-01-01\nnarrow:c models=this,that\nadmin all:d\n"
    )

    async def scenario() -> None:
        async with gateway(Scripted(*ANSWER), api_key_file=str(file)) as g:

            async def post(key: str, path: str = "/v1/chat/completions", **body: Any) -> Any:
                return await g.post(path, {**CHAT, **body}, **{"x-api-key": key})

            assert (await post("a"))[0] == 200
            status, headers, body = await post("a", "/v1/messages")
            assert (status, body["error"]["type"]) == (429, "rate_limit_error")
            assert 1 <= int(headers["retry-after"]) <= 60
            status, _, body = await post("b")
            assert (status, body["error"]["message"]) == (401, "The API key has expired.")
            assert (await post("c", model="this"))[0] == 200
            status, _, body = await post("c", model="other")
            assert (status, body["error"]["code"]) == (403, "model_not_allowed")
            assert body["error"]["message"].endswith("a model of this key: this, that")
            _, text = await g.get("/metrics", **{"x-api-key": "d"})
            assert 'dsv4_key_requests_total{key="slow",status="429"} 1.0' in text
            assert 'dsv4_key_tokens_total{key="slow",kind="completion"}' in text

    run(scenario())


def test_no_route_takes_a_key_that_has_expired(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("admin old:a expires=2020-01-01\n")
    paths = ["/v1/chat/completions", "/tokenize", "/admin/restart"]
    paths += ["/playground/api/settings", "/playground/inspector/changes"]

    async def scenario() -> None:
        async with gateway(api_key_file=str(file), playground=True, inspect=True) as g:
            key = {"x-api-key": "a", "content-type": "application/json"}
            for path in paths:
                status, _, body = await g.post(path, CHAT, **key)
                assert (status, body["error"]["message"]) == (401, "The API key has expired."), path

    run(scenario())


def test_guesses_wait_longer_each_time_and_right_keys_never(tmp_path: Path) -> None:
    wrong = WrongKeys()
    pauses = [wrong.next_pause("1.2.3.4") for _ in range(12)]
    assert pauses[:5] == [0.0] * 5
    assert pauses[5:8] == [0.1, 0.2, 0.4]
    assert pauses[-1] == 5.0
    assert wrong.next_pause("5.6.7.8") == 0.0
    file = tmp_path / "keys"
    file.write_text("ann:right\n")

    async def scenario() -> None:
        async with gateway(Scripted(*ANSWER), api_key_file=str(file)) as g:
            for _ in range(6):
                assert (await g.post("/v1/chat/completions", CHAT, **{"x-api-key": "x"}))[0] == 401
            assert g.server.access.wrong_keys.next_pause("127.0.0.1") == 0.2
            assert (await g.post("/v1/chat/completions", CHAT, **{"x-api-key": "right"}))[0] == 200

    run(scenario())


@pytest.mark.parametrize("name", ["api_key_file", "upstream_key_file", "seal_key_file"])
def test_files_of_keys_that_others_can_read_are_refused_unless_told(
    name: str, tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    file.write_text("a-key-of-sixteen-bytes")
    file.chmod(0o644)

    async def started(**settings: Any) -> None:
        async with gateway(Scripted(), **{name: str(file)}, **settings):
            pass

    with pytest.raises(SettingError, match=rf"{name}: .*every user can read \(mode 644\)"):
        run(started())
    run(started(open_key_files=True))
    file.chmod(0o640)
    run(started())


def test_choices_are_streams(tmp_path: Path) -> None:
    """Of the key, and of the gateway: one request must not open more than the limits say."""
    file = tmp_path / "keys"
    file.write_text("narrow:n streams=3\nwide:w\n")

    async def scenario() -> None:
        backend = Scripted(*ANSWER)
        async with gateway(backend, api_key_file=str(file), streams=8, max_n=10) as g:

            async def status(key: str, n: int) -> int:
                body = {**CHAT, "n": n}
                return int((await g.post("/v1/chat/completions", body, **{"x-api-key": key}))[0])

            assert [await status("n", n) for n in (1, 3, 4)] == [200, 200, 429]
            assert [await status("w", n) for n in (8, 9, 10, 11, 128)] == [200, 400, 400, 400, 400]
            assert backend.opened == 1 + 3 + 8
            assert (g.server.gate.running, g.server.gate.waiting) == (0, 0)

    run(scenario())
