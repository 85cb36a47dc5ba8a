"""The toolkit for the prompt format of DeepSeek-V4 models."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from dsv4 import dataset
from dsv4._check import FINDING_KINDS, Finding, FindingKind, check
from dsv4._decode import Decoded, Note, decode
from dsv4._encode.cache import set_cache_size
from dsv4._encode.encode import encode
from dsv4._encode.fragments import Field, Origin, Piece
from dsv4._encode.omissions import Omission, OmissionRule
from dsv4._encode.prompt import Prompt
from dsv4._format.dialects import DIALECTS, Dialect, dialect_for
from dsv4._format.endings import Ending, EndingKind
from dsv4._format.tokens import Special
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
from dsv4._parse.parse import Message, ToolCall, assemble, parse, parse_task
from dsv4._parse.parser import Hold, StreamParser
from dsv4.errors import EncodeError, Error, OptionError, ParseError, UnknownModel
from dsv4.request import Request
from dsv4.types import Sampled
from dsv4.version import __version__

if TYPE_CHECKING:
    from dsv4 import profiles

__all__ = [
    "DIALECTS",
    "FINDING_KINDS",
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
    "parse",
    "parse_task",
    "profiles",
    "set_cache_size",
]


def __getattr__(name: str) -> ModuleType:
    """Rooms that most programs never ask for are imported when they are."""
    if name == "profiles":
        return import_module("dsv4.profiles")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
