"""The toolkit for the prompt format of DeepSeek-V4 models."""

from dsv4.encode.prompt import Piece, Prompt
from dsv4.encode.request import encode
from dsv4.errors import EncodeError, Error, ParseError, UnknownModel
from dsv4.parse.events import (
    ArgumentsDelta,
    ContentDelta,
    Diagnostic,
    End,
    ReasoningDelta,
    ToolCallAborted,
    ToolCallEnd,
    ToolCallStart,
)
from dsv4.parse.machine import StreamParser
from dsv4.parse.message import Message, ToolCall, assemble
from dsv4.parse.tasks import parse_task
from dsv4.parse.whole import parse
from dsv4.spec.dialects import DIALECTS, Dialect, dialect_for
from dsv4.spec.tokens import Special

__version__ = "0.1.0"

__all__ = [
    "ArgumentsDelta",
    "ContentDelta",
    "DIALECTS",
    "Diagnostic",
    "Dialect",
    "EncodeError",
    "End",
    "Error",
    "Message",
    "ParseError",
    "Piece",
    "Prompt",
    "ReasoningDelta",
    "Special",
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
