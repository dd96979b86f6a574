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


def main() -> None:
    """Write spoilt/VARIANT/migrate.py."""
    source = Path("delivered/migrate.py").read_text()
    for name, (old, new) in EDITS.items():
        if old not in source:
            raise ValueError(f"the reference solution does not contain {old!r}")
        Path("spoilt", name).mkdir(parents=True)
        Path("spoilt", name, "migrate.py").write_text(source.replace(old, new))


if __name__ == "__main__":
    main()
