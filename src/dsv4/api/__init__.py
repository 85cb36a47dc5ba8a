"""Three protocols over one format: OpenAI's Chat Completions and Responses, Anthropic's
Messages.

Each has a module with the same names: `read` turns a body into an `ApiRequest`, `Writer` turns the
parser's events into protocol events, `frames` turns those into bytes; `whole` is the response to a
request that does not stream, `error` the response to one that failed. `dsv4.api.read` recognises
the protocol by itself.
"""

from dsv4.api import chat, messages, responses
from dsv4.api.api_request import ApiRequest
from dsv4.api.api_request import ApiSettings as Settings
from dsv4.api.body_reader import read
from dsv4.api.errors import ApiError, ContextOverflow
from dsv4.api.event_writer import Usage
from dsv4.api.neutral_request import Sampling, ToolName
from dsv4.api.protocols import convert, left_out

__all__ = [
    "ApiError",
    "ApiRequest",
    "ContextOverflow",
    "Sampling",
    "Settings",
    "ToolName",
    "Usage",
    "chat",
    "convert",
    "left_out",
    "messages",
    "read",
    "responses",
]
