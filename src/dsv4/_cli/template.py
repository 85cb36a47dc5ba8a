"""dsv4 template"""

from __future__ import annotations

from dataclasses import dataclass

from dsv4._cli.command_options import OutputOption
from dsv4._cli.command_output import DONE, write_text
from dsv4._cli.option_fields import option
from dsv4.compat.templates import ENGINES, TEMPLATED, chat_template
from dsv4.types import DialectName


@dataclass(kw_only=True)
class TemplateOptions(OutputOption):
    engine: str = option("--for", default="transformers", choices=ENGINES)
    dialect: DialectName = option(default="v4", choices=TEMPLATED)


def run(args: TemplateOptions) -> int:
    write_text(args.output, chat_template(args.dialect, args.engine))
    return DONE
