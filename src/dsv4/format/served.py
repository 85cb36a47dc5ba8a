"""Words that servers write and the releases do not (docs/servers.md)."""

from __future__ import annotations

# deepseek-recipe's answer to `{"type": "json_object"}` on V4.
JSON_OBJECT = (
    "You are a helpful assistant designed to output JSON.\n"
    "## Response Format:\n\nReply with JSON object ONLY."
)
# What deepseek-recipe writes for an image: on V4, which has none, and on V4.1.
NO_IMAGE = "[Unsupported Image]"
RECIPE_IMAGE = "<｜image｜>"

# A client's own line at the head of a system prompt, which servers cut off.
BILLING_HEADER = "x-anthropic-billing-header"
