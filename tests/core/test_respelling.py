"""A release is a value: what a dialect spells in another way is written, encoded and read so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import dsv4
from dsv4._format.dialects import Tags
from dsv4._format.tokens import Special

FUNCTION = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"n": 1}'}}
PICTURE = {"type": "image_url", "image_url": {"url": "cat.png"}}
CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Look."},
    {"role": "assistant", "reasoning_content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "a", "content": "a cat"},
    {"role": "system", "content": "Hurry."},
]


def respellings(dialect: dsv4.Dialect) -> dict[str, tuple[dsv4.Dialect, str, str]]:
    """Each field of a dialect, spelled in another way, with what was written and what is now."""
    system, image, tags = dialect.system_token, dialect.image_token, dialect.tags
    found: dict[str, tuple[dsv4.Dialect, str, str]] = {}
    if system is not None:
        own = Special("<｜Sys｜>", system.id)
        found["system_token"] = (replace(dialect, system_token=own), str(system), str(own))
    if image is not None:
        own = Special("<｜picture｜>", image.id)
        found["image_token"] = (replace(dialect, image_token=own), str(image), str(own))
    for field in ("calls", "invoke", "parameter"):
        names = {"calls": tags.calls, "invoke": tags.invoke, "parameter": tags.parameter}
        was, now = f"｜DSML｜{names[field]}", f"｜DSML｜my_{field}"
        mine = replace(dialect, tags=Tags(**{**names, field: f"my_{field}"}))
        found[f"tags.{field}"] = (mine, was, now)
    section = dialect.tools_section.replace("You have access to a set of tools", "Here are tools")
    if section != dialect.tools_section:
        mine = replace(dialect, tools_section=section)
        found["tools_section"] = (mine, "You have access to a set of tools", "Here are tools")
    texts = {name: text and f"Mine: {text}" for name, text in dialect.efforts.items()}
    if dialect.efforts.get("max"):
        mine = replace(dialect, efforts=texts)
        found["efforts"] = (mine, f"{dialect.efforts['max']}", texts["max"])
    return found


CASES = [
    pytest.param(dialect, *values, id=f"{dialect}-{field}")
    for dialect in dsv4.DIALECTS.values()
    for field, values in respellings(dialect).items()
]
respelled = pytest.mark.parametrize(("dialect", "mine", "was", "now"), CASES)


def request(dialect: dsv4.Dialect) -> dsv4.Request:
    messages: list[Any] = list(CONVERSATION)
    if dialect.image_token is not None:
        messages[1] = {"role": "user", "content": [PICTURE, {"type": "text", "text": "Look."}]}
    effort: Any = "max" if "max" in dialect.efforts else None
    return dsv4.Request(messages, tools=[FUNCTION], effort=effort, dialect=dialect)


@respelled
def test_prompts_have_it(dialect: dsv4.Dialect, mine: dsv4.Dialect, was: str, now: str) -> None:
    prompt, own = str(request(dialect).encode()), str(request(mine).encode())
    assert was in prompt
    if was not in now:
        assert was not in own
    assert own.replace(now, was) == prompt


@respelled
def test_ids_have_it(
    dialect: dsv4.Dialect, mine: dsv4.Dialect, was: str, now: str, tokenizer: Any
) -> None:
    """A token of another name has the same id, and is one token."""
    if dialect.layout != "v4":
        pytest.skip("the ids of V3.2 are in its checkpoint alone")
    prompt = request(mine).encode()
    ids = tokenizer.with_dialect(mine).encode(prompt)
    if isinstance(getattr(mine, "system_token", None), Special) and now == mine.system_token:
        assert ids == tokenizer.with_dialect(dialect).encode(request(dialect).encode())
    assert tokenizer.with_dialect(mine).decode(ids) == str(prompt)


@respelled
def test_decode_gives_it_back(
    dialect: dsv4.Dialect, mine: dsv4.Dialect, was: str, now: str
) -> None:
    prompt = request(mine).encode()
    for known in (prompt, str(prompt)):
        decoded = dsv4.decode(known, dialect=mine)
        assert decoded.exact
        assert str(decoded.request.encode()) == str(prompt)


@respelled
def test_the_parser_reads_it(dialect: dsv4.Dialect, mine: dsv4.Dialect, was: str, now: str) -> None:
    asked = dsv4.Request(CONVERSATION[:2], tools=[FUNCTION], dialect=mine)
    answered = replace(asked, messages=CONVERSATION[:3])
    text = str(answered.encode()).removeprefix(str(asked.encode()))
    for strict in (False, True):
        message = dsv4.parse(text, thinking=True, dialect=mine, strict=strict)
        assert message.reasoning == "I look."
        assert [call.name for call in message.tool_calls] == ["look"]
        assert message.tool_calls[0].arguments == '{"n": 1}'
