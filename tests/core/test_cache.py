"""The cache of texts: what it holds, its bound, and that prompts do not depend on it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import dsv4
from builders import call, calling, openai_tool, system
from dsv4._encode.tools import DEFAULT_CACHE_CHARACTERS, ParametersWriter, TextCache
from dsv4._format.dialects import V4


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    dsv4.set_cache_size(DEFAULT_CACHE_CHARACTERS)
    yield
    dsv4.set_cache_size(DEFAULT_CACHE_CHARACTERS)


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments that were read, one by one."""
    found: list[str] = []
    read = ParametersWriter._from_text

    def counting(self: ParametersWriter, arguments: str) -> Any:
        found.append(arguments)
        return read(self, arguments)

    monkeypatch.setattr(ParametersWriter, "_from_text", counting)
    return found


def encode(arguments: str) -> str:
    return str(dsv4.encode([calling(call("f", arguments))]))


def test_arguments_are_read_once(readings: list[str]) -> None:
    long = json.dumps({"code": "x = 1\n" * 10_000})
    for arguments in (long, '{"a": 1}', long, '{"a": 1}'):
        encode(arguments)
    assert readings == [long, '{"a": 1}']


def test_it_can_be_switched_off(readings: list[str]) -> None:
    dsv4.set_cache_size(0)
    first, second = encode('{"a": 1}'), encode('{"a": 1}')
    assert first == second
    assert len(readings) == 2


def test_resizing_empties_it(readings: list[str]) -> None:
    encode('{"a": 1}')
    dsv4.set_cache_size(1000)
    encode('{"a": 1}')
    assert len(readings) == 2


@pytest.mark.parametrize("size", [-1, 1.5, "1", None, True])
def test_a_wrong_size(size: Any) -> None:
    with pytest.raises(dsv4.OptionError, match=r"^characters: found .* expected a whole number"):
        dsv4.set_cache_size(size)


class TestBound:
    def stored(self, cache: TextCache) -> int:
        segments = [segment for alive in cache._segments if (segment := alive()) is not None]
        stored = [item for segment in segments for item in segment.texts.items()]
        return sum(len(key) + len(text) for key, text in stored)

    def test_by_characters_in_all(self) -> None:
        cache = TextCache(10_000)
        segments = [cache.segment() for _ in range(3)]
        for n in range(300):
            segments[n % 3].put(f"{n:050}", "x" * 100)
            assert self.stored(cache) <= 10_000
        assert self.stored(cache) > 1_000

    def test_many_small_ones_count_more_than_their_letters(self) -> None:
        cache = TextCache(10_000)
        segment = cache.segment()
        for n in range(10_000):
            segment.put(str(n), "")
        assert len(segment.texts) < 100

    def test_a_text_that_is_too_large_is_not_stored(self) -> None:
        cache = TextCache(10_000)
        segment = cache.segment()
        segment.put("k", "x" * 6_000)
        assert not segment.texts

    def test_what_was_written_last_is_there(self) -> None:
        cache = TextCache(10_000)
        segment = cache.segment()
        for n in range(1_000):
            segment.put(str(n), "y" * 100)
            assert segment.texts[str(n)] == "y" * 100
        assert "0" not in segment.texts

    def test_segments_without_an_owner_are_dropped(self) -> None:
        cache = TextCache(10_000)
        for _ in range(10):
            cache.segment().put("a", "b")
        assert len(cache._segments) <= 1


def test_dialects_and_rules_do_not_share(readings: list[str]) -> None:
    other = ParametersWriter(V4.tags, "anything")
    assert "arguments" in other.write("[1]")
    with pytest.raises(dsv4.EncodeError):
        encode("[1]")


def test_threads() -> None:
    dsv4.set_cache_size(20_000)
    wrong: list[str] = []

    def work(seed: int) -> None:
        for n in range(300):
            value = (seed * n) % 97
            if f'">{value}<' not in encode(f'{{"a": "{value}"}}').replace("true", ""):
                wrong.append(str(value))
            dsv4.encode([system(tools=[openai_tool(f"f{value}")])])

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
