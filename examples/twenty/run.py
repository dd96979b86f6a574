"""Try the example whole: a supplier runs, the brief is carried out, and a second process approves its one write.

sudo .venv/bin/python examples/twenty/run.py [--out FOLDER] [--seed N]
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

from hotdesk import config

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import trial, website
from examples.twenty import pdfs
from examples.twenty.supplier import HOST, Supplier, serving

HERE = Path(__file__).parent


def main() -> int:
    """Work, approve, then ask the supplier what came of it."""
    told = trial.parse_arguments(
        "Twenty invoices become a workbook, and what agrees is confirmed, once a person said yes."
    )
    with trial.state_directory("twenty") as home:
        brief = home / "brief"
        shutil.copytree(HERE, brief, ignore=shutil.ignore_patterns("__pycache__"))
        pdfs.write(brief / "invoices", told.seed)
        with serving(home, secrets.token_urlsafe(32), told.seed) as supplier:
            env = prepared(home, supplier)
            code = trial.run_with_answers(brief, told, env, is_confirmation)
    for method, path, status in supplier.asked:
        trial.print_status(f"the supplier was asked: {method} {path}, and said {status}")
    orders = [len(each["orders"]) for each in supplier.confirmations]  # type: ignore[arg-type]
    held = orders == [pdfs.COUNT - len(pdfs.WRONG)]
    trial.print_status(
        f"it has confirmations of {orders} orders" + ("" if held else ", which is NOT what was to be confirmed")
    )
    return code or int(not held)


def prepared(home: Path, supplier: Supplier) -> dict[str, str]:
    """Give the variables of a state directory whose vault has the token, and whose door knows the supplier."""
    env = {**os.environ, "HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(config.load().images)}
    (home / "etc").mkdir()
    (home / "etc/config.toml").write_text(website.format_door_settings(supplier.ca, {HOST: supplier.port}))
    argv = [*trial.HOTDESK, "vault", "set", "supplier-token"]
    subprocess.run(argv, env=env, input=supplier.token.encode(), check=True, stdout=subprocess.DEVNULL)
    return env


def is_confirmation(asked: str) -> bool:
    """Say whether it is the confirmation that waits."""
    return HOST in asked and "/confirmations" in asked


if __name__ == "__main__":
    sys.exit(main())
