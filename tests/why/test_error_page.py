"""errors.md, the table of error texts that `dsv4 why` reads."""

from __future__ import annotations

import gzip
import json

import pytest

from dsv4._why.doc_pages import doc_pages
from dsv4._why.error_page import KnownError, find_known_error, known_errors
from dsv4._why.judge import why
from loading import ROOT

ROWS = gzip.decompress((ROOT / "tests/vectors/official-rows.jsonl.gz").read_bytes()).splitlines()
REFUSALS = sorted({row["message"] for row in map(json.loads, ROWS) if row["status"] != 200})


@pytest.mark.parametrize("text", REFUSALS)
def test_every_refusal_of_the_official_api_is_explained(text: str) -> None:
    body = {"error": {"message": text, "type": "invalid_request_error", "param": None}}
    for pasted in (text, json.dumps(body), f"Error code: 400 - {body!r}"):
        verdict = why(pasted)
        assert (verdict.kind, verdict.status, verdict.who) == ("error", 1, "client"), pasted
        assert "⟦" in verdict.marked


@pytest.mark.parametrize("error", known_errors(), ids=lambda error: error.title)
def test_a_section_is_whole_and_finds_itself(error: KnownError) -> None:
    assert error.who in ("model", "server", "client", "dsv4", "nobody")
    assert error.sure in ("sure", "likely")
    assert error.why
    assert error.fix
    assert error.more in doc_pages()
    for text in error.texts:
        found = find_known_error(f"log 17: {text.replace('…', 'a b')}.")
        assert found is not None
        assert found[0].who == error.who


@pytest.mark.parametrize(
    "text",
    [
        "The weather is fine, and the model is content.",
        "It should be set to the maximum length of a name.",
        "Connection refused is what I fear, said the poet.",
        "400 people came, and 502 of them left.",
    ],
)
def test_prose_is_no_error(text: str) -> None:
    assert find_known_error(text) is None
