"""Whose rules a conversation is read by.

The released modules, vLLM's copy and the native API agree on the bytes. They part on a few field
names and on what they refuse: each difference is a field here.
"""

from __future__ import annotations

from typing import NamedTuple

from dsv4.format.dialects import Arguments


class Conventions(NamedTuple):
    # The names of an assistant's thinking text; the first that is not empty wins.
    reasoning_fields: tuple[str, str] = ("reasoning_content", "reasoning")
    # Any of these, when true, leaves an assistant turn without its EOS.
    open_turn_fields: tuple[str, ...] = ("wo_eos", "prefix")
    # The field that gives the read_url task its URL, where there is one.
    url_field: str | None = "extracted_url"
    # What the caller knows the option for the effort as.
    effort_option: str = "effort"
    # What arguments may be, where that is not for the dialect to say.
    arguments: Arguments | None = None
    # Roles that no release has are an error even where dropping would remove them.
    known_roles_only: bool = True
    # Every tool must have a name.
    named_tools: bool = True
    # Tools are shown. Where they are not, they do not keep reasoning from being dropped either.
    shows_tools: bool = True
    # docs/format.md, section 3, last paragraph: the context is dropped once more, by itself.
    context_dropped_alone: bool = False


NATIVE = Conventions()
NATIVE_WITHOUT_TOOLS = NATIVE._replace(shows_tools=False)
RELEASED = Conventions(
    open_turn_fields=("wo_eos",),
    url_field=None,
    effort_option="reasoning_effort",
    known_roles_only=False,
    named_tools=False,
    context_dropped_alone=True,
)
VLLM = RELEASED._replace(reasoning_fields=("reasoning", "reasoning_content"), arguments="object")
