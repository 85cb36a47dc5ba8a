"""Grammars for constrained decoding: what an engine must not write, it cannot write."""

from dsv4.grammar.making import Grammar, for_request
from dsv4.grammar.relaxed import Relaxation

__all__ = ["Grammar", "Relaxation", "for_request"]
