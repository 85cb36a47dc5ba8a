"""The version of the package, and how to install its optional parts."""

from __future__ import annotations

import os

__version__ = "0.1.0"


def how_to_install(extra: str) -> str:
    """The command that installs an optional part: from the checkout that holds this code, if there
    is one, else from the package index."""
    checkout = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if not os.path.isfile(os.path.join(checkout, "pyproject.toml")):
        return f'pip install "dsv4[{extra}]"'
    return f'pip install -e "{_shortest(checkout)}[{extra}]"'


def _shortest(folder: str) -> str:
    """The path of a folder, from the current one if that is shorter."""
    try:
        return min(folder, os.path.relpath(folder), key=len)
    except (OSError, ValueError):  # the current folder was deleted, or is on another drive
        return folder
