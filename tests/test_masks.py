"""Which tokens are whose, what they weigh, and a conversation as training examples."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given

import dsv4
from builders import *
from dsv4.tokens import Span, Tokenizer
from dsv4.tokens.masks import piece_token_ends
from strategies import conversations, options
from test_tokenizer import prompts

AGENT = [
    system(tools=[function("f")]),
    user("Weather?"),
    calling(call("f", {"q": "Rome"}), reasoning_content="Look."),
    result("sunny"),
    assistant("Sunny.", reasoning_content="Good."),
    user("And now?"),
    assistant("Rain.", reasoning_content="Hm."),
]

CHAT = [
    *(user("a"), assistant("b", reasoning_content="r1")),
    *(user("c"), assistant("d", reasoning_content="r2")),
]


def weighed(tokenizer: Tokenizer, prompt: dsv4.Prompt, policy: Any) -> str:
    """The text of the tokens that a policy gives a weight."""
    ids, weights = tokenizer.encode_masked(prompt, policy)
    assert ids == tokenizer.encode(prompt)
    assert len(weights) == len(ids)
    return tokenizer.decode(id for id, weight in zip(ids, weights, strict=True) if weight)


def written(prompt: dsv4.Prompt) -> str:
    return "".join(piece.text for piece in prompt.pieces if piece.origin == "model")


def meets_text(prompt: dsv4.Prompt) -> bool:
    """Whether text of the model's follows other text, without a special token between."""
    return any(
        not a.special and not b.special and (a.origin == "model") != (b.origin == "model")
        for a, b in pairwise(prompt.pieces)
    )


CALLS = """\n
<｜DSML｜tool_calls>
<｜DSML｜invoke name="f">
<｜DSML｜parameter name="q" string="true">Rome</｜DSML｜parameter>
</｜DSML｜invoke>
</｜DSML｜tool_calls>"""


class TestPolicies:
    @pytest.mark.parametrize(
        ("policy", "text"),
        [
            (
                "assistant",
                f"Look.</think>{CALLS}{EOS}Good.</think>Sunny.{EOS}Hm.</think>Rain.{EOS}",
            ),
            ("last_turn", f"Hm.</think>Rain.{EOS}"),
            ("answers", f"{CALLS}{EOS}Sunny.{EOS}Rain.{EOS}"),
            ("calls", CALLS),
        ],
    )
    def test_by_name(self, policy: str, text: str, tokenizer: Tokenizer) -> None:
        assert weighed(tokenizer, dsv4.encode(AGENT), policy) == text

    def test_a_function(self, tokenizer: Tokenizer) -> None:
        ids, weights = tokenizer.encode_masked(
            dsv4.encode(AGENT), lambda message, field: 0.5 * (message == 4 and field == "content")
        )
        assert set(weights) == {0.0, 0.5}
        half = [id for id, weight in zip(ids, weights, strict=True) if weight]
        assert tokenizer.decode(half) == "Sunny."

    def test_weights_are_floats(self, tokenizer: Tokenizer) -> None:
        _, weights = tokenizer.encode_masked(dsv4.encode(AGENT), lambda message, field: True)
        assert {type(weight) for weight in weights} == {float}

    @pytest.mark.parametrize("policy", ["user", "", None, 4])
    def test_unknown(self, policy: Any, tokenizer: Tokenizer) -> None:
        with pytest.raises(dsv4.OptionError, match=r"policy: .* assistant, last_turn, answers"):
            tokenizer.encode_masked(dsv4.encode(AGENT), policy)

    def test_nobody_wrote(self, tokenizer: Tokenizer) -> None:
        for policy in ("assistant", "last_turn", "answers", "calls"):
            assert weighed(tokenizer, dsv4.encode([user()]), policy) == ""


class TestWhatTheModelWrites:
    @pytest.mark.parametrize("dialect", ["v4", "v4-0731"])
    def test_every_vector(self, dialect: str, tokenizer: Tokenizer) -> None:
        checked = 0
        for prompt in prompts(dialect):
            if not meets_text(prompt):
                assert weighed(tokenizer, prompt, "assistant") == written(prompt)
                checked += 1
        assert checked > 30

    @given(messages=conversations, chosen=options("v4"))
    def test_at_random(self, messages: list[Any], chosen: Any, tokenizer: Tokenizer) -> None:
        prompt = dsv4.encode(messages, **chosen)
        if not meets_text(prompt):
            assert weighed(tokenizer, prompt, "assistant") == written(prompt)

    def test_text_that_meets_other_text(self, tokenizer: Tokenizer) -> None:
        # The full stop is the system's, and one token with the blank line before the call.
        prompt = dsv4.encode([system("Be brief."), calling(call("f"))], thinking=False)
        assert written(prompt).startswith("\n\n<｜DSML｜")
        assert weighed(tokenizer, prompt, "assistant").startswith(".\n\n<｜DSML｜")


class TestBorders:
    def pieces(self, *texts: str) -> list[dsv4.Piece]:
        return [dsv4.Piece(text, False, "caller", n, "content") for n, text in enumerate(texts)]

    @pytest.mark.parametrize(
        ("texts", "lengths", "ends"),
        [
            (["ab", "cd"], [2, 2], [1, 2]),
            (["ab", "cd"], [1, 2, 1], [1, 3]),  # what crosses belongs to the later
            (["ab", "c", "d"], [1, 3], [1, 1, 2]),  # … to the last of several
            (["é", "é"], [2, 1, 1], [1, 3]),  # lengths are those of bytes
            (["é", "é"], [1, 2, 1], [1, 3]),
            (["", "a"], [1], [0, 1]),
        ],
    )
    def test_of_tokens(self, texts: list[str], lengths: list[int], ends: list[int]) -> None:
        assert piece_token_ends(self.pieces(*texts), lengths) == ends

    def test_a_token_that_crosses_belongs_to_the_later_field(self, tokenizer: Tokenizer) -> None:
        prompt = dsv4.encode([system("Be brief.", tools=[function()])], bos=False)
        content, tools, *_ = tokenizer.spans(prompt)
        ids = tokenizer.encode(prompt)
        assert content.field == "content"
        assert tokenizer.decode(ids[content.start : content.end]) == "Be brief"
        assert tokenizer.decode(ids[tools.start : tools.end]).startswith(".\n\n## Tools")

    def test_characters_of_several_bytes(self, tokenizer: Tokenizer) -> None:
        prompt = dsv4.encode([user("天气𓀀"), user("𓀀气天")], bos=False)
        ids = tokenizer.encode(prompt)
        texts = {
            span.message: tokenizer.decode(ids[span.start : span.end])
            for span in tokenizer.spans(prompt)
            if span.field == "content"
        }
        assert texts == {0: "天气𓀀", 1: "𓀀气天"}


class TestSpans:
    def test_of_a_chat(self, tokenizer: Tokenizer) -> None:
        assert tokenizer.spans(dsv4.encode([user(), assistant("Yes")], thinking=False)) == [
            Span(0, 1, "template", None, "bos"),
            Span(1, 2, "template", 0, "header"),
            Span(2, 3, "caller", 0, "content"),
            Span(3, 5, "template", 1, "header"),
            Span(5, 6, "model", 1, "content"),
            Span(6, 7, "model", 1, "eos"),
        ]

    @given(messages=conversations, chosen=options("v4"))
    def test_cover_all_tokens(self, messages: list[Any], chosen: Any, tokenizer: Tokenizer) -> None:
        prompt = dsv4.encode(messages, **chosen)
        spans = tokenizer.spans(prompt)
        ends = [0, *(span.end for span in spans)]
        assert [span.start for span in spans] == ends[:-1]
        assert ends[-1] == tokenizer.count(prompt)
        assert all(span.start < span.end for span in spans)
        assert all(a[2:] != b[2:] for a, b in pairwise(spans))


def trained(tokenizer: Tokenizer, messages: list[Any], **chosen: Any) -> list[tuple[str, str]]:
    """Text and weighed text of each example."""
    return [
        (
            str(example.prompt),
            tokenizer.decode(id for id, w in zip(example.ids, example.weights, strict=True) if w),
        )
        for example in tokenizer.expand(messages, **chosen)
    ]


def learnt(tokenizer: Tokenizer, messages: list[Any], **chosen: Any) -> list[str]:
    return [weighed for _, weighed in trained(tokenizer, messages, **chosen)]


class TestExamples:
    def test_dropped_reasoning_takes_an_example_for_each_turn(self, tokenizer: Tokenizer) -> None:
        first, second = tokenizer.expand(CHAT)
        assert learnt(tokenizer, CHAT) == [f"r1</think>b{EOS}", f"r2</think>d{EOS}"]
        assert first.ids == tokenizer.encode(dsv4.encode(CHAT[:2]))
        assert second.ids == tokenizer.encode(dsv4.encode(CHAT))
        assert first.shared == 0
        assert first.ids[: second.shared] == second.ids[: second.shared]
        assert tokenizer.decode(second.ids[: second.shared]).endswith("<｜User｜>a<｜Assistant｜>")
        assert first.ids[second.shared] != second.ids[second.shared]

    @pytest.mark.parametrize("chosen", [{"drop_thinking": False}, {"tools": [function()]}])
    def test_reasoning_that_stays_takes_one(self, chosen: Any, tokenizer: Tokenizer) -> None:
        ((text, weighed),) = trained(tokenizer, CHAT, **chosen)
        assert text == str(dsv4.encode(CHAT, **chosen))
        assert weighed == f"r1</think>b{EOS}r2</think>d{EOS}"

    def test_no_thinking(self, tokenizer: Tokenizer) -> None:
        assert learnt(tokenizer, CHAT, thinking=False) == [f"b{EOS}d{EOS}"]

    def test_tools(self, tokenizer: Tokenizer) -> None:
        ((text, weighed),) = trained(tokenizer, AGENT)
        assert text == str(dsv4.encode(AGENT))
        assert weighed == written(dsv4.encode(AGENT))

    def test_results_without_declared_tools(self, tokenizer: Tokenizer) -> None:
        messages = [{**AGENT[0], "tools": []}, *AGENT[1:]]
        looks, *others = learnt(tokenizer, messages)
        assert looks == f"Look.</think>{CALLS}{EOS}"
        assert others == [f"Good.</think>Sunny.{EOS}", f"Hm.</think>Rain.{EOS}"]

    def test_several_assistants_in_a_row(self, tokenizer: Tokenizer) -> None:
        messages = [user(), assistant("b", reasoning_content="r"), assistant("c"), *CHAT]
        assert learnt(tokenizer, messages) == [
            f"r</think>b{EOS}</think>c{EOS}",
            f"r1</think>b{EOS}",
            f"r2</think>d{EOS}",
        ]

    def test_tools_that_come_late(self, tokenizer: Tokenizer) -> None:
        # The second answer was sampled when the first one's reasoning was gone; from then on all
        # is kept.
        messages = [*CHAT, system(tools=[function()]), user("e"), assistant("f")]
        examples = tokenizer.expand(messages)
        assert learnt(tokenizer, messages) == [
            *(f"r1</think>b{EOS}", f"r2</think>d{EOS}", f"</think>f{EOS}"),
        ]
        assert examples[-1].ids == tokenizer.encode(dsv4.encode(messages))

    def test_a_title_is_learnt_with_its_answer(self, tokenizer: Tokenizer) -> None:
        messages = [user(), assistant("b", task="title"), assistant("Greeting")]
        assert learnt(tokenizer, messages) == [f"</think>b{EOS}Greeting{EOS}"]

    def test_turns_that_nobody_answered(self, tokenizer: Tokenizer) -> None:
        assert learnt(tokenizer, [*CHAT[:2], user("c")]) == [f"r1</think>b{EOS}"]
        assert tokenizer.expand([user()]) == []

    def test_reminders_and_developers(self, tokenizer: Tokenizer) -> None:
        messages = [developer(), assistant("b"), reminder(), assistant("c"), user(), assistant()]
        assert learnt(tokenizer, messages) == [
            *(f"</think>b{EOS}</think>c{EOS}", f"</think>Hello{EOS}"),
        ]

    def test_what_parsing_gave(self, tokenizer: Tokenizer) -> None:
        message = dsv4.parse(f"r1</think>b{EOS}")
        assert learnt(tokenizer, [user("a"), message]) == [f"r1</think>b{EOS}"]

    @given(messages=conversations, chosen=options("v4"))
    def test_all_is_learnt_once_as_it_was_sampled(
        self, messages: list[Any], chosen: Any, tokenizer: Tokenizer
    ) -> None:
        examples = tokenizer.expand(messages, **chosen)
        weighed = "".join(text for _, text in trained(tokenizer, messages, **chosen))
        expected = ""
        roles = [message["role"] for message in messages]
        for n, role in enumerate(roles):
            if role == "assistant":
                stop = next((k for k in range(n, len(roles)) if roles[k] != role), len(roles))
                prompt = dsv4.encode(messages[:stop], **chosen)
                if meets_text(prompt):
                    return
                pieces = prompt.pieces
                expected += "".join(
                    p.text for p in pieces if p.origin == "model" and p.message == n
                )
        assert weighed == expected
        for before, example in pairwise(examples):
            assert before.ids[: example.shared] == example.ids[: example.shared]
