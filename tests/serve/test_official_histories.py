"""Heal never earns a 400: random histories, adapted, are all taken by deepseek-recipe, asked to
reject what is missing.
"""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any, cast

import pytest
from official_histories import history

from dsv4.api import ApiError
from dsv4.profiles.official_request import read_official
from dsv4.serve import Settings
from dsv4.serve.heal.adaptations import DEEPSEEK, adapted_server
from dsv4.serve.heal.healing_route import without_the_servers_own
from dsv4.serve.heal.request_adapter import RequestAdapter
from dsv4.serve.served_model import ServedModel
from parts import fewer

PROTOCOLS = ("chat", "messages", "responses")
# As the package calls the models.
MODELS = {"deepseek-flash": "DeepSeek-V4.1-Flash", "deepseek-v4-pro": "DeepSeek-V4-Pro"}
# With three protocols and two models, 10,002 histories in all.
SEEDS = fewer(1_667, 40)
SETTINGS = Settings(backend="chat", upstream=("http://127.0.0.1:1",), adapt_for=DEEPSEEK)


class NoTurns:
    """A store of turns that knows none."""

    async def turns_in(self, *args: Any, **options: Any) -> dict[int, Any]:
        return {}


def adapted(body: dict[str, Any], protocol: Any) -> dict[str, Any] | None:
    """A request as heal sends it; None where heal refuses it itself, as it does a choice of a tool
    that nobody declared."""
    model = ServedModel(SETTINGS, None, makes_prompts=False)
    server = adapted_server(DEEPSEEK, model.dialect, SETTINGS)
    adapter = RequestAdapter(server, cast(Any, NoTurns()), keeps=False)
    try:
        call = model.read(without_the_servers_own(body) if protocol == "chat" else body, protocol)
    except ApiError as error:
        if error.path != "tool_choice":
            raise
        return None
    return asyncio.run(adapter.adapted("owner", call, body)).body


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_history_is_refused(protocol: str, model: str) -> None:
    recipe = pytest.importorskip("deepseek_recipe")
    options = recipe.ConversionOptions(
        reasoning_content_behavior=recipe.ReasoningContentBehavior.Reject
    )
    sent = 0
    for seed in range(SEEDS):
        body = history(seed, protocol, model)
        before = copy.deepcopy(body)
        outgoing = adapted(body, protocol)
        assert body == before
        if outgoing is None:
            continue
        sent += 1
        read_official(outgoing)  # which raises where our own table would refuse it
        named = json.dumps({**outgoing, "model": MODELS[outgoing["model"]]})
        recipe.ChatCompletionRequest(named).convert(options)  # and the package where it would
    assert sent > SEEDS * 0.8


def test_most_of_them_are_refused_as_they_are() -> None:
    """Or the test above would prove nothing."""
    refused = 0
    for seed in range(100):
        try:
            read_official(history(seed, "chat", "deepseek-flash"))
        except ValueError:
            refused += 1
    assert refused > 60
