"""What is said about repairs of a chat server's answers."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from gateway import TOOLS, gateway, run
from standins import ChatServer
from test_healing import MARKUP, answer

from dsv4._completion.message import assemble
from dsv4._format.tokens import THINK_END, THINK_START
from dsv4.api import chat
from dsv4.api.api_request import ApiSettings
from dsv4.serve.backend import BackendError, Chunk
from dsv4.serve.heal.healing_reader import HealingReader
from dsv4.serve.observe.logs import HEALED_KINDS, healed_kinds, healing_summary
from dsv4.tokens import Tokenizer

USER = {"role": "user", "content": "Hi"}
BASH = {"name": "bash", "arguments": '{"command": "ls"}'}


def call(**function: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "id": "x", "function": {**BASH, **function}}]}


def kinds(*deltas: dict[str, Any], finish: str = "stop") -> dict[str, int]:
    reader = HealingReader(chat.read({"messages": [USER], "tools": TOOLS}))
    for delta in deltas:
        reader.feed(Chunk(delta=delta))
    reader.feed(Chunk(finish=finish))
    reader.end()
    return dict(healed_kinds(reader.events))


class TestKinds:
    @pytest.mark.parametrize("size", [3, 1000])
    @pytest.mark.parametrize("field", ["content", "reasoning_content"])
    def test_a_call_that_came_as_text(self, field: str, size: int) -> None:
        text = f"So.\n\n{MARKUP}"
        pieces = [{field: text[n : n + size]} for n in range(0, len(text), size)]
        assert kinds({"reasoning_content": "Hm."}, *pieces) == {"leaked_call": 1}

    def test_a_call_that_only_the_end_makes_certain(self) -> None:
        text = MARKUP[: MARKUP.index("</")]
        assert kinds({"reasoning_content": "Hm."}, {"content": text}) == {"leaked_call": 1}

    @pytest.mark.parametrize(
        "deltas",
        [
            [{"reasoning_content": "Hm."}, {"content": f"{THINK_END}Yes."}],
            [{"content": f"{THINK_START}Hm.{THINK_END}Yes."}],
            [{"reasoning_content": f"Hm.{THINK_END}Yes."}],
        ],
    )
    def test_reasoning_and_answer_in_each_others_field(self, deltas: Any) -> None:
        assert kinds(*deltas) == {"leaked_reasoning": 1}

    @pytest.mark.parametrize(
        "broken",
        [{"arguments": '"{}"'}, {"name": "", "arguments": ""}],
    )
    def test_a_broken_call(self, broken: dict[str, str]) -> None:
        assert kinds({"content": "So."}, call(**broken)) == {"broken_call": 1}

    @pytest.mark.parametrize(
        "broken", [{"arguments": '{"command": '}, {"name": ""}, {"arguments": "[1]"}]
    )
    def test_a_call_that_cannot_be_read_is_a_failure(self, broken: dict[str, str]) -> None:
        with pytest.raises(BackendError, match="a call that cannot be read"):
            kinds({"content": "So."}, call(**broken))

    @pytest.mark.parametrize(
        ("deltas", "finish"),
        [
            ([{"reasoning_content": "Hm.\n"}, {"content": "\n\nYes, `a < b`."}], "stop"),
            ([{"reasoning_content": "Hm."}, {"content": "So."}, call()], "tool_calls"),
            ([{"content": "So."}, call(arguments="")], "tool_calls"),
            ([{"content": "So."}, call(arguments='{"command": "rm')], "length"),
            ([{"content": "So."}, {"reasoning_content": "Hm."}], "stop"),
        ],
    )
    def test_what_a_server_got_right(self, deltas: Any, finish: str) -> None:
        assert kinds(*deltas, finish=finish) == {}


class TestWhatIsSaid:
    def test_in_metrics_records_and_the_log(
        self, tokenizer: Tokenizer, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        record = tmp_path / "record"

        async def scenario() -> None:
            leak, fine = answer({"content": MARKUP}), answer({"content": "Hi."})
            upstream = ChatServer(tokenizer, leak, fine)
            async with (
                upstream.running() as url,
                gateway(
                    settings_backend="chat", upstream=url, record=str(record), inspect=True
                ) as g,
            ):
                _, before = await g.get("/metrics")
                assert 'dsv4_repairs_total{kind="leaked_call"} 0.0' in before
                assert 'dsv4_healed_answers_total{kind="broken_call"} 0.0' in before
                for _ in range(3):
                    await g.post("/v1/chat/completions", {"messages": [USER], "tools": TOOLS})
                _, after = await g.get("/metrics")
                assert 'dsv4_repairs_total{kind="leaked_call"} 1.0' in after
                assert g.server.metrics.healing() == "1 of 3 answers leaked calls"
                changes = {"path": "/playground/inspector/changes", "body": {"patience": 0}}
                _, _, seen = await g.post(**changes, **{"content-type": "application/json"})
                assert [bool(row["repairs"]) for row in seen["changed"]] == [True, False, False]

        with caplog.at_level(logging.INFO, "dsv4.serve"):
            run(scenario())
        said = {
            record.message: record.dsv4_fields  # type: ignore[attr-defined]
            for record in caplog.records
            if record.message in ("healed", "summary")
        }
        assert said["healed"].pop("id").startswith("turn_")
        assert said["healed"] == {"leaked_call": 1}
        assert said["summary"]["healing"] == "1 of 3 answers leaked calls"
        first = json.loads(record.read_text().splitlines()[0])
        assert "leaked_call" in [found["kind"] for found in first["diagnostics"]]

    def test_the_summary(self) -> None:
        none = dict.fromkeys(HEALED_KINDS, 0)
        assert healing_summary(0, none) == "no answers"
        assert healing_summary(1, none) == "1 answer, none in need of healing"
        assert healing_summary(5, none) == "5 answers, none in need of healing"
        removed = {**none, "forbidden_call": 1}
        assert healing_summary(1, removed) == "1 of 1 answer had calls that were removed"
        some = {**none, "leaked_call": 12, "broken_call": 3}
        expected = "12 of 340 answers leaked calls, 3 had broken calls"
        assert healing_summary(340, some) == expected


class TestWithoutTools:
    """A call that nobody can make."""

    @pytest.mark.parametrize(
        ("text", "left"),
        [
            (f"All done.\n\n{MARKUP}", "All done."),
            (f"```\n{MARKUP}\n```\nas above", None),
            (f"The tag `{MARKUP.splitlines()[0]}` opens it.", None),
        ],
    )
    @pytest.mark.parametrize("strips", [True, False])
    def test_is_removed_outside_of_code(self, text: str, left: str | None, strips: bool) -> None:
        settings = ApiSettings(strip_markup=strips)
        reader = HealingReader(chat.read({"messages": [USER]}, settings=settings))
        reader.feed(Chunk(delta={"reasoning_content": "Hm."}))
        for n in range(0, len(text), 7):
            reader.feed(Chunk(delta={"content": text[n : n + 7]}))
        reader.feed(Chunk(finish="stop"))
        reader.end()
        message = assemble(reader.events)
        assert message.content == (left if strips and left is not None else text)
        assert not message.tool_calls
        found = "forbidden_call" in [each.kind for each in message.diagnostics]
        assert found == (strips and left is not None)
