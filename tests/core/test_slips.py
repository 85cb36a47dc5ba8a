"""One slip in the markup of a well-formed block never makes another call of it.

`fuzz/slips.py` has the blocks and the slips, and says what an outcome is.
"""

from __future__ import annotations

from typing import Any

import pytest

from completions import DSML
from loading import loaded
from parts import each_share, fewer, part, share_of

slips = loaded("fuzz/slips.py")
random_blocks = loaded("fuzz/random_blocks.py")
# Of texts with two slips, so many may be read as another call, or lose one silently.
MOST_OF_TWO_WRONG = 0.04


@pytest.mark.parametrize("block", slips.BLOCKS, ids=lambda block: block.name)
def test_a_block_without_a_slip_is_read(block: Any) -> None:
    assert slips.outcome(slips.text_of(slips.tokens_of(block)), block)[0] == "same"


@pytest.mark.parametrize("block", slips.BLOCKS, ids=lambda block: block.name)
def test_no_slip_makes_another_call_or_loses_one_silently(block: Any) -> None:
    cases = part([*slips.slips(slips.tokens_of(block))], 10)
    bad = [str(one) for one in slips.tried(block, cases) if one.outcome in slips.BAD]
    assert bad == []


@each_share
def test_no_slip_in_a_random_block_does(share: int) -> None:
    numbers = share_of(range(fewer(1000, 200)), share)
    tried = [*random_blocks.tried(f"block {number}" for number in numbers)]
    bad = [str(one) for one in tried if one.outcome in slips.BAD]
    print(f"{len(bad)} of {len(tried)} slips make another call, or lose one silently")
    assert tried
    assert bad == []


# Named in recovery.md, under "What cannot be had".
UNTELLABLE = {
    *("doubled >", "doubled </", f"doubled {DSML}", 'doubled "'),
    *('doubled ">', 'doubled ="', "doubled ></", "doubled }</", 'doubled "></'),
    *("lost </", f"lost {DSML}", "lost parameter"),
    *(f"exchanged </ {DSML}", f"exchanged {DSML} parameter", "exchanged parameter >"),
}


def test_what_nobody_can_tell_is_a_close_or_a_bracket_in_a_text() -> None:
    """The strict grammar takes it for a part of the text, and the schema allows that."""
    for one in slips.singles(part(slips.BLOCKS, 4)):
        if one.outcome == "untellable":
            name = " ".join(f"{one.slip.kind} {one.slip.what}".split())
            assert name in UNTELLABLE, one


def test_two_slips_at_once() -> None:
    tried = [*slips.doubles(fewer(3000, 6), seed=1)]
    bad = [str(one) for one in tried if one.outcome in slips.BAD]
    assert len(bad) <= MOST_OF_TWO_WRONG * len(tried), bad


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        ([("run", {"script": "make -j2"})], "same"),
        ([("run", {"script": "make"})], "wrong"),
        ([("status", {})], "wrong"),
        ([], "silent"),
    ],
)
def test_outcomes(monkeypatch: pytest.MonkeyPatch, found: Any, outcome: str) -> None:
    monkeypatch.setattr(slips, "calls_of", lambda message: found)
    assert slips.outcome("<｜begin▁of▁sentence｜>", slips.BLOCKS[0])[0] == outcome
