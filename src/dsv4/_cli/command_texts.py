"""What commands and their options are for, in words, with examples: command_texts.json."""

from __future__ import annotations

import json
import os
from typing import Any


def _read_texts() -> Any:
    with open(f"{os.path.splitext(__file__)[0]}.json", encoding="utf-8") as file:
        return json.load(file)


_TEXTS = _read_texts()
# By the name of a command.
COMMANDS: dict[str, str] = {name: row["about"] for name, row in _TEXTS["commands"].items()}
EXAMPLES: dict[str, list[str]] = {n: row["example"] for n, row in _TEXTS["commands"].items()}
# By the names of the class that has the option, and of its field. None: the option is not listed.
OPTION_HELP: dict[str, dict[str, str | None]] = _TEXTS["options"]
# What was found in training data -> what is said of it, with the flag that changes it: a sentence
# about a number of something, and what that is. What is left out comes first.
ADVICE: dict[str, tuple[str, str] | None] = _TEXTS["advice"]
