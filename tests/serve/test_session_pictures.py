"""Pictures in sessions: kept once, told apart, replayed, and expanded for trainers."""

from __future__ import annotations

import base64
import hashlib
from array import array
from pathlib import Path
from typing import Any

import pytest
import redis
from gateway import TOOLS, Gateway, gateway, run
from standins import redis_server
from test_sessions import CHAT, TextBackend, trajectories

import dsv4
from builders import png
from dsv4.serve.backend import ImageSupport
from dsv4.serve.sessions.session_calls import with_pictures
from dsv4.tokens import Tokenizer
from dsv4.trajectories import rows_of
from dsv4.trajectories.recorded_calls import RecordedPicture, picture_id

TOKENIZER = Tokenizer.load(dialect="v4.1")
IMAGE = TOKENIZER.special_id("<｜deepseek_image｜>")
LONG = 100_000
SCREENSHOT, OTHER = png(1920, 1080, b"x" * LONG), png(1920, 1080, b"other")
TOKENS = dsv4.image_grid(1920, 1080).tokens


class SeeingBackend(TextBackend):
    """An engine that takes images."""

    async def check_images(self) -> ImageSupport:
        return ImageSupport(reads=True)


@pytest.fixture(params=["sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        yield str(tmp_path / "sessions.db")
        return
    with redis_server(tmp_path) as url:
        redis.from_url(url).flushall()
        yield url


def asking(data: bytes) -> list[Any]:
    url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    return [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look"},
                {"type": "image_url", "image_url": {"url": url}},
            ],
        }
    ]


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
            _, first = await at.get("/sessions/s")
            await say(at, [*said, {"role": "user", "content": "Sure?"}])
            _, second = await at.get("/sessions/s")
            made = await trajectories(at, "s")
            (one,) = made["trajectories"]
            assert made["exact"] is True
            (image,) = one["images"]
            assert one["input_ids"][image["at"]] == IMAGE
            assert one["input_ids"].count(IMAGE) == 1
            size = {"width": 1920, "height": 1080, "tokens": TOKENS}
            assert image == {"at": image["at"], "name": name_of(SCREENSHOT), **size}
            assert first["bytes"] > LONG > second["bytes"] - first["bytes"]
            status, kept = await at.get(f"/sessions/s/images/{image['name']}")
            assert (status, base64.b64decode(kept["data"])) == (200, SCREENSHOT)
            status, refused = await at.get("/sessions/s/images/sha256:0")
            assert status == 404
            assert "expected the name of a picture" in refused["error"]["message"]
            (row,), left = rows_of(made, "trl")
            assert not left
            assert row["prompt_ids"].count(IMAGE) == TOKENS
            assert sum(row["env_mask"]) == made["sampled_tokens"]
            whole = [*row["prompt_ids"], *row["completion_ids"]]
            assert len(whole) == len(one["input_ids"]) + TOKENS - 1
            assert row["image_places"][0]["at"] == whole.index(IMAGE)

    run(scenario())


def test_another_picture_is_another_sequence(store: str) -> None:
    """Though the ids that the model was given begin in the same way."""

    async def scenario() -> None:
        backend = SeeingBackend("Hm.</think>A desk.", "Hm.</think>A door.")
        async with gateway(backend, trajectories=store, dialect="v4.1") as at:
            said = await say(at, asking(SCREENSHOT))
            other = [*asking(OTHER), said[-1], {"role": "user", "content": "Sure?"}]
            await say(at, other)
            made = await trajectories(at, "s")
            names = [[image["name"] for image in one["images"]] for one in made["trajectories"]]
            assert names == [[name_of(SCREENSHOT)], [name_of(OTHER)]]

    run(scenario())


def test_a_token_of_an_image_that_the_model_wrote() -> None:
    pictures = [RecordedPicture("a", IMAGE, 1, 1, 184)]
    assert with_pictures([1, IMAGE, 2], pictures) == (array("I", [1, picture_id("a"), 2]), "")
    ids, problem = with_pictures([1, IMAGE, 2, IMAGE], pictures)
    assert list(ids) == [1, IMAGE, 2, IMAGE]
    assert problem.startswith("the model wrote the token of an image")
    _, problem = with_pictures([IMAGE], [RecordedPicture("a", IMAGE)])
    assert "unknown size" in problem
