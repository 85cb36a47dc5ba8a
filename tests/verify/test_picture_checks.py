"""What a server counts for five pictures, and what that says."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

import dsv4
from dsv4.verify import Reply
from dsv4.verify.picture_checks import PICTURES, Picture, picture_findings, picture_request, png
from rows import each_row

PLAIN = 31
RIGHT = {name: picture.tokens for name, picture in PICTURES.items()}


def test_they_are_pictures_of_these_sizes_and_cost_what_engines_count() -> None:
    assert [dsv4.image_size(png(each)) for each in PICTURES.values()] == [
        picture.upright_size for picture in PICTURES.values()
    ]
    assert list(RIGHT.values()) == [184, 968, 986, 204, 1001]
    request = picture_request(Picture(4032, 3024))
    url = request["messages"][0]["content"][0]["image_url"]["url"]
    assert b64decode(url.partition(",")[2]) == png(Picture(4032, 3024))
    assert len(url) < 10_000


def found(counts: Mapping[str, int | None]) -> tuple[str, str]:
    """The id and the verdict, where pictures add so much; None is a refusal."""
    replies = iter(counts.values())

    def post(path: str, body: Mapping[str, Any]) -> Reply:
        count = next(replies)
        if count is None:
            return Reply(400, body={"error": "no pictures"})
        return Reply(200, body={"usage": {"prompt_tokens": PLAIN + count}})

    (finding,) = picture_findings(post, [PLAIN])
    assert finding.group == "images"
    return finding.id.removeprefix("images-"), finding.verdict


def changed(change: Callable[[str, int], int | None]) -> dict[str, int | None]:
    return {name: change(name, tokens) for name, tokens in RIGHT.items()}


@each_row(
    "counts, id, verdict",
    [
        (changed(lambda _, n: n), "right", "pass"),
        (changed(lambda _, n: n + 1), "right", "pass"),  # a line break after each
        (changed(lambda *_: None), "none", "not offered"),
        (changed(lambda *_: 2), "unseen", "differs"),
        ({**RIGHT, "image-turned": RIGHT["image-screen"]}, "orientation", "fault"),
        ({**RIGHT, "image-sliver": 306}, "recipe-rounding", "differs"),
        (changed(lambda _, n: min(n, 700)), "limits", "fault"),
        (changed(lambda _, n: n * 2), "not-explained", "inconclusive"),
        ({**RIGHT, "image-screen": 900}, "not-explained", "inconclusive"),
        ({**RIGHT, "image-photo": None}, "uncounted", "inconclusive"),
    ],
)
def test_each_answer_is_called_what_it_is(
    counts: dict[str, int | None], id: str, verdict: str
) -> None:
    assert found(counts) == (id, verdict)
