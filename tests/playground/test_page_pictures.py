"""Pictures on the page: beside the JSON, in the request, in the prompt, and in other sizes."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

import pytest

import dsv4
from dsv4._playground.page_functions import PAGE_FUNCTIONS
from dsv4._playground.page_pictures import SCALES
from dsv4._playground.page_problem import PageProblem
from dsv4._playground.page_request import PlaygroundContext
from dsv4.errors import OptionError

CONTEXT = PlaygroundContext()


def png(width: int, height: int) -> str:
    """A grey picture, as an address."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes(1 + width) * height)
    data = chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + data).decode()


SHOT = png(1920, 1080)


def asked(function: str, source: Any, **fields: Any) -> Any:
    text = source if isinstance(source, str) else json.dumps(source)
    return PAGE_FUNCTIONS[function]({"source": text, **fields}, CONTEXT)


def with_shot(source: Any, **fields: Any) -> Any:
    return asked("picture", source, pictures={"shot.png": SHOT}, name="shot.png", **fields)


def images_of(source: Any, **fields: Any) -> list[Any]:
    (side,) = asked("prompt", source, pictures={"shot.png": SHOT}, **fields)["sides"]
    return [image for row in side["rows"] for image in row["images"]]


NAMED = {"type": "image_url", "image_url": {"url": "picture:shot.png"}}
# A request -> the turns that it has once the picture is in it.
REQUESTS: dict[str, tuple[Any, Any]] = {
    "a list": (
        [{"role": "user", "content": "What is it?"}],
        [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, NAMED]}],
    ),
    "Chat Completions, answered": (
        {
            "model": "DeepSeek-V4.1-Flash",
            "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        },
        [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": [NAMED]},
        ],
    ),
    "Chat Completions, with blocks": (
        {"model": "m", "messages": [{"role": "user", "content": [NAMED]}]},
        [{"role": "user", "content": [NAMED, NAMED]}],
    ),
    "Responses, a text": (
        {"model": "m", "input": "What is it?"},
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is it?"},
                    {"type": "input_image", "image_url": "picture:shot.png"},
                ],
            }
        ],
    ),
    "Messages": (
        {"max_tokens": 9, "system": "s", "messages": [{"role": "user", "content": "a"}]},
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a"},
                    {
                        "type": "image",
                        "source": {
                            "type": "base64",
                            "media_type": "image/png",
                            "data": "picture:shot.png",
                        },
                    },
                ],
            }
        ],
    ),
    "no messages yet": ([], [{"role": "user", "content": [NAMED]}]),
}


class TestAdding:
    @pytest.mark.parametrize("kind", REQUESTS)
    def test_a_picture_is_put_in_the_last_turn_of_the_user(self, kind: str) -> None:
        source, turns = REQUESTS[kind]
        answer = with_shot(source)
        value = json.loads(answer["source"])
        assert turns == (
            value if isinstance(value, list) else value.get("messages", value.get("input"))
        )

    @pytest.mark.parametrize("kind", [kind for kind in REQUESTS if kind != "no messages yet"])
    def test_the_prompt_then_shows_it(self, kind: str) -> None:
        answer = with_shot(REQUESTS[kind][0])
        *_, image = images_of(answer["source"], dialect=answer["dialect"])
        assert (image["width"], image["height"]) == (1920, 1080)
        assert (image["columns"], image["rows"], image["tokens"]) == (41, 23, 968)
        assert image["thumbnail"] == SHOT
        assert image["caption"].endswith("1920 × 1080, 41 × 23 cells, 968 tokens")

    def test_a_dialect_without_pictures_is_replaced(self) -> None:
        turns = [{"role": "user", "content": "a"}]
        assert with_shot({"model": "DeepSeek-V4-Flash", "messages": turns})["dialect"] == "v4.1"
        assert with_shot({"model": "DeepSeek-V4.1-Flash", "messages": turns})["dialect"] is None
        assert with_shot(turns, dialect="v4-vision")["dialect"] is None

    @pytest.mark.parametrize(
        ("source", "pictures", "problem"),
        [
            ("[", {"shot.png": SHOT}, "not JSON"),
            ("5", {"shot.png": SHOT}, "no list of messages"),
            ('{"conversations": []}', {"shot.png": SHOT}, "no list of messages"),
            ('{"messages": 5}', {"shot.png": SHOT}, "no list of messages"),
            ("[]", {}, "expected a picture"),
            ("[]", {"shot.png": "data:image/png;base64,AAAA"}, "shot.png: found"),
            ("[]", {"shot.png": "data:image/png;base64,?"}, "shot.png: found"),
            ("[]", {"shot.png": SHOT[:60]}, "shot.png: found"),
            ("[]", {"shot.png": "https://example.com/shot.png"}, "expected a picture"),
            ("[]", {"shot.png": 5}, "expected addresses by name"),
            ("[]", [SHOT], "expected addresses by name"),
        ],
    )
    def test_what_is_no_picture_or_no_request(
        self, source: str, pictures: Any, problem: str
    ) -> None:
        with pytest.raises(PageProblem) as caught:
            asked("picture", source, pictures=pictures, name="shot.png")
        assert problem in caught.value.message


class TestNames:
    def test_a_name_without_a_picture_stays_an_address(self) -> None:
        (image,) = images_of(
            [{"role": "user", "content": [{**NAMED, "image_url": "picture:x"}]}], dialect="v4.1"
        )
        assert (image["width"], image["thumbnail"]) == (None, "")

    def test_texts_that_begin_like_a_name_are_texts(self) -> None:
        source = [{"role": "user", "content": "picture:nothing"}]
        answer = asked("text", source, pictures={"shot.png": SHOT})
        assert "picture:nothing" in answer["prompt"]

    def test_code_that_is_copied_has_the_picture_itself(self) -> None:
        source = json.loads(with_shot([{"role": "user", "content": "a"}])["source"])
        for form in ("curl", "python", "pytest"):
            body = {"form": form, "view": "prompt", "dialect": "v4.1"}
            text = asked("copy", source, pictures={"shot.png": SHOT}, **body)["text"]
            assert "picture:" not in text


class TestSizes:
    def test_each_has_the_cells_and_tokens_of_its_size(self) -> None:
        found = asked("sizes", "", width=1920, height=1080)["sizes"]
        assert [size["scale"] for size in found] == list(SCALES)
        for size in found:
            grid = dsv4.image_grid(size["width"], size["height"])
            assert (size["rows"], size["columns"], size["tokens"]) == (
                *(grid.rows, grid.columns),
                grid.tokens,
            )
        half = next(size for size in found if size["scale"] == 50)
        assert (half["width"], half["height"]) == (960, 540)

    def test_padding_of_the_vision_preview_is_that_of_the_picture(self) -> None:
        for start in range(4):
            tokens = dsv4.image_grid(640, 480, dialect="v4-vision", start=start).tokens
            found = asked("sizes", "", width=640, height=480, tokens=tokens, dialect="v4-vision")
            (whole,) = (size for size in found["sizes"] if size["scale"] == 100)
            assert whole["tokens"] == tokens

    def test_the_smallest_and_the_largest(self) -> None:
        for sides in ((1, 1), (2**32 - 1, 2**32 - 1)):
            found = asked("sizes", "", width=sides[0], height=sides[1])["sizes"]
            assert len(found) == len(SCALES)

    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"width": 0, "height": 5},
            {"width": "5", "height": 5},
            {"width": 5.0, "height": 5},
            {"width": 5, "height": 2**40},
            {"width": 5, "height": 5, "dialect": "v4"},
        ],
    )
    def test_no_size_of_a_picture(self, fields: dict[str, Any]) -> None:
        with pytest.raises((OptionError, PageProblem), match="expected"):
            asked("sizes", "", **fields)
