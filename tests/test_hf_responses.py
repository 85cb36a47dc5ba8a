"""`transformers`' `parse_response`, by the parser; and its `response_template` without us."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

import dsv4
from builders import EOS, assistant, call, function, openai_tool, user
from dsv4.compat import hf
from transformers_names import needs_transformers, small_tokenizer

pytestmark = needs_transformers

TURN = assistant(
    "Let me look.",
    reasoning_content="Paris.",
    tool_calls=[call("weather", {"city": "Paris", "days": 2}), call("time", {})],
)
READ = {
    "role": "assistant",
    "content": "Let me look.",
    "reasoning_content": "Paris.",
    "tool_calls": [
        call("weather", {"city": "Paris", "days": 2}),
        call("time", {}),
    ],
}


@lru_cache
def installed(dialect: str) -> Any:
    return hf.install(small_tokenizer(dialect), dialect, drop_thinking=False)


def written(dialect: str, turn: Any = TURN, **named: Any) -> tuple[Any, list[int], list[int]]:
    """A tokenizer, the ids of a prompt, and those of what the model writes after it."""
    tokenizer = installed(dialect)
    options = {"return_dict": False, **named}
    prompt = tokenizer.apply_chat_template([user()], add_generation_prompt=True, **options)
    whole = tokenizer.apply_chat_template([user(), turn], **options)
    return tokenizer, prompt, whole[len(prompt) :]


@pytest.mark.parametrize("dialect", ["v4", "v4.1"])
class TestRoundTrip:
    def test_ids_and_text_one_and_many(self, dialect: str) -> None:
        tokenizer, prompt, ids = written(dialect)
        assert tokenizer.parse_response(ids, prefix=prompt) == READ
        text, before = tokenizer.decode(ids), tokenizer.decode(prompt)
        assert tokenizer.parse_response(text, prefix=before) == READ
        assert tokenizer.parse_response([ids, ids], prefix=[prompt, prompt]) == [READ, READ]
        assert tokenizer.parse_response([text], prefix=before) == [READ]

    def test_without_thinking(self, dialect: str) -> None:
        tokenizer, prompt, ids = written(dialect, thinking=False)
        expected = {name: value for name, value in READ.items() if name != "reasoning_content"}
        assert tokenizer.parse_response(ids, prefix=prompt) == expected

    def test_the_template_reads_what_is_well_formed(self, dialect: str) -> None:
        """As `transformers` does where dsv4 is not installed."""
        from transformers import PreTrainedTokenizerFast

        for thinking in (True, False):
            tokenizer, prompt, ids = written(dialect, thinking=thinking)
            theirs = PreTrainedTokenizerFast.parse_response(tokenizer, ids, prefix=prompt)
            assert theirs == tokenizer.parse_response(ids, prefix=prompt)
            plain = written(dialect, assistant("Yes."), thinking=thinking)
            found = PreTrainedTokenizerFast.parse_response(plain[0], plain[2], prefix=plain[1])
            assert found["content"] == "Yes."


def test_malformed_calls_are_read() -> None:
    tokenizer, prompt, _ = written("v4")
    text = 'Hm.</think>\n\n<｜DSML｜invoke name="weather">\n<｜DSML｜parameter name="city" '
    read = tokenizer.parse_response(
        f'{text}string="true">Rome</｜DSML｜invoke>{EOS}',
        prefix=tokenizer.decode(prompt),
        tools=[openai_tool()],
    )
    assert read["tool_calls"][0]["function"]["name"] == "weather"


def test_functions_as_tools() -> None:
    def weather(city: str) -> None:
        """
        Says what the weather is.

        Args:
            city: Where.
        """

    tokenizer, prompt, ids = written("v4")
    read = tokenizer.parse_response(ids, prefix=prompt, tools=[weather])
    assert [made["function"]["name"] for made in read["tool_calls"]] == ["weather", "time"]


def test_defaults_of_an_installation() -> None:
    tokenizer = hf.install(small_tokenizer("v4"), thinking=False)
    assert tokenizer.apply_chat_template(
        [user()], tokenize=False, add_generation_prompt=True
    ) == str(dsv4.encode([user()], thinking=False))
    asked = tokenizer.apply_chat_template(
        [user()], tokenize=False, add_generation_prompt=True, thinking=True
    )
    assert asked == str(dsv4.encode([user()]))
    with pytest.raises(TypeError, match="install\\(\\) found tools, expected thinking"):
        hf.install(small_tokenizer("v4"), tools=[function()])
