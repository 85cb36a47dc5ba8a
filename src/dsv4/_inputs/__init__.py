"""Conversations from files and clients: bytes to text to JSON to `Request`."""
