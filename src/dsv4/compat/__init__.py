"""Drop-in modules: the names of other projects over the encoder and the parser."""

from dsv4.compat.templates import chat_template

__all__ = [
    "chat_template",
]
