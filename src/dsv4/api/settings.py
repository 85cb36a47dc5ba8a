"""What a server decides for all of its requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Settings:
    """What a server decides for all of its requests.

    - `thinking`, `effort`: what holds where a request says nothing.
    - `later_system`: what becomes of system messages after the first other message, in a dialect
      without a system token: a `"reminder"` in the user turn, `"in_place"` as the released encoder
      writes them, or `"in_front"`, joined to the first system message.
    - `read_images`: whether the backend reads images, in a dialect that has them.
      `unsupported_images`: those that cannot be read are `"replace"`d by a text, or `"refuse"`d.
    - `grammars`: whether the backend takes grammars, so that a call can be forced after thinking.
    - `reasoning_field`: where Chat Completions writes reasoning: `"reasoning_content"`,
      `"reasoning"` or `"both"`.
    - `calls`: `"whole"` sends a call once it is complete, `"streamed"` its arguments as they come.
    - `max_tokens`, `max_tokens_thinking`, `max_tokens_max_effort`: the most tokens of a completion
      where a request does not say.
    - `model`: the name that is echoed where a request gives none.
    - `drop_thinking`: whether old reasoning is dropped as the format does.
    - `loads`: what reads JSON. Without one it is `jiter.from_json`, where that is installed (the
      extra `fast`), else Python's own. It must keep the order of keys, integers of any size and
      floats as `json.loads` does; where it raises a ValueError, Python's own decides. With
      `json.loads` Python's own is used in any case.
    """

    thinking: bool = True
    effort: str | int | None = "high"
    later_system: Literal["reminder", "in_place", "in_front"] = "reminder"
    read_images: bool = True
    unsupported_images: Literal["replace", "refuse"] = "replace"
    grammars: bool = False
    reasoning_field: Literal["reasoning_content", "reasoning", "both"] = "reasoning_content"
    calls: Literal["whole", "streamed"] = "whole"
    max_tokens: int = 8_192
    max_tokens_thinking: int = 65_536
    max_tokens_max_effort: int = 131_072
    model: str = "deepseek-v4"
    drop_thinking: bool = True
    loads: Callable[[bytes], Any] | None = None


DEFAULTS = Settings()
