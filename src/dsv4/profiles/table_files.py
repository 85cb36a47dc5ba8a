"""The tables of this package that are only texts: JSON files beside this module."""

from __future__ import annotations

import json
import os
from typing import Any


def read_table(name: str) -> Any:
    """What the file of a table holds."""
    path = os.path.join(os.path.dirname(__file__), f"{name}.json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)
