"""Try the example whole: a filing is printed and served, and a model is brought up to date. Nothing else is left.

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
from examples.filing.books import Books, imagined
from examples.filing.register import serving

HERE = Path(__file__).parent
OURS = ("run.py", "books.py", "prepare.py", "register.py", "look.py", "__pycache__")
"""What is no part of the brief."""
RESULTS = ("Model.xlsx", "Filing_Summary.pdf")
MOST = 4 << 20
"""Bytes the judge's desk may say."""


def main() -> int:
    """Prepare, work, then compare what came of it with the books."""
    told = trial.parse_arguments(
        "A new filing is taken into an analyst's workbook, which keeps its charts and formulas."
    )
    books = imagined(told.seed)
    with trial.state_directory("filing") as home:
        env = {**os.environ, "HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(config.load().images)}
        brief = home / "brief"
        shutil.copytree(HERE, brief, ignore=shutil.ignore_patterns(*OURS))
        filing = prepared(books, home, brief, env)
        with serving(home, filing) as (asked, settings):
            worked = trial.run_brief(home, brief, told, settings)
        print(f"the register was asked {len(asked)} times", file=sys.stderr)
        wrong = judged(books, seen(told.out, brief, env)) if not worked else ["nothing was delivered"]
    for line in wrong[:10]:
        print(line, file=sys.stderr)
    print("the books and the model agree" if not wrong else "that is NOT what the books say", file=sys.stderr)
    return worked or int(bool(wrong))


def prepared(books: Books, home: Path, brief: Path, env: dict[str, str]) -> bytes:
    """Have filing and workbook made in a desk of their own; the worker never sees what they are made of."""
    (home / "books.json").write_text(json.dumps(books.as_table()))
    given = [f"{HERE / 'prepare.py'}:prepare.py", f"{home / 'books.json'}:books.json"]
    taken = [f"filing.pdf:{home / 'filing.pdf'}", f"model.xlsx:{brief / 'model.xlsx'}"]
    desk(env, given, taken, "python3", "prepare.py")
    return (home / "filing.pdf").read_bytes()


def seen(out: Path, brief: Path, env: dict[str, str]) -> dict[str, Any]:
    """Look at the results in a third desk: nothing that comes out of a desk is opened here."""
    given = [f"{HERE / 'look.py'}:look.py", f"{brief / 'model.xlsx'}:model.xlsx"]
    told: dict[str, Any] = json.loads(
        desk(env, [*given, *(f"{out / name}:{name}" for name in RESULTS)], [], "python3", "look.py")
    )
    return told


def desk(env: dict[str, str], given: list[str], taken: list[str], *argv: str) -> bytes:
    """Run a program at a desk that is burnt then; give what it said."""
    files = [part for pair in given for part in ("--in", pair)] + [part for pair in taken for part in ("--out", pair)]
    whole = [*trial.HOTDESK, "run", "--image", "office", "--timeout", "100", *files, "--", *argv]
    return subprocess.run(whole, env=env, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout[:MOST]


def judged(books: Books, told: dict[str, Any]) -> list[str]:
    """Say what is not as the books have it, and what the workbook lost."""
    rows, before, after = told["rows"], told["before"], told["after"]
    wrong = [f"the workbook lost {name}" for name in before if before[name] != after[name]]
    statements = {**rows["Income"], **rows["Balance"]}
    wanted = {**{item: values[-1] for item, values in books.quarters.items()}, **books.totals(-1)}
    for item, value in wanted.items():
        if statements.get(item, [None])[-1] != value:
            wrong.append(f"{item}: the books say {value:,}, the model {statements.get(item)}")
    for item in books.quarters:
        model, filed, difference, *_ = rows["Reconciliation"].get(item, [None] * 3)
        if (model, filed) != (books.quarters[item][-2], books.filed(item)[1]) or difference != filed - model:
            wrong.append(f"{item}: last quarter is not reconciled: {model}, {filed}, {difference}")
    differ = rows["Reconciliation"].get("Items that differ", [None] * 3)[2]
    if differ != len(books.restated):
        wrong.append(f"{differ} items differ from last quarter; {len(books.restated)} were restated")
    if f"{books.totals(-1)['Net income']:,}" not in told["pdf"]:
        wrong.append("the summary does not show the net income")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
