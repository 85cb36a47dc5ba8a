"""Encoding: messages and options in, a `Prompt` out."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

# What draws a prompt, by the form that it gives it. The encoder cannot import it, because it is
# made of prompts: `dsv4` puts it here.
views: dict[str, Callable[[Any], str]] = {}

if TYPE_CHECKING:
    from dsv4 import types as types
    from dsv4._images import image_grid as image_grid
else:

    class _OnDemand:
        """A module that few programs need, and that takes as long to load as the encoder: loaded
        when something in it is looked for. In annotations only `typing.get_type_hints` does."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            from importlib import import_module

            value = getattr(import_module(self._name), name)
            setattr(self, name, value)
            return value

    types = _OnDemand("dsv4.types")
    image_grid = _OnDemand("dsv4._images.image_grid")
