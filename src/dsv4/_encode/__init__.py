"""Encoding: messages and options in, a `Prompt` out."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

# Functions that draw a prompt, by the form of the result. The encoder cannot import them, because
# they work on prompts: `dsv4` puts them here.
views: dict[str, Callable[[Any], str]] = {}

if TYPE_CHECKING:
    from dsv4 import types as types
    from dsv4._images import image_grid as image_grid
else:

    class _OnDemand:
        """A module that few programs need, and that takes as long to load as the encoder. It is
        loaded when a name in it is looked up; for annotations only `typing.get_type_hints` does."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            from importlib import import_module

            value = getattr(import_module(self._name), name)
            setattr(self, name, value)
            return value

    types = _OnDemand("dsv4.types")
    image_grid = _OnDemand("dsv4._images.image_grid")
