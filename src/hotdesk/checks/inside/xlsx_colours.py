"""Fill colours of cells, given by value, by theme and tint, or by index. Runs inside a clean desk."""

from __future__ import annotations

import colorsys
from typing import Any
from xml.etree import ElementTree

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
THEME = "xl/theme/theme1.xml"
ORDER = (1, 0, 3, 2, 4, 5, 6, 7, 8, 9, 10, 11)
"""Position in the theme of each theme index: light and dark are swapped."""
INDEXED = (
    "000000FFFFFFFF000000FF000000FFFFFF00FF00FF00FFFF" * 2
    + "800000008000000080808000800080008080C0C0C08080809999FF993366FFFFCCCCFFFF660066FF80800066CCCCCCFF"
    + "000080FF00FFFFFF0000FFFF8000808000000080800000FF00CCFFCCFFFFCCFFCCFFFF9999CCFFFF99CCCC99FFFFCC99"
    + "3366FF33CCCC99CC00FFCC00FF9900FF6600666699969696003366339966003300333300993300993366333399333333"
)
"""The indexed colours, one after the other."""


def list_fill_colours(book: Any) -> list[str]:
    """Return the fill colour of each style as `RRGGBB`, or `""` for none."""
    root, theme = book.parse_part("xl/styles.xml"), _read_theme_colours(book)
    colours = [_get_solid_colour(fill, theme) for fill in root.iterfind(f"{MAIN}fills/{MAIN}fill")]
    styles = root.iterfind(f"{MAIN}cellXfs/{MAIN}xf")
    return [colours[int(style.get("fillId", "0"))] if colours else "" for style in styles]


def _read_theme_colours(book: Any) -> list[str]:
    if THEME not in book.file.namelist():
        return []
    scheme = book.parse_part(THEME).find(f".//{DRAWING}clrScheme")
    return [(each[0].get("lastClr") or each[0].get("val") or "")[:6] for each in scheme] if scheme is not None else []


def _get_solid_colour(fill: ElementTree.Element, theme: list[str]) -> str:
    pattern = fill.find(MAIN + "patternFill")
    colour = pattern.find(MAIN + "fgColor") if pattern is not None and pattern.get("patternType") == "solid" else None
    if colour is None:
        return ""
    found = colour.get("rgb", "")[-6:]
    if "theme" in colour.attrib:
        number = int(colour.get("theme", "0"))
        found = theme[ORDER[number]] if number < len(ORDER) and ORDER[number] < len(theme) else ""
    elif "indexed" in colour.attrib:
        at = int(colour.get("indexed", "0")) * 6
        found = INDEXED[at : at + 6]
    return _apply_tint(found, float(colour.get("tint", "0"))).upper()


def _apply_tint(colour: str, tint: float) -> str:
    if not tint or len(colour) != 6:
        return colour
    hue, light, strong = colorsys.rgb_to_hls(*(int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)))
    light = light * (1 + tint) if tint < 0 else light * (1 - tint) + tint
    return "".join(f"{round(max(0.0, min(1.0, part)) * 255):02X}" for part in colorsys.hls_to_rgb(hue, light, strong))
