"""Commands with curl, as browsers, documentation or logs show requests."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import islice, takewhile

from dsv4._why.captured_exchanges import reply_of
from dsv4._why.pasted_kinds import (
    BrokenJson,
    NotUnderstood,
    PastedExchange,
    PastedExchanges,
    PastedRequest,
)
from dsv4._why.written_values import json_or_broken
from dsv4.api.request_fields import maybe_json

# The beginning of a command, perhaps after a shell's prompt and variables.
_CURL = re.compile(r"\s*(?:[^\s'\"{]*[$>#%]\s*)?(?:[A-Z_]+=\S+\s+)*curl(?:\.exe)?\s", re.IGNORECASE)
_DATA_OPTIONS = ("-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--json")
# Escaped line ends, which a shell removes: in bash, in PowerShell, in the Windows command prompt.
_CONTINUED = re.compile(r"[\\`^]\r?\n")
_HEREDOC = re.compile(r"<<-?[ \t]*['\"]?(\w+)")
# Text with escapes, as browsers write text that is not ASCII.
_ESCAPED_TEXT = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ADDRESS = re.compile(r"https?://[^\s'\"^]+", re.IGNORECASE)
_FORM = "a request, as a command with curl"


def is_curl(text: str) -> bool:
    return _CURL.match(text) is not None


# The beginning of a reply below the command.
_REPLY = re.compile(r"^(?=[{<]|HTTP/|data:|event:|curl: )", re.MULTILINE)


def read_curl(text: str) -> PastedRequest | PastedExchanges | BrokenJson | NotUnderstood:
    """The body in a command, with its address, and the reply, if the text has it below."""
    for match in islice(_REPLY.finditer(text), 5):
        asked, reply = _read_command(text[: match.start()]), text[match.start() :]
        if isinstance(asked, PastedRequest):
            exchange = PastedExchange(asked, reply_of(reply), "")
            return PastedExchanges((exchange,), f"{_FORM}, with what came back")
    return _read_command(text)


def _read_command(text: str) -> PastedRequest | BrokenJson | NotUnderstood:
    address = _ADDRESS.search(text)
    url = address[0] if address else ""
    lines = iter(text.splitlines())
    here = next(filter(None, map(_HEREDOC.search, lines)), None)
    document = list(lines)  # the remaining lines, which follow that one
    if here is not None and document:
        end = here[1]
        return _request_of("\n".join(takewhile(lambda line: line.strip() != end, document)), url)
    if '^"' in text:  # escapes of the Windows command prompt
        text = re.sub(r"\^(.)", r"\1", _CONTINUED.sub(" ", text))
    text = _ESCAPED_TEXT.sub(_unescaped, _CONTINUED.sub(" ", text))
    try:
        words = shlex.split(text)
    except ValueError:
        return NotUnderstood(
            "a command with curl", "The quotation marks of the command do not match."
        )
    parts = list(_data_in(words))
    data = "&".join(parts)  # curl joins them in this way
    if not parts:
        return NotUnderstood("a command with curl", "The command sends no JSON: it has no --data.")
    if data.startswith("@"):
        file = data[1:] or "a file"
        return NotUnderstood(
            "a command with curl", f"The command reads its JSON from {file}: paste that."
        )
    return _request_of(data, url)


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1].replace('"', r"\"").replace(r"\'", "'").replace(r"\!", "!")
    value = maybe_json(f'"{escaped}"')
    return shlex.quote(value) if isinstance(value, str) else match[0]


def _data_in(words: list[str]) -> Iterator[str]:
    for n, word in enumerate(words):
        name, equals, value = word.partition("=")
        if word in _DATA_OPTIONS and n + 1 < len(words):
            yield words[n + 1]
        elif equals and name in _DATA_OPTIONS[1:]:
            yield value
        elif word.startswith("-d") and len(word) > 2:
            yield word[2:]


def _request_of(data: str, url: str) -> PastedRequest | BrokenJson:
    value = json_or_broken(data)
    return value if isinstance(value, BrokenJson) else PastedRequest(value, url, _FORM)
