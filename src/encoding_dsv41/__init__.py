"""The name of the module released with V4.1, so that existing imports run unchanged.

A package, because type checkers read the types of a single module only from beside a `py.typed`.
"""

from dsv4.compat.release_v41 import *  # noqa: F403
from dsv4.compat.release_v41 import __all__ as __all__
