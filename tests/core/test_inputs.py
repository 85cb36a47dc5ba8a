"""What callers give in place of dicts and lists: it is read, or refused with its place."""

from __future__ import annotations

import copy
from collections import OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest

import dsv4
from builders import *
from dsv4 import EncodeError


class Frozen(Mapping[str, Any]):
    """A mapping that is nothing else."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __getitem__(self, key: str) -> Any:
        return self._fields[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


MAPPINGS = [Frozen, Model, OrderedDict, MappingProxyType, UserDict, lambda d: defaultdict(list, d)]
CONVERSATION: list[dict[str, Any]] = [
    system(tools=[openai_tool("f", parameters={"type": "object"})], response_format={"a": [1]}),
    user([text("a"), text("b")]),
    calling(call("f", {"a": 1, "b": {"c": [2]}}, id="a"), call("f", "{}", id="b")),
    result([text("B")], of="b"),
    result("A", of="a"),
    assistant("done", reasoning_content="hm"),
]


def turned(value: Any, mapping: Any, listing: Any = list) -> Any:
    """The same value with other kinds of dicts and lists all the way down."""
    if isinstance(value, dict):
        return mapping({key: turned(inner, mapping, listing) for key, inner in value.items()})
    if isinstance(value, list):
        return listing([turned(inner, mapping, listing) for inner in value])
    return value


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("dialect", ["v4", "v4.1", "v3.2"])
def test_mappings_of_any_kind(mapping: Any, dialect: str) -> None:
    messages = [turned(message, mapping) for message in CONVERSATION]
    prompt = dsv4.encode(messages, dialect=dialect)
    assert prompt == dsv4.encode(CONVERSATION, dialect=dialect)
    assert prompt.dropped == dsv4.encode(CONVERSATION, dialect=dialect).dropped
    context, rest = messages[:3], messages[3:]
    plain = dsv4.encode(CONVERSATION[3:], context=CONVERSATION[:3], dialect=dialect)
    assert dsv4.encode(rest, context=context, dialect=dialect) == plain


@pytest.mark.parametrize("listing", [tuple, UserList, deque])
def test_lists_of_any_kind(listing: Any) -> None:
    messages = turned(CONVERSATION, dict, listing)
    assert dsv4.encode(messages) == dsv4.encode(CONVERSATION)


def test_one_object_does_not_change_what_is_asked_of_the_others() -> None:
    for other in (user(), Model(user())):
        for wrong in ({"content": "Hi"}, {"role": "user", "content": 5}):
            with pytest.raises(EncodeError) as caught:
                dsv4.encode([other, wrong])
            assert caught.value.location[:2] == ("messages", 1)


def test_a_default_dict_does_not_grow() -> None:
    def growing(fields: dict[str, Any]) -> Any:
        return defaultdict(lambda: "grown", fields)

    messages = [turned(message, growing) for message in CONVERSATION]
    before = copy.deepcopy(messages)
    for dialect in dsv4.DIALECTS:
        dsv4.encode(messages, dialect=dialect)
    assert messages == before
    with pytest.raises(EncodeError, match=r"^messages\[0\]\.role: found None"):
        dsv4.encode([growing({"content": "Hi"})])


class Demanding:
    def to_dict(self, needed: str) -> dict[str, Any]:
        return {}


class Failing:
    def to_dict(self) -> dict[str, Any]:
        raise RuntimeError("not today")

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("nor like this")


class Torn(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("torn")

    def __iter__(self) -> Iterator[str]:
        return iter(["role"])

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize("odd", [Demanding(), Failing(), Torn(), object(), Model, {1, 2}])
class TestRefused:
    def refused_at(self, *messages: Any, **options: Any) -> tuple[Any, ...]:
        with pytest.raises((EncodeError, dsv4.OptionError), match=r"found|written") as caught:
            dsv4.encode(list(messages), **options)
        return caught.value.location

    def test_as_a_message(self, odd: Any) -> None:
        assert self.refused_at(user(), odd) == ("messages", 1)
        assert self.refused_at(user(), context=[odd]) == ("context", 0)

    def test_as_a_call(self, odd: Any) -> None:
        assert self.refused_at(calling(odd)) == ("messages", 0, "tool_calls", 0)
        assert self.refused_at(assistant(tool_calls=odd)) == ("messages", 0, "tool_calls")

    def test_as_a_tool(self, odd: Any) -> None:
        assert self.refused_at(user(), tools=[odd]) == ("tools", 0)
        assert self.refused_at(system(tools=[odd])) == ("messages", 0, "tools", 0)
        assert self.refused_at(user(), tools=[function("f", a=[odd])]) == ("tools", 0, "a", 0)

    def test_as_content(self, odd: Any) -> None:
        for dialect in ("v4", "v4.1"):
            assert self.refused_at(user([odd]), dialect=dialect) == ("messages", 0, "content", 0)
            assert self.refused_at(user(odd), dialect=dialect) == ("messages", 0, "content")

    def test_as_arguments(self, odd: Any) -> None:
        place = ("messages", 0, "tool_calls", 0, "function", "arguments")
        assert self.refused_at(calling(call("f", odd))) == place
        assert self.refused_at(calling(call("f", {"a": [odd]}))) == (*place, "a", 0)

    def test_as_a_response_format(self, odd: Any) -> None:
        assert self.refused_at(user(), response_format=odd) == ("response_format",)


class TestNumpy:
    """As pandas and Parquet give lists and numbers."""

    @pytest.fixture
    def numpy(self) -> Any:
        return pytest.importorskip("numpy")

    def test_arrays_are_lists(self, numpy: Any) -> None:
        def array(items: list[Any]) -> Any:
            made = numpy.empty(len(items), dtype=object)
            for n, item in enumerate(items):
                made[n] = item
            return made

        messages = turned(CONVERSATION, dict, array)
        for dialect in ("v4", "v4.1", "v3.2"):
            plain = dsv4.encode(CONVERSATION, dialect=dialect)
            assert dsv4.encode(messages, dialect=dialect) == plain
        tools = array([openai_tool("f"), openai_tool("g")])
        assert dsv4.encode([user()], tools=tools) == dsv4.encode([user()], tools=list(tools))
        assert dsv4.encode([user(tools=tools, tool_calls=tools)]) == dsv4.encode([user()])

    def test_numbers_are_numbers(self, numpy: Any) -> None:
        plain = {"a": 1, "b": 1.5, "c": True, "d": [1, 2], "e": "x"}
        odd = {
            "a": numpy.int64(1),
            "b": numpy.float32(1.5),
            "c": numpy.bool_(True),
            "d": numpy.array([1, 2]),
            "e": numpy.str_("x"),
        }
        assert dsv4.encode([calling(call("f", odd))]) == dsv4.encode([calling(call("f", plain))])
        tools = [[function("f", parameters=values)] for values in (plain, odd)]
        assert dsv4.encode([user()], tools=tools[1]) == dsv4.encode([user()], tools=tools[0])
        flags = assistant(wo_eos=numpy.bool_(True))
        assert dsv4.encode([user(), flags]).ending.kind == "continue"

    @pytest.mark.parametrize("kind", ["datetime64[s]", "complex128", "S3"])
    def test_others_are_refused_with_their_place(self, numpy: Any, kind: str) -> None:
        odd = numpy.zeros(1, dtype=kind)[0]
        for message, place in (
            (user(odd), ("content",)),
            (calling(call("f", {"a": odd})), ("tool_calls", 0, "function", "arguments", "a")),
            (system(tools=[openai_tool("f", d=odd)]), ("tools", 0, "function", "d")),
            (assistant(tool_calls=odd), ("tool_calls",)),
        ):
            with pytest.raises(EncodeError) as caught:
                dsv4.encode([message])
            assert caught.value.location == ("messages", 0, *place)

    @pytest.mark.parametrize("option", ["messages", "tools", "context"])
    def test_an_array_without_a_dimension(self, numpy: Any, option: str) -> None:
        given: dict[str, Any] = {"messages": [user()], option: numpy.array(3)}
        with pytest.raises((EncodeError, dsv4.OptionError)) as caught:
            dsv4.encode(**given)
        assert caught.value.location == (option,)

    def test_missing_values(self, numpy: Any) -> None:
        with pytest.raises(EncodeError, match=r"^messages\[0\]\.content: found nan, expected text"):
            dsv4.encode([user(float("nan"))])


class TestPandas:
    def test_rows_are_messages(self) -> None:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame([user("a"), assistant("b"), user("c")])
        rows = [row for _, row in frame.iterrows()]
        plain = dsv4.encode([user("a"), assistant("b"), user("c")])
        assert dsv4.encode(rows) == plain
        assert dsv4.encode(frame.to_dict("records")) == plain


class TestOpenai:
    """Objects of the `openai` package, as its client returns them."""

    def test_messages_calls_and_tools(self) -> None:
        chat = pytest.importorskip("openai.types.chat")
        shared = pytest.importorskip("openai.types.shared")
        calls = pytest.importorskip("openai.types.chat.chat_completion_message_function_tool_call")
        made = calls.ChatCompletionMessageFunctionToolCall(
            id="a",
            type="function",
            function=calls.Function(name="f", arguments='{"a": 1}'),
        )
        message = chat.ChatCompletionMessage(role="assistant", content="", tool_calls=[made])
        plain = [user(), calling(call("f", '{"a": 1}', id="a")), result("1", of="a")]
        assert dsv4.encode([user(), message, result("1", of="a")]) == dsv4.encode(plain)
        mixed = assistant("", tool_calls=[made])
        assert dsv4.encode([user(), mixed, result("1", of="a")]) == dsv4.encode(plain)
        tool = shared.FunctionDefinition(name="f", description="d", parameters={"type": "object"})
        expected = [function("f", description="d", parameters={"type": "object"})]
        for tools in ([tool], [{"type": "function", "function": tool}]):
            assert dsv4.encode([user()], tools=tools) == dsv4.encode([user()], tools=expected)


def test_images_in_objects() -> None:
    block = Model({**image(), "image_url": Model({"url": "u.png"})})
    prompt = dsv4.encode([user([text("a"), block])], dialect="v4.1")
    assert prompt.images == [{"type": "image", "url": "u.png"}]


@pytest.mark.parametrize("path", [("content", 1), ("content", 0, "content", 1)])
def test_the_place_of_a_bad_item_in_a_result(path: tuple[Any, ...]) -> None:
    if len(path) == 2:
        message: Any = result([text("a"), 5])
        dialect = "v4"
    else:
        message = user([{"type": "tool_result", "content": [text("a"), 5]}])
        dialect = "v4.1"
    with pytest.raises(EncodeError) as caught:
        dsv4.encode([message], dialect=dialect)
    assert caught.value.location == ("messages", 0, *path)
