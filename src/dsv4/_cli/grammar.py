"""dsv4 grammar"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Literal

import dsv4
from dsv4._cli.command_options import ConversationOptions, OutputOption
from dsv4._cli.command_output import DONE, FINDINGS, Failure, json_text, write_text
from dsv4._cli.conversation_files import read_one_request
from dsv4._cli.option_fields import option, switch


@dataclass(kw_only=True)
class GrammarOptions(ConversationOptions, OutputOption):
    form: Literal["xgrammar", "gbnf", "lark"] | None = option()
    fields: Literal["vllm", "sglang", "sglang-completions", "llamacpp"] | None = option(
        metavar="SERVER"
    )
    tool_choice: str | None = option(metavar="CHOICE")
    reasoning: Literal["grammar", "server"] = option(default="grammar")
    no_preamble: bool = switch()
    order: Literal["any", "declared"] = option(default="any")
    no_markup: bool = switch()
    one_call: bool = switch()
    exact: bool = switch()
    markers: Literal["tokens", "text"] = option(default="tokens")


def run(args: GrammarOptions) -> int:
    from dsv4.grammar import for_request

    request = read_one_request(args)
    try:
        grammar = for_request(
            _with_tool_choice(request.request, args),
            args.form or ("gbnf" if args.fields == "llamacpp" else "xgrammar"),
            reasoning=args.reasoning,
            preamble=not args.no_preamble,
            order=args.order,
            markup_in_values=not args.no_markup,
            parallel=not args.one_call,
            exact=args.exact,
            markers=args.markers,
        )
        fields = None if args.fields is None else grammar.fields(args.fields)
    except dsv4.Error as error:
        raise Failure(f"{request.place}: {error}", FINDINGS) from None
    for relaxation in grammar.relaxed:
        print(f"dsv4: not enforced: {relaxation}", file=sys.stderr)
    text = grammar.text if fields is None else json_text(fields) + "\n"
    write_text(args.output, text)
    return DONE


def _with_tool_choice(request: dsv4.Request, args: GrammarOptions) -> dsv4.Request:
    return request if args.tool_choice is None else replace(request, tool_choice=args.tool_choice)
