"""Prompts that could have been written by several requests: which of them is meant.

Each table has one question, with prompts on both sides of its boundary.
"""

from __future__ import annotations

from typing import Any

import pytest

import dsv4
from builders import BOS, EOS
from dsv4._decode.request_search import unescaped_prompt
from rows import each_row

USER, RESULT = "<｜User｜>", "<tool_result>x</tool_result>"
THINK, ANSWER = "<｜Assistant｜><think>", "<｜Assistant｜></think>"
INVOKES = "".join(f'<｜DSML｜invoke name="{name}">\n\n</｜DSML｜invoke>\n' for name in "fg")
CALLED = f"{BOS}{USER}q{ANSWER}\n\n<｜DSML｜tool_calls>\n{INVOKES}</｜DSML｜tool_calls>{EOS}"
CALLED_V32 = CALLED.replace("tool_calls", "function_calls") + "\n\n<function_results>\n<result>"


def in_short(decoded: Any, skipped: int = 0) -> list[str]:
    """Each message of a reading in short: its role, its content, and its task."""
    return [
        " ".join(filter(None, (m["role"], m["content"], m.get("task") and f"[{m['task']}]")))
        for m in decoded.request.messages[skipped:]
    ]


@each_row(
    "turns, messages",
    [
        # One of two turns is a developer's: the second, unless it is empty.
        (f"{USER}a{USER}b", ["user a", "developer b"]),
        (f"{USER}a{USER}", ["developer a", "user"]),
        (f"{USER}{USER}b", ["user", "developer b"]),
        (f"{USER}{USER}", ["user [query]", "user"]),
        (f"{USER}a{USER}b{USER}c", ["user a", "developer b", "user c"]),
        # With an answer or a task between them, both are users'.
        (f"{USER}a{ANSWER}b{EOS}{USER}c", ["user a", "assistant b", "user c"]),
        (f"{USER}a<｜query｜>{USER}b", ["user a [query]", "assistant", "user b"]),
    ],
)
def test_turns_of_users_without_an_answer_between(turns: str, messages: list[str]) -> None:
    assert in_short(dsv4.decode(f"{BOS}{turns}{ANSWER}", dialect="v4")) == messages


def test_a_dialect_without_developers_has_a_task_between_users() -> None:
    decoded = dsv4.decode(f"{BOS}{USER}a{USER}b{ANSWER}", dialect="v4.1")
    assert in_short(decoded) == ["user a [query]", "user b"]


@each_row(
    "answer, messages",
    [
        # A developer's turn before the last question would not be shown where reasoning is not.
        (f"{ANSWER}c", ["user a [query]", "user b", "assistant c", "user d"]),
        (f"{THINK}r</think>c", ["user a", "developer b", "assistant c", "user d"]),
    ],
)
def test_what_is_dropped_with_the_reasoning_is_no_developers(
    answer: str, messages: list[str]
) -> None:
    prompt = f"{BOS}{USER}a{USER}b{answer}{EOS}{USER}d{THINK}"
    assert in_short(dsv4.decode(prompt, dialect="v4")) == messages


@each_row(
    "turns, messages",
    [
        (f"{USER}{RESULT}{USER}b", ["tool x", "developer b"]),
        (f"{USER}b{USER}{RESULT}", ["developer b", "tool x"]),
        # A developer's turn has no results, and is not empty.
        (f"{USER}{RESULT}{USER}", ["tool x", "system", "user"]),
        (f"{USER}{USER}{RESULT}", ["user", "system", "tool x"]),
        (f"{USER}{RESULT}{USER}{RESULT}", ["tool x", "system", "tool x"]),
    ],
)
def test_results_beside_another_turn(turns: str, messages: list[str]) -> None:
    assert in_short(dsv4.decode(f"{CALLED}{turns}{ANSWER}", dialect="v4"), 2) == messages


@each_row(
    "end, prefix, messages",
    [
        (f"{THINK}hm", "hm", ["user a"]),
        (f"{THINK}hm</think>b", "", ["user a", "assistant b"]),
        (f"{THINK}hm{EOS}", "", ["user a", "assistant hm"]),
        (f"{THINK}hm{USER}b{THINK}", "", ["user a", "assistant hm", "user b"]),
        (f"{ANSWER}b", "", ["user a", "assistant b"]),
    ],
)
def test_reasoning_is_open_only_at_the_end(end: str, prefix: str, messages: list[str]) -> None:
    decoded = dsv4.decode(f"{BOS}{USER}a{end}", dialect="v4")
    assert (decoded.request.prefix, in_short(decoded)) == (prefix, messages)


@each_row(
    "turns, messages",
    [
        (f"{USER}a{ANSWER}b{EOS}{USER}d", ["user a", "assistant b", "user d"]),
        # In an answer, a user token is spelled if the answer ends behind it, before a header.
        (f"{USER}a{ANSWER}b{USER}c{EOS}{USER}d", ["user a", f"assistant b{USER}c", "user d"]),
        (f"{USER}a{ANSWER}b{USER}c", ["user a", "system b", "user c"]),
        # A user may spell the end of an answer: no answer was begun.
        (f"{USER}a{EOS}b", [f"user a{EOS}b"]),
    ],
)
def test_who_speaks_in_v3_2(turns: str, messages: list[str]) -> None:
    assert in_short(dsv4.decode(f"{BOS}{turns}{ANSWER}", dialect="v3.2")) == messages


def test_a_user_turn_of_v3_2_has_a_header_behind_it() -> None:
    assert in_short(dsv4.decode(f"{BOS}{USER}a", dialect="v3.2")) == [f"system {USER}a"]


@each_row(
    "results, messages",
    [
        ("1</result>\n<result>2</result>\n</function_results>\n\n</think>", ["tool 1", "tool 2"]),
        ("1</result>", ["tool 1"]),
        ("1</result>\n", ["tool 1", "system \n"]),
        ("1", ["system 1"]),
        ("1</result>\n<result>2", ["tool 1", "system 2"]),
        ("1</result>\n<result>2</result>", ["tool 1", "tool 2"]),
        # No more results than calls: the last has the rest in it.
        (
            "1</result>\n<result>2</result>\n<result>3</result>",
            ["tool 1", "tool 2</result>\n<result>3"],
        ),
    ],
)
def test_results_of_v3_2_that_were_cut(results: str, messages: list[str]) -> None:
    assert in_short(dsv4.decode(CALLED_V32 + results, dialect="v3.2"), 2) == messages


IMAGE, SYSTEM = "<｜deepseek_image｜>", "<｜System｜>"


@each_row(
    "turn, role",
    [
        # Where nothing was called, results are the user's text, unless a picture is in them.
        (f"<tool_result>a{IMAGE}</tool_result>", "tool"),
        ("<tool_result>a</tool_result>", "user"),
        (f"a{IMAGE}", "user"),
    ],
)
def test_a_picture_tells_results_from_text(turn: str, role: str) -> None:
    decoded = dsv4.decode(f"{BOS}{USER}{turn}{ANSWER}", dialect="v4.1")
    assert [message["role"] for message in decoded.request.messages] == [role]


@each_row(
    "prompt, has_context",
    [
        # The first system turn of all asks for no answer.
        (f"{SYSTEM}a{ANSWER}", True),
        (f"{SYSTEM}{ANSWER}", True),
        (SYSTEM, False),
        (f"{SYSTEM}a", False),
        (f"{SYSTEM}{USER}a{ANSWER}", False),
    ],
)
def test_what_cannot_be_the_first_system_turn_has_a_context(prompt: str, has_context: bool) -> None:
    decoded = dsv4.decode(prompt)
    assert bool(decoded.request.context) is has_context
    assert decoded.request.messages[0]["role"] == "system"
    assert SYSTEM not in decoded.request.messages[0]["content"]


def notes(decoded: Any) -> list[str]:
    """What is noted of single places: its kind, what stands there, and its message."""
    return [
        " ".join((note.kind, decoded.request.encode().text[note.start : note.end])).strip()
        + ("" if note.message is None else f" [{note.message}]")
        for note in decoded.notes
        if note.kind not in ("effort-ambiguous", "mode-guessed")
    ]


@each_row(
    "turns, messages, noted",
    [
        # A header asks for an action where nobody asked, if the action follows it directly.
        (f"a{ANSWER}<｜action｜>", ["system a [action]"], []),
        (f"a{ANSWER}", [f"system a{ANSWER}"], [f"token-as-text {ANSWER}"]),
        (
            f"a{ANSWER}b<｜action｜>",
            [f"system a{ANSWER}b<｜action｜>"],
            [f"token-as-text {ANSWER}", "token-as-text <｜action｜>"],
        ),
        # An answer to a task has no header, and none is missed. Others are.
        (f"{USER}a<｜query｜>b{EOS}", ["user a [query]", "assistant b"], []),
        (f"{USER}a<｜query｜>b", ["user a [query]", "assistant b"], ["open-turn b [1]"]),
        (f"a{EOS}", ["assistant a"], ["boundary-lost a [0]"]),
        # It spells a user token if it ends behind that; a header begins another answer.
        (
            f"a<｜title｜>{USER}b{EOS}{USER}c{ANSWER}",
            ["system a [title]", f"assistant {USER}b", "user c"],
            [f"token-as-text {USER}"],
        ),
        (
            f"a<｜title｜>{USER}b{ANSWER}",
            ["system a [title]", "assistant", "user b"],
            ["open-turn [1]"],
        ),
        # Behind the end of an answer that thinks is another one, with its own reasoning, or a
        # system text. An answer without reasoning goes on: its end was spelled.
        (
            f"{USER}a{THINK}r</think>b{EOS}s</think>c{EOS}",
            ["user a", "assistant b", "assistant c"],
            ["boundary-lost s</think>c [2]"],
        ),
        (f"{USER}a{THINK}r</think>b{EOS}c", ["user a", "assistant b", "system c"], []),
        (
            f"{USER}a{THINK}r</think>b{EOS}c{EOS}",
            ["user a", f"assistant b{EOS}c"],
            [f"token-as-text {EOS}"],
        ),
    ],
)
def test_where_a_turn_begins_and_what_is_noted_of_it(
    turns: str, messages: list[str], noted: list[str]
) -> None:
    decoded = dsv4.decode(f"{BOS}{turns}", dialect="v4")
    assert (in_short(decoded), notes(decoded)) == (messages, noted)


def test_an_ambiguous_dialect_has_no_place() -> None:
    [note] = dsv4.decode(f"{BOS}{USER}a{ANSWER}").notes
    assert (note.kind, note.start, note.end, note.message) == ("dialect-ambiguous", 0, 0, None)


def test_tools_in_a_text_of_v3_2_are_noted_at_their_message() -> None:
    body = {"role": "system", "content": "a", "response_format": {"type": "object"}}
    prompt = dsv4.encode([body, {"role": "user", "content": "b"}], dialect="v3.2").text
    [note] = (n for n in dsv4.decode(prompt, dialect="v3.2").notes if n.kind == "tools-from-text")
    assert note.message == 0


PROMPT = f"{BOS}{USER}It's so.\n{ANSWER}"
ESCAPED = f"{BOS}{USER}It\\'s so.\\n{ANSWER}"


@pytest.mark.parametrize(
    ("line", "prompt"),
    [
        (f"'{ESCAPED}'", PROMPT),
        (f'"{ESCAPED}"', PROMPT),
        (f"INFO prompt='{ESCAPED}', n=1", PROMPT),
        (f'{{"prompt": "{ESCAPED}", "n": 1}}', PROMPT),
        # Without quotes around it, all of the line is the prompt.
        (ESCAPED, PROMPT),
        (f"INFO {ESCAPED} 'x'", f"INFO {PROMPT} 'x'"),
        ('"Hi\\n" x', "Hi\n"),
        ("\\u00e9\\x41\\U0001f600\\t\\r\\\\\\q", "éA😀\t\r\\\\q"),
    ],
)
def test_a_prompt_in_a_line_of_a_log(line: str, prompt: str) -> None:
    assert unescaped_prompt(line) == prompt
