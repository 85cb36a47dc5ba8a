"""dsv4 verify --watch: a server measured again and again, and what is done when it changes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsv4._cli.command_output import DONE, FINDINGS, Failure, write_text
from dsv4._inputs.input_files import os_error_reason

if TYPE_CHECKING:
    from dsv4.verify import Report
    from dsv4.verify.runner import RunMode

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SECONDS_FOR_COMMAND = 60


def interval(text: str) -> int:
    """Seconds, of a text such as 30s, 10m, 1h or 1d."""
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", text)
    if match is None:
        raise ArgumentTypeError(f'found "{text}", expected a time such as 30s, 10m, 1h or 1d')
    return int(match[1]) * _UNITS[match[2]]


@dataclass
class VerifyWatch:
    """Rounds of `dsv4 verify`: quick ones, and a default one when something has changed.

    `measure` makes a report, in the mode that it is given; `say` writes a line.
    """

    url: str
    measure: Callable[[RunMode], Report]
    say: Callable[[str], None]
    metrics_file: str | None = None
    on_change: str | None = None
    _last: dict[str, Any] | None = None
    is_faulty: bool = False

    def round(self) -> None:
        """One round. A server that cannot be measured is one that has changed."""
        from dsv4.verify import ServerProblem
        from dsv4.verify.report_views import report_changes

        report: Report | None = None
        mode: RunMode = "quick"
        problem, changes = "", list[str]()
        try:
            report = self.measure(mode)
            now = report.to_dict()
            changes = report_changes(self._last, now) if self._last is not None else []
            if changes:
                mode, report = "default", self.measure("default")
        except ServerProblem as error:
            problem, now = str(error), {"problem": str(error)}
            changes = [problem] if (self._last or {}).get("problem") != problem else []
        self._last = now
        self.is_faulty = report is None or report.is_faulty
        self.say(json.dumps(self._line(mode, problem, changes, report), ensure_ascii=False))
        self._write_metrics(report)
        if changes and self.on_change is not None:
            self._run_command(changes)

    def _line(
        self, mode: str, problem: str, changes: list[str], report: Report | None
    ) -> dict[str, Any]:
        line: dict[str, Any] = {"time": round(time.time()), "url": self.url, "mode": mode}
        if report is None:
            return {**line, "problem": problem, "changes": changes}
        whole = report.to_dict()
        fields = {key: whole[key] for key in ("model", "requests", "prompt_tokens", "groups")}
        faults = sorted({f.id for f in report.findings if f.verdict == "fault"})
        named = {key: whole["prompt"][key] for key in ("profile", "dialect")}
        return {**line, **fields, **named, "faults": faults, "changes": changes}

    def _write_metrics(self, report: Report | None) -> None:
        from dsv4.verify.verify_metrics import metrics_text

        if self.metrics_file is None:
            return
        # Whole, or not at all: whoever reads it may do so at any time.
        temporary = f"{self.metrics_file}.{os.getpid()}.tmp"
        write_text(temporary, metrics_text(report, self.url, time.time()))
        try:
            os.replace(temporary, self.metrics_file)
        except OSError as error:
            raise Failure(f"--metrics-file: {os_error_reason(error)}") from None

    def _run_command(self, changes: list[str]) -> None:
        """The command gets what has changed on stdin. If it fails, that is said, and no more."""
        try:
            subprocess.run(
                shlex.split(self.on_change or ""),
                input="".join(f"{change}\n" for change in changes).encode(),
                timeout=SECONDS_FOR_COMMAND,
                check=True,
                stdout=subprocess.DEVNULL,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            print(f"dsv4: --on-change: {error}", file=sys.stderr)


def watch(rounds: VerifyWatch, seconds: int) -> int:
    """Rounds, so many seconds apart, until a signal ends them. The status is that of the last."""
    try:
        while True:
            rounds.round()
            time.sleep(seconds)
    except KeyboardInterrupt:
        return FINDINGS if rounds.is_faulty else DONE
