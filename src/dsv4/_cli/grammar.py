"""dsv4 grammar"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

import dsv4
from dsv4._cli.command_options import add_file_argument, add_output_argument, add_prompt_arguments
from dsv4._cli.command_output import DONE, FINDINGS, Failure, json_text, write_text
from dsv4._cli.conversation_files import read_one_request

EXAMPLE = """
dsv4 grammar request.json --form gbnf > answer.gbnf
dsv4 grammar request.json --tool-choice required --fields vllm
"""
FORMS = ("xgrammar", "gbnf", "lark")
SERVERS = ("vllm", "sglang", "sglang-completions", "llamacpp")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file_argument(parser)
    parser.add_argument(
        "--form",
        choices=FORMS,
        help="the grammar language: xgrammar (the default, for vLLM and SGLang), gbnf (llama.cpp) "
        "or lark (llguidance)",
    )
    parser.add_argument(
        "--fields",
        metavar="SERVER",
        choices=SERVERS,
        help="print the grammar as JSON fields of a request to this server: "
        f"{', '.join(SERVERS[:-1])} or {SERVERS[-1]}",
    )
    parser.add_argument(
        "--tool-choice",
        metavar="CHOICE",
        help="auto (the default), none, required, or the name of a tool",
    )
    parser.add_argument(
        "--reasoning",
        choices=("grammar", "server"),
        default="grammar",
        help="whether the grammar covers the reasoning (the default), or the server handles it",
    )
    parser.add_argument(
        "--no-preamble", action="store_true", help="allow no content before required calls"
    )
    parser.add_argument(
        "--order",
        choices=("any", "declared"),
        default="any",
        help="the order of parameters: any (the default, for up to six) or as declared",
    )
    parser.add_argument(
        "--no-markup", action="store_true", help="allow no tool-call markup inside string values"
    )
    parser.add_argument("--one-call", action="store_true", help="allow at most one call")
    parser.add_argument(
        "--exact", action="store_true", help="fail if a schema cannot be enforced in full"
    )
    parser.add_argument(
        "--markers",
        choices=("tokens", "text"),
        default="tokens",
        help="how to write special tokens: as tokens, by their ids in the V4 vocabulary (the "
        "default), or as text, for engines that know no tokens in a grammar",
    )
    add_prompt_arguments(parser)
    add_output_argument(parser)


def run(args: argparse.Namespace) -> int:
    from dsv4.grammar import for_request

    given = read_one_request(args)
    try:
        grammar = for_request(
            _with_tool_choice(given.request, args),
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
        raise Failure(f"{given.place}: {error}", FINDINGS) from None
    for relaxation in grammar.relaxed:
        print(f"dsv4: not enforced: {relaxation}", file=sys.stderr)
    text = grammar.text if fields is None else json_text(fields) + "\n"
    write_text(args.output, text)
    return DONE


def _with_tool_choice(given: dsv4.Request, args: argparse.Namespace) -> dsv4.Request:
    return given if args.tool_choice is None else replace(given, tool_choice=args.tool_choice)
