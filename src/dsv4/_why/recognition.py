"""Recognises pasted text: only by its form, without judging it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from textwrap import dedent
from typing import Any

from dsv4._format.dialects import DIALECTS
from dsv4._format.tokens import ASSISTANT, BOS, DSML, EOS, THINK_START, USER
from dsv4._inputs.agent_sessions import SQLITE, is_agent_session, read_agent_session
from dsv4._inputs.input_files import BYTE_ORDER_MARK, InputError, decode_utf8
from dsv4._inputs.line_shapes import line_conversation
from dsv4._parse.parse import parse
from dsv4._why import captured_answers, captured_exchanges, error_page
from dsv4._why.captured_answers import OF_REASONING, ends_reasoning, part_to_parse
from dsv4._why.curl_commands import is_curl, read_curl
from dsv4._why.pasted_kinds import (
    BrokenJson,
    NotUnderstood,
    Pasted,
    PastedAnswer,
    PastedError,
    PastedExchange,
    PastedExchanges,
    PastedLines,
    PastedPrompt,
    PastedRecords,
    PastedRequest,
    PastedSentence,
)
from dsv4._why.session_lines import read_session, session_of
from dsv4._why.written_values import (
    embedded_values,
    fenced_texts,
    javascript_value,
    json_or_broken,
    json_or_python,
    python_value,
)
from dsv4.api.own_bodies import is_pair, is_sharegpt, role_of
from dsv4.api.request_fields import maybe_json
from dsv4.errors import Error

# The beginnings of files that are not text.
_FILE_FORMATS = {
    b"%PDF-": "a PDF",
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"RIFF": "a WebP picture, or sound",
    b"PK\x03\x04": "a zip file, or a document of an office program",
    b"\x1f\x8b": "a file compressed by gzip",
    b"\x28\xb5\x2f\xfd": "a file compressed by zstd",
    b"SQLite format 3": "an SQLite database",
    b"PAR1": "a Parquet file",
}
# Byte order marks. One of them begins another, so the longer one comes first.
_WIDE_ENCODINGS = {
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
_NO_TEXT = "dsv4 why reads text: JSON, logs, prompts, answers, error messages."


def recognise_bytes(data: bytes, name: str = "stdin") -> Pasted:
    """The kind of the content of a file. `name` is the file's name."""
    if data.startswith(SQLITE) and (conversations := read_agent_session(data)):
        return session_of(conversations)
    found = next((kind for mark, kind in _FILE_FORMATS.items() if data.startswith(mark)), None)
    if found is not None:
        return NotUnderstood(found, _NO_TEXT)
    wide = next((name for mark, name in _WIDE_ENCODINGS.items() if data.startswith(mark)), None)
    if wide is not None:
        return recognise_text(data.decode(wide, "replace"))
    try:
        text = decode_utf8(data, name)
    except InputError as error:
        return NotUnderstood(f"a file that is no text ({error})", _NO_TEXT)
    if "\0" in text:
        return NotUnderstood("a file that is no text: it has bytes of zero", _NO_TEXT)
    return recognise_text(text)


def recognise_text(text: str) -> Pasted:
    """The kind of a text, with its content."""
    text = text.removeprefix(BYTE_ORDER_MARK)
    if not text.strip():
        return NotUnderstood("nothing: the input is empty", "Give a text, a file, or - for stdin.")
    if text.strip() == "null":
        return recognise_value(None)
    if _ADDRESS.fullmatch(text):
        return NotUnderstood("an address", _NOTHING_FETCHED)
    fence = _WHOLE_FENCE.fullmatch(text)
    if fence is not None and fence[1] not in fence[2]:
        return recognise_text(fence[2])
    if text.startswith(("  ", "\t")):
        text = dedent(text)
    if _ESCAPED_FOR_HTML.search(text):
        return recognise_text(unescape(text))
    value = _written_value(text)
    if isinstance(value, str) and value.strip():
        return recognise_text(value)
    if value is not None:
        return recognise_value(value)
    if is_curl(text):
        return read_curl(text)
    for read_as in (_read_lines, captured_answers.read_events, _read_prompt, _read_page):
        found = read_as(text)
        if found is not None:
            return found
    return _read_prose(text)


def _written_value(text: str) -> Any:
    """The value of a text that is a single value from end to end, else None."""
    value = json_or_python(text)
    return javascript_value(text) if value is None else value


_ADDRESS = re.compile(r"\s*https?://\S+\s*", re.IGNORECASE)
_NOTHING_FETCHED = "dsv4 why fetches nothing. Give what comes back: curl -s ADDRESS | dsv4 why -"
_WHOLE_FENCE = re.compile(r"\s*(```+|~~~+)[^\n]*\n(.*)\n[ \t]*\1\s*", re.DOTALL)
_ESCAPED_FOR_HTML = re.compile(f"&lt;/?(?:{DSML}|{str(BOS).strip('<>')})")


# Values.


def recognise_value(value: Any) -> Pasted:
    """The kind of a JSON value, with its content."""
    if isinstance(value, list):
        return _recognise_list(value)
    if not isinstance(value, dict):
        return NotUnderstood(
            f"JSON: {value!r}"[:60], "A request is an object, or a list of messages."
        )
    if captured_exchanges.is_har(value):
        return captured_exchanges.read_har(value)
    if captured_exchanges.is_record(value):
        return PastedRecords((value,))
    if captured_exchanges.is_error_body(value):
        return PastedError(_compact(value))
    if captured_answers.is_event(value) and "request" not in value:
        return captured_answers.read_event_values([value])
    return _request(value) or captured_answers.read_answer(value) or _other_object(value)


def _request(value: dict[str, Any]) -> Pasted | None:
    if captured_exchanges.is_request_body(value) or is_sharegpt(value) or is_pair(value):
        return PastedRequest(value)
    logged = captured_exchanges.read_logged(value, "")
    if logged is None:
        return None
    if logged.reply is None and logged.request is not None:
        return logged.request
    return PastedExchanges((logged,), "a request with what came back")


def _other_object(value: dict[str, Any]) -> Pasted:
    prompt = value.get("prompt")
    if isinstance(prompt, str) and _is_prompt(prompt):
        return PastedPrompt(prompt)
    if "input" in value or "instructions" in value or "messages" in value:
        return PastedRequest(value)
    if _is_tool(value):
        return _TOOLS
    if type(value.get("prompt_tokens")) is int:
        return PastedError("prompt tokens for a short message", form="the usage of an answer")
    names = ", ".join(map(repr, list(value)[:4]))
    hint = "A request has `messages` or `input`, an answer `choices`, `content` or `output`."
    return NotUnderstood(f"a JSON object with {names or 'no fields'}", hint)


def _recognise_list(values: list[Any]) -> Pasted:
    if values and all(isinstance(each, dict) and role_of(each) for each in values):
        return PastedRequest(values, form="a list of messages")
    if values and all(isinstance(each, dict) for each in values):
        if all(map(_is_tool, values)):
            return _TOOLS
        found = _recognise_values(values)
        if not isinstance(found, (PastedLines, NotUnderstood)) or "messages" in values[0]:
            return found
    if values and all(isinstance(each, bytes) for each in values):
        return recognise_bytes(b"".join(values))
    if values and all(type(each) is int for each in values):
        return NotUnderstood("a list of token ids", "Read them with: dsv4 decode --ids FILE")
    return NotUnderstood("a JSON list", "A list of messages has objects with `role` and `content`.")


_TOOLS = NotUnderstood("a tool, or a list of tools", "Put them into a request, as its `tools`.")


def _is_tool(value: dict[str, Any]) -> bool:
    return "function" in value or "input_schema" in value


def _compact(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


# Lines.

MOST_LINES = 100_000


def _read_lines(text: str) -> Pasted | None:
    """The content of a text in which each line is an object or a list. The last may be cut."""
    data = text.encode(errors="surrogatepass")
    if is_agent_session(data) and (conversations := read_agent_session(data)):
        return session_of(conversations)
    lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not 2 <= len(lines) <= MOST_LINES or not _BEGINS_VALUE.match(lines[0][1]):
        return None
    values = [json_or_python(line) for _, line in lines[:-1]]
    broken = [n for n, value in enumerate(values) if not isinstance(value, (dict, list))]
    if not broken:
        last = json_or_python(lines[-1][1])
        is_cut = not isinstance(last, (dict, list))
        if is_cut and len(values) == 1:
            return None
        return _recognise_values(values if is_cut else [*values, last])
    if broken[0] > 0 and len(broken) * 4 <= len(values):
        number, line = lines[broken[0]]
        found = json_or_broken(line.strip())
        return replace(found, line=number) if isinstance(found, BrokenJson) else None
    return _read_values_in_turn(text)


_BEGINS_VALUE = re.compile(r"\s*(?:[{\[]|[A-Z]\w*\()")


def _read_values_in_turn(text: str) -> Pasted | None:
    """The content of a text with several objects, each on several lines, as programs print them."""
    if not _BETWEEN_OBJECTS.search(text):
        return None
    listed = f"[{_BETWEEN_OBJECTS.sub('},{', text.strip())}]"
    values = maybe_json(listed) or javascript_value(listed)
    return _recognise_values(values) if isinstance(values, list) else None


_BETWEEN_OBJECTS = re.compile(r"^\},?\s*^\{", re.MULTILINE)


def _recognise_values(values: Sequence[Any]) -> Pasted:
    if all(map(captured_exchanges.is_record, values)):
        return PastedRecords(tuple(values))
    if all(map(captured_answers.is_event, values)):
        return captured_answers.read_event_values(list(values))
    session = read_session(values)
    if session is not None:
        return session
    logged = [
        captured_exchanges.read_logged(value, f"line {n}") if isinstance(value, dict) else None
        for n, value in enumerate(values, 1)
    ]
    exchanges = tuple(each for each in logged if each is not None)
    if len(exchanges) == len(values):
        return PastedExchanges(exchanges, "a log")
    first = values[0]
    if isinstance(first, dict) and isinstance(recognise_value(first), NotUnderstood):
        try:
            line_conversation(first)
        except Error:
            names = ", ".join(map(repr, list(first)[:4]))
            return NotUnderstood(f"JSON lines with {names or 'no fields'}", _TRAINING_DATA)
    return PastedLines(tuple(values))


_TRAINING_DATA = "If it is training data of another shape, dsv4 dataset says how it reads it."


# Prompts.


def _is_prompt(text: str) -> bool:
    """Whether a text is a prompt, and not only about one."""
    start = text.lstrip(" \t\r\n'\"")
    if start.startswith(("{", "[")):  # JSON with a mistake
        return False
    return (
        BOS in text or start.startswith((USER, ASSISTANT)) or (USER in text and ASSISTANT in text)
    )


def _read_prompt(text: str) -> Pasted | None:
    from dsv4._decode.request_search import unescaped_prompt

    if not _is_prompt(text):
        return None
    if text.count("\r\n") == text.count("\n"):  # line ends of an editor
        text = text.replace("\r\n", "\n")
    start = max(text.find(BOS), 0)
    # A log or a program shows a prompt in one line.
    shown = text.strip()
    prompt = shown[max(shown.find(BOS), 0) :] if "\n" in shown else unescaped_prompt(shown)
    return PastedPrompt(prompt, start)


# Errors and prose.

_HTML = re.compile(
    r"\s*(?:HTTP/[\d.]+ \d+.*?\n\s*\n\s*)?<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)


def _read_page(text: str) -> Pasted | None:
    """The page that a proxy sent instead of an answer, None for other texts."""
    return PastedError(text, form="an HTML page") if _HTML.match(text) else None


def _read_prose(text: str) -> Pasted:
    for read_as in (_read_fences, _read_quoting_error, _read_answer_text):
        found = read_as(text)
        if found is not None:
            return found
    if error_page.is_error_text(text):
        return PastedError(text)
    if _MEANT_AS_JSON.match(text):
        broken = json_or_broken(text.strip())
        if isinstance(broken, BrokenJson):
            return broken
    for value in embedded_values(text):
        found = recognise_value(value)
        if not isinstance(found, (NotUnderstood, PastedLines)):
            return found
    if _OTHER_TEMPLATE.match(text):
        return NotUnderstood("a prompt in the format of another model", _NO_PROMPT)
    if _is_configuration(text):
        return NotUnderstood("a configuration", _NO_CONFIGURATION)
    return PastedError(text) if error_page.has_log_level(text) else PastedSentence(text)


# An opening bracket must be followed by the beginning of a value: templates also begin with braces,
# and lines of logs with a date in brackets.
_MEANT_AS_JSON = re.compile(
    r"""\s*[{\[][\s{\[]*(?:["'“”‘’`]|//|/\*|[A-Za-z_$][\w$]*\s*:|-?[\d.]+\s*,|\Z)"""
)
# The beginnings of other models' prompts.
_OTHER_TEMPLATE = re.compile(r"\s*(?:<s>\s*)?(?:<\|(?:im_start|begin_of_text|start)\|>|\[INST\])")
_NO_PROMPT = "A server that writes it for DeepSeek-V4 uses the wrong chat template."
_SETTING = re.compile(r"\s*(?:-\s+)?[\w.\"-]+\s*[:=]|\s*\[[\w.\"-]+\]\s*$|\s*#|\s*-\s")
_TELLING_SETTING = re.compile(
    r"^[ \t\w-]{0,60}(?:base_?url|api_?(?:base|key)|env_key)\b", re.I | re.M
)
_NO_CONFIGURATION = "Give what the client sends, or the error that it shows."


def _is_configuration(text: str) -> bool:
    """Whether a text has the settings of a client, in TOML, in YAML or as variables."""
    lines = [line for line in text.splitlines() if line.strip()]
    return all(map(_SETTING.match, lines)) and bool(_TELLING_SETTING.search(text))


def _read_fences(text: str) -> Pasted | None:
    """The content of the code blocks of a text: a request, a reply, or both."""
    found = [recognise_text(block) for block in fenced_texts(text) if block.strip() != text.strip()]
    request = next((each for each in found if isinstance(each, PastedRequest)), None)
    reply = next((each for each in found if _is_reply(each)), None)
    if request is not None and isinstance(reply, (PastedAnswer, PastedError)):
        return PastedExchanges((PastedExchange(request, reply, ""),), "a text with both sides")
    whole = (each for each in found if isinstance(each, (PastedExchanges, BrokenJson)))
    return request or reply or next(whole, None)


def _is_reply(found: Pasted) -> bool:
    """Whether it is a server's reply. A block with only markup may be a quotation in an answer."""
    has_protocol = isinstance(found, PastedAnswer) and found.protocol is not None
    return has_protocol or isinstance(found, PastedError)


def _read_quoting_error(text: str) -> PastedError | None:
    """An error that quotes a piece of markup. A text with a whole call elsewhere is an answer."""
    known = error_page.find_known_error(text)
    if known is None or not error_page.is_error_text(text):
        return None
    _, start, end = known
    elsewhere = text[:start] + text[end:].partition("\n")[2]
    quotes = _MARKUP_WORD in text[start:end]
    return PastedError(text) if quotes and not parse(elsewhere, thinking=False).tool_calls else None


_MARKUP_WORD = DSML[1:-1]  # without its bars, which are often replaced by others


def _read_answer_text(text: str) -> PastedAnswer | None:
    """The answer in a text with signs of one: reasoning, calls, or remains of them. Else None."""
    if text.lstrip()[:1] in ("{", "["):  # JSON with a mistake
        return None
    text = _printed_markup(text)
    if text.rstrip("\r\n").endswith(EOS):
        text = text.rstrip("\r\n")  # an editor's line end
    thinking = ends_reasoning(text) or text.lstrip().startswith(THINK_START)
    if not (thinking or EOS in text):
        message = parse(part_to_parse(text), thinking=False)
        marks = [each for each in message.diagnostics if each.kind not in OF_REASONING]
        if not (message.tool_calls or message.incomplete or marks):
            return None
    tags = ((name, str(dialect.tags.block_open).strip()) for name, dialect in DIALECTS.items())
    dialect = next((name for name, tag in tags if tag in text), None)
    return PastedAnswer(text, thinking, dialect)


# Two tags with an escaped line end between them, and a text in quotation marks.
_ESCAPED_LINE_END = re.compile(r">\\n(?:\\n|\s)*<")
_LITERAL = re.compile(r"""(?<!\w)"(?:[^"\\]|\\.)*"|(?<!\w)'(?:[^'\\]|\\.)*'""")


def _printed_markup(text: str) -> str:
    """The original of a text that a log or a program shows in one line, with escaped line ends."""
    if "\n" in text.strip() or not _ESCAPED_LINE_END.search(text):
        return text
    shown = (each[0] for each in _LITERAL.finditer(text) if _ESCAPED_LINE_END.search(each[0]))
    literal = next(shown, "")
    value = maybe_json(literal) or python_value(f"[ {literal}]")
    value = value[0] if isinstance(value, list) and value else value
    return value if isinstance(value, str) else text
