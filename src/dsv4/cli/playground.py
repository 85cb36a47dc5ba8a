"""dsv4 playground"""

from __future__ import annotations

import argparse
import threading

from dsv4.cli import serve

HELP = "open a page that shows prompts, prefix caches and streams"
EXAMPLE = """\
dsv4 playground
dsv4 playground --port 9000 --no-browser
dsv4 playground --backend vllm --upstream http://gpu:8000
"""
# Not the server's: both may run.
PORT = 8004


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    serve.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    fixed = {"playground": True, "port": PORT}
    return serve.run(args, fixed) if args.no_browser else serve.run(args, fixed, _open)


def _open(url: str) -> None:
    """Opens the page, beside the server: some browsers return only when they are closed."""
    import webbrowser

    address = f"{url}/playground/"
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
