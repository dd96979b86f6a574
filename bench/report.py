"""The report of a run: a table for a terminal, the same as JSON, and which promises were kept."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
from collections.abc import Collection
from pathlib import Path

from bench.book import Book, percentile
from bench.promises import PROMISES, Promise

PROGRAMS = ("crun", "runc", "runsc", "bwrap", "podman", "systemd-nspawn", "btrfs")
USUAL = "container"
"""The wall whose numbers have no column of their own."""


def machine() -> str:
    """Describe this machine in one line, without its name."""
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    memory = round(int(line.split()[1]) / (1 << 20))
    kernel = ".".join(platform.release().split(".")[:2])
    return f"{platform.machine()}, {os.cpu_count()} cores, {memory} GiB, Linux {kernel}"


def versions() -> dict[str, str]:
    """Return the version that each peer reports."""
    found = {}
    for program in PROGRAMS:
        if shutil.which(program):
            said = subprocess.run([program, "--version"], check=False, input="", capture_output=True, text=True).stdout
            words = (said.splitlines() or [""])[0].replace("v", " ").split()
            found[program] = next((word for word in words if word[0].isdigit()), "?")
    return found


def is_rate(name: str) -> bool:
    """Return whether samples of that name are rates, not times."""
    return " per " in name


def number(value: float) -> str:
    """Format a number with about three significant digits."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


def table(book: Book) -> list[str]:
    """Return a line for each sample and fact."""
    lines = [f"{'':58}{'p50':>10}{'p95':>10}{'p99':>10}{'samples':>9}"]
    for name in book.rounds:
        values, scale = book.samples(name), 1 if is_rate(name) else 1e3
        shares = "".join(f"{number(percentile(values, share) * scale):>10}" for share in (0.5, 0.95, 0.99))
        lines.append(f"{name + ('' if is_rate(name) else ', ms'):58}{shares}{len(values):>9}")
    lines += [f"{name:58}{number(value):>10}" for name, value in book.facts.items()]
    lines += [f"{name:58}  not measured: {why}" for name, why in book.lacking.items()]
    return lines


def judge(promise: Promise, book: Book) -> str:
    """Describe whether a promise was kept."""
    value, kept = promise.found(book), promise.kept(book)
    if value is None:
        return f"not measured: {promise.why_not(book)}"
    times = " ×" if promise.against else ""
    return f"{number(value)}{times}  {'kept' if kept else 'not reached, an aim' if promise.aim else 'BROKEN'}"


def promises(book: Book, parts: Collection[str]) -> list[str]:
    """Return a line for each promise that these parts measure."""
    return [f"{promise.text}: {judge(promise, book)}" for promise in PROMISES if promise.part in parts]


def broken(book: Book, parts: Collection[str]) -> list[str]:
    """Return the promises of these parts that were broken or could not be measured, without goals."""
    return [
        f"{promise.text}: {judge(promise, book)}"
        for promise in PROMISES
        if promise.part in parts and not promise.aim and promise.kept(book) is not True
    ]


def quoted(promise: Promise, book: Book) -> str:
    """Format a measurement as SPECIFICATION.md quotes it: a ratio with both its medians."""
    value = promise.found(book)
    if value is None:
        return f"not measured: {promise.why_not(book)}"
    if not promise.against:
        return number(value)
    ours, theirs = (
        number(statistics.median(book.samples(name)) * (1 if is_rate(name) else 1e3))
        for name in (promise.what, promise.against)
    )
    return f"{number(value)} × ({ours} and {theirs}{'' if is_rate(promise.what) else ' ms'})"


def markdown(book: Book) -> str:
    """Return the rows of SPECIFICATION.md: promises, then goals."""
    lines = []
    for head, aim in (("promise", False), ("aim", True)):
        lines += [f"| {head} | measured |", "|---|---|"]
        rows = [each for each in PROMISES if each.aim is aim]
        lines += [f"| {each.text} | {quoted(each, book)} |" for each in rows if each.wall == USUAL]
        lines.append("")
        if others := [each for each in rows if each.wall != USUAL]:
            lines += [f"| wall | {head} | measured |", "|---|---|---|"]
            lines += [f"| `{each.wall}` | {each.text} | {quoted(each, book)} |" for each in others]
            lines.append("")
    return "\n".join(lines)


def as_json(book: Book, settings: dict[str, object]) -> dict[str, object]:
    """Return everything as plain data; times in seconds."""
    samples = {}
    for name in book.rounds:
        values = book.samples(name)
        shares = {f"p{round(share * 100)}": percentile(values, share) for share in (0.5, 0.95, 0.99)}
        samples[name] = {"unit": "" if is_rate(name) else "s", "samples": len(values), **shares}
    return {
        "machine": machine(),
        "versions": versions(),
        "settings": settings,
        "samples": samples,
        "facts": book.facts,
        "not measured": book.lacking,
        "promises": [
            {
                "text": promise.text,
                "what": promise.what,
                "against": promise.against,
                "side": promise.side,
                "bound": promise.bound,
                "wall": promise.wall,
                "aim": promise.aim,
                "measured": promise.found(book),
                "kept": promise.kept(book),
            }
            for promise in PROMISES
        ],
    }
