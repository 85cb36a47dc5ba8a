"""Every public name is documented where an editor looks for it: in its docstring.

Public is what a module lists in `__all__`; the reference is made of the same names.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

import pytest

import dsv4
from loading import loaded
from rows import run_rows

site = loaded("scripts/site.py")


def imported(module: str) -> ModuleType:
    """A public module; the test is skipped where an extra that it needs is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("dsv4", "encoding_dsv4"):
            raise
        pytest.skip(f"not installed: {error.name}")


@cache
def public_names() -> dict[str, list[str]]:
    """The public names of each public module. All source is read for it: not while collecting."""
    return site.public_modules()


def in_every_module(test: Callable[[str], None]) -> Callable[[], None]:
    """Runs a test for each public module, and reports those for which it fails."""

    def test_all_modules() -> None:
        run_rows([pytest.param(module, id=module) for module in public_names()], lambda m: test(*m))

    return test_all_modules


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


def value_is_documented(source: str, name: str) -> bool:
    """Whether a docstring stands below the place where a name gets its value."""
    tree = ast.parse(source)
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    return False


def public_values(module: str) -> dict[str, Any]:
    """The public names of a module with what they stand for: each of them is there."""
    public = imported(module)
    return {name: getattr(public, name) for name in public_names()[module]}


def is_documented(module: str, name: str, value: Any) -> bool:
    if isinstance(value, (type, ModuleType)) or inspect.isroutine(value):
        return bool(own_docstring(value))
    if module != "dsv4" or name.startswith("_"):
        return True  # what a constant of the drop-in modules is, its value says
    home, original = site.defined_in(module, name)
    return value_is_documented(site.source_of(home).read_text("utf-8"), original)


@in_every_module
def test_names_are_documented(module: str) -> None:
    values = public_values(module)
    assert [name for name, value in values.items() if not is_documented(module, name, value)] == []


@in_every_module
def test_methods_are_documented(module: str) -> None:
    classes = {n: value for n, value in public_values(module).items() if isinstance(value, type)}
    missing = [
        f"{name}.{member}"
        for name, value in classes.items()
        for member, _ in public_members(value)
        if not inspect.getdoc(getattr(value, member))
    ]
    assert missing == []


def callables(value: Any) -> Iterator[tuple[str, Any]]:
    """Functions and methods; and a class that is created with options. A typed dict has none."""
    if inspect.isfunction(value):
        yield value.__name__, value
    elif isinstance(value, type) and not issubclass(value, (BaseException, dict)):
        options = inspect.signature(value).parameters.values()
        if any(option.kind is option.KEYWORD_ONLY for option in options):
            yield value.__name__, value
        yield from ((f"{value.__name__}.{name}", member) for name, member in public_members(value))


def documentation(value: Any, function: Any) -> str:
    """A docstring, together with those of what a method overrides: they describe its parameters."""
    name = function.__name__
    bases = value.__mro__ if isinstance(value, type) and function is not value else ()
    overridden = (vars(base).get(name) for base in bases)
    return "\n".join(each.__doc__ or "" for each in (function, *overridden) if each is not None)


def not_named(function: Any, text: str) -> list[str]:
    """Parameters that a docstring does not name, nor that of a public name which it refers to."""
    words = in_code(text)
    referred = [getattr(dsv4, word, None) for word in words]
    words = words.union(*(in_code(value.__doc__) for value in referred if callable(value)))
    parameters = inspect.signature(function).parameters
    return [name for name in parameters if name not in ("self", "cls") and name not in words]


def in_code(docstring: str | None) -> set[str]:
    """The words between backticks."""
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", docstring or ""))))


@in_every_module
def test_parameters_are_named(module: str) -> None:
    if module.startswith("dsv4.compat"):
        return  # names and parameters there are other people's, who document them
    missing = {
        called: names
        for value in public_values(module).values()
        for called, function in callables(value)
        if (names := not_named(function, documentation(value, function)))
    }
    assert missing == {}


@in_every_module
def test_the_reference_has_every_name(module: str) -> None:
    names = list(imported(module).__all__)
    assert names == public_names()[module]
    page = site.reference_page(module, names)
    headings = re.findall(r"^## (\w+)$|heading: '(\w+)'", page, re.MULTILINE)
    assert [a or b for a, b in headings] == [name for name in names if name != "__version__"]


def test_the_package_is_public() -> None:
    assert {"dsv4", "dsv4.tokens", "dsv4.compat.release"} <= public_names().keys()


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
        source = "a = 1\n'''It is one.'''\nb: int = 2\nc = 3\n"
        assert [value_is_documented(source, name) for name in "abc"] == [True, False, False]

    def test_parameters(self) -> None:
        def function(a: int, b: int, *, bos: bool) -> None:
            """`a` and b; the rest as for `Request`."""

        assert not_named(function, documentation(None, function)) == ["b"]  # Request names `bos`

    def test_members(self) -> None:
        class Class:
            def method(self) -> None: ...

            @property
            def value(self) -> None: ...

            @classmethod
            def made(cls) -> None: ...

            def _private(self) -> None: ...

        assert [name for name, _ in public_members(Class)] == ["method", "value", "made"]
