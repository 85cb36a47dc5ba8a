"""dsv4 completion: the script that has a shell ask this program what could follow. The script
is argcomplete's, and so are the answers, which `main` has it give."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from dsv4._cli.command_output import DONE, missing_package, write_text
from dsv4._cli.option_fields import argument


@dataclass(kw_only=True)
class CompletionOptions:
    shell: Literal["bash", "zsh", "fish", "powershell"] = argument()


def run(args: CompletionOptions) -> int:
    try:
        script = import_module("argcomplete").shellcode(["dsv4"], shell=args.shell)
    except ImportError as error:
        raise missing_package("completion", error, "completion") from None
    write_text(None, script)
    return DONE
