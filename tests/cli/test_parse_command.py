"""dsv4 parse"""

from __future__ import annotations

import json
import subprocess
from itertools import groupby
from pathlib import Path

import pytest
from running import ENVIRONMENT, ROOT, as_json, command, dsv4, printed, refused

from builders import EOS
from rows import each_row

CALL = (
    '\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="look">\n'
    '<｜DSML｜parameter name="at" string="true">sky</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
)
WHOLE = f"Hm.</think>Let me see.{CALL}{EOS}"
MISSPELLED = WHOLE.replace("｜DSML｜invoke", "|DSML|invoke")
CUT = f"Hm.</think>{CALL.partition('ky')[0]}"


def test_a_message() -> None:
    message = json.loads(printed("parse", stdin=WHOLE))
    assert message.pop("tool_calls")[0]["function"] == {
        "name": "look",
        "arguments": '{"at": "sky"}',
    }
    assert message == {"role": "assistant", "content": "Let me see.", "reasoning_content": "Hm."}


def test_the_same_text_gives_the_same_ids() -> None:
    assert printed("parse", stdin=WHOLE) == printed("parse", stdin=WHOLE)


def test_what_it_prints_can_be_encoded(tmp_path: Path) -> None:
    message = json.loads(printed("parse", stdin=WHOLE))
    prompt = printed("encode", stdin=as_json({"role": "user", "content": "?"}, message))
    assert prompt.endswith(WHOLE)


def test_chat_mode() -> None:
    message = json.loads(printed("parse", "--mode", "chat", stdin=f"Hello{EOS}"))
    assert message == {"role": "assistant", "content": "Hello"}


def test_tools_are_declared(tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    bare = WHOLE.replace("<｜DSML｜tool_calls>\n", "").replace("\n</｜DSML｜tool_calls>", "")
    for declared in ([{"name": "look"}], {"tools": [{"function": {"name": "look"}}]}):
        tools.write_text(json.dumps(declared))
        done = dsv4("parse", "--tools", tools, stdin=bare)
        assert json.loads(done.stdout)["tool_calls"]
    tools.write_text("{}")
    assert "found no tools, expected a list of them" in refused(
        "parse", "--tools", tools, stdin=bare
    )


def test_repairs_are_mentioned() -> None:
    done = dsv4("parse", stdin=MISSPELLED)
    assert done.stderr == b"dsv4: 2 repaired (see --explain)\n"
    assert json.loads(done.stdout)["tool_calls"]
    assert b"1 incomplete (see --full)" in dsv4("parse", stdin=CUT).stderr


def test_everything() -> None:
    found = json.loads(printed("parse", "--full", stdin=CUT))
    assert found["finish"] == "length"
    assert found["incomplete"] == [
        {
            "name": "look",
            "arguments": '{"at": "s"}',
            "index": 0,
            "id": "call_0",
            "namespace": None,
        }
    ]
    assert [repair["kind"] for repair in found["diagnostics"]] == ["cut_short"]


def test_strict() -> None:
    assert printed("parse", "--strict", stdin=WHOLE) == printed("parse", stdin=WHOLE)
    complaint = refused("parse", "--strict", stdin=MISSPELLED, status=1)
    assert complaint.startswith("dsv4: stdin: at character ")


def test_explaining() -> None:
    shown = printed("parse", "--explain", stdin=MISSPELLED)
    assert '⟦1 <|DSML|invoke name="look">⟧\n' in shown
    assert '⟦1⟧ misspelled_tag 4:1 <|DSML|invoke name="look">\n    This tag is not' in shown
    assert shown.endswith("2 repairs, 1 call, finish tool_calls\n")
    whole = printed("parse", "--explain", stdin=WHOLE)
    assert whole.startswith(f"{WHOLE}\nno repairs, 1 call, finish tool_calls\n")


def test_a_well_formed_call_that_was_shown_as_text_is_the_servers_doing() -> None:
    assert "the server did not parse it" in printed("parse", "--explain", stdin=WHOLE)
    assert "did not parse it" not in printed("parse", "--explain", stdin=MISSPELLED)


# What it is, the text, the flags, and whether it is said to look like an answer.
ANSWERS = [
    ("an answer", f"Let me see.{CALL}", [], True),
    ("an answer that is all block", CALL.strip(), [], True),
    ("with mistakes", f"So.{CALL}".replace("｜DSML｜invoke", "|DSML|invoke"), [], True),
    ("with text after the block", f"So.{CALL}\nDone.", [], True),
    ("read as an answer", f"Let me see.{CALL}", ["--mode", "chat"], False),
    ("a whole completion", WHOLE, [], False),
    ("a misspelled end of reasoning", f"Hm.</ think>So.{CALL}", [], False),
    ("a call before the end of reasoning", f"Hm.{CALL}Hm.</think>So.", [], False),
    ("reasoning that is begun", f"<think>Hm.{CALL}", [], False),
    ("a call that breaks off", f"So.{CALL.partition('ky')[0]}", [], False),
    ("a quoted call", f"For example:\n```\n{CALL}\n```\n", [], False),
    ("no call", "Let me see.", [], False),
]


@each_row("name, text, flags, is_mentioned", ANSWERS)
def test_an_answer_that_is_read_as_reasoning(
    name: str, text: str, flags: list[str], is_mentioned: bool
) -> None:
    shown = printed("parse", "--explain", *flags, stdin=text)
    assert ("looks like an answer's text, which --mode chat reads.\n" in shown) == is_mentioned, (
        name
    )


def test_explaining_lets_no_control_character_through() -> None:
    assert "\x1b" not in printed("parse", "--explain", stdin="\x1b[31m")
    assert "\x1b[1;31m" in printed("parse", "--explain", "--color", "always", stdin=CUT)


def test_events_come_as_the_text_does() -> None:
    process = subprocess.Popen(
        command("parse", "--stream", "--mode", "chat"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        heard = []
        # A character that is cut in two comes when it is whole.
        for part in ("Grüße".encode()[:3], "Grüße".encode()[3:], b" to all"):
            process.stdin.write(part)
            process.stdin.flush()
            heard.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        heard.append(json.loads(process.stdout.readline()))
    assert heard == [
        {"event": "content_delta", "text": "Gr"},
        {"event": "content_delta", "text": "üße"},
        {"event": "content_delta", "text": " to all"},
        {"event": "end", "finish": "stop"},
    ]


def test_all_kinds_of_events() -> None:
    events = [json.loads(line) for line in printed("parse", "--stream", stdin=WHOLE).splitlines()]
    kinds = [kind for kind, _ in groupby(event["event"] for event in events)]
    assert kinds == [
        *("reasoning_delta", "content_delta", "tool_call_start", "arguments_delta"),
        *("tool_call_end", "end"),
    ]


@pytest.mark.parametrize("flags", [[], ["--stream"]])
def test_text_that_is_not_utf8(flags: list[str]) -> None:
    assert "not UTF-8" in refused("parse", *flags, stdin=b"ab\xff")
    assert "not UTF-8" in refused("parse", *flags, stdin="ü".encode()[:1])


def test_the_page_about_leaks_explains_its_own_example() -> None:
    """By its own command, from a file that has what the page shows: a well-formed block, and no
    repairs."""
    page = (ROOT / "docs" / "why-dsml.md").read_text("utf-8")
    file = "examples/answer.txt"
    assert page.partition("```text\n")[2].partition("```")[0] == (ROOT / file).read_text("utf-8")
    (command,) = (line for line in page.splitlines() if line.endswith(f"--explain {file}"))
    shown = printed(*command.split()[1:], cwd=ROOT)
    assert "no repairs, 1 call" in shown
