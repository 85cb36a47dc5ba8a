"""Prompts as people look at them: rows first, then terminal text or HTML."""
