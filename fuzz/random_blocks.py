"""One slip in a random block: python fuzz/random_blocks.py [--count N] [--seed S]

Makes tools, and well-formed blocks that call them, at random, and tries every slip of `slips.py` in
each. Prints the same table, and each text that is wrong or silent; fails if there is one.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import slips

NAMES = "read_file Bash Edit get_weather mcp__git__commit web.fetch send-email TodoWrite x finish"
NAMES += " invoke parameter"
KEYS = "path query text cmd command content id mode title start_line max-results options to items"
KEYS += " filter old_string timeout unit invoke string parameter"
# No value is a bare bracket: lost `</` behind `<` leaves the close of an empty text, slash lost.
TEXTS = [
    *("", "a", "README.md", "hello world", "ls -la | grep x > out.txt", "$(echo hi) `date`"),
    *("5", "-1", "1e5", "true", "False", "null", "[1,2]", '{"a":1}', '{\n "k": "<x>"\n}'),
    *("你好 世界", "é 🎉 end", "a\nb\nc\n", "  indented\n\ttab", "\n", "\n\nlead", "trail\n\n"),
    *("<b>bold</b>", "x < y && y > z", '<a href="u">v</a>', "</p>", "<|x|>", 'print("</div>")'),
    *('say "hi"', "it's", "name=", 'string="true"', "a=b", "https://x.y/z?a=b&c=d", "C:\\d\\n.t"),
    *("```py\nprint(1)\n```", "- item\n- other", "> quoted", "SELECT * FROM t WHERE a < 3;"),
    *("def f():\n    return '<'\n", "#!/bin/sh\nset -e\n"),
    *("<invoke>", '<parameter name="x">', "calls", "tool_calls", "invoke", "parameter"),
    *('name="text" string="true">', "  <li>\n  </li>", "/", "|", " ", ".js(x) {\n}"),
]
VALUES: dict[str, list[Any]] = {
    "string": TEXTS,
    "integer": [0, 1, 5, -3, 100_000],
    "number": [0.5, 1, -2.25, 3e10],
    "boolean": [True, False],
    "array": [[], [1, 2], ["a", "b<c"], [{"x": 1, "t": "</p>"}], [[]]],
    "object": [{}, {"a": 1}, {"b": {"c": [None, True]}}, {"t": 'x > "y"'}],
}
TYPES = [*["string"] * 6, "integer", "number", "boolean", "array", "object"]
BEFORE = ["", "", "I will look.", "Let me check:", "```\nx\n```", "- one\n- two\n", "`x` is\nfine."]
BEHIND = [*[slips.EOS] * 4, "", f"\n\nDone.{slips.EOS}"]


def random_block(seed: str) -> slips.Block:
    """A block of one to three calls, of one to four tools."""
    chance = random.Random(seed)
    tools = [
        random_tool(chance, name) for name in chance.sample(NAMES.split(), chance.randint(1, 4))
    ]
    calls = [random_call(chance, chance.choice(tools)) for _ in range(chance.choice([1, 1, 2, 3]))]
    return slips.Block(
        seed,
        calls,
        chance.choice(["v4", "v4.1"]),
        before=chance.choice(BEFORE),
        behind=chance.choice(BEHIND),
        tools=tools,
    )


def random_tool(chance: random.Random, name: str) -> dict[str, Any]:
    keys = chance.sample(KEYS.split(), chance.choice([0, 1, 1, 2, 2, 3, 4]))
    required = [key for key in keys if chance.random() < 0.6] if chance.random() < 0.85 else None
    one = slips.tool(name, required, chance.choice([None, None, None, False, True]))
    one["function"]["parameters"]["properties"] = {
        key: {"type": chance.choice(TYPES)} for key in keys
    }
    return one


def random_call(chance: random.Random, one: dict[str, Any]) -> slips.Call:
    schema = one["function"]["parameters"]
    keys = [
        key
        for key in schema["properties"]
        if key in schema.get("required", ()) or chance.random() < 0.5
    ]
    if chance.random() < 0.3:
        chance.shuffle(keys)
    types = {key: schema["properties"][key]["type"] for key in keys}
    return one["function"]["name"], {key: chance.choice(VALUES[types[key]]) for key in keys}


def tried(seeds: Iterable[str]) -> Iterator[slips.Tried]:
    """Every slip in the random blocks of these seeds."""
    for block in map(random_block, seeds):
        for tokens in slips.cuts_of(block):
            yield from slips.tried(block, slips.slips(tokens))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", default="block")
    args = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    for one in tried(f"{args.seed} {number}" for number in range(args.count)):
        counts[one.slip.kind, one.outcome] += 1
        if one.outcome in slips.BAD:
            print(one)
    print(slips.table(counts))
    return any(outcome in slips.BAD for _, outcome in counts)


if __name__ == "__main__":
    sys.exit(main())
