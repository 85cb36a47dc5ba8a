"""Other people's names over our code."""

from dsv4.compat.templates import chat_template

__all__ = ["chat_template"]
