"""Every row of the tables of spellings is read, and named in recovery.md: a new row is tested by
itself, and missed there."""

from __future__ import annotations

import pytest

import dsv4
from dsv4._completion.declared import DeclaredTools
from dsv4._completion.plain_completion import read_plainly
from dsv4._format import spellings
from dsv4._format.dialects import V4
from loading import ROOT

TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}]
ARGUMENTS = '{"a": "x"}'
DSML = spellings.BAR + spellings.WORD + spellings.BAR
USUAL = {"wrapper": "tool_calls", "invoke": "invoke", "parameter": "parameter"}
TOLD = (ROOT / "docs" / "recovery.md").read_text("utf-8")


def is_read(text: str) -> None:
    message = dsv4.parse(text, thinking=False, tools=TOOLS)
    assert [call.arguments.replace(" ", "") for call in message.tool_calls] == ['{"a":"x"}']
    assert message.content.strip() == ""


def block(name_attribute: str = "name", key_attribute: str = "name", **names: str) -> str:
    wrapper, invoke, parameter = ({**USUAL, **names}[kind] for kind in USUAL)
    key = f'<{DSML}{parameter} {key_attribute}="a" string="true">x</{DSML}{parameter}>'
    call = f'<{DSML}{invoke} {name_attribute}="f">\n{key}\n</{DSML}{invoke}>'
    return f"\n\n<{DSML}{wrapper}>\n{call}\n</{DSML}{wrapper}>"


@pytest.mark.parametrize(("prefix", "kind"), spellings.TAG_PREFIXES)
def test_beginnings_of_names(prefix: str, kind: str) -> None:
    is_read(block(**{kind: f"{prefix}_x"}))
    assert f"`{prefix}…`" in TOLD


@pytest.mark.parametrize("attribute", spellings.NAME_ATTRIBUTES["invoke"])
def test_attributes_with_the_name_of_a_tool(attribute: str) -> None:
    is_read(block(name_attribute=attribute))


@pytest.mark.parametrize("attribute", spellings.NAME_ATTRIBUTES["parameter"])
def test_attributes_with_the_name_of_a_parameter(attribute: str) -> None:
    is_read(block(key_attribute=attribute))


@pytest.mark.parametrize("label", sorted(spellings.PLAIN_INVOKES))
def test_calls_without_the_token(label: str) -> None:
    is_read(f'<{label} name="f"><parameter name="a">x</parameter></{label}>')
    assert f"`<{label} name=" in TOLD


@pytest.mark.parametrize("label", sorted(spellings.JSON_WRAPPERS))
@pytest.mark.parametrize("key", spellings.JSON_ARGUMENTS)
def test_calls_as_json(label: str, key: str) -> None:
    is_read(f'<{label}>{{"name": "f", "{key}": {ARGUMENTS}}}</{label}>')
    assert label in TOLD


@pytest.mark.parametrize("name", spellings.PARAMETER_CONTAINERS)
def test_tags_around_all_parameters(name: str) -> None:
    opening, closing = f"<{DSML}{name}>", f"</{DSML}{name}>"
    text = block().replace(f"<{DSML}param", f"{opening}\n<{DSML}param")
    is_read(text.replace(f"\n</{DSML}invoke", f"\n{closing}\n</{DSML}invoke"))
    assert f"`{name}`" in TOLD


@pytest.mark.parametrize("bar", spellings.BARS)
def test_bars(bar: str) -> None:
    is_read(block().replace(spellings.BAR, bar))


@pytest.mark.parametrize("mark", spellings.MARKS)
def test_no_mark_goes_by(mark: str) -> None:
    """What a tag may begin with takes no shortcut: at the end of a piece it waits."""
    for before in ("a ", "a\n"):
        parser = dsv4.StreamParser(thinking=False, tools=TOOLS)
        parser.feed("a")
        assert parser.pass_by("a ", dsv4.ContentDelta) == "a "
        assert parser.pass_by(before + mark, dsv4.ContentDelta) is None
        assert parser.feed(f"{before}{mark}") != []
        assert parser.held.endswith(mark)
    assert read_plainly(f"a {mark}", False, V4.tags, DeclaredTools(None)) is None
