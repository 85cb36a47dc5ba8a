"""What the Stream and Live views show, as something to run elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsv4.api import chat, messages, responses
from dsv4.playground.bench import Bench
from dsv4.playground.code import case, curl, curl_to, keywords, lines, literal, named
from dsv4.playground.cutting import cut
from dsv4.playground.live import live
from dsv4.playground.problems import text_of
from dsv4.playground.trace import OPTIONS, read_all

_ADDRESS = "http://127.0.0.1:8004"
_READ = {"chat": chat, "responses": responses, "messages": messages}
_NOT_ASKED = ("form", "view", "url")


def copy_stream(body: Mapping[str, Any], bench: Bench, form: str) -> str:
    """Code that reads a completion in the same pieces."""
    if form == "curl":
        asked = {name: value for name, value in body.items() if name not in _NOT_ASKED}
        return curl(text_of(body, "url", _ADDRESS), "trace", asked, bench)
    text = text_of(body, "text")
    pieces = cut(text, body.get("cut", "character"), body.get("seed", 0), bench.tokenizer)
    by_character = body.get("cut", "character") == "character"
    given = f"TEXT = {lines(text)}" if by_character else named(pieces, "PIECES")
    options = {name: body[name] for name in OPTIONS if body.get(name) not in (None, [])}
    if body.get("tools") == []:
        options["tools"] = []
    tools = options.pop("tools", None)
    arguments = ", ".join(
        filter(None, ("" if tools is None else "tools=TOOLS", keywords(options), "new_id=new_id"))
    )
    made = f"""\
new_id = map("call_{{}}".format, count()).__next__
parser = dsv4.StreamParser({arguments})
events = [event for piece in {"TEXT" if by_character else "PIECES"} for event in parser.feed(piece)]
message = dsv4.assemble([*events, *parser.finish({literal(body.get("reason"))})])"""
    head = "from itertools import count\n\nimport dsv4\n\n"
    head += given if tools is None else f"{named(tools, 'TOOLS')}\n{given}"
    if form == "python":
        return f"{head}\n\n{made}\nprint(*events, message, sep='\\n')\n"
    message = read_all(body, bench)
    expected = f"expected = {literal(message.to_dict())}"
    kinds = [found.kind for found in message.diagnostics]
    found = f"assert [found.kind for found in message.diagnostics] == {literal(kinds)}"
    finish = f"assert message.finish == {message.finish!r}"
    test = case("message", "is", made, f"{expected}\n{found}\n{finish}", _CLAIM)
    return f"{head}\n\n\n{test}"


_CLAIM = "message.to_dict() == expected"


def copy_live(body: Mapping[str, Any], bench: Bench, form: str) -> str:
    """Code that sends the conversation to the server; as a test, the prompt that it makes."""
    made = live(body, bench)
    address = f"{text_of(body, 'url', _ADDRESS)}/{made['path']}"
    if form == "curl":
        return curl_to(address, made["body"], bench, "-sN")
    value = named(made["body"])
    if form == "python":
        return f"import json\nimport urllib.request\n\n{value}\n\n{_sent(address, bench)}"
    protocol = body.get("protocol") or "chat"
    prompt = _READ[protocol].read(made["body"], dialect=bench.dialect).request.encode()
    reading = f"prompt = {protocol}.read(BODY, dialect={bench.dialect!r}).request.encode()"
    expected = f"expected = {lines(prompt.text)}"
    test = case("prompt", "is", reading, expected, "prompt.text == expected")
    return f"from dsv4.api import {protocol}\n\n{value}\n\n\n{test}"


def _sent(address: str, bench: Bench) -> str:
    headers = {"content-type": "application/json"}
    if bench.asks_for_key:
        headers["authorization"] = "Bearer KEY"
    return f"""\
request = urllib.request.Request(
    {address!r}, json.dumps(BODY).encode(), {literal(headers)}
)
with urllib.request.urlopen(request) as response:
    for line in response:
        print(line.decode(), end="")
"""
