"""`transformers`' `apply_chat_template`, with the encoder behind it."""

from __future__ import annotations

import copy
import pickle
from functools import lru_cache
from typing import Any, NamedTuple

import pytest

import dsv4
from builders import *
from dsv4.compat import chat_template, hf
from dsv4.tokens import Tokenizer, VocabularyError
from parts import part
from rows import each_row
from transformers_names import (
    Case,
    is_native,
    needs_tokens,
    needs_transformers,
    new_tokenizer,
    small_tokenizer,
    template_options,
)

NATIVE = [case for case in vectors("encode-v4.jsonl") if is_native(case)]


def written(messages: Any, tools: Any = None, **named: Any) -> Any:
    return hf.apply_chat_template(None, messages, tools, tokenize=False, **named)


class TestText:
    def test_how_many_vectors_there_are(self) -> None:
        assert len(NATIVE) == 200

    @each_row("case", NATIVE)
    def test_vectors(self, case: Case) -> None:
        named = {"add_generation_prompt": True, **template_options(case)}
        if "error" in case:
            with pytest.raises(dsv4.Error):
                written(case["messages"], **named)
        else:
            assert written(case["messages"], **named) == case["prompt"]

    def test_the_header_is_written_on_request(self) -> None:
        assert written([user("Hi")]) == f"{BOS}<｜User｜>Hi"
        asked = written([user("Hi")], add_generation_prompt=True)
        assert asked == f"{BOS}<｜User｜>Hi<｜Assistant｜><think>"

    def test_options_of_the_encoder(self) -> None:
        named: dict[str, Any] = {"drop_thinking": False, "dialect": "v4.1"}
        named["response_format"] = {"type": "object"}
        messages = [system(), user(), assistant(reasoning="hm"), user()]
        tools = [openai_tool()]
        expected = dsv4.encode(messages, tools=tools, effort=20, thinking=True, bos=False, **named)
        named |= {"reasoning_effort": 20, "add_default_bos_token": False}
        assert written(messages, tools, add_generation_prompt=True, **named) == str(expected)

    def test_thinking_has_two_names(self) -> None:
        def header(**named: Any) -> str:
            return written([user("Hi")], add_generation_prompt=True, **named)[-8:]

        assert header()[-7:] == header(thinking=True)[-7:] == "<think>"
        assert header(enable_thinking=True)[-7:] == "<think>"
        assert header(thinking=False) == header(enable_thinking=False) == "</think>"
        assert header(thinking=False, enable_thinking=False) == "</think>"
        with pytest.raises(dsv4.OptionError, match=r"thinking: .*expected one of them"):
            header(thinking=True, enable_thinking=False)

    def test_many_conversations(self) -> None:
        first, second = [user("a")], [user("b"), assistant("c")]
        assert written([first, second]) == [written(first), written(second)]
        assert written([first]) == [written(first)]
        assert written([Conversation(first)]) == [written(first)]
        assert written(Conversation(first)) == written(first)

    def test_a_parsed_message(self) -> None:
        parsed = dsv4.parse("hm</think>Hello")
        assert written([user("Hi"), parsed]).endswith(f"<think>hm</think>Hello{EOS}")

    @needs_transformers
    def test_a_function_as_a_tool(self) -> None:
        from transformers.utils import get_json_schema

        assert written([user()], [weather]) == written([user()], [get_json_schema(weather)])

    def test_what_may_stand_there_empty(self) -> None:
        named: dict[str, Any] = {"documents": None, "chat_template": None, "tokenizer_kwargs": {}}
        assert written([user()], sanitize_control_tokens=True, **named) == written([user()])


class Conversation(NamedTuple):
    messages: list[Any]


def weather(city: str) -> None:
    """
    Says what the weather is.

    Args:
        city: Where.
    """


class TestContinuing:
    @pytest.mark.parametrize("field", [True, "content"])
    def test_an_answer(self, field: Any) -> None:
        messages = [user("Hi"), assistant("Hel ", reasoning_content="hm")]
        found = written(messages, continue_final_message=field)
        assert found == f"{BOS}<｜User｜>Hi<｜Assistant｜><think>hm</think>Hel "
        assert "wo_eos" not in messages[-1]

    @pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
    def test_reasoning(self, field: str) -> None:
        messages = [user("Hi"), assistant("", **{field: "hm"})]
        found = written(messages, continue_final_message=field)
        assert found == f"{BOS}<｜User｜>Hi<｜Assistant｜><think>hm"

    def test_many_conversations(self) -> None:
        found = written([[assistant("a")], [assistant("b")]], continue_final_message=True)
        assert [prompt[-1] for prompt in found] == ["a", "b"]

    @pytest.mark.parametrize(
        ("last", "field", "path"),
        [
            (user(), True, "messages[0].role"),
            (calling({"function": {"name": "f"}}), True, "messages[0].tool_calls"),
            (assistant(task="title"), True, "messages[0].task"),
            (assistant("a", reasoning="b"), "reasoning", "messages[0].content"),
            (assistant("a"), "tool_calls", "continue_final_message"),
        ],
    )
    def test_what_cannot_be_continued(self, last: Any, field: Any, path: str) -> None:
        with pytest.raises(dsv4.Error) as caught:
            written([last], continue_final_message=field)
        assert caught.value.path == path

    def test_reasoning_that_is_not_shown(self) -> None:
        messages = [user(), assistant("", reasoning="hm")]
        with pytest.raises(dsv4.OptionError, match="shows no reasoning"):
            written(messages, continue_final_message="reasoning", thinking=False)


class TestErrors:
    def test_an_unknown_keyword(self) -> None:
        with pytest.raises(TypeError, match="unknown keyword 'thinking_mode', expected options of"):
            written([user()], thinking_mode="chat")

    @pytest.mark.parametrize("name", ["documents", "chat_template"])
    def test_what_has_no_use(self, name: str) -> None:
        with pytest.raises(TypeError, match=f"found {name}, which dsv4 has no use for"):
            written([user()], **{name: ["x"]})

    @pytest.mark.parametrize("messages", [[], "Hi", None, {"role": "user"}])
    def test_no_conversation(self, messages: Any) -> None:
        with pytest.raises(dsv4.EncodeError, match=r"^messages: found "):
            written(messages)

    def test_an_empty_conversation_among_others(self) -> None:
        with pytest.raises(dsv4.EncodeError, match=r"^messages\[1\]: found none"):
            written([[user()], []])
        with pytest.raises(dsv4.EncodeError, match=r"^messages\[1\]: found none"):
            written([[assistant()], []], continue_final_message=True)

    def test_which_of_many_conversations(self) -> None:
        with pytest.raises(dsv4.EncodeError, match=r"^messages\[2\]\[1\]\.content: found 5"):
            written([[user()], [user()], [user(), assistant(5)]])
        with pytest.raises(dsv4.EncodeError, match=r"^messages\[1\]\.content: found 5"):
            written([user(), assistant(5)])

    @pytest.mark.parametrize(
        ("named", "path"),
        [
            ({"reasoning_effort": "some"}, "reasoning_effort"),
            ({"add_default_bos_token": 1}, "add_default_bos_token"),
            ({"thinking": 1}, "thinking"),
            ({"drop_thinking": None}, "drop_thinking"),
            ({"tools": 4}, "tools"),
        ],
    )
    def test_options_have_the_names_that_the_caller_gave(
        self, named: dict[str, Any], path: str
    ) -> None:
        for messages in ([user()], [[user()], [user()]]):
            with pytest.raises(dsv4.OptionError) as caught:
                written(messages, **named)
            assert str(caught.value).startswith(f"{path}: found ")

    @pytest.mark.parametrize("named", [{"stride": 4}, {"add_special_tokens": True}])
    def test_what_a_tokenizer_cannot_be_told(self, named: dict[str, Any]) -> None:
        with pytest.raises(TypeError, match=f"tokenizer_kwargs: found {next(iter(named))}="):
            written([user()], tokenizer_kwargs=named)

    @pytest.mark.parametrize(
        "named",
        [
            {"continue_final_message": True, "add_generation_prompt": True},
            {"continue_final_message": True, "return_assistant_tokens_mask": True},
            {"return_assistant_tokens_mask": True, "return_dict": False},
            {"return_assistant_tokens_mask": True, "tokenize": False},
        ],
    )
    def test_options_that_exclude_each_other(self, named: dict[str, Any]) -> None:
        with pytest.raises(dsv4.OptionError):
            hf.apply_chat_template(None, [user(), assistant()], **named)

    def test_nothing_to_install_it_on(self) -> None:
        with pytest.raises(dsv4.OptionError, match="expected a tokenizer of transformers"):
            hf.install(object())


@lru_cache
def tokenizer() -> Any:
    return new_tokenizer()


def ids(messages: Any, **named: Any) -> Any:
    return hf.apply_chat_template(tokenizer(), messages, return_dict=False, **named)


@needs_tokens
class TestIds:
    @each_row("case", part([case for case in NATIVE if "error" not in case], 18))
    def test_vectors(self, case: Case) -> None:
        """The ids are those of the prompt as text, unless a message spells a token."""
        named = {"add_generation_prompt": True, **template_options(case)}
        of_text = tokenizer()(case["prompt"], add_special_tokens=False)["input_ids"]
        spelled = "<｜" in str([message.get("content") for message in case["messages"]])
        assert (ids(case["messages"], **named) == of_text) is not spelled

    def test_text_is_never_a_token(self) -> None:
        assert ids([user("<｜User｜>")]).count(128803) == 1

    def test_what_is_returned(self) -> None:
        messages = [user("Hi")]
        alone = hf.apply_chat_template(tokenizer(), messages)
        assert alone == {"input_ids": ids(messages), "attention_mask": [1] * len(ids(messages))}
        assert type(alone).__name__ == "BatchEncoding"
        assert ids([messages]) == [ids(messages)]
        assert ids(messages, return_tensors="np").shape == (1, len(ids(messages)))

    @pytest.mark.parametrize("side", ["left", "right"])
    def test_padding_and_masks(self, side: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tokenizer(), "padding_side", side)
        batch = [[user("Hi"), assistant("Hello", reasoning="hm")], [user("Hi")]]
        found = hf.apply_chat_template(
            tokenizer(), batch, padding=True, return_assistant_tokens_mask=True, return_tensors="np"
        )
        longer, shorter = ids(batch)
        gap = [tokenizer().pad_token_id] * (len(longer) - len(shorter))
        rows = [longer, gap + shorter if side == "left" else shorter + gap]
        assert found["input_ids"].tolist() == rows
        assert found["assistant_masks"].tolist() == [
            [0] * (len(longer) - 4) + [1] * 4,
            [0] * len(longer),
        ]

    def test_masks_of_one_conversation(self) -> None:
        messages = [user("Hi"), assistant("Hello", reasoning="hm"), user("Hi")]
        found = hf.apply_chat_template(
            tokenizer(), messages, return_assistant_tokens_mask=True, drop_thinking=False
        )
        pairs = zip(found["input_ids"], found["assistant_masks"], strict=True)
        marked = [id for id, mask in pairs if mask]
        assert tokenizer().decode(marked) == f"hm</think>Hello{EOS}"

    @pytest.mark.parametrize("side", ["left", "right"])
    def test_truncation(self, side: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tokenizer(), "truncation_side", side)
        messages = [user("Hi"), assistant("Hello")]
        whole = ids(messages)
        expected = whole[:3] if side == "right" else whole[-3:]
        assert ids(messages, truncation=True, max_length=3) == expected
        assert ids(messages, truncation=True) == whole

    def test_other_tokenizers(self) -> None:
        from dsv4.tokens import Tokenizer

        messages, named = [user("Hi")], {"return_dict": False}
        backend = tokenizer().backend_tokenizer
        assert hf.apply_chat_template(backend, messages, **named) == ids(messages)
        assert hf.apply_chat_template(Tokenizer.load(), messages, **named) == ids(messages)
        with pytest.raises(dsv4.OptionError, match="expected a tokenizer of transformers"):
            hf.apply_chat_template(Tokenizer.load(), messages)
        with pytest.raises(dsv4.OptionError, match=r"^tokenizer: "):
            hf.apply_chat_template(None, messages)


@needs_transformers
class TestDialects:
    @pytest.mark.parametrize(
        ("vocabulary", "name", "dialect"),
        [
            ("v4", "", "v4"),
            ("v4", "deepseek-ai/DeepSeek-V4-Flash", "v4"),
            ("v4", "deepseek-ai/DeepSeek-V4-Flash-0731", "v4-0731"),
            ("v4", "/models/DeepSeek-V4-Pro-0731/", "v4-0731"),
            ("v4", "/hub/models--deepseek-ai--DeepSeek-V4-Flash-0731/snapshots/abc", "v4-0731"),
            ("v4.1", "", "v4.1"),
            ("v4.1", "my-finetune", "v4.1"),
            ("v4.1", "deepseek-ai/DeepSeek-V4.1", "v4.1"),
        ],
    )
    def test_are_recognised(
        self, vocabulary: str, name: str, dialect: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level("INFO", "dsv4"):
            ours = hf.install(small_tokenizer(vocabulary, name))
        assert f"gets prompts of the dialect {dialect}" in caplog.text
        assert str(hf.dialect_of(ours)) == dialect
        assert ours.chat_template == chat_template(dialect)
        named = {"add_generation_prompt": True, "reasoning_effort": "high"}
        expected = str(dsv4.encode([user()], dialect=dialect, effort="high"))
        assert ours.apply_chat_template([user()], tokenize=False, **named) == expected
        found = ours.apply_chat_template([user()], return_dict=False, **named)
        assert ours.decode(found) == expected
        assert str(Tokenizer.wrap(ours).dialect) == dialect

    def test_one_that_is_asked_for(self) -> None:
        ours = hf.install(small_tokenizer("v4.1", "deepseek-ai/DeepSeek-V4.1"), dialect="v4")
        assert str(hf.dialect_of(ours)) == "v4"
        assert ours.apply_chat_template([user("Hi")], tokenize=False) == f"{BOS}<｜User｜>Hi"

    @pytest.mark.parametrize(
        ("name", "dialect"), [("deepseek-ai/DeepSeek-V4.1", None), ("", "v4.1")]
    )
    def test_one_that_does_not_fit(self, name: str, dialect: Any) -> None:
        with pytest.raises(VocabularyError, match=r"does not fit v4\.1: .*System.* is missing"):
            hf.install(small_tokenizer("v4", name), dialect)
        with pytest.raises(VocabularyError, match=r"does not fit v4\.1"):
            hf.apply_chat_template(small_tokenizer("v4", name), [user()], dialect=dialect)

    def test_another_models_tokenizer(self) -> None:
        from tokenizers import Tokenizer
        from tokenizers.models import WordLevel
        from transformers import PreTrainedTokenizerFast

        other = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"Hi": 0})))
        with pytest.raises(VocabularyError, match=r"does not fit any dialect: .* is missing"):
            hf.install(other)


@needs_transformers
class TestTokenizerOptions:
    def test_how_to_pad(self) -> None:
        batch = [[user("Hi")], [user("Hello")]]
        found = hf.apply_chat_template(
            small_tokenizer(),
            batch,
            padding=True,
            tokenizer_kwargs={"pad_to_multiple_of": 16, "padding_side": "left"},
            return_assistant_tokens_mask=True,
        )
        assert {len(row) for name in found for row in found[name]} == {16}
        assert [row[0] for row in found["attention_mask"]] == [0, 0]
        assert [row[-1] for row in found["attention_mask"]] == [1, 1]

    def test_what_is_returned(self) -> None:
        found = hf.apply_chat_template(
            small_tokenizer(),
            [user()],
            tokenizer_kwargs={"return_attention_mask": False, "add_special_tokens": False},
        )
        assert list(found) == ["input_ids"]

    def test_tensors_of_torch(self) -> None:
        torch = pytest.importorskip("torch")
        ours = hf.install(small_tokenizer())
        batch = [[user("Hi"), assistant("Hello")], [user("Hi")]]
        found = ours.apply_chat_template(
            batch, padding=True, return_tensors="pt", return_assistant_tokens_mask=True
        )
        plain = ours.apply_chat_template(batch, padding=True, return_assistant_tokens_mask=True)
        for name in ("input_ids", "attention_mask", "assistant_masks"):
            assert isinstance(found[name], torch.Tensor)
            assert found[name].tolist() == plain[name]
        alone = ours.apply_chat_template(batch[0], return_tensors="pt", return_dict=False)
        assert alone.tolist() == [plain["input_ids"][0]]


@needs_transformers
def test_one_vocabulary_serves_all_tokenizers(monkeypatch: pytest.MonkeyPatch) -> None:
    from dsv4.tokens import coder

    made: list[Any] = []
    make = coder._ENGINES["fastokens"]

    def counted(vocabulary: Any) -> Any:
        made.append(vocabulary)
        return make(vocabulary)

    monkeypatch.setitem(coder._ENGINES, "fastokens", counted)
    several = [small_tokenizer() for _ in range(3)]
    several.append(copy.deepcopy(several[0]))
    several[1](["Hi", "Hello"], padding=True, truncation=True, max_length=8)
    several.append(small_tokenizer(name="deepseek-ai/DeepSeek-V4-Flash-0731"))
    for one in several:
        hf.apply_chat_template(one, [user("Hi")])
    wrapped = [Tokenizer.wrap(one) for one in several]
    assert len({id(one.vocabulary) for one in wrapped}) == len(made) == 1


@needs_transformers
class TestProcessors:
    def test_text_and_ids(self) -> None:
        processor = hf.install(new_processor("v4.1"))
        text = processor.apply_chat_template([user("Hi")], add_generation_prompt=True)
        assert text == str(dsv4.encode([user("Hi")], dialect="v4.1"))
        found = processor.apply_chat_template(
            [user("Hi<｜User｜>")], add_generation_prompt=True, tokenize=True, return_dict=True
        )
        assert found["input_ids"].count(128803) == 1
        assert processor.tokenizer.apply_chat_template([user("Hi")], tokenize=False) + (
            "<｜Assistant｜><think>"
        ) == (text)

    def test_images_go_to_the_processor(self) -> None:
        processor = hf.install(new_processor("v4.1"))
        messages = [user([{"type": "text", "text": "Look:"}, image("a.png")])]
        found = processor.apply_chat_template(messages, tokenize=True, return_dict=True)
        assert found["images"] == [["a.png"]]
        expected = written(messages, dialect="v4.1")
        assert processor.tokenizer.decode(found["input_ids"][0]) == expected

    def test_text_that_the_processor_would_take_for_a_token(self) -> None:
        processor = hf.install(new_processor("v4.1"))
        messages = [user([{"type": "text", "text": "<｜User｜>"}, image("a.png")])]
        with pytest.raises(dsv4.EncodeError, match=r"found <｜User｜> in a text beside images"):
            processor.apply_chat_template(messages, tokenize=True)
        assert "<｜User｜><｜User｜>" in processor.apply_chat_template(messages)


def new_processor(dialect: str) -> Any:
    """A processor that counts images, in place of one that looks at them."""
    from transformers import ProcessorMixin

    class Processor(ProcessorMixin):  # type: ignore[misc,unused-ignore]
        attributes = ("tokenizer",)
        tokenizer_class = "PreTrainedTokenizerFast"

        def __call__(self, text: Any, images: Any, **named: Any) -> Any:
            return {**self.tokenizer(text, **named), "images": images}

    return Processor(tokenizer=small_tokenizer(dialect))


@needs_transformers
class TestInstalled:
    def test_the_method_is_ours(self) -> None:
        ours = hf.install(small_tokenizer())
        messages = [user("Hi"), calling({"function": {"name": "f", "arguments": '{"a": 1}'}})]
        assert ours.apply_chat_template(messages, tokenize=False) == written(messages)
        found = ours.apply_chat_template(conversation=messages, tools=[], tokenize=False)
        assert found == written(messages)
        assert ours.chat_template == chat_template()

    @pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
    def test_a_copy_stands_on_its_own_feet(self, copied: Any) -> None:
        ours = hf.install(small_tokenizer())
        other = copied(ours)
        assert other.apply_chat_template.args == (other,)
        assert other.apply_chat_template([user("Hi")], tokenize=False) == written([user("Hi")])

    def test_what_is_saved_has_the_template(self, tmp_path: Any) -> None:
        from transformers import AutoTokenizer

        hf.install(small_tokenizer()).save_pretrained(tmp_path)
        saved = AutoTokenizer.from_pretrained(tmp_path)
        found = saved.apply_chat_template([user("Hi")], tokenize=False)
        assert found == written([user("Hi")])
