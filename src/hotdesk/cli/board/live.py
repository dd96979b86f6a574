"""The board: a job on a terminal, redrawn in place; without a terminal, one line for each event to be shown.

No terminal mode stays switched on, so a process that is killed leaves the terminal as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

from hotdesk.cli.board import lines
from hotdesk.cli.board.area import lay
from hotdesk.cli.board.cells import Line, TerminalTraits, measure_visible_width
from hotdesk.cli.board.state import ShownLimits, State
from hotdesk.event import Event, Exchange, StepBegun
from hotdesk.job.record.papers import Papers
from hotdesk.plan import OURS

_DRAW_INTERVAL_S = 0.1
"""Minimum seconds between two drawings, unless there is a line to print."""
_REFUSED_SHOWN = 20
"""Maximum refused targets that get a line: a desk may try any number, and the receipt counts them."""
UNWRAPPED, WRAPPED = "\x1b[?7l", "\x1b[?7h"
"""Switch line wrapping off and on: a row that is wider than computed is then cut and does not move the others."""
TO_END_OF_ROW, TO_END = "\x1b[K", "\x1b[J"


class Board:
    """Shows one job while it runs."""

    def __init__(
        self,
        stream: TextIO,
        papers: Papers | None,
        clock: Callable[[], float],
        limits: ShownLimits = ShownLimits(),  # noqa: B008 - frozen
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.stream = stream
        self.clock = clock
        self.live = stream.isatty() and environment.get("TERM", "dumb") not in ("", "dumb")
        unicode = "utf" in (stream.encoding or "").lower().replace("-", "")
        self.look = TerminalTraits(colours=self.live and not environment.get("NO_COLOR"), unicode=unicode)
        self.state = State(papers if self.live else None, limits)
        self.lines: list[Line] = []
        """Lines to print above the live area."""
        self.area: list[str] = []
        """Painted rows of the live area; the rows they occupy depend on the terminal's width."""
        self.refused: set[tuple[str, str]] = set()
        self.drawn = 0.0
        self.suspended = False
        self.deaf = False

    def recall(self, events: Iterable[tuple[float, Event]]) -> None:
        """Replay earlier events, each with its time in seconds since 1970, without printing them."""
        for at, event in events:
            self.state.take(event, at)

    def show(self, event: Event) -> None:
        self.state.take(event, self.clock())
        if not self.is_hidden(event):
            self.lines += [[(style, text)] for style, text in lines.say(event, self.state)]
        if self.lines or self.clock() - self.drawn >= _DRAW_INTERVAL_S:
            self.draw()

    def say(self, *lines: str) -> None:
        self.lines += [[("", line)] for line in lines]
        self.draw()

    def tick(self) -> None:
        if self.live:
            self.draw()

    def close(self) -> None:
        self.suspended = False
        self.draw(last=True)
        self.live = False

    def report_interruption(self) -> None:
        commands = "; ".join(f"`hotdesk burn {desk}`" for desk in self.state.desks)
        desks = f"end its open desks: {commands}" if commands else "its desks are burnt"
        self.say(f"hotdesk: the job was interrupted; {desks}")

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Leave the terminal to other output while the block runs; the board's own lines wait."""
        self.draw(last=True)
        self.suspended = True
        try:
            yield
        finally:
            self.suspended = False
            self.draw()

    def is_hidden(self, event: Event) -> bool:
        match event:
            case StepBegun():
                return self.live and event.step not in OURS
            case Exchange() if event.step and event.refused:
                listed = (event.method, event.host) in self.refused
                if not listed and len(self.refused) < _REFUSED_SHOWN:
                    self.refused.add((event.method, event.host))
                    return False
                return True
        return False

    def draw(self, last: bool = False) -> None:
        if self.suspended:
            return
        if not self.live:
            self.write("".join(f"{self.look.paint(line)}\n" for line in self.lines))
            self.lines.clear()
            return
        self.drawn = self.clock()
        width, height = self.measure_terminal()
        above = "".join(f"{self.look.paint(line)}{TO_END_OF_ROW}\n" for line in self.lines)
        self.lines.clear()
        area = [] if last else lay(self.state, width, height - max(height // 4, 1), self.drawn, self.look)
        rows = "\n".join(f"{row}{TO_END_OF_ROW}" for row in area)
        self.write(f"{self.move_to_start(width)}{above}{UNWRAPPED}{rows}{TO_END}{WRAPPED}")
        self.area = area

    def move_to_start(self, width: int) -> str:
        """Return the codes to go to the start of the live area, whose rows a narrower terminal has wrapped."""
        rows = sum(max(-(-measure_visible_width(row) // max(width, 1)), 1) for row in self.area)
        return f"\r\x1b[{rows - 1}A" if rows > 1 else "\r"

    def measure_terminal(self) -> tuple[int, int]:
        try:
            found = os.get_terminal_size(self.stream.fileno())
        except (OSError, ValueError):
            return 80, 24
        return found.columns or 80, found.lines or 24

    def write(self, text: str) -> None:
        """Write to the terminal; stop writing, but not the job, if it has gone."""
        if self.deaf or not text:
            return
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):
            self.deaf = True
