"""Which columns of a Parquet file hold the conversations, and a row of it as a JSON line.

A row is a line: its columns are those fields that a line of JSON would have.

Text is read as JSON. Lists of messages are read only where that is exact: Parquet gives every row
the same fields and fills gaps with nulls, so a schema or an object of arguments would no longer
be as it was written, and is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from dsv4._inputs.line_shapes import LINE_FIELDS, PICTURE_FIELDS, SYSTEM_FIELDS
from dsv4._inputs.request_bodies import without_filled
from dsv4.dataset.dataset_errors import DatasetError, pyarrow


class ArrowField(Protocol):
    """A column of an Arrow schema, or a field of a struct."""

    name: str
    type: ArrowType


class ArrowType(Protocol):
    """What is read of an Arrow type. Only lists have a `value_type`, only structs have fields."""

    value_type: ArrowType
    num_fields: int

    def field(self, index: int) -> ArrowField: ...


class ArrowSchema(Protocol):
    """What is read of an Arrow schema."""

    names: list[str]

    def field(self, name: str) -> ArrowField: ...

    def __iter__(self) -> Iterator[ArrowField]: ...


class ConversationColumn(NamedTuple):
    """The column of conversations, or all columns that a line is made of, where `kind` is "row".

    `kind` is else "text", or the field of a request that a list stands for: "messages", or
    ShareGPT's "conversations". `companions` are columns that belong to it, `carried` those that are
    copied to the output.
    """

    name: str
    kind: str
    companions: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys([self.name, *self.companions, *self.carried]))

    def to_json_line(self, row: dict[str, Any]) -> bytes:
        """A row as the line that a file of JSON lines would have."""
        value = row[self.name]
        if self.kind == "row":
            body = {name: without_filled(row[name]) for name in self.companions}
            body = {name: value for name, value in body.items() if value is not None}
        elif self.kind != "text":
            body = {self.kind: without_filled(value)}
            for name in filter(row.get, self.companions):
                body[name] = _json_or_text(row[name]) if name == "tools" else row[name]
        elif not self.carried:
            return _as_bytes(value or "null")
        else:
            body = _object_in(value or "null")
        extra = {name: row[name] for name in self.carried if name not in body}
        return json.dumps({**body, **extra}, default=str).encode()


def _object_in(text: str | bytes) -> dict[str, Any]:
    """The request in a text. Anything else becomes a request that is refused with its reason."""
    value = _json_or_text(text)
    return value if isinstance(value, dict) else {"messages": value}


def _json_or_text(text: str | bytes) -> Any:
    """The value of JSON text. Other text stays text, which is refused later, at its place."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _as_bytes(text).decode("utf-8", "replace")


def _as_bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")


def conversation_column(
    schema: ArrowSchema, wanted: str | None, carry: Sequence[str], name: str
) -> ConversationColumn:
    """The column that was asked for, or the only one there can be."""
    texts = [field.name for field in schema if _is_text(field.type)]
    lists = {field.name: _why_not_exact(field.type) for field in schema if _is_list(field.type)}
    exact = [column for column, problem in lists.items() if problem is None]
    carried = tuple(column for column in carry if column in schema.names)
    flags = [field.name for field in schema if pyarrow().types.is_boolean(field.type)]
    if wanted is None:
        if (beside := next((n for n in PICTURE_FIELDS if n in schema.names), None)) is not None:
            problem = "pictures are read where the messages have them: choose a column (--column)"
            raise DatasetError(f"{name}: column {beside}: {problem}")
        fields = [n for n in schema.names if n in LINE_FIELDS and n in (*texts, *exact, *flags)]
        inexact = [n for n in LINE_FIELDS & lists.keys() if lists[n]]
        if len(fields) > 1 and not inexact:
            return ConversationColumn(fields[0], "row", tuple(fields), carried)
        if len(exact) == 1:
            wanted = exact[0]
        elif len(texts) == 1 and not exact:
            wanted = texts[0]
    if wanted in exact:
        names = _names_in(schema.field(wanted).type.value_type)
        kind = "conversations" if {"from", "value"} <= names else "messages"
        companions = tuple(column for column in _COMPANION_COLUMNS if column in texts)
        return ConversationColumn(str(wanted), kind, companions, carried)
    if wanted in texts:
        return ConversationColumn(str(wanted), "text", (), carried)
    listed = ", ".join([*texts, *exact]) or "none"
    if wanted is None:
        inexact = [f"{column}: {problem}" for column, problem in lists.items() if problem]
        if inexact and not texts:
            raise DatasetError(f"{name}: {'; '.join(inexact)}")
        problem = f"several columns may have the conversations ({listed}): choose one (--column)"
        raise DatasetError(f"{name}: {problem}")
    if lists.get(wanted):
        raise DatasetError(f"{name}: column {wanted}: {lists[wanted]}")
    state = "holds no text" if wanted in schema.names else "is not there"
    problem = f"column {wanted} {state}, expected conversations as JSON text or lists of messages"
    raise DatasetError(f"{name}: {problem} (columns: {listed})")


# Columns of text that a list of messages may have beside it.
_COMPANION_COLUMNS = ("tools", *SYSTEM_FIELDS)


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


# The parts of a message whose fields the caller chooses.
_FREE_FORM_FIELDS = {
    "arguments",
    "parameters",
    "tools",
    "response_format",
    "json_schema",
    "input_schema",
}


def _why_not_exact(type: ArrowType) -> str | None:
    """Why a list of messages is no longer as it was written; None where it is."""
    messages = type.value_type
    names = _names_in(messages)
    if not ({"role"} <= names or {"from", "value"} <= names):
        return "its items have no role, so they are no messages"
    free = _free_form_struct(messages)
    if free is None:
        return None
    merged = "Parquet gives it the fields of all rows, so it is not as it was written"
    return f"{free} is a struct: {merged}; keep it as JSON text"


def _free_form_struct(type: ArrowType, path: str = "") -> str | None:
    types = pyarrow().types
    if types.is_list(type) or types.is_large_list(type):
        return _free_form_struct(type.value_type, path)
    if not types.is_struct(type):
        return None
    for n in range(type.num_fields):
        field = type.field(n)
        inner = f"{path}.{field.name}".removeprefix(".")
        is_written = _is_text(field.type) or types.is_null(field.type)
        if field.name in _FREE_FORM_FIELDS and not is_written:
            return inner
        inside = _free_form_struct(field.type, inner)
        if inside:
            return inside
    return None
