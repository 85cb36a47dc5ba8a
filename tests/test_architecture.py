"""The rules of the house: who may import whom, and where a special token may be spelled."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src"

# From the bottom up. A room imports from rooms below it; rooms of one floor leave each other alone.
FLOORS = (
    {"dsv4.errors", "dsv4.schema", "dsv4.version"},
    {"dsv4.types", "dsv4._format"},
    {"dsv4._encode", "dsv4._parse"},
    {"dsv4.request"},
    {"dsv4._decode", "dsv4.grammar", "dsv4._inputs"},
    {"dsv4.tokens"},
    {"dsv4.compat", "dsv4.profiles"},
    {"dsv4._check", "dsv4._view"},
    {"dsv4.dataset", "dsv4.api"},
    {"dsv4", "encoding_dsv4", "encoding_dsv32"},  # the public names
    {"dsv4._playground"},
    {"dsv4.serve"},
    {"dsv4._cli"},
    {"dsv4.__main__"},
)
STANDARD_LIBRARY_ALONE = (
    *("dsv4.errors", "dsv4.schema", "dsv4.types", "dsv4._format", "dsv4._encode", "dsv4._parse"),
    *("dsv4.compat.release", "dsv4.compat.vllm", "dsv4._decode", "dsv4.profiles"),
    *("dsv4.request", "dsv4.api"),
)

SPELLING = re.compile(r"｜|▁|</?think>|</?tool_result>|[|‖]\s*DSML")


def module_name(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(SRC.rglob("*.py"))}


def imported(module: str) -> Iterator[str]:
    """Every module that a module imports, wherever in it the statement stands."""
    for node in ast.walk(ast.parse(MODULES[module].read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: a relative import, expected the full name"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in MODULES else str(node.module)


@pytest.fixture(scope="module")
def imports() -> dict[str, list[str]]:
    """What each module imports."""
    return {module: sorted(set(imported(module))) for module in MODULES}


def room_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def floor_of(module: str) -> int:
    found = [n for n, rooms in enumerate(FLOORS) if room_of(module) in rooms]
    assert found, f"{module} is in no room of the house"
    return found[0]


def is_inside(module: str, rooms: tuple[str, ...]) -> bool:
    return any(module == room or module.startswith(room + ".") for room in rooms)


def test_a_room_imports_only_from_below(imports: dict[str, list[str]]) -> None:
    between_rooms = [
        (module, other)
        for module, others in imports.items()
        for other in others
        if other in MODULES and room_of(other) != room_of(module)
    ]
    upwards = [each for each in between_rooms if floor_of(each[1]) >= floor_of(each[0])]
    assert upwards == []


def test_no_cycles(imports: dict[str, list[str]]) -> None:
    ours = {module: [m for m in others if m in MODULES] for module, others in imports.items()}
    TopologicalSorter(ours).prepare()


def test_the_core_needs_the_standard_library_alone(imports: dict[str, list[str]]) -> None:
    foreign = [
        (module, other)
        for module, others in imports.items()
        if is_inside(module, STANDARD_LIBRARY_ALONE)
        for other in others
        if other not in MODULES and other.split(".")[0] not in sys.stdlib_module_names
    ]
    assert foreign == []


def spellings(path: Path) -> list[str]:
    """Special tokens and tags in a file, those that are written with escapes as well."""
    source = path.read_text("utf-8")
    values = [n.value for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant)]
    texts = [source, *(value for value in values if isinstance(value, str))]
    return [found for text in texts for found in SPELLING.findall(text)]


def test_only_the_spec_spells_a_special_token() -> None:
    elsewhere = {m: path for m, path in MODULES.items() if not is_inside(m, ("dsv4._format",))}
    assert {module for module, path in elsewhere.items() if spellings(path)} == set()


def test_the_search_for_spellings_finds_those_of_the_spec() -> None:
    found = set(spellings(MODULES["dsv4._format.tokens"]))
    assert {"｜", "▁", "<think>", "</think>", "<tool_result>"} <= found


def run_alone(code: str) -> str:
    """What a fresh interpreter prints, with nothing but the source to import from."""
    code = f"import sys; sys.path.insert(0, {str(SRC)!r})\n{code}"
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


def test_the_package_imports_little_else() -> None:
    heavy = {"asyncio", "email", "http", "logging", "socket", "ssl", "subprocess", "threading"}
    heavy |= {
        "tempfile",
        "unittest",
        "urllib",
        "importlib.metadata",
        "pathlib",
        "tokenizers",
        "numpy",
    }
    used = "import dsv4, encoding_dsv4; dsv4.encode, dsv4.parse; print(*sys.modules)"
    loaded = set(run_alone(used).split())
    assert {"dsv4.request", "dsv4._parse.parse"} <= loaded
    assert not heavy & loaded


def test_encoding_and_parsing_open_nothing() -> None:
    run_alone(
        """
import dsv4, encoding_dsv4
encode, parse = dsv4.encode, dsv4.parse  # what is imported when first asked for
def refuse(event, args):
    if event == "open" or event.split(".")[0] in ("os", "socket", "subprocess", "import"):
        raise SystemExit(f"{event}: {args}")
messages = [
    {"role": "system", "content": "Be brief.", "tools": [{"function": {"name": "f"}}]},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '{"a": 1}'}}]},
]
sys.addaudithook(refuse)
for dialect in dsv4.DIALECTS:
    prompt = encode(messages, effort=None if dialect == "v3.2" else "max", dialect=dialect)
    prompt.pieces, prompt.special_text
    parse(str(prompt), thinking=False).to_dict()
encoding_dsv4.encode_messages(messages, thinking_mode="thinking", reasoning_effort="max")
encoding_dsv4.parse_message_from_completion_text("Hi" + encoding_dsv4.eos_token, "chat")
"""
    )
