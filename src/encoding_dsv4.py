"""The released module's name, so that existing imports run unchanged."""

from dsv4.compat.release import *  # noqa: F403
