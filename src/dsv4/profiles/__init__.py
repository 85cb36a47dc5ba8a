"""What each server makes of an OpenAI request: its prompt, its traps, and why two differ."""

from dsv4.profiles.comparing import Comparison, Reason, Side, compare
from dsv4.profiles.profile import ALIASES, PROFILES, Profile, render
from dsv4.profiles.traps import Trap, traps

__all__ = [
    "ALIASES",
    "PROFILES",
    "Comparison",
    "Profile",
    "Reason",
    "Side",
    "Trap",
    "compare",
    "render",
    "traps",
]
