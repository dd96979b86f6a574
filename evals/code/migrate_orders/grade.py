"""Run migrate.py on three databases, two of them unseen, and compare every row; print one JSON object."""

from __future__ import annotations

import ctypes
import json
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

TIMEOUT_S = 60
PR_SET_DUMPABLE = 4
"""The option of prctl that decides whether other processes of the user may read the memory."""
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
    """Judge the program on each database, which it gets in an empty folder and without the truth."""
    if not Path("delivered/migrate.py").is_file():
        yield "migrate.py is missing."
        return
    truth = json.loads(Path("hidden/truth.json").read_text())
    databases = {name: Path(f"hidden/{name}.db").read_bytes() for name in truth}
    hide()
    for name, expected in truth.items():
        with tempfile.TemporaryDirectory() as folder:
            yield from judge(name, databases[name], expected, Path(folder))


def hide() -> None:
    """Keep what has been read from the judged program: delete the files, and close this process's memory to it."""
    shutil.rmtree("hidden")
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def judge(name: str, database: bytes, expected: dict[str, list[Any]], folder: Path) -> Iterator[str]:
    """Run the program on one database; compare the new one."""
    old, new = folder / "old.db", folder / "new.db"
    old.write_bytes(database)
    argv = ["python3", "-B", str(Path("delivered/migrate.py").resolve()), str(old), str(new)]
    try:
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        yield f"{name}: migrate.py did not end in {TIMEOUT_S} seconds."
        return
    if done.returncode:
        yield f"{name}: migrate.py ended with exit code {done.returncode}: {done.stderr.strip()[-120:]}"
        return
    if not old.is_file() or old.read_bytes() != database:
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
