"""A fast test whether a cell is in any of many areas of a sheet."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable

from hotdesk.checks.xlsx.place import Area

SMALL = 64
"""Maximum cells of an area that is stored cell by cell."""
MOST_LARGE = 1000


class Cover:
    """The cells that some areas cover. Beyond `MOST_LARGE` large areas, every cell counts as covered.

    Of areas that differ only in their last row, as in running sums, only the longest is kept. Columns that the same
    large areas cover are tested as one strip, so that a cell costs one search.
    """

    def __init__(self, areas: Collection[Area]) -> None:
        self.cells = {at for area in areas if area.size <= SMALL for at in area.iterate_cells()}
        large: dict[tuple[int, int, int], Area] = {}
        for area in areas:
            key = (area.left, area.right, area.top)
            if area.size > SMALL and (key not in large or large[key].bottom < area.bottom):
                large[key] = area
        self.large = list(large.values())
        self.borders = sorted({edge for area in self.large for edge in (area.left, area.right + 1)})
        self.strips: dict[int, list[int]] = {}

    def has(self, at: tuple[int, int]) -> bool:
        row, column = at
        if at in self.cells or len(self.large) > MOST_LARGE:
            return True
        strip = bisect_right(self.borders, column)
        if strip not in self.strips:
            reached = [area for area in self.large if area.left <= column <= area.right]
            self.strips[strip] = _compute_edges((area.top, area.bottom) for area in reached)
        return bisect_right(self.strips[strip], row) % 2 == 1


def _compute_edges(spans: Iterable[tuple[int, int]]) -> list[int]:
    """Return the first row of each span and the first row after it, alternating; spans that touch are merged."""
    found: list[int] = []
    for top, bottom in sorted(spans):
        if found and top <= found[-1]:
            found[-1] = max(found[-1], bottom + 1)
        else:
            found += (top, bottom + 1)
    return found
