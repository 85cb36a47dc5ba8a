"""The frames of the protocols: those of a run of deltas as one pattern, filled by the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dsv4.api import ApiRequest, chat, messages, responses
from dsv4.api import Settings as ApiSettings
from dsv4.request import Request

PROTOCOLS = {"chat": chat, "responses": responses, "messages": messages}
# Rows beyond these have no frames: a text that flips between reasoning and content every few
# characters would make a hundred times its length of them.
MOST_FRAMED = 2_000


def framed(
    protocol: str,
    rows: Sequence[tuple[Any, Sequence[str]]],
    options: Mapping[str, Any],
    reason: Any,
) -> dict[str, Any]:
    """What a protocol sends for each row: an event, or the first of some deltas and their texts."""
    writer = _writer(protocol, options)
    # Written the same events with another text, it shows where the text of a delta stands.
    pattern = _writer(protocol, options)
    start = writer.start()
    pattern.start()
    written = [_row_frames(*row, writer, pattern) for row in rows[:MOST_FRAMED]]
    whole = len(rows) <= MOST_FRAMED
    return {
        "start": start,
        "rows": written,
        "finish": writer.finish(reason=reason) if whole else [],
        "whole": whole,
    }


def _writer(protocol: str, options: Mapping[str, Any]) -> Any:
    settings = ApiSettings(calls=options.get("calls", "streamed"))
    request = Request([{"role": "user", "content": ""}], dialect=options["dialect"])
    name: Any = protocol
    call = ApiRequest(request, name, "deepseek-v4", 1, stream=True, settings=settings)
    made = PROTOCOLS[protocol].Writer
    return made(call, id=f"{made.id_prefix}playground", created=0)


def _row_frames(event: Any, texts: Sequence[str], writer: Any, pattern: Any) -> list[Any]:
    """The frames of a row's event, or of its first delta; and the pattern of the deltas after."""
    if not texts:
        pattern.write(event)
        return [writer.write(event), None]
    first = writer.write(_with(event, texts[0]))
    pattern.write(_with(event, _MARK))
    if len(texts) == 1:
        return [first, None]
    # The rest as one delta: what is sent later of the whole text is then right.
    writer.write(_with(event, "".join(texts[1:])))
    more = pattern.write(_with(event, _MARK))
    return [first, {"frame": more[0], "path": _path_to(_MARK, more[0])} if more else None]


# A text that stands nowhere else in a frame.
_MARK = "\0"


def _with(event: Any, text: str) -> Any:
    return replace(event, text=text)


def _path_to(text: str, value: Any) -> list[str | int] | None:
    """The way to a text in a frame."""
    if value == text:
        return []
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    for key, item in inside:
        path = _path_to(text, item)
        if path is not None:
            return [key, *path]
    return None
