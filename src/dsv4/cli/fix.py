"""dsv4 check --fix: the conversations again, with what can be fixed without guessing."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from dsv4._check.fixes import fix_body
from dsv4._inputs.input_files import input_name
from dsv4.cli.failure import DONE
from dsv4.cli.requests import documents
from dsv4.cli.writing import json_text, output


def fix(args: argparse.Namespace) -> int:
    """Writes every conversation, and says on stderr what was done. A bad line ends it."""
    done: Counter[str] = Counter()
    with output(args.output, args.files) as file:
        for document in documents(args):
            if document.problem is not None:
                raise document.problem
            body, fixes = fix_body(document.value)
            done.update(fixes)
            whole = document.place in map(input_name, args.files or ["-"])
            file.write(json_text(body, indent=2 if whole else None) + "\n")
    if sys.stderr is not None:
        for what, times in done.items():
            print(f"dsv4: {what}{f' ({times:,} times)' if times > 1 else ''}", file=sys.stderr)
        if not done:
            print("dsv4: nothing to fix", file=sys.stderr)
    return DONE
