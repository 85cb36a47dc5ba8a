"""vLLM's copy of the released functions, as vLLM 0.20.2 has it.

It names an assistant's thinking `reasoning`, and refuses arguments that are not JSON. Everything
else is the released module's: its `__all__` is the one table of names. The functions below take
the place of its own. Later versions of vLLM write other prompts, and have no parser in this module:
their prompts are those of `dsv4.profiles`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsv4._encode import types
from dsv4._encode.turns import VLLM
from dsv4.compat.release import *  # noqa: F403
from dsv4.compat.release import __all__ as __all__
from dsv4.compat.release import _encode_by, _parameters_by, _parse_by, _render_by

thinking_template = "{reasoning}"


def __getattr__(name: str) -> Any:
    """Names the version, for those who look for what came later."""
    message = (
        f"module {__name__!r} has no attribute {name!r}: it has the names of vLLM 0.20.2; "
        "prompts of later versions are in dsv4.profiles"
    )
    raise AttributeError(message, name=name)


def encode_messages(  # type: ignore[no-redef]
    messages: Sequence[types.MessageInput],
    thinking_mode: types.ThinkingMode,
    context: Sequence[types.MessageInput] | None = None,
    drop_thinking: bool = True,
    add_default_bos_token: bool = True,
    reasoning_effort: types.Effort | None = None,
) -> str:
    """The prompt of a conversation, as text."""
    return _encode_by(
        VLLM,
        messages,
        thinking_mode,
        context,
        drop_thinking,
        add_default_bos_token,
        reasoning_effort,
    )


def render_message(  # type: ignore[no-redef]
    index: int,
    messages: list[dict[str, Any]],
    thinking_mode: types.ThinkingMode,
    drop_thinking: bool = True,
    reasoning_effort: types.Effort | None = None,
) -> str:
    """One merged message of a conversation, with the transition after it."""
    return _render_by(VLLM, index, messages, thinking_mode, drop_thinking, reasoning_effort)


def encode_arguments_to_dsml(  # type: ignore[no-redef]
    tool_call: dict[str, Any],
) -> str:
    """The parameters of `{"name", "arguments"}` as markup. Arguments in a string must be JSON."""
    return _parameters_by(VLLM, tool_call)


def parse_message_from_completion_text(  # type: ignore[no-redef]
    text: str,
    thinking_mode: types.ThinkingMode,
) -> dict[str, Any]:
    """A well-formed completion as a message. Raises a `ValueError` for any other."""
    return _parse_by(VLLM, text, thinking_mode)
