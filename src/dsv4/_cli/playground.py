"""dsv4 playground"""

from __future__ import annotations

import argparse
import threading

from dsv4._cli import serve

# Another port than the server's, so that both may run.
PLAYGROUND = serve.GatewayCommand(
    {"playground": True},
    {"port": 8004},
    visible=("port", "backend", "upstream", "model", "dialect", "tokenizer", "profile", "inspect"),
    opens_page=True,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    serve.add_arguments(parser, PLAYGROUND)
    more = "every option of dsv4 serve works here too: dsv4 serve --help lists them"
    parser.add_argument_group("more", more)


def run(args: argparse.Namespace) -> int:
    return (
        serve.run(args, PLAYGROUND)
        if args.no_browser
        else serve.run(args, PLAYGROUND, _open_browser)
    )


def _open_browser(url: str) -> None:
    """Opens the page without waiting: some browsers return only when they are closed."""
    import webbrowser

    address = f"{url}/playground/"
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
