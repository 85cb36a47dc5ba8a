"""Servers that are watched, known differences, and several servers side by side."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from http_servers import served
from running import dsv4, refused
from stand_ins import FORECASTER, VLLM, StandIn, server

from dsv4._cli.verify_watch import VerifyWatch, interval
from dsv4.verify import Report, ServerProblem, run
from dsv4.verify.known_faults import with_known
from dsv4.verify.report_views import report_junit
from dsv4.verify.vendor_table import vendors_html, vendors_text
from dsv4.verify.verify_metrics import metrics_text

FAULTY = server("dsv4", "v4-0731", "tools-compact")
CLEAN = server("dsv4", "v4-0731")


def report_on(client: Any, **options: Any) -> Report:
    return run(client, forecaster=FORECASTER, **options)


@pytest.fixture(scope="module")
def faulty() -> Report:
    return report_on(StandIn(FAULTY), only=["tools"])


class TestKnownDifferences:
    def test_what_is_allowed_is_no_fault(self, faulty: Report) -> None:
        assert faulty.is_faulty
        allowed = with_known(faulty, ["tools-compact"])
        assert not allowed.is_faulty
        assert allowed.groups["tools"] == "differs"
        suite = ElementTree.fromstring(report_junit(allowed))
        assert suite.get("failures") == "0"

    def test_what_a_baseline_has_is_known_and_what_is_new_is_a_fault(self, faulty: Report) -> None:
        baseline = json.loads(json.dumps(faulty.to_dict()))
        assert not with_known(faulty, baseline=baseline).is_faulty
        both = report_on(
            StandIn(server("dsv4", "v4-0731", "tools-compact", "texts-stripped")),
            only=["tools", "content"],
        )
        found = with_known(both, baseline=baseline)
        assert [f.id for f in found.findings if f.verdict == "fault"] == ["texts-stripped"]
        assert (found.groups["tools"], found.groups["content"]) == ("differs", "fault")

    def test_what_is_not_explained_is_known_by_its_request(self, faulty: Report) -> None:
        (finding,) = [f for f in faulty.findings if f.verdict == "fault"]
        odd = replace(finding, id="not-explained", probe="loop")
        before = replace(faulty, findings=(odd,))
        other = replace(faulty, findings=(replace(odd, probe="tools-keys"),))
        assert not with_known(before, baseline=before.to_dict()).is_faulty
        assert with_known(other, baseline=before.to_dict()).is_faulty

    @pytest.mark.parametrize("baseline", [{}, {"findings": None}, {"findings": [1, {}, None]}])
    def test_a_baseline_that_has_nothing(self, faulty: Report, baseline: dict[str, Any]) -> None:
        assert with_known(faulty, baseline=baseline).is_faulty

    def test_the_command(self, tmp_path: Path) -> None:
        baseline = tmp_path / "report.json"
        with served(StandIn(FAULTY)) as url:
            asked = ("verify", url, "--yes", "--only", "tools")
            assert dsv4(*asked, "--json", baseline).returncode == 1
            assert dsv4(*asked, "--baseline", baseline).returncode == 0
            assert dsv4(*asked, "--allow", "tools-compact").returncode == 0
            assert dsv4(*asked, "--allow", "tools-sorted").returncode == 1


class TestWatching:
    def test_a_whole_run_follows_a_change_and_a_command_is_run(self, tmp_path: Path) -> None:
        servers: list[Any] = [CLEAN, CLEAN, FAULTY, FAULTY]
        lines: list[str] = []
        modes: list[str] = []

        def measure(mode: Any) -> Report:
            modes.append(mode)
            return report_on(
                StandIn(servers[0]), mode=mode, only=() if mode == "quick" else ["tools"]
            )

        told = tmp_path / "told"
        code = f"import sys; open({str(told)!r}, 'a').write(sys.stdin.read())"
        command = f'"{sys.executable}" -c "{code}"'
        metrics = tmp_path / "verify.prom"
        rounds = VerifyWatch("http://x/v1", measure, lines.append, str(metrics), command)
        while servers:
            rounds.round()
            del servers[0]
        assert modes == ["quick", "quick", "quick", "default", "quick"]
        rows = [json.loads(line) for line in lines]
        assert [bool(row["changes"]) for row in rows] == [False, False, True, False]
        assert [row["faults"] for row in rows][1:3] == [[], ["tools-compact"]]
        assert "tools-compact" in told.read_text("utf-8")
        assert 'dsv4_verify_fault{url="http://x/v1",id="tools-compact"' in metrics.read_text()
        assert rounds.is_faulty
        assert {path.name for path in tmp_path.iterdir()} == {"told", "verify.prom"}

    def test_a_server_that_is_gone_is_a_change_and_does_not_end_the_watching(self) -> None:
        lines: list[str] = []

        def measure(mode: Any) -> Report:
            raise ServerProblem("no server answers at this address")

        rounds = VerifyWatch("http://x/v1", measure, lines.append)
        rounds.round()
        rounds.round()
        rows = [json.loads(line) for line in lines]
        assert [len(row["changes"]) for row in rows] == [1, 0]
        assert rows[0]["problem"] == "no server answers at this address"

    def test_a_command_that_fails_is_said(self, capsys: pytest.CaptureFixture[str]) -> None:
        def measure(mode: Any) -> Report:
            raise ServerProblem("gone")

        VerifyWatch("http://x/v1", measure, lambda line: None, on_change="no-such-command").round()
        assert "dsv4: --on-change: " in capsys.readouterr().err

    def test_metrics_escape_what_servers_say(self, faulty: Report) -> None:
        text = metrics_text(faulty, 'http://x/"\n', 1_790_000_000.4)
        assert 'dsv4_verify_up{url="http://x/\\"\\n"} 1\n' in text
        assert "dsv4_verify_last_run_timestamp_seconds" in text
        assert text.endswith(" 1790000000\n")
        assert 'dsv4_verify_up{url="x"} 0\n' in metrics_text(None, "x", 0.0)

    def test_times(self) -> None:
        assert [interval(text) for text in ("30s", "10m", "1h", "1d")] == [30, 600, 3600, 86400]
        assert "expected a time such as 30s" in refused("verify", "http://x", "--watch", "0h")
        assert "with --watch" in refused("verify", "http://x", "--metrics-file", "x")


class TestSideBySide:
    def test_one_table_in_text_and_html(self, faulty: Report) -> None:
        reports = {"http://a/v1": faulty, "http://b/v1": "no server answers <b>"}
        text = vendors_text(reports)
        (tools,) = [line.split() for line in text.splitlines() if line.startswith("tools")]
        assert tools == ["tools", "fault", "not", "measured"]
        assert "tools-compact: schemas are written without spaces" in text
        page = vendors_html(reports)
        assert "no server answers &lt;b&gt;" in page
        assert "<b>" not in page

    def test_each_server_gets_its_own_key_and_no_other(self, tmp_path: Path) -> None:
        keys: dict[str, set[str]] = {"a": set(), "b": set()}
        file = tmp_path / "key"
        file.write_text("sk-of-a")
        with served(StandIn(CLEAN), keys["a"]) as a, served(StandIn(VLLM), keys["b"]) as b:
            options = ("--yes", "--only", "system", "--key-file", file, "--json", "-")
            done = dsv4("verify", a, b, *options, variables={"DSV4_VERIFY_KEY": "sk-of-nobody"})
        reports = json.loads(done.stdout)
        assert [each["prompt"]["profile"] for each in reports] == ["dsv4", "vllm-0.32"]
        assert keys == {"a": {"Bearer sk-of-a"}, "b": {""}}
        assert "more than there are servers" in refused(
            "verify", "http://x", "--key-file", file, "--key-file", file
        )
