"""The releases of the format, and how a model's name tells which one it was trained on."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

import dsv4
from builders import BOS, assistant, call, calling, developer, openai_tool, system, user
from dsv4 import DIALECTS, OptionError, dialect_for

EFFORT_MAX = "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
EFFORT_0731_MAX = "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\n"


def encode(*messages: dict[str, Any], **options: Any) -> str:
    return str(dsv4.encode(list(messages), **options))


def test_the_releases() -> None:
    assert list(DIALECTS) == ["v4", "v4-0731", "v4-vision", "v4.1", "v4.1-1017", "v3.2"]
    assert [str(dialect) for dialect in DIALECTS.values()] == list(DIALECTS)


def test_a_dialect_can_be_given_by_name_or_as_it_is() -> None:
    for name, dialect in DIALECTS.items():
        assert encode(user(), dialect=dialect) == encode(user(), dialect=name)


def test_a_dialect_stays_the_same_one_when_pickled() -> None:
    for dialect in DIALECTS.values():
        assert pickle.loads(pickle.dumps(dialect)) is dialect


def test_a_dialect_of_ones_own_is_pickled_by_value() -> None:
    own = dataclasses.replace(DIALECTS["v4.1"], name="mine", efforts={None: "", "xhigh": "!"})
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        same = pickle.loads(pickle.dumps(own, protocol))
        assert same == own
        assert hash(same) == hash(own)
    assert own != DIALECTS["v4.1"]
    prompt = pickle.loads(pickle.dumps(dsv4.encode([user()], dialect=own, effort="xhigh")))
    assert prompt.dialect == own
    assert prompt.text == f"{BOS}<｜System｜>!<｜User｜>Hi<｜Assistant｜><think>"


def test_tables_are_read_only() -> None:
    for table in (DIALECTS, *(dialect.efforts for dialect in DIALECTS.values())):
        with pytest.raises(TypeError):
            table["v5"] = None


def test_a_dialect_keeps_its_own_table() -> None:
    efforts = {None: ""}
    own = dataclasses.replace(DIALECTS["v4"], efforts=efforts)
    efforts["high"] = "!"
    assert "high" not in own.efforts


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"efforts": {"max": "!"}}, "efforts: found {'max': '!'}, expected None among them"),
        ({"tools_section": "All tools."}, "tools_section: found {schemas} 0 times, expected it"),
        ({"tools_section": "{schemas}{schemas}"}, "tools_section: found {schemas} 2 times"),
    ],
)
def test_a_dialect_that_could_not_be_written(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(OptionError) as caught:
        dataclasses.replace(DIALECTS["v4"], **fields)
    assert str(caught.value).startswith(problem)


def test_a_dialect_does_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DIALECTS["v4"].name = "v5"
    with pytest.raises(dataclasses.FrozenInstanceError):
        DIALECTS["v4"].tags.calls = "calls"


@pytest.mark.parametrize("dialect", ["v5", "V4", "", None, 4, ["v4"]])
def test_unknown_dialect(dialect: Any) -> None:
    with pytest.raises(OptionError) as caught:
        dsv4.encode([user()], dialect=dialect)
    expected = "one of v4, v4-0731, v4-vision, v4.1, v4.1-1017, v3.2, or a Dialect"
    assert str(caught.value) == f"dialect: found {dialect!r}, expected {expected}"


@pytest.mark.parametrize(
    ("model", "dialect"),
    [
        ("deepseek-ai/DeepSeek-V3.2", "v3.2"),
        ("DeepSeek-V3.2-Speciale", "v3.2"),
        ("DeepSeek-V4", "v4"),
        ("deepseek-ai/DeepSeek-V4-Pro", "v4"),
        ("deepseek-ai/DeepSeek-V4-Flash-Base", "v4"),
        ("unsloth/DeepSeek-V4-671B-GGUF", "v4"),
        ("deepseek_v4", "v4"),
        ("deepseek-ai/DeepSeek-V4-0731", "v4-0731"),
        ("DeepSeek-V4-Pro-0731", "v4-0731"),
        ("deepseek-v4-flash-0731-fp8", "v4-0731"),
        ("deepseek-ai/DeepSeek-V4-Flash-Vision-Exp", "v4-vision"),
        ("DeepSeek-V4.1", "v4.1"),
        ("deepseek-ai/DeepSeek-V4.1-Flash", "v4.1"),
        ("deepseek-v4_1", "v4.1"),
        # A provider's spelling of the point, and the checkpoint in a folder named after another.
        ("accounts/fireworks/models/deepseek-v4p1-flash", "v4.1"),
        ("deepseek-v4-1-flash", "v4.1"),
        ("/models/DeepSeek-V4/DeepSeek-V4.1-Flash-1017", "v4.1-1017"),
        ("bedrock/eu.deepseek.v3.2", "v3.2"),
        ("deepseek-v3-2-251201", "v3.2"),
        # What follows the version is no minor number.
        ("deepseek-v4-1m", "v4"),
        ("DeepSeek-V4-4bit", "v4"),
        # Dates, in the forms that providers write.
        ("DeepSeek-V4-Pro-0424", "v4"),
        ("DeepSeek-V4-0730", "v4"),
        ("DeepSeek-V4-0915", "v4-0731"),
        ("deepseek-v4-pro-260813", "v4-0731"),
        ("deepseek-v4-pro-2026-08-13", "v4-0731"),
        ("deepseek-v4-pro-270115", "v4-0731"),
        ("DeepSeek-V4-Flash-4096", "v4"),
        ("DeepSeek-V4.1-Flash-0910", "v4.1"),
        ("deepseek-v4p1-flash-261120", "v4.1-1017"),
        # Names of configurations, and a client's mark for a long context.
        *(("deepseek-v41-flash", "v4.1"), ("deepseek_v41", "v4.1"), ("deepseek_v32", "v3.2")),
        *(("dsv41", "v4.1"), ("ds-v4", "v4")),
        ("DeepSeek-V4.1-Flash-1017[1m]", "v4.1-1017"),
        # What providers write around a name.
        *(("deepseek/deepseek-v4.1-flash:free", "v4.1"), ("deepseek-v4-flash@001", "v4")),
        *(("DEEPSEEK-V4.1-FLASH-1017:Q4_K_M", "v4.1-1017"), ("DeepSeek-V4-0731-AWQ", "v4-0731")),
        *(("deepseek-v4.1-flash@20261017", "v4.1-1017"), ("us.deepseek.v4-1-v1:0", "v4.1")),
        ("~deepseek/deepseek-v4.1-flash-latest", "v4.1"),
    ],
)
def test_dialect_of_a_model(model: str, dialect: str) -> None:
    assert dialect_for(model) is DIALECTS[dialect]


@pytest.mark.parametrize(
    "model",
    [
        *("", "gpt-4", "DeepSeek-V3", "DeepSeek-V3.2-Exp", "DeepSeek-V40", "DeepSeek-V4.2"),
        *("DeepSeek-V4.10", "DeepSeek-V4-2", "llama-v4", "deepseek-v3p2-exp", None, 4),
        *("deepseek-v411", "deepseek-v31", "adsv41"),
        # A date without a year, from before the release; and another model that learned from it.
        *("DeepSeek-V4-0115", "Qwen3-8B-DeepSeek-V4-Distill"),
    ],
)
def test_a_model_that_tells_nothing(model: Any) -> None:
    with pytest.raises(dsv4.UnknownModel, match="no dialect is known for the model") as caught:
        dialect_for(model)
    assert repr(model) in str(caught.value)


@pytest.mark.parametrize(
    "model",
    [
        *("deepseek-flash", "deepseek-flash[1m]", "DeepSeek-Flash-Latest"),
        *("~deepseek/deepseek-flash-latest", "~deepseek/deepseek-pro-latest"),
        *("openrouter/deepseek/deepseek-flash:free", "deepseek/deepseek-flash@20261017"),
    ],
)
def test_a_name_of_the_official_api_names_its_profile(model: str) -> None:
    with pytest.raises(dsv4.UnknownModel, match="the profile deepseek-api knows them"):
        dialect_for(model)


class TestEffort:
    """Only in thinking mode, right after BOS."""

    @pytest.mark.parametrize("effort", [None, "high"])
    def test_v4_writes_nothing_but_for_max(self, effort: Any) -> None:
        assert encode(user(), effort=effort) == f"{BOS}<｜User｜>Hi<｜Assistant｜><think>"

    def test_v4_max(self) -> None:
        prompt = encode(system(), user(), effort="max")
        assert prompt.startswith(BOS + EFFORT_MAX)
        assert prompt.endswith("\n\nBe brief.<｜User｜>Hi<｜Assistant｜><think>")

    @pytest.mark.parametrize("effort", [None, "low"])
    def test_v4_0731_writes_nothing_for_low(self, effort: Any) -> None:
        prompt = encode(user(), effort=effort, dialect="v4-0731")
        assert prompt == f"{BOS}<｜User｜>Hi<｜Assistant｜><think>"

    @pytest.mark.parametrize("effort", ["", 0, False, 0.0, [], {}])
    @pytest.mark.parametrize("dialect", ["v4-0731", "v4-vision"])
    def test_what_counts_as_false_is_none(self, effort: Any, dialect: str) -> None:
        assert encode(user(), effort=effort, dialect=dialect) == encode(user(), dialect=dialect)

    def test_v4_0731_writes_the_old_max_for_high(self) -> None:
        high = encode(user(), effort="high", dialect="v4-0731")
        assert high == encode(user(), effort="max", dialect="v4")

    def test_v4_0731_has_a_max_of_its_own(self) -> None:
        prompt = encode(user(), effort="max", dialect="v4-0731")
        assert prompt.startswith(BOS + EFFORT_0731_MAX)
        assert prompt.endswith("\n\n<｜User｜>Hi<｜Assistant｜><think>")

    @pytest.mark.parametrize(
        ("effort", "number"),
        [(None, 75), ("low", 50), ("high", 75), ("max", 100), (1, 1), (100, 100)],
    )
    def test_v4_1_writes_a_number(self, effort: Any, number: int) -> None:
        line = (
            f"Reasoning Effort: {number} "
            "(range 1-100, the higher the value, the more thorough the reasoning)\n\n"
        )
        prompt = encode(user(), effort=effort, dialect="v4.1")
        assert prompt == f"{BOS}<｜System｜>{line}<｜User｜>Hi<｜Assistant｜><think>"

    @pytest.mark.parametrize(
        ("dialect", "effort"), [("v4", "max"), ("v4-0731", "max"), ("v4.1", 3), ("v4.1", None)]
    )
    def test_nothing_in_chat_mode(self, dialect: str, effort: Any) -> None:
        prompt = encode(user(), thinking=False, effort=effort, dialect=dialect)
        assert prompt == f"{BOS}<｜User｜>Hi<｜Assistant｜></think>"

    @pytest.mark.parametrize("thinking", [True, False])
    @pytest.mark.parametrize(
        ("dialect", "effort", "expected"),
        [
            ("v4", "low", 'None, "high" or "max" (v4)'),
            ("v4", "extreme", 'None, "high" or "max" (v4)'),
            ("v4", 1, 'None, "high" or "max" (v4)'),
            ("v4", "", 'None, "high" or "max" (v4)'),
            ("v4-0731", "xhigh", 'None, "low", "high" or "max" (v4-0731)'),
            ("v3.2", "high", "None (v3.2)"),
            *(
                (
                    "v4.1",
                    effort,
                    'None, "low", "high", "max" or a whole number from 1 to 100 (v4.1)',
                )
                for effort in (0, 101, True, 2.5, 50.0, "medium", "xhigh", "50", [], "", False)
            ),
        ],
    )
    def test_anything_else_is_an_error_in_both_modes(
        self, dialect: str, effort: Any, expected: str, thinking: bool
    ) -> None:
        with pytest.raises(OptionError) as caught:
            dsv4.encode([user()], thinking=thinking, effort=effort, dialect=dialect)
        assert str(caught.value) == f"effort: found {effort!r}, expected {expected}"


class TestV41:
    """Where V4.1 parts from V4."""

    def test_a_system_token_opens_the_prompt_before_a_system_turn(self) -> None:
        prompt = encode(system(), user(), thinking=False, dialect="v4.1")
        assert prompt == f"{BOS}<｜System｜>Be brief.<｜User｜>Hi<｜Assistant｜></think>"

    def test_a_later_system_turn_has_the_token_too_and_asks_for_an_answer(self) -> None:
        prompt = encode(system(), assistant(), system("Now rhyme."), thinking=False, dialect="v4.1")
        assert prompt.endswith(
            "Hello<｜end▁of▁sentence｜><｜System｜>Now rhyme.<｜Assistant｜></think>"
        )

    def test_in_v4_a_later_system_turn_is_plain_text_and_asks_nothing(self) -> None:
        prompt = encode(system(), assistant(), system("Now rhyme."), thinking=False)
        assert prompt == f"{BOS}Be brief.Hello<｜end▁of▁sentence｜>Now rhyme."

    def test_a_later_system_turn_drops_the_reasoning_before_it(self) -> None:
        messages = [user(), assistant(reasoning="hm"), system("Now rhyme.")]
        assert "hm" not in encode(*messages, dialect="v4.1")
        assert "hm" in encode(*messages, dialect="v4")

    def test_the_first_turn_is_counted_after_dropping(self) -> None:
        # The developer turn goes, so the system turn is the first and asks nothing.
        prompt = encode(developer(), system(), user(), dialect="v4.1", effort=1)
        assert prompt.count("<｜System｜>") == 1
        assert prompt.endswith("reasoning)\n\nBe brief.<｜User｜>Hi<｜Assistant｜><think>")

    def test_tag_names_have_a_leading_space(self) -> None:
        messages = [
            system(tools=[openai_tool()]),
            user(),
            calling(call(arguments={"city": "Rome"})),
        ]
        prompt = encode(*messages, dialect="v4.1")
        assert prompt.endswith(
            "\n\n<｜DSML｜ calls>\n"
            '<｜DSML｜ invoke name="weather">\n'
            '<｜DSML｜ parameter name="city" string="true">Rome</｜DSML｜ parameter>\n'
            "</｜DSML｜ invoke>\n"
            "</｜DSML｜ calls><｜end▁of▁sentence｜>"
        )
        assert '<｜DSML｜ invoke name="$TOOL_NAME">' in prompt
        assert "<｜DSML｜tool_calls>" not in prompt
        assert "<｜DSML｜invoke" not in prompt
        assert "<｜DSML｜parameter" not in prompt

    def test_tools_on_a_user_message_switch_dropping_off(self) -> None:
        messages = [user(tools=[openai_tool()]), assistant(reasoning="hm"), user()]
        assert "hm" in encode(*messages, dialect="v4.1")
        assert "hm" not in encode(*messages, dialect="v4")

    def test_tools_of_a_user_message_that_joins_a_turn_are_lost(self) -> None:
        messages = [user(), user(tools=[openai_tool()]), assistant(reasoning="hm"), user()]
        assert "hm" not in encode(*messages, dialect="v4.1")
