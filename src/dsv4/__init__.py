"""The toolkit for the prompt format of DeepSeek-V4 models."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from dsv4 import dataset, types
from dsv4._check import FINDING_KINDS, Finding, FindingKind, check
from dsv4._decode import Decoded, Note, decode
from dsv4._encode.encode import encode
from dsv4._encode.prompt import Field, Omission, OmissionRule, Origin, Piece, Prompt
from dsv4._encode.tools import set_cache_size
from dsv4._format.dialects import DIALECTS, V3_2_SERVED, Dialect, dialect_for
from dsv4._format.endings import Ending, EndingKind
from dsv4._format.tokens import Special
from dsv4._images.image_grid import ImageGrid, image_grid
from dsv4._inputs.image_inputs import image_block, image_size
from dsv4._parse.events import (
    AbortReason,
    ArgumentsDelta,
    ContentDelta,
    Diagnostic,
    DiagnosticKind,
    End,
    Event,
    Finish,
    ReasoningDelta,
    StopHit,
    ToolCallAborted,
    ToolCallEnd,
    ToolCallStart,
)
from dsv4._parse.holds import Hold
from dsv4._parse.parse import Message, ToolCall, assemble, parse, parse_task
from dsv4._parse.parser import StreamParser
from dsv4.errors import EncodeError, Error, ImageError, OptionError, ParseError, UnknownModel
from dsv4.request import Request
from dsv4.types import Sampled
from dsv4.version import __version__

if TYPE_CHECKING:
    from dsv4 import profiles

__all__ = [
    "DIALECTS",
    "FINDING_KINDS",
    "V3_2_SERVED",
    "AbortReason",
    "ArgumentsDelta",
    "ContentDelta",
    "Decoded",
    "Diagnostic",
    "DiagnosticKind",
    "Dialect",
    "EncodeError",
    "End",
    "Ending",
    "EndingKind",
    "Error",
    "Event",
    "Field",
    "Finding",
    "FindingKind",
    "Finish",
    "Hold",
    "ImageError",
    "ImageGrid",
    "Message",
    "Note",
    "Omission",
    "OmissionRule",
    "OptionError",
    "Origin",
    "ParseError",
    "Piece",
    "Prompt",
    "ReasoningDelta",
    "Request",
    "Sampled",
    "Special",
    "StopHit",
    "StreamParser",
    "ToolCall",
    "ToolCallAborted",
    "ToolCallEnd",
    "ToolCallStart",
    "UnknownModel",
    "__version__",
    "assemble",
    "check",
    "dataset",
    "decode",
    "dialect_for",
    "encode",
    "image_block",
    "image_grid",
    "image_size",
    "parse",
    "parse_task",
    "profiles",
    "set_cache_size",
    "types",
]


def _prompt_html(prompt: Prompt) -> str:
    """The prompt in colours, as a notebook displays it."""
    # Few programs display a prompt, so the view is loaded when one does.
    from dsv4._view.html_page import html_fragment

    return html_fragment(prompt)


# Attached here because the view imports the encoder, and not the other way round.
Prompt._repr_html_ = _prompt_html  # type: ignore[attr-defined]


def __getattr__(name: str) -> ModuleType:
    """Imports packages that most programs never use when they are first used."""
    if name == "profiles":
        return import_module("dsv4.profiles")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
