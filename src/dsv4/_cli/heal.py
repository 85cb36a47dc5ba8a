"""dsv4 heal"""

from __future__ import annotations

import argparse

from dsv4._cli import serve

# Another port than the server's, which often runs on the same machine.
HEAL = serve.GatewayCommand({"backend": "chat"}, {"strip_markup": True, "port": 8003})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    serve.add_arguments(parser, HEAL)


def run(args: argparse.Namespace) -> int:
    return serve.run(args, HEAL)
