"""Faults of rules and grants whose texts have their remedies. Doors load this module, so it imports nothing."""

from __future__ import annotations


class RemedyError(ValueError):
    """A fault of a rule or grant whose text has its remedy, or an example."""
