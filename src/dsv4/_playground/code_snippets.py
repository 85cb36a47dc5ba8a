"""The content of a view as code to run elsewhere: curl, Python, a pytest case.

All of the code runs unchanged: Python and pytest with dsv4 installed, curl against a server with
the playground.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import fields
from itertools import pairwise
from pprint import pformat
from typing import Any, TypeAlias, cast

from dsv4._playground.cache_view import AS_SENT, VARIANTS, PromptMeter, last_turns
from dsv4._playground.completion_trace import PARSER_OPTIONS, cut_completion, parse_traced
from dsv4._playground.page_problem import PageProblem, choice_field, text_field
from dsv4._playground.page_request import (
    PROTOCOL_PATHS,
    PageRequest,
    PlaygroundContext,
    Switches,
    live_request,
)
from dsv4._playground.prompt_view import own_side, server_dialect, side_named, tokenizer_for
from dsv4.api.api_request import ProtocolName
from dsv4.api.protocols import PROTOCOLS
from dsv4.request import Request
from dsv4.types import DialectName

# Pieces of code: literals, a test, a call with curl.


WIDTH = 88
_SURROGATES = re.compile("[\ud800-\udfff]")


def curl_playground(
    url: str, function: str, sent: Mapping[str, Any], context: PlaygroundContext
) -> str:
    """The curl command that calls a function of the playground."""
    return curl_command(f"{url}/playground/api/{function}", sent, context)


def curl_command(
    address: str, sent: Mapping[str, Any], context: PlaygroundContext, options: str = "-s"
) -> str:
    """The curl command that posts to an address. Its body is quoted for a shell."""
    key = " \\\n  -H 'authorization: Bearer KEY'" if context.asks_for_key else ""
    # Lone surrogates cannot be encoded in UTF-8, as a shell command must be.
    text = json.dumps(sent, ensure_ascii=False, indent=2)
    data = _SURROGATES.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
    head = f"curl {options} {shlex.quote(address)} \\\n  -H 'content-type: application/json'{key}"
    return f"{head} \\\n  --data-binary {shlex.quote(data)}\n"


def assignment(value: object, name: str = "BODY") -> str:
    return f"{name} = {python_literal(value)}"


def python_literal(value: object) -> str:
    """A JSON value as Python writes it; through JSON where Python has no literal for it (NaN)."""
    written = pformat(value, width=WIDTH, sort_dicts=False)
    try:
        if ast.literal_eval(written) == value:
            return written
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        pass
    return f"__import__('json').loads({json.dumps(value)!r})"


def keyword_arguments(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={python_literal(value)}" for name, value in values.items())


def text_literal(text: str) -> str:
    """A text as a Python literal, one line of the text on each line."""
    parts = text.splitlines(keepends=True) or [""]
    written = "\n".join(f"    {part!r}" for part in parts)
    return f"(\n{written}\n)"


def pytest_case(name: str, verb: str, code: str, expected: str, claim: str) -> str:
    """A test that runs `code`, and asserts a claim about its result."""
    statements = [*code.split("\n"), *expected.split("\n"), f"assert {claim}"]
    return f"def test_the_{name}_{verb}_as_expected() -> None:\n" + "".join(
        f"    {line}\n" if line else "\n" for line in statements
    )


# The Stream and Live views.


_DEFAULT_ADDRESS = "http://127.0.0.1:8004"
_COPY_FIELDS = ("form", "view", "url")


def stream_code(body: Mapping[str, Any], context: PlaygroundContext, form: str) -> str:
    """Code that reads a completion in the same pieces."""
    if form == "curl":
        sent = {name: value for name, value in body.items() if name not in _COPY_FIELDS}
        return curl_playground(text_field(body, "url", _DEFAULT_ADDRESS), "trace", sent, context)
    text = text_field(body, "text")
    pieces = cut_completion(
        text, body.get("cut", "character"), body.get("seed", 0), context.tokenizer
    )
    by_character = body.get("cut", "character") == "character"
    source = f"TEXT = {text_literal(text)}" if by_character else assignment(pieces, "PIECES")
    options = {name: body[name] for name in PARSER_OPTIONS if body.get(name) not in (None, [])}
    if body.get("tools") == []:
        options["tools"] = []
    tools = options.pop("tools", None)
    arguments = ", ".join(
        filter(
            None,
            ("" if tools is None else "tools=TOOLS", keyword_arguments(options), "new_id=new_id"),
        )
    )
    code = f"""\
new_id = map("call_{{}}".format, count()).__next__
parser = dsv4.StreamParser({arguments})
events = [event for piece in {"TEXT" if by_character else "PIECES"} for event in parser.feed(piece)]
message = dsv4.assemble([*events, *parser.finish({python_literal(body.get("reason"))})])"""
    head = "from itertools import count\n\nimport dsv4\n\n"
    head += source if tools is None else f"{assignment(tools, 'TOOLS')}\n{source}"
    if form == "python":
        return f"{head}\n\n{code}\nprint(*events, message, sep='\\n')\n"
    message = parse_traced(body, context)
    expected = f"expected = {python_literal(message.to_dict())}"
    kinds = [diagnostic.kind for diagnostic in message.diagnostics]
    repairs = f"assert [found.kind for found in message.diagnostics] == {python_literal(kinds)}"
    finish = f"assert message.finish == {message.finish!r}"
    test = pytest_case("message", "is", code, f"{expected}\n{repairs}\n{finish}", _MESSAGE_CLAIM)
    return f"{head}\n\n\n{test}"


_MESSAGE_CLAIM = "message.to_dict() == expected"


def live_code(body: Mapping[str, Any], context: PlaygroundContext, form: str) -> str:
    """Code that sends the conversation to the server; as a test, the prompt that it makes."""
    request = live_request(body, context)
    address = f"{text_field(body, 'url', _DEFAULT_ADDRESS)}/{request['path']}"
    if form == "curl":
        return curl_command(address, request["body"], context, "-sN")
    value = assignment(request["body"])
    if form == "python":
        return f"import json\nimport urllib.request\n\n{value}\n\n{_urllib_call(address, context)}"
    protocol: ProtocolName = choice_field(body, "protocol", tuple(PROTOCOL_PATHS), "chat")
    dialect = cast("DialectName", context.dialect)
    prompt = PROTOCOLS[protocol].read(request["body"], dialect=dialect).request.encode()
    reading = f"prompt = {protocol}.read(BODY, dialect={context.dialect!r}).request.encode()"
    expected = f"expected = {text_literal(prompt.text)}"
    test = pytest_case("prompt", "is", reading, expected, "prompt.text == expected")
    return f"from dsv4.api import {protocol}\n\n{value}\n\n\n{test}"


def _urllib_call(address: str, context: PlaygroundContext) -> str:
    headers = {"content-type": "application/json"}
    if context.asks_for_key:
        headers["authorization"] = "Bearer KEY"
    return f"""\
request = urllib.request.Request(
    {address!r}, json.dumps(BODY).encode(), {python_literal(headers)}
)
with urllib.request.urlopen(request) as response:
    for line in response:
        print(line.decode(), end="")
"""


# All views.


CODE_FORMS = ("curl", "python", "pytest")


def copy_as_code(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, str]:
    """The code, as `text`, that reproduces the content of a `view` in a `form`.

    `body` is the view's own request, with the `url` of the server for curl.
    """
    form = choice_field(body, "form", CODE_FORMS, "python")
    view = choice_field(body, "view", (*REQUEST_VIEWS, *STREAM_VIEWS), "prompt")
    if view in STREAM_VIEWS:
        return {"text": STREAM_VIEWS[view](body, context, form)}
    if form == "curl":
        return {"text": _view_curl(body, CURL_FUNCTIONS[view], context)}
    return {"text": REQUEST_VIEWS[view](body, context, form)}


# curl.

# The function behind each view, and the fields that it reads of the page's switches.
CURL_FUNCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "prompt": ("text", ("protocol", "shown", *(field.name for field in fields(Switches)))),
    "cache": ("cache", ("protocol", "variant", *(field.name for field in fields(Switches)))),
}


def _view_curl(
    body: Mapping[str, Any], how: tuple[str, tuple[str, ...]], context: PlaygroundContext
) -> str:
    function, names = how
    sent: dict[str, Any] = {name: body[name] for name in names if body.get(name) is not None}
    sent["request"] = PageRequest.from_body(body, context).source.value
    return curl_playground(text_field(body, "url", _DEFAULT_ADDRESS), function, sent, context)


# Python.

CodeWriter: TypeAlias = Callable[[Mapping[str, Any], PlaygroundContext, str], str]


def _prompt_code(body: Mapping[str, Any], context: PlaygroundContext, form: str) -> str:
    """Code that writes the shown prompt."""
    page = PageRequest.from_body(body, context)
    shown = choice_field(body, "shown", context.sides, "dsv4")
    side = side_named(page, shown)
    kind, _, name = shown.partition(":")
    if kind == "profile":
        imports, value, code = _server_prompt_code(page, name)
        text = "prompt"
    else:
        imports, value, code = _request_code(page, name or None)
        code, text = f"{code}\nprompt = request.encode()", "prompt.text"
    if form == "python":
        return f'{imports}\n\n{value}\n\n{code}\nprint({text}, end="")\n'
    expected = f"expected = {text_literal(side.prompt.text)}"
    test = pytest_case("prompt", "is", code, expected, f"{text} == expected")
    return f"{imports}\n\n{value}\n\n\n{test}"


def _server_prompt_code(page: PageRequest, name: str) -> tuple[str, str, str]:
    value, imports, body = page.source.value, "from dsv4.profiles import render", "BODY"
    options = f"{name!r}, dialect={server_dialect(page, name)!r}"
    if name in page.context.saved:
        imports, options = "from dsv4.profiles import load, render", f"load({name!r})"
    if page.protocol not in ("file", "chat"):
        imports = f"from dsv4.api import convert\n{imports}"
        body = f'convert(BODY, "{page.protocol}", "chat")'
    return imports, assignment(value), f"prompt = render({body}, {options})"


def _request_code(page: PageRequest, dialect: str | None) -> tuple[str, str, str]:
    """Imports, the request as a value, and code that defines `request`."""
    value = page.source.value
    if page.protocol == "file":
        request = page.request(value)
        options = _request_options(request, dialect)
        return (
            "import dsv4",
            assignment(list(request.messages), "MESSAGES"),
            (f"request = dsv4.Request(MESSAGES{options})"),
        )
    module = page.protocol
    release = dialect or page.dialect
    changes = {n: v for n, v in vars(page.switches).items() if n != "dialect" and v is not None}
    imports = f"from dsv4.api import {module}"
    code = f"request = {module}.read(BODY, dialect={release!r}).request"
    if changes:
        imports = f"from dataclasses import replace\n\n{imports}"
        code += f"\nrequest = replace(request, {keyword_arguments(changes)})"
    return imports, assignment(value), code


def _request_options(request: Request, dialect: str | None) -> str:
    """The options of a request that differ from their defaults."""
    options = {
        field.name: getattr(request, field.name)
        for field in fields(request)
        if field.name != "messages" and getattr(request, field.name) != field.default
    }
    if dialect is not None or "dialect" in options:
        options["dialect"] = dialect or str(request.dialect)
    return f", {keyword_arguments(options)}" if options else ""


# Code that changes messages as clients do: the variants of `dsv4._playground.cache_view`.
_VARIANT_CODE = {
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
_TURNS_CODE = """\
written = list(request.messages)
{sent}
found = []
for answer, following in {pairs}:
    # What the engine holds: the prompt, and what it wrote.
    held = replace(request, messages=[*sent[:answer], written[answer]]).encode()
    prompt = replace(request, messages=sent[:following]).encode()
    difference = why_not_prefix(held, prompt)
    found.append(difference and (difference.message, difference.field, difference.cause))"""


def _cache_code(body: Mapping[str, Any], context: PlaygroundContext, form: str) -> str:
    """Code that prints for each prompt whether it begins with the cached text, and why not."""
    page = PageRequest.from_body(body, context)
    variant = choice_field(body, "variant", tuple(VARIANTS), AS_SENT)
    side = own_side(page)
    tokenizer, problem = tokenizer_for(context.tokenizer, side.prompt)
    if tokenizer is None:
        raise PageProblem(problem or "found no vocabulary, expected one")
    request = page.request(page.source.value)
    turns = last_turns(request, variant, PromptMeter(tokenizer))
    pairs = [(a.messages, b.messages) for a, b in pairwise(turns)]
    imports, value, code = _request_code(page, None)
    lines = ["from dsv4.tokens import why_not_prefix"]
    if "import replace" not in imports:
        lines.insert(0, "from dataclasses import replace")
    if variant == "sorted_arguments":
        lines.insert(0, "import json")
    imports = "\n".join(sorted({*lines, *filter(None, imports.splitlines())}))
    code = f"{code}\n{_TURNS_CODE.format(sent=_VARIANT_CODE[variant], pairs=pairs)}"
    if form == "python":
        return f'{imports}\n\n{value}\n\n{code}\nprint(*found, sep="\\n")\n'
    causes = [None if t.cause is None else (t.message, t.field, t.cause) for t in turns[1:]]
    expected = f"expected = {pformat(causes, width=WIDTH)}"
    test = pytest_case("turns", "are", code, expected, "found == expected")
    return f"{imports}\n\n{value}\n\n\n{test}"


REQUEST_VIEWS: dict[str, CodeWriter] = {"prompt": _prompt_code, "cache": _cache_code}
STREAM_VIEWS: dict[str, CodeWriter] = {"stream": stream_code, "live": live_code}
