"""Write wrong programs that the grader must fail, each with one typical mistake."""

from __future__ import annotations

from pathlib import Path

EDITS = {
    "cents-cut-off": ("round(amount * 100)", "int(amount * 100)"),
    "month-first": ("day, month, year = map(", "month, day, year = map("),
    "duplicates-kept": ("email, since = email.strip().lower(), iso(since)", "since = iso(since)"),
    "latest-since": ("min(row[3], since)", "max(row[3], since)"),
    "orders-left-behind": ("owner[number] = row[0]", "owner[number] = number"),
    "two-digit-years": ("year + 2000 if year < 100 else year", "year"),
    "status-copied": ("STATUS.get(status, status)", 'status or "open"'),
}
THIEF = """
import json
import os
from pathlib import Path


def steal():
    folders = [Path.cwd(), Path(__file__).resolve().parents[1], Path(f"/proc/{os.getppid()}/cwd")]
    truth = next(file for each in folders if (file := each / "hidden/truth.json").is_file())
    tables = json.loads(truth.read_text())[Path(sys.argv[1]).stem]
    new = sqlite3.connect(sys.argv[2])
    new.executescript(SCHEMA)
    for table, rows in tables.items():
        for row in rows:
            new.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    new.commit()
    print(", ".join(f"{table} {len(rows)}" for table, rows in tables.items()))


if __name__ == "__main__":
    steal()
"""
"""Migrates nothing: it looks for the truth beside the grader, and writes it."""


def main() -> None:
    """Write spoilt/VARIANT/migrate.py."""
    source = Path("delivered/migrate.py").read_text()
    for name, (old, new) in EDITS.items():
        if old not in source:
            raise ValueError(f"the reference solution does not contain {old!r}")
        write(name, source.replace(old, new))
    write("truth-stolen", source.partition("if __name__ ==")[0] + THIEF)


def write(name: str, source: str) -> None:
    """Write one variant."""
    Path("spoilt", name).mkdir(parents=True)
    Path("spoilt", name, "migrate.py").write_text(source)


if __name__ == "__main__":
    main()
