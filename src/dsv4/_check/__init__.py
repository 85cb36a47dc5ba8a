"""Linting of conversations: finds mistakes, and effects of the format that may be unexpected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from dsv4._check.findings import FINDING_KINDS, Finding, FindingKind, Purpose
from dsv4.request import Request
from dsv4.types import MessageInput

__all__ = ["FINDING_KINDS", "Finding", "FindingKind", "check"]


# The body of a Chat request. Any field of it may be wrong, so its type is not more specific.
ChatBody: TypeAlias = Mapping[str, Any]


def check(
    body: Iterable[MessageInput] | ChatBody | Request,
    *,
    profile: str | None = None,
    purpose: Purpose | None = None,
) -> list[Finding]:
    """Finds mistakes in a conversation, and effects of the format that may be unexpected.

    `body` is a list of messages, the body of a Chat request, or a `dsv4.Request`. `profile` names
    the server that it will be sent to, one of `dsv4.profiles.PROFILES`, whose traps are then found
    as well. `purpose` is "inference" for a prompt that a model is to answer, "training" for an
    example to train on, and None if it may be either.

    Returns the findings in the order of the messages: an empty list if there are none. It never
    raises, whatever the body is; an unknown `purpose` is an `OptionError`.
    """
    # Rules, profiles and readers take longer to load than most programs take to run.
    from dsv4._check.check_runner import run_checks
    from dsv4._inputs.request_bodies import RequestOverrides

    return run_checks(body, RequestOverrides(), profile=profile, purpose=purpose)
