"""Prompts in a form for people to read: rows first, then terminal text or HTML."""
