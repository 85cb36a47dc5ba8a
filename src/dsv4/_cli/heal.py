"""dsv4 heal"""

from __future__ import annotations

import argparse

from dsv4._cli import serve

EXAMPLE = "dsv4 heal --upstream http://127.0.0.1:8000"

FIXED = {"backend": "chat", "strip_markup": True}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    serve.add_arguments(parser, FIXED)


def run(args: argparse.Namespace) -> int:
    return serve.run(args, FIXED)
