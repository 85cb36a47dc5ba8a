"""Which column of a Parquet file holds the conversations, and a row of it as a JSON line.

Text is read as JSON. Lists of messages are read only where that is exact: Parquet gives every row
the same fields and fills gaps with nulls, so a schema or an object of arguments would no longer
be as it was written, and is refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from dsv4.dataset.dataset_errors import DatasetError, pyarrow


class ConversationColumn(NamedTuple):
    """The column of conversations.

    `form` is "text", or what a list is called in a request: "messages", or ShareGPT's
    "conversations". `beside` are columns of text that belong to a list, `carried` those that go
    along.
    """

    name: str
    form: str
    beside: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys([self.name, *self.beside, *self.carried]))

    def line_of(self, row: dict[str, Any]) -> bytes:
        """A row as the line that a file of JSON lines would have."""
        value = row[self.name]
        if self.form != "text":
            body = {self.form: _without_nulls(value)}
            for name in filter(row.get, self.beside):
                body[name] = _json_or_text(row[name]) if name == "tools" else row[name]
        elif not self.carried:
            return _as_bytes(value or "null")
        else:
            body = _object_in(value or "null")
        extra = {name: row[name] for name in self.carried if name not in body}
        return json.dumps({**body, **extra}, default=str).encode()


def _object_in(text: str | bytes) -> dict[str, Any]:
    """The request in a text. What is none becomes one that is refused with its reason."""
    value = _json_or_text(text)
    return value if isinstance(value, dict) else {"messages": value}


def _json_or_text(text: str | bytes) -> Any:
    """The value of JSON text. What is none stays a text, which is refused where it stands."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _as_bytes(text).decode("utf-8", "replace")


def _as_bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")


def _without_nulls(value: Any) -> Any:
    """Without the fields that Parquet added, which other rows have."""
    if isinstance(value, dict):
        return {name: _without_nulls(v) for name, v in value.items() if v is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def conversation_column(
    schema: Any, wanted: str | None, carry: Sequence[str], name: str
) -> ConversationColumn:
    """The column that was asked for, or the only one there can be."""
    texts = [field.name for field in schema if _is_text(field.type)]
    lists = {field.name: _why_not_exact(field.type) for field in schema if _is_list(field.type)}
    exact = [column for column, problem in lists.items() if problem is None]
    carried = tuple(column for column in carry if column in schema.names)
    if wanted is None:
        wanted = _only_candidate(texts, exact)
    if wanted in exact:
        form = _list_form(schema.field(wanted).type)
        beside = tuple(column for column in _COMPANION_COLUMNS[form] if column in texts)
        return ConversationColumn(str(wanted), form, beside, carried)
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
    found = "holds no text" if wanted in schema.names else "is not there"
    problem = f"column {wanted} {found}, expected conversations as JSON text or lists of messages"
    raise DatasetError(f"{name}: {problem} (columns: {listed})")


# What ShareGPT and a Chat request have beside the turns that is text in Parquet.
_COMPANION_COLUMNS = {"messages": ("tools",), "conversations": ("tools", "system")}


def _list_form(type: Any) -> str:
    return "conversations" if {"from", "value"} <= _names_in(type.value_type) else "messages"


def _names_in(struct: Any) -> set[str]:
    return {struct.field(n).name for n in range(struct.num_fields)}


def _only_candidate(texts: list[str], exact: list[str]) -> str | None:
    """The column that can only be meant: the one of messages, or the only text."""
    if len(exact) == 1:
        return exact[0]
    return texts[0] if len(texts) == 1 and not exact else None


def _is_text(type: Any) -> bool:
    types = pyarrow().types
    return bool(
        types.is_string(type)
        or types.is_large_string(type)
        or types.is_binary(type)
        or types.is_large_binary(type)
    )


def _is_list(type: Any) -> bool:
    types = pyarrow().types
    is_list = types.is_list(type) or types.is_large_list(type)
    return bool(is_list and types.is_struct(type.value_type))


# What of a message is an object whose fields are its author's own.
_FREE_FORM_FIELDS = {
    "arguments",
    "parameters",
    "tools",
    "response_format",
    "json_schema",
    "input_schema",
}


def _why_not_exact(type: Any) -> str | None:
    """Why a list of messages is not as it was written. None where it is."""
    messages = type.value_type
    names = _names_in(messages)
    if not ({"role"} <= names or {"from", "value"} <= names):
        return "its items have no role, so they are no messages"
    free = _free_form_struct(messages)
    if free is None:
        return None
    merged = "Parquet gives it the fields of all rows, so it is not as it was written"
    return f"{free} is a struct: {merged}; keep it as JSON text"


def _free_form_struct(type: Any, path: str = "") -> str | None:
    types = pyarrow().types
    if types.is_list(type) or types.is_large_list(type):
        return _free_form_struct(type.value_type, path)
    if not types.is_struct(type):
        return None
    for n in range(type.num_fields):
        field = type.field(n)
        inner = f"{path}.{field.name}".removeprefix(".")
        if field.name in _FREE_FORM_FIELDS and not _is_text_or_null(field.type):
            return inner
        found = _free_form_struct(field.type, inner)
        if found:
            return found
    return None


def _is_text_or_null(type: Any) -> bool:
    return _is_text(type) or pyarrow().types.is_null(type)
