"""Requests for --profile, which write the same prompt as a server does."""

from __future__ import annotations

import sys

import dsv4
from dsv4._cli.command_output import FINDINGS, Failure
from dsv4.profiles import Profile, render
from dsv4.profiles.decoded_prompts import decoded_prompt
from dsv4.profiles.official_api import own_name, served_release
from dsv4.profiles.server_requests import as_object
from dsv4.profiles.text_shields import shielded


def served_request(
    profile: Profile, place: str, value: object, dialect: str | None
) -> tuple[dsv4.Request, str | None]:
    """A request that writes the server's prompt for a value in a file, and the weights that the
    server runs, if known. Without a `dialect`, the server's dialect of the model is used."""
    try:
        body = as_object(value)
        dialect = profile.own_dialect(dialect, body)
        # Text that spells a token is not a token there, and must not be decoded as one.
        text = render(
            body if profile.special_text_acts else shielded(body), profile, dialect=dialect
        )
        decoded = decoded_prompt(text, profile.release(dialect))
    except dsv4.Error as error:
        raise Failure(f"{place}: {profile.server}: {error}", FINDINGS) from None
    if not decoded.exact:
        print(f"dsv4: {place}: {decoded.notes[-1].text}", file=sys.stderr)
    request = decoded.request
    model = body.get("model")
    named = profile.dialect_of_body is not None and isinstance(model, str)
    release = served_release(own_name(str(model))) if named else None
    if release is None or release.dialect != dialect:
        return request, None
    return request, release.release
