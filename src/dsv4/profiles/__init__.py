"""Profiles of servers: the prompt and traps of an OpenAI request, and how two servers differ."""

from dsv4.profiles.comparison import Comparison, Reason, Side, compare
from dsv4.profiles.profile import PROFILES, Profile, render
from dsv4.profiles.request_traps import Trap, traps
from dsv4.profiles.saved_profile import load

__all__ = [
    "PROFILES",
    "Comparison",
    "Profile",
    "Reason",
    "Side",
    "Trap",
    "compare",
    "load",
    "render",
    "traps",
]
