"""dsv4 special"""

from __future__ import annotations

from dataclasses import dataclass

import dsv4
from dsv4._cli.command_options import DialectOptions, dialect_option
from dsv4._cli.command_output import DONE, json_text, output
from dsv4._cli.option_fields import switch
from dsv4._view.characters import width_of


@dataclass(kw_only=True)
class SpecialOptions(DialectOptions):
    json: bool = switch()


def run(args: SpecialOptions) -> int:
    from dsv4._format import tokens

    constants = reversed(list(vars(tokens).items()))  # of two with one spelling, the first is used
    names = {str(token): name for name, token in constants if token.__class__ is dsv4.Special}
    dialect = dsv4.DIALECTS[dialect_option(args) or "v4"]
    rows = [(names[token].lower(), str(token), token.id) for token in dialect.special_tokens]
    with output() as file:
        if args.json:
            listed = [dict(zip(("name", "spelling", "id"), row, strict=True)) for row in rows]
            file.write(json_text(listed, indent=2) + "\n")
            return DONE
        widest = max(width_of(spelling) for _, spelling, _ in rows)
        for name, spelling, id in rows:
            gap = " " * (widest - width_of(spelling))
            file.write(f"{name:<16} {spelling}{gap} {'-' if id is None else id:>6}\n")
    return DONE
