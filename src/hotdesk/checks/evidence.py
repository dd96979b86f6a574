"""Gather evidence from a clean desk: run inspection programs there, and read their reports as untrusted data.

A program is a module of `inside/`; it gets a request as JSON on its standard input and prints a line of JSON, then the
pixels of the pages it drew, deflated. All of it is bounded here, and read strictly: the desk may have been turned.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, TypeAlias

import anyio
from anyio import to_thread

from hotdesk.checks.seam import DrawnPixels, Evidence, Fault, Verdict
from hotdesk.desk.seam import Desk, Done
from hotdesk.errors import make_printable, unwrap_group
from hotdesk.strict import Length, Range, StrictError, compile_reader, parse_json

INSIDE = Path(__file__).with_name("inside")
FOLDER = ".checks"
"""Where the programs lie in a desk, below its home."""
MAX_REPORT_BYTES = 32 << 20
"""Bytes of the longest line of JSON."""
MOST_NESTED = 1_500_000
"""Lists and tables in it: an empty one takes thirty times its letters."""
_LARGEST_ALL = 96 << 20
"""Bytes that come out of a desk for one file, pages and all."""
MOST_PAGES = 200
WIDEST = 2000
"""Pixels of a page's longest side."""
MOST_PIXELS = 60_000_000
"""Of all pages together: nothing deflates as well as nothing."""
MAX_TEXT_CHARS = 500
"""Characters of the longest text that is told on."""
MOST_FAULTS = 3000
"""Faults of one file after which few of each rule are kept. They are read by kind and range (`summary.py`)."""
_MOST_OF_A_RULE, _LEAST_OF_A_RULE = 1000, 10
"""Of one rule, and of one rule beyond all: no rule hides another."""
_MOST_COUNTED = 300_000
LOOK_TIMEOUT_S = 120.0
RESIDENT = "resident"
"""The module by which a program stays, and answers later calls for itself and others."""
NOBODY = 99
"""The exit code of an unanswered call."""
CALL = f"""
import _socket, sys
line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
try:
    line.connect(sys.argv[1] + "/{RESIDENT}")
    files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    line.sendmsg([sys.argv[2].encode()], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
except OSError:
    sys.exit({NOBODY})
line.recv(1)
"""
"""Lets one that stays answer, with this program's own input and output, and waits until it has."""
RUN = """
import runpy, sys, types
sys.path.append(sys.argv[1])
for name in ("hotdesk", "hotdesk.checks", "hotdesk.checks.inside"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [sys.argv[1]]
runpy.run_module(sys.argv[2], run_name="__main__")
"""
"""Runs a program; what it imports of `hotdesk.checks.inside` lies in the same folder, and nothing else of ours does."""


Side: TypeAlias = Annotated[int, Range(1, WIDEST)]
SIZES = Annotated[list[tuple[Side, Side, Annotated[int, Range(1)]]], Length(MOST_PAGES)]


async def look(
    desk: Desk,
    program: str,
    request: Mapping[str, object],
    *,
    seconds: float = LOOK_TIMEOUT_S,
    needs: Sequence[str] = (),
    stays: str = "",
) -> Evidence:
    """Run a program of `inside/` in a desk; return its output. `needs` names other modules of `inside/` it imports.

    `stays` names a program that is run in its place, answers for it, and stays for later calls.
    """
    folder, stdin = f"{desk.home}/{FOLDER}", json.dumps(request).encode()
    run = partial(desk.run, stdin=stdin, timeout=seconds, output_limit=_LARGEST_ALL)
    done = Done(NOBODY)
    if RESIDENT in needs:
        done = await run(["python3", "-I", "-S", "-B", "-c", CALL, folder, program])
    if done.exit_code == NOBODY:
        await bring(desk, folder, (program, *needs))
        done = await run(["python3", "-I", "-B", "-c", RUN, folder, stays or program, program])
    return replace(await to_thread.run_sync(unpack, done.stdout), trouble=describe_failure(done))


async def bring(desk: Desk, folder: str, programs: Sequence[str]) -> None:
    """Write programs into a desk at once, before every look, so that none comes from another file."""
    try:
        async with anyio.create_task_group() as tasks:
            for name in programs:
                tasks.start_soon(desk.write, f"{folder}/{name}.py", (INSIDE / f"{name}.py").read_bytes())
    except BaseExceptionGroup as e:
        raise unwrap_group(e) from None


def describe_failure(done: Done) -> str:
    """Describe how an examining program ended, if not by itself, by the keeper's word."""
    if done.timed_out:
        return "the inspection did not finish in time"
    if done.out_of_memory:
        return "the inspection ran out of memory"
    if done.truncated:
        return "the inspection report is too large"
    return "" if done.ok else f"the inspection program ended with exit code {done.exit_code}"


def unpack(output: bytes) -> Evidence:
    """Unpack a program's output; pages that do not match their description are left out."""
    report, _, rest = output.partition(b"\n")
    try:
        sizes = _page_sizes(read_json(report))
        pages = tuple(_read_pages(sizes, rest))
    except (ValueError, RecursionError, zlib.error):
        return Evidence(report[:MAX_REPORT_BYTES])
    return Evidence(report[:MAX_REPORT_BYTES], pages)


def _page_sizes(evidence: object) -> list[tuple[int, int, int]]:
    """Read how large the pages are: width, height, bytes when deflated."""
    listed = evidence.get("drawn", []) if isinstance(evidence, dict) else []
    found: list[tuple[int, int, int]] = compile_reader(SIZES)(listed)
    if sum(width * height for width, height, _ in found) > MOST_PIXELS:
        raise ValueError("the rendered pages are too large in total")
    return found


def _read_pages(sizes: Sequence[tuple[int, int, int]], rest: bytes) -> list[DrawnPixels]:
    pages, at = [], 0
    for width, height, size in sizes:
        inflating = zlib.decompressobj()
        rgb = inflating.decompress(rest[at : at + size], width * height * 3)
        if len(rgb) != width * height * 3:
            raise ValueError("a page does not have the size that was reported")
        pages.append(DrawnPixels(width, height, rgb))
        at += size
    return pages


def read_json(data: bytes) -> object:
    """Parse a desk's JSON; `ValueError` if it is invalid, too large, or has a number that is not finite."""
    if not data or len(data) >= MAX_REPORT_BYTES:
        raise ValueError("the inspection report is empty or too large")
    if data.count(b"[") + data.count(b"{") > MOST_NESTED:
        raise ValueError("the inspection report has too many values")
    try:
        return parse_json(data, duplicates=True, overflow=True)
    except StrictError:
        raise ValueError("the inspection report is not JSON") from None


def read_text(value: object, longest: int = MAX_TEXT_CHARS) -> str:
    """Return a desk's text for display: short and printable; `ValueError` otherwise."""
    if not isinstance(value, str):
        raise ValueError("malformed inspection report: expected a text")
    return make_printable(value[:longest])


def read_number(value: object) -> float:
    """Return a desk's number; `ValueError` if it is invalid."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise ValueError("malformed inspection report: expected a number")
    return float(value)


def limit_faults(faults: Iterable[Fault], remedies: Mapping[str, str]) -> tuple[tuple[Fault, ...], int]:
    """Keep a bounded number of faults of every rule, each with its rule's remedy; count the others."""
    listed: list[Fault] = []
    of_rule: Counter[str] = Counter()
    left_out = 0
    for fault in islice(faults, _MOST_COUNTED):
        of_rule[fault.rule] += 1
        most = _MOST_OF_A_RULE if len(listed) < MOST_FAULTS else _LEAST_OF_A_RULE
        if of_rule[fault.rule] > most:
            left_out += 1
        else:
            listed.append(fault if fault.remedy else replace(fault, remedy=remedies.get(fault.rule, "")))
    return tuple(listed), left_out


def make_unreadable_verdict(looked_for: Sequence[str], expected: str, error: Exception, remedy: str = "") -> Verdict:
    """Return the verdict on a file that could not be examined: `expected X, found a problem: ERROR`."""
    found = f"a problem: {make_printable(str(error)[:MAX_TEXT_CHARS])}" if str(error) else "nothing"
    return Verdict(tuple(looked_for), (Fault("opens", "", expected, found, remedy),))
