"""DeepSeek's own API: its names and rules, against what deepseek-recipe and the live API answered.

`reject` says that a row was asked for as the API asks: with reasoning that must come back. `dagger`
names the rule in which the API is ahead of the package.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from requests_of import VECTORS, rows

import dsv4
from dsv4 import profiles
from dsv4._format.dialects import dialect_served_as
from dsv4.profiles import official_api
from dsv4.profiles.official_request import read_official
from dsv4.tokens import Tokenizer
from loading import ROOT, loaded
from rows import each_row

ROWS = rows("official-rows.jsonl.gz")
LIVE = [json.loads(line) for line in (VECTORS / "live-counts.jsonl").read_text().splitlines()]
USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f"}}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "r"}
NAMES = "deepseek-flash, deepseek-v4-pro"
# Rows in which the API is ahead: what it answers there.
AHEAD = {
    "json_schema": official_api.words("json-schema"),
    "names": f"The supported API model names are {NAMES}, but you passed {{}}.",
    "system image": "input[0]: Image in system message is unsupported",
}


def answer(body: dict[str, Any], protocol: str) -> tuple[int, str]:
    """The status, and the prompt or the words."""
    try:
        return 200, read_official(body, protocol).prompt
    except dsv4.EncodeError as error:
        return 400, error.problem


def expected(row: dict[str, Any]) -> tuple[int, str | None]:
    """What the API answers to a row; the words None where only the status is known."""
    dagger, body = row.get("dagger"), row["body"]
    is_web_tool = dagger == "web tools" and row["protocol"] == "messages"
    is_file = dagger == "files" and "file_id is not supported" in row.get("message", "")
    if is_web_tool or is_file:
        return 200, None
    if dagger in AHEAD:
        return 400, AHEAD[dagger].format(body["model"])
    text = row["prompt"] if row["status"] == 200 else row["message"]
    return row["status"], text


@each_row("row", ROWS)
def test_status_words_and_prompt(row: dict[str, Any]) -> None:
    status, text = answer(row["body"], row["protocol"])
    if not row["reject"] and "must be passed back" in text:
        # The package was asked to fill in what is missing, and the API is not that kind.
        assert "assistant" in json.dumps(row["body"]) or "function_call" in json.dumps(row["body"])
        return
    wanted, words = expected(row)
    assert status == wanted
    if row["body"].get("tools") == [{"type": "custom", "name": "apply_patch"}]:
        return  # its description is DeepSeek's own
    assert text == (words if words is not None else text)


@each_row("row", LIVE)
def test_live_counts(row: dict[str, Any]) -> None:
    from dsv4.profiles.text_shields import shielded
    from dsv4.verify.token_counts import PromptCounter

    profile = profiles.profile.profile_named("deepseek-api")
    dialect = profile.own_dialect(None, row["request"])
    prompt = profiles.render(shielded(row["request"]), profile)
    counter = PromptCounter(Tokenizer.load())
    assert counter.count(prompt, profile.release(dialect), frozenset()) == row["prompt_tokens"]


class TestNames:
    @pytest.mark.parametrize(
        ("model", "release", "dialect"),
        [
            ("deepseek-flash", "DeepSeek-V4.1-Flash-1017", "v4.1-1017"),
            ("deepseek-flash[1m]", "DeepSeek-V4.1-Flash-1017", "v4.1-1017"),
            ("deepseek-v4-flash", "DeepSeek-V4.1-Flash-1017", "v4.1-1017"),
            ("deepseek-v4-flash-vision-exp", "DeepSeek-V4.1-Flash-1017", "v4.1-1017"),
            ("deepseek-v4-pro", "DeepSeek-V4-Pro-0813", "v4-0731"),
        ],
    )
    def test_served(self, model: str, release: str, dialect: str) -> None:
        served = official_api.served_release(model)
        assert served is not None
        assert (served.release, served.dialect) == (release, dialect)
        assert dialect in dsv4.DIALECTS

    @pytest.mark.parametrize(
        ("model", "own"),
        [
            ("~deepseek/deepseek-flash-latest", "deepseek-flash"),
            ("openrouter/deepseek/deepseek-flash:free", "deepseek-flash"),
            ("deepseek/deepseek-v4-pro", "deepseek-v4-pro"),
            ("~deepseek/deepseek-pro-latest", "deepseek-v4-pro"),
        ],
    )
    def test_what_a_providers_name_stands_for(self, model: str, own: str) -> None:
        """The profile writes its prompt and says that the API refuses the name, as the API does."""
        body = {"model": model, "messages": [USER]}
        assert profiles.render(body, "deepseek-api") == answer({**body, "model": own}, "chat")[1]
        assert "model-name" in {trap.kind for trap in profiles.traps(body, "deepseek-api")}
        assert answer(body, "chat")[0] == 400
        assert official_api.meant_name(model) == own

    @pytest.mark.parametrize("model", ["deepseek-flash[1m]", "~deepseek/deepseek-flash-latest"])
    def test_without_the_profile_a_name_means_what_is_served_today(self, model: str) -> None:
        served = official_api.served_release("deepseek-flash")
        assert served is not None
        call = dsv4.api.read({"model": model, "messages": [USER]})
        assert call.request.dialect.name == served.dialect
        assert "the profile deepseek-api" in call.notes[0]

    @pytest.mark.parametrize("name", ["flash", "pro"])
    def test_names_without_a_version_are_those_of_the_table(self, name: str) -> None:
        served = official_api.served_release(official_api.own_name(f"deepseek-{name}-latest"))
        dialect = dialect_served_as(f"deepseek-{name}")
        assert served is not None
        assert dialect is not None
        assert dialect.name == served.dialect

    @pytest.mark.parametrize("model", ["deepseek-chat", "deepseek-reasoner", "", None, 5, "x"])
    def test_refused(self, model: Any) -> None:
        assert official_api.served_release(model) is None
        with pytest.raises(dsv4.EncodeError, match="supported API model names are deepseek-flash"):
            official_api.known_release(model)

    @pytest.mark.parametrize(
        ("claude", "own"),
        [("claude-opus-5", "deepseek-v4-pro"), ("claude-sonnet-5[1m]", "deepseek-flash")],
    )
    def test_claude_names_in_messages_alone(self, claude: str, own: str) -> None:
        assert official_api.mapped_name(claude) == own
        body = {"model": claude, "max_tokens": 1, "messages": [USER]}
        dialect = official_api.known_release(own).dialect
        assert read_official(body, "messages").dialect == dialect
        assert answer(body, "chat")[0] == 400

    def test_a_dialect_that_is_given_wins(self) -> None:
        body = {"model": "deepseek-flash", "messages": [USER]}
        by_model = profiles.render(body, "deepseek-api")
        assert by_model != profiles.render(body, "deepseek-api", dialect="v4")
        assert profiles.render({"model": "x", "messages": [USER]}, "deepseek-api", dialect="v4.1")

    @pytest.mark.parametrize(
        ("model", "day", "release"),
        [
            ("deepseek-v4-flash", "2026-05-01", "DeepSeek-V4-Flash-0424"),
            ("deepseek-v4-flash", "2026-07-31", "DeepSeek-V4-Flash-0731"),
            ("deepseek-v4-flash", "2026-09-10", "DeepSeek-V4.1-Flash"),
            ("deepseek-v4-flash", "2026-10-17", "DeepSeek-V4.1-Flash-1017"),
            ("deepseek-flash", "2026-10-16", "DeepSeek-V4.1-Flash"),
            ("deepseek-flash", "2026-10-17", "DeepSeek-V4.1-Flash-1017"),
            ("deepseek-v4-pro", "2026-08-13", "DeepSeek-V4-Pro-0813"),
            ("deepseek-v4-pro", "2026-11-18", "DeepSeek-V4-Pro-0813"),
            ("deepseek-v4-flash-vision-exp", "2026-11-18", "DeepSeek-V4.1-Flash-1017"),
            ("deepseek-chat", "2026-07-24", None),
            ("deepseek-reasoner", "2026-07-24", None),
        ],
    )
    def test_what_was_served_on_a_day(self, model: str, day: str, release: str | None) -> None:
        """By what DeepSeek's pages, news and users said."""
        rows = (row for row in official_api.RELEASES if row.name == model)
        served = [
            row.release
            for row in rows
            if (row.since or "") <= day and (row.until is None or day < row.until)
        ]
        assert served == ([] if release is None else [release])

    @pytest.mark.parametrize(
        "row", official_api.RELEASES, ids=lambda row: f"{row.name} {row.since}"
    )
    def test_every_name_has_one_release_at_a_time(self, row: official_api.ServedRelease) -> None:
        assert row.source
        others = [o for o in official_api.RELEASES if o.name == row.name and o is not row]
        for other in others:
            assert row.until == other.since or other.until == row.since or row.until != other.until


class TestReasoning:
    """Every answer behind the last user message has some, where tools are in play."""

    @pytest.mark.parametrize("thought", [None, "", "r"])
    @pytest.mark.parametrize("model", ["deepseek-flash", "deepseek-v4-pro"])
    @pytest.mark.parametrize(
        ("tools", "calls", "system", "needed"),
        [
            (True, False, False, True),
            (False, True, False, True),
            (False, True, True, True),
            (False, False, False, False),
        ],
    )
    def test_chat(
        self, thought: str | None, model: str, tools: bool, calls: bool, system: bool, needed: bool
    ) -> None:
        turn: dict[str, Any] = {"role": "assistant", "content": "x", "reasoning_content": thought}
        messages: list[Any] = [USER, {**turn, "tool_calls": [CALL]}, RESULT]
        messages = messages if calls else [USER]
        messages += [{"role": "system", "content": "s"}] if system else []
        body: dict[str, Any] = {"model": model, "messages": [*messages, turn]}
        if tools:
            body["tools"] = [TOOL]
        status, words = answer(body, "chat")
        assert status == (400 if needed and thought is None else 200)
        if status == 400:
            assert words == official_api.words("reasoning")
        off = {**body, "thinking": {"type": "disabled"}}
        assert answer(off, "chat")[0] == 200
        assert answer({**body, "messages": [*body["messages"], USER]}, "chat")[0] == 200

    def test_a_running_loop_keeps_its_reasoning_on_the_newest_release(self) -> None:
        turn = {"role": "assistant", "content": "", "reasoning_content": "because"}
        messages = [USER, {**turn, "tool_calls": [CALL]}, RESULT]
        for model, kept in (("deepseek-flash", True), ("deepseek-v4-pro", False)):
            body = {"model": model, "messages": messages}
            assert ("because" in profiles.render(body, "deepseek-api")) == kept


class TestTraps:
    def kinds(self, **fields: Any) -> set[str]:
        body = {"model": "deepseek-flash", "messages": [USER], **fields}
        return {trap.kind for trap in profiles.traps(body, "deepseek-api")}

    @pytest.mark.parametrize(
        ("fields", "kind"),
        [
            ({"temperature": 0.2}, "no-effect"),
            ({"top_p": 0.5}, "no-effect"),
            ({"max_completion_tokens": 9}, "field-ignored"),
            ({"enable_thinking": False}, "field-ignored"),
            ({"chat_template_kwargs": {"thinking": False}}, "kwargs-ignored"),
            ({"model": "deepseek-chat"}, "refused"),
            ({"response_format": {"type": "json_schema", "json_schema": {}}}, "refused"),
            ({"max_tokens": 400_000}, "refused"),
            ({"n": 2}, "refused"),
            (
                {"messages": [USER, {"role": "assistant", "content": "H", "prefix": True}]},
                "prefix-beta",
            ),
        ],
    )
    def test_each(self, fields: dict[str, Any], kind: str) -> None:
        assert kind in self.kinds(**fields)

    def test_what_has_an_effect_is_no_trap(self) -> None:
        off = {"thinking": {"type": "disabled"}}
        assert "no-effect" not in self.kinds(temperature=0.2, **off)
        assert self.kinds(tools=[{"type": "deepseek_web_search"}]) == self.kinds()


def test_what_the_api_takes_is_no_error_of_a_check() -> None:
    messages = [
        {"role": "latest_reminder", "content": "2026-11-09,Monday,Singapore,Web,English"},
        {"role": "user", "content": [{"type": "file", "file_id": "file-api-1"}]},
    ]
    body = {"model": "deepseek-flash", "messages": messages}
    assert not [f for f in dsv4.check(body, profile="deepseek-api") if f.level == "error"]
    refused = dsv4.check({**body, "model": "x"}, profile="deepseek-api")
    assert [f.kind for f in refused if f.level == "error"].count("server_refused") == 1


def test_the_page_is_made_of_both_tables() -> None:
    page = loaded("docs/write_official_api.py")
    listed = [row["id"] for row in json.loads(page.RULES.read_text("utf-8"))["rules"]]
    assert len(listed) == len(set(listed))
    assert set(official_api.RULES) <= set(listed), "a refusal without the rule that explains it"
    assert (ROOT / "docs/official-api.md").read_text("utf-8") == page.page()
