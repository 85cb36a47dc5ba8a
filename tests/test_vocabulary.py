"""Finding a vocabulary, and telling whether it is the right one."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import dsv4
from builders import image, small_vocabulary, system, user
from dsv4._format.tokens import V3_2_TOKENS, V4_TOKENS
from dsv4.tokens import IdParser, Tokenizer, VocabularyError, vocabulary
from dsv4.tokens.vocabulary import Vocabulary, find_vocabulary

INSTALL = r"pip install .*\[tokens\]"
MINIMAL = small_vocabulary(V4_TOKENS)


def written(folder: Path, content: Any) -> Path:
    path = folder / "tokenizer.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


class TestFinding:
    def test_bundled(self, tokenizer: Tokenizer) -> None:
        assert find_vocabulary(None) == tokenizer.vocabulary.name

    def test_a_file_or_the_folder_of_a_checkpoint(self, tmp_path: Path) -> None:
        path = written(tmp_path, MINIMAL)
        assert find_vocabulary(path) == find_vocabulary(str(tmp_path)) == str(path)

    def test_a_relative_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = written(tmp_path, MINIMAL)
        monkeypatch.chdir(tmp_path)
        assert find_vocabulary("tokenizer.json") == str(path)

    def test_nothing_there(self, tmp_path: Path) -> None:
        with pytest.raises(VocabularyError, match=r"found no file .*tokenizer\.json, expected"):
            Tokenizer.load(tmp_path)

    @pytest.mark.parametrize("source", [4, b"tokenizer.json", []])
    def test_no_path(self, source: Any) -> None:
        with pytest.raises(VocabularyError, match="expected the path"):
            Tokenizer.load(source)

    def test_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(vocabulary, "find_spec", lambda name: None)
        with pytest.raises(VocabularyError, match=f"need the package .*: {INSTALL}"):
            Tokenizer.load()


class TestChecking:
    def test_a_vocabulary_with_all_that_v4_needs(self, tmp_path: Path) -> None:
        assert Tokenizer.load(written(tmp_path, MINIMAL)).special_id("<think>") == 128821

    def test_it_says_what_is_wrong(self, tmp_path: Path) -> None:
        added = [dict(token) for token in MINIMAL["added_tokens"]]
        added[0]["id"] = 7
        path = written(tmp_path, {**MINIMAL, "added_tokens": [added[0], *added[2:]]})
        with pytest.raises(VocabularyError) as caught:
            Tokenizer.load(path)
        problems = "<｜begin▁of▁sentence｜> is 7, expected 0; <｜end▁of▁sentence｜> is missing"
        assert str(caught.value) == f"{path} does not fit any dialect: {problems}"

    @pytest.mark.parametrize(
        "content",
        ["", "[", "[]", "4", "{}", {**MINIMAL, "model": {"vocab": [1]}}, {"model": {"vocab": {}}}],
    )
    def test_no_vocabulary_at_all(self, content: Any, tmp_path: Path) -> None:
        with pytest.raises(VocabularyError, match=r"is not a tokenizer\.json with a vocabulary"):
            Tokenizer.load(written(tmp_path, content))

    def test_what_is_wrong_is_said_in_short(self, tmp_path: Path) -> None:
        (tmp_path / "deep.json").write_text("[" * 200_000)
        (tmp_path / "binary.json").write_bytes(b"\xff" * 1_000_000)
        for name in ("deep", "binary"):
            with pytest.raises(VocabularyError) as caught:
                Tokenizer.load(tmp_path / f"{name}.json")
            assert len(str(caught.value)) < 300

    def test_no_text(self, tmp_path: Path) -> None:
        (tmp_path / "tokenizer.json").write_bytes(b"\xff\xfe")
        with pytest.raises(VocabularyError, match="is not a tokenizer"):
            Tokenizer.load(tmp_path)

    def test_the_bundled_one_has_no_tokens_of_v4_1(self, tokenizer: Tokenizer) -> None:
        prompt = dsv4.encode([user()], dialect="v4.1")
        for encode in (tokenizer.encode, tokenizer.encode_masked, tokenizer.spans):
            with pytest.raises(VocabularyError) as caught:
                encode(prompt)
            missing = "<｜System｜> is missing; <｜deepseek_image｜> is missing"
            assert str(caught.value).endswith(f"does not fit v4.1: {missing}")

    def test_v4_1_with_a_vocabulary_of_its_own(self, v4_1_file: str) -> None:
        prompt = dsv4.encode([system(), user([image()])], dialect="v4.1")
        ids = Tokenizer.load(v4_1_file).encode(prompt)
        assert ids[:2] == [0, 200_015]
        assert ids.count(200_016) == 1
        assert Tokenizer.load(v4_1_file).decode(ids) == str(prompt)

    def test_v3_2_with_a_vocabulary_of_its_own(self, tmp_path: Path) -> None:
        other = {"<think>": 128798, "</think>": 128799}
        content = small_vocabulary(V3_2_TOKENS)
        for token in content["added_tokens"]:
            token["id"] = other.get(token["content"], token["id"])
        tokenizer = Tokenizer.load(written(tmp_path, content))
        assert tokenizer.encode(dsv4.encode([user()], dialect="v3.2"))[-1] == 128798
        with pytest.raises(VocabularyError, match=r"does not fit v4: <think> is 128798, expected"):
            tokenizer.encode(dsv4.encode([user()]))

    def test_a_vocabulary_that_lacks_a_token_of_v3_2(self, tmp_path: Path) -> None:
        content = small_vocabulary(token for token in V3_2_TOKENS if "DSML" not in token)
        with pytest.raises(VocabularyError, match="does not fit any dialect: ｜DSML｜ is missing"):
            Tokenizer.load(written(tmp_path, content))

    def test_a_stream_needs_the_tokens_too(self) -> None:
        bare = Tokenizer(Vocabulary(json.dumps({**MINIMAL, "added_tokens": []}), "mine"))
        with pytest.raises(VocabularyError, match="mine has no special token <｜begin"):
            IdParser(bare)

    def test_a_model_that_no_engine_can_read(self) -> None:
        strange = {**MINIMAL, "model": {"type": "Strange", "vocab": {}}}
        for name in ("fastokens", "tokenizers"):
            pytest.importorskip(name)
            with pytest.raises(VocabularyError, match="mine cannot be read by the engine"):
                Tokenizer(Vocabulary(json.dumps(strange), "mine"), name).encode_text("Hi")


class TestReading:
    def test_bytes(self, tokenizer: Tokenizer) -> None:
        known = tokenizer.vocabulary
        assert (
            b"".join(map(known.bytes_of.__getitem__, tokenizer.encode_text("é\n ")))
            == b"\xc3\xa9\n "
        )
        assert known.bytes_of[128825] == "｜DSML｜".encode()
        assert {bytes([n]) for n in range(256)} <= set(known.bytes_of.values())

    def test_every_id_has_a_length(self, tokenizer: Tokenizer) -> None:
        known = tokenizer.vocabulary
        ids = {*known.content["model"]["vocab"].values(), *known.added.values()}
        assert known.length_of.keys() == known.bytes_of.keys() == ids
        assert known.length_of == {id: len(text) for id, text in known.bytes_of.items()}

    def test_pickles_as_text_alone(self) -> None:
        known = Vocabulary(json.dumps(MINIMAL), "mine")
        before = len(pickle.dumps(known))
        assert known.bytes_of[2] == b"!"
        assert len(pickle.dumps(known)) == before
        assert pickle.loads(pickle.dumps(known)).added == known.added
