"""dsv4 heal"""

from __future__ import annotations

import argparse

from dsv4._cli import serve

# A port that is not the server's, which is often on this machine too.
HEAL = serve.GatewayCommand({"backend": "chat"}, {"strip_markup": True, "port": 8003})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    serve.add_arguments(parser, HEAL)


def run(args: argparse.Namespace) -> int:
    return serve.run(args, HEAL)
