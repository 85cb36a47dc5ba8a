"""The functions of the module released with DeepSeek-V4.1-Flash-1017.

The top-level module `encoding_dsv41_1017` is this one. It has the names of `encoding_dsv41`; the
ones below give other results (docs/format.md, section 14), all others are the same.
"""

from __future__ import annotations

from dsv4._format.dialects import V4_1_1017
from dsv4.compat import release_v41
from dsv4.compat.release_v41 import *  # noqa: F403
from dsv4.compat.release_v41 import __all__ as __all__

_FUNCTIONS = release_v41.ReleasedFunctionsV41(V4_1_1017, merges_first=True)
encode_messages = _FUNCTIONS.encode_messages
encode_case = _FUNCTIONS.encode_case
_encode_messages_text = _FUNCTIONS._encode_messages_text
render_message = _FUNCTIONS.render_message
merge_tool_messages = _FUNCTIONS.merge_tool_messages
find_last_user_index = _FUNCTIONS.find_last_user_index
_drop_thinking_messages = _FUNCTIONS._drop_thinking_messages
