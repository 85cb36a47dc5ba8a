"""Explains pasted text: what is wrong with it, who caused that, and what fixes it."""
