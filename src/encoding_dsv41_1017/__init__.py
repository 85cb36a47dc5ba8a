"""The module released with DeepSeek-V4.1-Flash-1017, under a name like those of the others.

A package, because type checkers read the types of a single module only from beside a `py.typed`.
"""

from dsv4.compat.release_v41_1017 import *  # noqa: F403
from dsv4.compat.release_v41_1017 import __all__ as __all__
