"""How much ordinary text waits before it is shown, counted: python bench/holds.py [FILE …]

Goes through files, by default this project's own, as answers that come character by character, with
a call behind each. Prints the most characters that waited in each kind of file, how many files had
more than 64 of them waiting, and behind how many the arguments of the call did not stream.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import dsv4

ROOT = Path(__file__).parent.parent
LONGEST = 64
TOOLS = [{"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}]
CALL = (
    '\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n'
    '<｜DSML｜parameter name="a" string="true">a long text'
)


def measure(text: str) -> tuple[int, bool]:
    """The most characters of a text that waited, and whether a call behind it streams."""
    parser = dsv4.StreamParser(thinking=False, tools=TOOLS)
    most = 0
    for character in text:
        parser.feed(character)
        most = max(most, len(parser.held))
    events = parser.feed(CALL)
    return most, any(isinstance(event, dsv4.ArgumentsDelta) for event in events)


def ordinary(text: str) -> str:
    """A file without the markup that this project writes about."""
    text = text.replace("DSML", "XML").replace("｜", "|").replace("think>", "thought>")
    return text.replace("<tool", "<spade").replace("<function", "<action").rstrip()[:20_000]


def main() -> None:
    paths = [Path(name) for name in sys.argv[1:]]
    paths = paths or [
        path for kind in ("py", "md", "js") for path in ROOT.glob(f"[dst]*/**/*.{kind}")
    ]
    most: Counter[str] = Counter()
    long = unstreamed = 0
    for path in paths[:500]:
        held, streams = measure(ordinary(path.read_text("utf-8")))
        most[path.suffix] = max(most[path.suffix], held)
        long += held > LONGEST
        unstreamed += not streams
    for kind, held in sorted(most.items()):
        print(f"{kind}: at most {held} characters wait")
    print(f"{long} of {len(paths[:500])} files had more than {LONGEST} characters waiting")
    print(f"behind {unstreamed} of them the arguments of a call do not stream")


if __name__ == "__main__":
    main()
