"""Recorded requests, sent to a second server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from http_servers import served
from running import dsv4, refused

from dsv4.verify import Reply, ServerProblem
from dsv4.verify.probes import PROBES
from dsv4.verify.vendor_replay import ReplayPair, replay_against, replay_pairs


def response(finish: str, *calls: tuple[str, str], content: str = "") -> dict[str, Any]:
    made = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": content, "tool_calls": made}
    return {"choices": [{"message": message, "finish_reason": finish}]}


PARIS = ("weather", '{"city": "Paris"}')
BODY = {
    "model": "other",
    "stream": True,
    "messages": [{"role": "user", "content": "Weather?"}],
    "tools": PROBES["tools-two"].request["tools"],
}
LOG = [{"request": BODY, "response": response("tool_calls", PARIS)} for _ in range(4)]


class Answering:
    """A server that gives one answer after the other."""

    url = "http://stand-in/v1"

    def __init__(self, *answers: Reply) -> None:
        self.answers = list(answers)
        self.bodies: list[Mapping[str, Any]] = []

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        self.bodies.append(body)
        return self.answers[min(len(self.bodies), len(self.answers)) - 1]


def test_rates_with_intervals() -> None:
    server = Answering(
        Reply(200, body=response("tool_calls", PARIS)),
        Reply(200, body=response("stop", content="I do not know.")),
        Reply(200, body=response("tool_calls", ("weather", '{"city": 7}'))),
        Reply(200, body=response("tool_calls", ("time", "{}"))),
    )
    report = replay_against(server, replay_pairs(LOG, 10), "theirs")
    rates = {name: (each["holds"], each["of"]) for name, each in report.to_dict()["rates"].items()}
    assert rates == {
        "answered": (4, 4),
        "same_finish": (3, 4),
        "same_kind": (3, 4),
        "same_tools": (2, 3),
        "valid_calls": (2, 3),
        "recorded_valid_calls": (4, 4),
    }
    low, high = report.to_dict()["rates"]["same_finish"]["interval"]
    assert 0.2 < low < 0.75 < high < 1
    sent = server.bodies[0]
    assert (sent["model"], "stream" in sent) == ("theirs", False)
    assert BODY["stream"]  # the log is as it was


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("weather", "{}"), ("weather", "[1]"), ("weather", "{"), ("no-such-tool", "{}")],
)
def test_calls_that_are_not_valid(name: str, arguments: str) -> None:
    server = Answering(Reply(200, body=response("tool_calls", (name, arguments))))
    report = replay_against(server, [ReplayPair(BODY, None)], "m")
    assert (report.rates["valid_calls"].holds, report.rates["valid_calls"].of) == (0, 1)


def test_a_server_that_stops_answering_keeps_what_it_said() -> None:
    right = Reply(200, body=response("tool_calls", PARIS))
    server = Answering(right, Reply(429, body={}))
    report = replay_against(server, replay_pairs(LOG * 5, 20), "m")
    assert len(server.bodies) == 4
    assert report.problems == {"status 429": 3}
    with pytest.raises(ServerProblem, match="status 500"):
        replay_against(Answering(Reply(500, body={})), replay_pairs(LOG, 9), "m")


def test_the_command(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in LOG))
    with served(Answering(Reply(200, body=response("stop", content="No.")))) as url:
        done = dsv4("replay", log, "--against", url, "--yes", "--limit", 3)
        assert (done.returncode, b"deepseek-v4" in done.stdout) == (0, True)
        assert b"0 of 3 (0% to 56%)" in done.stdout
        assert b"3 answers: recorded tool_calls, now stop" in done.stdout
        assert "expected --yes" in dsv4("replay", log, "--against", url).stderr.decode()
    with served(Answering(Reply(400, body={}))) as url:
        done = dsv4("replay", log, "--against", url, "--yes", "--limit", 1)
        assert (done.returncode, b"no request was answered" in done.stderr) == (2, True)
    log.write_text("{}\n")
    assert "found no request" in refused("replay", log, "--against", "http://x", "--yes")
