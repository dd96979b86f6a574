"""Write the program, its specification, a sample log, and hidden runs: `python3 generate.py SEED`."""

from __future__ import annotations

import json
import random
import sys
from datetime import datetime, timedelta
from pathlib import Path

PROGRAM = '''"""Time sheets on the command line. A log has an entry a line: start, end, project, person, perhaps a flag.

worklog.py list LOG [--project NAME]    print entries in the order of the file
worklog.py people LOG                   print every person once, sorted
"""

import argparse
import csv
import sys
from datetime import datetime
from typing import NamedTuple


class Entry(NamedTuple):
    """One line of a log."""

    start: datetime
    end: datetime
    project: str
    person: str
    flag: str


def read_log(path: str) -> list[Entry]:
    """Read all entries; empty lines and lines that begin with # are skipped."""
    with open(path, encoding="utf-8", newline="") as file:
        lines = [line for line in file if line.strip() and not line.startswith("#")]
    entries = []
    for row in csv.reader(lines):
        start, end = (datetime.strptime(text, "%Y-%m-%d %H:%M") for text in row[:2])
        entries.append(Entry(start, end, row[2].strip(), row[3].strip(), row[4].strip() if len(row) > 4 else ""))
    return entries


def list_entries(entries: list[Entry], project: str | None) -> None:
    """Print entries, all or those of a project."""
    for entry in entries:
        if project in (None, entry.project):
            print(f"{entry.start:%Y-%m-%d %H:%M} {entry.end:%Y-%m-%d %H:%M} {entry.project} {entry.person}")


def list_people(entries: list[Entry]) -> None:
    """Print every person once."""
    for person in sorted({entry.person for entry in entries}):
        print(person)


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="worklog.py")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list")
    listing.add_argument("log")
    listing.add_argument("--project")
    commands.add_parser("people").add_argument("log")
    arguments = parser.parse_args()
    entries = read_log(arguments.log)
    if arguments.command == "list":
        list_entries(entries, arguments.project)
    else:
        list_people(entries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
'''
SPECIFICATION = """# `worklog.py summary`

    worklog.py summary LOG [--by day|project] [--person NAME]

Prints how long people worked, one line for each key: the key, a tab, hours with exactly two decimals. Lines are
sorted by the key as text. A last line is always printed: `total`, a tab, and the hours of all lines, also when
there are none (`0.00`).

1. `--by day` is the default; its keys are dates, `2026-03-01`. `--by project` has the names of projects as keys.
2. Work that goes past midnight belongs to both days: each day gets its own part. An entry may span several midnights.
3. One person cannot work twice at the same time. Where entries of one person overlap, the time counts once. For
   `--by project` that holds within a project: two projects that a person worked on at the same time both get that time,
   and so the total there is the sum of the lines.
4. Two different people who work at the same time both count.
5. Entries with the flag `cancelled`, in whatever case, do not count.
6. An entry whose end is not after its start is an error: print `line N: end is not after start` to standard error,
   where N is the line of the file, counted from 1 and including comments and empty lines; print nothing on standard
   output; exit with code 2. The first such line decides. That is so for `summary` only, whatever --person and flag
   are.
7. `--person NAME` counts that person only. A person who is not in the log has worked 0.00 hours.
8. Hours are rounded to two decimals from whole minutes, each line and the total for itself: 1 minute is 0.02, 9
   minutes are 0.15. The total is that of the minutes, not of rounded hours.

`list` and `people` stay exactly as they are.
"""
GOAL = """
Extend the command-line program worklog.py by a command `summary`, as SPECIFICATION.md describes it. sample.csv is a
log to try it with. Deliver the whole program as worklog.py (one file, standard library only). It is judged by logs
that you do not have.
"""
PEOPLE = ("Ada", "Ben", "Cleo", "Dov")
PROJECTS = ("bridge", "harbour", "mill", "quay", "tower")


def main() -> None:
    """Write brief/ and hidden/."""
    seed = int(sys.argv[1])
    Path("brief").mkdir()
    Path("hidden").mkdir()
    Path("brief/worklog.py").write_text(PROGRAM)
    Path("brief/SPECIFICATION.md").write_text(SPECIFICATION)
    chance = random.Random(seed)  # noqa: S311 - the same seed gives the same logs
    sample = make_log(chance, 600)
    Path("brief/sample.csv").write_text(sample)
    logs = {f"log{number}.csv": make_log(chance, 60) for number in range(4)}
    logs["empty.csv"] = "# nothing yet\n\n"
    day = datetime(2026, 5, chance.randint(1, 28))
    minutes = chance.choice([3, 9, 21, 27])
    logs["minutes.csv"] = line(day, day + timedelta(minutes=minutes), "mill", "Ada", "")
    logs["days.csv"] = line(day + timedelta(hours=22), day + timedelta(hours=75), "quay", "Ben", "")
    logs["wrong.csv"] = "# a comment\n\n" + logs["log0.csv"] + line(day, day, "mill", "Dov", "cancelled")
    original = {"program": PROGRAM, "logs": logs, "people": PEOPLE}
    Path("hidden/truth.json").write_text(json.dumps(original))
    Path("brief/brief.toml").write_text(brief())


def make_log(chance: random.Random, count: int) -> str:
    """Make a log with overlaps, nights, cancelled entries, comments and empty lines."""
    lines, first = ["# start, end, project, person, flag\n"], datetime(2026, chance.randint(1, 6), 20)
    for _ in range(count):
        start = first + timedelta(minutes=chance.randrange(0, 60 * 24 * 24))
        end = start + timedelta(minutes=chance.choice([7, 45, 95, 180, 333, 420, 600, 1500]))
        flag = chance.choice(["", "", "", "", "cancelled", "Cancelled", "billed"])
        lines.append(line(start, end, chance.choice(PROJECTS), chance.choice(PEOPLE), flag))
        if chance.random() < 0.05:
            lines.append(chance.choice(["\n", "# moved to the next week\n"]))
    return "".join(lines)


def line(start: datetime, end: datetime, project: str, person: str, flag: str) -> str:
    """Write one entry."""
    return f"{start:%Y-%m-%d %H:%M},{end:%Y-%m-%d %H:%M},{project},{person}" + (f",{flag}\n" if flag else "\n")


def brief() -> str:
    """Return the brief; its check is one run on the sample."""
    return (
        f'goal = """{GOAL}"""\ninputs = ["worklog.py", "SPECIFICATION.md", "sample.csv"]\nseconds = 900\n\n'
        '[[deliverables]]\npath = "worklog.py"\ncheck = "program"\n\n[deliverables.expect]\n'
        'args = ["summary", "beside/sample.csv", "--by", "project"]\ncontains = ["bridge\\t", "total\\t"]\n'
        'beside = ["sample.csv"]\n'
    )


if __name__ == "__main__":
    main()
