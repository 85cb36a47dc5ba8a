"""litellm's own proxy in front of stand-ins for vLLM and the official API: its changes are named.

`make test-litellm` installs one and runs these; elsewhere they are skipped.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from http_servers import served
from stand_ins import FORECASTER, StandIn, server

from dsv4.verify import HttpServer, Report, run

LITELLM = os.environ.get("LITELLM_VENV")
if not LITELLM:
    pytest.skip("LITELLM_VENV names no environment with litellm", allow_module_level=True)

KEY = f"sk-{secrets.token_hex(24)}"
# By the names of the models that the proxy offers: litellm's provider, and who is behind it.
ROUTES = {
    "hosted": ("hosted_vllm", "vllm-0.32"),
    "compatible": ("deepseek", "vllm-0.32"),
    "official": ("deepseek", "recipe-0.2.0"),
}
STARTING = 300  # seconds that it may take


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one proxy, which takes long to start, for all models."""
    folder = tmp_path_factory.mktemp("litellm")
    with ExitStack() as stack:
        models = []
        for name, (provider, profile) in ROUTES.items():
            upstream = stack.enter_context(served(StandIn(server(profile))))
            to = {"model": f"{provider}/deepseek-v4", "api_base": upstream, "api_key": "none"}
            models.append({"model_name": name, "litellm_params": to})
        settings = {
            "model_list": models,
            "general_settings": {"master_key": KEY},
            # Refusals are answers here, and no reason to give up a server.
            "router_settings": {"num_retries": 0, "disable_cooldowns": True},
        }
        (folder / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML
        yield stack.enter_context(_Proxy(folder)).url


class _Proxy:
    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        program = Path(str(LITELLM), "bin", "litellm").absolute()
        command = [program, "--config", "config.yaml", "--host", "127.0.0.1"]
        # Prices of models would be fetched from the internet.
        environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        environment.pop("PYTHONPATH", None)  # it is of another environment
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--port", str(port), "--telemetry", "False"],
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> _Proxy:
        deadline = time.monotonic() + STARTING
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                urlopen(self.url.replace("/v1", "/health/liveliness"), timeout=5).close()
                return self
            except (URLError, OSError):
                time.sleep(0.5)
        self.__exit__()
        raise AssertionError(self._log.read_text("utf-8", "replace")[-2_000:])

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def report_on(proxy: str, model: str) -> Report:
    return run(HttpServer(proxy, KEY), model, forecaster=FORECASTER)


HOSTED_VLLM = ["additional-properties-lost", "developer-as-system", "thinking-as-effort"]
DEEPSEEK = ["developer-as-system", "effort-none-as-high", "parts-joined-by-nothing"]


def test_efforts_reach_the_official_api(proxy: str) -> None:
    """It reads `thinking.type`, which stands for the effort `none` there."""
    report = report_on(proxy, "official")
    assert report.verdict.faults == ("developer-as-system", "parts-joined-by-nothing")
    assert report.verdict.possible == ()
    assert report.groups["effort"] == "pass"


@pytest.mark.parametrize(("model", "faults"), [("hosted", HOSTED_VLLM), ("compatible", DEEPSEEK)])
def test_what_it_changes_is_named(proxy: str, model: str, faults: list[str]) -> None:
    report = report_on(proxy, model)
    prompt = report.to_dict()["prompt"]
    assert (prompt["outcome"], prompt["profile"], prompt["faults"]) == (
        *("explained", ROUTES[model][1]),
        faults,
    )
    assert KEY not in json.dumps(report.to_dict())
    if "effort-none-as-high" in faults:
        (lost,) = [finding for finding in report.findings if finding.id == "effort-none-as-high"]
        assert (lost.verdict, report.groups["effort"]) == ("fault", "fault")
        assert "litellm" in lost.mend
