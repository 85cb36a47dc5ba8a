"""Pictures on the page: kept beside the JSON, in which a name stands for each, because a text of
megabytes cannot be edited; put into a request; and what one would cost in other sizes.
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

# The dialect of a request that gets its first picture, where its own has none.
WITH_PICTURES = "v4.1"


def add_picture(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, Any]:
    """The request with one more picture, in its last turn if that is a user's.

    `body` has the JSON text `source`, the switches, the `pictures` and the `name` of the new one.
    `source` of what is returned is the new text; `dialect` is the one that pictures need, None
    where the request's own has them.
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
    """A picture as the protocol has it, by its name."""
    named = f"{PICTURE}{name}"
    if page.protocol == "responses":
        return {"type": "input_image", "image_url": named}
    if page.protocol == "messages":
        media = url[len("data:") :].partition(";")[0]
        source = {"type": "base64", "media_type": media, "data": named}
        return {"type": "image", "source": source}
    return {"type": "image_url", "image_url": {"url": named}}


# In percent of the picture's sides.
SCALES = (*range(5, 100, 5), 100, 110, 125, 150, 175, 200, 250, 300, 400)


def picture_sizes(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, Any]:
    """What a picture of `width` and `height` would cost in other sizes, in a `dialect`: for each of
    `SCALES`, its size, cells and tokens.

    `tokens` are those that it has, where they are known. Raises an `OptionError` for no size of a
    picture, and for a dialect without any.
    """
    dialect = DIALECTS[choice_field(body, "dialect", tuple(DIALECTS), WITH_PICTURES)]
    size: list[Any] = [body.get(name) for name in ("width", "height")]
    # In v4-vision, up to three tokens depend on what stands before the picture.
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
