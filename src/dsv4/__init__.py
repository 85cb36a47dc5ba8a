"""The toolkit for the prompt format of DeepSeek-V4 models."""

from dsv4.encoding.memory import set_cache_size
from dsv4.encoding.omissions import Omission, OmissionRule
from dsv4.encoding.pieces import Field, Origin, Piece
from dsv4.encoding.placing import encode
from dsv4.encoding.prompt import Prompt
from dsv4.encoding.sampled import Sampled
from dsv4.errors import EncodeError, Error, OptionError, ParseError, UnknownModel
from dsv4.format.dialects import DIALECTS, Dialect, dialect_for
from dsv4.format.endings import Ending, EndingKind
from dsv4.format.tokens import Special
from dsv4.parsing.events import (
    ArgumentsDelta,
    ContentDelta,
    Diagnostic,
    End,
    Event,
    ReasoningDelta,
    ToolCallAborted,
    ToolCallEnd,
    ToolCallStart,
)
from dsv4.parsing.message import Message, ToolCall, assemble
from dsv4.parsing.parser import StreamParser
from dsv4.parsing.tasks import parse_task
from dsv4.parsing.whole import parse
from dsv4.request import Request

__version__ = "0.1.0"

__all__ = [
    "DIALECTS",
    "ArgumentsDelta",
    "ContentDelta",
    "Diagnostic",
    "Dialect",
    "EncodeError",
    "End",
    "Ending",
    "EndingKind",
    "Error",
    "Event",
    "Field",
    "Message",
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
    "set_cache_size",
]
