"""Tool schemas as the prompt shows them."""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import Any

import pytest

import dsv4
from builders import function, openai_tool, system, user
from dsv4 import EncodeError


def schemas(*tools: Any) -> list[str]:
    """The lines of the tools section that show the tools."""
    prompt = str(dsv4.encode([system(tools=list(tools))]))
    opening, closing = "### Available Tool Schemas\n\n", "\n\nYou MUST strictly follow"
    return prompt.split(opening)[1].split(closing)[0].split("\n")


def error_of(*tools: Any) -> str:
    with pytest.raises(EncodeError) as caught:
        dsv4.encode([user(), system(tools=list(tools))])
    return str(caught.value)


def test_one_json_object_a_line_in_the_order_given() -> None:
    assert schemas(openai_tool("b", description="é\n"), openai_tool("a", strict=True)) == [
        '{"name": "b", "description": "é\\n"}',
        '{"name": "a", "strict": true}',
    ]


def test_bare_functions_are_tools_too() -> None:
    assert schemas(function("f", parameters={})) == ['{"name": "f", "parameters": {}}']


def test_braces_in_a_schema_are_only_braces() -> None:
    assert schemas(function("{schemas}")) == ['{"name": "{schemas}"}']


class TestErrors:
    @pytest.mark.parametrize(
        ("tool", "place", "problem"),
        [
            ("f", "", "found 'f', expected a tool object"),
            (None, "", "found None, expected a tool object"),
            ({}, ".function", "found None, expected a function object"),
            ({"type": "function"}, ".function", "found None, expected a function object"),
            ({"function": "f"}, ".function", "found 'f', expected a function object"),
            ({"function": {}}, ".function.name", "found None, expected the tool's name"),
            (openai_tool(""), ".function.name", "found '', expected the tool's name"),
            (openai_tool(3), ".function.name", "found 3, expected the tool's name"),
            (function(None), ".name", "found None, expected the tool's name"),
        ],
    )
    def test_what_is_no_tool(self, tool: Any, place: str, problem: str) -> None:
        assert error_of(openai_tool(), tool) == f"messages[1].tools[1]{place}: {problem}"

    def test_a_schema_that_is_not_json(self) -> None:
        message = error_of(openai_tool("f", parameters={"a": [{1, 2}]}))
        assert message.startswith("messages[1].tools[0].function.parameters.a[0]: {1, 2} ")
        assert "cannot be written as JSON" in message

    def test_a_schema_nested_too_deep(self) -> None:
        deep: list[Any] = []
        for _ in range(sys.getrecursionlimit() * 100):
            deep = [deep]
        assert "cannot be written as JSON" in error_of(openai_tool("f", parameters=deep))

    @pytest.mark.parametrize("tools", ["tools", openai_tool(), 3, {openai_tool.__name__}])
    def test_tools_that_are_no_list(self, tools: Any) -> None:
        with pytest.raises(EncodeError) as caught:
            dsv4.encode([system(tools=tools)])
        assert str(caught.value).startswith("messages[0].tools: found ")
        assert str(caught.value).endswith(", expected a list of tools")


class TestRemembering:
    """Tools seen before are not written anew: that must never show."""

    def test_one_is_not_true(self) -> None:
        for value, json in ((1, "1"), (True, "true"), (1.0, "1.0"), (1, "1")):
            assert schemas(function("f", n=value)) == [f'{{"name": "f", "n": {json}}}']

    def test_zeros_have_signs(self) -> None:
        for value, json in ((0.0, "0.0"), (-0.0, "-0.0"), (0, "0"), (False, "false")):
            assert schemas(function("f", n=value)) == [f'{{"name": "f", "n": {json}}}']

    def test_the_order_of_keys_counts(self) -> None:
        assert schemas({"name": "f", "a": 1}) == ['{"name": "f", "a": 1}']
        assert schemas({"a": 1, "name": "f"}) == ['{"a": 1, "name": "f"}']

    def test_a_change_between_two_calls_is_seen(self) -> None:
        tool = function("f", parameters={"type": "object"})
        assert schemas(tool) == ['{"name": "f", "parameters": {"type": "object"}}']
        tool["parameters"]["type"] = "array"
        assert schemas(tool) == ['{"name": "f", "parameters": {"type": "array"}}']
        tool["name"] = "g"
        assert schemas(tool) == ['{"name": "g", "parameters": {"type": "array"}}']

    def test_a_name_that_is_needed_here_and_not_there(self) -> None:
        import encoding_dsv4

        message = system(tools=[{"function": {"description": "nameless"}}])
        assert "nameless" in encoding_dsv4.encode_messages([message], "chat")
        with pytest.raises(EncodeError, match="expected the tool's name"):
            dsv4.encode([message])

    def test_subclasses_of_plain_types_are_written_all_the_same(self) -> None:
        ordered = OrderedDict(name="f", n=1)
        for _ in range(2):
            assert schemas(ordered) == ['{"name": "f", "n": 1}']
        ordered["n"] = 2
        assert schemas(ordered) == ['{"name": "f", "n": 2}']

    def test_numbers_of_numpy_are_not_taken_for_each_other(self) -> None:
        numpy = pytest.importorskip("numpy")
        for value, json in (
            *((numpy.int64(0), "0"), (numpy.float64(0.0), "0.0"), (b"\0" * 8, None)),
            *((numpy.int64(0), "0"), (numpy.bool_(False), "false"), (numpy.uint8(0), "0")),
        ):
            if json is None:
                assert "cannot be written as JSON" in error_of(function("f", n=value))
            else:
                assert schemas(function("f", n=value)) == [f'{{"name": "f", "n": {json}}}']
