"""The arguments of the programs here that try many texts."""

from __future__ import annotations

import argparse


def fuzz_arguments(about: str | None) -> argparse.Namespace:
    """What the command line says: how many texts, from which seed, and whether to go on."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep-going", action="store_true", help="print failures, and go on")
    return parser.parse_args()
