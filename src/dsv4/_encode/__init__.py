"""Encoding: messages and options in, a `Prompt` out."""
