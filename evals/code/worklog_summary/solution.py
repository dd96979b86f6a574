"""The reference solution, a written script: read the specification, add the command, try it on the sample."""

from __future__ import annotations

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

FUNCTIONS = '''def first_fault(path: str) -> int:
    """Return the number of the first line whose end is not after its start, or 0."""
    with open(path, encoding="utf-8", newline="") as file:
        for number, line in enumerate(file, 1):
            if line.strip() and not line.startswith("#"):
                [row] = csv.reader([line])
                start, end = (datetime.strptime(text, "%Y-%m-%d %H:%M") for text in row[:2])
                if end <= start:
                    return number
    return 0


def split_days(entry: Entry) -> list[tuple[str, datetime, datetime]]:
    """Split an entry at each midnight."""
    parts, start = [], entry.start
    while start < entry.end:
        midnight = datetime.combine(start.date() + timedelta(days=1), datetime.min.time())
        parts.append((f"{start:%Y-%m-%d}", start, min(midnight, entry.end)))
        start = midnight
    return parts


def covered_minutes(spans: list[tuple[datetime, datetime]]) -> int:
    """Return how many minutes spans cover; where they overlap, time counts once."""
    total, reached = 0, datetime.min
    for start, end in sorted(spans):
        start = max(start, reached)
        if end > start:
            total += int((end - start).total_seconds()) // 60
            reached = end
    return total


def format_hours(minutes: int) -> str:
    """Write hours with two decimals."""
    hundredths = (minutes * 100 + 30) // 60
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def summarize(entries: list[Entry], by: str, person: str | None) -> None:
    """Print hours by day or project, and the total."""
    spans = defaultdict(list)
    for entry in entries:
        if entry.flag.lower() != "cancelled" and person in (None, entry.person):
            if by == "day":
                for day, start, end in split_days(entry):
                    spans[day, entry.person].append((start, end))
            else:
                spans[entry.project, entry.person].append((entry.start, entry.end))
    minutes = defaultdict(int)
    for (key, _), own in spans.items():
        minutes[key] += covered_minutes(own)
    for key in sorted(minutes):
        print(f"{key}\\t{format_hours(minutes[key])}")
    print(f"total\\t{format_hours(sum(minutes.values()))}")


def main() -> int:'''
EDITS = (
    (
        "from datetime import datetime\n",
        "from collections import defaultdict\nfrom datetime import datetime, timedelta\n",
    ),
    ("def main() -> int:", FUNCTIONS),
    (
        '    commands.add_parser("people")',
        '    summary = commands.add_parser("summary")\n    summary.add_argument("log")\n'
        '    summary.add_argument("--by", choices=("day", "project"), default="day")\n'
        '    summary.add_argument("--person")\n    commands.add_parser("people")',
    ),
    (
        "    entries = read_log(arguments.log)\n",
        '    if arguments.command == "summary" and (number := first_fault(arguments.log)):\n'
        '        print(f"line {number}: end is not after start", file=sys.stderr)\n        return 2\n'
        "    entries = read_log(arguments.log)\n",
    ),
    (
        "    else:\n        list_people(entries)",
        '    elif arguments.command == "summary":\n        summarize(entries, arguments.by, arguments.person)\n'
        "    else:\n        list_people(entries)",
    ),
)


async def extend(hands: Hands) -> Done:
    """Add the command to the program, and run it on the sample."""
    source = (await hands.read("worklog.py")).decode()
    for old, new in EDITS:
        if source.count(old) != 1:
            raise ValueError(f"worklog.py does not contain {old!r} once")
        source = source.replace(old, new)
    await hands.write("worklog.py", source.encode())
    return await hands.run(["python3", "worklog.py", "summary", "sample.csv"], timeout=60)


PLAN = (step(extend, files=["worklog.py", "SPECIFICATION.md", "sample.csv"], makes=["worklog.py"]),)
