"""Known differences: those of an earlier report, and those that the user allows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from dsv4.verify.report import VerifyReport
from dsv4.verify.server_findings import ServerFinding, Standing


def with_known(
    report: VerifyReport, allowed: Collection[str] = (), baseline: Mapping[str, Any] | None = None
) -> VerifyReport:
    """The report in which known faults are only differences: findings with an `allowed` id, and
    those that are in the `baseline`, an earlier report as JSON."""
    before = set(_keys(baseline or {}))
    findings = tuple(
        _as_difference(f, f.id in allowed or _key(vars(f)) in before) for f in report.findings
    )
    groups = {
        group: _standing(standing, (f for f in findings if f.group == group))
        for group, standing in report.groups.items()
    }
    return replace(report, findings=findings, groups=groups)


def _as_difference(finding: ServerFinding, is_known: bool) -> ServerFinding:
    if not is_known or finding.verdict != "fault":
        return finding
    return replace(finding, verdict="differs", message=f"{finding.message} (known)")


def _standing(standing: Standing, findings: Iterable[ServerFinding]) -> Standing:
    if standing == "fault" and all(f.verdict != "fault" for f in findings):
        return "differs"
    return standing


def _keys(report: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    findings = report.get("findings")
    for finding in findings if isinstance(findings, list) else ():
        if isinstance(finding, dict):
            yield _key(finding)


def _key(finding: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields that identify a finding. An unexplained one is identified by its request too,
    because another request may be wrong for another reason."""
    names = ("id", "group", "probe") if finding.get("id") == "not-explained" else ("id", "group")
    return tuple(str(finding.get(name)) for name in names)
