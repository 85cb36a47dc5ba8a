"""The settings that `dsv4 serve --clients` prints, taken apart: clients are run with these."""

from __future__ import annotations

import re
import shlex

# A comment begins each client's part: "# Codex: ~/.codex/config.toml, and …".
_TITLE = re.compile(r"^# ([^:\n]+)(?:: (.*))?$", re.MULTILINE)
_FILE = re.compile(r"\S+\.(?:toml|json)")


class Printed:
    """What is printed, with a real key in place of the word KEY."""

    def __init__(self, text: str, key: str) -> None:
        self.key = key
        parts = _TITLE.split(re.sub(r"\bKEY\b", key, text))
        self._texts = dict(zip(parts[1::3], parts[3::3], strict=True))
        self._notes = dict(zip(parts[1::3], parts[2::3], strict=True))

    def environment(self, client: str) -> dict[str, str]:
        """The variables that its lines of `export` set."""
        lines = [line for line in self._texts[client].splitlines() if line.startswith("export ")]
        pairs = [word.partition("=") for line in lines for word in shlex.split(line)[1:]]
        return {name: value for name, _, value in pairs}

    def command(self, client: str) -> list[str]:
        """The command in its last line."""
        return shlex.split(self._texts[client].strip().splitlines()[-1])

    def file(self, client: str) -> tuple[str, str]:
        """The path of its settings file, and what is in it."""
        name = _FILE.search(self._notes[client] or "")
        assert name is not None, f"{client}: no file is named"
        return name[0].rstrip(","), self._texts[client].strip() + "\n"
