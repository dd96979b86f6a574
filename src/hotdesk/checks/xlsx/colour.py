"""Names of fill colours as people see them."""

from __future__ import annotations

import colorsys

COLOURS = {"red": (0, 0), "orange": (18, 42), "yellow": (42, 70), "green": (70, 170), "blue": (180, 265)}
"""Range of hues in degrees of each named colour; `is_red` decides for red."""
STRONG = 0.08
"""Saturation below which a fill is grey or white."""


def is_colour(fill: str, colour: str) -> bool:
    """Return whether a fill, as `RRGGBB`, has a colour: a name, or an exact value."""
    if not fill:
        return False
    if colour not in COLOURS:
        return fill == colour.upper()
    red, green, blue = (int(fill[at : at + 2], 16) for at in (0, 2, 4))
    if colour == "red":
        return is_red(red, green, blue)
    hue, strong, light = colorsys.rgb_to_hsv(red / 255, green / 255, blue / 255)
    first, last = COLOURS[colour]
    return strong >= STRONG and light >= 0.25 and first <= hue * 360 < last


def is_red(red: int, green: int, blue: int) -> bool:
    return red >= 0x99 and red - max(green, blue) >= 0x30
