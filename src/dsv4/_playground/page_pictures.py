"""Pictures on the page. They are kept beside the JSON text, which has only their names, because a
text of megabytes cannot be edited. They can be added to a request, and their costs in other sizes
can be computed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dsv4._format.dialects import DIALECTS
from dsv4._images.image_grid import image_grid
from dsv4._images.image_size import LONGEST_SIDE, image_size
from dsv4._images.image_source import image_bytes
from dsv4._playground.page_problem import PageProblem, choice_field, text_field
from dsv4._playground.page_request import PageRequest, PlaygroundContext, pictures_in
from dsv4._playground.provenance import PICTURE
from dsv4.errors import Error, ImageError, mismatch

# The dialect of a request that gets its first picture, if its own has no pictures.
WITH_PICTURES = "v4.1"


def add_picture(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, Any]:
    """The request with one more picture, in its last turn if that is a user's.

    `body` has the JSON text `source`, the switches, the `pictures` and the `name` of the new one.
    In the result, `source` is the new text; `dialect` is one with pictures, None if the request's
    own dialect has them.
    """
    name = text_field(body, "name")
    url = pictures_in(body).get(name)
    try:
        data = image_bytes({"url": url})
        if data is None:
            raise PageProblem(mismatch(url, "a picture"), location=("name",))
        image_size(data)
    except ImageError as error:
        raise PageProblem(f"{name}: {error}") from None
    page = PageRequest.from_body(body, context)
    value = json.loads(page.source.text)
    messages = _messages(value, page.protocol)
    last = messages[-1] if messages and _is_users(messages[-1]) else {"role": "user", "content": []}
    last["content"] = [*_blocks(last["content"], page.protocol), _block(name, url or "", page)]
    if not messages or last is not messages[-1]:
        messages.append(last)
    return {
        "source": json.dumps(value, ensure_ascii=False, indent=2),
        "dialect": None if _has_pictures(page) else WITH_PICTURES,
    }


def _has_pictures(page: PageRequest) -> bool:
    try:
        return DIALECTS[page.dialect].image_token is not None
    except Error:  # the request has another problem, which is shown
        return False


def _messages(value: Any, protocol: str) -> list[Any]:
    """The list that a turn can be added to."""
    if isinstance(value, list):
        return value
    field = "input" if protocol == "responses" else "messages"
    turns = value.get(field) if isinstance(value, dict) else None
    if protocol == "responses" and isinstance(turns, str):
        turns = value[field] = [{"role": "user", "content": turns}]
    if not isinstance(turns, list):
        raise PageProblem(f"found no list of {field}, expected one to put the picture in")
    return turns


def _is_users(message: object) -> bool:
    return isinstance(message, dict) and message.get("role") == "user" and "content" in message


def _blocks(content: Any, protocol: str) -> list[Any]:
    if isinstance(content, list):
        return content
    kind = "input_text" if protocol == "responses" else "text"
    return [{"type": kind, "text": content}] if content else []


def _block(name: str, url: str, page: PageRequest) -> dict[str, Any]:
    """A block with the name of a picture, as the protocol writes it."""
    named = f"{PICTURE}{name}"
    if page.protocol == "responses":
        return {"type": "input_image", "image_url": named}
    if page.protocol == "messages":
        media = url[len("data:") :].partition(";")[0]
        source = {"type": "base64", "media_type": media, "data": named}
        return {"type": "image", "source": source}
    return {"type": "image_url", "image_url": {"url": named}}


# The sizes in percent of the picture's sides.
SCALES = (*range(5, 100, 5), 100, 110, 125, 150, 175, 200, 250, 300, 400)


def picture_sizes(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, Any]:
    """The costs of a picture of `width` and `height` in other sizes, in a `dialect`: for each of
    `SCALES`, its size, cells and tokens.

    `tokens` is the number of tokens that it has, if known. Raises an `OptionError` for an invalid
    size, and for a dialect without pictures.
    """
    dialect = DIALECTS[choice_field(body, "dialect", tuple(DIALECTS), WITH_PICTURES)]
    size: list[Any] = [body.get(name) for name in ("width", "height")]
    # In v4-vision, up to three tokens depend on the text before the picture.
    starts = (image_grid(*size, dialect=dialect, start=n) for n in range(4))
    whole = next((grid for grid in starts if grid.tokens == body.get("tokens")), None)
    whole = whole or image_grid(*size, dialect=dialect)
    sizes = []
    for scale in SCALES:
        sides = (_scaled(side, scale) for side in (whole.width, whole.height))
        grid = image_grid(*sides, dialect=dialect, start=whole.start)
        sizes.append({"scale": scale, **{name: getattr(grid, name) for name in _SHOWN}})
    return {"sizes": sizes}


_SHOWN = ("width", "height", "columns", "rows", "tokens")


def _scaled(side: int, percent: int) -> int:
    return min(max(1, round(side * percent / 100)), LONGEST_SIDE)
