"""The fixed texts of prompts: those of the releases, and those that servers add (docs/servers.md).

The long ones are files beside this module, byte for byte as released.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dsv4._format import tokens
from dsv4._format.frozen_class import dataclass

# deepseek-recipe's answer to `{"type": "json_object"}` on V4.
RECIPE_JSON_OBJECT = (
    "You are a helpful assistant designed to output JSON.\n"
    "## Response Format:\n\nReply with JSON object ONLY."
)
# Texts that deepseek-recipe writes for an image: on V4, which has no images, and on V4.1.
RECIPE_NO_IMAGE = "[Unsupported Image]"
RECIPE_IMAGE = "<｜image｜>"

# A client's own line at the head of a system prompt, which servers cut off: it changes from session
# to session, and with it every cached prefix.
BILLING_HEADER = "x-anthropic-billing-header"


def read_text(name: str, module: str = __file__) -> str:
    """The text of a file beside a `module`, which gives its `__file__`."""
    path = os.path.join(os.path.dirname(module), name)
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def read_table(name: str, module: str) -> Any:
    """The value in a JSON file beside a `module`."""
    import json  # encoding alone needs none of these files

    return json.loads(read_text(f"{name}.json", module))


RESPONSE_FORMAT = (
    "## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n"
)


UNSUPPORTED = ("[Unsupported ", "]")


# V3.2's words between a developer turn's extras and its text (section 11.4).
DEVELOPER_MESSAGE = "\n\n# The user's message is: "


@dataclass(frozen=True)
class Texts:
    """The words that every dialect writes around a caller's texts: V4's, unless it says otherwise.
    The white space between parts belongs to the layout."""

    # Around the result of a tool, and before a response format's schema (sections 4 and 5).
    result_start: str = tokens.RESULT_START
    result_end: str = tokens.RESULT_END
    response_format: str = RESPONSE_FORMAT
    # Around the kind of a block that is neither text nor an image.
    unsupported_start: str = UNSUPPORTED[0]
    unsupported_end: str = UNSUPPORTED[1]
    # V3.2's: a developer's text, results, and each of them (section 11.4).
    developer_message: str = DEVELOPER_MESSAGE
    results_start: str = tokens.RESULTS_START
    results_end: str = tokens.RESULTS_END
    one_result_start: str = tokens.ONE_RESULT_START
    one_result_end: str = tokens.ONE_RESULT_END


TOOLS_SECTION = read_text("tools_section.txt")


TOOLS_SECTION_V3_2 = read_text("tools_section_v3.2.txt")


EFFORT_MAX = read_text("effort_max.txt")


EFFORT_0731_MAX = read_text("effort_0731_max.txt")


# V4.1's (section 9), and the numbers of its names.
EFFORT_TEMPLATE = (
    "Reasoning Effort: {budget} "
    "(range 1-100, the higher the value, the more thorough the reasoning)\n\n"
)
EFFORTS_V4_1: Mapping[str, int] = MappingProxyType({"low": 50, "high": 75, "max": 100})


def numbered_effort(effort: int) -> str:
    return EFFORT_TEMPLATE.format(budget=effort)
