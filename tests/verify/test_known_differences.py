"""Known differences, and several servers side by side."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from http_servers import served
from running import dsv4, refused
from stand_ins import FORECASTER, VLLM, StandIn, server

from dsv4.verify import Report, run
from dsv4.verify.known_faults import with_known
from dsv4.verify.report_views import report_junit
from dsv4.verify.vendor_table import vendors_html, vendors_text

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


class TestSideBySide:
    def test_one_table_in_text_and_html(self, faulty: Report) -> None:
        reports = {"http://a/v1": faulty, "http://b/v1": "no server answers <b>"}
        text = vendors_text(reports)
        (tools,) = [line.split() for line in text.splitlines() if line.startswith("tools")]
        assert tools == ["tools", "fault", "not", "measured"]
        assert "tools-compact: schemas are written without spaces" in text
        page = vendors_html(reports)
        assert "no server answers &lt;b&gt;" in page
        (finding,) = [f for f in faulty.findings if f.verdict == "fault"]
        assert f"tools-compact: {finding.message} ({finding.probe})</summary>" in page
        assert page.count("<code>curl") == 1
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
