"""What is in deploy/: a dashboard and alerts of metrics that exist, a compose file that is one."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dsv4.serve.observe.metrics import Metrics

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DEPLOY = ROOT / "deploy"
yaml = pytest.importorskip("yaml")


def sample_names() -> set[str]:
    """The names of all samples that there can be."""
    found: set[str] = set()
    for metric in Metrics().registry.collect():
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}
        found |= {metric.name + suffix for suffix in suffixes.get(metric.type, [""])}
    return found


def read(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text("utf-8"))


def used_names(text: str) -> set[str]:
    return set(re.findall(r"\bdsv4_\w+", text))


def test_the_dashboard_is_current_and_shows_every_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import write_dashboard

    text = (DEPLOY / "grafana.json").read_text("utf-8")
    assert text == write_dashboard.text(), "run python scripts/write_dashboard.py"
    sys.modules.pop("write_dashboard")
    shown = {target["expr"] for panel in json.loads(text)["panels"] for target in panel["targets"]}
    names = used_names(" ".join(shown))
    assert names <= sample_names()
    families = {re.sub("_(total|bucket|sum|count)$", "", name) for name in names}
    assert families == {metric.name for metric in Metrics().registry.collect()}


def test_alerts_are_about_metrics_that_exist() -> None:
    rules = [rule for group in read("alerts.yml")["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 5
    for rule in rules:
        assert used_names(rule["expr"]) <= sample_names(), rule["alert"]
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("critical", "warning")
    asked = " ".join(rule["expr"] for rule in rules)
    for name in ("repairs_total", "engine_up", "first_token_seconds_bucket", "streams_waiting"):
        assert f"dsv4_{name}" in asked


def test_the_compose_file_fits_its_schema_and_the_settings() -> None:
    composed = read("compose.yaml")
    schema = json.loads((HERE / "compose_spec.json").read_text("utf-8"))
    jsonschema.Draft201909Validator(schema).validate(composed)
    from dsv4.serve.settings import SETTING_TYPES

    flags = [flag[2:].partition("=")[0] for flag in composed["services"]["gateway"]["command"]]
    assert {flag.replace("-", "_") for flag in flags} <= set(SETTING_TYPES)
    images = [service["image"] for service in composed["services"].values() if "image" in service]
    for image in images:
        assert re.search(r":v?\d+\.\d+\.\d+", image), f"{image} is not pinned"
    base = re.findall("^FROM (.*)", (DEPLOY / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert all(re.search(r":\d+\.\d+\.\d+", image) for image in base), base


def test_prometheus_asks_the_gateway_of_the_compose_file() -> None:
    (job,) = read("prometheus.yml")["scrape_configs"]
    host, port = job["static_configs"][0]["targets"][0].split(":")
    gateway = read("compose.yaml")["services"][host]
    assert f"--metrics-port={port}" in gateway["command"]
