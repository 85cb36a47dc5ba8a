"""Tool calls as markup."""

from __future__ import annotations

import json
from typing import Any

import pytest

import dsv4
from builders import BOS, EOS, assistant, call, calling, user
from dsv4 import EncodeError


def encode(*calls: Any) -> str:
    prompt = str(dsv4.encode([calling(*calls)], thinking=False))
    return prompt.removeprefix(BOS).removesuffix(EOS)


def parameters(arguments: Any) -> str:
    """What stands between the tags of one call."""
    opening = '\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n'
    closing = "\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
    prompt = encode(call("f", arguments))
    assert prompt.startswith(opening)
    assert prompt.endswith(closing)
    return prompt[len(opening) : -len(closing)]


def string(key: str, text: str) -> str:
    return f'<｜DSML｜parameter name="{key}" string="true">{text}</｜DSML｜parameter>'


def other(key: str, text: str) -> str:
    return f'<｜DSML｜parameter name="{key}" string="false">{text}</｜DSML｜parameter>'


class TestBlock:
    def test_calls_are_joined_with_newlines(self) -> None:
        assert encode(call("f", '{"a": "x"}'), call("g", '{"b": 1}')) == (
            "\n\n<｜DSML｜tool_calls>\n"
            f'<｜DSML｜invoke name="f">\n{string("a", "x")}\n</｜DSML｜invoke>\n'
            f'<｜DSML｜invoke name="g">\n{other("b", "1")}\n</｜DSML｜invoke>\n'
            "</｜DSML｜tool_calls>"
        )

    def test_a_call_without_parameters_has_an_empty_line(self) -> None:
        assert parameters("{}") == ""
        assert '<｜DSML｜invoke name="f">\n\n</｜DSML｜invoke>' in encode(call("f"))

    def test_comes_after_the_content(self) -> None:
        prompt = dsv4.encode([assistant("Let me see.", tool_calls=[call()])])
        assert "Let me see.\n\n<｜DSML｜tool_calls>" in str(prompt)

    @pytest.mark.parametrize("none", [None, [], ()])
    def test_no_calls_no_block(self, none: Any) -> None:
        prompt = dsv4.encode([assistant(tool_calls=none)], thinking=False)
        assert str(prompt) == f"{BOS}Hello{EOS}"

    def test_a_tuple_is_a_list(self) -> None:
        prompt = dsv4.encode([assistant("", tool_calls=(call("f"),))], thinking=False)
        assert str(prompt) == BOS + encode(call("f")) + EOS


class TestParameters:
    def test_strings_are_raw_all_else_is_json(self) -> None:
        arguments = {
            "s": "1",
            "i": 1,
            "f": 1.5,
            "b": True,
            "n": None,
            "l": [1, "é"],
            "o": {"k": "v"},
        }
        assert parameters(arguments) == "\n".join(
            [
                string("s", "1"),
                other("i", "1"),
                other("f", "1.5"),
                other("b", "true"),
                other("n", "null"),
                other("l", '[1, "é"]'),
                other("o", '{"k": "v"}'),
            ]
        )

    def test_nothing_is_escaped(self) -> None:
        assert parameters({'a"b': '<"&\n</｜DSML｜parameter>'}) == string(
            'a"b', '<"&\n</｜DSML｜parameter>'
        )
        assert '<｜DSML｜invoke name="a"b">\n' in encode(call('a"b'))

    def test_an_object_and_its_json_are_the_same(self) -> None:
        arguments = {"city": "Rome", "days": [1, 2], "deep": {"x": None}}
        assert parameters(arguments) == parameters(json.dumps(arguments))

    @pytest.mark.parametrize("none", [None, {}, "{}", " {} "])
    def test_no_arguments(self, none: Any) -> None:
        assert parameters(none) == ""

    def test_missing_arguments(self) -> None:
        assert encode({"function": {"name": "f"}}) == encode(call("f", None))

    def test_json_as_python_reads_and_writes_it(self) -> None:
        assert parameters('{"a": NaN, "b": -0.0, "c": 1e2}') == "\n".join(
            [other("a", "NaN"), other("b", "-0.0"), other("c", "100.0")]
        )
        assert parameters('{"a": 1, "a": 2}') == other("a", "2")
        assert parameters('{"a": "\\u00e9"}') == string("a", "é")

    @pytest.mark.parametrize("broken", ["", "not JSON", '{"a": 1', "{'a': 1}"])
    def test_text_that_is_not_json_is_one_parameter(self, broken: str) -> None:
        assert parameters(broken) == string("arguments", broken)


class TestErrors:
    @pytest.mark.parametrize("arguments", ["[1]", "3", '"text"', "null"])
    def test_json_that_is_no_object(self, arguments: str) -> None:
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([user(), calling(call(), call(arguments=arguments))])
        assert str(caught.value) == (
            "messages[1].tool_calls[1].function.arguments: "
            f"found {arguments!r}, expected a JSON object"
        )

    @pytest.mark.parametrize("arguments", [3, True, [1], b"{}"])
    def test_neither_text_nor_object(self, arguments: Any) -> None:
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([calling(call(arguments=arguments))])
        assert str(caught.value) == (
            "messages[0].tool_calls[0].function.arguments: "
            f"found {arguments!r}, expected a JSON object, as text or as it is"
        )

    def test_a_key_that_is_not_text(self) -> None:
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([calling(call(arguments={3: "x"}))])
        assert str(caught.value) == (
            "messages[0].tool_calls[0].function.arguments: found the key 3, expected text"
        )

    def test_a_value_that_is_not_json(self) -> None:
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([calling(call(arguments={"when": {"at": b"now"}}))])
        assert caught.value.path == "messages[0].tool_calls[0].function.arguments.when.at"
        assert "b'now' cannot be written as JSON" in caught.value.problem

    @pytest.mark.parametrize("calls", ["[]", {"function": {}}, 3, True])
    def test_calls_that_are_no_list(self, calls: Any) -> None:
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([assistant(tool_calls=calls)])
        assert str(caught.value) == (
            f"messages[0].tool_calls: found {calls!r}, expected a list of calls"
        )

    @pytest.mark.parametrize(
        ("made", "place", "problem"),
        [
            ("f", "", "found 'f', expected a call object"),
            (None, "", "found None, expected a call object"),
            ({"id": "a"}, ".function", "found None, expected a function object"),
            ({"function": "f"}, ".function", "found 'f', expected a function object"),
            ({"function": {}}, ".function.name", "found None, expected the tool's name"),
            (call(3), ".function.name", "found 3, expected the tool's name"),
        ],
    )
    def test_what_is_no_call(self, made: Any, place: str, problem: str) -> None:
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([calling(call(), made)])
        assert str(caught.value) == f"messages[0].tool_calls[1]{place}: {problem}"


class TestRemembering:
    """Arguments seen before are not read again: that must never show."""

    def test_the_same_text_in_another_dialect(self) -> None:
        messages = [calling(call("f", '{"again": 1}'))]
        first, other = (str(dsv4.encode(messages, dialect=d)) for d in ("v4", "v4.1"))
        assert "<｜DSML｜parameter" in first
        assert "<｜DSML｜ parameter" in other

    def test_objects_are_read_every_time(self) -> None:
        arguments = {"a": 1}
        assert parameters(arguments) == other("a", "1")
        arguments["a"] = 2
        assert parameters(arguments) == other("a", "2")

    def test_errors_are_not_remembered_as_results(self) -> None:
        for _ in range(2):
            with pytest.raises(EncodeError):
                parameters("[1]")

    def test_places_are_those_of_this_call(self) -> None:
        for place in range(2):
            with pytest.raises(EncodeError, match=rf"tool_calls\[{place}\]"):
                encode(*[call()] * place, call("f", "[1]"))
