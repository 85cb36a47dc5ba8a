"""Grammars for constrained decoding: an engine can only write text that the grammar allows."""

from dsv4.grammar.request_grammar import Grammar, for_request
from dsv4.grammar.schema_shapes import Relaxation

__all__ = ["Grammar", "Relaxation", "for_request"]
