"""What the page shows, as something to run elsewhere: curl, Python, a pytest case.

All that is written runs as it is: Python and pytest with dsv4 alone, curl against a server with the
playground.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from itertools import pairwise
from pprint import pformat
from typing import Any, TypeAlias

from dsv4.playground.asking import Switches
from dsv4.playground.bench import Bench
from dsv4.playground.cache import AS_SENT, VARIANTS, Measure, turns_of
from dsv4.playground.code import WIDTH, case, curl, keywords, lines, named
from dsv4.playground.copying_streams import copy_live, copy_stream
from dsv4.playground.problems import Problem, one_of, text_of
from dsv4.playground.prompts import SIDES, Asked, fitting, own_side, served_dialect, side_or_problem
from dsv4.request import Request

FORMS = ("curl", "python", "pytest")


def copy(body: Mapping[str, Any], bench: Bench) -> dict[str, str]:
    """The `text` that copies what a `view` shows, in a `form`.

    `body` is what the view asked with, and `url`, the address of the server, for curl.
    """
    form = one_of(body, "form", FORMS, "python")
    view = one_of(body, "view", (*VIEWS, *STREAMS), "prompt")
    if view in STREAMS:
        return {"text": STREAMS[view](body, bench, form)}
    if form == "curl":
        return {"text": _curl(body, CURL[view], bench)}
    return {"text": VIEWS[view](body, bench, form)}


# curl.

# The function that tells what a view shows, and what it reads of the page's switches.
CURL: dict[str, tuple[str, tuple[str, ...]]] = {
    "prompt": ("text", ("protocol", "shown", *(field.name for field in fields(Switches)))),
    "cache": ("cache", ("protocol", "variant", *(field.name for field in fields(Switches)))),
}


def _curl(body: Mapping[str, Any], how: tuple[str, tuple[str, ...]], bench: Bench) -> str:
    function, names = how
    sent: dict[str, Any] = {name: body[name] for name in names if body.get(name) is not None}
    sent["request"] = Asked.of(body, bench).source.value
    return curl(text_of(body, "url", "http://127.0.0.1:8004"), function, sent, bench)


# Python.

Written: TypeAlias = Callable[[Mapping[str, Any], Bench, str], str]


def _prompt(body: Mapping[str, Any], bench: Bench, form: str) -> str:
    """Code that makes the prompt that is shown."""
    asked = Asked.of(body, bench)
    shown = one_of(body, "shown", SIDES, "dsv4")
    side = side_or_problem(asked, shown)
    if isinstance(side, Problem):
        raise side
    kind, _, name = shown.partition(":")
    if kind == "profile":
        imports, value, made = _served(asked, name)
        text = "prompt"
    else:
        imports, value, made = _encoded(asked, name or None)
        made, text = f"{made}\nprompt = request.encode()", "prompt.text"
    if form == "python":
        return f'{imports}\n\n{value}\n\n{made}\nprint({text}, end="")\n'
    expected = f"expected = {lines(side.prompt.text)}"
    test = case("prompt", "is", made, expected, f"{text} == expected")
    return f"{imports}\n\n{value}\n\n\n{test}"


def _served(asked: Asked, name: str) -> tuple[str, str, str]:
    options = f"{name!r}, dialect={served_dialect(asked, name)!r}"
    value, imports, given = asked.source.value, "from dsv4.profiles import render", "BODY"
    if asked.protocol not in ("file", "chat"):
        imports = f"from dsv4.api import convert\n{imports}"
        given = f'convert(BODY, "{asked.protocol}", "chat")'
    return imports, named(value), f"prompt = render({given}, {options})"


def _encoded(asked: Asked, dialect: str | None) -> tuple[str, str, str]:
    """Imports, the request as a value, and code that gives `request`."""
    value = asked.source.value
    if asked.protocol == "file":
        request = asked.request(value)
        options = _options(request, dialect)
        return (
            "import dsv4",
            named(list(request.messages), "MESSAGES"),
            (f"request = dsv4.Request(MESSAGES{options})"),
        )
    module = asked.protocol
    release = dialect or asked.dialect
    given = {n: v for n, v in vars(asked.switches).items() if n != "dialect" and v is not None}
    imports = f"from dsv4.api import {module}"
    made = f"request = {module}.read(BODY, dialect={release!r}).request"
    if given:
        imports = f"from dataclasses import replace\n\n{imports}"
        made += f"\nrequest = replace(request, {keywords(given)})"
    return imports, named(value), made


def _options(request: Request, dialect: str | None) -> str:
    """All that a request says besides its messages."""
    given = {
        field.name: getattr(request, field.name)
        for field in fields(request)
        if field.name != "messages" and getattr(request, field.name) != field.default
    }
    if dialect is not None or "dialect" in given:
        given["dialect"] = dialect or str(request.dialect)
    return f", {keywords(given)}" if given else ""


# What a client sends back of a message, as code: the variants of `dsv4.playground.cache`.
_SENT = {
    AS_SENT: "sent = written",
    "no_reasoning": """\
sent = [
    {k: v for k, v in m.items() if k not in ("reasoning_content", "reasoning")}
    if m["role"] == "assistant" else m
    for m in written
]""",
    "sorted_arguments": """\
sent = json.loads(json.dumps(written))
for message in sent:
    for call in message.get("tool_calls") or ():
        arguments = call["function"]["arguments"]
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
        call["function"]["arguments"] = json.dumps(value, sort_keys=True, ensure_ascii=False)""",
}
_TURNS = """\
written = list(request.messages)
{sent}
found = []
for answer, following in {pairs}:
    # What the engine holds: the prompt, and what it wrote.
    held = replace(request, messages=[*sent[:answer], written[answer]]).encode()
    prompt = replace(request, messages=sent[:following]).encode()
    difference = why_not_prefix(held, prompt)
    found.append(difference and (difference.message, difference.field, difference.cause))"""


def _cache(body: Mapping[str, Any], bench: Bench, form: str) -> str:
    """Code that says of each prompt whether it begins with what the engine held, and why not."""
    asked = Asked.of(body, bench)
    variant = one_of(body, "variant", tuple(VARIANTS), AS_SENT)
    side = own_side(asked)
    tokenizer, problem = fitting(bench.tokenizer, side.prompt)
    if tokenizer is None:
        raise Problem(problem or "found no vocabulary, expected one")
    request = asked.request(asked.source.value)
    turns = turns_of(request, VARIANTS[variant][1], Measure(tokenizer))
    pairs = [(a.messages, b.messages) for a, b in pairwise(turns)]
    imports, value, made = _encoded(asked, None)
    lines = ["from dsv4.tokens import why_not_prefix"]
    if "import replace" not in imports:
        lines.insert(0, "from dataclasses import replace")
    if variant == "sorted_arguments":
        lines.insert(0, "import json")
    imports = "\n".join(sorted({*lines, *filter(None, imports.splitlines())}))
    made = f"{made}\n{_TURNS.format(sent=_SENT[variant], pairs=pairs)}"
    if form == "python":
        return f'{imports}\n\n{value}\n\n{made}\nprint(*found, sep="\\n")\n'
    causes = [None if t.cause is None else (t.message, t.field, t.cause) for t in turns[1:]]
    expected = f"expected = {pformat(causes, width=WIDTH)}"
    test = case("turns", "are", made, expected, "found == expected")
    return f"{imports}\n\n{value}\n\n\n{test}"


VIEWS: dict[str, Written] = {"prompt": _prompt, "cache": _cache}
STREAMS: dict[str, Written] = {"stream": copy_stream, "live": copy_live}
