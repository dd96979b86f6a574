"""Run the example: print reports, serve them at two publishers, and make a deck.

sudo .venv/bin/python examples/research/run.py [--out FOLDER] [--seed N]
"""

from __future__ import annotations

import csv
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

from hotdesk import config

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import trial
from examples.research.market import REPORTS, SUBJECTS, Market, generate_market
from examples.research.sites import serve_publishers

HERE = Path(__file__).parent
TOLERANCE = 0.02
"""How far a number may be off, as a share of its chart's axis."""
MAX_NUMBERS_BYTES = 1 << 20
"""Of the file of numbers, which comes from a desk."""


def main() -> int:
    """Print the reports, carry out the brief, and compare the numbers with the drawn ones."""
    options = trial.parse_arguments("Read numbers from pictures of charts, and make a deck of twenty slides.")
    market, password = generate_market(options.seed), secrets.token_urlsafe(32)
    with trial.state_directory("research") as home:
        env = {**os.environ, "HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(config.load().images)}
        reports = print_reports(market, home, env)
        argv = [*trial.HOTDESK, "vault", "set", "harbour-password"]
        subprocess.run(argv, env=env, input=password.encode(), check=True, stdout=subprocess.DEVNULL)
        with serve_publishers(home, reports, password) as (publishers, settings):
            worked = trial.run_brief(home, HERE, options, settings)
        for publisher in publishers:
            print(f"{publisher.host} got {len(publisher.requests)} requests", file=sys.stderr)
    wrong = judge(market, options.out / "extracted.csv")
    for line in wrong[:10]:
        print(line, file=sys.stderr)
    return worked or int(bool(wrong))


def print_reports(market: Market, home: Path, env: dict[str, str]) -> dict[str, bytes]:
    """Print the reports in a desk of their own; the worker never gets their numbers."""
    folder = home / "printing"
    folder.mkdir()
    (folder / "market.json").write_text(json.dumps(market.as_table()))
    inputs = [f"{HERE / 'publish.py'}:publish.py", f"{folder / 'market.json'}:market.json"]
    argv = [*trial.HOTDESK, "run", "--image", "office", "--timeout", "100"]
    argv += [part for pair in inputs for part in ("--in", pair)]
    argv += [part for name in REPORTS for part in ("--out", f"{name}.pdf:{folder / name}.pdf")]
    subprocess.run([*argv, "--", "python3", "publish.py"], env=env, check=True, stdin=subprocess.DEVNULL)
    return {name: (folder / f"{name}.pdf").read_bytes() for name in REPORTS}


def judge(market: Market, path: Path) -> list[str]:
    """List numbers that differ from the drawn ones, were never drawn, or are missing."""
    drawn = {
        (f"{market.name}: {REPORTS[figure.report][1]}", SUBJECTS[figure.subject], label): (value, figure.range)
        for figure in market.figures
        for label, value in zip(figure.labels, figure.values, strict=True)
    }
    text = path.read_bytes()[:MAX_NUMBERS_BYTES].decode("utf-8", "replace") if path.is_file() else ""
    read = [row for row in csv.DictReader(text.splitlines()) if None not in row.values()]
    wrong, worst = [], 0.0
    for row in read:
        key = (row.get("Report", ""), row.get("Figure", ""), row.get("Label", ""))
        value, span = drawn.pop(key, (float("nan"), 1.0))
        off = abs(number(row.get("Value", "")) - value) / span
        worst = max(worst, off)
        if not off <= TOLERANCE:
            wrong.append(f"{key}: drawn {value:g}, read {row.get('Value')!r}"[:300])
    wrong += [f"{key}: drawn, and not read" for key in drawn]
    verdict = f"all within {TOLERANCE:.0%} of their axes" if not wrong else f"{len(wrong)} are NOT what was drawn"
    print(f"{len(read)} numbers were read; {verdict}; the worst is {worst:.2%} off", file=sys.stderr)
    return wrong


def number(text: str) -> float:
    """Read a number from a desk; NaN if it is not a number."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


if __name__ == "__main__":
    sys.exit(main())
