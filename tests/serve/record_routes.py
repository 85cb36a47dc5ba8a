"""Writes server_routes.json: every route that the HTTP servers of vLLM and SGLang register.

    python tests/serve/record_routes.py vllm==0.32.0=FOLDER sglang==0.5.23=FOLDER

A folder is the unpacked package of a wheel. Decorators are read, nothing is imported: a server
that runs shows only the routes that its flags switch on.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

ROUTES = Path(__file__).parent / "server_routes.json"
METHODS = ("get", "post", "put", "delete", "patch")


def routes_in(folder: Path) -> Iterator[tuple[str, str]]:
    """The methods and paths of every route that is registered by a decorator."""
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            for decorator in getattr(node, "decorator_list", ()):
                yield from _routes_of(decorator)


def _routes_of(decorator: ast.expr) -> Iterator[tuple[str, str]]:
    match decorator:
        case ast.Call(func=ast.Attribute(attr=name), args=[ast.Constant(value=str(path)), *_]):
            if path.startswith("/") and name in METHODS:
                yield name.upper(), path
            elif path.startswith("/") and name == "api_route":
                for keyword in decorator.keywords:
                    if keyword.arg == "methods":
                        yield from ((method, path) for method in ast.literal_eval(keyword.value))


def main(arguments: list[str]) -> None:
    found = {}
    for argument in arguments:
        release, _, folder = argument.rpartition("=")
        found[release] = [" ".join(route) for route in sorted(set(routes_in(Path(folder))))]
    ROUTES.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
