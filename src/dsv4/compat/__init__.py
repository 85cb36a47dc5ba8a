"""Drop-in modules: the encoder and the parser under the names of other projects."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsv4.compat.templates import chat_template

__all__ = ["chat_template"]


def __getattr__(name: str) -> Any:
    """Loads the template on first use: importing a drop-in module does not need it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    from dsv4.compat import templates

    return getattr(templates, name)
