"""Images in ids, masks, counts and sessions."""

from __future__ import annotations

import base64
import pickle
from typing import Any

import pytest

import dsv4
from builders import assistant, call, calling, image, png, result, text, user
from dsv4.tokens import Session, Tokenizer, why_not_prefix
from dsv4.tokens.prefix_difference import PICTURE
from rows import each_row

IMAGE = 129264


def picture(width: int, height: int, seed: bytes = b"") -> dict[str, Any]:
    """A block with the headers of a PNG file of this size."""
    data = base64.b64encode(png(width, height, seed)).decode()
    return image(f"data:image/png;base64,{data}")


SCREENSHOT, PHOTO, REMOTE = picture(1920, 1080), picture(3024, 4032), image("https://a.b/c.png")


def prompt_of(*blocks: Any, dialect: str = "v4.1") -> dsv4.Prompt:
    return dsv4.encode([user([text("Look"), *blocks])], thinking=False, dialect=dialect)


@pytest.fixture(scope="module")
def v4_1() -> Tokenizer:
    return Tokenizer.load(dialect="v4.1")


class TestGrids:
    def test_one_for_each_image(self) -> None:
        grids = prompt_of(SCREENSHOT, REMOTE, PHOTO).image_grids
        assert [grid and (grid.columns, grid.rows, grid.tokens) for grid in grids] == [
            (41, 23, 968),
            None,
            (27, 36, 1010),
        ]

    def test_a_size_for_those_that_have_none(self) -> None:
        prompt = prompt_of(REMOTE, SCREENSHOT)
        sized = prompt.with_image_size(1, 1)
        assert [grid and grid.tokens for grid in sized.image_grids] == [184, 968]
        assert prompt.image_grids[0] is None
        assert pickle.loads(pickle.dumps(sized)).image_grids == sized.image_grids
        with pytest.raises(dsv4.OptionError, match="width: found 0"):
            prompt.with_image_size(0, 1)

    def test_those_of_results_stand_in_the_order_of_their_calls(self) -> None:
        conversation = [
            user("Look"),
            calling(call(id="a"), call(id="b")),
            result([PHOTO], "b"),
            result([SCREENSHOT], "a"),
        ]
        prompt = dsv4.encode(conversation, dialect="v4.1")
        assert [grid and grid.width for grid in prompt.image_grids] == [1920, 3024]

    def test_a_dialect_of_ones_own_without_a_rule(self) -> None:
        from dataclasses import replace

        mine = replace(dsv4.DIALECTS["v4.1"], name="mine", image_rule=None)
        prompt = dsv4.encode([user([SCREENSHOT])], dialect=mine)
        assert prompt.image_grids == [None]


class TestIds:
    def test_compact_and_expanded(self, v4_1: Tokenizer) -> None:
        prompt = prompt_of(SCREENSHOT, text("and"), PHOTO)
        compact, expanded = v4_1.encode(prompt), v4_1.encode(prompt, images="expanded")
        assert compact.count(IMAGE) == 2
        assert expanded.count(IMAGE) == 968 + 1010
        assert [id for id in expanded if id != IMAGE] == [id for id in compact if id != IMAGE]
        assert v4_1.count(prompt) == len(expanded)

    def test_masks_give_images_nothing(self, v4_1: Tokenizer) -> None:
        prompt = prompt_of(SCREENSHOT)
        for form in ("compact", "expanded"):
            ids, weights = v4_1.encode_masked(prompt, lambda *_: 1.0, images=form)
            assert len(ids) == len(weights)
            assert [weight for id, weight in zip(ids, weights, strict=True) if id == IMAGE] == [
                0.0
            ] * ids.count(IMAGE)
            assert weights.count(1.0) == len(ids) - ids.count(IMAGE)

    def test_spans_and_costs(self, v4_1: Tokenizer) -> None:
        prompt = prompt_of(SCREENSHOT, REMOTE)
        spans = v4_1.spans(prompt.with_image_size(1, 1), images="expanded")
        assert [s.end - s.start for s in spans if s.field == "image"] == [968, 184]
        assert v4_1.prompt_cost(prompt)[0, "image"] == 968 + 1

    @each_row(
        "block, problem",
        [
            (REMOTE, r"image 1 of 1: found only 'https://a\.b/c\.png', expected its bytes"),
            (image("data:image/png;base64,?"), "expected a picture in base64"),
            (image("data:image/png;base64,aGVsbG8="), "a file that begins with b'hello'"),
            ({"type": "image", "source": {"type": "file", "file_id": "f"}}, "found no bytes of it"),
        ],
    )
    def test_an_unknown_size(self, block: Any, problem: str) -> None:
        tokenizer, prompt = Tokenizer.load(), prompt_of(block)
        with pytest.raises(dsv4.ImageError, match=problem):
            tokenizer.count(prompt)
        with pytest.raises(dsv4.ImageError, match=problem):
            tokenizer.encode(prompt, images="expanded")
        assert tokenizer.encode(prompt).count(IMAGE) == 1
        assert tokenizer.image_tokens(prompt) == [None]

    def test_other_forms(self, v4_1: Tokenizer) -> None:
        form: Any = "long"
        with pytest.raises(dsv4.OptionError, match="images: found 'long', expected"):
            v4_1.encode(prompt_of(SCREENSHOT), images=form)

    def test_places_without_their_images(self, v4_1: Tokenizer) -> None:
        prompt = v4_1.prompt(v4_1.encode(prompt_of(SCREENSHOT)))
        with pytest.raises(dsv4.OptionError, match="found 1 places of images and 0 images"):
            v4_1.encode(prompt, images="expanded")

    def test_text_prompts_are_the_same_in_both_forms(self, v4_1: Tokenizer) -> None:
        prompt = prompt_of()
        assert v4_1.encode(prompt, images="expanded") == v4_1.encode(prompt)


class TestVisionPreview:
    def test_a_block_depends_on_what_stands_before_it(self) -> None:
        tokenizer = Tokenizer.load()
        for n in range(8):
            prompt = prompt_of(text("x" * n), SCREENSHOT, PHOTO, dialect="v4-vision")
            ids, counts = tokenizer.encode(prompt), []
            for width, height in ((1920, 1080), (3024, 4032)):
                place = [at for at, id in enumerate(ids) if id == IMAGE][len(counts)]
                start = place + sum(counts) - len(counts)
                grid = dsv4.image_grid(width, height, dialect="v4-vision", start=start)
                counts.append(grid.tokens)
            assert tokenizer.image_tokens(prompt) == counts
            assert tokenizer.count(prompt) == len(ids) + sum(counts) - 2

    def test_it_has_no_expanded_ids(self) -> None:
        with pytest.raises(dsv4.OptionError, match='found "expanded" for v4-vision'):
            Tokenizer.load().encode(prompt_of(SCREENSHOT, dialect="v4-vision"), images="expanded")


class TestSessions:
    def test_compact_ids_and_grids(self, v4_1: Tokenizer) -> None:
        session = Session(v4_1)
        for message in (user([SCREENSHOT]), assistant("a"), user([REMOTE]), assistant("b")):
            session.append(message)
        assert session.prompt_ids().count(IMAGE) == 2
        assert [grid and grid.tokens for grid in session.image_grids] == [968, None]


class TestPrefixes:
    """A picture is known by its bytes or its address, not by its placeholder."""

    @each_row(
        "before, after, same",
        [
            (SCREENSHOT, SCREENSHOT, True),
            (SCREENSHOT, picture(1920, 1080, b"other"), False),
            (REMOTE, REMOTE, True),
            (REMOTE, image("https://a.b/d.png"), False),
            (REMOTE, SCREENSHOT, False),
        ],
    )
    def test_pictures(self, before: Any, after: Any, same: bool) -> None:
        found = why_not_prefix(prompt_of(before, text("b")), prompt_of(after, text("b")))
        assert (found is None) is same
        assert found is None or (found.message, found.field, found.cause) == (0, "image", PICTURE)
