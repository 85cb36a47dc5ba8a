"""With --profile: requests that write the prompts which a server makes of them."""

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
    """A request that writes what a server makes of a value in a file, and the weights behind it
    where they are known. Without a `dialect`, the server tells that of its model."""
    try:
        body = as_object(value)
        dialect = profile.own_dialect(dialect, body)
        # What a text spells is no token there, and must not be taken for one when it is read.
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
