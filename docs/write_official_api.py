"""Writes docs/official-api.md: python docs/write_official_api.py

The models, and the words of refusals that this package forecasts, are in the package's own table.
The rules themselves, their sources, and what is not known are beside this file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("official-api.md")
FORECAST = Path(__file__).parents[1] / "src/dsv4/profiles/official_api.json"
RULES = Path(__file__).with_name("official_api_rules.json")
BASE = "https://api.deepseek.com"

HEAD = Path(__file__).with_name("official_api_head.txt").read_text(encoding="utf-8")
QUESTIONS = """
## What is not known

Each is one request of one token. With a key, you can send it, and tell us what came back:

"""


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    forecast, table = (json.loads(path.read_text(encoding="utf-8")) for path in (FORECAST, RULES))
    lines = [HEAD.format(read_on=table["read_on"])]
    for row in forecast["models"]:
        cells = (row[name] or "" for name in ("release", "dialect", "since", "until", "source"))
        lines.append(f"| `{row['name']}` | {' | '.join(cells)} |\n")
    known = {row["id"]: row for row in forecast["rules"]}
    all_rules = ({**row, **known.get(row["id"], {})} for row in table["rules"])
    for section, rules in groupby(all_rules, key=lambda rule: rule["section"]):
        lines.append(f"\n## {section}\n\n| rule | its words | source | |\n|---|---|---|---|\n")
        lines += (_rule(rule) for rule in rules)
    lines.append(QUESTIONS)
    lines += _questions(table["questions"])
    return "".join(lines)


def _rule(rule: Mapping[str, Any]) -> str:
    words = rule.get("words", "")
    listed = [words] if isinstance(words, str) else list(words.values())
    said = "<br>".join(f"“{_cell(text)}”" for text in listed if text)
    return f"| {_cell(rule['rule'])} | {said} | {rule['source']} | {rule['sure']} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _questions(questions: list[Mapping[str, Any]]) -> Iterator[str]:
    usual = {
        "model": "deepseek-flash",
        "max_tokens": 1,
        "messages": [{"role": "user", "content": "hi"}],
    }
    for question in questions:
        body = {name: value for name, value in {**usual, **question["body"]}.items() if value}
        sent = json.dumps(body, ensure_ascii=False)
        yield f"- {question['asks']}\n\n  ```sh\n  curl {BASE}{question['path']} "
        yield f"-H \"Authorization: Bearer $DEEPSEEK_API_KEY\" -d '{sent}'\n  ```\n\n"


if __name__ == "__main__":
    main()
