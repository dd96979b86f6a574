"""`hotdesk doctor`: test every measure of the walls on this machine."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hotdesk import __version__, config
from hotdesk.cli import FAILED, options
from hotdesk.cli.quick.place import Place, list_holders
from hotdesk.cli.terminal import run_interruptible
from hotdesk.dataclass import dataclass
from hotdesk.doctor import host_needs
from hotdesk.doctor.examination import Examination, examine, look_at_machine
from hotdesk.doctor.machine import format_line
from hotdesk.doctor.measure import THEMES, Result, State
from hotdesk.doctor.sentry import LEFT_OUT
from hotdesk.doctor.walls import ExaminedWall
from hotdesk.doctor.walls import as_json as wall_json
from hotdesk.errors import WallError
from hotdesk.walls import NAMES, explain_missing

SCHEMA = 1
NARROW, WIDE = 60, 120
MARKS: dict[State, str] = {"held": "✔", "failed": "✘", "untested": "?"}
PLAIN: dict[State, str] = {"held": "+", "failed": "!", "untested": "?"}
_PLAINER = str.maketrans({"·": "-", "…": "..."})
"""ASCII replacements of symbols."""
COLOURS: dict[State, str] = {"held": "32", "failed": "1;31", "untested": "33"}


@dataclass(frozen=True, slots=True)
class Paper:
    """The properties of the output."""

    width: int
    coloured: bool
    marks: dict[State, str]

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self.coloured else text


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wall", choices=NAMES[1:], help="test desks behind this wall only")
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Test the walls on this machine: every measure, in desks opened for the test.

    The output begins with the walls of this machine: which are available, how to set up others, and what an idle desk
    uses. For each available wall it lists the measures that passed, those that failed with a remedy, and those not
    tested and why.

    Exit code 0 means that every tested measure passed, 1 that one failed, 125 that
    no desk could be opened. Other open desks are not touched. It takes seconds.

    For example:

      hotdesk doctor
      hotdesk doctor --wall gvisor
      hotdesk doctor --json | jq -r '.measures[] | select(.state == "failed").name'
    """
    settings = config.load()
    found = look_at_machine(settings)
    if arguments.wall:
        _require_wall(found, arguments.wall)

    async def work() -> int:
        with _show_progress("opening desks to test their walls …"):
            await examine(settings, found, arguments.wall or "")
        return 0

    if code := run_interruptible(work):
        return code
    if arguments.json:
        print(json.dumps(as_json(found), indent=1))
    else:
        on = _detect_paper()
        text = "\n".join(render(found, on))
        print(text if on.marks is MARKS else text.translate(_PLAINER))
    return exit_code(found)


def _require_wall(found: Examination, name: str) -> None:
    for wall in found.walls:
        if wall.status.name == name and not wall.status.is_available:
            raise WallError(explain_missing(wall.status))


@contextmanager
def _show_progress(text: str) -> Iterator[None]:
    if not sys.stderr.isatty():
        yield
        return
    print(text, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(f"\r{' ' * len(text)}\r", end="", file=sys.stderr, flush=True)


def exit_code(found: Examination) -> int:
    if found.unopened is not None:
        return FAILED
    if any(wall.failure for wall in found.walls):
        return 1
    return int(any(result.finding.state == "failed" for result in found.results))


def _detect_paper() -> Paper:
    terminal = sys.stdout.isatty()
    try:
        "".join(MARKS.values()).encode(sys.stdout.encoding or "ascii")
        marks = MARKS
    except UnicodeEncodeError:
        marks = PLAIN
    width = shutil.get_terminal_size((100, 24)).columns
    return Paper(min(max(width, NARROW), WIDE), terminal and not os.environ.get("NO_COLOR"), marks)


def render(found: Examination, on: Paper) -> Iterator[str]:
    results = found.sort_results()
    yield format_line(found.facts)
    if found.host:
        yield f"on {found.host.host.describe()}"
    if holders := list_holders(Place()):
        yield f"resident holder, a background process for short commands: pid {', '.join(map(str, holders))}"
    yield from render_walls(found.walls, on)
    column = max(len(result.measure.name) for result in results)
    for theme, heading in THEMES.items():
        shown = [result for result in results if result.measure.theme == theme]
        if shown:
            yield ""
            yield on.paint(heading, "1")
            for result in shown:
                yield from describe(result, column, on)
    yield ""
    if found.host and (start := found.host.describe_start()):
        yield f"Start this container with: {start}"
    yield _summarize_examination(found, on)


def render_walls(walls: Sequence[ExaminedWall], on: Paper) -> Iterator[str]:
    """Format the walls of this machine, weakest first: which are available, and how to set up others."""
    if not walls:
        return
    yield ""
    yield on.paint("Walls (kinds of isolation), weakest first", "1")
    column = max(len(each.status.name) for each in walls)
    indent = " " * (column + 6)
    for each in walls:
        state: State = "failed" if each.failure else "held" if each.status.is_available else "untested"
        lines = wrap(each.describe(), on.width - len(indent))
        lines += [line for flaw in each.status.flaws for line in wrap(f"note: {flaw}", on.width - len(indent))]
        yield f"  {on.paint(on.marks[state], COLOURS[state])} {each.status.name.ljust(column)}  {lines[0]}"
        yield from (indent + line for line in lines[1:])


def describe(result: Result, column: int, on: Paper) -> Iterator[str]:
    """Format one measure: what was observed, how, and a remedy if it failed."""
    measure, finding = result.measure, result.finding
    indent = " " * (column + 6)
    width = on.width - len(indent)
    text = finding.seen if finding.state == "held" else f"{measure.promise}: {finding.seen}"
    lines = wrap(text, width)
    if len(lines[-1]) + len(measure.how) + 3 <= width:
        lines[-1] += on.paint(f" · {measure.how}", "2")
    else:
        lines += [on.paint(each, "2") for each in wrap(measure.how, width)]
    if finding.note:
        lines += wrap(f"note: {finding.note}", width)
    if finding.state == "failed":
        lines += [on.paint(each, "1") for each in wrap(f"remedy: {measure.remedy}", width)]
    mark = on.paint(on.marks[finding.state], COLOURS[finding.state])
    yield f"  {mark} {measure.name.ljust(column)}  {lines[0]}"
    yield from (indent + each for each in lines[1:])


def wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(20, width), break_on_hyphens=False) or [""]


def _summarize_examination(found: Examination, on: Paper) -> str:
    count = Counter(result.finding.state for result in found.results)
    parts = f"{count['held']} measures passed, {count['failed']} failed, {count['untested']} not tested here"
    if found.unopened is not None:
        return f"{on.paint('No desk could be opened', COLOURS['failed'])}: {found.unopened}\n{parts}"
    if count["failed"]:
        return f"{on.paint('The isolation does not work as promised', COLOURS['failed'])}: {parts}"
    without = " and ".join(each.status.name for each in found.walls if each.idle and not each.is_examined)
    note = f"\nDesks open behind {without}, but their isolation was not tested: there are no measures for it yet"
    if without and not any(each.is_examined for each in found.walls):
        return f"{on.paint('No isolation was tested', COLOURS['untested'])}: {parts}{note}"
    return f"{on.paint('The isolation works as promised', COLOURS['held'])}: {parts}{note if without else ''}"


def as_json(found: Examination) -> dict[str, object]:
    """Return everything for programs. Within one schema number, fields are only added, never changed."""
    count = Counter(result.finding.state for result in found.results)
    return {
        "schema": SCHEMA,
        "hotdesk": __version__,
        "machine": {
            "name": found.facts.name,
            "arch": found.facts.arch,
            "kernel": found.facts.kernel,
            "runtime": found.facts.runtime,
            "runtime_version": ".".join(map(str, found.facts.version)),
            "cgroup": found.facts.cgroups[:2],
        },
        "host": host_needs.as_json(found.host) if found.host else None,
        "walls": [wall_json(each) for each in found.walls],
        "left_out": {each.status.name: LEFT_OUT for each in found.walls if each.status.traits.kernel == "sentry"},
        "holders": list_holders(Place()),
        "unopened": found.unopened,
        "counts": {state: count[state] for state in MARKS},
        "measures": [
            {
                "name": result.measure.name,
                "theme": result.measure.theme,
                "wall": result.wall,
                "state": result.finding.state,
                "promise": result.measure.promise,
                "seen": result.finding.seen,
                "note": result.finding.note,
                "how": result.measure.how,
                "remedy": result.measure.remedy,
            }
            for result in found.sort_results()
        ],
    }
