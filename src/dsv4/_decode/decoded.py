"""The result of decoding: a request, and notes on what the text does not tell."""

from __future__ import annotations

from typing import NamedTuple

from dsv4.request import Request


class Note(NamedTuple):
    """Something that a prompt does not say, or says in two ways, and what was made of it.

    `kind` is one of those in docs/decoding.md. `start` and `end` are the characters of the prompt
    that it is about; `message` the index in the request's messages, or None; `text` says it in
    words.
    """

    kind: str
    start: int
    end: int
    message: int | None
    text: str


class Decoded(NamedTuple):
    """A prompt, read.

    `request` holds messages, tools and options. `exact` says whether it encodes to the very prompt.
    `notes` say what was chosen where the prompt leaves a choice. `dialects` are the names of the
    dialects that the prompt may be of, the one of `request` first.
    """

    request: Request
    exact: bool
    notes: tuple[Note, ...]
    dialects: tuple[str, ...]
