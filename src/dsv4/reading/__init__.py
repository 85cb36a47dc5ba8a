"""Conversations as files and clients hand them in: bytes, text, JSON, and the request they make."""
