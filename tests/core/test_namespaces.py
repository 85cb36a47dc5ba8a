"""Namespaces of tools and calls, which V4.1 has."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

import dsv4
from builders import call, calling, function, openai_tool, system, user
from dsv4 import EncodeError


def schema(tool: Any, dialect: str = "v4.1") -> Any:
    """The schema that the model sees."""
    prompt = str(dsv4.encode([system(tools=[tool])], dialect=dialect))
    return json.loads(prompt.split("Schemas\n\n")[1].split("\n\nYou MUST")[0])


def name_of(made: Any, dialect: str = "v4.1") -> str:
    """The name that stands in a call."""
    return (
        str(dsv4.encode([calling(made)], dialect=dialect)).split('invoke name="')[1].split('"')[0]
    )


class TestTools:
    @pytest.mark.parametrize(
        "tool",
        [
            {**openai_tool("f"), "namespace": "a"},
            openai_tool("f", namespace="a"),
            {**openai_tool("f"), "namespace": {"name": "a"}},
            openai_tool("a::f"),
            {**openai_tool("a::f"), "namespace": "a"},
            {**openai_tool("a::f"), "namespace": {"name": "a", "description": ""}},
            {**openai_tool("f", namespace="b"), "namespace": "a"},
            {**openai_tool("f", namespace="a"), "namespace": None},
            function("f", namespace="a"),
        ],
    )
    def test_where_it_may_stand(self, tool: Any) -> None:
        before = copy.deepcopy(tool)
        assert schema(tool) == {"name": "a::f"}
        assert tool == before

    def test_none(self) -> None:
        assert schema(openai_tool("f")) == {"name": "f"}

    def test_an_empty_one_is_one(self) -> None:
        assert schema({**openai_tool("f"), "namespace": ""}) == {"name": "::f"}

    def test_keys_keep_their_order(self) -> None:
        tool = {"strict": True, "namespace": "a", "name": "f", "parameters": {}}
        assert list(schema({"function": tool})) == ["strict", "name", "parameters"]

    def test_its_description_goes_before_the_functions(self) -> None:
        namespace = {"name": "a", "description": "All of a."}
        own = {**openai_tool("f", description="One."), "namespace": namespace}
        assert schema(own)["description"] == "All of a.\nOne."
        assert schema({**openai_tool("f"), "namespace": namespace}) == {
            "name": "a::f",
            "description": "All of a.\n",
        }

    @pytest.mark.parametrize("dialect", ["v4", "v4-0731", "v4-vision"])
    def test_other_dialects_have_none(self, dialect: str) -> None:
        shown = schema({**openai_tool("a::f", namespace="b"), "namespace": "c"}, dialect)
        assert shown == {"name": "a::f", "namespace": "b"}

    @pytest.mark.parametrize(
        ("tool", "place"),
        [
            ({**openai_tool("a::f"), "namespace": "b"}, ("function", "name")),
            (openai_tool("a::b::f"), ("function", "name")),
            ({**openai_tool("f"), "namespace": "a::b"}, ("function", "name")),
            ({**openai_tool("f"), "namespace": 3}, ("namespace",)),
            ({**openai_tool("f"), "namespace": {"description": "x"}}, ("namespace",)),
            (openai_tool("f", namespace=3), ("function", "namespace")),
            (openai_tool("f", parameters={1, 2}), ("function", "parameters")),
            (function("a::f", namespace="b"), ("name",)),
            (function("f", namespace=3), ("namespace",)),
            (function("f", parameters={1, 2}), ("parameters",)),
        ],
    )
    def test_errors(self, tool: Any, place: tuple[str, ...]) -> None:
        with pytest.raises(EncodeError, match=r"found .* expected|as JSON") as caught:
            dsv4.encode([system(tools=[openai_tool(), tool])], dialect="v4.1")
        assert caught.value.location == ("messages", 0, "tools", 1, *place)
        with pytest.raises(dsv4.OptionError) as refused:
            dsv4.encode([user()], tools=[tool], dialect="v4.1")
        assert refused.value.location == ("tools", 0, *place)


class TestCalls:
    @pytest.mark.parametrize(
        ("made", "name"),
        [
            (call("f"), "f"),
            (call("f", namespace="a"), "a::f"),
            (call("f", namespace={"name": "a"}), "a::f"),
            (call("a::f"), "a::f"),
            (call("a::f", namespace="a"), "a::f"),
            ({"function": {"name": "f", "namespace": "a"}}, "a::f"),
            ({"function": {"name": "f", "namespace": "a"}, "namespace": "b"}, "b::f"),
            ({"function": {"name": "f", "namespace": "a"}, "namespace": ""}, "a::f"),
            ({"function": {"name": "f", "namespace": ""}, "namespace": ""}, "::f"),
            (call("f", namespace=""), "f"),
            (call("f", namespace=None), "f"),
        ],
    )
    def test_names(self, made: Any, name: str) -> None:
        assert name_of(made) == name

    def test_other_dialects_have_none(self) -> None:
        assert name_of(call("f", namespace="a"), "v4") == "f"
        assert name_of(call("a::b::f"), "v4") == "a::b::f"

    @pytest.mark.parametrize(
        ("made", "place"),
        [
            (call("a::f", namespace="b"), ("function", "name")),
            (call("a::f", namespace={"name": "a"}), ("namespace",)),
            (call("a::b::f"), ("function", "name")),
            (call("f", namespace="a::b"), ("function", "name")),
            (call("f", namespace=3), ("namespace",)),
            (call("f", namespace={"title": "a"}), ("namespace",)),
            ({"function": {"name": "f", "namespace": 3}}, ("function", "namespace")),
        ],
    )
    def test_errors(self, made: Any, place: tuple[str, ...]) -> None:
        with pytest.raises(EncodeError, match=r"found .* expected") as caught:
            dsv4.encode([calling(call(), made)], dialect="v4.1")
        assert caught.value.location == ("messages", 0, "tool_calls", 1, *place)


def test_a_choice_may_name_the_tool_either_way() -> None:
    tools = [{**openai_tool("f"), "namespace": "a"}]
    for choice in ("f", "a::f"):
        prompt = dsv4.encode(
            [user()], tools=tools, tool_choice=choice, thinking=False, dialect="v4.1"
        )
        assert prompt.text.endswith('<｜DSML｜ invoke name="a::f">\n')
