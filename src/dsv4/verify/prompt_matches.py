"""Whether a prompt that a server shows is the one that is forecast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsv4.profiles.text_shields import TEXT_PLACES, TextPlace, unshielded
from dsv4.tokens.coder import common_prefix_length
from dsv4.verify.forecast_sources import Forecasts
from dsv4.verify.hypotheses import Hypothesis
from dsv4.verify.observations import Observation

# In forecasts, a text of unknown length is replaced by one of at most so many tokens, each with so
# many letters.
LONGEST_STAND_IN = 16
LETTERS = 5
_NOWHERE: frozenset[TextPlace] = frozenset()


def is_shown(
    forecasts: Forecasts, hypothesis: Hypothesis, observation: Observation, other: int | None = None
) -> bool:
    """Whether a prompt that the server shows is the one that is forecast. If `other` is given, the
    server may have a text of its own in place of up to so many tokens of the forecast."""
    if not observation.shows_prompt:
        return True
    prompt = forecasts.prompt(hypothesis, observation.probe)
    if prompt is None:
        return True
    text = unshielded(prompt)
    if observation.prompt is not None:
        if other is None:
            return text == observation.prompt
        return _is_but_for_a_text(text, observation.prompt, other * LETTERS)
    ids = list(observation.ids or ())
    acting = (_NOWHERE,) if text == prompt else (_NOWHERE, frozenset(TEXT_PLACES))
    return any(_are_shown(forecasts.ids(hypothesis, prompt, at), ids, other) for at in acting)


def _are_shown(forecast: Sequence[int | None], ids: Sequence[int], other: int | None) -> bool:
    if other is not None:
        return None in forecast or _is_but_for_a_text(forecast, ids, other)
    return len(forecast) == len(ids) and all(
        a is None or a == b for a, b in zip(forecast, ids, strict=True)
    )


def _is_but_for_a_text(forecast: Sequence[Any], parts: Sequence[Any], most: int) -> bool:
    """Whether all of the forecast is there, except for one place of at most `most` parts."""
    start = common_prefix_length(forecast, parts)
    end = common_prefix_length(forecast[start:][::-1], parts[start:][::-1])
    return len(forecast) - start - end <= most
