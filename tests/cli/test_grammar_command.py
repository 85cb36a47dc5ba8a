"""dsv4 grammar"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import dsv4, printed, refused

BODY = {
    "messages": [{"role": "user", "content": "Hi"}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "search",
                "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
            },
        }
    ],
}


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(BODY), "utf-8")
    return path


def test_the_forms(request_file: Path) -> None:
    assert printed("grammar", request_file).startswith("root ::= ")
    assert "TagDispatch" in printed("grammar", request_file, "--form", "xgrammar")
    assert "TagDispatch" not in printed("grammar", request_file, "--form", "gbnf")
    assert printed("grammar", request_file, "--form", "lark").startswith("start: ")


def test_fields_for_a_server(request_file: Path) -> None:
    fields = json.loads(printed("grammar", request_file, "--fields", "llamacpp"))
    assert fields["grammar"] == printed("grammar", request_file, "--form", "gbnf")
    assert "｜DSML｜" in fields["preserved_tokens"]


def test_options_change_the_grammar(request_file: Path) -> None:
    usual = printed("grammar", request_file)
    for option in (
        *(["--tool-choice", "required"], ["--reasoning", "server"], ["--one-call"]),
        *(["--mode", "chat"], ["--dialect", "v4.1"], ["--no-markup"]),
    ):
        assert printed("grammar", request_file, *option) != usual


def test_what_is_not_enforced_is_said_on_stderr(tmp_path: Path) -> None:
    body = json.loads(json.dumps(BODY))
    schema = body["tools"][0]["function"]["parameters"]["properties"]["q"]
    schema["format"] = "date"
    path = tmp_path / "request.json"
    path.write_text(json.dumps(body), "utf-8")
    done = dsv4("grammar", path)
    place = "tools[0].function.parameters.properties.q.format"
    assert done.returncode == 0
    assert done.stderr.decode() == f"dsv4: not enforced: {place}: formats are not enforced\n"
    assert place in refused("grammar", path, "--exact", status=1)


def test_a_server_that_reads_another_form(request_file: Path) -> None:
    options = ("--fields", "llamacpp", "--form", "lark")
    assert "expected a grammar of the form gbnf" in refused(
        "grammar", request_file, *options, status=1
    )
