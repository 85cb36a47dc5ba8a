"""Writes fuzz/corpus from the malformed completions of the tests: python fuzz/seeds.py"""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).parent
COMPLETIONS = HERE.parent / "tests" / "corpus"


def main() -> None:
    lines = [
        line
        for name in ("malformed", "second")
        for line in (COMPLETIONS / f"{name}.jsonl").read_text("utf-8").split("\n")[:-1]
    ]
    for line in lines:
        case = json.loads(line)
        options = (case["start"] == "reasoning") + 8 * (case["tool_choice"] == "none")
        head = bytes((options, len(case["text"]) % 7))
        (HERE / "corpus" / case["id"]).write_bytes(head + case["text"].encode())


if __name__ == "__main__":
    main()
