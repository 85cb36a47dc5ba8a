"""How a server reads completions that are forced: any weights then write exactly these texts.

The rows are what models are known to write: mostly calls with something missing, quoted or unusual
in them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from dsv4._encode.encode import encode
from dsv4._format.dialects import STRING_FALSE, STRING_TRUE
from dsv4._format.tokens import DSML, EOS, THINK_END, THINK_START, Special
from dsv4._parse.parse import parse
from dsv4.verify.answers import ServerAnswer, streamed_answer, whole_answer
from dsv4.verify.check_findings import check_finding
from dsv4.verify.forcing import (
    NOT_THINKING,
    QUESTION,
    THINKING,
    WAYS,
    ForcingWay,
    repeating,
)
from dsv4.verify.report import CHAT, Post, ServerFinding

_PARAMETERS = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "count": {"type": "integer"}},
}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": name, "description": "d", "parameters": _PARAMETERS}}
    for name in ("run", "note")
]
_CALL, _OTHER = '{"command": "ls", "count": 2}', '{"command": "pwd"}'
_BLOCK, _INVOKE = f"<{DSML}tool_calls>", f"<{DSML}invoke"
_END = {name: f"</{DSML}{name}>" for name in ("parameter", "invoke", "tool_calls")}


def forced_rows() -> dict[str, str]:
    """Completions by their names."""
    return {**_missing_and_mentioned(), **_arguments(), **_spelled_otherwise()}


def _missing_and_mentioned() -> dict[str, str]:
    """Calls that lack something, and texts that only speak of calls."""
    one, text = _completion("", ("run", _CALL)), _completion("Let me look.", ("run", _CALL))
    return {
        "call": one,
        "text-and-call": text,
        "calls": _completion("", ("run", _CALL), ("note", _OTHER)),
        "three-calls": _completion("", *[("run", f'{{"count": {n}}}') for n in range(3)]),
        "long-text": _completion("I will look at each of the files. " * 12, ("run", _CALL)),
        "two-blocks": f"{one}\n\n{_completion('', ('note', _OTHER)).lstrip()}",
        "block-not-closed": one.replace(_END["tool_calls"], "").rstrip(),
        "call-not-closed": one.replace(_END["invoke"] + "\n", ""),
        "parameter-not-closed": one.replace(_END["parameter"], "", 1),
        "no-block": one.replace(_BLOCK + "\n", "").replace("\n" + _END["tool_calls"], ""),
        "cut": one[: one.index(_END["invoke"]) - 20],
        "cut-in-tag": one[: one.index(_INVOKE) + len(_INVOKE) + 3],
        "cut-after-block": one[: one.index(_BLOCK) + len(_BLOCK)],
        "text-after": f"{one}\n\nDone.",
        "quoted": f"Calls begin with `{_BLOCK}`, and that is all.",
        "quoted-call": f'A call begins with `{_INVOKE} name="run">`, and that is all.',
        "quoted-end": f"Calls end with `{_END['tool_calls']}`, and that is all.",
        "fenced": f"As in\n```\n{one.strip()}\n```\nand no more.",
        "fenced-xml": f"As in\n\n```xml\n{one.strip()}\n```\n\nand no more.",
        "think-quoted": f"The tag `{THINK_START}` begins reasoning.",
        "plain": "There is nothing to call.",
        "plain-angles": "If a < b and c > d, then <b>nothing</b> is to be called.",
    }


def _arguments() -> dict[str, str]:
    """Calls as they should be, with arguments that are hard to read."""
    commands = {
        "redirection": "make 2>&1",
        "closing-tag": "echo </parameter>",
        "line-breaks": "a\n\nb\n",
        "long": "echo word; " * 40,
        "code": "def f(x):\n    if x < 1:\n        return '>'\n\n    return f(x - 1)",
        "scripts": "echo 北京 größe 🛰",
        "quotes": "echo \"a\" 'b' \\n",
        "empty": "",
        "spaces": "  ls  ",
        "number-as-text": "42",
        "json-as-text": '{"a": [1, 2]}',
        "html": "<p class='x'>a &amp; b</p>",
    }
    by_name = {name: json.dumps({"command": command}) for name, command in commands.items()}
    by_name |= {"no-arguments": "{}", "nested": '{"count": [1, {"a": null}, 0.5]}'}
    return {name: call_of("run", arguments) for name, arguments in by_name.items()}


def _spelled_otherwise() -> dict[str, str]:
    """Calls with other spaces and attributes than the format has."""
    one = _completion("", ("run", _CALL))
    return {
        "blank-lines": one.replace("\n", "\n\n\n"),
        "string-True": one.replace(STRING_TRUE, STRING_TRUE.replace("true", "True")),
        "string-missing": one.replace(STRING_TRUE, '">').replace(STRING_FALSE, '">'),
        "json-inside": f'{_BLOCK}\n{_INVOKE} name="run">\n{_CALL}\n{_END["invoke"]}\n'
        + _END["tool_calls"],
    }


def call_of(name: str, arguments: str) -> str:
    """What a model writes to call a tool."""
    return _completion("", (name, arguments))


def _completion(text: str, *calls: tuple[str, str]) -> str:
    listed = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    answer: Any = {"role": "assistant", "content": text, "tool_calls": listed}
    before = str(encode([QUESTION], thinking=False, tools=TOOLS))
    whole = str(encode([QUESTION, answer], thinking=False, tools=TOOLS))
    return whole.removeprefix(before).removesuffix(EOS)


# Of each way whether it is taken, and then two for each row.
FORCED_REQUESTS = len(WAYS) + 2 * len(forced_rows())
# Where none of so many is answered, the others are not sent.
MOST_UNANSWERED = 3


Line: TypeAlias = Callable[[Mapping[str, Any]], str]


def forced_findings(
    post: Post, way: ForcingWay | None, line: Line = lambda body: ""
) -> Iterator[ServerFinding]:
    """What the server's own parser makes of forced completions, whole and streamed. Where no `way`
    forces them, of single tokens. `line` writes a request for a shell."""
    if way is None:
        yield from _biased_findings(post, line)
        return
    rows = forced_rows()
    bodies = {name: way.request(text, tools=TOOLS) for name, text in rows.items()}
    yield _forced_finding(post, rows, bodies, line)


def _forced_finding(
    post: Post, rows: Mapping[str, str], bodies: Mapping[str, Mapping[str, Any]], line: Line
) -> ServerFinding:
    """What is misread of these completions, each of which is the answer to a body. One that does
    not come is not misread."""
    wrong: dict[str, str] = {}
    answered = 0
    for number, (name, text) in enumerate(rows.items()):
        if number >= MOST_UNANSWERED and not answered:
            break
        problems = _read_both_ways(post, bodies[name], text)
        answered += problems is not None
        for problem in problems or ():
            wrong.setdefault(f"{problem} ({name})", name)
    if not answered:
        return _not_forced("requests that force a completion are not answered")
    if not wrong:
        return check_finding("forced-read", answered=answered)
    finding = check_finding(
        "forced-misread",
        answered=answered,
        problems="; ".join(sorted(wrong)),
        expected="what `dsv4.parse` reads",
        seen=f"{len(wrong)} differences",
    )
    return replace(finding, curl=line(bodies[next(iter(wrong.values()))]))


def _read_both_ways(post: Post, body: Mapping[str, Any], text: str) -> list[str] | None:
    """What is wrong with two readings of a text; None where there are none."""
    thinking = body["thinking"] == THINKING["thinking"]
    whole = whole_answer(post(CHAT, body))
    streamed = streamed_answer(post(CHAT, {**body, "stream": True}))
    if whole is None or streamed is None:
        return None
    return list(_problems(text, thinking, whole, streamed))


def _not_forced(message: str) -> ServerFinding:
    return check_finding("forced-none", why=message)


# Single tokens. A bias cannot force an order, so nothing longer.

WORD, WORD_TIMES = Special("Hello", 19923), 2
# With whether the model thinks.
BIASED_ROWS: Mapping[str, tuple[Special, bool]] = {
    "end-of-thinking": (THINK_END, True),
    "end-of-no-thinking": (THINK_END, False),
    "start-of-thinking": (THINK_START, False),
    "end": (EOS, False),
}


def _biased_findings(post: Post, line: Line) -> Iterator[ServerFinding]:
    answer = whole_answer(post(CHAT, repeating(WORD, WORD_TIMES)))
    if answer is None or answer.content != WORD * WORD_TIMES:
        yield _not_forced("completions cannot be forced, so the parser was not looked at with them")
        return
    bodies = {
        name: repeating(token, **(THINKING if thinking else NOT_THINKING))
        for name, (token, thinking) in BIASED_ROWS.items()
    }
    rows = {name: token for name, (token, _) in BIASED_ROWS.items()}
    yield _forced_finding(post, rows, bodies, line)


def _problems(
    text: str, thinking: bool, whole: ServerAnswer, streamed: ServerAnswer
) -> Iterator[str]:
    read = parse(text, thinking=thinking, tools=TOOLS)
    calls = [(call.name, call.arguments) for call in read.tool_calls]
    right = ServerAnswer(read.content, read.reasoning, tuple(calls))
    for answer in (whole, streamed):
        own_calls, expected = answer.read_calls, right.read_calls
        if answer.leaks_markup and not right.leaks_markup:
            yield "markup leaks"
        if any(arguments is None for _, arguments in own_calls):
            yield "arguments are no JSON"
        elif len(own_calls) < len(expected):
            yield "a call is lost"
        elif len(own_calls) > len(expected):
            yield "a call that is none"
        elif own_calls != expected:
            yield "wrong arguments"
        if right.content.strip() and not answer.content.strip():
            yield "the text is lost"
    if whole.read_calls != streamed.read_calls:
        yield "streamed otherwise"
