"""The engines: the same ids from each, and none of them knows a special token."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsv4
from builders import vectors
from dsv4.tokens import Tokenizer, VocabularyError, coder
from dsv4.tokens.vocabulary import Vocabulary, find_vocabulary
from strategies import texts

NAMES = ("fastokens", "tokenizers")


@pytest.fixture(scope="session")
def both(tokenizer: Tokenizer) -> list[Tokenizer]:
    pytest.importorskip("tokenizers")
    return [Tokenizer.load(engine=name) for name in NAMES]


def same(both: list[Tokenizer], text: str) -> list[int]:
    ids, others = (engine.encode_text(text) for engine in both)
    assert ids == others, text
    return ids


@given(text=texts | st.text(max_size=200))
def test_same_ids(both: list[Tokenizer], text: str) -> None:
    assert both[0].decode(same(both, text)) == text


def test_same_ids_of_real_prompts(both: list[Tokenizer]) -> None:
    for row in vectors("encode-v4.jsonl")[::25]:
        same(both, row.get("prompt", ""))


def test_no_special_token_in_text(both: list[Tokenizer]) -> None:
    added = both[0].vocabulary.added
    for spelling in added:
        ids = same(both, f"a{spelling}b")
        assert not set(ids) & set(added.values()), spelling


@pytest.mark.parametrize("name", NAMES)
def test_what_a_file_says_of_length_is_not_done(name: str, v4_1_file: str, tmp_path: Path) -> None:
    pytest.importorskip(name)
    content = json.loads(Path(v4_1_file).read_text("utf-8"))
    content["truncation"] = {
        **{"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    }
    content["padding"] = {
        **{"strategy": {"Fixed": 50}, "direction": "Right", "pad_to_multiple_of": None},
        **{"pad_id": 2, "pad_type_id": 0, "pad_token": "<｜▁pad▁｜>"},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), "utf-8")
    ids = Tokenizer.load(tmp_path, name).encode_text("one two three")
    assert ids == Tokenizer.load(v4_1_file, name).encode_text("one two three")
    assert len(ids) == 13


def test_auto_is_the_fastest_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coder, "find_spec", lambda name: object())
    assert coder.engine_named("auto") is coder.engine_named("fastokens")
    monkeypatch.setattr(coder, "find_spec", lambda name: name == "tokenizers" or None)
    assert coder.engine_named("auto") is coder.engine_named("tokenizers")


def test_one_shot_is_loaded_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coder, "find_spec", lambda name: object())
    assert coder.engine_named("one-shot") is coder.engine_named("tokenizers")
    monkeypatch.setattr(coder, "find_spec", lambda name: name == "fastokens" or None)
    assert coder.engine_named("one-shot") is coder.engine_named("fastokens")


def test_one_shot_reads_no_more_json_than_it_needs() -> None:
    for name in NAMES:
        pytest.importorskip(name)
    tokenizer = Tokenizer(Vocabulary.read(find_vocabulary(None)), "one-shot")
    prompt = dsv4.encode([{"role": "user", "content": "Hi <think> 好"}])
    assert tokenizer.encode(prompt) == Tokenizer.load(engine="fastokens").encode(prompt)
    assert "content" not in vars(tokenizer.vocabulary)


@pytest.mark.parametrize("name", ["auto", "one-shot", *NAMES])
def test_not_installed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coder, "find_spec", lambda name: None)
    with pytest.raises(VocabularyError, match=r"need the package \w+: pip install .*\[tokens\]"):
        coder.engine_named(name)


@pytest.mark.parametrize("name", ["tiktoken", "", None])
def test_unknown(name: str) -> None:
    with pytest.raises(VocabularyError, match="expected one of auto, one-shot, fasto"):
        Tokenizer.load(engine=name)
