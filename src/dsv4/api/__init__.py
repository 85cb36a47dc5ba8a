"""Three protocols over one format: OpenAI's Chat Completions and Responses, Anthropic's Messages.

Each has a module with the same names: `read` makes an `ApiRequest` of a body, `Writer` protocol
events of the parser's, `frames` bytes of those; `whole` is the response of a request that does not
stream, `error` that of one that failed.
"""

from dsv4.api import chat, messages, responses
from dsv4.api.asked import Sampling
from dsv4.api.converting import convert
from dsv4.api.errors import ApiError, ContextOverflow
from dsv4.api.request import ApiRequest
from dsv4.api.settings import Settings
from dsv4.api.tools import ToolName
from dsv4.api.usage import Usage

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
    "messages",
    "responses",
]
