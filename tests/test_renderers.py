"""PrimeIntellect's renderer protocol, tested with the package itself."""

from __future__ import annotations

import pytest

import dsv4
from builders import assistant, call, calling, openai_tool, result, system, user

renderers = pytest.importorskip("renderers")

from dsv4.compat.renderers import Renderer  # noqa: E402
from dsv4.tokens import Tokenizer  # noqa: E402

TOOLS = [openai_tool()]
TALK = [
    system(),
    user("Weather?"),
    calling(call(arguments={"city": "Paris"}, id="1"), reasoning_content="Ask."),
    result("rain", of="1"),
    assistant("It rains.", reasoning_content="So it says."),
]


@pytest.fixture
def renderer(tokenizer: Tokenizer) -> Renderer:
    return Renderer(tokenizer)


def test_it_is_a_renderer(renderer: Renderer) -> None:
    assert isinstance(renderer, renderers.Renderer)


def test_ids_are_the_encoders(renderer: Renderer, tokenizer: Tokenizer) -> None:
    prompt = dsv4.encode(TALK[:-1], tools=TOOLS, drop_thinking=False)
    found = renderer.render_ids(TALK[:-1], tools=TOOLS, add_generation_prompt=True)
    assert found == tokenizer.encode(prompt)
    without = renderer.render(TALK[:-1], tools=TOOLS).token_ids
    assert found[: len(without)] == without
    assert tokenizer.decode(found[len(without) :]) == "<｜Assistant｜><think>"


def test_each_id_has_its_message(renderer: Renderer, tokenizer: Tokenizer) -> None:
    rendered = renderer.render(TALK, tools=TOOLS)
    assert len(rendered.token_ids) == len(rendered.message_indices)
    ids, weights = tokenizer.encode_masked(dsv4.encode(TALK, tools=TOOLS, drop_thinking=False))
    assert rendered.token_ids == ids
    assert rendered.sampled_mask == [bool(weight) for weight in weights]
    assert rendered.message_tool_names == [None, None, None, "weather", None]
    body = [
        id
        for id, is_body in zip(ids, rendered.content_mask_for_roles({"tool"}), strict=True)
        if is_body
    ]
    assert tokenizer.decode(body) == "rain"


def test_a_training_sample(renderer: Renderer, tokenizer: Tokenizer) -> None:
    sample = renderers.build_training_sample(
        renderer, TALK, tools=TOOLS, role_to_mask=lambda message: message["role"] == "assistant"
    )
    ids, weights = tokenizer.encode_masked(dsv4.encode(TALK, tools=TOOLS, drop_thinking=False))
    assert sample.token_ids == ids
    assert [float(weight) for weight in sample.loss_mask] == weights


class TestParsing:
    def test_a_round_trip(self, renderer: Renderer) -> None:
        prompt = renderer.render_ids(TALK[:2], tools=TOOLS, add_generation_prompt=True)
        whole = renderer.render_ids(TALK[:3], tools=TOOLS)
        parsed = renderer.parse_response(whole[len(prompt) :], tools=TOOLS, prompt_ids=prompt)
        assert parsed.reasoning_content == "Ask."
        assert parsed.reasoning_complete
        assert [(c.name, c.arguments, c.status) for c in parsed.tool_calls] == [
            ("weather", {"city": "Paris"}, renderers.ToolCallParseStatus.OK)
        ]

    def test_what_was_cut_short(self, renderer: Renderer, tokenizer: Tokenizer) -> None:
        prompt = renderer.render_ids(TALK[:2], tools=TOOLS, add_generation_prompt=True)
        whole = renderer.render_ids(TALK[:3], tools=TOOLS)[len(prompt) :]
        parsed = renderer.parse_response(whole[:-8], tools=TOOLS, prompt_ids=prompt)
        assert parsed.tool_calls[0].status is renderers.ToolCallParseStatus.UNCLOSED_BLOCK
        assert not renderer.parse_response(whole[:2], prompt_ids=prompt).reasoning_complete


class TestBridging:
    def test_sampled_ids_are_kept(self, renderer: Renderer, tokenizer: Tokenizer) -> None:
        prompt = renderer.render_ids(TALK[:2], tools=TOOLS, add_generation_prompt=True)
        sampled = renderer.render_ids(TALK[:3], tools=TOOLS)[len(prompt) :]
        bridged = renderer.bridge_to_next_turn(prompt, sampled, [TALK[3]], tools=TOOLS)
        assert bridged is not None
        assert bridged.token_ids == renderer.render_ids(
            TALK[:4], tools=TOOLS, add_generation_prompt=True
        )
        assert bridged.tokens_per_message() == [
            len(tokenizer.encode_text("<tool_result>rain</tool_result>")) + 1
        ]

    def test_results_come_in_the_order_of_their_calls(self, renderer: Renderer) -> None:
        talk = [user("Weather?"), calling(call("f", id="1"), call("g", id="2"))]
        tools = [openai_tool("f"), openai_tool("g")]
        prompt = renderer.render_ids(talk[:1], tools=tools, add_generation_prompt=True)
        sampled = renderer.render_ids(talk, tools=tools)[len(prompt) :]
        first, second = renderer.parse_response(sampled, tools=tools, prompt_ids=prompt).tool_calls
        expected = renderer.render_ids(
            [*talk, result("one", "1"), result("two", "2")], tools=tools, add_generation_prompt=True
        )
        for results in (
            [result("two", second.id), result("one", first.id)],
            [{**result("two", "y"), "name": "g"}, {**result("one", "x"), "name": "f"}],
            [result("one", "x"), result("two", "y")],
        ):
            bridged = renderer.bridge_to_next_turn(prompt, sampled, results, tools=tools)
            assert bridged is not None
            assert bridged.token_ids == expected

    def test_other_tools_cannot_be_bridged(self, renderer: Renderer) -> None:
        prompt = renderer.render_ids(TALK[:2], tools=TOOLS, add_generation_prompt=True)
        sampled = renderer.render_ids(TALK[:3], tools=TOOLS)[len(prompt) :]
        other = [*TOOLS, openai_tool("another")]
        assert renderer.bridge_to_next_turn(prompt, sampled, [TALK[3]], tools=other) is None
        assert renderer.bridge_to_next_turn(prompt, sampled, [TALK[3]], tools=TOOLS) is not None

    def test_a_turn_that_was_cut_is_closed(self, renderer: Renderer) -> None:
        prompt = renderer.render_ids([user("Hi")], add_generation_prompt=True)
        bridged = renderer.bridge_to_next_turn(prompt, [42], [user("Go on.")])
        assert bridged is not None
        expected = [*prompt, 42, *renderer.get_stop_token_ids()]
        assert bridged.token_ids[: len(expected)] == expected

    def test_what_cannot_be_bridged(self, tokenizer: Tokenizer) -> None:
        dropping = Renderer(tokenizer, drop_thinking=True)
        assert not dropping.is_prefix_stable
        assert dropping.bridge_to_next_turn([0], [1], [user("Hi")]) is None
        assert Renderer(tokenizer).bridge_to_next_turn([0], [1], [assistant()]) is None
