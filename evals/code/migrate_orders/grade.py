"""Run migrate.py on three databases, two of them unseen, and compare every row; print one JSON object."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

TIMEOUT_S = 60
COLUMNS = {
    "customers": ("id", "name", "email", "since"),
    "orders": ("id", "customer_id", "placed", "cents", "status", "note"),
    "rejected": ("order_id", "reason"),
}


def main() -> None:
    """Print the verdict."""
    faults = list(find_faults())
    print(json.dumps({"passed": not faults, "faults": faults}))


def find_faults() -> Iterator[str]:
    """Judge the program on each database."""
    if not Path("delivered/migrate.py").is_file():
        yield "migrate.py is missing."
        return
    for name, expected in json.loads(Path("hidden/truth.json").read_text()).items():
        old, new = Path(f"hidden/{name}.db"), Path(f"{name}-new.db")
        before = hashlib.sha256(old.read_bytes()).digest()
        argv = ["python3", "-B", "delivered/migrate.py", str(old), str(new)]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            yield f"{name}: migrate.py did not end in {TIMEOUT_S} seconds."
            continue
        if done.returncode:
            yield f"{name}: migrate.py ended with exit code {done.returncode}: {done.stderr.strip()[-120:]}"
            continue
        if hashlib.sha256(old.read_bytes()).digest() != before:
            yield f"{name}: migrate.py changed the old database."
        counts = [f"{table} {len(expected[table])}" for table in COLUMNS]
        if ", ".join(counts) not in done.stdout:
            yield f"{name}: migrate.py does not print `{', '.join(counts)}`."
        try:
            yield from find_differences(name, new, expected)
        except sqlite3.Error as error:
            yield f"{name}: the new database cannot be read: {error}."


def find_differences(name: str, new: Path, expected: dict[str, list[Any]]) -> Iterator[str]:
    """Compare version, keys and rows of a new database with the truth."""
    with closing(sqlite3.connect(new)) as database:
        if database.execute("PRAGMA user_version").fetchone()[0] != 2:
            yield f"{name}: user_version is not 2."
        if not database.execute("PRAGMA foreign_key_list(orders)").fetchall():
            yield f"{name}: orders.customer_id does not refer to customers."
        for table, columns in COLUMNS.items():
            rows = [list(row) for row in database.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY 1")]  # noqa: S608
            wrong = [row for row in rows if row not in expected[table]]
            missed = [row for row in expected[table] if row not in rows]
            if wrong or missed or len(rows) != len(expected[table]):
                yield (
                    f"{name}: {table} has {len(wrong)} wrong rows, as {str(wrong[:1])[:120]}, "
                    f"and lacks {len(missed)}, as {str(missed[:1])[:120]}."
                )


if __name__ == "__main__":
    main()
