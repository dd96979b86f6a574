"""Write wrong programs that the grader must fail, each with one typical mistake."""

from __future__ import annotations

from pathlib import Path

EDITS = {
    "midnight-missed": ("datetime.combine(start.date() + timedelta(days=1), datetime.min.time())", "entry.end"),
    "overlap-twice": ("        start = max(start, reached)\n", ""),
    "flag-case": ('entry.flag.lower() != "cancelled"', 'entry.flag != "cancelled"'),
    "rounded-sum": (
        "format_hours(sum(minutes.values()))",
        "sum(float(format_hours(each)) for each in minutes.values()):.2f",
    ),
    "list-changed": ('{entry.project} {entry.person}")', '{entry.project} {entry.person} {entry.flag}")'),
    "error-ignored": ("        return 2\n", "        return 0\n"),
}


def main() -> None:
    """Write spoilt/VARIANT/worklog.py."""
    source = Path("delivered/worklog.py").read_text()
    for name, (old, new) in EDITS.items():
        if old not in source:
            raise ValueError(f"the reference solution does not contain {old!r}")
        Path("spoilt", name).mkdir(parents=True)
        Path("spoilt", name, "worklog.py").write_text(source.replace(old, new))


if __name__ == "__main__":
    main()
