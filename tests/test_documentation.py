"""Every example in the documentation runs, and prints what it says it prints.

The Python blocks of a file run from top to bottom in one namespace. Where a `text` block directly
follows one, it is what that one prints. A block right below `<!-- no-run -->` is not run.
"""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    path for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))) if path.exists()
]
EXAMPLES = sorted(ROOT.glob("examples/*.py"))

FENCED = re.compile(
    r"^(?P<fence>```+)(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=fence)[ ]*$",
    re.MULTILINE | re.DOTALL,
)
NOT_RUN = "<!-- no-run -->"


class Block(NamedTuple):
    code: str
    line: int
    prints: str | None


def python_blocks(document: str) -> list[Block]:
    """The blocks to run. `line` is that of the block's first line of code."""
    fenced = list(FENCED.finditer(document))
    blocks = []
    for found, follower in zip(fenced, [*fenced[1:], None], strict=False):
        before = document[: found.start()].rstrip()
        if found["language"] == "python" and not before.endswith(NOT_RUN):
            line = document.count("\n", 0, found.start("body")) + 1
            blocks.append(Block(found["body"], line, printed(document, found, follower)))
    return blocks


def printed(document: str, block: re.Match[str], follower: re.Match[str] | None) -> str | None:
    if follower is None or follower["language"] != "text":
        return None
    return None if document[block.end() : follower.start()].strip() else follower["body"]


def run(document: str, name: str) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for code, line, prints in python_blocks(document):
        # The empty lines make a traceback point into the document.
        compiled = compile("\n" * (line - 1) + code, name, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compiled, namespace)
        if prints is not None:
            assert output.getvalue() == prints, f"{name}:{line} prints something else"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_document(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    run(path.read_text("utf-8"), str(path.relative_to(ROOT)))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example(path: Path) -> None:
    command = [sys.executable, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


class TestTheTest:
    """It would be of no use if it could not fail."""

    SUM = "# Title\n\n```python\na = 1 + 1\n```\n\nThen:\n\n```python\nprint(a)\n```\n"

    def test_blocks_share_a_namespace(self) -> None:
        assert python_blocks(self.SUM) == [("a = 1 + 1\n", 4, None), ("print(a)\n", 10, None)]
        run(self.SUM, "SUM.md")

    def test_output_is_compared(self) -> None:
        run(self.SUM + "\n```text\n2\n```\n", "SUM.md")
        with pytest.raises(AssertionError, match=r"SUM\.md:10 prints something else"):
            run(self.SUM + "\n```text\n3\n```\n", "SUM.md")

    def test_output_that_does_not_follow_directly_is_not(self) -> None:
        run(self.SUM + "\nBut:\n\n```text\n3\n```\n", "SUM.md")

    def test_a_block_that_fails(self) -> None:
        with pytest.raises(NameError) as caught:
            run("Text.\n\n```python\nx = 1\nmissing\n```\n", "BAD.md")
        last = traceback.extract_tb(caught.tb)[-1]
        assert (last.filename, last.lineno) == ("BAD.md", 5)

    def test_blocks_that_are_not_run(self) -> None:
        run(f"{NOT_RUN}\n```python\nmissing\n```\n\n```bash\nmissing\n```\n", "SKIPPED.md")
