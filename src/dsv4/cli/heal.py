"""dsv4 heal"""

from __future__ import annotations

import argparse

from dsv4.cli import serve

HELP = "stand before a chat server whose answers leak markup, and put them right"
EXAMPLE = "dsv4 heal --upstream http://127.0.0.1:8000"

add_arguments = serve.add_arguments


def run(args: argparse.Namespace) -> int:
    return serve.run(args, {"backend": "chat"})
