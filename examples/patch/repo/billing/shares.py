"""A sum, split among several."""

from __future__ import annotations


def split(cents: int, count: int) -> list[int]:
    """Split a sum into shares that add up to it; none is more than a cent larger than another."""
    share, rest = divmod(cents, count)
    return [share + 1] * rest + [share] * (count - rest)
