"""A prompt as rows, and in a notebook."""

from __future__ import annotations

import dsv4
from builders import assistant, system, user
from dsv4.view.rows import roles_in, view_of

CALL = {"id": "a", "function": {"name": "f", "arguments": "{}"}}
MESSAGES = [
    system("Be brief."),
    user("Go."),
    assistant("", tool_calls=[CALL], reasoning="Hm."),
    {"role": "tool", "tool_call_id": "a", "content": "42"},
    user("And?"),
    {"role": "latest_reminder", "content": "Now."},
    user("So?"),
]


def test_the_prompt_shows_the_roles() -> None:
    prompt = dsv4.encode(MESSAGES, tools=[{"name": "f"}])
    assert roles_in(prompt) == {n: message["role"] for n, message in enumerate(MESSAGES)}


def test_rows_add_up_to_the_prompt() -> None:
    prompt = dsv4.encode(MESSAGES, tools=[{"name": "f"}])
    text = "".join(
        segment.text for row in view_of(prompt).rows for line in row.lines for segment in line
    )
    assert text.replace("⏎", "\n").replace("·", " ") == str(prompt)


def test_a_notebook_shows_a_prompt() -> None:
    page = dsv4.encode([user("<script>alert(1)</script>")])._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert 'class="dsv4"' in page
