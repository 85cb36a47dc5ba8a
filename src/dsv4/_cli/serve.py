"""dsv4 serve"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from getpass import getpass
from typing import TYPE_CHECKING, Any

from dsv4._cli.command_output import DONE, Failure, missing_package, write_text

if TYPE_CHECKING:
    from dsv4.serve.settings import Settings


@dataclass(frozen=True)
class GatewayCommand:
    """A command that starts the gateway: the settings that it fixes, its own defaults, and the
    settings that its help lists (empty: all)."""

    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    visible: tuple[str, ...] = ()
    opens_page: bool = False  # whether it is started for the playground


SERVE = GatewayCommand()


def add_arguments(parser: argparse.ArgumentParser, command: GatewayCommand = SERVE) -> None:
    from dsv4.serve.settings import add_flags

    add_flags(parser, command.fixed, command.defaults, command.visible)
    for option, words in _QUESTIONS.items():
        hidden = argparse.SUPPRESS if command.visible else words
        parser.add_argument(option, action="store_true", help=hidden)


# Flags that print something instead of serving.
_QUESTIONS = {
    "--print-config": "print the settings as TOML, and exit",
    "--explain-adaptations": "print how requests are adapted to the chat server, and exit",
    "--hash-key": "read an API key, print its hash for the file of keys, and exit",
    "--clients": "print how to set up clients, and exit",
}


def run(
    args: argparse.Namespace,
    command: GatewayCommand = SERVE,
    listens: Callable[[str], None] = lambda url: None,
) -> int:
    """Serves until it is stopped. `listens` is called with the URL."""
    from dsv4.serve.settings import SettingError, flags_of, load

    try:
        settings = load({**flags_of(args), **command.fixed}, defaults=command.defaults)
        return _run(args, settings, command, listens)
    except SettingError as error:
        raise Failure(str(error)) from None


def _run(
    args: argparse.Namespace,
    settings: Settings,
    command: GatewayCommand,
    listens: Callable[[str], None],
) -> int:
    from dsv4.serve.banner import banner_text, playground_banner_text
    from dsv4.serve.settings import to_toml

    if args.hash_key:
        write_text(None, _hashed_key() + "\n")
        return DONE
    if args.print_config:
        write_text(None, to_toml(settings))
        return DONE
    if args.clients:
        from dsv4.serve.banner import all_clients, summary_of_settings

        write_text(None, all_clients(summary_of_settings(settings)))
        return DONE
    if args.explain_adaptations:
        write_text(None, _explained(settings))
        return DONE
    try:
        from dsv4.serve.workers.uvicorn_runner import serve
    except ImportError as error:
        raise missing_package("serving", error, "serve") from None

    banner = playground_banner_text if command.opens_page else banner_text
    return serve(settings, _print_to_stderr, listens, banner)


def _hashed_key() -> str:
    """The hash of a key, which is read from standard input, or asked for on a terminal."""
    from dsv4.serve.access.api_keys import hashed_key

    key = (getpass("API key: ") if sys.stdin.isatty() else sys.stdin.readline()).strip()
    if not key or len(key.split()) > 1:
        raise Failure("found no key, expected one on standard input, without white space")
    return hashed_key(key)


def _explained(settings: Settings) -> str:
    """The table of adaptations for the server of the settings, to which no request is sent."""
    from dsv4._format.dialects import dialect_named
    from dsv4.serve.heal.adaptations import adapted_server, check_ids, explanation, server_kind

    check_ids(settings.skip_adaptations)
    dialect = dialect_named(settings.dialect or "v4")
    return explanation(adapted_server(server_kind(settings), dialect, settings))


def _print_to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
