"""The widgets on a desk's screen as text, from the accessibility trees (AT-SPI) of its programs. They are untrusted."""

from __future__ import annotations

import json
import re
from dataclasses import field
from pathlib import Path
from typing import Annotated

from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Done
from hotdesk.errors import DeskError, make_printable
from hotdesk.hands.screen import windows
from hotdesk.hands.screen.reader_client import Seat
from hotdesk.hands.screen.tools import HEIGHT, WIDTH, Point
from hotdesk.strict import ROW, Length, Range, StrictError, parse_json, read
from hotdesk.tool import Observation

_PROGRAM = Path(__file__).parents[1] / "inside" / "widget_tree.py"
MAX_CHARS = 20_000
"""Characters of a tree that are shown."""
MAX_REFERENCES = 4000
"""References that are stored; the oldest are dropped first."""
_FAR = 100_000
Pixels = Annotated[int, Range(-_FAR, _FAR)]
Size = Annotated[int, Range(0, _FAR)]
Words = Annotated[str, Length(400)]
Process = Annotated[int, Range(0, 1 << 31)]
PIXELS = "Use screen_screenshot and click at coordinates, or use the keyboard."


@dataclass(frozen=True, slots=True)
class Widget:
    """One widget as its program describes it."""

    window: Annotated[int, Range(0, 100)]
    depth: Annotated[int, Range(0, 100)]
    role: Words
    name: Words
    value: Words
    states: Annotated[tuple[Annotated[str, Length(40)], ...], Length(20)]
    x: Pixels
    y: Pixels
    width: Size
    height: Size
    dx: Pixels
    """Distance from the position its program reports."""
    dy: Pixels
    bus: Annotated[str, re.compile(r"(:[0-9.]{1,40})?")]
    """Its program's name on the accessibility bus; empty if the widget cannot be clicked."""
    path: Annotated[str, re.compile(r"[A-Za-z0-9_/]{0,200}")]

    @property
    def middle(self) -> Point:
        return clip(self.x + self.width // 2, WIDTH), clip(self.y + self.height // 2, HEIGHT)


@dataclass(frozen=True, slots=True)
class AccessibleWindow:
    """A window that has an accessibility tree."""

    title: Words
    program: Words
    pid: Process


@dataclass(frozen=True, slots=True)
class FrontWindow:
    """The window that has the focus, as the window manager knows it."""

    title: Words
    pid: Process


@dataclass(frozen=True, slots=True)
class WidgetReport:
    """The report of the program in the desk."""

    front: Annotated[FrontWindow, ROW] = field(default_factory=lambda: FrontWindow("", 0))
    windows: Annotated[tuple[Annotated[AccessibleWindow, ROW], ...], Length(100)] = ()
    nodes: Annotated[tuple[Annotated[Widget, ROW], ...], Length(1000)] = ()
    cut: bool = False
    busy: bool = False
    """Whether the program in front has a tree but does not respond."""
    error: Annotated[str, Length(40)] = ""


@dataclass(frozen=True, slots=True)
class WidgetPlace:
    box: tuple[Pixels, Pixels, Size, Size] = (0, 0, 0, 0)
    gone: bool = False
    error: Annotated[str, Length(40)] = ""


class Widgets:
    """Reads the widgets of one desk, and stores what their references mean."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.references: dict[str, Widget] = {}
        self.count = 0

    async def read(self, window: str) -> Observation:
        """Return the tree of some windows as text; if there is none, what to do instead."""
        done = await self.run({"window": window})
        try:
            report = read(WidgetReport, parse_json(done.stdout))
        except StrictError as e:
            raise DeskError(f"the screen cannot be read as text: {describe_end(done, e)}. {PIXELS}") from None
        if report.error:
            return Observation(f"This desk's image has no accessibility service. {PIXELS}", ok=False)
        if not report.nodes:
            return Observation(_describe_silence(report, window), fallback="coordinates")
        text, omitted = self.render(report)
        more = "the text is cut off" if omitted or report.cut else ""
        more += f", {omitted} more lines follow" if omitted else ""
        return Observation(text, note=f"{more}; set `window` to read one window" if more else "")

    async def locate(self, ref: str) -> Point:
        widget = self.references.get(ref)
        if widget is None:
            raise DeskError(f"unknown reference {make_printable(ref[:20])}: use one from the last screen_read")
        done = await self.run({"bus": widget.bus, "path": widget.path})
        try:
            place = read(WidgetPlace, parse_json(done.stdout))
        except StrictError as e:
            raise DeskError(f"{ref} cannot be found: {describe_end(done, e)}. {PIXELS}") from None
        x, y, width, height = place.box
        x, y = x + widget.dx + width // 2, y + widget.dy + height // 2
        if place.gone or place.error or not width or not height or not (0 <= x < WIDTH and 0 <= y < HEIGHT):
            raise DeskError(f"{ref} ({describe(widget)}) is no longer on the screen: use screen_read again")
        return x, y

    async def run(self, request: dict[str, str]) -> Done:
        argv = ["python3", "-I", "-B", "-c", _PROGRAM.read_text()]
        return await windows.run(self.seat, argv, json.dumps(request).encode())

    def render(self, report: WidgetReport) -> tuple[str, int]:
        lines: list[str] = []
        size, shown = 0, -1
        for place, widget in enumerate(report.nodes):
            if widget.window != shown and widget.window < len(report.windows):
                shown = widget.window
                lines.append(_describe_window(report.windows[shown]))
            line = f"{'  ' * min(widget.depth, 20)}- {describe(widget)}{self.refer(widget)}"
            size += len(line) + 1
            if size > MAX_CHARS:
                return "\n".join(lines), len(report.nodes) - place
            lines.append(line)
        return "\n".join(lines), 0

    def refer(self, widget: Widget) -> str:
        if not (widget.bus and widget.path and widget.width and widget.height):
            return ""
        self.count += 1
        self.references[f"a{self.count}"] = widget
        while len(self.references) > MAX_REFERENCES:
            del self.references[next(iter(self.references))]
        x, y = widget.middle
        return f" [a{self.count}] at {x},{y}"


def describe(widget: Widget) -> str:
    name = f' "{make_printable(widget.name)}"' if widget.name else ""
    states = "".join(f" ({make_printable(state)})" for state in widget.states)
    value = f": {make_printable(widget.value)}" if widget.value else ""
    return f"{make_printable(widget.role)}{name}{states}{value}"


def _describe_window(window: AccessibleWindow) -> str:
    return f'Window "{make_printable(window.title)}" of {make_printable(window.program)}, pid {window.pid}:'


def _describe_silence(report: WidgetReport, window: str) -> str:
    there = "; ".join(f'"{make_printable(each.title)}"' for each in report.windows[:20])
    others = f" Windows that can be read: {there}." if there else ""
    if window:
        what = (
            "No window can be read"
            if window == "all"
            else f"No window that can be read has {make_printable(window)!r} in its title"
        )
        return f"{what}.{others} {PIXELS}"
    if not report.front.pid and not report.front.title:
        return f"No window has the focus.{others} Start a program with screen_launch."
    if report.busy:
        return (
            f'The program of the window in front, "{make_printable(report.front.title)}", does not respond '
            f"yet.{others} "
            "Wait with screen_settle and read again, or use screen_screenshot."
        )
    return (
        f'The window in front, "{make_printable(report.front.title)}", shows no widgets to other programs (Tk, '
        "Motif and "
        f"Chromium do not).{others} {PIXELS} For web pages use browser_snapshot."
    )


def describe_end(done: Done, error: StrictError) -> str:
    if done.timed_out:
        return "a program on the screen does not respond"
    words = make_printable(done.stderr.decode("utf-8", "replace").strip()[-200:])
    return words if not done.ok and words else f"the report is malformed ({error})"


def clip(at: int, size: int) -> int:
    return min(max(at, 0), size - 1)
