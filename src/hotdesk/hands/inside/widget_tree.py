"""Runs in a desk: reads the accessibility trees (AT-SPI) of the windows on the screen, or finds one widget's position.

Reads a request as JSON on standard input; prints one line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

MAX_NODES = 400
"""Widgets in one report."""
MAX_VISITS = 4000
MAX_CHILDREN = 300
MAX_DEPTH = 60
MAX_WINDOWS = 100
SECONDS = 8.0
STARTING_SECONDS = 8.0
"""Seconds to wait for a program in front that does not respond yet."""
NAME_CHARS, VALUE_CHARS = 160, 300
MAX_ROWS, MAX_COLUMNS = 60, 26
STATES = ("focused", "checked", "selected", "expanded", "pressed", "indeterminate", "modal")
CONTAINERS = frozenset(
    "filler|panel|viewport|scroll pane|split pane|root pane|layered pane|internal frame|unknown|redundant object"
    "|grouping|section|page tab list|menu bar|tool bar|status bar|document frame|embedded|option pane|glass pane".split(
        "|"
    )
)
"""Roles that are left out unless they have a name."""
SKIPPED = frozenset({"separator", "scroll bar", "tool tip"})
USABLE = frozenset(
    "menu|menu item|check menu item|radio menu item|page tab|table cell|list item|tree item|icon|link|button"
    "|push button|toggle button|check box|radio button|combo box|entry|text|password text|spin button|slider".split("|")
)
POPUPS = frozenset({"window", "menu", "popup menu"})
"""Roles of windows that are never active themselves, but belong to the active one."""
ANYWHERE, ON_SCREEN, SHOWING = 6, 0, 1 << 25
"""Constants of AT-SPI: scroll type, coordinate type, and the bit of a state."""
MENUS = frozenset({"menu", "menu bar", "combo box", "menu item"})
"""Roles whose children may appear outside their parent's box."""


class Reading:
    def __init__(self, atspi: Any) -> None:
        self.atspi = atspi
        self.nodes: list[list[object]] = []
        self.visits = 0
        self.until = time.monotonic() + SECONDS
        self.cut = False

    def is_over(self) -> bool:
        over = len(self.nodes) >= MAX_NODES or self.visits >= MAX_VISITS or time.monotonic() > self.until
        self.cut = self.cut or over
        return over

    def walk(self, node: Any, window: int, depth: int, outer: Any, level: int = 0) -> None:
        """Record a widget and its descendants. `outer` is its parent: role, box on the screen, offset."""
        self.visits += 1
        if self.is_over() or level > MAX_DEPTH:
            return
        states = {state.value_nick for state in node.get_state_set().get_states()}
        if level and "showing" not in states:
            return
        role = node.get_role_name()
        if role in SKIPPED:
            return
        box, offset = self.place(node, outer)
        if box and level and not (box[2] and box[3]):
            return
        deeper = self.record(node, role, states, window, depth, box, offset, outer)
        if role == "menu" and not states & {"selected", "expanded", "armed"}:
            return
        below = (role, box, offset)
        if "manages-descendants" in states and node.get_child_count() > MAX_CHILDREN:
            self.walk_table(node, window, depth + deeper, below)
            return
        for index in range(min(node.get_child_count(), MAX_CHILDREN)):
            child = node.get_child_at_index(index)
            if child is not None:
                self.walk(child, window, depth + deeper, below, level + 1)

    def walk_table(self, table: Any, window: int, depth: int, below: Any) -> None:
        """Record the visible, non-empty cells of a table that is too large to walk, with few calls for each."""
        _, (x, y, width, height), (dx, dy) = below
        kind = self.atspi.CoordType.SCREEN
        corners = []
        for at_x, at_y in ((x + 4, y + 4), (x + width - 8, y + height - 8)):
            cell = table.get_component_iface().get_accessible_at_point(at_x - dx, at_y - dy, kind)
            if cell is None:
                return
            index = cell.get_index_in_parent()
            rows = table.get_table_iface()
            corners.append((rows.get_row_at_index(index), rows.get_column_at_index(index)))
        (first_row, first_column), (last_row, last_column) = corners
        for row in range(first_row, min(last_row + 1, first_row + MAX_ROWS)):
            for column in range(first_column, min(last_column + 1, first_column + MAX_COLUMNS)):
                if self.is_over():
                    return
                self.visits += 1
                cell = table.get_table_iface().get_accessible_at(row, column)
                text = self.atspi.Text.get_text(cell, 0, -1) if cell is not None else ""
                if text:
                    box, offset = self.place(cell, below)
                    self.add(cell, "table cell", shorten(cell.get_name()), text, [], window, depth, box, offset)

    def place(self, node: Any, outer: Any) -> tuple[Any, Any]:
        """Return a widget's box on the screen, and its distance from the reported position.

        LibreOffice ignores its menu bar in positions. A widget as large as its parent has the position of its parent.
        """
        try:
            raw = node.get_extents(self.atspi.CoordType.SCREEN)
        except Exception:  # noqa: BLE001 - it has no position
            return None, outer[2] if outer else (0, 0)
        offset = outer[2] if outer else (0, 0)
        if outer and outer[1] and outer[1][2:] == (raw.width, raw.height):
            offset = (outer[1][0] - raw.x, outer[1][1] - raw.y)
        return (raw.x + offset[0], raw.y + offset[1], raw.width, raw.height), offset

    def record(
        self, node: Any, role: str, states: set[str], window: int, depth: int, box: Any, offset: Any, outer: Any
    ) -> int:
        """Record a widget if it has something to report; return how many levels deeper its children are."""
        name = shorten(node.get_name())
        usable = role in USABLE or bool(states & {"focusable", "editable"})
        if not name and usable:
            name = self.find_label(node)
        value = "" if role in CONTAINERS else self.read_value(node, role)
        if not (name or value or (usable and role not in CONTAINERS)):
            return 0
        shown = [state for state in STATES if state in states]
        if usable and not states & {"sensitive", "enabled"}:
            shown.append("disabled")
        reachable = box if usable and is_inside(box, outer) else None
        self.add(node, role, name, "" if value == name else value, shown, window, depth, reachable, offset)
        return 1

    def add(
        self, node: Any, role: str, name: str, value: str, states: Any, window: int, depth: int, box: Any, offset: Any
    ) -> None:
        """Record a widget; without a box it cannot be clicked."""
        where = [*box, *offset, node.app.bus_name, node.path] if box else [0, 0, 0, 0, 0, 0, "", ""]
        self.nodes.append([window, min(depth, MAX_DEPTH), role[:60], name, value[:VALUE_CHARS], states, *where])

    def find_label(self, node: Any) -> str:
        for relation in node.get_relation_set() or ():
            if relation.get_relation_type() == self.atspi.RelationType.LABELLED_BY and relation.get_n_targets():
                return shorten(relation.get_target(0).get_name())
        return ""

    def read_value(self, node: Any, role: str) -> str:
        """Return the value of a widget; empty for a password."""
        if role == "password text":
            return ""
        interfaces = node.get_interfaces()
        if "Text" in interfaces:
            count = self.atspi.Text.get_character_count(node)
            return self.atspi.Text.get_text(node, 0, min(count, VALUE_CHARS)) or ""
        if "Value" in interfaces and role in ("slider", "spin button", "progress bar", "level bar"):
            return f"{self.atspi.Value.get_current_value(node):g}"
        if role == "combo box" and "Selection" in interfaces and self.atspi.Selection.get_n_selected_children(node):
            chosen = self.atspi.Selection.get_selected_child(node, 0)
            return (chosen.get_name() or "")[:VALUE_CHARS] if chosen else ""
        return ""


def is_inside(box: Any, outer: Any) -> bool:
    """Return whether a widget has a visible box that can be clicked."""
    if not box or box[2] <= 0 or box[3] <= 0 or box[0] + box[2] <= 0 or box[1] + box[3] <= 0:
        return False
    if not outer or not outer[1] or outer[0] in MENUS:
        return True
    x, y, width, height = outer[1]
    return bool(box[0] < x + width and x < box[0] + box[2] and box[1] < y + height and y < box[1] + box[3])


def read(atspi: Any, query: str) -> dict[str, object]:
    front = _find_front()
    applications = _wait_for_applications(atspi, front[1], time.monotonic() + STARTING_SECONDS)
    busy = any(pid == front[1] and not tops for _, pid, tops in applications)
    reading, windows = Reading(atspi), []
    for program, pid, tops in applications:
        is_front = pid == front[1]
        has_active = any("active" in states for _, _, states in tops)
        for top, title, states in tops:
            windows.append([title, program, pid])
            if query and query != "all":
                chosen = query.casefold() in title.casefold()
            else:
                behind = has_active and "active" not in states and top.get_role_name() not in POPUPS
                chosen = query == "all" or (is_front and not behind)
            if chosen:
                try:
                    reading.walk(top, len(windows) - 1, 0, None)
                except Exception:  # noqa: BLE001 - the widget disappeared, or the program does not respond
                    reading.cut = True
    return {"front": front, "windows": windows[:MAX_WINDOWS], "nodes": reading.nodes, "cut": reading.cut, "busy": busy}


def _wait_for_applications(atspi: Any, front: object, until: float) -> list[Any]:
    """List programs with a tree; wait for the one in front if it is starting and does not respond yet."""
    while True:
        applications = _list_applications(atspi)
        answers = any(pid == front and tops for _, pid, tops in applications)
        if answers or all(tops for _, _, tops in applications) or time.monotonic() > until:
            return applications
        time.sleep(0.5)


def _list_applications(atspi: Any) -> list[Any]:
    """List programs with their visible windows: widget, title, states. A program that does not respond has none."""
    desktop, applications = atspi.get_desktop(0), []
    for index in range(min(desktop.get_child_count(), MAX_WINDOWS)):
        tops: list[Any] = []
        program, pid = "", 0
        with suppress(Exception):
            application = desktop.get_child_at_index(index)
            program, pid = shorten(application.get_name()), application.get_process_id()
            for at in range(min(application.get_child_count(), MAX_WINDOWS)):
                top = application.get_child_at_index(at)
                states = {state.value_nick for state in top.get_state_set().get_states()}
                if "showing" in states:
                    tops.append((top, shorten(top.get_name()), states))
        applications.append((program, max(pid, 0), tops))
    return applications


def shorten(name: str | None) -> str:
    return (name or "").strip()[:NAME_CHARS]


def _find_front() -> list[Any]:
    """Return title and process id of the focused window; 0 if it has none, as with Tk."""
    pid = run(["xdotool", "getactivewindow", "getwindowpid"])
    return [shorten(run(["xdotool", "getactivewindow", "getwindowname"])), int(pid) if pid.isdigit() else 0]


def run(argv: list[str]) -> str:
    done = subprocess.run(argv, check=False, capture_output=True, timeout=5, text=True, errors="replace")
    return done.stdout.strip()


def find(bus: str, path: str) -> dict[str, object]:
    from gi.repository import Gio, GLib  # type: ignore[import-not-found]

    session = Gio.bus_get_sync(Gio.BusType.SESSION)
    where = ("org.a11y.Bus", "/org/a11y/bus", "org.a11y.Bus", "GetAddress", None, None, 0, 5000, None)
    address = session.call_sync(*where).unpack()[0]
    flags = Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION
    line = Gio.DBusConnection.new_for_address_sync(address, flags, None, None)

    def call(interface: str, method: str, arguments: Any) -> Any:
        name = f"org.a11y.atspi.{interface}"
        return line.call_sync(bus, path, name, method, arguments, None, 0, 5000, None).unpack()

    with suppress(GLib.Error):
        call("Component", "ScrollTo", GLib.Variant("(u)", (ANYWHERE,)))
    try:
        states = call("Accessible", "GetState", None)[0]
        box = call("Component", "GetExtents", GLib.Variant("(u)", (ON_SCREEN,)))[0]
    except GLib.Error:
        return {"gone": True}
    is_shown = states[0] & SHOWING and min(box[2:]) > 0  # a widget of a closed window has an arbitrary box
    return {"box": list(box)} if is_shown else {"gone": True}


def main() -> None:
    request = json.loads(sys.stdin.buffer.read())
    try:
        import gi  # type: ignore[import-not-found]

        gi.require_version("Atspi", "2.0")
        from gi.repository import Atspi
    except (ImportError, ValueError):
        print(json.dumps({"error": "missing"}))
        return
    if "path" in request:
        answer = find(request["bus"], request["path"])
    else:
        Atspi.set_timeout(1500, 5000)
        answer = read(Atspi, request["window"])
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
