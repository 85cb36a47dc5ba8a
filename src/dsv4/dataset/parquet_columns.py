"""The columns of a Parquet file that hold the conversations, and its rows as JSON lines.

A row is a line: its columns become the fields that a line of JSON would have, under any name, so
that a line's reader reads, refuses or names each of them.

Text is read as JSON. Lists are read only where that is exact: Parquet gives every row the same
fields and fills gaps with nulls, so a schema or an object of arguments would no longer be as it
was written, and is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from dsv4._inputs.input_files import InputError, parse_unambiguous_json
from dsv4._inputs.line_messages import OF_TRAINING
from dsv4._inputs.line_shapes import (
    CONVERSATION_FIELDS,
    LINE_FIELDS,
    PICTURE_FIELDS,
    SYSTEM_FIELDS,
)
from dsv4._inputs.request_bodies import without_filled
from dsv4.api.ignored_fields import FIELDS_READ
from dsv4.dataset.dataset_errors import DatasetError, pyarrow


class ArrowField(Protocol):
    """A column of an Arrow schema, or a field of a struct."""

    name: str
    type: ArrowType


class ArrowType(Protocol):
    """An Arrow type, as far as it is used. Only lists have a `value_type`, only structs fields."""

    value_type: ArrowType
    num_fields: int

    def field(self, index: int) -> ArrowField: ...


class ArrowSchema(Protocol):
    """An Arrow schema, as far as it is used here."""

    names: list[str]

    def field(self, name: str) -> ArrowField: ...

    def __iter__(self) -> Iterator[ArrowField]: ...


class ConversationColumn(NamedTuple):
    """The column of conversations; or, if `kind` is "row", all columns that make up a line.

    Otherwise `kind` is "text", or the field of a request that a list stands for: "messages", or
    ShareGPT's "conversations". `beside` are the other columns of the line, `carried` those that are
    copied to the output.
    """

    name: str
    kind: str
    beside: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys([self.name, *self.beside, *self.carried]))

    def to_json_line(self, row: dict[str, Any]) -> bytes:
        """A row as the line that a file of JSON lines would have."""
        fields = {name: _plain(row[name]) for name in (*self.beside, *self.carried)}
        fields = {name: value for name, value in fields.items() if value is not None}
        value = row[self.name]
        if self.kind == "text":
            own = {*filter(_is_said_of_lines, fields), *self.carried}
            around = {n if n in own else _unread(n): fields[n] for n in fields}
            return _line_around(value or "null", around)
        field = self.name if self.kind == "row" else self.kind
        return _as_line({} if value is None else {field: _plain(value)}, fields)


def _line_around(text: str | bytes, fields: Mapping[str, Any]) -> bytes:
    """The line of a request as text, with the columns beside it."""
    data = _as_bytes(text)
    if not fields:
        return data
    try:
        value = parse_unambiguous_json(data.decode(), "")
    except (InputError, UnicodeDecodeError):
        return data  # it is refused later, with its place
    return _as_line(value if isinstance(value, dict) else {"messages": value}, fields)


def _is_said_of_lines(column: str) -> bool:
    """Whether a column beside whole requests says something about them. Others belong to the table:
    a number `n` is not an option of a request."""
    return column in LINE_FIELDS or OF_TRAINING.search(column) is not None


def _unread(column: str) -> str:
    return f"{column} (column)"


def _as_line(body: Mapping[str, Any], fields: Mapping[str, Any]) -> bytes:
    """A request with the columns beside it. If both have a field with different values, the
    column's gets a name that nothing reads."""
    names = {n: n if body.get(n, fields[n]) == fields[n] else _unread(n) for n in fields}
    line = {**{names[name]: value for name, value in fields.items()}, **body}
    return json.dumps(line, default=_text_of).encode()


def _text_of(value: object) -> str:
    """A value that JSON does not have, as text. Bytes are decoded as UTF-8; each invalid one
    becomes a surrogate, which no prompt may have."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _as_bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")


def _plain(value: Any) -> Any:
    """A value of a column without the nulls and NaN with which Arrow and pandas fill gaps."""
    return None if value != value else without_filled(value)


def conversation_column(
    schema: ArrowSchema, wanted: str | None, carry: Sequence[str], name: str
) -> ConversationColumn:
    """The `wanted` column, or the only possible one."""
    kinds = {field.name: kind for field in schema if (kind := _kind(field.type)) is not None}
    listed = ", ".join(kinds) or "none"
    if wanted is not None and wanted not in kinds:
        state = "holds no text" if wanted in schema.names else "is not there"
        expected = "expected conversations as JSON text or lists of messages"
        raise DatasetError(f"{name}: column {wanted} {state}, {expected} (columns: {listed})")
    if wanted is None and (row := _as_rows(schema, kinds, name)) is not None:
        found, kind = row, "row"
    elif (column := wanted or _only_column(kinds)) is not None:
        found, kind = column, kinds[column]
    else:
        problem = f"several columns may have the conversations ({listed}): choose one (--column)"
        raise DatasetError(f"{name}: {problem}")
    others = [n for n in schema.names if n != found]
    beside = [n for n in others if wanted is None or n in _BESIDE_A_COLUMN]
    _refuse_inexact(schema, [found, *(n for n in beside if n in _READ)], name)
    carried = tuple(column for column in carry if column in schema.names)
    return ConversationColumn(found, kind, tuple(beside), carried)


# The columns that are read beside a requested one.
_BESIDE_A_COLUMN = ("tools", *SYSTEM_FIELDS)
# The fields of lines and requests that must be exact. Fields that nothing reads need not be.
_READ = LINE_FIELDS.union(*FIELDS_READ.values()) - {"metadata"}


def _as_rows(schema: ArrowSchema, kinds: Mapping[str, str], name: str) -> str | None:
    """The first field of a line if each row is a line; None if one column holds all of it."""
    if (picture := next((n for n in PICTURE_FIELDS if n in schema.names), None)) is not None:
        problem = "pictures are read where the messages have them: choose a column (--column)"
        raise DatasetError(f"{name}: column {picture}: {problem}")
    fields = [n for n in schema.names if n in CONVERSATION_FIELDS]
    return fields[0] if len(fields) > 1 or (fields and kinds.get(fields[0]) != "text") else None


def _only_column(kinds: Mapping[str, str]) -> str | None:
    """The only column of messages, otherwise of texts, if there is exactly one."""
    lists = [name for name, kind in kinds.items() if kind != "text"]
    only = lists or list(kinds)
    return only[0] if len(only) == 1 else None


def _kind(type: ArrowType) -> str | None:
    """The kind of a column that may hold conversations: "text", or the name that a list of messages
    has in a request. None for other columns."""
    names = _names_in(type.value_type) if _is_list(type) else set()
    if {"from", "value"} <= names:
        return "conversations"
    return "messages" if "role" in names else "text" if _is_text(type) else None


def _names_in(struct: ArrowType) -> set[str]:
    return {struct.field(n).name for n in range(struct.num_fields)}


def _is_text(type: ArrowType) -> bool:
    types = pyarrow().types
    return bool(
        types.is_string(type)
        or types.is_large_string(type)
        or types.is_binary(type)
        or types.is_large_binary(type)
    )


def _is_list(type: ArrowType) -> bool:
    types = pyarrow().types
    is_list = types.is_list(type) or types.is_large_list(type)
    return bool(is_list and types.is_struct(type.value_type))


# Objects whose fields the caller chooses.
_FREE_FORM_FIELDS = {
    "arguments",
    "parameters",
    "tools",
    "response_format",
    "json_schema",
    "input_schema",
    "schema",
}


def _refuse_inexact(schema: ArrowSchema, columns: Iterable[str], name: str) -> None:
    """Raises for columns in which a value is no longer as it was written."""
    for column in columns:
        if (place := _free_form_struct(schema.field(column))) is not None:
            merged = "Parquet gives it the fields of all rows, so it is not as it was written"
            raise DatasetError(
                f"{name}: column {place} is a struct: {merged}; keep it as JSON text"
            )


def _free_form_struct(field: ArrowField, path: str = "") -> str | None:
    """The place in a column of an object that may have gained fields, if any."""
    types, type, place = pyarrow().types, field.type, f"{path}.{field.name}".removeprefix(".")
    while types.is_list(type) or types.is_large_list(type):
        type = type.value_type
    if field.name in _FREE_FORM_FIELDS and not (_is_text(type) or types.is_null(type)):
        return place
    if not types.is_struct(type):
        return None
    inside = (_free_form_struct(type.field(n), place) for n in range(type.num_fields))
    return next((found for found in inside if found is not None), None)
