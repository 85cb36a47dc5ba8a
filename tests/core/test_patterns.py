"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from dsv4._completion.patterns import pattern


def test_it_does_what_a_compiled_one_does() -> None:
    found = pattern("b+", re.IGNORECASE)
    match = found.search("aBb", 1)
    assert match is not None
    assert match.span() == (1, 3)
    assert found.match("a") is None
    assert found.sub("-", "abba") == "a-a"
    assert found.pattern == "b+"


def test_it_is_compiled_once() -> None:
    found = pattern("a")
    assert found.match is found.match


def test_a_mistake_shows_when_it_is_used() -> None:
    wrong = pattern("(")
    with pytest.raises(re.error):
        wrong.match("a")


def test_importing_compiles_none_of_the_parsers() -> None:
    code = "import re, dsv4\nprint(sum('invoke' in str(key) for key in re._cache))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
