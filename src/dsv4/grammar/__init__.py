"""Grammars for constrained decoding: the engine cannot write what the grammar does not allow."""

from dsv4.grammar.request_grammar import Grammar, for_request
from dsv4.grammar.schema_shapes import Relaxation

__all__ = ["Grammar", "Relaxation", "for_request"]
