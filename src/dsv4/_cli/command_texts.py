"""The help texts of commands and their options, with examples: command_texts.json."""

from __future__ import annotations

from dsv4._format.texts import read_table

_TEXTS = read_table("command_texts", __file__)
ABOUT: str = _TEXTS["about"]
STATUSES = "\n".join([*_TEXTS["statuses"], ""])
# By the name of a command.
COMMANDS: dict[str, str] = {name: row["about"] for name, row in _TEXTS["commands"].items()}
EXAMPLES: dict[str, list[str]] = {n: row["example"] for n, row in _TEXTS["commands"].items()}
# By the names of the class that has the option, and of its field. None: the option is not listed.
OPTION_HELP: dict[str, dict[str, str | None]] = _TEXTS["options"]
# A finding in training data -> the advice on it, with the flag that changes it: a sentence about a
# number of something, and the name of that. Advice on what is left out comes first.
ADVICE: dict[str, tuple[str, str] | None] = _TEXTS["advice"]
