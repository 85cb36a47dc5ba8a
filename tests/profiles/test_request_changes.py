"""What proxies do to requests, as it was seen behind them."""

from __future__ import annotations

from typing import Any

import pytest

from dsv4.profiles.request_changes import no_effort_as_switch

ON, OFF = {"type": "enabled"}, {"type": "disabled"}


@pytest.mark.parametrize(
    ("sent", "arrived"),
    [
        ({}, {}),
        ({"thinking": ON}, {"thinking": ON}),
        ({"thinking": OFF}, {"thinking": OFF}),
        ({"reasoning_effort": "none"}, {"thinking": OFF}),
        ({"reasoning_effort": "low"}, {"thinking": ON, "reasoning_effort": "low"}),
        ({"reasoning_effort": "none", "thinking": ON}, {"thinking": ON}),
        ({"reasoning_effort": "none", "thinking": OFF}, {"thinking": OFF}),
        ({"reasoning_effort": "max", "thinking": OFF}, {"thinking": OFF}),
        (
            {"reasoning_effort": "max", "thinking": {"type": "adaptive"}},
            {"thinking": ON, "reasoning_effort": "max"},
        ),
    ],
)
def test_efforts_behind_litellms_provider_deepseek(sent: Any, arrived: Any) -> None:
    """As a server behind litellm 1.109.1 got them."""
    messages = [{"role": "user", "content": "Hi"}]
    assert no_effort_as_switch({"messages": messages, **sent}) == {"messages": messages, **arrived}
