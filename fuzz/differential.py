"""Well-formed completions that talk about markup: python fuzz/differential.py [--count N]

Builds completions that the strict grammar accepts, out of fragments that look like tags, of HTML,
JSX, code fences and half-written markup, and reads each twice: strictly, and tolerantly with tools
declared. Both must say the same: no end of reasoning may be swallowed by an attribute, no call lost
in a code fence, no word of the answer missing. Prints the first text for which they differ.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import dsv4

DSML, EOS, THINK_END = "｜DSML｜", "<｜end▁of▁sentence｜>", "</think>"
TOOLS = [
    {"name": "bash", "parameters": {"properties": {"command": {"type": "string"}}}},
    {
        "name": "write_file",
        "parameters": {
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        },
    },
]
# What stands in the middle of a line, or is a line.
INLINE = (
    *('<param name="q" value="a b" allowfullscreen>', '<toolbar id="main" {...props}>'),
    *('<tooltip text="x" open>', '<Tool name="x" on={() => f("y")}>', '<tool name="x"'),
    *('<function name="get_weather" in the schema', '<parameter name="', "<invoke name=", "<inv"),
    *('<param name="movie" value="x.swf', "<call me>", "<tools>", "</tools>", "<calls>", "</b>"),
    *("<tool_call>", "</tool_call>", "<invoke>", "</invoke>", '<invoke name="nope">', "<p>x</p>"),
    *("a < b", "x<y", "<", "</", "< /", "<<", "<|", "<｜", "｜", "<|DS", "<3", "<!-- c -->"),
    *('<a href="u">', "<a href='u>", "<input disabled>", "<br/>", "<Foo a={b < c}>", "<T,>"),
    *('`<tool name="x"`', "`x`", "``", "``` first", "```ls -la``` lists", "```a``` and ```b```"),
    *('"quoted', "it's", "“smart”", "a = {b: [1]}", '{"name": "bash"}', "\\", "$TOOL_NAME", "…"),
    *("| DSML | x |", "DSML", "dsml", "<tool a='b' c=\"d\" e", "<tool\tx=1>", "<param\n", "日本語"),
    *("<|User|>", "<tool_result>", "<think", "</think", "<thinking>", "</thinking>", "th>", "~~"),
)
# Lines of their own.
LINES = (
    *("", "", "# Heading", "- item", "1. first", "> quote", "---", "| a | b |", "    code", "\tx"),
    *("```", "```python", "```xml", "~~~", "~~~text", "````", "   ```", "- ```js", "1. ```"),
    *("print(1)", "<div>", "</div>", "{", "}", '<param name="movie" value="x.swf', "Here: ```js"),
)
# None of these is a call, and none holds a token of the format.
WORDS = ("The", "answer", "is", "42.", "so", "I", "use", "it", "now:", "see", "e.g.")


def prose(chance: random.Random) -> str:
    lines = []
    for _ in range(chance.randint(0, 6)):
        if chance.random() < 0.4:
            lines.append(chance.choice(LINES))
            continue
        words = [
            chance.choice(INLINE if chance.random() < 0.5 else WORDS)
            for _ in range(chance.randint(1, 6))
        ]
        lines.append(" ".join(words))
    return "\n".join(lines)


def block(chance: random.Random) -> str:
    calls = []
    for _ in range(chance.randint(1, 2)):
        value = prose(chance)
        name, key = chance.choice((("bash", "command"), ("write_file", "content")))
        calls.append(
            f'<{DSML}invoke name="{name}">\n'
            f'<{DSML}parameter name="{key}" string="true">{value}</{DSML}parameter>\n'
            f"</{DSML}invoke>\n"
        )
    return f"\n\n<{DSML}tool_calls>\n{''.join(calls)}</{DSML}tool_calls>"


def completion(chance: random.Random) -> str:
    """A completion in thinking mode that the strict grammar accepts."""
    called = block(chance) if chance.random() < 0.6 else ""
    return f"{prose(chance)}{THINK_END}{prose(chance)}{called}{EOS}"


def reading(message: dsv4.Message) -> tuple[Any, ...]:
    calls = [(call.name, call.arguments) for call in message.tool_calls]
    return message.reasoning, message.content, calls, message.finish, message.incomplete


def difference(text: str) -> str | None:
    """What the tolerant reading has and the strict one has not, if anything."""
    strict = dsv4.parse(text, strict=True, tools=TOOLS)
    tolerant = dsv4.parse(text, tools=TOOLS)
    if reading(strict) != reading(tolerant):
        return f"strictly {reading(strict)}\ntolerantly {reading(tolerant)}"
    if tolerant.diagnostics:
        return f"diagnostics {tolerant.diagnostics}"
    parser = dsv4.StreamParser(tools=TOOLS)
    events = [event for character in text for event in parser.feed(character)]
    pieces = dsv4.assemble([*events, *parser.finish()])
    return None if pieces == tolerant else f"in pieces {reading(pieces)}"


def main() -> int:
    from fuzz_arguments import fuzz_arguments  # beside this program; tests load only its parts

    args = fuzz_arguments(__doc__)
    failed = 0
    for number in range(args.count):
        text = completion(random.Random(args.seed * 1_000_003 + number))
        found = difference(text)
        if found is not None:
            failed += 1
            print(f"{number}: {text!r}\n{found}")
            if not args.keep_going:
                return 1
    print(f"{args.count} texts, {failed} read differently")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
