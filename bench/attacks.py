"""Texts made to cost much: python bench/attacks.py [--size N] [PATTERN ...]

Each pattern is fed to the parser in chunks of 1, 4 and 64 characters. The table says what a
character costs, in microseconds; the last column is the cost of twice the text in chunks of 1,
divided by that of the text: 2 is linear. `tests/test_attacks.py` counts the work for all of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import dsv4

DSML, EOS = "｜DSML｜", "<｜end▁of▁sentence｜>"
TOOLS = [
    {
        "name": "write_file",
        "parameters": {"properties": {"path": {"type": "string"}, "content": {"type": "string"}}},
    },
    {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}},
    {"name": "g", "parameters": {"properties": {"a": {"type": "array"}}}},
]
BLOCK, BLOCK_END = f"<{DSML}tool_calls>", f"</{DSML}tool_calls>"
INVOKE, INVOKE_END = f'<{DSML}invoke name="write_file">', f"</{DSML}invoke>"
STRING = f'<{DSML}parameter name="content" string="true">'
JSON = f'<{DSML}parameter name="content" string="false">'
END = f"</{DSML}parameter>"
PLAIN = '<invoke name="f"><parameter name="a">'
NATIVE, NATIVE_CALL = "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>"
# Where texts begin: in prose, in a block, in a call, in a string, in JSON, in a body.
IN_BLOCK, IN_CALL = BLOCK, f"{BLOCK}{INVOKE}"
IN_STRING, IN_JSON = f"{BLOCK}\n{INVOKE}\n{STRING}", f"{BLOCK}\n{INVOKE}\n{JSON}"
NESTED = f'{BLOCK}<{DSML}invoke name="g"><{DSML}parameter name="a">'
CALL = f"{BLOCK}{INVOKE}{STRING}v{END}{INVOKE_END}{BLOCK_END}"

# A name -> where it begins, and what comes again and again.
PATTERNS: dict[str, tuple[str, str]] = {
    "example elements": ("", "<example>"),
    "corner brackets": ("", "「"),
    # Tags that lost a part, or have one twice.
    "tokens in a row": ("", DSML),
    "tokens twice": ("", f"<{DSML}{DSML}"),
    "tokens twice in a string": (IN_STRING, f"</{DSML}{DSML}parameter>"),
    "openings without a bracket": ("", f'\n{DSML}invoke name="f">'),
    "openings without a bracket in a string": (IN_STRING, f'\n{DSML}parameter name="path">'),
    "wrappers without a bracket": ("", f"\n{DSML}tool_calls>"),
    "tags without a word": (IN_CALL, f'<{DSML} name="content" string="true">'),
    "tags without a word in prose": ("", f'<{DSML} name="f">'),
    "closes and damaged heads": (IN_STRING, f"{END}<parameter"),
    "closes and tokens": (IN_STRING, f"{END}\n{DSML}x "),
    "damaged closes": (IN_CALL, f"{STRING}a</{DSML}parameter\n"),
    "stutters": (IN_BLOCK, INVOKE[:-1]),
    "openings and wrappers": ("", f"{BLOCK}\n{INVOKE}\n"),
    "no JSON, and blocks": ("", f"{BLOCK}\n{INVOKE}\n{JSON}x{INVOKE_END}\n{BLOCK_END}\n"),
    "straight quotes": ("", ' "a'),
    "comments": ("", "<!--"),
    "quotes and ticks": ("", "“`‘``"),
    "calls in an open element": ("<pre>", CALL + "\n\n"),
    "calls in open quotes": ("", "“" + CALL),
    "calls in closed quotes": ("", f"“{CALL}”"),
    "calls behind ticks": ("", "`a " + CALL),
    "calls in block quotes": ("", f"> {CALL}\n"),
    "calls in named pairs": ("", f"[code]\n{CALL}\n[/code]\n"),
    "calls in elements of their own": ("", f"<step>{CALL}</step>\n"),
    "calls in open pairs": ("", f"/*\n\\begin{{a}}\n<doc>\n<![CDATA[\n{CALL}\n"),
    "openings of named pairs": ("", "[code]\n#+BEGIN_SRC\n\\begin{a}\n/*\n<doc>\n<![CDATA[\n"),
    "brackets that begin lines": ("", "\n["),
    "calls in an open fence": ("```\nls\n", CALL + "\n"),
    "calls and text in an open fence": ("```\nls\n", CALL + "\nso\n"),
    "calls that do not end in an open fence": ("```\n", f"ls\n{CALL[:60]}\n"),
    "fences in Markdown": ("```md\n", "```sh\n"),
    "calls behind open paragraphs": ("", f"“a\n\n{CALL}"),
    "native tokens and space": ("", "<｜tool▁call▁begin｜>" + " " * 500),
    "tags behind a call in quotes": ("“" + CALL, "<a "),
    "fences behind a call in an element": ("<pre>\n" + CALL, "\n```\n"),
    "parameters in mid-line": ("x", f"{STRING}v{END}"),
    "parameters in a parameter": (NESTED, f'<{DSML}parameter name="b" string="true">v{END}'),
    "names in a block": (f"{BLOCK}\nf\n```\n", "{"),
    "spaces after a plain tag": ("<tool", " "),
    "spaces after a DSML tag": (f"<{DSML}invoke", " "),
    "plain tags with spaces": ("", "<tool" + " " * 1000),
    "DSML tags with spaces": ("", f"<{DSML}invoke" + " " * 1000),
    "attributes": ("", "<tool" + " a=1" * 240),
    "quoted attributes": ("", "<tool" + ' a="1"' * 160),
    "DSML attributes": ("", f"<{DSML}invoke" + ' a="1"' * 160),
    "long names": ("", "<" + "tool" * 250),
    "long DSML names": ("", f"<{DSML}" + "x" * 1000),
    "long attribute names": ("", f"<{DSML}invoke " + "x" * 1000),
    "open quotes": ("", '<tool a="'),
    "open quotes of three kinds": ("", "<tool a=\"<tool a='<tool a=“"),
    "open DSML quotes": ("", f'<{DSML}invoke name="'),
    "open quotes with text": ("", f'<{DSML}invoke name="' + "x" * 900),
    "open braces in names": ("", '<a="{'),
    "open braces in attributes": ("", '<tool a="{'),
    "open braces in short names": ("", '<x="{"'),
    "open braces in arguments": ("", '<tool arguments="{'),
    "objects in attributes": ("", f'<{DSML}invoke name="f" arguments="' + '{"a": ' * 100),
    "brackets": ("", "<"),
    "slashes": ("", "</"),
    "bars": ("", DSML[0]),
    "brackets and bars": ("", "<" + DSML[0]),
    "half tokens": ("", f"<{DSML[:-1]}"),
    "tokens": ("", DSML),
    "tokens in brackets": ("", f"<{DSML}"),
    "brackets before tokens": ("", f"<<{DSML}"),
    "brackets before tags": ("", f'<<{DSML}invoke name="f">'),
    "full-width tags": ("", f"＜{DSML}invoke name＝＂f＂ a＝＂"),
    "half EOS": ("", EOS[:8]),
    "EOS": ("", EOS),
    "think tags": ("", "<think>"),
    "ends of thought": ("", "</think>"),
    "spaced ends of thought": ("", "<   /   think "),
    "newlines": ("", "\n"),
    "blank lines": ("", "\n \n"),
    "backticks": ("", "`"),
    "fences": ("", "```\n"),
    "fences in lines": ("", "a ```js\n"),
    "ticks in a line": ("", "``` "),
    "list markers": ("", "- "),
    "wrappers": ("", BLOCK),
    "wrappers on lines": ("", f"{BLOCK}\n"),
    "closers": ("", f"{INVOKE_END}\n"),
    "closers and text": ("", f"{INVOKE_END} x "),
    "bare closers": ("", f"{DSML}invoke>"),
    "invokes": ("", INVOKE),
    "calls": ("", f"{INVOKE}{INVOKE_END}"),
    "wrapped calls": (IN_BLOCK, f"{INVOKE}{INVOKE_END}"),
    "text in a block": (IN_BLOCK, "x"),
    "lines in a block": (IN_BLOCK, "x\n"),
    "brackets in a block": (IN_BLOCK, "x<"),
    "braces in a block": (IN_BLOCK, "x\n{"),
    "JSON calls": (IN_BLOCK, '{"name": "f"}\n'),
    "a list of calls": (f"{IN_BLOCK}[", '{"name": "f"},'),
    "examples": (IN_BLOCK, f'<{DSML}invoke name="$TOOL_NAME">'),
    "parameters": (IN_CALL, f'<{DSML}parameter name="k" string="true">v{END}'),
    "items of a list": (
        f'{BLOCK}<{DSML}invoke name="g">',
        f'<{DSML}parameter name="a" string="true">v{END}',
    ),
    "self-closing parameters": (IN_CALL, f'<{DSML}parameter name="k" string="v"/>'),
    "remarks": (IN_CALL, "x"),
    "brackets in remarks": (IN_CALL, "x<"),
    "closers in remarks": (IN_CALL, f"x{END}"),
    "a body": (f'{IN_CALL}{{"a": "', "x"),
    "braces in a body": (IN_CALL, "{"),
    "newlines in a body": (IN_CALL, '{"a": "\n'),
    "a string": (IN_STRING, "x"),
    "newlines in a string": (IN_STRING, "\n"),
    "indentation in a string": (IN_STRING, "\n    "),
    "brackets in a string": (IN_STRING, "<"),
    "closers in a string": (IN_STRING, f"{END}x"),
    "closers and spaces": (IN_STRING, END + " " * 250),
    "closers and much space": (IN_STRING, END + " " * 5000),
    "closers and space without end": (f"{IN_STRING}{END}", " "),
    "EOS and much space": ("", EOS + " " * 5000),
    "EOS and much space in a string": (IN_STRING, EOS + " " * 5000),
    "closers and lines": (IN_STRING, f"{END}\n"),
    "closers and brackets": (IN_STRING, END + "<" * 250),
    "closers and tags": (IN_STRING, END + "x <b> " * 40),
    "closers of calls in a string": (IN_STRING, INVOKE_END),
    "closers of blocks in a string": (IN_STRING, BLOCK_END),
    "invokes in a string": (IN_STRING, INVOKE),
    "quoted calls": (IN_STRING, f"{BLOCK}{INVOKE}"),
    "quoted calls that close": (IN_STRING, f"{INVOKE}{STRING}{END}{INVOKE_END}"),
    "parameters in a string": (IN_STRING, f"\n{STRING}"),
    "odd closers in a string": (IN_STRING, f"</{DSML}>"),
    "odd closers in a loose block": (f"{IN_CALL}{STRING}", f"</{DSML}>"),
    "odd closers on lines": (IN_STRING, f"</{DSML}>\n"),
    "odd closers and calls": (IN_STRING, f"</{DSML}>\n{INVOKE_END}\n{INVOKE}\n{STRING}"),
    "plain closers in a string": (IN_STRING, "</parameter>"),
    "plain closers in a loose block": (f"{IN_CALL}{STRING}", "</parameter>"),
    "closers, then plain ones, in a string": (IN_STRING, f"{END}\n</invoke>\n</tool_calls>\nx"),
    "half tags in a string": (IN_STRING, f'\n<{DSML}invoke name="a'),
    "EOS in a string": (IN_STRING, EOS),
    "HTML in a string": (IN_STRING, '<div class="x">a</div>\n'),
    "quotes in JSON": (IN_JSON, '"\\"'),
    "nesting in JSON": (IN_JSON, '["'),
    "brackets in JSON": (IN_JSON, "["),
    "closers in JSON": (IN_JSON, f'"{END}",'),
    "closers in broken JSON": (IN_JSON, f"x{END}"),
    "newlines in JSON": (IN_JSON, '"a\n'),
    "white space in JSON": (f'{IN_JSON}["a', " "),
    "parameters in JSON": (f"{IN_JSON}1 ", STRING),
    "backslashes in JSON": (f'{IN_JSON}"', "\\"),
    "plain invokes": ("", '<invoke name="f">'),
    "plain calls": ("", '<invoke name="f"></invoke>'),
    "an open plain call": (PLAIN, "x"),
    "brackets in a plain call": (PLAIN, "<b"),
    "closers in a plain call": (PLAIN, "</parameter>x"),
    "plain calls that end": ("", f"{PLAIN}x"),
    "JSON in plain tags": ("", '<tool_call>{"name": "f"'),
    "plain wrappers": ("", "<calls>"),
    "native blocks": ("", NATIVE),
    "native calls": (NATIVE, NATIVE_CALL + '{"a": "b"}<｜tool▁call▁end｜>'),
    "open native calls": (NATIVE, NATIVE_CALL + "{"),
    "braces in a native call": (f"{NATIVE}{NATIVE_CALL}{{", "}"),
    "a block in a fence": (f"```\n\n{IN_STRING}", "x"),
    "blocks in a fence": ("```\n", f"\n{IN_STRING}"),
    "role tokens": ("", "<｜User｜>"),
    "role tokens and lines": ("", "<｜User｜>a<｜Assistant｜>\n"),
    "named tokens": ("", f"`{EOS}`"),
    "tokens behind a quote": ("", '"' + EOS * 8),
    "roles behind backticks": ("", "`<｜User｜>" + "x" * 1010),
    "an open prompt in a line": ("`<｜User｜>", "x<｜Assistant｜>"),
    "EOS in a fence": ("```\n", f"{EOS}\n"),
    "quoted blocks": ("", f"`{BLOCK}{INVOKE}{INVOKE_END}{BLOCK_END}`"),
    "quoted blocks that never close": ("", f"`{BLOCK}{INVOKE}{STRING}"),
    "indented blocks": ("", f"\n    {BLOCK}\n    {INVOKE}{INVOKE_END}\n    {BLOCK_END}\nx"),
    "blocks without closers": ("", f"{IN_STRING}{INVOKE_END}{BLOCK_END}\n"),
    "calls without closers": (IN_STRING, f"{INVOKE_END}\n{INVOKE}\n{STRING}"),
    "calls with surplus closers": (
        IN_STRING,
        f"{INVOKE_END}\n{INVOKE}\n{STRING}x{END}\n{INVOKE_END}\n{END}",
    ),
    "blocks of doubtful calls": (
        "",
        f"{IN_STRING}{BLOCK}{END}\n{INVOKE_END}\n{BLOCK_END}\n{INVOKE_END}\n",
    ),
    "strict blocks that quote": (
        "",
        f"{IN_STRING}{BLOCK}{END}\n{INVOKE_END}\n{BLOCK_END}\n\nx",
    ),
    "EOS and role tokens in a string": (IN_STRING, f"{EOS}<｜User｜>"),
    "text between calls": (IN_BLOCK, f"x{INVOKE}{INVOKE_END}"),
    "a made-up turn": (f"{EOS}<｜User｜>", "x"),
}


def text_of(name: str, size: int) -> str:
    start, again = PATTERNS[name]
    return (start + again * (size // len(again) + 1))[:size]


def openers_and_closers(size: int) -> str:
    """Quoted openers, and then as many closers."""
    pair = f"{INVOKE}{STRING}"
    return IN_STRING + pair * (size // 2 // len(pair)) + END * (size // 2 // len(END))


TEXTS: dict[str, Callable[[int], str]] = {
    **{name: (lambda size, name=name: text_of(name, size)) for name in PATTERNS},  # type: ignore[misc]
    "quoted openers, then closers": openers_and_closers,
    "a plain call of many parameters": lambda size: (
        '<invoke name="f">' + '<parameter name="a">x</parameter>' * (size // 34) + "</invoke>"
    ),
    "many parameters": lambda size: (
        IN_CALL
        + "".join(f'<{DSML}parameter name="k{n}" string="true">v{END}' for n in range(size // 58))
    ),
}


def feed(text: str, size: int) -> None:
    parser = dsv4.StreamParser(thinking=False, tools=TOOLS)
    for at in range(0, len(text), size):
        parser.feed(text[at : at + size])
    parser.finish()


def cost(text: str, size: int) -> float:
    """Microseconds a character."""
    start = time.process_time()
    feed(text, size)
    return (time.process_time() - start) / len(text) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=1_000_000, help="characters in each text")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="all, if none is named")
    args = parser.parse_args()
    for name in args.patterns:
        if name not in TEXTS:
            parser.error(f"found the pattern {name!r}, expected one of the table's")
    print("| pattern | 1 | 4 | 64 | twice |\n|---|---|---|---|---|")
    for name in args.patterns or TEXTS:
        make = TEXTS[name]
        text = make(args.size)
        costs = [cost(text, size) for size in (1, 4, 64)]
        half = cost(make(args.size // 2), 1)
        row = " | ".join(f"{each:.2f}" for each in costs)
        print(f"| {name} | {row} | {2 * costs[0] / half:.1f} |", flush=True)


if __name__ == "__main__":
    main()
