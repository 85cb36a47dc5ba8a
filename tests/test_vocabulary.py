"""Finding a vocabulary, and telling whether it is the right one."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import dsv4
from builders import Message, call, image, result, small_vocabulary, system, user
from dsv4._format.tokens import V3_2_TOKENS, V4_TOKENS
from dsv4.tokens import IdParser, Tokenizer, VocabularyError, vocabulary
from dsv4.tokens.vocabulary import Vocabulary, find_vocabulary
from parts import fewer
from rows import each_row
from test_many_conversations import Talk

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

    def test_a_file_of_v4_that_is_given_for_v4_1(self, tmp_path: Path) -> None:
        mine = Tokenizer.load(written(tmp_path, MINIMAL))
        prompt = dsv4.encode([user()], dialect="v4.1")
        missing = "<｜System｜> is missing; <｜deepseek_image｜> is missing"
        for encode in (mine.encode, mine.encode_masked, mine.spans):
            with pytest.raises(VocabularyError) as caught:
                encode(prompt)
            assert str(caught.value).endswith(f"does not fit v4.1: {missing}")
        with pytest.raises(VocabularyError, match=r"does not fit v4\.1"):
            mine.with_dialect("v4.1")

    def test_a_file_of_v4_1_with_other_ids(self, tmp_path: Path) -> None:
        content = small_vocabulary(dsv4.DIALECTS["v4.1"].special_tokens)
        content["added_tokens"][-1]["id"] = 200_000
        with pytest.raises(VocabularyError, match="deepseek_image｜> is 200000, expected 129264"):
            Tokenizer.load(written(tmp_path, content), dialect="v4.1")

    def test_v4_1_with_a_vocabulary_of_its_own(self, v4_1_file: str) -> None:
        prompt = dsv4.encode([system(), user([image()])], dialect="v4.1")
        ids = Tokenizer.load(v4_1_file).encode(prompt)
        assert ids[:2] == [0, 128799]
        assert ids.count(129264) == 1
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


# Where the names in V4.1's file differ from those in V4's.
V4_1_NAMES = {
    128799: "<｜System｜>",
    129264: "<｜deepseek_image｜>",
    **{129265 + n: f"<|place_holder_mm_span_{436 + n:04}|>" for n in range(6)},
    129279: "<|place_holder_mm_span_0442|>",
}
SPELLED = (*V4_1_NAMES.values(), "<｜image2｜>", "<｜table｜>", "<｜User｜>", "<think>", "｜DSML｜")


class LaterTalk(Talk):
    """Conversations with images, and with texts that spell special tokens."""

    def user(self) -> Message:
        blocks = [{"type": "text", "text": self.words()}, image()]
        return user(self.sample(blocks, 2)) if self.often(0.3) else user(self.words())

    def assistant(self) -> Message:
        # In arguments, the placeholder of images is text like any other.
        arguments = {"x": self.choice(SPELLED)}
        return super().assistant() | {"tool_calls": [call("f", arguments, id="a")]}

    def tool(self) -> Message:
        return result([{"type": "text", "text": self.words()}, image()], "a")

    def words(self) -> str:
        allowed = [name for name in SPELLED if "deepseek_image" not in name]
        return f"天气 {self.choice(allowed)}, x" if self.often(0.5) else "naïve  café\n"


class TestLaterReleases:
    """V4.1 and the vision preview by the bundled vocabulary, whose reserved tokens they renamed."""

    def test_what_tokenizers_gives_for_the_renamed_file(self, tokenizer: Tokenizer) -> None:
        engine = pytest.importorskip("tokenizers").Tokenizer
        file = json.loads(Path(tokenizer.vocabulary.name).read_text("utf-8"))
        bare = engine.from_str(json.dumps({**file, "added_tokens": []}))
        for token in file["added_tokens"]:
            token["content"] = V4_1_NAMES.get(token["id"], token["content"])
        full = engine.from_str(json.dumps(file))
        talk = LaterTalk(41)
        whole = 0
        for _ in range(fewer(2_000, 40)):
            chosen = talk.options("v4.1")
            prompt = dsv4.encode(talk.conversation(chosen), **chosen)
            ids: list[int] = []
            for run, special in prompt.runs():
                ids += bare.encode(run, add_special_tokens=False).ids
                ids += [] if special is None else [full.token_to_id(special)]
            for tokenizer_of_v4_1 in (tokenizer, Tokenizer.load(dialect="v4.1")):
                assert tokenizer_of_v4_1.encode(prompt) == ids
                assert tokenizer_of_v4_1.encode_masked(prompt)[0] == ids
            assert Tokenizer.load(dialect="v4.1").decode(ids) == str(prompt)
            if not any(
                name in piece.text
                for piece in prompt.pieces
                if not piece.special
                for name in SPELLED
            ):
                assert full.encode(str(prompt), add_special_tokens=False).ids == ids
                whole += 1
        assert whole

    @each_row(
        "dialect, id, name",
        [
            ("v4", 129264, "<｜image2｜>"),
            ("v4", 129265, "<｜/table>｜"),
            ("v4-vision", 129264, "<｜deepseek_image｜>"),
            ("v4-vision", 128799, "<｜place▁holder▁no▁799｜>"),
            *(("v4.1", id, name) for id, name in V4_1_NAMES.items()),
        ],
    )
    def test_names(self, dialect: Any, id: int, name: str) -> None:
        tokenizer = Tokenizer.load(dialect=dialect)
        assert tokenizer.decode([id]) == name
        assert tokenizer.special_id(name) == id
        assert str(tokenizer.dialect) == dialect

    def test_the_text_is_a_file_in_which_they_are_special(self) -> None:
        engine = pytest.importorskip("tokenizers").Tokenizer
        made = engine.from_str(Tokenizer.load(dialect="v4.1").vocabulary.text)
        assert made.decode([128799, 77666, 129264], skip_special_tokens=True) == "Reason"
        assert made.encode("a<｜deepseek_image｜>", add_special_tokens=False).ids[-1] == 129264

    def test_all_of_them_share_one_engine(self) -> None:
        tokenizer = Tokenizer.load()  # not the fixture: a vocabulary that others pushed out is new
        others = [Tokenizer.load(dialect=name) for name in ("v4.1", "v4-vision")]
        assert {other.vocabulary.ordinary for other in others} == {tokenizer.vocabulary}
        assert tokenizer.with_dialect("v4.1").vocabulary is others[0].vocabulary
        assert others[0].with_dialect("v4.1") is others[0]

    def test_pickling(self) -> None:
        made = pickle.loads(pickle.dumps(Tokenizer.load(dialect="v4.1")))
        assert made is Tokenizer.load(dialect="v4.1")

    def test_ids_tell_their_dialect(self, tokenizer: Tokenizer) -> None:
        prompt = dsv4.encode([system("a"), user([image()])], dialect="v4.1")
        found = tokenizer.prompt(tokenizer.encode(prompt))
        assert (str(found), str(found.dialect)) == (str(prompt), "v4.1")


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
