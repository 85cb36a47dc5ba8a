"""dsv4 parse: reads a completion, and with --explain marks and explains every repair."""

from __future__ import annotations

import re
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any, BinaryIO, TextIO

import dsv4
from dsv4._cli.command_options import ColorOption, DialectOptions, ModeOption, dialect_option
from dsv4._cli.command_output import DONE, FINDINGS, Failure, Paint, json_text, output, plural
from dsv4._cli.conversation_files import hint_at_json, read_text, read_tools
from dsv4._cli.option_fields import argument, option, switch
from dsv4._completion.message import reads_like_an_answer
from dsv4._format.tokens import EOS, THINK_END
from dsv4._inputs.input_files import decode_utf8, input_name, line_and_column, open_input
from dsv4._view.characters import terminal_safe, terminal_safe_lines

READ_SIZE = 65_536
LONGEST_QUOTE = 60


@dataclass(kw_only=True)
class ParseOptions(ModeOption, DialectOptions, ColorOption):
    file: str | None = argument("FILE", "?")
    stream: bool = switch(group="form")
    full: bool = switch(group="form")
    explain: bool = switch(group="form")
    strict: bool = switch()
    tools: str | None = option(metavar="FILE")


def run(args: ParseOptions) -> int:
    ids = (f"call_{number}" for number in count())  # the same for the same text
    parser = dsv4.StreamParser(
        thinking=args.mode != "chat",
        tools=None if args.tools is None else read_tools(args.tools),
        dialect=dialect_option(args),
        strict=args.strict,
        new_id=ids.__next__,
    )
    try:
        if args.stream:
            _stream(args.file, parser)
        else:
            _print_message(args, parser)
    except dsv4.ParseError as error:
        raise Failure(f"{input_name(args.file)}: {error}", FINDINGS) from None
    return DONE


# The whole message.


def _print_message(args: ParseOptions, parser: dsv4.StreamParser) -> None:
    text = "".join(_without_last_newline([read_text(args.file)]))
    hint_at_json(text, args.file, "the text of a completion")
    message = dsv4.assemble([*parser.feed(text), *parser.finish()])
    with output() as file:
        if args.explain:
            file.writelines(explanation_lines(text, message, Paint(args.color, sys.stdout)))
            return
        value = message.to_dict()
        if args.full:
            value = _full(message, value)
        file.write(json_text(value, indent=2) + "\n")
    if not args.full:
        _mention_repairs(message)


def _full(message: dsv4.Message, as_dict: dict[str, Any]) -> dict[str, Any]:
    return {
        "message": as_dict,
        "finish": message.finish,
        "incomplete": list(map(asdict, message.incomplete)),
        "diagnostics": list(map(asdict, message.diagnostics)),
    }


def _mention_repairs(message: dsv4.Message) -> None:
    """Reports repairs and incomplete calls, which the message does not show."""
    results = [
        *([f"{len(message.diagnostics)} repaired (see --explain)"] if message.diagnostics else []),
        *([f"{len(message.incomplete)} incomplete (see --full)"] if message.incomplete else []),
    ]
    if results:
        print(f"dsv4: {', '.join(results)}", file=sys.stderr)


# --explain.


# For markup without repairs, which any parser would have read.
SHOWN_AS_TEXT = (
    "If you saw this in an answer: the markup is well-formed, and the server did not parse it.\n"
    "`dsv4 docs why-dsml` says what to do.\n"
)

# For calls without the end of reasoning: two of the repairs are not due to the model.
READ_AS_REASONING = (
    f"There are calls and no {THINK_END}: this looks like an answer's text, "
    "which --mode chat reads.\n"
)


def explanation_lines(text: str, message: dsv4.Message, paint: Paint) -> Iterator[str]:
    """The lines to print."""
    repairs = sorted(message.diagnostics, key=lambda repair: (repair.start, repair.end))
    yield from _marked_text(text, repairs, paint)
    yield "\n\n" if repairs else "\n"
    for number, repair in enumerate(repairs, 1):
        yield _explanation(number, repair, text, paint)
    yield _explanation_summary(message, len(repairs), paint)
    if message.tool_calls and not repairs:
        yield SHOWN_AS_TEXT
    if reads_like_an_answer(message):
        yield READ_AS_REASONING


def _marked_text(text: str, repairs: Sequence[dsv4.Diagnostic], paint: Paint) -> Iterator[str]:
    """The text with its repairs marked. A repair inside another one has its number only."""
    at = 0
    for number, repair in enumerate(repairs, 1):
        start, end = max(repair.start, at), max(repair.end, at)
        yield terminal_safe_lines(text[at:start])
        yield paint(f"⟦{number}", "bold", "red")
        if end > start:
            yield paint(" " + terminal_safe_lines(text[start:end]), "red")
        yield paint("⟧", "bold", "red")
        at = end
    yield terminal_safe_lines(text[at:])


def _explanation(number: int, repair: dsv4.Diagnostic, text: str, paint: Paint) -> str:
    line, column = line_and_column(text, repair.start)
    head = f"⟦{number}⟧ {repair.kind}"
    quote = f" {_quoted(repair.raw)}" if repair.raw else ""
    return f"{paint(head, 'bold', 'red')} {line}:{column}{quote}\n    {repair.sentence}\n"


def _quoted(raw: str) -> str:
    quote = terminal_safe(raw)
    return quote if len(quote) <= LONGEST_QUOTE else quote[: LONGEST_QUOTE - 1] + "…"


def _explanation_summary(message: dsv4.Message, repairs: int, paint: Paint) -> str:
    parts = [
        plural(repairs, "repair") if repairs else "no repairs",
        plural(len(message.tool_calls), "call"),
        *([f"{len(message.incomplete)} incomplete"] if message.incomplete else []),
        f"finish {message.finish}",
    ]
    return paint(", ".join(parts), "bold") + "\n"


# Events.


def _stream(path: str | None, parser: dsv4.StreamParser) -> None:
    with open_input(path) as source, output() as file:
        for text in _without_last_newline(_chunks(source, input_name(path))):
            _write_events(parser.feed(text), file)
        _write_events(parser.finish(), file)


def _chunks(source: BinaryIO, name: str) -> Iterator[str]:
    """Text as soon as it arrives, up to the last complete character."""
    decoder = getincrementaldecoder("utf-8")()
    before = 0
    while data := source.read1(READ_SIZE):  # type: ignore[attr-defined]
        try:
            yield decoder.decode(data)
        except UnicodeDecodeError as error:
            raise Failure(f"{name}: not UTF-8 from byte {before + error.start} on") from None
        before += len(data)
    decode_utf8(decoder.getstate()[0], name)


def _without_last_newline(chunks: Iterable[str]) -> Iterator[str]:
    """The text without a newline after EOS, which an editor added."""
    newlines, before = "", ""
    for chunk in chunks:
        text = newlines + chunk
        line = text.rstrip("\r\n")
        newlines = text[len(line) :]
        before = (before + line)[-len(EOS) :]
        if line:
            yield line
    if newlines and before != EOS:
        yield newlines


def _write_events(events: Iterable[dsv4.Event], file: TextIO) -> None:
    for event in events:
        line = {"event": _snake(type(event).__name__), **asdict(event)}
        file.write(json_text(line) + "\n")
        file.flush()


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
