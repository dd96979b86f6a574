"""What a quantity costs: the more, the cheaper each further piece."""

from __future__ import annotations

from collections.abc import Sequence


def price(pieces: int, steps: Sequence[tuple[int, int]]) -> int:
    """Add the steps up. Each is how many pieces it reaches to, counted from the first, and the cents of one in it."""
    total = below = 0
    for end, cents in steps:
        total += max(min(pieces, end) - below, 0) * cents
        below = end
    return total
