"""Progress of a swarm: one redrawn line on a terminal, occasional lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from hotdesk.errors import make_printable
from hotdesk.event import Event, ItemEnded, JobPaused, Pending, Planned, Reduced, SwarmBegun
from hotdesk.job.event_text import describe
from hotdesk.swarm.receipt import SwarmReceipt
from hotdesk.swarm.run import SwarmRun

_LINE_INTERVAL_S = 10.0
"""Seconds between two lines if output is not a terminal."""
_RATE_WINDOW_S = 20.0


class SwarmBoard:
    """Shows one swarm."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self.stream, self.clock = stream, clock
        self.live = stream.isatty()
        self.run: SwarmRun | None = None
        self.last_line = clock()
        self.ends: list[float] = []
        """End times of recent items."""
        self.is_drawn = False
        self.asides = 0
        """Number of questions that use the terminal now."""

    @contextmanager
    def aside(self) -> Iterator[None]:
        self.erase()
        self.asides += 1
        try:
            yield
        finally:
            self.asides -= 1

    def watch(self, run: SwarmRun) -> None:
        self.run = run

    def show(self, event: Event) -> None:
        """Print an event that people should see at once."""
        match event:
            case ItemEnded():
                self.ends.append(self.clock())
                if event.outcome != "done":
                    self.say(f"quarantine {event.item}: {event.why}")
            case SwarmBegun():
                self.say(f"items    {event.items:,}, sha256 of the list of items {event.manifest}")
            case Pending() | Planned() | JobPaused():
                if (line := describe(event).line) is not None:
                    self.say(f"{line[1]:8} {line[2]}")
            case Reduced():
                self.say(f"report   {', '.join(event.paths)}")

    def say(self, text: str) -> None:
        self.erase()
        print(make_printable(text), file=self.stream, flush=True)

    def erase(self) -> None:
        if self.is_drawn:
            self.stream.write("\r\x1b[K")
            self.is_drawn = False

    def tick(self) -> None:
        if self.run is None or self.run.state.begun is None or self.asides:
            return
        if self.live:
            self.erase()
            self.stream.write(make_printable(self.describe())[:200])
            self.stream.flush()
            self.is_drawn = True
        elif self.clock() - self.last_line >= _LINE_INTERVAL_S:
            self.last_line = self.clock()
            self.say(self.describe())

    def describe(self) -> str:
        """Describe the progress: items done, rate, remaining time, cost so far and expected."""
        assert self.run is not None
        run, state = self.run, self.run.state
        ended, total = len(state.items), len(run.items)
        rate = self.measure_rate()
        rest = f", {(total - ended) / rate:,.0f} s to go" if rate and ended < total else ""
        dollars = run.ledger.measure_use("dollars")
        cost = f", ${dollars:.2f} of about ${dollars * total / ended:.2f}" if dollars and ended else ""
        failed = len(state.quarantined)
        return (
            f"swarm    {ended:,} of {total:,} items, {failed:,} in quarantine, {run.active:,} running, "
            f"{rate:.1f}/s{rest}{cost}"
        )

    def measure_rate(self) -> float:
        now = self.clock()
        self.ends = [at for at in self.ends if now - at <= _RATE_WINDOW_S]
        return len(self.ends) / max(1.0, now - self.ends[0]) if self.ends else 0.0

    def close(self) -> None:
        self.erase()


def format_receipt(receipt: SwarmReceipt) -> list[str]:
    lines = [
        f"swarm    {receipt.job}: {receipt.outcome}{f', {receipt.why}' if receipt.why else ''}",
        f"items    {receipt.done:,} of {receipt.items:,} passed, {receipt.quarantined:,} in quarantine",
        *(f"         {count:,} of {cause}: {why}" for cause, why, count in receipt.failures[:10]),
        f"took     {receipt.seconds:,.1f} s, {receipt.acts:,} acts, {receipt.tokens:,} tokens, ${receipt.dollars:,.2f}",
    ]
    lines += [f"root     {receipt.root}"] if receipt.root else []
    return lines
