"""Adapts requests to a chat server whose answers leak markup, and repairs its answers."""
