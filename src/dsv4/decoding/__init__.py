"""A prompt back into messages, tools and options."""

from dsv4.decoding.decode import decode
from dsv4.decoding.decoded import Decoded, Note

__all__ = ["Decoded", "Note", "decode"]
