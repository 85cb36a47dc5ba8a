"""What would work on one system and not on another: docs/compatibility.md says what does."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

SRC = Path(__file__).parent.parent / "src"
SOURCES = {
    str(path.relative_to(SRC)): path.read_text("utf-8") for path in sorted(SRC.rglob("*.py"))
}

# Modules that some systems do not have.
UNIX = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
WINDOWS = {"msvcrt", "winreg", "winsound", "_winapi"}

# Most files open nothing and name none of these, and need not be parsed to know it.
OPENS = re.compile(r"\bopen\(|\b(?:read|write)_text\(")


@cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


def without_encoding(source: str) -> list[int]:
    """Lines that open a file as text in whatever encoding the system prefers."""
    found = []
    for node in ast.walk(parsed(source)) if OPENS.search(source) else ():
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            named = {keyword.arg for keyword in node.keywords}
            if name == "open" and isinstance(node.func, ast.Name):
                binary = any("b'" in ast.unparse(argument) for argument in node.args[1:2])
                found += [] if binary or "encoding" in named else [node.lineno]
            elif name in ("read_text", "write_text") and isinstance(node.func, ast.Attribute):
                encoded = len(node.args) > (name == "write_text") or "encoding" in named
                found += [] if encoded else [node.lineno]
    return found


def imported_first(source: str) -> set[str]:
    """Modules that are imported as soon as this one is."""
    nodes = parsed(source).body
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}


def test_text_is_utf_8() -> None:
    assert {path for path, source in SOURCES.items() if without_encoding(source)} == set()


def test_what_a_system_may_lack_is_imported_where_it_is_used() -> None:
    lacking = UNIX | WINDOWS
    named = {p: s for p, s in SOURCES.items() if any(module in s for module in lacking)}
    assert named
    assert {path for path, source in named.items() if imported_first(source) & lacking} == set()


def test_the_words_of_the_format_have_the_line_ends_that_were_released() -> None:
    texts = [*SRC.glob("dsv4/_format/*.txt"), *SRC.glob("dsv4/_format/*.jinja")]
    assert texts
    assert [path.name for path in texts if b"\r" in path.read_bytes()] == []


class TestTheTest:
    """It would be of no use if it could not fail."""

    def test_encodings(self) -> None:
        bad = "open('a')\nopen('a', 'w')\np.read_text()\np.write_text(t)\n"
        good = "open('a', 'rb')\nopen('a', encoding='utf-8')\np.read_text('utf-8')\nos.open('a')\n"
        assert without_encoding(bad) == [1, 2, 3, 4]
        assert without_encoding(good) == []

    def test_imports(self) -> None:
        assert imported_first("import a, fcntl\ndef f():\n    import pwd\n") == {"a", "fcntl"}

    def test_modules(self) -> None:
        assert sys.stdlib_module_names >= (UNIX | WINDOWS)
