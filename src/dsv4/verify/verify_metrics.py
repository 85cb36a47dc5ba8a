"""A report as numbers, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from dsv4.verify.report import VerifyReport

_HELP = {
    "up": "Whether the server could be measured.",
    "fault": "Faults that were found, by id and group.",
    "standing": "What each group came to.",
    "explained_ratio": "How many of the counts are explained.",
    "requests": "Requests of the last run.",
    "prompt_tokens": "Prompt tokens of the last run.",
    "last_run_timestamp_seconds": "When the last run ended.",
}


def metrics_text(report: VerifyReport | None, url: str, ended: float) -> str:
    """The metrics of a server at a `url` after a run that `ended` at a time; without a report it
    could not be measured."""
    lines: list[str] = []
    for name, values in _metrics(report, ended):
        lines += (f"# HELP dsv4_verify_{name} {_HELP[name]}", f"# TYPE dsv4_verify_{name} gauge")
        for labels, value in values:
            all_labels = {"url": url, **labels}
            label_text = ",".join(f'{key}="{_escaped(text)}"' for key, text in all_labels.items())
            lines.append(f"dsv4_verify_{name}{{{label_text}}} {value:.10g}")
    return "\n".join(lines) + "\n"


Values = list[tuple[dict[str, str], float]]


def _metrics(report: VerifyReport | None, ended: float) -> Iterator[tuple[str, Values]]:
    yield "up", [({}, float(report is not None and not report.too_little))]
    if report is not None:
        faults = {(f.id, f.group) for f in report.findings if f.verdict == "fault"}
        yield "fault", [({"id": id, "group": group}, 1.0) for id, group in sorted(faults)]
        yield (
            "standing",
            [
                ({"group": group, "standing": standing}, 1.0)
                for group, standing in report.groups.items()
            ],
        )
        verdict = report.verdict
        yield "explained_ratio", [({}, verdict.explained / max(verdict.of, 1))]
        yield "requests", [({}, float(report.requests))]
        yield "prompt_tokens", [({}, float(report.prompt_tokens))]
    yield "last_run_timestamp_seconds", [({}, round(ended))]


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
