"""Which official encoder each package carries: python scripts/official_copies.py [PACKAGE…]

Takes the newest wheel of each package, and looks for files that are an encoder of the format. One
that is an official file, less the lines that the package is known to add, is named by its release.
Of a changed copy only the SHA-256 is known: `official_copies.json` has those that were looked at. A
file with another one is new, and ends the run with status 1: DeepSeek may have released something.
Nothing of a file is stored but its SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import ZipFile

from follow import newest, wheel_of

COPIES = Path(__file__).with_suffix(".json")
PACKAGES = ("vllm", "sglang", "ftllm", "specforge")
# The official files that are known (docs/dialects.md), by their SHA-256.
RELEASES = {
    "502bdaec8a3fd88ebc24c4721a7038fbe42f2063c664638127056107920035c1": "v4.1",
    "13231c592e958fb39e2af6001dae69d90e7a36b265702b9b390236fb387599e2": "v4.1-1017",
}
SIGNS = ("def encode_messages(", "def render_message(")


def without_ftllm(text: str) -> str:
    """ftllm adds a docstring, an argument, and seven lines before a condition."""
    lines = text.splitlines(keepends=True)
    end = next((n for n, line in enumerate(lines) if n and '"""' in line), 0)
    lines = lines[end + 2 :]
    at = next((n for n, line in enumerate(lines) if "Only server-recorded output" in line), None)
    if at is not None:
        condition = lines[at + 7].replace("elif wo_eos", "if wo_eos")
        lines = [*lines[:at], condition, *lines[at + 8 :]]
    return "".join(line for line in lines if not re.match(r"\s*tool_history\b", line))


OWN_LINES: dict[str, Callable[[str], str]] = {"ftllm": without_ftllm}


def encoders_in(wheel: Path) -> Iterator[tuple[str, str]]:
    """The names and the texts of the encoders in a wheel."""
    with ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".py"):
                text = archive.read(name).decode("utf-8", "replace")
                if all(sign in text for sign in SIGNS):
                    yield name, text


def release_of(package: str, text: str) -> tuple[str | None, str]:
    """The release of which a text is the official file, if it is one; and its SHA-256."""
    forms = [text, *(without(text) for name, without in OWN_LINES.items() if name == package)]
    sums = [hashlib.sha256(form.encode()).hexdigest() for form in forms]
    return next((RELEASES[each] for each in sums if each in RELEASES), None), sums[0]


def main(packages: list[str]) -> int:
    known = json.loads(COPIES.read_text("utf-8"))
    unknown = False
    for package in packages or PACKAGES:
        wheel = wheel_of(newest(package))
        for name, text in encoders_in(wheel):
            release, digest = release_of(package, text)
            words = f"the official file of {release}" if release else known.get(digest)
            unknown |= words is None
            told = words or f"NEW: {digest} is neither an official file nor a known copy"
            print(f"{wheel.name.split('-')[0]} {wheel.name.split('-')[1]}: {name}: {told}")
    return unknown


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
