"""Gathers evidence from a clean desk: runs inspection programs there and reads their reports as untrusted data.

A program is a module of `inside/`. It reads a request as JSON on standard input and prints a line of JSON, then the
compressed pixels of rendered pages. All of it is bounded and parsed strictly, because the desk may be compromised.
"""

from __future__ import annotations

import json
import re
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

from hotdesk.checks.malformed import MalformedReportError
from hotdesk.checks.seam import DrawnPixels, Evidence, Fault, Verdict
from hotdesk.desk.seam import Desk, Done
from hotdesk.errors import make_printable, unwrap_group
from hotdesk.strict import Length, Range, StrictError, compile_reader, parse_json

INSIDE = Path(__file__).with_name("inside")
FOLDER = ".checks"
"""Folder of the programs in a desk, below its home."""
_OWN_REMEDIES = (
    (
        re.compile(r"(more|larger|longer) than \d|can be checked"),
        "Reduce the content of the file to within this limit.",
    ),
    (re.compile("nothing in row 1"), "Write the headings into row 1, and each cell once."),
    (re.compile("stored twice"), "Write each cell once."),
    (re.compile("LibreOffice could not start"), "Deliver the file again."),
    (re.compile("pdftotext cannot read the PDF"), "Ask for a source PDF that can be read: the brief's is damaged."),
)
"""Problems whose remedy is not that of a file in a wrong format."""
MAX_REPORT_BYTES = 32 << 20
"""Limit of the size of the report, in bytes."""
MOST_NESTED = 1_500_000
"""Maximum lists and objects in a report: an empty one takes thirty times its length in memory."""
_LARGEST_ALL = 96 << 20
"""Maximum bytes that a desk returns for one file, including pages."""
MOST_PAGES = 200
WIDEST = 2000
"""Maximum pixels of a page's longest side."""
MOST_PIXELS = 60_000_000
"""Maximum pixels of all pages together: blank pages compress to almost nothing."""
MAX_TEXT_CHARS = 500
"""Maximum characters of a text that is shown."""
MOST_FAULTS = 3000
"""Faults of one file beyond which only a few of each rule are kept. `summary.py` groups them by kind and range."""
_MOST_OF_A_RULE, _LEAST_OF_A_RULE = 1000, 10
"""Maximum faults of one rule, before and beyond `MOST_FAULTS`, so that no rule hides another."""
_MOST_COUNTED = 300_000
LOOK_TIMEOUT_S = 120.0
RESIDENT = "resident"
"""Module by which a program stays resident and answers later calls for itself and for others."""
OFFICE_PROCESSES = 2
"""Processes that stay after a check that opens a file in an office suite: the suite, and a resident program."""
NOBODY = 99
"""Exit code of a call that no resident program answered."""
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
"""Client of a resident program: passes on its own standard streams and waits for the end."""
RUN = """
import runpy, sys, types
sys.path.append(sys.argv[1])
for name in ("hotdesk", "hotdesk.checks", "hotdesk.checks.inside"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [sys.argv[1]]
runpy.run_module(sys.argv[2], run_name="__main__")
"""
"""Launcher of a program. Imports from `hotdesk.checks.inside` resolve to the same folder."""


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
    """Run a program of `inside/` in a desk; return its output. `needs` names the other modules of `inside/` it imports.

    `stays` names a program that is started instead, answers this call and stays resident for later ones.
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
    """Write programs into a desk before they are started, so that no earlier file can have replaced them."""
    try:
        async with anyio.create_task_group() as tasks:
            for name in programs:
                tasks.start_soon(desk.write, f"{folder}/{name}.py", (INSIDE / f"{name}.py").read_bytes())
    except BaseExceptionGroup as e:
        raise unwrap_group(e) from None


def describe_failure(done: Done) -> str:
    """Explain, by the keeper's word, why an inspection program did not end normally; return `""` if it did."""
    if done.timed_out:
        return "the inspection did not finish in time"
    if done.out_of_memory:
        return "the inspection ran out of memory"
    if done.truncated:
        return f"the inspection report exceeds the limit of {_LARGEST_ALL >> 20} MiB"
    return "" if done.ok else f"the inspection program ended with exit code {done.exit_code}"


def unpack(output: bytes) -> Evidence:
    """Unpack a program's output, without pages that do not match their description."""
    report, _, rest = output.partition(b"\n")
    try:
        sizes = _page_sizes(read_json(report))
        pages = tuple(_read_pages(sizes, rest))
    except (ValueError, RecursionError, zlib.error):
        return Evidence(report[:MAX_REPORT_BYTES])
    return Evidence(report[:MAX_REPORT_BYTES], pages)


def _page_sizes(evidence: object) -> list[tuple[int, int, int]]:
    """Read the pages' sizes: width, height and compressed bytes."""
    listed = evidence.get("drawn", []) if isinstance(evidence, dict) else []
    found: list[tuple[int, int, int]] = compile_reader(SIZES)(listed)
    if sum(width * height for width, height, _ in found) > MOST_PIXELS:
        raise ValueError(f"the rendered pages have more than {MOST_PIXELS} pixels in total")
    return found


def _read_pages(sizes: Sequence[tuple[int, int, int]], rest: bytes) -> list[DrawnPixels]:
    pages, at = [], 0
    for width, height, size in sizes:
        inflating = zlib.decompressobj()
        rgb = inflating.decompress(rest[at : at + size], width * height * 3)
        if len(rgb) != width * height * 3:
            raise ValueError("the pixels of a rendered page do not match its reported size")
        pages.append(DrawnPixels(width, height, rgb))
        at += size
    return pages


def read_json(data: bytes, name: str = "the inspection report") -> object:
    """Parse a desk's JSON; raise `ValueError` if it is malformed, too large or has a number that is not finite."""
    if not data:
        raise MalformedReportError("it is empty")
    if len(data) >= MAX_REPORT_BYTES:
        raise ValueError(f"{name} is larger than {MAX_REPORT_BYTES >> 20} MiB, which is the limit")
    if data.count(b"[") + data.count(b"{") > MOST_NESTED:
        raise ValueError(f"{name} has more than {MOST_NESTED} lists and objects, which is the limit")
    try:
        return parse_json(data, duplicates=True, overflow=True)
    except StrictError:
        raise MalformedReportError("it is not JSON") from None


def read_text(value: object, longest: int = MAX_TEXT_CHARS) -> str:
    """Return a desk's text for display, cut and printable; raise `ValueError` if it is not a text."""
    if not isinstance(value, str):
        raise MalformedReportError("expected a text")
    return make_printable(value[:longest])


def read_number(value: object) -> float:
    """Return a desk's number; raise `ValueError` if it is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise MalformedReportError("expected a number")
    return float(value)


def limit_faults(faults: Iterable[Fault], remedies: Mapping[str, str]) -> tuple[tuple[Fault, ...], int]:
    """Keep a limited number of faults of each rule, with its remedy; return them and the number left out."""
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
    """Return the verdict on a file that could not be inspected: `expected X, found a problem: ERROR`.

    A malformed report is no fault of the file: the verdict says so.
    """
    if isinstance(error, MalformedReportError):
        detail = f" ({make_printable(error.why[:MAX_TEXT_CHARS])})" if error.why else ""
        expected, found = "a valid result from the desk that checked this file", f"an invalid one{detail}"
        return Verdict(tuple(looked_for), (Fault("opens", "", expected, found, "Deliver the file again."),))
    found = f"a problem: {make_printable(str(error)[:MAX_TEXT_CHARS])}" if str(error) else "nothing"
    if remedy:
        remedy = next((own for problem, own in _OWN_REMEDIES if problem.search(str(error))), remedy)
    return Verdict(tuple(looked_for), (Fault("opens", "", expected, found, remedy),))
