"""A test over rows fails where a row does, and says which."""

from __future__ import annotations

import pytest

from rows import each_row, run_rows


class TestRows:
    def test_every_row_is_run(self) -> None:
        seen = []
        run_rows([1, 2, 3], lambda values: seen.append(*values))
        assert seen == [1, 2, 3]

    def test_those_that_fail_are_named_and_the_others_run(self) -> None:
        seen = []

        def check(values: tuple[int]) -> None:
            seen.append(values[0])
            assert values[0] % 2, "it is even"

        rows = [pytest.param(n, id=f"row {n}") for n in range(4)]
        with pytest.raises(pytest.fail.Exception, match="2 of 4 rows fail: row 0, row 2") as caught:
            run_rows(rows, check)
        assert seen == [0, 1, 2, 3]
        assert "it is even" in str(caught.value)

    def test_any_exception_is_a_failure(self) -> None:
        with pytest.raises(pytest.fail.Exception, match="1 of 2 rows fail: 1"):
            run_rows(["a", 5], lambda values: values[0].upper())

    def test_no_rows_is_a_mistake(self) -> None:
        with pytest.raises(AssertionError, match="no rows"):
            run_rows([], lambda values: None)

    def test_it_is_skipped_only_if_every_row_is(self) -> None:
        def check(values: tuple[int]) -> None:
            if values[0]:
                pytest.skip("not here")

        run_rows([0, 1], check)
        with pytest.raises(pytest.skip.Exception):
            run_rows([1, 2], check)


@each_row("left, right", [(1, 1), (2, 2)])
def test_fixtures_are_given_as_usual(left: int, right: int, request: pytest.FixtureRequest) -> None:
    assert left == right
    assert request.node.name.startswith("test_fixtures_are_given_as_usual")


class TestMethods:
    @each_row("number", [1, 2])
    def test_a_method_has_its_instance(self, number: int) -> None:
        assert isinstance(self, TestMethods)
        assert number in (1, 2)
