"""The chat template of every dialect, in the engines that render it: the encoder's bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dsv4
from builders import assistant, call, calling, image, openai_tool, result, text, user, vectors
from dsv4.compat import chat_template
from dsv4.compat.templates import ENGINES, TEMPLATED
from parts import fewer, part
from rows import each_row
from strategies import conversations, json_objects, json_values, options, tools
from transformers_names import Case, has_string_arguments, is_native, template_options, with_objects

Render = Callable[..., str]


def _refuse(problem: str) -> None:
    raise ValueError(problem)


def _jinja2(source: str, **filters: Any) -> Render:
    import jinja2

    environment = jinja2.Environment()
    environment.filters |= filters
    template = environment.from_string(source)
    return lambda **named: template.render(raise_exception=_refuse, **named)


def _minijinja(source: str, **filters: Any) -> Render:
    import minijinja

    environment = minijinja.Environment(templates={"chat": source})
    environment.add_function("raise_exception", _refuse)
    for name, function in filters.items():
        environment.add_filter(name, function)
    return lambda **named: environment.render_template("chat", **named)


MAKERS = {"jinja2": _jinja2, "minijinja": _minijinja}


def needs(engine: str) -> Any:
    missing = find_spec(engine) is None
    return pytest.param(engine, marks=pytest.mark.skipif(missing, reason=f"no {engine}"))


@lru_cache
def renderer(engine: str, dialect: str) -> Render:
    return MAKERS[engine](chat_template(dialect, engine))


def render(engine: str, messages: Any, dialect: str = "v4", **named: Any) -> str:
    named = {"add_generation_prompt": True, **named}
    return renderer(engine, dialect)(messages=messages, **named)


in_engines = pytest.mark.parametrize("engine", [needs(engine) for engine in MAKERS])
in_dialects = pytest.mark.parametrize("dialect", TEMPLATED)


def cases(dialect: str) -> list[Case]:
    return [case for case in vectors(f"encode-{dialect}.jsonl") if is_native(case)]


OTHER_NAMES = {"effort": "reasoning_effort", "bos": "add_default_bos_token"}
NATIVE_NAMES = {theirs: ours for ours, theirs in OTHER_NAMES.items()}


def native(messages: Any, dialect: str, named: dict[str, Any]) -> str:
    """Arguments that are no object are another thing as text than as they are."""
    options = {NATIVE_NAMES.get(name, name): value for name, value in named.items()}
    return str(dsv4.encode(messages, dialect=dialect, **options))


@in_engines
class TestVectors:
    @each_row(
        "dialect, case",
        part([(dialect, case) for dialect in TEMPLATED for case in cases(dialect)], 12),
    )
    def test_each(self, engine: str, dialect: str, case: Case) -> None:
        named = template_options(case)
        messages = case["messages"] if "error" in case else with_objects(case["messages"])
        if "error" in case or has_string_arguments(messages):
            with pytest.raises(Exception, match=": "):
                render(engine, messages, dialect, **named)
        else:
            prompt = native(messages, dialect, named) if messages != case["messages"] else None
            assert render(engine, messages, dialect, **named) == (prompt or case["prompt"])


@in_engines
@in_dialects
class TestEveryConversation:
    @settings(max_examples=fewer(100, 8))
    @given(st.data())
    def test_is_as_encoded(self, engine: str, dialect: str, data: st.DataObject) -> None:
        messages = with_objects(data.draw(conversations))
        named = data.draw(options(dialect))
        named |= {"tools": data.draw(st.none() | tools)}
        named |= {"response_format": data.draw(st.none() | json_objects)}
        try:
            expected = str(dsv4.encode(messages, **named))
        except dsv4.EncodeError:
            expected = "refused"
        named.pop("dialect")
        try:
            found = render(
                engine, messages, dialect, **{OTHER_NAMES.get(n, n): v for n, v in named.items()}
            )
        except Exception:
            found = "refused"
        assert found == expected


@in_engines
class TestJson:
    @settings(max_examples=fewer(300, 4))
    @given(json_values)
    def test_every_value_is_written_as_python_does(self, engine: str, value: Any) -> None:
        messages = [user(), calling(call("f", {"a": [value]}))]
        assert render(engine, messages) == str(dsv4.encode(messages))

    @pytest.mark.parametrize(
        "value",
        [
            1e22,
            1e-7,
            1e-5,
            -1.25e-5,
            0.0001,
            1e16,
            -1.5e300,
            float("nan"),
            float("-inf"),
            2**70,
            "\\u003c",
            "\\\\<",
        ],
    )
    def test_what_engines_write_in_their_own_way(self, engine: str, value: Any) -> None:
        messages = [user(), calling(call("f", {"a": [value]}))]
        assert render(engine, messages) == str(dsv4.encode(messages))

    @pytest.mark.parametrize("dialect", TEMPLATED)
    def test_arguments_as_strings_where_a_filter_reads_json(
        self, engine: str, dialect: str
    ) -> None:
        reading = MAKERS[engine](chat_template(dialect, engine), fromjson=json.loads)
        messages = [user(), calling(call("f", '{"b": 1, "a": "x"}'), call("g", "{}"))]
        found = reading(messages=messages)
        assert found == str(dsv4.encode(messages, dialect=dialect))
        with pytest.raises(Exception, match="found a string, expected the object"):
            render(engine, messages, dialect)


@in_engines
class TestImages:
    def test_images_and_results_in_lists(self, engine: str) -> None:
        listed = [{"type": "tool_result", "tool_use_id": "b", "content": [text("x"), image()]}]
        messages = [
            user([text("a"), image(), text("b")]),
            calling(call("f", {}, id="a"), call("g", {}, id="b")),
            user([*listed, text("c")]),
            result([text("y"), image()], of="a"),
        ]
        for thinking in (True, False):
            expected = dsv4.encode(messages, thinking=thinking, dialect="v4.1")
            assert render(engine, messages, "v4.1", thinking=thinking) == str(expected)

    def test_an_image_without_a_source(self, engine: str) -> None:
        with pytest.raises(Exception, match="without a source"):
            render(engine, [user([{"type": "image_url", "image_url": {}}])], "v4.1")

    def test_the_token_in_a_text(self, engine: str) -> None:
        token = str(dsv4.DIALECTS["v4.1"].image_token)
        for message in (user(token), user([text(token)]), assistant(reasoning_content=token)):
            with pytest.raises(Exception, match=r"found <.*> in a text"):
                render(engine, [message], "v4.1", thinking=False)


class TestForms:
    @in_dialects
    @pytest.mark.parametrize("engine", ENGINES)
    def test_only_transformers_has_a_tag_for_what_the_model_wrote(
        self, engine: str, dialect: str
    ) -> None:
        assert ("generation -%}" in chat_template(dialect, engine)) is (engine == "transformers")

    def test_what_there_is_no_template_for(self) -> None:
        with pytest.raises(dsv4.OptionError, match="engine: found 'vllm', expected one of transf"):
            chat_template(engine="vllm")
        with pytest.raises(dsv4.OptionError, match="dialect: found 'v9', expected one of"):
            chat_template("v9")

    def test_an_engine_that_raises_nothing_of_its_own_still_fails(self) -> None:
        jinja2 = pytest.importorskip("jinja2")
        template = jinja2.Environment().from_string(chat_template(engine="jinja2"))
        with pytest.raises(jinja2.UndefinedError, match="messages: found none"):
            template.render(messages=[])

    def test_thinking_counts_before_what_llama_cpp_sets_for_every_request(self) -> None:
        pytest.importorskip("jinja2")
        render = _jinja2(chat_template(engine="llama.cpp"))
        asked = {"messages": [user()], "add_generation_prompt": True, "enable_thinking": True}
        assert render(**asked, thinking=False).endswith("</think>")
        assert render(**asked).endswith("<think>")

    @in_engines
    def test_tools_of_the_request(self, engine: str) -> None:
        for messages in ([user()], [{"role": "system", "content": "a"}, user()]):
            for dialect in TEMPLATED:
                expected = dsv4.encode(messages, tools=[openai_tool()], dialect=dialect)
                found = render(engine, messages, dialect, tools=[openai_tool()])
                assert found == str(expected)
