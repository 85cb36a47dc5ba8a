"""How much of a prompt was there before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dsv4.serve.gateway_state import SeenPrefixes

IDS = st.lists(st.integers(0, 3), max_size=30)


@given(IDS, IDS)
def test_the_common_start_is_counted(a: list[int], b: list[int]) -> None:
    prefixes = SeenPrefixes()
    prefixes.note("ann", a)
    pairs = enumerate(zip(a, b, strict=False))
    expected = next((n for n, (x, y) in pairs if x != y), min(len(a), len(b)))
    assert prefixes.shared("ann", b) == expected
    assert prefixes.shared("bob", b) == 0


def test_the_best_of_the_last_counts_and_they_are_bounded() -> None:
    prefixes = SeenPrefixes()
    for n in range(100):
        prefixes.note("ann", [7, n, 1])
    assert prefixes.shared("ann", [7, 99, 1, 5]) == 3
    assert prefixes.shared("ann", [7, 0, 1, 5]) == 1
    for n in range(1000):
        prefixes.note(f"owner{n}", [1])
    assert prefixes.shared("ann", [7, 99, 1]) == 0
