"""Decoding: a prompt back into messages, tools and options."""

from __future__ import annotations

from dsv4._decode.prompt_scan import Decoded, Note
from dsv4._encode.prompt import Prompt
from dsv4._format.dialects import Dialect
from dsv4.types import DialectName

__all__ = ["Decoded", "Note", "decode"]


def decode(
    prompt: str | Prompt, *, dialect: DialectName | Dialect | None = None, strict: bool = False
) -> Decoded:
    """The request that writes a prompt.

    `prompt` is its text, or a `Prompt`, such as `Tokenizer.prompt` creates from ids: then it is
    known which tokens are tokens, and which are only spelled. `dialect` is the release it is
    written in; without it, the prompt shows which it may be.

    Returns a `Decoded`. If that is `exact`, its request encodes to exactly this prompt. Raises
    `ParseError` for a prompt that no request writes, if `strict` is true; otherwise that is read as
    well as it can be. Raises `OptionError` for anything but a prompt, and for an unknown dialect.
    """
    # The readers take longer to load than most programs take to run.
    from dsv4._decode.request_search import decode_prompt

    return decode_prompt(prompt, dialect, strict)
