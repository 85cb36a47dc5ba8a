"""dsv4 show"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from dsv4._cli import command_options as shared
from dsv4._cli.command_output import DONE, Failure, output, terminal_width, uses_color, write_text
from dsv4._cli.conversation_files import read_one_request
from dsv4._cli.option_fields import option, switch
from dsv4._view.characters import terminal_safe

DEFAULT_MASK = "assistant"


@dataclass(kw_only=True)
class ShowOptions(shared.ConversationOptions, shared.ShownPromptOptions):
    full: bool = switch()
    mask: str | None = option(metavar="POLICY", nargs="?", const=DEFAULT_MASK)
    html: str | None = option(metavar="OUT")
    width: int | None = option(metavar="N")


def run(args: ShowOptions) -> int:
    from dsv4._view.terminal_lines import ansi_lines, terminal_lines
    from dsv4._view.view_rows import view_of

    _resolve_mask(args)
    request = read_one_request(args)
    prompt = request.encode()
    if args.image_size is not None:
        prompt = prompt.with_image_size(*args.image_size)
    tokenizer = shared.load_fitting_tokenizer(args.tokenizer, prompt)
    view = view_of(prompt, request.messages, tokenizer, args.mask)
    title = terminal_safe(request.place)
    if args.html is not None:
        from dsv4._view.html_page import html_page

        write_text(args.html, html_page(view, title, args.full), [args.file])
        return DONE
    color = uses_color(args.color, sys.stdout)
    width = args.width or terminal_width()
    with output() as file:
        file.writelines(ansi_lines(terminal_lines(view, width, args.full, not color), color))
    return DONE


def _resolve_mask(args: ShowOptions) -> None:
    """Resolves the word after --mask: a policy, or already the file, as in
    `dsv4 show --mask FILE`."""
    from dsv4.tokens.masks import POLICIES

    if args.mask is None or args.mask in POLICIES:
        return
    if args.file is not None:
        raise Failure(f'--mask: found "{args.mask}", expected one of {", ".join(POLICIES)}')
    args.mask, args.file = DEFAULT_MASK, args.mask
