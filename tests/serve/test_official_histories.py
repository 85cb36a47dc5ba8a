"""Heal never earns a 400: random histories, adapted, are all taken by deepseek-recipe, asked to
reject what is missing. What heal refuses itself, the API would refuse too.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
from typing import Any, cast

import pytest
from muddled_histories import muddled
from official_histories import Body, history

from dsv4.api import ApiError
from dsv4.profiles.official_request import read_official
from dsv4.serve import Settings
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.heal.adaptations import DEEPSEEK, adapted_server
from dsv4.serve.heal.healing_route import HealingRoute
from dsv4.serve.heal.native_requests import native_body
from dsv4.serve.heal.request_adapter import RequestAdapter
from dsv4.serve.served_model import ServedModel
from parts import fewer

PROTOCOLS = ("chat", "messages", "responses")
# As the package calls the models.
MODELS = {"deepseek-flash": "DeepSeek-V4.1-Flash", "deepseek-v4-pro": "DeepSeek-V4-Pro"}
# With three protocols and two models, 10,002 histories in all, and as many muddled ones.
SEEDS = fewer(1_667, 40)
SETTINGS = Settings(backend="chat", upstream=("http://127.0.0.1:1",), adapt_for=DEEPSEEK)
# Where the API is ahead of the package, which refuses files and does not know reminders.
AHEAD = ("file_id", "latest_reminder")


class NoTurns:
    """A store of turns that knows none."""

    async def turns_in(self, *args: Any, **options: Any) -> dict[int, Any]:
        return {}


class Gateway:
    """As much of one as a route needs to read a request."""

    settings = SETTINGS

    def __init__(self) -> None:
        self.model = ServedModel(SETTINGS, None, makes_prompts=False)


def adapted(body: Body, protocol: Any) -> Body:
    """A request as heal sends it. Raises an `ApiError` where heal refuses it itself."""
    server = cast(GatewayState, Gateway())
    upstream = adapted_server(DEEPSEEK, server.model.dialect, SETTINGS)
    adapter = RequestAdapter(upstream, cast(Any, NoTurns()), keeps=False)
    call = HealingRoute(server, protocol)._read_call(body)
    outgoing = asyncio.run(adapter.adapted("owner", call, body)).body
    return {**outgoing, "stream": True}  # as every request to a chat server is


def recipe_options(recipe: Any) -> Any:
    dropped = recipe.WebSearchBehavior.Drop
    return recipe.ConversionOptions(
        reasoning_content_behavior=recipe.ReasoningContentBehavior.Reject,
        messages_web_search=dropped,
        responses_web_search=dropped,
    )


def is_taken(body: Body, protocol: str) -> bool:
    try:
        read_official(body, protocol)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("is_muddled", [False, True], ids=["plain", "muddled"])
def test_no_history_is_refused(protocol: str, model: str, is_muddled: bool) -> None:
    recipe = pytest.importorskip("deepseek_recipe")
    options, sent = recipe_options(recipe), 0
    for seed in range(SEEDS):
        body = history(seed, protocol, model)
        if is_muddled:
            body = muddled(body, protocol, random.Random(f"{seed} {protocol} {model}"))
        before = copy.deepcopy(body)
        try:
            outgoing = adapted(body, protocol)
        except ApiError:
            # Messages with reminders are the API's own route's.
            is_native = protocol != "chat" and native_body(body, protocol)
            assert is_native or not is_taken(body, protocol), body
            continue
        finally:
            assert body == before
        sent += 1
        read_official(outgoing)  # which raises where our own table would refuse it
        named = json.dumps({**outgoing, "model": MODELS[outgoing["model"]]})
        if "file_id" not in named:
            recipe.ChatCompletionRequest(named).convert(options)  # and the package where it would
    assert sent > SEEDS * 0.7


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("protocol", "needs"),
    [
        ("messages", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
        ("responses", {"tools": [{"type": "web_search"}]}),
    ],
)
def test_none_is_refused_on_the_apis_own_routes(protocol: Any, model: str, needs: Body) -> None:
    recipe = pytest.importorskip("deepseek_recipe")
    readers = {"messages": recipe.MessagesRequest, "responses": recipe.ResponsesRequest}
    options, sent = recipe_options(recipe), 0
    for seed in range(SEEDS):
        dice = random.Random(f"{seed} {protocol} {model}")
        body = muddled(history(seed, protocol, model), protocol, dice)
        body["tools"] = [*(body.get("tools") or ()), *needs["tools"]]
        before = copy.deepcopy(body)
        native = native_body(body, protocol)
        assert body == before
        if native is not None:
            sent += 1
            named = json.dumps({**native, "model": MODELS[native["model"]]})
            if not any(word in named for word in AHEAD):
                readers[protocol](named).convert(options)
    assert sent > SEEDS * 0.7


def test_most_of_them_are_refused_as_they_are() -> None:
    """Or the test above would prove nothing."""
    refused = 0
    for seed in range(100):
        try:
            read_official(history(seed, "chat", "deepseek-flash"))
        except ValueError:
            refused += 1
    assert refused > 60
