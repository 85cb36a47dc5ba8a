"""The fields by which servers take a grammar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dsv4.errors import refusal, short_repr
from dsv4.grammar.markup import VISIBLE

# Stands for the grammar's text.
_TEXT = object()


@dataclass(frozen=True)
class Server:
    """The forms of grammar that a server reads, and the fields that it wants."""

    forms: tuple[str, ...]
    fields: dict[str, Any]


# Tokens of the format must neither be hidden in what comes back nor added to what is sent.
SERVERS = {
    "vllm": Server(
        ("xgrammar", "lark"),
        {
            "structured_outputs": {"grammar": _TEXT},
            "skip_special_tokens": False,
            "add_special_tokens": False,
        },
    ),
    "sglang": Server(
        ("xgrammar",), {"sampling_params": {"ebnf": _TEXT, "skip_special_tokens": False}}
    ),
    "sglang-completions": Server(("xgrammar",), {"ebnf": _TEXT, "skip_special_tokens": False}),
    "llamacpp": Server(("gbnf",), {"grammar": _TEXT, "preserved_tokens": [*VISIBLE]}),
}


def fields_for(server: str, form: str, text: str) -> dict[str, Any]:
    """The fields of a request to a server."""
    known = SERVERS.get(server) if isinstance(server, str) else None
    if known is None:
        raise refusal(
            ("server",), f"found {short_repr(server)}, expected one of {', '.join(SERVERS)}"
        )
    if form not in known.forms:
        expected = f"a grammar of the form {known.forms[0]}"
        raise refusal(("server",), f"found {server} for the form {form}, expected {expected}")
    return {name: _filled(value, text) for name, value in known.fields.items()}


def _filled(fields: Any, text: str) -> Any:
    """A copy with the text in its place."""
    if isinstance(fields, dict):
        return {name: _filled(value, text) for name, value in fields.items()}
    if isinstance(fields, list):
        return list(fields)
    return text if fields is _TEXT else fields
