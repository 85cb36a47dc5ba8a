"""Every public name is documented where an editor looks for it: in its docstring.

Public is what a module lists in `__all__`; the reference is made of the same names.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dsv4

ROOT = Path(__file__).parent.parent


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


site = script("site")


def imported(module: str) -> ModuleType:
    """A public module; the test is skipped where an extra that it needs is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("dsv4", "encoding_dsv4"):
            raise
        pytest.skip(f"not installed: {error.name}")


PUBLIC = [(module, name) for module, names in site.public_modules().items() for name in names]
every_name = pytest.mark.parametrize(("module", "name"), PUBLIC)


def own_docstring(value: Any) -> str:
    """What somebody wrote, not what `dataclass` or a base class has put there."""
    text = vars(value).get("__doc__") if isinstance(value, type) else value.__doc__
    made_up = isinstance(value, type) and (text or "").startswith(f"{value.__name__}(")
    return "" if made_up else text or ""


def public_members(value: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties that a class defines itself and that are not special."""
    for name, member in vars(value).items():
        function = member.fget if isinstance(member, property) else member
        function = getattr(function, "__func__", function)
        function = getattr(function, "func", function)  # a cached property
        if not name.startswith("_") and inspect.isfunction(function):
            yield name, function


def defined_in(module: str, name: str) -> tuple[ast.Module, str]:
    """The source in which a name gets its value, and its name there, through all imports."""
    path = site.SRC / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(path.read_text("utf-8"))
    for node in tree.body:
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            if (alias.asname or alias.name) == name:
                return defined_in(str(node.module), alias.name)
    return tree, name


def value_is_documented(tree: ast.Module, name: str) -> bool:
    """Whether a docstring stands below the place where a name gets its value."""
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    return False


@every_name
def test_a_name_is_there(module: str, name: str) -> None:
    assert hasattr(imported(module), name)


@every_name
def test_a_name_is_documented(module: str, name: str) -> None:
    value = getattr(imported(module), name)
    if isinstance(value, (type, ModuleType)) or inspect.isroutine(value):
        assert own_docstring(value), f"{module}.{name} has no docstring"
    elif module == "dsv4" and not name.startswith("_"):
        # What a constant of the drop-in modules is, its value says.
        assert value_is_documented(*defined_in(module, name)), f"{name} has no docstring below it"


@every_name
def test_methods_are_documented(module: str, name: str) -> None:
    value = getattr(imported(module), name)
    members = public_members(value) if isinstance(value, type) else ()
    missing = [member for member, function in members if not function.__doc__]
    assert not missing, f"{module}.{name}: no docstring on {', '.join(missing)}"


@pytest.mark.parametrize("module", site.public_modules())
def test_the_reference_has_every_name(module: str) -> None:
    names = [name for name in imported(module).__all__ if name != "__version__"]
    assert names == [n for n in site.public_modules()[module] if n != "__version__"]
    page = site.reference_page(module, names)
    assert [line.strip(" -'") for line in page.splitlines() if "        - " in line] == names


def test_the_package_is_public() -> None:
    assert {"dsv4", "dsv4.tokens", "dsv4.compat.release"} <= set(site.public_modules())


class TestTheTest:
    """It would be of no use if it could not fail."""

    def test_docstrings_of_dataclasses_do_not_count(self) -> None:
        from dataclasses import dataclass

        @dataclass
        class Undocumented:
            field: int

        class Heir(dsv4.Error):
            pass

        assert Undocumented.__doc__
        assert not own_docstring(Undocumented)
        assert not own_docstring(Heir)

    def test_values(self) -> None:
        tree = ast.parse("a = 1\n'''It is one.'''\nb: int = 2\nc = 3\n")
        assert [value_is_documented(tree, name) for name in "abc"] == [True, False, False]

    def test_members(self) -> None:
        class Class:
            def method(self) -> None: ...

            @property
            def value(self) -> None: ...

            @classmethod
            def made(cls) -> None: ...

            def _private(self) -> None: ...

        assert [name for name, _ in public_members(Class)] == ["method", "value", "made"]
