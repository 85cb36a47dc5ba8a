"""What is in deploy/: a dashboard and alerts of metrics that exist, a compose file that is one,
manifests that Kubernetes takes.
"""

from __future__ import annotations

import argparse
import json
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import redis
from gateway import gateway, key_file, run
from standins import redis_server

from dsv4.serve.observe.metrics import Metrics
from dsv4.serve.settings import SETTING_TYPES, Settings, add_flags, flags_of, load

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


# Kubernetes.

# The first release that has `sleep` without a feature gate.
OLDEST_KUBERNETES = "1.30"


def manifests() -> list[Any]:
    files = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    return [each for file in files for each in yaml.safe_load_all(file.read_text("utf-8"))]


MANIFESTS = {(each["kind"], each["metadata"]["name"]): each for each in manifests()}
WORKLOADS = [each for each in MANIFESTS.values() if each["kind"] in ("Deployment", "StatefulSet")]
GATEWAY = MANIFESTS["Deployment", "dsv4-gateway"]["spec"]


def pod_of(workload: Any) -> Any:
    return workload["spec"]["template"]["spec"]


def container_of(workload: Any) -> Any:
    (container,) = pod_of(workload)["containers"]
    return container


def of_gateway() -> Any:
    return container_of(MANIFESTS["Deployment", "dsv4-gateway"])


def settings_of_gateway() -> Settings:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_flags(parser)
    return load(flags_of(parser.parse_args(of_gateway()["args"])), {})


def labels_of(workload: Any) -> set[tuple[str, str]]:
    return set(workload["spec"]["template"]["metadata"]["labels"].items())


class TestKubernetes:
    @pytest.mark.parametrize("release", [OLDEST_KUBERNETES, "newest"])
    @pytest.mark.parametrize("name", MANIFESTS, ids="/".join)
    def test_each_manifest_fits_the_published_schema(
        self, name: tuple[str, str], release: str
    ) -> None:
        schemas = pytest.importorskip("kubernetes_validate")
        version = schemas.latest_version() if release == "newest" else release
        schemas.validate(MANIFESTS[name], version, strict=True)
        # Or nothing was proved.
        with pytest.raises(schemas.ValidationError):
            schemas.validate({**MANIFESTS[name], "spek": {}}, version, strict=True)

    def test_there_is_one_of_each_name(self) -> None:
        assert len(MANIFESTS) == len(manifests())

    def test_every_selector_finds_its_pods(self) -> None:
        found = {}
        for (kind, name), each in MANIFESTS.items():
            if kind == "NetworkPolicy":
                continue
            chosen = each["spec"]["selector"]
            labels = set(chosen.get("matchLabels", chosen).items())
            pods = [one["metadata"]["name"] for one in WORKLOADS if labels <= labels_of(one)]
            found[kind, name] = pods
        assert found == {(kind, name): [name] for kind, name in found}

    def test_every_port_that_is_named_is_a_port_of_its_pod(self) -> None:
        for workload in WORKLOADS:
            container = container_of(workload)
            named = {port["name"]: port["containerPort"] for port in container["ports"]}
            service = MANIFESTS["Service", workload["metadata"]["name"]]
            (port,) = service["spec"]["ports"]
            assert named[port["targetPort"]] == port["port"]
            assert set(probed_ports(container)) <= set(named)

    def test_images_have_versions(self) -> None:
        for workload in WORKLOADS:
            assert re.search(r":\d+\.\d+\.\d+", container_of(workload)["image"])

    def test_no_service_sets_a_setting(self) -> None:
        """A Service is told to the pods of its namespace as NAME_PORT and more."""
        assert pod_of(MANIFESTS["Deployment", "dsv4-gateway"])["enableServiceLinks"] is False


def probed_ports(container: Any) -> Iterator[str]:
    for name, probe in container.items():
        for way in ("httpGet", "tcpSocket"):
            if name.endswith("Probe") and way in probe:
                yield probe[way]["port"]


class TestTheGatewayInKubernetes:
    def test_its_arguments_are_settings(self) -> None:
        settings = settings_of_gateway()
        ports = {port["name"]: port["containerPort"] for port in of_gateway()["ports"]}
        assert ports == {"http": settings.port, "metrics": settings.metrics_port}

    def test_probes_are_answered_without_a_key(self, tmp_path: Path) -> None:
        probes = {
            name: of_gateway()[name]["httpGet"]["path"]
            for name in ("startupProbe", "readinessProbe", "livenessProbe")
        }

        async def scenario() -> None:
            async with gateway(api_key_file=key_file(tmp_path, "ann:secret\n")) as g:
                for path in probes.values():
                    # The kubelet asks by the address of the pod.
                    assert (await g.get(path, host="10.0.0.7:8000"))[0] == 200
                assert (await g.get("/v1/models"))[0] == 401
                # While it drains, the pod is alive, and is not asked for more.
                g.server.drain.begin()
                seen = {name: (await g.get(path))[0] for name, path in probes.items()}
                assert seen == {"startupProbe": 200, "readinessProbe": 503, "livenessProbe": 200}

        run(scenario())

    def test_streams_have_the_time_to_end(self) -> None:
        pause = of_gateway()["lifecycle"]["preStop"]["sleep"]["seconds"]
        grace = GATEWAY["template"]["spec"]["terminationGracePeriodSeconds"]
        probe = of_gateway()["readinessProbe"]
        assert pause >= probe["periodSeconds"]
        assert grace > pause + settings_of_gateway().drain_timeout

    def test_a_node_can_be_emptied_and_a_gateway_stays(self) -> None:
        budget = MANIFESTS["PodDisruptionBudget", "dsv4-gateway"]["spec"]
        assert 1 <= budget["maxUnavailable"] < GATEWAY["replicas"]
        assert GATEWAY["strategy"]["rollingUpdate"]["maxUnavailable"] == 0

    def test_keys_are_readable_for_it_and_not_for_all(self) -> None:
        pod = GATEWAY["template"]["spec"]
        (volume,) = pod["volumes"]
        mode = volume["secret"]["defaultMode"]
        assert mode & stat.S_IRGRP
        assert not mode & (stat.S_IROTH | stat.S_IWOTH)
        assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]
        (mount,) = of_gateway()["volumeMounts"]
        assert Path(settings_of_gateway().api_key_file or "").parent == Path(mount["mountPath"])

    def test_its_user_is_that_of_the_image(self) -> None:
        user = GATEWAY["template"]["spec"]["securityContext"]["runAsUser"]
        assert f"--uid {user}" in (DEPLOY / "Dockerfile").read_text("utf-8")


@pytest.mark.parametrize(
    ("setting", "kind", "policy", "keeps"),
    [
        ("replay", "Deployment", "allkeys-lru", "no"),
        ("limits", "StatefulSet", "noeviction", "yes"),
    ],
)
def test_turns_may_be_forgotten_and_limits_may_not(
    setting: str, kind: str, policy: str, keeps: str, tmp_path: Path
) -> None:
    """By a real Redis with the arguments of its manifest."""
    url = getattr(settings_of_gateway(), setting)
    host, port = re.fullmatch(r"redis://([\w-]+):(\d+)/0", url).groups()  # type: ignore[union-attr]
    container = container_of(MANIFESTS[kind, host])
    assert MANIFESTS["Service", host]["spec"]["ports"][0]["port"] == int(port)
    with redis_server(tmp_path, arguments=container["args"]) as address:
        client = redis.Redis.from_url(address)
        found = client.config_get("maxmemory*")
        assert found["maxmemory-policy"] == policy
        memory = container["resources"]["limits"]["memory"]
        assert 0 < int(found["maxmemory"]) < int(memory.removesuffix("Mi")) * 2**20
        assert client.config_get("appendonly") == {"appendonly": keeps}
        client.close()
