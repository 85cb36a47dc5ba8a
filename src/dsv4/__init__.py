"""The toolkit for the prompt format of DeepSeek-V4 models."""

import sys
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dsv4.encode.prompt import Piece, Prompt
    from dsv4.encode.request import encode
    from dsv4.errors import EncodeError, Error, ParseError, UnknownModel
    from dsv4.parse.events import (
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
    from dsv4.parse.message import Message, ToolCall, assemble
    from dsv4.parse.parser import StreamParser
    from dsv4.parse.tasks import parse_task
    from dsv4.parse.whole import parse
    from dsv4.spec.dialects import DIALECTS, Dialect, dialect_for
    from dsv4.spec.tokens import Special

__version__ = "0.1.0"

__all__ = [
    "DIALECTS",
    "ArgumentsDelta",
    "ContentDelta",
    "Diagnostic",
    "Dialect",
    "EncodeError",
    "End",
    "Error",
    "Event",
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

# Each half is loaded when it is first asked for: who only encodes does not pay for the parser.
_HOMES = {
    "dsv4.encode.prompt": ("Piece", "Prompt"),
    "dsv4.encode.request": ("encode",),
    "dsv4.errors": ("EncodeError", "Error", "ParseError", "UnknownModel"),
    "dsv4.parse.events": (
        *("ArgumentsDelta", "ContentDelta", "Diagnostic", "End", "Event", "ReasoningDelta"),
        *("ToolCallAborted", "ToolCallEnd", "ToolCallStart"),
    ),
    "dsv4.parse.message": ("Message", "ToolCall", "assemble"),
    "dsv4.parse.parser": ("StreamParser",),
    "dsv4.parse.tasks": ("parse_task",),
    "dsv4.parse.whole": ("parse",),
    "dsv4.spec.dialects": ("DIALECTS", "Dialect", "dialect_for"),
    "dsv4.spec.tokens": ("Special",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_loaded: dict[str, object] = {}


def __getattr__(name: str) -> object:
    if name not in _loaded:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        _loaded[name] = getattr(import_module(_HOME_OF[name]), name)
    return _loaded[name]


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """Keeps `encode` and `parse` the functions, though folders here have these names too.

    The import system binds a folder to its name in the package when it is first loaded, which may
    be before or after anybody asks for the function.
    """

    @property
    def encode(self) -> object:
        return __getattr__("encode")

    @encode.setter
    def encode(self, folder: object) -> None:
        pass

    @property
    def parse(self) -> object:
        return __getattr__("parse")

    @parse.setter
    def parse(self, folder: object) -> None:
        pass


sys.modules[__name__].__class__ = _Package
