"""The fields by which servers take a grammar."""

from __future__ import annotations

from typing import Any

from dsv4.errors import shown
from dsv4.grammar.markup import VISIBLE
from dsv4.grammar.relaxed import refusal

# For each server: the form that it reads.
FORMS = {
    "vllm": "xgrammar",
    "sglang": "xgrammar",
    "sglang-completions": "xgrammar",
    "llamacpp": "gbnf",
}


def fields_for(server: str, form: str, text: str) -> dict[str, Any]:
    """The fields of a request to a server."""
    wanted = FORMS.get(server) if isinstance(server, str) else None
    if wanted is None:
        raise refusal(("server",), f"found {shown(server)}, expected one of {', '.join(FORMS)}")
    if form != wanted and not (server == "vllm" and form == "lark"):
        raise refusal(("server",), f"found {server}, which reads {wanted}, expected a {wanted} grammar, not {form}")
    if server == "vllm":
        return {
            "structured_outputs": {"grammar": text},
            "skip_special_tokens": False,
            "add_special_tokens": False,
        }
    if server == "sglang":
        return {"sampling_params": {"ebnf": text, "skip_special_tokens": False}}
    if server == "sglang-completions":
        return {"ebnf": text, "skip_special_tokens": False}
    return {"grammar": text, "preserved_tokens": list(VISIBLE)}
