"""A page's outline as markdown: headings, paragraphs, lists, tables, links, values of fields. A pure function.

The outline is nested objects from `scripts.OUTLINE`, and untrusted: it can have any shape and size.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

MAX_DEPTH = 160
MAX_OUTLINE_CHARS = 1_500_000
"""Characters of an outline; a tag counts as eight."""
_SPACE = re.compile(r"[ \t\r\n\f\v\u00a0]+")
STRONG = {"b": "**", "strong": "**", "i": "*", "em": "*", "code": "`", "kbd": "`", "del": "~~", "s": "~~"}
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_ALONE = frozenset({"br", "hr", "table", "ul", "ol", "pre", "tr", "li", *_HEADINGS})
_NEVER_ALONE = frozenset({"field", "button", "img", "frame"})
"""Tags that always begin a block, and tags that never do."""
ROWS = ("thead", "tbody", "tfoot")


def to_markdown(tree: object) -> str:
    return "\n\n".join(_list_blocks(Tidy().copy_node(tree, 0), 0))


class Tidy:
    """Copies an outline without what exceeds the limits, and marks the blocks."""

    def __init__(self) -> None:
        self.remaining = MAX_OUTLINE_CHARS

    def copy_node(self, node: object, depth: int) -> Any:
        """Copy one node; return `None` if it is invalid or exceeds the limits."""
        self.remaining -= len(node) + 1 if isinstance(node, str) else 8
        if self.remaining < 0 or depth > MAX_DEPTH or not isinstance(node, str | dict):
            return None
        if isinstance(node, str):
            return node
        copies = [copy for child in list_children(node) if (copy := self.copy_node(child, depth + 1)) is not None]
        tag = _read_word(node, "t")
        alone = (node.get("b") is True or tag in _ALONE) and tag not in _NEVER_ALONE
        outer = any(isinstance(child, dict) and child["b"] for child in copies)
        return {**node, "t": tag, "c": copies, "b": alone or outer}


def _list_blocks(node: object, depth: int) -> list[str]:
    if depth > MAX_DEPTH:
        return []
    if not isinstance(node, dict):
        return _make_block(inline(node, depth))
    tag = node.get("t")
    if tag in _HEADINGS:
        return _make_block(inline(node, depth), _HEADINGS[tag] + " ")
    match tag:
        case "ul" | "ol" | "menu":
            return [text] if (text := format_list(node, depth)) else []
        case "table":
            return [text] if (text := format_table(node, depth)) else _list_all_blocks(list_children(node), depth)
        case "pre":
            return [f"```\n{extract_text(node, depth).strip(chr(10))}\n```"]
        case "blockquote":
            quoted = "\n\n".join(_list_all_blocks(list_children(node), depth))
            return ["\n".join(f"> {line}".rstrip() for line in quoted.split("\n"))] if quoted else []
        case "hr":
            return ["---"]
    return _list_all_blocks(list_children(node), depth)


def _list_all_blocks(nodes: Sequence[object], depth: int) -> list[str]:
    """Return the blocks of some nodes: adjacent inline nodes become one block."""
    found: list[str] = []
    line: list[object] = []
    for node in nodes:
        if isinstance(node, dict) and node["b"]:
            found += [*_make_block(_inline_all(line, depth)), *_list_blocks(node, depth + 1)]
            line = []
        else:
            line.append(node)
    return [*found, *_make_block(_inline_all(line, depth))]


def _make_block(text: str, before: str = "") -> list[str]:
    text = text.strip()
    return [before + text] if text else []


def _inline_all(nodes: Sequence[object], depth: int) -> str:
    return _SPACE.sub(" ", "".join(inline(node, depth + 1) for node in nodes))


def inline(node: object, depth: int) -> str:
    if isinstance(node, str):
        return _SPACE.sub(" ", node)
    if not isinstance(node, dict) or depth > MAX_DEPTH:
        return ""
    match tag := node["t"]:
        case "br":
            return " "
        case "field":
            return _format_field(node)
        case "img":
            return f"![{_read_word(node, 'alt')}]"
        case "frame":
            return f"[a frame of another origin: {_read_word(node, 'href')}]"
        case "button":
            return f"[{_inline_all(list_children(node), depth).strip()}]"
        case "a" if node.get("href"):
            text = _inline_all(list_children(node), depth).strip()
            return f"[{text}]({_read_word(node, 'href')})" if text else ""
    text = _inline_all(list_children(node), depth)
    mark = STRONG.get(tag, "")
    if mark and text.strip():
        return f"{text[: len(text) - len(text.lstrip())]}{mark}{text.strip()}{mark}{text[len(text.rstrip()) :]}"
    return f" {text} " if node["b"] else text


def _format_field(node: dict[str, Any]) -> str:
    kind, name, value = _read_word(node, "kind") or "text", _read_word(node, "name"), _read_word(node, "value")
    if kind in ("checkbox", "radio"):
        return f" [{'x' if node.get('on') is True else ' '}] "
    return f" [{kind}{f' {name}' if name else ''}: {value}] "


def format_list(node: dict[str, Any], depth: int) -> str:
    lines: list[str] = []
    start = node.get("start", 1)
    number = start if type(start) is int and abs(start) < 1 << 31 else 1
    for child in list_children(node):
        if not (found := _list_blocks(child, depth + 1)):
            continue
        mark = f"{number}. " if node.get("t") == "ol" else "- "
        number += 1
        body = "\n".join(found).split("\n")
        lines += [mark + body[0], *("  " + line for line in body[1:])]
    return "\n".join(lines)


def format_table(node: dict[str, Any], depth: int) -> str:
    """Format a table; return an empty string for fewer than two columns, which are only layout, or over 100."""
    rows = [cells for row in _list_rows(node) if (cells := _list_cells(row, depth))]
    width = max((len(row) for row in rows), default=0)
    if width < 2 or width > 100:
        return ""
    lines = ["| " + " | ".join([*row, *[""] * (width - len(row))]) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def _list_rows(node: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for child in list_children(node):
        if isinstance(child, dict):
            parts = [child] if child.get("t") == "tr" else list_children(child) if child.get("t") in ROWS else []
            found += [row for row in parts if isinstance(row, dict) and row.get("t") == "tr"]
    return found


def _list_cells(row: dict[str, Any], depth: int) -> list[str]:
    cells = [cell for cell in list_children(row) if isinstance(cell, dict) and cell.get("t") in ("td", "th")]
    return [_inline_all(list_children(cell), depth).strip().replace("|", "\\|") for cell in cells]


def extract_text(node: object, depth: int) -> str:
    if isinstance(node, str):
        return node
    if not isinstance(node, dict) or depth > MAX_DEPTH:
        return ""
    return "\n" if node.get("t") == "br" else "".join(extract_text(child, depth + 1) for child in list_children(node))


def list_children(node: dict[str, Any]) -> list[Any]:
    found = node.get("c")
    return found if isinstance(found, list) else []


def _read_word(node: dict[str, Any], name: str) -> str:
    value = node.get(name)
    return _SPACE.sub(" ", value).strip() if isinstance(value, str) else ""
