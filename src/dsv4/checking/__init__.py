"""Linting of conversations: what is wrong with one, or will surprise whoever wrote it."""

from dsv4.checking.check import check
from dsv4.checking.findings import Finding
from dsv4.checking.kinds import KINDS

__all__ = ["KINDS", "Finding", "check"]
