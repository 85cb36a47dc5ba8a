"""Sessions, masks and `transformers` held against the encoder, on thousands of conversations.

A part of them is looked at in every run, 25 times as many with `make test-large`.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import pytest

import dsv4
from builders import *
from dsv4.tokens import Tokenizer
from parts import fewer
from test_session import Growing
from transformers_names import needs_transformers, small_tokenizer, with_objects

PART, ALL = 1, 25
sizes = pytest.mark.parametrize("size", [PART, pytest.param(ALL, marks=pytest.mark.large)])

TEXTS = ("", "a", "b\n", "\n\nc", "Ünïcode 天气", "<think>", "</｜DSML｜parameter>")
TASKS = ("query", "action", "domain")


class Talk(random.Random):
    """Conversations at random: the same for the same seed."""

    def often(self, share: float) -> bool:
        return self.random() < share

    def message(self) -> Message:
        makers = (self.user, self.assistant, self.tool, self.system, self.reminder, self.developer)
        (maker,) = self.choices(makers, (6, 5, 4, 2, 1, 2))
        return maker()

    def user(self) -> Message:
        task = {"task": self.choice(TASKS)} if self.often(0.1) else {}
        return user(self.choice(TEXTS), **task)

    def assistant(self) -> Message:
        made = assistant(self.choice(TEXTS))
        if self.often(0.6):
            made["reasoning_content"] = self.choice(TEXTS)
        if self.often(0.3):
            ids = self.choice(("a", "ab", "bac"))
            made["tool_calls"] = [call("f", {"x": self.choice(TEXTS)}, id=id) for id in ids]
        if self.often(0.1):
            made["wo_eos"] = True
        return made

    def tool(self) -> Message:
        return result(self.choice(TEXTS), self.choice("abc"))

    def system(self) -> Message:
        tools = {"tools": [function("g")]} if self.often(0.15) else {}
        return system(self.choice(TEXTS), **tools)

    def reminder(self) -> Message:
        return reminder(self.choice(TEXTS))

    def developer(self) -> Message:
        tools = {"tools": [function("g")]} if self.often(0.15) else {}
        return developer(self.choice(TEXTS) or "d", **tools)

    def options(self, *dialects: str) -> dict[str, Any]:
        chosen: dict[str, Any] = {"dialect": self.choice(dialects)}
        chosen |= {name: False for name in ("thinking", "drop_thinking") if self.often(0.25)}
        if self.often(0.2):
            chosen["tools"] = [function("f")]
        return chosen

    def conversation(self, chosen: dict[str, Any]) -> list[Message]:
        """One that can be encoded."""
        while True:
            made = [self.message() for _ in range(self.randint(1, 10))]
            try:
                dsv4.encode(made, **chosen)
            except dsv4.EncodeError:
                continue
            return made


# Those that merge turns. V3.2 keeps every turn apart and closes every answer: what is said here of
# open turns, and of why a prompt is rewritten, is not so there.
MERGING = [name for name, dialect in dsv4.DIALECTS.items() if dialect.layout == "v4"]


@sizes
def test_sessions(size: int, v4_1_file: str) -> None:
    """Ids, refusals, and the cause of every rewriting."""
    tokenizer = Tokenizer.load(v4_1_file)
    talk = Talk(size)
    compared = 0
    while compared < 2_080 * size:
        growing = Growing(tokenizer, talk.options(*MERGING))
        for _ in range(talk.randint(2, 12)):
            growing.add(talk.message())
            if talk.often(0.7):
                growing.ask()
                compared += 1


@sizes
def test_sessions_with_the_real_vocabulary(size: int, tokenizer: Tokenizer) -> None:
    """Here tokens merge."""
    talk = Talk(size)
    for _ in range(60 * size):
        growing = Growing(tokenizer, talk.options("v4", "v4-0731", "v4.1"))
        for _ in range(talk.randint(2, 8)):
            growing.add(talk.message())
            growing.ask()


def closes(message: Message, chosen: dict[str, Any]) -> bool:
    """Whether a turn ends with EOS: V3.2 knows no open turns."""
    return chosen["dialect"] == "v3.2" or not message.get("wo_eos")


@sizes
def test_masks(size: int, v4_1_file: str) -> None:
    """What is marked decodes to what the model would have written, turn by turn."""
    tokenizer = Tokenizer.load(v4_1_file)
    talk = Talk(size)
    turns = 0
    while turns < 276 * size:
        chosen = talk.options(*MERGING)
        conversation = talk.conversation(chosen)
        prompt = dsv4.encode(conversation, **chosen)
        for n, message in enumerate(conversation):
            if message["role"] != "assistant":
                continue
            turns += 1
            ids, weights = tokenizer.encode_masked(prompt, lambda m, _, n=n: float(m == n))
            mine = [piece for piece in prompt.pieces if piece.message == n]
            marked = [id for id, weight in zip(ids, weights, strict=True) if weight]
            assert tokenizer.decode(marked) == "".join(piece.text for piece in mine)
            assert (marked[-1:] == [1]) == closes(message, chosen)
        ids, weights = tokenizer.encode_masked(prompt)
        marked = [id for id, weight in zip(ids, weights, strict=True) if weight]
        written = "".join(piece.text for piece in prompt.pieces if piece.origin == "model")
        assert tokenizer.decode(marked) == written
        assert written.count(EOS) == sum(
            m["role"] == "assistant" and closes(m, chosen) for m in conversation
        )


@lru_cache
def installed(dialect: str) -> Any:
    from dsv4.compat import hf

    return hf.install(small_tokenizer("v4.1" if dialect == "v4-vision" else dialect), dialect)


@lru_cache
def templated(dialect: str) -> Any:
    from dsv4.compat import chat_template

    made = small_tokenizer("v4.1" if dialect == "v4-vision" else dialect)
    made.chat_template = chat_template(dialect)
    return made


@sizes
@needs_transformers
def test_transformers(size: int, v4_1_file: str) -> None:
    """The method that we install, and the template that `transformers` renders."""
    tokenizer = Tokenizer.load(v4_1_file)
    talk = Talk(size)
    for _ in range(fewer(190, 10) * size):
        chosen = talk.options("v4", "v4-0731", "v4-vision", "v4.1")
        conversation = with_objects(talk.conversation(chosen))
        prompt = dsv4.encode(conversation, **chosen)
        dialect = chosen.pop("dialect")
        named = {"add_generation_prompt": True, **chosen}
        ours = installed(dialect)
        found = ours.apply_chat_template(conversation, return_assistant_tokens_mask=True, **named)
        ids, weights = tokenizer.encode_masked(prompt)
        assert found["input_ids"] == ids
        assert found["assistant_masks"] == [int(weight) for weight in weights]
        text = templated(dialect).apply_chat_template(conversation, tokenize=False, **named)
        assert text == str(prompt)
