"""A request of any protocol as the official API reads it: the model behind its name, refusals, and
the prompt. Where a page of the API's documentation is newer than deepseek-recipe, the page counts.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from dsv4._images.image_source import is_data_url
from dsv4.profiles import recipe_prompts, recipe_request
from dsv4.profiles import rust_json as rust
from dsv4.profiles.official_api import (
    RULES,
    ServedRelease,
    known_release,
    mapped_name,
    own_name,
    refusal,
)
from dsv4.profiles.official_messages import is_web_tool, messages_as_chat
from dsv4.profiles.official_responses import responses_as_chat
from dsv4.profiles.recipe_request import RecipeConversation, RecipeRules
from dsv4.profiles.server_requests import OFFICIAL_DIALECTS, Object, ThinkingMode, server_refusal

# The first bytes of pictures, except WebP, and how many characters of a data URL hold them.
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")
_START_OF_A_PICTURE = 32

_AS_CHAT: Mapping[str, Callable[[Object, bool], Object]] = {
    "chat": lambda body, images: dict(body),
    "messages": messages_as_chat,
    "responses": responses_as_chat,
}


@dataclass(frozen=True)
class OfficialRequest:
    """A request that the API takes: the equivalent Chat request, its conversation and dialect."""

    chat: Object
    conversation: RecipeConversation
    dialect: str

    @property
    def prompt(self) -> str:
        return recipe_prompts.PROMPTS[self.dialect](self.conversation)


def read_official(
    body: Object, protocol: str = "chat", dialect: str | None = None
) -> OfficialRequest:
    """The request as the API reads it. A `dialect` stands for the model, whatever its name."""
    body = rust.checked_json(body, "request", big_integers=True)
    if dialect is None:
        dialect = str(_release(body.get("model"), protocol).dialect)
    images = recipe_prompts.has_images(dialect)
    chat = _without_web_tools(_AS_CHAT[protocol](body, images), images)
    form = chat.get("response_format")
    if protocol == "chat" and isinstance(form, dict) and form.get("type") == "json_schema":
        raise refusal("json-schema", "response_format.type")
    rules = RecipeRules(protocol, needs_reasoning=True, takes_files=True)
    conversation = recipe_request.read_recipe_request(chat, images, rules)
    _check_safety(chat)
    if images:
        _check_images(chat)
    recipe_request.check_sampling(chat)
    return OfficialRequest(chat, conversation, dialect)


def _release(model: object, protocol: str) -> ServedRelease:
    is_named = protocol == "messages" and isinstance(model, str)
    return known_release(mapped_name(str(model)) if is_named else model)


def _without_web_tools(chat: Object, images: bool) -> Object:
    """The request without the tools that the API runs itself, on the model that has them."""
    tools = chat.get("tools")
    if not images or not isinstance(tools, list) or not any(map(is_web_tool, tools)):
        return chat
    return {**chat, "tools": [tool for tool in tools if not is_web_tool(tool)]}


def _check_safety(chat: Object) -> None:
    check = chat.get("safety_check")
    if check is None:
        return
    fields = rust.map_of(check, "safety_check", "SafetyCheck")
    level = rust.variant_in(fields, "level", RULES["safety_check"]["levels"], "safety_check")
    if level == "high" and chat.get("tool_choice") not in (None, "auto", "none"):
        raise server_refusal("tool_choice", "tool_choice只能为auto或none")


def _check_images(chat: Object) -> None:
    """Refuse too many images, and data that is not a picture by its first bytes."""
    contents = [message.get("content") for message in chat["messages"]]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    if len(urls) > RULES["image-count"]["most"]:
        raise refusal("image-count", "messages", count=len(urls))
    for index, url in enumerate(urls):
        if is_data_url(url) and not _begins_as_a_picture(url):
            raise refusal("image-formats", "messages", index=index)


def _begins_as_a_picture(url: str) -> bool:
    data = unquote_to_bytes(url.partition(",")[2])
    try:
        start = base64.b64decode(data[:_START_OF_A_PICTURE])
    except ValueError:
        return False
    return start.startswith(_PICTURES) or (start[:4] == b"RIFF" and start[8:12] == b"WEBP")


def dialect_of_body(body: Object) -> str | None:
    """The dialect of the model that a request names, as the API or a provider does. None if it
    names none."""
    model = body.get("model")
    if model is None:
        return None
    return known_release(own_name(model) if isinstance(model, str) else model).dialect


def render(body: Object, dialect: str) -> str:
    return read_official(body, dialect=dialect).prompt


def mode(body: Object, dialect: str) -> ThinkingMode:
    return recipe_request.mode(body, dialect, OFFICIAL_DIALECTS)
