"""The charts of a run; measurements that are missing are left out, and so are empty charts."""

from __future__ import annotations

import statistics

from bench import command, crowd, snapshots, start, warm
from bench.book import Book, percentile
from bench.chart import Panel, Row, bars, latencies, lines, sheet

STARTS = {
    warm.WARM: "hotdesk, warm claim",
    warm.WARM_SCOPED: "hotdesk, warm, self-tested door",
    start.COLD: "hotdesk, cold open",
    start.SCOPED: "hotdesk, cold, self-tested door",
    command.RUN: "hotdesk run, as a program",
    command.FIRST: "hotdesk run, the first",
    "crun run": "crun run",
    "runc run": "runc run",
    "bubblewrap": "bubblewrap",
    "systemd-nspawn": "systemd-nspawn",
    "podman run": "podman run",
}
EXECS = {
    start.EXEC: "hotdesk, an open desk",
    start.LOCAL: "subprocess.run, no container",
    start.CRUN_EXEC: "crun exec",
    start.PODMAN_EXEC: "podman exec",
}
KEY = "dot: median · tick: p95 · ring: p99 · log scale, ms"


def spread(book: Book, names: dict[str, str]) -> list[Row]:
    """Return rows of median, p95 and p99 in milliseconds, for the names that were measured."""
    return [
        Row(shown, tuple(percentile(values, share) * 1e3 for share in (0.5, 0.95, 0.99)), shown.startswith("hotdesk"))
        for name, shown in names.items()
        if (values := book.samples(name))
    ]


def medians(book: Book, names: dict[str, str]) -> list[Row]:
    """Return rows of medians, unscaled, for the names that were measured."""
    return [
        Row(shown, (statistics.median(values),), shown.startswith("hotdesk"))
        for name, shown in names.items()
        if (values := book.samples(name))
    ]


def along(book: Book, names: list[str], shown: str, ours: bool) -> list[Row]:
    """Return a row of medians in milliseconds, if all names were measured."""
    values = [book.samples(name) for name in names]
    return [Row(shown, tuple(statistics.median(each) * 1e3 for each in values), ours)] if all(values) else []


def start_panels(book: Book) -> list[Panel]:
    found = []
    if rows := spread(book, STARTS):
        found.append(
            latencies("From asking for a computer to the result of true", f"same root file system; {KEY}", rows)
        )
    if rows := spread(book, EXECS):
        found.append(latencies("The result of true in one that is already running", KEY, rows))
    return found


def crowd_panels(book: Book, size: int) -> list[Panel]:
    burst = {crowd.burst_of(size): "hotdesk, cold opens", crowd.podman_burst_of(size): "podman run"}
    thrift = {crowd.THRIFT: "hotdesk", crowd.PODMAN_THRIFT: "podman run"}
    rate = {crowd.RATE: "hotdesk", crowd.PODMAN_RATE: "podman run"}
    found = []
    if rows := medians(book, burst):
        found.append(bars(f"{size} started together", "seconds until the last has answered; less is better", rows))
    if rows := medians(book, thrift):
        found.append(bars("Open, run true, burn", "how often per CPU second of the machine; more is better", rows))
    if rows := medians(book, rate):
        found.append(bars("The same per second", f"{crowd.AT_ONCE} at a time; more is better", rows))
    return found


def snapshot_panels(book: Book) -> list[Panel]:
    found = []
    ours = along(book, [snapshots.changed(size) for size in snapshots.CHANGED], "hotdesk snapshot", True)
    theirs = along(book, [snapshots.bare(size) for size in snapshots.CHANGED], "btrfs subvolume snapshot", False)
    if rows := ours + theirs:
        steps = [f"{size} MiB" for size in snapshots.CHANGED]
        found.append(lines("A snapshot after a change", "median by what was written before it; log scale", steps, rows))
    if rows := along(book, [snapshots.lying(size) for size in snapshots.UPPERS], "hotdesk snapshot", True):
        steps = [f"{size} MiB" for size in snapshots.UPPERS]
        told = "median after 1 MiB of change, by what lies in the upper layer; log scale"
        found.append(lines("A snapshot of a desk that holds more", told, steps, rows))
    return found


def draw(book: Book, size: int, machine: str) -> dict[str, str]:
    """Return every chart by its file name; `bench.svg` has all panels on one sheet."""
    panels = {"start": start_panels(book), "crowd": crowd_panels(book, size), "snapshot": snapshot_panels(book)}
    panels["bench"] = [panel for each in panels.values() for panel in each]
    return {f"{name}.svg": sheet(each, machine) for name, each in panels.items() if each}
