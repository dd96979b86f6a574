"""A page's accessibility tree as indented lines with references. Pure functions.

A line has role, name, reference, value and state: `- textbox "User" [e3] value="ada" focused`. Elements that are only
for layout are left out, with their children in their place.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import field
from typing import Any

from hotdesk.dataclass import dataclass
from hotdesk.hands.reader import ProtocolError
from hotdesk.hands.reader.untrusted import UntrustedObject, clip

MAX_DEPTH = 300
"""Levels of a tree that are shown."""
_MAX_NODES = 100_000
MAX_NAME_CHARS = 400
SILENT = frozenset(
    {"none", "generic", "InlineTextBox", "LineBreak", "presentation", "RootWebArea", "WebArea", "ListMarker", "group",
     "LabelText", "LayoutTable", "LayoutTableRow", "LayoutTableCell", "rowgroup", "Section", "Abbr", "EmbeddedObject",
     "MenuListPopup", "strong", "emphasis", "IframePresentational", "paragraph", "code", "mark"}
)  # fmt: skip
"""Roles that are shown only if they have a name."""
_MUTE = frozenset({"InlineTextBox", "LineBreak", "ListMarker", "RootWebArea", "WebArea"})
"""Roles that are never shown."""
_SPEAKING = frozenset({"button", "link", "menuitem", "tab", "option", "heading", "checkbox", "radio", "switch", "cell",
                      "MenuListOption", "columnheader", "rowheader", "treeitem", "menuitemcheckbox"})  # fmt: skip
"""Roles whose name is their text: the text below is not shown again."""
_WRITABLE = frozenset({"textbox", "searchbox", "spinbutton", "combobox", "ComboBoxSelect"})
"""Roles whose value is the text below, which is not shown again."""
LEAVES = frozenset({"Date", "DateTime", "InputTime", "ColorWell", "slider", "progressbar", "meter", "img", "image"})
"""Roles whose children belong to the browser's own implementation."""
FLAGS = ("focused", "disabled", "required", "readonly", "selected", "multiselectable", "modal", "busy")
STATES = ("checked", "pressed", "expanded", "invalid", "level", "haspopup")
WORDS = {"StaticText": "text", "MenuListOption": "option", "Iframe": "frame", "image": "img", "DateTime": "datetime"}


@dataclass(slots=True)
class Node:
    """One node of the tree as the browser reports it."""

    id: str
    role: str
    name: str
    backend: int
    """The browser's id of the element while it exists."""
    ignored: bool
    value: str = ""
    states: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    bare: bool = False
    """Whether its parent has no role of its own: a script of the page may make such a text clickable."""
    frame: list[Node] = field(default_factory=list)
    """The tree of the page inside, if this is a frame."""


def read_nodes(reply: UntrustedObject) -> list[Node]:
    """Parse a tree as the browser reports it: a list, the root first."""
    items = reply.read_list("nodes")
    if len(items) > _MAX_NODES:
        raise ProtocolError(f"the page's accessibility tree has more than {_MAX_NODES} nodes; use browser_read")
    return [_read_node(UntrustedObject(item)) for item in items]


def _read_node(data: UntrustedObject) -> Node:
    return Node(
        id=data.read_text("nodeId", 40),
        role=read_text(data.read_object("role")),
        name=read_text(data.read_object("name")),
        backend=data.read_integer("backendDOMNodeId"),
        ignored=data.flag("ignored"),
        value=read_text(data.read_object("value")),
        states=_read_states(data.read_objects("properties")),
        children=[clip(child, 40) for child in data.read_list("childIds")],
    )


def read_text(value: UntrustedObject) -> str:
    text = value.data.get("value", "")
    if isinstance(text, bool | int | float):
        return str(text).lower()
    return " ".join(clip(text, MAX_NAME_CHARS).split()) if isinstance(text, str) else ""


def _read_states(properties: list[UntrustedObject]) -> list[str]:
    found = []
    for one in properties:
        name, value = one.read_text("name", 40), read_text(one.read_object("value"))
        if name in FLAGS and value == "true":
            found.append(name)
        elif name in STATES and value and not (name in ("invalid", "haspopup") and value == "false"):
            found.append(f"{name}={value[:20]}")
    return found


_Refer = Callable[[int], str]
"""Returns the reference of an element."""


def to_lines(nodes: list[Node], refer: _Refer) -> list[str]:
    if not nodes:
        return []
    writer = TreeWriter(nodes, refer)
    writer.write(nodes[0], 0, 0, "", mute=False)
    return writer.lines


class TreeWriter:
    """Writes one document's tree; each node once, even if it is listed as a child several times."""

    def __init__(self, nodes: list[Node], refer: _Refer) -> None:
        self.nodes = {node.id: node for node in nodes}
        self.refer = refer
        self.lines: list[str] = []

    def write(self, node: Node, depth: int, level: int, outer: str, mute: bool) -> None:
        """Write a node and its content. If `mute`, texts that `outer`, an ancestor's text, contains are left out."""
        self.nodes.pop(node.id, None)
        if depth > MAX_DEPTH:
            return
        if _has_line(node, outer if mute else ""):
            self.lines.append(self.format_line(node, level))
            writable = node.role in _WRITABLE and bool(node.value)
            level, outer = level + 1, node.value if writable else node.name
            mute = writable or (node.role in _SPEAKING and bool(node.name))
            if node.role in LEAVES:
                return
        for child in node.children:
            if found := self.nodes.get(child):
                found.bare = node.ignored or node.role in ("generic", "none")
                self.write(found, depth + 1, level, outer, mute)
        if node.frame:
            inner = TreeWriter(node.frame, self.refer)
            inner.lines = self.lines
            inner.write(node.frame[0], depth + 1, level, "", mute=False)

    def format_line(self, node: Node, level: int) -> str:
        if node.role == "StaticText":
            mark = f" [{self.refer(node.backend)}]" if node.bare and node.backend else ""
            return f"{'  ' * level}- text: {node.name}{mark}"
        parts = [WORDS.get(node.role, node.role or "node")]
        if node.name:
            parts.append(quote(node.name))
        if node.backend:
            parts.append(f"[{self.refer(node.backend)}]")
        if node.value and node.value != node.name:
            parts.append(f"value={quote(node.value)}")
        return "  " * level + "- " + " ".join([*parts, *node.states])


def _has_line(node: Node, spoken: str) -> bool:
    if node.ignored or node.role in _MUTE:
        return False
    if node.role == "StaticText":
        return bool(node.name.strip()) and node.name not in spoken
    return node.role not in SILENT or bool(node.name) or "focused" in node.states


def quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def cut(text: str, start: int, most: int) -> dict[str, Any]:
    part = text[start : start + most]
    if start + most < len(text) and (end := part.rfind("\n")) > most // 2:
        part = part[: end + 1]
    return {"text": part, "start": start, "next": start + len(part), "length": len(text)}
