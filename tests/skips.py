"""What a run of tests skipped and what installs it, in one line.

`make test` runs pytest twice, side by side with other checks. Each run adds its reasons to the file
that SKIPS names, and `python tests/skips.py FILE` says it once, at the end.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

# Programs that reasons name, and the packages of Debian and Ubuntu that have them.
PACKAGES = {
    "redis-server": "redis-server",
    "nginx": "nginx",
    "caddy": "caddy",
    "openssl": "openssl",
    "Chromium": "chromium",
    "Node": "nodejs",
}
MOST_REASONS = 8


def skip_line(reasons: Iterable[str]) -> str:
    """The line about tests that were skipped, one reason for each; empty where none was."""
    counted = Counter(reasons).most_common()
    if not counted:
        return ""
    shown = [f"{number} × {reason}" for reason, number in counted[:MOST_REASONS]]
    if len(counted) > MOST_REASONS:
        shown.append(f"{len(counted) - MOST_REASONS} more reasons")
    named = " ".join(reason for reason, _ in counted)
    missing = [package for program, package in PACKAGES.items() if program in named]
    install = f"; `apt install {' '.join(missing)}` installs what is missing" if missing else ""
    return f"{sum(number for _, number in counted)} skipped: {', '.join(shown)}{install}"


def add_reasons(path: Path, reasons: Iterable[str]) -> None:
    """Adds reasons to a file, each on a line of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{' '.join(reason.split())}\n" for reason in reasons)


def main(path: Path) -> None:
    reasons = path.read_text("utf-8").splitlines() if path.exists() else []
    print(skip_line(reasons) or "no test was skipped")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
