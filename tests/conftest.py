"""How the property tests run.

They take the same examples every time, so that a change is judged by what it does and not by luck.
`HYPOTHESIS_PROFILE=explore make test` looks further, at random.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about the code.
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("repeatable", max_examples=100, derandomize=True, **UNTIMED)
settings.register_profile("explore", max_examples=3000, **UNTIMED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
