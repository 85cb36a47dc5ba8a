"""The toolkit for the prompt format of DeepSeek-V4 models."""

import sys
from typing import TYPE_CHECKING, Any

from dsv4._encode import views

if TYPE_CHECKING:
    from dsv4 import dataset, profiles, types
    from dsv4._check import FINDING_KINDS, Finding, FindingKind, check
    from dsv4._completion.events import (
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
    from dsv4._completion.message import Message, ToolCall, assemble
    from dsv4._completion.task_answers import parse_task
    from dsv4._decode import Decoded, Note, decode
    from dsv4._encode.encode import encode
    from dsv4._encode.prompt import Field, Omission, OmissionRule, Origin, Piece, Prompt
    from dsv4._encode.tools import set_cache_size
    from dsv4._fit.fit_arguments import FittedArguments, fit_arguments
    from dsv4._format.dialects import DIALECTS, V3_2_SERVED, Dialect, dialect_for
    from dsv4._format.endings import Ending, EndingKind
    from dsv4._format.tokens import Special
    from dsv4._images.image_grid import ImageGrid, image_grid
    from dsv4._inputs.image_inputs import image_block, image_size
    from dsv4._parse.holds import Hold
    from dsv4._parse.parse import parse
    from dsv4._parse.parser import StreamParser
    from dsv4.errors import EncodeError, Error, ImageError, OptionError, ParseError, UnknownModel
    from dsv4.request import Request
    from dsv4.types import Sampled
    from dsv4.version import __version__

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
    "FittedArguments",
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
    "fit_arguments",
    "image_block",
    "image_grid",
    "image_size",
    "parse",
    "parse_task",
    "profiles",
    "set_cache_size",
    "types",
]


# The module of each name. Modules that a program does not use are not loaded: a program that only
# encodes takes a third of the time to start.
_NAMES_OF_MODULES = {
    "dsv4._check": "FINDING_KINDS Finding FindingKind check",
    "dsv4._completion.events": (
        "AbortReason ArgumentsDelta ContentDelta Diagnostic DiagnosticKind End Event "
        "Finish ReasoningDelta StopHit ToolCallAborted ToolCallEnd ToolCallStart"
    ),
    "dsv4._completion.message": "Message ToolCall assemble",
    "dsv4._completion.task_answers": "parse_task",
    "dsv4._decode": "Decoded Note decode",
    "dsv4._encode.encode": "encode",
    "dsv4._encode.prompt": "Field Omission OmissionRule Origin Piece Prompt",
    "dsv4._encode.tools": "set_cache_size",
    "dsv4._fit.fit_arguments": "FittedArguments fit_arguments",
    "dsv4._format.dialects": "DIALECTS V3_2_SERVED Dialect dialect_for",
    "dsv4._format.endings": "Ending EndingKind",
    "dsv4._format.tokens": "Special",
    "dsv4._images.image_grid": "ImageGrid image_grid",
    "dsv4._inputs.image_inputs": "image_block image_size",
    "dsv4._parse.holds": "Hold",
    "dsv4._parse.parse": "parse",
    "dsv4._parse.parser": "StreamParser",
    "dsv4.errors": "EncodeError Error ImageError OptionError ParseError UnknownModel",
    "dsv4.request": "Request",
    "dsv4.types": "Sampled",
    "dsv4.version": "__version__",
}
_MODULES = {n: module for module, names in _NAMES_OF_MODULES.items() for n in names.split()}
_PACKAGES = ("dataset", "profiles", "types")


def __getattr__(name: str) -> Any:
    """A public name, or a package with public names, loaded when it is first used."""
    if name in _PACKAGES:
        return _module(f"dsv4.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'dsv4' has no attribute {name!r}", name=name)
    value = globals()[name] = getattr(_module(_MODULES[name]), name)
    return value


def _module(name: str) -> Any:
    __import__(name)  # `importlib` takes a while to import, for the same
    return sys.modules[name]


def _html_of(prompt: Any) -> str:
    from dsv4._view.html_page import html_fragment  # few programs display a prompt

    return html_fragment(prompt)


views["html"] = _html_of


def __dir__() -> list[str]:
    return sorted(__all__)
