"""Limits access to the gateway: keys and their limits, other sites' pages, simultaneous streams."""
