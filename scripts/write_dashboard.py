"""Writes deploy/grafana.json, the dashboard of the gateway, from the metrics themselves.

A metric that is added gets a panel by its type: the rate of a counter, the value of a gauge, the
quantiles of a histogram. What is known better is in `PANELS`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dsv4.serve.observe.metrics import Metrics

DASHBOARD = Path(__file__).parent.parent / "deploy" / "grafana.json"

# Metrics with the labels that tell most, in the order of the dashboard. Others come after them.
PANELS: dict[str, tuple[str, ...]] = {
    "dsv4_requests": ("status",),
    "dsv4_streams_running": (),
    "dsv4_streams_waiting": (),
    "dsv4_first_token_seconds": (),
    "dsv4_request_seconds": (),
    "dsv4_tokens": ("kind",),
    "dsv4_engine_up": ("engine",),
    "dsv4_engine_streams": ("engine",),
    "dsv4_repairs": ("kind",),
    "dsv4_backend_errors": ("status",),
}
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana imports it."""
    known = {metric.name: metric for metric in Metrics().registry.collect()}
    order = [*PANELS, *sorted(known.keys() - PANELS.keys())]
    panels = [_panel(known[name], n) for n, name in enumerate(order)]
    variable = {"name": "datasource", "type": "datasource", "query": "prometheus"}
    return {
        "title": "dsv4 gateway",
        "uid": "dsv4-gateway",
        "tags": ["dsv4"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [variable]},
        "panels": panels,
    }


def _panel(metric: Any, n: int) -> dict[str, Any]:
    return {
        "id": n + 1,
        "type": "timeseries",
        "title": metric.documentation,
        "datasource": _SOURCE,
        "gridPos": {"x": 12 * (n % 2), "y": 8 * (n // 2), "w": 12, "h": 8},
        "fieldConfig": {
            "defaults": {"unit": "s" if metric.name.endswith("_seconds") else "short"},
            "overrides": [],
        },
        "targets": [
            {"refId": chr(ord("A") + m), "datasource": _SOURCE, "expr": expr, "legendFormat": name}
            for m, (expr, name) in enumerate(_queries(metric))
        ],
    }


def _queries(metric: Any) -> list[tuple[str, str]]:
    """What is asked of Prometheus, each with the name of its line."""
    labels = PANELS.get(metric.name, _labels_of(metric.name))
    by = f" by ({', '.join(labels)})" if labels else ""
    legend = " ".join(f"{{{{{label}}}}}" for label in labels) or metric.name
    if metric.type == "histogram":
        rate = f"sum(rate({metric.name}_bucket[5m])) by (le)"
        return [(f"histogram_quantile({q}, {rate})", f"p{q * 100:g}") for q in (0.5, 0.9, 0.99)]
    if metric.type == "counter":
        return [(f"sum(rate({metric.name}_total[5m])){by}", legend)]
    return [(f"sum({metric.name}){by}", legend)]


def _labels_of(name: str) -> tuple[str, ...]:
    """The labels of a metric, which it tells only when it has counted something."""
    own = Metrics().registry._names_to_collectors[name]
    return tuple(getattr(own, "_labelnames", ()))


def text() -> str:
    """What the file holds."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    DASHBOARD.write_text(text(), "utf-8")
