"""Run the example: a filing is printed and served, and a workbook is brought up to date.

sudo .venv/bin/python examples/filing/run.py [--out FOLDER] [--seed N]
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hotdesk import config

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import trial
from examples.filing.books import Books, generate_books
from examples.filing.register import serve_register

HERE = Path(__file__).parent
NOT_COPIED = ("run.py", "books.py", "prepare.py", "register.py", "look.py", "__pycache__")
"""Files that are no part of the brief."""
RESULTS = ("Model.xlsx", "Filing_Summary.pdf")
MAX_OUTPUT_BYTES = 4 << 20
"""Of a program in the judge's desk."""


def main() -> int:
    """Prepare the inputs, carry out the brief, and compare the results with the books."""
    options = trial.parse_arguments("Update an analyst's workbook from a new filing; its charts and formulas stay.")
    books = generate_books(options.seed)
    with trial.state_directory("filing") as home:
        env = {**os.environ, "HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(config.load().images)}
        brief = home / "brief"
        shutil.copytree(HERE, brief, ignore=shutil.ignore_patterns(*NOT_COPIED))
        filing = prepare(books, home, brief, env)
        with serve_register(home, filing) as (requests, settings):
            worked = trial.run_brief(home, brief, options, settings)
        print(f"the register got {len(requests)} requests", file=sys.stderr)
        wrong = judge(books, inspect_results(options.out, brief, env)) if not worked else ["nothing was delivered"]
    for line in wrong[:10]:
        print(line, file=sys.stderr)
    print(
        "the workbook agrees with the books" if not wrong else "the workbook does NOT agree with the books",
        file=sys.stderr,
    )
    return worked or int(bool(wrong))


def prepare(books: Books, home: Path, brief: Path, env: dict[str, str]) -> bytes:
    """Generate filing and workbook in a desk of their own; the worker never gets the books."""
    (home / "books.json").write_text(json.dumps(books.as_table()))
    inputs = [f"{HERE / 'prepare.py'}:prepare.py", f"{home / 'books.json'}:books.json"]
    outputs = [f"filing.pdf:{home / 'filing.pdf'}", f"model.xlsx:{brief / 'model.xlsx'}"]
    run_at_desk(env, inputs, outputs, "python3", "prepare.py")
    return (home / "filing.pdf").read_bytes()


def inspect_results(out: Path, brief: Path, env: dict[str, str]) -> dict[str, Any]:
    """Read the results in a third desk: this machine opens no file that comes from a desk."""
    inputs = [f"{HERE / 'look.py'}:look.py", f"{brief / 'model.xlsx'}:model.xlsx"]
    found: dict[str, Any] = json.loads(
        run_at_desk(env, [*inputs, *(f"{out / name}:{name}" for name in RESULTS)], [], "python3", "look.py")
    )
    return found


def run_at_desk(env: dict[str, str], inputs: list[str], outputs: list[str], *argv: str) -> bytes:
    """Run a program at a new desk; return its output."""
    files = [part for pair in inputs for part in ("--in", pair)] + [
        part for pair in outputs for part in ("--out", pair)
    ]
    whole = [*trial.HOTDESK, "run", "--image", "office", "--timeout", "100", *files, "--", *argv]
    return subprocess.run(whole, env=env, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout[
        :MAX_OUTPUT_BYTES
    ]


def judge(books: Books, found: dict[str, Any]) -> list[str]:
    """List where the workbook differs from the books, and what it lost."""
    rows, before, after = found["rows"], found["before"], found["after"]
    wrong = [f"the workbook lost {name}" for name in before if before[name] != after[name]]
    statements = {**rows["Income"], **rows["Balance"]}
    expected = {**{item: values[-1] for item, values in books.quarters.items()}, **books.totals(-1)}
    for item, value in expected.items():
        if statements.get(item, [None])[-1] != value:
            wrong.append(f"{item}: the books say {value:,}, the model {statements.get(item)}")
    for item in books.quarters:
        model, filed, difference, *_ = rows["Reconciliation"].get(item, [None] * 3)
        if (model, filed) != (books.quarters[item][-2], books.filed(item)[1]) or difference != filed - model:
            wrong.append(f"{item}: last quarter is not reconciled: {model}, {filed}, {difference}")
    differ = rows["Reconciliation"].get("Items that differ", [None] * 3)[2]
    if differ != len(books.restated):
        wrong.append(f"{differ} items differ from last quarter; {len(books.restated)} were restated")
    if f"{books.totals(-1)['Net income']:,}" not in found["pdf"]:
        wrong.append("the summary does not show the net income")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
