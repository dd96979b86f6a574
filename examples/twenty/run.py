"""Try the example whole: a supplier runs, the brief is carried out, and a second process approves its one write.

sudo .venv/bin/python examples/twenty/run.py [--out FOLDER] [--seed N]
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from pathlib import Path

from hotdesk import config

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import trial, website
from examples.twenty import pdfs
from examples.twenty.supplier import HOST, Supplier, serving

HERE = Path(__file__).parent
PAUSE = 0.5
"""Seconds between two looks at what waits."""


def main() -> int:
    """Work, approve, then ask the supplier what came of it."""
    told = trial.arguments("Twenty invoices become a workbook, and what agrees is confirmed, once a person said yes.")
    with trial.state("twenty") as home:
        brief = home / "brief"
        shutil.copytree(HERE, brief, ignore=shutil.ignore_patterns("__pycache__"))
        pdfs.write(brief / "invoices", told.seed)
        with serving(home, secrets.token_urlsafe(32), told.seed) as supplier:
            env = prepared(home, supplier)
            code = work(brief, told.out, env)
    for method, path, status in supplier.asked:
        say(f"the supplier was asked: {method} {path}, and said {status}")
    orders = [len(each["orders"]) for each in supplier.confirmations]  # type: ignore[arg-type]
    held = orders == [pdfs.COUNT - len(pdfs.WRONG)]
    say(f"it has confirmations of {orders} orders" + ("" if held else ", which is NOT what was to be confirmed"))
    return code or int(not held)


def prepared(home: Path, supplier: Supplier) -> dict[str, str]:
    """Give the variables of a state directory whose vault has the token, and whose door knows the supplier."""
    env = {**os.environ, "HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(config.load().images)}
    (home / "etc").mkdir()
    (home / "etc/config.toml").write_text(website.door(supplier.ca, {HOST: supplier.port}))
    argv = [*trial.HOTDESK, "vault", "set", "supplier-token"]
    subprocess.run(argv, env=env, input=supplier.token.encode(), check=True, stdout=subprocess.DEVNULL)
    return env


def work(brief: Path, out: Path, env: dict[str, str]) -> int:
    """Have the brief carried out, and answer what it asks meanwhile; give the exit code."""
    trial.make_way(brief, out)
    argv = [*trial.HOTDESK, "work", str(brief), "--script", str(brief / "brain.py"), "--out", str(out)]
    with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL) as working:
        try:
            while working.poll() is None:
                answer(env)
                time.sleep(PAUSE)
            return working.returncode
        except KeyboardInterrupt:
            return 130  # it was interrupted, too, and burns its desks itself


def answer(env: dict[str, str]) -> None:
    """Say yes to the confirmation and no to all else, as a person would with another terminal."""
    listed = subprocess.run([*trial.HOTDESK, "approve", "--json"], env=env, capture_output=True, check=False)
    for each in json.loads(listed.stdout or b"[]"):
        shown = json.dumps(each)
        right = f"{HOST}/confirmations" in shown or (HOST in shown and "/confirmations" in shown)
        word = "approve" if right else "refuse"
        done = subprocess.run([*trial.HOTDESK, word, str(each["id"])], env=env, capture_output=True, check=False)
        say(f"another process: hotdesk {word} {each['id']}, exit code {done.returncode}")


def say(text: str) -> None:
    """Tell a person."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
