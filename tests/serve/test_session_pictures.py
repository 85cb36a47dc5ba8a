"""Pictures in sessions: kept once, told apart, replayed, and expanded for trainers."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
import redis
from gateway import TOOLS, Gateway, gateway, run
from standins import redis_server
from test_sessions import CHAT, TextBackend, trajectories

from builders import png
from dsv4.serve import Chunk, Logprob, Options
from dsv4.tokens import Tokenizer
from dsv4.trajectories import rows_of

TOKENIZER = Tokenizer.load(dialect="v4.1")
IMAGE = 129264
SCREENSHOT, OTHER = png(1920, 1080), png(1920, 1080, b"other")
CALL = (
    "Look.</think><｜DSML｜ca>".replace("ca", "tool_calls")
)


class SeeingBackend(TextBackend):
    """An engine that takes images, and says texts in V4.1."""

    takes_images = True


@pytest.fixture(params=["sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        yield str(tmp_path / "sessions.db")
        return
    with redis_server(tmp_path) as url:
        redis.from_url(url).flushall()
        yield url


def asking(*pictures: bytes) -> list[Any]:
    parts: list[Any] = [{"type": "text", "text": "Look"}]
    for data in pictures:
        url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return [{"role": "user", "content": parts}]


async def say(at: Gateway, messages: list[Any]) -> list[Any]:
    body = {"messages": messages, "tools": TOOLS}
    status, _, answer = await at.post(f"/sessions/s{CHAT}", body)
    assert status == 200, answer
    return [*messages, answer["choices"][0]["message"]]


def name_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_a_picture_is_kept_once_and_replayed(store: str) -> None:
    async def scenario() -> None:
        backend = SeeingBackend("Hm.</think>A desk.", "Again.</think>Still a desk.")
        async with gateway(backend, trajectories=store, dialect="v4.1") as at:
            said = await say(at, asking(SCREENSHOT))
            await say(at, [*said, {"role": "user", "content": "Sure?"}])
            made = await trajectories(at, "s")
            (one,) = made["trajectories"]
            assert [image["name"] for image in one["images"]] == [name_of(SCREENSHOT)]
            print(one)

    run(scenario())
