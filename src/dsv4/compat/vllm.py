"""vLLM's copy of the released functions, as vLLM 0.20.2 has it.

It names an assistant's thinking `reasoning`, and refuses arguments that are not JSON. Everything
else is the released module's: its `__all__` is the one table of names. The functions below replace
its own. Later versions of vLLM write other prompts, and have no parser in this module: their
prompts are in `dsv4.profiles`.
"""

from __future__ import annotations

from typing import Any

from dsv4._encode.turns import VLLM
from dsv4._format.dialects import V4
from dsv4.compat.release import *  # noqa: F403
from dsv4.compat.release import ReleasedFunctions
from dsv4.compat.release import __all__ as __all__

thinking_template = "{reasoning}"


def __getattr__(name: str) -> Any:
    """Raises an error that names the version, for names that came later."""
    message = (
        f"module {__name__!r} has no attribute {name!r}: it has the names of vLLM 0.20.2; "
        "prompts of later versions are in dsv4.profiles"
    )
    raise AttributeError(message, name=name)


_FUNCTIONS = ReleasedFunctions(V4, VLLM)
encode_messages = _FUNCTIONS.encode_messages
render_message = _FUNCTIONS.render_message
encode_arguments_to_dsml = _FUNCTIONS.encode_arguments_to_dsml
parse_message_from_completion_text = _FUNCTIONS.parse_message_from_completion_text
