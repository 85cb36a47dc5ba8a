"""The kinds of departures from the strict grammar. docs/parsing.md has an example of each."""

from __future__ import annotations

# How tags are spelled.
OTHER_RELEASE = "other_release"
MISSPELLED_TAG = "misspelled_tag"
PLAIN_MARKUP = "plain_markup"

# Where they stand, or do not.
MARKUP_AS_TEXT = "markup_as_text"
MISSING_WRAPPER = "missing_wrapper"
IMPLIED_CLOSE = "implied_close"
ORPHAN_CLOSER = "orphan_closer"
UNEXPECTED_TEXT = "unexpected_text"
UNEXPECTED_TAG = "unexpected_tag"
EMPTY_BLOCK = "empty_block"
SECOND_BLOCK = "second_block"
QUOTED_MARKUP = "quoted_markup"

# Calls.
UNDECLARED_TOOL = "undeclared_tool"
FORBIDDEN_CALL = "forbidden_call"
DROPPED_CALL = "dropped_call"
JSON_CALLS = "json_calls"
JSON_BODY = "json_body"
UNWRAPPED_ARGUMENTS = "unwrapped_arguments"
LIMIT = "limit"

# Parameters.
DUPLICATE_PARAMETER = "duplicate_parameter"
UNTYPED_PARAMETER = "untyped_parameter"
INVALID_JSON = "invalid_json"

# Reasoning and the text as a whole.
CALL_IN_REASONING = "call_in_reasoning"
UNCLOSED_REASONING = "unclosed_reasoning"
STRAY_THINK = "stray_think"
THINK_IN_CONTENT = "think_in_content"
STRAY_TOKEN = "stray_token"
CUT_SHORT = "cut_short"
TEXT_AFTER_BLOCK = "text_after_block"
