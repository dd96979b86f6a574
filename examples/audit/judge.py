"""Judge the workbook: list its red rows in a desk of its own, and compare them with the truth.

sudo .venv/bin/python examples/audit/judge.py Discrepancy_Report.xlsx FOLDER_OF_TRUTH FOLDER_OF_INVOICES
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from hotdesk import config

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import trial
from examples.audit.truth import Truth

LOOK = Path(__file__).with_name("red_rows.py")
MAX_REPLY_BYTES = 1 << 20


def main() -> int:
    book, out, invoices = map(Path, sys.argv[1:4])
    rows, truth = list_rows(book), Truth.load(out)
    replaced = truth.list_replaced(invoices)
    red, expected = {file for file, is_red in rows if is_red}, truth.list_red() - replaced
    is_right = red - replaced == expected and len(rows) == len(set(dict(rows))) == len(list(invoices.glob("*.pdf")))
    for file in sorted(red | expected):
        why = "the file was replaced" if file in replaced else truth.planted.get(file, "")
        why = f"you wrote {truth.edited[file] / 100:,.2f}" if file in truth.edited and file not in replaced else why
        print(f"judge: {file} is {'red' if file in red else 'NOT red'}; truth: {why or 'correct'}")
    print(
        f"judge: {len(rows)} rows, {len(red)} red: "
        + ("exactly those that are wrong" if is_right else "NOT those that are wrong")
    )
    return int(not is_right)


def list_rows(book: Path) -> list[tuple[str, bool]]:
    """List each row's file, and whether the row is red, as read in a desk of its own."""
    with trial.state_directory("judge") as home:
        env = {**os.environ, "HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(config.load().images)}
        argv = [
            *trial.HOTDESK,
            "run",
            "--in",
            f"{book}:book.xlsx",
            "--in",
            f"{LOOK}:look.py",
            "--",
            "python3",
            "look.py",
        ]
        done = subprocess.run(argv, env=env, capture_output=True, timeout=60, check=True)
    match json.loads(done.stdout[:MAX_REPLY_BYTES]):
        case [*rows] if all(isinstance(file, str) and isinstance(red, bool) for file, red in rows):
            return [(file, red) for file, red in rows]
    raise ValueError("the desk's reply is not a list of rows")


if __name__ == "__main__":
    sys.exit(main())
