"""Limits how many alarms of one desk are recorded. Of the rest only the last one is, with their number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hotdesk.event import Alarm

PER_WINDOW = 30
"""Alarms of one desk that are recorded one by one in each window."""
WINDOW_S = 60.0


class DeskAlarms:
    """Passes a desk's alarms on; of those above the limit it passes on the last one, with their number."""

    def __init__(self, note: Callable[[Alarm], None]) -> None:
        self.note = note
        self.count = 0
        """Alarms in the current window."""
        self.last: Alarm | None = None
        """The last alarm of the window that was not passed on."""
        self.timer: asyncio.TimerHandle | None = None

    def report(self, alarm: Alarm) -> None:
        if self.timer is None:
            self.timer = asyncio.get_running_loop().call_later(WINDOW_S, self.end_window)
        self.count += 1
        if self.count <= PER_WINDOW:
            self.note(alarm)
        else:
            self.last = alarm

    def end_window(self) -> None:
        """Report how many alarms were left out, and start over."""
        if self.timer is not None:
            self.timer.cancel()
        if self.last is not None:
            desk, what, secret, host = self.last.desk, self.last.what, self.last.secret, self.last.host
            omitted = self.count - PER_WINDOW
            self.note(
                Alarm(
                    desk, what, secret, host,
                    f"{self.last.note}; the last of {omitted} alarms that were not recorded one by one, because the "
                    f"desk raised more than {PER_WINDOW} in {WINDOW_S:.0f} s",
                )
            )  # fmt: skip
        self.count, self.last, self.timer = 0, None, None
