"""Tools and tool calls as the prompt shows them: schemas, namespaces, parameters, JSON in the
format's spelling (docs/format.md, sections 2, 4, 5 and 13), and a cache of the texts written.
"""

from __future__ import annotations

import json
import json.encoder
import marshal
from _thread import allocate_lock  # `threading` takes a while to import, for the same lock
from _weakref import ref  # so does `weakref`
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Generic, TypeVar

from dsv4._encode.inputs import MessageFields, is_nonempty, maybe_dict, maybe_list, text_of
from dsv4._encode.prompt import CALLS_LABEL, SAME_MESSAGE, Fragment
from dsv4._format.dialects import NAMESPACE_END, Arguments, Tags
from dsv4._format.endings import NOTHING
from dsv4.errors import EncodeError, Location, OptionError, mismatch, refusal, short_repr

# A bounded cache of the texts written for tools and arguments.
#
# Agents and servers send the same tools and calls again with every request.


_V = TypeVar("_V", bound=str)

# A text of the prompt takes two bytes a character, or four where one is beyond U+FFFF: so this is
# 32 MiB for most, and 64 MiB at worst.
DEFAULT_CACHE_CHARACTERS = 16_777_216
# The cost of a text besides its characters, in characters: else empty strings would be free.
_OVERHEAD = 256


class CacheSegment(Generic[_V]):
    """Texts of one kind, by the values that they were written for."""

    __slots__ = ("__weakref__", "_cache", "texts")

    def __init__(self, cache: TextCache) -> None:
        self._cache = cache
        self.texts: dict[str | bytes, _V] = {}

    def put(self, key: str | bytes, text: _V) -> None:
        if self._cache.reserve(len(key) + len(text) + _OVERHEAD):
            self.texts[key] = text


class TextCache:
    """Segments of texts, bounded by the number of characters in all of them.

    A cache that is full is emptied: texts in use are soon there again, and a lookup costs no more
    than one in a dict.
    """

    def __init__(self, characters: int) -> None:
        self._characters = characters
        self._size = 0
        self._segments: list[ref[CacheSegment[Any]]] = []
        self._lock = allocate_lock()

    def segment(self) -> CacheSegment[Any]:
        """A new segment, which lives as long as its owner."""
        segment: CacheSegment[Any] = CacheSegment(self)
        with self._lock:
            self._segments.append(ref(segment, self._segments.remove))
        return segment

    def reserve(self, size: int) -> bool:
        """Whether a text of this size may be stored; if so, it is counted."""
        if size > self._characters // 2:
            return False
        with self._lock:
            if self._size + size > self._characters:
                self._empty()
            self._size += size
        return True

    def resize(self, characters: int) -> None:
        """Sets another bound, and empties the cache."""
        with self._lock:
            self._characters = characters
            self._empty()

    def _empty(self) -> None:
        for segment in filter(None, [segment_of() for segment_of in tuple(self._segments)]):
            segment.texts = {}
        self._size = 0


TEXT_CACHE = TextCache(DEFAULT_CACHE_CHARACTERS)


def set_cache_size(characters: int) -> None:
    """Bounds the cache of the texts of tools and arguments, and empties it.

    `characters` counts the cached texts, the values that they were written for, and a little for
    each; 0 switches the cache off. The default is 16,777,216. Prompts are the same with any size.
    Raises an `OptionError` for anything but a whole number that is not negative.
    """
    if characters.__class__ is not int or characters < 0:
        raise OptionError("characters", mismatch(characters, "a whole number, 0 or more"))
    TEXT_CACHE.resize(characters)


def _jsonable(value: object) -> object:
    """The JSON equivalent of a value of another type: an object, an array, or a NumPy scalar."""
    for plain in (maybe_dict(value), maybe_list(value), _maybe_scalar(value)):
        if plain is not None:
            return plain
    raise TypeError(f"a value of type {type(value).__name__} has no place in JSON")


def _maybe_scalar(value: Any) -> int | float | str | None:
    """The Python value in a scalar of NumPy, or of a library like it."""
    try:
        scalar = value.item() if hasattr(value, "dtype") else None
    except Exception:  # the object's own fault
        return None
    return scalar if isinstance(scalar, (int, float, str)) else None


# One encoder for all: `json.dumps` with options makes a new one at each call.
_encoder = json.JSONEncoder(ensure_ascii=False, default=_jsonable)


def _fast_encode(encoder: json.JSONEncoder) -> Callable[[object], str]:
    """The same as `encoder.encode`, without its preparations, which take longer than a short list.

    They create an engine in C; here one engine serves all calls. So it must not look for circles:
    threads that write the same value would take each other for one.
    """
    try:
        chunks = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
            *(None, encoder.default, json.encoder.encode_basestring, None),
            *(encoder.key_separator, encoder.item_separator, False, False, True),
        )
        chunks([], 0)
    except (AttributeError, TypeError):  # not this Python's way
        return encoder.encode

    def encode(value: object) -> str:
        try:
            return "".join(chunks(value, 0))
        except RecursionError:
            return encoder.encode(value)  # it tells a circle from mere depth

    return encode


to_json = _fast_encode(_encoder)


# Values that are not numbers in JSON, as Python's JSON encoders spell them.
_NOT_FINITE = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def _number(value: float) -> str:
    text = float.__repr__(value)
    return _NOT_FINITE.get(text, text)


# Functions that write values of exactly these types as `to_json` does; and the errors it raises.
FAST_WRITERS: dict[type, Callable[[Any], str]] = {
    int: int.__repr__,
    float: _number,
    bool: {True: "true", False: "false"}.__getitem__,
    type(None): {None: "null"}.__getitem__,
}
JSON_ERRORS = (TypeError, ValueError, RecursionError)


def json_at(value: object, location: Location) -> str:
    """A caller's value as JSON. Raises an error that gives its location."""
    try:
        return to_json(value)
    except JSON_ERRORS as error:
        raise not_json(value, location, error) from None


def not_json(value: object, location: Location, error: Exception) -> OptionError | EncodeError:
    """The error for a value that is not JSON, with the place in it that causes it."""
    for step, part, its_error in _culprits(value):
        location, value, error = (*location, step), part, its_error
    reason = "it is nested too deep" if isinstance(error, RecursionError) else error
    return refusal(location, f"{short_repr(value)} cannot be written as JSON: {reason}")


# In values that are nested deeper than this, the place is not searched any further.
_DEPTH = 64


def _culprits(value: object) -> Iterator[tuple[str | int, object, Exception]]:
    """The path down to a value that cannot be written: steps, values and their errors. A circle
    ends it."""
    passed: set[int] = set()
    while id(value) not in passed and len(passed) < _DEPTH:
        passed.add(id(value))
        first = next(_failing(value), None)
        if first is None:
            return
        yield first
        value = first[1]


def _failing(value: object) -> Iterator[tuple[str | int, object, Exception]]:
    parts: Iterable[tuple[object, object]]
    parts = value.items() if isinstance(value, dict) else enumerate(maybe_list(value) or ())
    for step, part in parts:
        try:
            to_json(part)
        except RecursionError:  # a value that is too deep: none of its parts is the cause
            continue
        except JSON_ERRORS as error:
            if isinstance(step, (str, int)):
                yield step, part, error


# The value that begins at a place in a text, and its end. It does not look for space around, on
# which `json.loads` spends a third of its time. Raises `StopIteration` if no value begins there.
scan_json: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


# The namespaces of tools and calls (docs/format.md, section 13.3).


def qualified_function(
    tool: MessageFields, function: MessageFields, location: Location, end: str = NAMESPACE_END
) -> MessageFields:
    """A tool's function object as the model sees it: with the qualified name."""
    outside = tool.get("namespace") if function is not tool else None
    own = function.get("namespace") if outside is None else outside
    inside = function_location(tool, function, location)
    place = (*(inside if outside is None else location), "namespace")
    described = None if own is None or isinstance(own, str) else maybe_dict(own)
    namespace = own if described is None else described.get("name")
    if own is not None and not isinstance(namespace, str):
        raise refusal(place, mismatch(own, 'a name or {"name", "description"}'))
    name = qualified_name(function["name"], namespace, (*inside, "name"), end)
    shown_function = {key: value for key, value in function.items() if key != "namespace"}
    shown_function["name"] = name
    description = described.get("description") if described else None
    if is_nonempty(description):
        shown_function["description"] = "\n".join(
            (
                text_of(description, (*place, "description")),
                text_of(function.get("description"), (*inside, "description")),
            )
        )
    return shown_function


def function_location(tool: MessageFields, function: MessageFields, location: Location) -> Location:
    """The location of a tool's function object: the tool itself, if the function is given bare."""
    return location if function is tool else (*location, "function")


def qualified_call_name(
    call: MessageFields, function: MessageFields, location: Location, end: str = NAMESPACE_END
) -> str:
    """The name of a call as the model writes it."""
    name = function["name"]
    own, place = call.get("namespace"), (*location, "namespace")
    if not is_nonempty(own):
        own, place = function.get("namespace"), (*location, "function", "namespace")
    described = None if own is None or isinstance(own, str) else maybe_dict(own)
    if described is not None and end in name:
        raise refusal(place, mismatch(own, f"a name beside {short_repr(name)}"))
    namespace = own if described is None else described.get("name")
    if own is not None and not isinstance(namespace, str):
        raise refusal(place, mismatch(own, "a name"))
    return qualified_name(name, namespace, (*location, "function", "name"), end)


def qualified_name(
    name: str, namespace: str | None, location: Location, end: str = NAMESPACE_END
) -> str:
    """`NAMESPACE::NAME`, from a name that may be qualified already; `end` is the separator."""
    inside, separator, rest = str.__str__(name).partition(end)
    if not separator:
        inside, rest = namespace, inside  # type: ignore[assignment]
    elif namespace is not None and namespace != inside:
        words = f"{short_repr(name)} and the namespace {short_repr(namespace)}"
        problem = f"found {words}, expected one of them"
        raise refusal(location, problem)
    if inside is None:
        return rest
    if end in rest or end in inside:
        words = short_repr(f"{inside}{end}{rest}")
        raise refusal(location, f"found {words}, expected one {end} in a name")
    return f"{str.__str__(inside)}{end}{rest}"


# Tool schemas as the prompt shows them (docs/format.md, section 5).


_schemas_cache: CacheSegment[str] = TEXT_CACHE.segment()


class PrewrittenText(str):
    """The text of an extra of the request, written before its place is known."""

    __slots__ = ()


def schemas_text(tools: object, named: bool, namespace_end: str | None, location: Location) -> str:
    """The schemas of tools: one JSON object a line, in the order given."""
    if type(tools) is PrewrittenText:
        return str.__str__(tools)
    # Marshal writes plain values by exact type and in order: so the key tells 1 from True, sees
    # every change, and never stands for two different lists. It notes which values are one object,
    # so equal lists may have two keys: that is only a miss.
    try:
        listed: Any = tools  # values that cannot be written are refused
        key = marshal.dumps((listed, named, namespace_end))
    except ValueError:
        return _written_schemas(tools, named, namespace_end, location)
    text = _schemas_cache.texts.get(key)
    if text is None:
        text = _written_schemas(tools, named, namespace_end, location)
        if is_same_value(marshal.loads(key)[0], tools):
            _schemas_cache.put(key, text)
    return text


def is_same_value(copy: object, original: object) -> bool:
    """Whether marshal wrote the value itself: it writes objects with a buffer, such as NumPy's
    numbers, as if they were bytes."""
    try:
        return bool(copy == original)
    except Exception:  # an array does not say whether it is equal
        return False


def _written_schemas(
    tools: object, named: bool, namespace_end: str | None, location: Location
) -> str:
    listed = maybe_list(tools)
    if listed is None:
        raise refusal(location, mismatch(tools, "a list of tools"))
    return "\n".join(
        _written_schema(tool, named, namespace_end, (*location, n)) for n, tool in enumerate(listed)
    )


def _written_schema(
    tool: object, named: bool, namespace_end: str | None, location: Location
) -> str:
    fields, function = function_of(tool, named, location)
    inside = function_location(fields, function, location)
    if namespace_end and _has_name(function):
        return json_at(qualified_function(fields, function, location, namespace_end), inside)
    return json_at(function, inside)


def _has_name(function: object) -> bool:
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def function_of(tool: object, named: bool, location: Location) -> tuple[MessageFields, Any]:
    """A tool, and its function object: the tool itself, if the function is given bare."""
    fields = maybe_dict(tool)
    if fields is None:
        raise refusal(location, mismatch(tool, "a tool object"))
    if "function" not in fields and "name" in fields:
        function: Any = fields
    else:
        value = fields.get("function")
        as_dict = maybe_dict(value)
        function = value if as_dict is None else as_dict
    if function is None and not named:
        raise refusal(location, mismatch(tool, 'a tool with a "function"'))
    if named:
        _check_named(fields, function, location)
    return fields, function


def _check_named(tool: MessageFields, function: object, location: Location) -> None:
    if not isinstance(function, dict):
        raise refusal((*location, "function"), mismatch(function, "a function object"))
    name = function.get("name")
    if not isinstance(name, str) or not name:
        place = (*function_location(tool, function, location), "name")
        raise refusal(place, mismatch(name, "the tool's name"))


# Tool calls as markup: `function.arguments` -> parameters -> text (docs/format.md, section 4).


# The name of the only parameter of arguments that are not a JSON object.
RAW_PARAMETER = "arguments"

_json_decoder = json.JSONDecoder()


class Parameters(Fragment):
    """The parameters of one call, joined with newlines.

    Most prompts are never looked at in pieces. So it only notes the length of each parameter, and
    cuts its parts out of its text when asked for them.
    """

    __slots__ = ("_lengths", "_tags")
    label = announces = CALLS_LABEL
    message = SAME_MESSAGE
    begins = None
    ending = NOTHING
    _lengths: tuple[int, ...]
    _tags: Tags

    @classmethod
    def joined(cls, parameters: list[str], tags: Tags) -> Parameters:
        # Not by calling the class, which takes twice as long.
        self = str.__new__(cls, "\n".join(parameters))
        self._lengths = tuple(map(len, parameters))
        self._tags = tags
        return self

    @property
    def parts(self) -> tuple[str, ...]:
        opening, closing = self._tags.parameter_open, self._tags.parameter_close
        parts: list[str] = []
        start = 0
        for length in self._lengths:
            end = start + length
            inside = self[start + len(opening) : end - len(closing)]
            parts += *opening.parts, inside, *closing.parts, "\n"
            start = end + 1
        return tuple(parts[:-1])


class ParametersWriter:
    """Turns the arguments of one call into its parameters, joined with newlines.

    Results are cached by the text of the arguments: agents send the same calls again with every
    request. `cache.texts` may be read directly.
    """

    def __init__(self, tags: Tags, rule: Arguments) -> None:
        self._tags = tags
        self._rule = rule
        self._opening, self._closing = str(tags.parameter_open), str(tags.parameter_close)
        self._string_true, self._string_false = tags.string_true, tags.string_false
        self.cache: CacheSegment[Parameters] = TEXT_CACHE.segment()

    def write(self, arguments: object) -> str:
        """The parameters. Raises an `EncodeError` whose location starts at the arguments."""
        if type(arguments) is str:
            parameters = self.cache.texts.get(arguments)
            if parameters is None:
                parameters = self._from_text(arguments)
                self.cache.put(arguments, parameters)
            return parameters
        if isinstance(arguments, str):
            return self._from_text(str.__str__(arguments))
        fields = maybe_dict(arguments)
        if fields is not None:
            return self._joined(_exact_texts(fields))
        if self._rule == "anything":
            return self._joined([(RAW_PARAMETER, arguments)])
        if arguments is None:
            return ""
        raise EncodeError((), mismatch(arguments, "a JSON object, as text or as it is"))

    def _from_text(self, arguments: str) -> Parameters:
        try:
            value = read_json(arguments)
            if self._rule == "anything" and isinstance(value, str):
                value = read_json(value)  # encoded twice
        except (ValueError, RecursionError) as error:
            if self._rule == "object":
                problem = f"found {short_repr(arguments)}, which is not valid JSON: {error}"
                raise EncodeError((), problem) from None
            value = {RAW_PARAMETER: arguments}
        if not isinstance(value, dict):
            if self._rule != "anything":
                raise EncodeError((), mismatch(arguments, "a JSON object"))
            value = {RAW_PARAMETER: arguments}
        return self._joined(value.items())

    def _joined(self, arguments: Iterable[tuple[str, Any]]) -> Parameters:
        opening, closing = self._opening, self._closing
        string_true, string_false = self._string_true, self._string_false
        parameters: list[str] = []
        for key, value in arguments:
            if value.__class__ is str:
                parameters.append(f"{opening}{key}{string_true}{value}{closing}")
                continue
            try:
                text = FAST_WRITERS.get(value.__class__, to_json)(value)
            except JSON_ERRORS as error:
                raise not_json(value, (key,), error) from None
            parameters.append(f"{opening}{key}{string_false}{text}{closing}")
        return Parameters.joined(parameters, self._tags)


parameters_writer = lru_cache(ParametersWriter)


def read_json(text: str) -> Any:
    """The same as `json.loads`, which spends a third of its time looking for space around."""
    try:
        value, end = scan_json(text, 0)
        if end == len(text):
            return value
    except StopIteration:  # no value begins here
        pass
    return _json_decoder.decode(text)


def _exact_texts(arguments: dict[Any, Any]) -> list[tuple[str, Any]]:
    """Key and value of each argument of a caller's object, in which every text becomes a `str`."""
    return [
        (
            key if key.__class__ is str else _exact_key(key),
            str.__str__(value) if isinstance(value, str) else value,
        )
        for key, value in arguments.items()
    ]


def _exact_key(key: object) -> str:
    if not isinstance(key, str):
        raise EncodeError((), f"found the key {short_repr(key)}, expected text")
    return str.__str__(key)
