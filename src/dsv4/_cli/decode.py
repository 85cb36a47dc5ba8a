"""dsv4 decode"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsv4._cli import command_options as shared
from dsv4._cli.command_output import DONE, FINDINGS, Failure, json_text, output
from dsv4._cli.conversation_files import hint_at_json, read_text
from dsv4._cli.option_fields import argument, switch
from dsv4._inputs.input_files import input_name
from dsv4.api.own_bodies import body_of_request
from dsv4.api.request_fields import maybe_json

if TYPE_CHECKING:
    from dsv4._decode import Decoded


@dataclass(kw_only=True)
class DecodeOptions(shared.DialectOptions, shared.TokenizerOption):
    file: str | None = argument("FILE", "?")
    ids: bool = switch()
    unescape: bool = switch()
    notes: bool = switch()
    json: bool = switch()
    strict: bool = switch()


def run(args: DecodeOptions) -> int:
    """Status 0 if the request writes exactly the given prompt."""
    from dsv4._decode import decode
    from dsv4._decode.request_search import unescaped_prompt
    from dsv4.errors import ParseError

    dialect = shared.dialect_option(args)
    prompt: Any = read_text(args.file)
    if not args.ids:
        hint_at_json(prompt, args.file, "the text of a prompt")
    if args.unescape:
        prompt = unescaped_prompt(prompt.strip())
    if args.ids:
        prompt = shared.load_tokenizer(args.tokenizer).prompt(
            _ids(args.file, prompt), dialect=dialect
        )
    try:
        decoded = decode(prompt, dialect=dialect, strict=args.strict)
    except ParseError as error:
        raise Failure(f"{input_name(args.file)}: {error}", FINDINGS) from None
    with output() as file:
        file.write(_decoded_text(decoded, args.json) + "\n")
    if args.notes:
        for note in decoded.notes:
            place = "" if note.message is None else f" messages[{note.message}]"
            print(f"{note.start}-{note.end}{place}: {note.kind}: {note.text}", file=sys.stderr)
    elif not decoded.exact:
        print(f"dsv4: {input_name(args.file)}: {decoded.notes[-1].text}", file=sys.stderr)
    return DONE if decoded.exact else FINDINGS


def _ids(path: str | None, text: str) -> Any:
    ids = maybe_json(text)
    if not isinstance(ids, list):
        raise Failure(f"{input_name(path)}: found no list, expected token ids as a JSON list")
    return ids


def _decoded_text(decoded: Decoded, whole: bool) -> str:
    body = body_of_request(decoded.request, decoded.dialects[0])
    if not whole:
        return json_text(body, indent=2)
    notes = [note._asdict() for note in decoded.notes]
    result = {"exact": decoded.exact, "dialects": list(decoded.dialects), "notes": notes}
    return json_text({"request": body, **result})
