"""Chunks -> events -> message."""
