"""dsv4 encode"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsv4._cli import command_options as shared
from dsv4._cli.command_options import load_tokenizer, tokenizer_errors_at
from dsv4._cli.command_output import DONE, json_text, output
from dsv4._cli.conversation_files import LocatedRequest, read_requests
from dsv4._cli.option_fields import switch
from dsv4._inputs.input_files import input_name
from dsv4._view.characters import terminal_safe_lines

if TYPE_CHECKING:
    from dsv4.tokens import Tokenizer


@dataclass(kw_only=True)
class EncodeOptions(shared.ConversationsOptions, shared.TokenizerOption, shared.OutputOption):
    ids: bool = switch(group="form")
    json: bool = switch(group="form")


def run(args: EncodeOptions) -> int:
    tokenizer = load_tokenizer(args.tokenizer, args.files) if args.ids or args.json else None
    only_one = len(args.files) < 2 and not args.jsonl
    with output(args.output, args.files) as file:
        for request in read_requests(args):
            value = _encoded_value(request, args, tokenizer)
            whole = only_one and request.place == input_name(next(iter(args.files), None))
            if isinstance(value, str) and whole:
                file.write(terminal_safe_lines(value) if _is_on_terminal(args.output) else value)
            else:
                file.write(json_text(value) + "\n")
    return DONE


def _is_on_terminal(path: str | None) -> bool:
    """Whether the output goes to a terminal, which would act on control characters in it."""
    return path in (None, "-") and sys.stdout is not None and sys.stdout.isatty()


def _encoded_value(
    request: LocatedRequest, args: EncodeOptions, tokenizer: Tokenizer | None
) -> Any:
    """The prompt as text; with a tokenizer, its ids, or an object with prompt, ids and spans."""
    prompt = request.encode()
    if tokenizer is None:
        return str(prompt)
    with tokenizer_errors_at(request.place):
        ids = tokenizer.encode(prompt)
        if args.ids:
            return ids
        spans = [span._asdict() for span in tokenizer.spans(prompt)]
    return {"prompt": str(prompt), "ids": ids, "spans": spans}
