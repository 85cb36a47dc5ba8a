"""Prompts as people look at them: rows first, then terminal text, HTML or SVG."""
