"""The toolkit for the prompt format of DeepSeek-V4 models."""

from dsv4.encoding.prompt import Piece, Prompt
from dsv4.errors import EncodeError, Error, OptionError, ParseError, UnknownModel
from dsv4.format.dialects import DIALECTS, Dialect, dialect_for
from dsv4.format.endings import Ending
from dsv4.format.tokens import Special
from dsv4.parsing.diagnostics import DiagnosticKind
from dsv4.parsing.events import (
    AbortReason,
    ArgumentsDelta,
    ContentDelta,
    Diagnostic,
    End,
    Event,
    Finish,
    ReasoningDelta,
    StopHit,
    ToolCallAborted,
    ToolCallEnd,
    ToolCallStart,
)
from dsv4.parsing.message import Message, ToolCall, assemble
from dsv4.parsing.parser import StreamParser
from dsv4.parsing.tasks import parse_task
from dsv4.parsing.whole import parse
from dsv4.request import Request, encode

__version__ = "0.1.0"

__all__ = [
    "DIALECTS",
    "AbortReason",
    "ArgumentsDelta",
    "ContentDelta",
    "Diagnostic",
    "DiagnosticKind",
    "Dialect",
    "EncodeError",
    "End",
    "Ending",
    "Error",
    "Event",
    "Finish",
    "Message",
    "OptionError",
    "ParseError",
    "Piece",
    "Prompt",
    "ReasoningDelta",
    "Request",
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
    "dialect_for",
    "encode",
    "parse",
    "parse_task",
]
