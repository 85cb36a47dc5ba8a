"""What docs/design.md says of the layout: three wings, who may import whom, what a name may be."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import dsv4

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"

# Each wing in layers, from the bottom up. A package imports from the layers below its own, in its
# wing and in the wings before it. Packages of one layer do not import each other.
ENGINE = (
    {"dsv4.errors", "dsv4.schema", "dsv4.version"},
    {"dsv4.types"},
    {"dsv4._format"},
    {"dsv4._images"},
    {"dsv4._completion"},
    {"dsv4._encode", "dsv4._parse"},
    {"dsv4.request"},
    {"dsv4._decode"},
)
LIBRARY = (
    {"dsv4._fit", "dsv4.api", "dsv4.grammar", "dsv4.tokens"},
    {"dsv4._inputs"},
    {"dsv4.profiles"},
    {"dsv4._check", "dsv4.compat", "dsv4.trajectories", "dsv4.verify"},
)
APPLICATIONS = (
    {"dsv4._view", "dsv4._why", "dsv4.dataset"},
    {"dsv4", "encoding_dsv4", "encoding_dsv32", "encoding_dsv41", "encoding_dsv41_1017"},  # public
    {"dsv4._playground"},
    {"dsv4.serve"},
    {"dsv4._cli"},
    {"dsv4.__main__"},
)
WINGS = {"engine": ENGINE, "library": LIBRARY, "applications": APPLICATIONS}
LAYERS = (*ENGINE, *LIBRARY, *APPLICATIONS)

# No other distribution is imported by the engine, nor by these packages of the library.
STANDARD_LIBRARY_ONLY = (
    *(package for layer in ENGINE for package in sorted(layer)),
    *("dsv4.api", "dsv4.profiles", "dsv4.compat.release", "dsv4.compat.vllm"),
)

SPELLING = re.compile(r"｜|▁|</?think>|</?tool_result>|[|‖]\s*DSML")

# The words of an older description of this layout.
OLD_WORDS = re.compile(r"\brooms\b|\b(?:a|the|its|each|every) room\b|(?<!math\.)\bfloors?\b", re.I)


def module_name(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(SRC.rglob("*.py"))}


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """The nodes of a file that tests look at. All of all files would be a million, to be kept."""
    looked_at = (ast.Import, ast.ImportFrom, ast.Constant, ast.Compare, ast.MatchValue)
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return [node for node in nodes if isinstance(node, looked_at)]


IMPORTS_BY_NAME = re.compile(r"\bimport_module\(|\b__import__\(|\bspec_from_\w+\(|\bsys\.modules\b")


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it the statement stands, and by name too."""
    yield from imported_by_statements(path)
    if IMPORTS_BY_NAME.search(path.read_text("utf-8")):
        yield from named_modules(path)


def named_modules(path: Path) -> Iterator[str]:
    """Every module of ours that a file names in a string, or in two, as in f"dsv4.{name}"."""
    constants = (node.value for node in nodes_of(path) if isinstance(node, ast.Constant))
    strings = {value for value in constants if isinstance(value, str)}
    starts = {string for string in strings if string.startswith("dsv4.")}
    named = starts | {start + string for start in starts for string in strings}
    yield from sorted(name for name in named & MODULES.keys() if MODULES[name] != path)


def imported_by_statements(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import, expected the full name"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in MODULES else str(node.module)


@pytest.fixture(scope="module")
def imports() -> dict[str, list[str]]:
    """What each module imports."""
    return {module: sorted(set(imported(path))) for module, path in MODULES.items()}


def package_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def layer_of(module: str) -> int:
    found = [n for n, packages in enumerate(LAYERS) if package_of(module) in packages]
    assert found, f"{module} is in no layer"
    return found[0]


def wing_of(module: str) -> str:
    package = package_of(module)
    found = [wing for wing, layers in WINGS.items() if package in set().union(*layers)]
    assert found, f"{module} is in no wing"
    return found[0]


def is_inside(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def is_private(module: str) -> bool:
    """Whether a module is in a package whose name begins with an underscore."""
    return bool(re.match(r"dsv4\._(?!_)", module))


class TestImports:
    def test_a_package_imports_only_from_the_layers_below(
        self, imports: dict[str, list[str]]
    ) -> None:
        between_packages = [
            (module, other)
            for module, others in imports.items()
            for other in others
            if other in MODULES and package_of(other) != package_of(module)
        ]
        upwards = [each for each in between_packages if layer_of(each[1]) >= layer_of(each[0])]
        assert upwards == []

    @pytest.mark.parametrize(
        "source",
        [
            "from dsv4._view import html_page",
            "def f():\n    from dsv4._view.html_page import html_fragment",
            "from importlib import import_module\nimport_module('dsv4._view.html_page')",
            "import importlib\nimportlib.import_module('dsv4._view' + '.html_page')",
            "import sys\n__import__('dsv4._view.html_page')",
            "NAMES = {'a': 'dsv4._view.html_page'}\ndef f(n):\n    return import_module(NAMES[n])",
            "NAMES = ['_view.html_page']\nfor name in NAMES:\n    __import__(f'dsv4.{name}')",
        ],
    )
    def test_an_import_is_seen_in_every_form(self, source: str, tmp_path: Path) -> None:
        file = tmp_path / "importing.py"
        file.write_text(source, "utf-8")
        assert "dsv4._view.html_page" in set(imported(file))

    def test_no_module_imports_itself_through_others(self, imports: dict[str, list[str]]) -> None:
        ours = {module: [m for m in others if m in MODULES] for module, others in imports.items()}
        TopologicalSorter(ours).prepare()

    def test_the_core_needs_only_the_standard_library(self, imports: dict[str, list[str]]) -> None:
        foreign = [
            (module, other)
            for module, others in imports.items()
            if is_inside(module, STANDARD_LIBRARY_ONLY)
            for other in others
            if other not in MODULES and other.split(".")[0] not in sys.stdlib_module_names
        ]
        assert foreign == []

    def test_every_package_has_a_layer(self) -> None:
        packages = {package_of(module) for module in MODULES}
        assert packages == {each for layer in LAYERS for each in layer} & packages


# What a file that imports a private package has in it. Most files need not be parsed to know.
NAMES_A_PRIVATE_PACKAGE = re.compile(r"\bdsv4\._|\bfrom dsv4 import\b")


def importing_private_modules(folder: str) -> list[str]:
    """The Python files of a folder of this repository that import private packages."""
    return [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / folder).rglob("*.py"))
        if NAMES_A_PRIVATE_PACKAGE.search(path.read_text("utf-8"))
        and any(is_private(module) for module in imported(path))
    ]


class TestPrivatePackages:
    """A package whose name begins with an underscore is for this package only."""

    @pytest.mark.parametrize("folder", ["examples", "clients", "deploy"])
    def test_what_users_read_imports_none(self, folder: str) -> None:
        assert importing_private_modules(folder) == []


class TestNames:
    def test_a_class_name_is_defined_once(self) -> None:
        homes = defaultdict(list)
        for module, path in MODULES.items():
            for name in re.findall(r"^class (\w+)", path.read_text("utf-8"), re.MULTILINE):
                homes[name].append(module)
        assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}

    def test_a_file_name_is_used_once_in_a_wing(self) -> None:
        names = Counter(
            (wing_of(module), path.name)
            for module, path in MODULES.items()
            if path.name != "__init__.py"
        )
        assert [name for name, count in names.items() if count > 1] == []

    def test_no_package_has_the_name_of_a_public_function(self) -> None:
        import dsv4

        packages = {path.parent.name for path in MODULES.values() if path.name == "__init__.py"}
        functions = {name for name in dsv4.__all__ if callable(getattr(dsv4, name))}
        assert packages & functions == set()

    def test_the_old_words_for_packages_and_layers_are_gone(self) -> None:
        found = [
            f"{path.relative_to(ROOT)}: {word}"
            for path in our_texts()
            for word in OLD_WORDS.findall(path.read_text("utf-8"))
        ]
        assert found == []


def our_texts() -> Iterator[Path]:
    """What describes the code: the code itself, its scripts and the pages."""
    for pattern in (
        "*.md",
        "Makefile",
        "pyproject.toml",
        "docs/*.md",
        "scripts/*.py",
        "src/**/*.py",
    ):
        yield from sorted(ROOT.glob(pattern))


class TestDesign:
    """docs/design.md names what is there."""

    PAGE = (ROOT / "docs/design.md").read_text("utf-8")

    def test_every_file_that_it_names_exists(self) -> None:
        named = set(re.findall(r"[\w/.-]*\w\.(?:py|txt|jinja|js|css)\b", self.PAGE))
        assert len(named) > 100
        assert sorted(name for name in named if not exists(name)) == []

    def test_every_folder_that_it_names_exists(self) -> None:
        named = set(re.findall(r"`([\w/]+/)`", self.PAGE))
        assert sorted(name for name in named if not exists(name)) == []

    def test_every_package_is_on_it(self) -> None:
        packages = (m for m, path in MODULES.items() if path.name == "__init__.py" and "." in m)
        folders = [m.removeprefix("dsv4.").replace(".", "/") for m in packages]
        assert [folder for folder in folders if f"`{folder}/`" not in self.PAGE] == []

    @pytest.mark.parametrize("wing", WINGS)
    def test_its_layers_are_those_that_are_enforced(self, wing: str) -> None:
        section = re.split(r"^\*\*The \w+\*\*", self.PAGE, flags=re.M)[list(WINGS).index(wing) + 1]
        rows = re.findall(r"^\| (\d+) \| (.*?) \|", section, re.M)
        told = {(int(number), name) for number, names in rows for name in modules_in(names)}
        layers = enumerate(WINGS[wing], 1)
        assert told == {(n, name) for n, layer in layers for name in layer - {"dsv4.__main__"}}

    def test_what_it_names_after_a_file_is_in_that_file(self) -> None:
        """As in "`_parse/prose.py` `_read_think`"."""
        named = [
            (file, name.rpartition(".")[2])
            for file, names in re.findall(r"`([\w/]+\.py)`((?:,? `[\w.]+`)+)", self.PAGE)
            for name in re.findall(r"`([\w.]+)`", names)
            if not name.endswith(".py")
        ]
        assert len(named) > 15
        source = {file: (SRC / "dsv4" / file).read_text("utf-8") for file, _ in named}
        assert [each for each in named if not re.search(rf"\b{each[1]}\b", source[each[0]])] == []


def modules_in(names: str) -> list[str]:
    """The modules that a cell of a table names, as in "`dsv4/__init__.py`, `tokens/`"."""
    paths = re.findall(r"`([\w/]+)(?:\.py)?`", names)
    inside = (path.strip("/").replace("/", ".").removesuffix(".__init__") for path in paths)
    return [name if re.match("dsv4$|encoding_", name) else f"dsv4.{name}" for name in inside]


def exists(name: str) -> bool:
    """Whether a file or folder is in the package, beside it, or in this repository."""
    return any((folder / name).exists() for folder in (SRC / "dsv4", SRC, ROOT))


def spellings(path: Path) -> list[str]:
    """Special tokens and tags in a file, those that are written with escapes as well."""
    source = path.read_text("utf-8")
    values = [n.value for n in nodes_of(path) if isinstance(n, ast.Constant)]
    texts = [source, *(value for value in values if isinstance(value, str))]
    return [found for text in texts for found in SPELLING.findall(text)]


# Who may ask for a release by name: what each server makes of each model, the modules that were
# released, and what is known of them by their names.
KNOWS_RELEASES = ("dsv4._format", "dsv4.profiles", "dsv4.verify", "dsv4.compat", "dsv4.serve.heal")
RELEASES = {"v4", "v4-0731", "v4-vision", "v4.1", "v4.1-1017", "v3.2", "v3.2-served"}


def branches_on_releases(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """The lines that compare something with the name of a release, or with one that is a value."""
    for node in nodes:
        if isinstance(node, ast.MatchValue):
            sides: list[ast.AST] = [node.value]
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        else:
            continue
        if any(isinstance(side, ast.Attribute) and side.attr == "layout" for side in sides):
            continue
        for part in (part for side in sides for part in ast.walk(side)):
            name = getattr(part, "attr", getattr(part, "id", ""))
            is_value = re.fullmatch(r"V\d(_\w+)?", name) is not None
            if is_value or (isinstance(part, ast.Constant) and part.value in RELEASES):
                yield part.lineno  # type: ignore[attr-defined]


# Who takes tokens of V4 for those of the prompt at hand, and why that is right there. All others
# ask the dialect, whose spelling may be another (tests/core/test_respelling.py).
RELEASES_ALONE = "it serves or reads releases, by their names: all spell these tokens in one way"
V4S_OWN = {
    "dsv4._check": "it looks for what people and other programs write into texts",
    "dsv4._cli": RELEASES_ALONE,
    "dsv4._completion": "V4's are its defaults, and signs that are quick to look for",
    "dsv4._decode": "they are signs that are quick to look for",
    "dsv4._playground": RELEASES_ALONE,
    "dsv4._why": "it recognises what strangers paste, of whatever release",
    "dsv4.compat": "the names and constants of the modules that were released",
    "dsv4.dataset": RELEASES_ALONE,
    "dsv4.grammar": "ends of tokens that are quick to look for; the grammar has the dialect's",
    "dsv4.profiles": "they are the constants of other people's servers",
    "dsv4.serve": RELEASES_ALONE,
    "dsv4.verify": "it asks servers, and reads what they say",
}


# `tokens.EOS`, but not `dialect.tokens.eos`.
TOKEN_OF_V4 = re.compile(r"(?<![\w.])tokens\.[A-Z][A-Z0-9_]+\b")


def takes_tokens_of_v4(path: Path) -> bool:
    imported = [
        alias.name
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and node.module == "dsv4._format.tokens"
        for alias in node.names
    ]
    return any(name.isupper() for name in imported) or bool(
        TOKEN_OF_V4.search(path.read_text("utf-8"))
    )


def test_who_takes_tokens_of_v4_for_those_at_hand() -> None:
    users = {
        ".".join(name.split(".")[:2]) for name, path in MODULES.items() if takes_tokens_of_v4(path)
    }
    assert users - {"dsv4._format", "dsv4._encode", "dsv4._parse"} == V4S_OWN.keys()


def test_no_code_branches_on_a_release() -> None:
    known = set(dsv4.DIALECTS) | {dsv4.V3_2_SERVED.name}
    assert known == RELEASES
    found = [
        f"{name}:{line}"
        for name, path in MODULES.items()
        if not name.startswith(KNOWS_RELEASES)
        for line in branches_on_releases(nodes_of(path))
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    ['x == "v4"', 'x in ("v4.1", "b")', "d is V4_1", "d == dialects.V4", "match x:\n case 'v4': 1"],
)
def test_a_branch_on_a_release_is_found(line: str) -> None:
    assert list(branches_on_releases(ast.walk(ast.parse(line))))
    assert not list(branches_on_releases(ast.walk(ast.parse('d.layout == "v4"'))))


def test_only_the_format_package_spells_a_special_token() -> None:
    elsewhere = {m: path for m, path in MODULES.items() if not is_inside(m, ("dsv4._format",))}
    assert {module for module, path in elsewhere.items() if spellings(path)} == set()


def test_the_search_for_spellings_finds_those_of_the_format() -> None:
    found = set(spellings(MODULES["dsv4._format.tokens"]))
    assert {"｜", "▁", "<think>", "</think>", "<tool_result>"} <= found


def run_in_a_fresh_interpreter(code: str) -> str:
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
    used = "import dsv4, encoding_dsv4; dsv4.Request, dsv4.parse; print(*sys.modules)"
    loaded = set(run_in_a_fresh_interpreter(used).split())
    assert {"dsv4.request", "dsv4._parse.parse"} <= loaded
    assert not heavy & loaded


def test_who_only_encodes_loads_only_the_encoder() -> None:
    for used in ("import encoding_dsv4", "import encoding_dsv41", "import dsv4; dsv4.encode"):
        loaded = set(run_in_a_fresh_interpreter(f"{used}; print(*sys.modules)").split())
        ours = {name for name in loaded if name.startswith("dsv4.")}
        packages = {"dsv4._encode", "dsv4._format", "dsv4.compat", "dsv4.errors"}
        assert {package_of(name) for name in ours} <= packages, used
        assert len(ours) <= 17, used
        # Each of these takes longer to load than the encoder, or nearly as long.
        slow = {"dataclasses", "inspect", "copy", "weakref", "importlib", "base64", "hashlib"}
        assert not loaded & slow, used


def test_encoding_and_parsing_open_nothing() -> None:
    run_in_a_fresh_interpreter(
        """
import dsv4, encoding_dsv4
encode, parse = dsv4.encode, dsv4.parse  # what is imported when first asked for
encode([{"role": "user", "content": "Hi"}], dialect="v3.2")
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
