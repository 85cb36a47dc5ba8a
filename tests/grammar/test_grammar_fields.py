"""The fields by which servers take a grammar."""

from __future__ import annotations

from typing import Any

import pytest

import dsv4
from dsv4.grammar import Grammar, for_request

TEXT = "root ::= x"


@pytest.mark.parametrize(
    ("server", "form", "fields"),
    [
        (
            *("vllm", "xgrammar"),
            {
                "structured_outputs": {"grammar": TEXT},
                "skip_special_tokens": False,
                "add_special_tokens": False,
            },
        ),
        ("sglang", "xgrammar", {"sampling_params": {"ebnf": TEXT, "skip_special_tokens": False}}),
        ("sglang-completions", "xgrammar", {"ebnf": TEXT, "skip_special_tokens": False}),
        (
            *("llamacpp", "gbnf"),
            {"grammar": TEXT, "preserved_tokens": ["｜DSML｜", "<think>", "</think>"]},
        ),
    ],
)
def test_each_server(server: str, form: Any, fields: dict[str, Any]) -> None:
    assert Grammar(TEXT, form).fields(server) == fields


def test_fields_are_the_caller_s_own() -> None:
    grammar = Grammar(TEXT, "gbnf")
    grammar.fields("llamacpp")["preserved_tokens"].clear()
    assert grammar.fields("llamacpp")["preserved_tokens"]


def test_a_server_that_reads_another_form() -> None:
    with pytest.raises(dsv4.Error, match="server: found llamacpp for the form xgrammar, expected"):
        Grammar(TEXT, "xgrammar").fields("llamacpp")


def test_an_unknown_server() -> None:
    with pytest.raises(dsv4.Error, match="server: found 'tgi', expected one of vllm"):
        Grammar(TEXT, "xgrammar").fields("tgi")


def test_the_form_is_kept() -> None:
    for form in ("xgrammar", "gbnf", "lark"):
        grammar = for_request(dsv4.Request([{"role": "user", "content": "Hi"}]), form)
        assert grammar.form == form
        assert grammar.relaxed == ()
