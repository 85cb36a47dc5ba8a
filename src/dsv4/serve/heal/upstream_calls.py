"""The calls that a chat server has parsed itself, put together from pieces.

Servers disagree on how pieces belong together: Ollama and older routers number every call 0, some
number none, some number every piece, some send a name in pieces, some give two calls one id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any

from dsv4.serve.backend import read_digits, usual_case

# Fields that hold a call's arguments, and the text that some servers send where there are none.
_ARGUMENTS = ("arguments", "input", "args", "parameters")
_NULL = "null"
# Other fields that servers use for the name and the id.
_NAMES = ("name", "tool_name", "function_name")
_IDS = ("id", "call_id", "tool_call_id", "tool_use_id")
_FUNCTION = frozenset(("name", *_ARGUMENTS))
# Parts of other names for arguments: `partial_json`, `tool_input`.
_LIKE_ARGUMENTS = re.compile("(^|_)(arg|argument|param|parameter|input|json)s?(_(?!schema)|$)")


class UpstreamCall:
    """A call as far as it has come."""

    def __init__(
        self, id: str, before: UpstreamCall | None, number: tuple[int, int | None]
    ) -> None:
        """`before` is the call before it, if it begins with that one's name; `number` has the
        number of its choice, and its own, where the server numbered it."""
        self.id = id
        self.choice, self.number = number
        self._before = before
        self.name = ""
        self.has_unknown = False  # an unknown field that may hold its arguments
        self.repeats_name = False  # in every piece
        self.repeats_id = False  # in a piece of its own after a whole call, which will be repeated
        self._pieces: list[str] = []
        self._last = ""
        self._grows = True  # each piece begins with all pieces before it
        # The brackets of all pieces together; and of the last piece, where each repeats those
        # before it.
        self._extent, self._last_extent = _JsonExtent(), _JsonExtent()
        self._is_complete: bool | None = None

    def add(self, arguments: str) -> None:
        if arguments:
            self._grows = self._grows and arguments.startswith(self._last)
            if self._grows:
                self._last_extent.add(arguments[len(self._last) :])
            self._last = arguments
        self._pieces.append(arguments)
        self._extent.add(arguments)
        if arguments.strip():
            self._is_complete = None

    @property
    def arguments(self) -> str:
        text = "".join(self._pieces)
        if len(self._pieces) < 2 or object_text(text) is not None:
            return text
        # Some servers repeat all arguments so far in every piece, some begin with an empty object.
        other = self._last if self._grows else text.lstrip().removeprefix("{}")
        return text if object_text(other) is None else other

    @property
    def is_echo(self) -> bool:
        """Whether it only repeats the call before it. Servers that repeat the name in every piece
        do so once more at the end, without arguments or with all of them; some repeat the whole
        call."""
        before = self._before
        if before is None or not self.arguments:
            return before is not None
        has_own_id = bool(self.id) and (self.id != self.name or self.number is not None)
        # A server gives ids to all calls or to none: of two calls, one without is the same call.
        is_half_named = bool(self.id) is not bool(before.id)
        is_certain = has_own_id or is_half_named or before.repeats_name
        if not is_certain or len({self.id, before.id} - {""}) > 1:
            return False
        return argument_value(self.arguments) == argument_value(before.arguments)

    @property
    def is_complete(self) -> bool:
        """Whether its arguments are complete. They are parsed only once: white space changes
        nothing, and text with open brackets is not complete."""
        if self._is_complete is None:
            is_closed = self._extent.is_closed or (self._grows and self._last_extent.is_closed)
            is_null = self._last.strip() == _NULL
            may_be = is_closed or is_null
            self._is_complete = may_be and object_text(self.arguments) is not None
        return self._is_complete

    @property
    def says_nothing(self) -> bool:
        """Whether it has no arguments so far. Some servers begin with an empty object."""
        return self.arguments.strip() in ("", "{}", "[]", _NULL)

    def says(self, arguments: str) -> bool:
        """Whether these arguments repeat all of its own."""
        if not arguments or not self.is_complete or object_text(arguments) is None:
            return False
        return argument_value(arguments) == argument_value(self.arguments)

    def delta(self, index: int) -> dict[str, Any]:
        """The call in one piece, as a server sends it."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"index": index, "id": self.id, "function": function}


class _JsonExtent:
    """Whether all brackets of a text are closed. The text comes in pieces, and each is read only
    once."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._has_begun = False
        self._escape = ""  # the beginning of an escape, which the next piece completes

    def add(self, piece: str) -> None:
        text, self._escape = self._escape + piece, ""
        for match in _MARKS.finditer(text):
            mark = match.group()
            if mark == "\\":  # at the end of the piece
                self._escape = mark
            elif mark == '"':
                self._in_string = not self._in_string
                self._has_begun = True
            elif not self._in_string and mark in _DEPTHS:
                self._depth += _DEPTHS[mark]
                self._has_begun = True

    @property
    def is_closed(self) -> bool:
        return self._has_begun and not self._depth and not self._in_string


_MARKS = re.compile(r'\\.?|["{}\[\]]', re.DOTALL)
_DEPTHS = {"{": 1, "[": 1, "}": -1, "]": -1}


class UpstreamCalls:
    """The calls of one answer."""

    def __init__(self, tool_names: Collection[str]) -> None:
        """`tool_names` are the names of the request's tools."""
        self._tool_names = tool_names
        self._calls: list[UpstreamCall] = []
        # By the number of the choice, and by the server's number of the call.
        self._current: dict[tuple[int, int | None], UpstreamCall] = {}
        # Whether pieces with only a number came under the number of their call (True), and under
        # another one (False).
        self._number_holds: set[bool] = set()

    def __iter__(self) -> Iterator[UpstreamCall]:
        return (call for call in self._calls if not call.is_echo)

    def add(self, piece: Mapping[str, Any], choice: int = 0) -> None:
        """Takes a piece of a call."""
        fields = _said_fields(piece)
        name = next((fields[key] for key in _NAMES if isinstance(fields.get(key), str)), "")
        names = chain(_ARGUMENTS, filter(_LIKE_ARGUMENTS.search, fields))
        arguments = next((fields[key] for key in names if fields.get(key) is not None), "")
        # Some servers send an object in place of its text.
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        id = str(piece.get("id") or next(filter(None, map(fields.get, _IDS)), ""))
        if self._has_said(choice, id, name, arguments):
            return
        # Ollama's own route numbers functions, and some number nothing.
        number = (choice, read_digits(piece.get("index", fields.get("index"))))
        call = self._call_of(number, id, name, arguments)
        call.repeats_name = call.repeats_name or (bool(name) and name == call.name)
        call.has_unknown = call.has_unknown or _has_unknown(piece.get("function"))
        call.name = self._joined(call.name, name, _may_be_named_further(call, number[1], id))
        is_again = call.says(arguments)
        is_bare = bool(arguments) and not (id or name) and None not in (number[1], call.number)
        if is_bare and (call.says_nothing or not is_again):
            self._number_holds.add(number[1] == call.number)
        if not is_again:
            call.add(arguments)

    @property
    def has_strays(self) -> bool:
        """Whether some pieces without a name went to the call before them because no call had their
        number, although other pieces show that numbers tell calls apart: the first piece of a call
        was lost."""
        return len(self._number_holds) > 1

    def _has_said(self, choice: int, id: str, name: str, arguments: str) -> bool:
        """Whether the same whole call came before, under an id of its own: not just its name, nor
        an id that another call has too."""
        if not arguments or id in ("", name):
            return False
        same = [call for call in self._calls if (call.choice, call.id) == (choice, id)]
        value = argument_value(arguments)
        return bool(same) and all(
            call.name == name and call.is_complete and argument_value(call.arguments) == value
            for call in same
        )

    def _call_of(
        self, number: tuple[int, int | None], id: str, name: str, arguments: str
    ) -> UpstreamCall:
        """The call that a piece belongs to: the last of its number, or a new one."""
        own = [call for call in self._calls if call.choice == number[0]]
        # A piece without a number continues the call that came last.
        call = (own[-1] if own else None) if number[1] is None else self._current.get(number)
        if not name and (earlier := self._continued(own, call, id, arguments)):
            call = earlier
        elif call is None and own and not id and self._goes_on_with_name(own[-1], name):
            call = own[-1]
        elif call is not None and name == call.name and _is_headed_again(call, number[1]):
            call = UpstreamCall(id or call.id, None, number)
            self._calls.append(call)
        elif call is None or self._begins(call, number[1], id, name, arguments):
            ids = set() if call is None else {id, call.id} - {""}
            is_same = call is not None and name == call.name and len(ids) < 2
            if call is not None and is_same and call.repeats_id:
                id = call.id
            call = UpstreamCall(id, call if is_same else None, number)
            self._calls.append(call)
        if id and id == call.id and not (name or arguments):
            call.repeats_id = call.is_complete
        self._current[number] = call
        call.id = call.id or id
        return call

    def _continued(
        self, own: list[UpstreamCall], call: UpstreamCall | None, id: str, arguments: str
    ) -> UpstreamCall | None:
        """The call that a piece without a name continues, unless that is `call`, the last of its
        number. Some servers name only a call's first piece, and number every piece or only the
        first, or give each piece another id."""
        last = own[-1] if own else None
        if id:
            if call is not None and not call.id:
                return None  # the call's own id comes late, though another call may have the same
            if call is None and last and not last.id and not (last.is_complete and arguments):
                return last  # the call's id comes late
            same = [other for other in own if other.id == id]
            candidate = same[-1] if same and call not in same else call
            if same or candidate is None:
                return candidate
            # An id by itself, where nothing is numbered, begins a call if the piece has no
            # arguments.
            is_head = not arguments and candidate.number is None and bool(candidate.name)
            return None if is_head or candidate.is_complete else candidate
        if call is not None or last is None:
            return None
        begins = last.is_complete and arguments.lstrip().startswith("{")
        return None if begins and not last.says(arguments) else last

    def _goes_on_with_name(self, call: UpstreamCall, name: str) -> bool:
        """Whether a name under a new number continues the name of the call before it."""
        return not call.arguments and self._joined(call.name, name) != call.name

    def _begins(
        self, call: UpstreamCall, number: int | None, id: str, name: str, arguments: str
    ) -> bool:
        """Whether a piece begins another call than the last one of its number: by another id, by a
        name after complete arguments, or by a name that does not continue the last one."""
        if id and call.id and id != call.id:
            return True
        if not name or not call.name:
            return False
        if id and not call.id and name == call.name and not arguments:
            return False  # the call's id comes late
        goes_on = _may_be_named_further(call, number, id)
        is_other = name != call.name and self._joined(call.name, name, goes_on) == call.name
        return is_other or call.is_complete

    def _joined(self, name: str, piece: str, goes_on: bool = False) -> str:
        """A name with the next piece of it. The piece is added only while no tool has the name and
        some tool's name begins with both together; a piece that begins with the whole name replaces
        it. `goes_on` tells that a tool's name may be the beginning of another's: `read` and
        `read_file`."""
        if not name:
            return piece
        is_open = goes_on or name not in self._tool_names
        if is_open and piece.startswith(name) and self._begins_tool(piece):
            return piece
        return name + piece if is_open and self._begins_tool(name + piece) else name

    def _begins_tool(self, name: str) -> bool:
        return any(tool.startswith(name) for tool in self._tool_names)

    def drop(self, calls: Collection[UpstreamCall]) -> None:
        """Forgets calls that were sent twice."""
        self._calls = [call for call in self._calls if call not in calls]

    def take_in(self, others: UpstreamCalls) -> None:
        """Adds the calls of a last message that are missing here, or are not complete."""
        own = list(self)
        for other in others:
            same = next((call for call in own if _is_same(call, other)), None)
            if same is None:
                self._calls.append(other)
                continue
            own.remove(same)
            if same.says_nothing or (other.is_complete and not same.is_complete):
                other.id = same.id or other.id
                self._calls[self._calls.index(same)] = other


def _said_fields(piece: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a piece and of its function together, whatever the function's field is called:
    some servers leave out a level, or write beside it what belongs in it."""
    function = piece.get("function")
    if function is None and not any(piece.get(name) for name in _FUNCTION):
        function = next(filter(_is_function, piece.values()), None)
    inner = function if isinstance(function, dict) else {}
    said = {**piece, **{name: value for name, value in inner.items() if value not in (None, "")}}
    return {name if name.islower() else usual_case(name): value for name, value in said.items()}


def _is_function(value: object) -> bool:
    return isinstance(value, dict) and not _FUNCTION.isdisjoint(value)


def _has_unknown(function: object) -> bool:
    """Whether a function has an object, or the text of one, in an unknown field."""
    fields = function if isinstance(function, dict) else {}
    return any(
        (isinstance(value, dict) and value) or (isinstance(value, str) and _OBJECT.match(value))
        for name, value in fields.items()
        if name not in _FUNCTION and not _LIKE_ARGUMENTS.search(usual_case(name))
    )


# The beginning of an object, also as text within a JSON text, unless it is an empty object.
_OBJECT = re.compile(r'\s*(?:"\s*)?\{(?!\s*\}[\s"]*$)')


def _may_be_named_further(call: UpstreamCall, number: int | None, id: str) -> bool:
    """Whether a piece with this number and id may have more of a call's name: nothing but the name
    has come, and the number is the call's own."""
    is_own = number is not None and number == call.number and id in ("", call.id)
    return is_own and not call.arguments


def _is_headed_again(call: UpstreamCall, number: int | None) -> bool:
    """Whether a call's name under another number begins another call of the same tool. An id by
    itself does not show that, because some ids are the name. While the call's arguments are
    incomplete, the name is only repeated."""
    is_between = bool(call.arguments) and not call.is_complete
    return None not in (number, call.number) and number != call.number and not is_between


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


# Python's parser accepts NaN and Infinity, which clients cannot read.
_strict_json = json.JSONDecoder(parse_constant=_no_json).decode


def object_text(text: str) -> str | None:
    """The arguments of a call unchanged, where they are an object. For an empty one some servers
    write nothing, and PHP writes an empty list; some write JSON text within a JSON text. None for
    everything else."""
    try:
        value = _strict_json(text or "{}")
        if isinstance(value, str):
            text, value = value, _strict_json(value)
    except (ValueError, RecursionError):
        return None
    if value is None or value == []:
        return "{}"
    return (text or "{}") if isinstance(value, dict) else None


def argument_value(arguments: str) -> object:
    """The value of arguments, however they are written."""
    text = object_text(arguments)
    return arguments if text is None else json.loads(text)


def _is_same(call: UpstreamCall, other: UpstreamCall) -> bool:
    """Whether `other`, of a last message, repeats or continues a call of the deltas."""
    if call.id and call.id == other.id:
        return True
    if call.name != other.name:
        return False
    goes_on = not call.is_complete and other.arguments.startswith(call.arguments)
    is_equal = argument_value(call.arguments) == argument_value(other.arguments)
    return call.says_nothing or goes_on or is_equal
