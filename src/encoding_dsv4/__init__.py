"""The released module's name, so that existing imports run unchanged.

A package, because type checkers read the types of a single module only from beside a `py.typed`.
"""

from dsv4.compat.release import *  # noqa: F403
from dsv4.compat.release import __all__ as __all__
