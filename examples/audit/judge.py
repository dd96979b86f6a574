"""A judge who has not seen the work: opens the workbook in a desk of its own, and compares what is red with the truth.

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
LARGEST = 1 << 20


def main() -> int:
    """Say whether the red rows are the planted ones."""
    book, out, invoices = map(Path, sys.argv[1:4])
    rows, truth = seen(book), Truth.load(out)
    strange = truth.strange(invoices)
    red, right = {file for file, is_red in rows if is_red}, truth.red() - strange
    good = red - strange == right and len(rows) == len(set(dict(rows))) == len(list(invoices.glob("*.pdf")))
    for file in sorted(red | right):
        why = "somebody changed it" if file in strange else truth.planted.get(file, "")
        why = f"you wrote {truth.edited[file] / 100:,.2f}" if file in truth.edited and file not in strange else why
        print(f"judge: {file} is {'red' if file in red else 'NOT red'}; truth: {why or 'nothing is wrong with it'}")
    print(
        f"judge: {len(rows)} rows, {len(red)} red: "
        + ("exactly those that are wrong" if good else "NOT those it must be")
    )
    return int(not good)


def seen(book: Path) -> list[tuple[str, bool]]:
    """Have a desk of its own tell each row's file, and whether the row is red."""
    with trial.state("judge") as home:
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
    match json.loads(done.stdout[:LARGEST]):
        case [*rows] if all(isinstance(file, str) and isinstance(red, bool) for file, red in rows):
            return [(file, red) for file, red in rows]
    raise ValueError("what the desk told is no list of rows")


if __name__ == "__main__":
    sys.exit(main())
