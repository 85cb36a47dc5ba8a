"""The released module's name, so that existing imports run unchanged."""

from dsv4.compat.release import *  # noqa: F403
from dsv4.compat.release import __all__ as __all__
