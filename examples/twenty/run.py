"""Run the example: a supplier runs, the brief is carried out, and a second process approves its one write.

sudo .venv/bin/python examples/twenty/run.py [--out FOLDER] [--seed N]
"""

from __future__ import annotations

import json
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
from examples.twenty.supplier import HOST, Supplier, serve_supplier

HERE = Path(__file__).parent


def main() -> int:
    """Carry out the brief, approve its write, and compare the supplier's confirmations with the truth."""
    options = trial.parse_arguments(
        "Put twenty invoices into a workbook, and confirm those that agree, after approval by a person."
    )
    with trial.state_directory("twenty") as home:
        brief = home / "brief"
        shutil.copytree(HERE, brief, ignore=shutil.ignore_patterns("__pycache__"))
        pdfs.write(brief / "invoices", options.seed)
        with serve_supplier(home, secrets.token_urlsafe(32), options.seed) as supplier:
            env = prepare(home, supplier)
            code = trial.run_with_answers(brief, options, env, is_confirmation)
    for method, path, status in supplier.requests:
        trial.print_status(f"the supplier got {method} {path} and answered {status}")
    is_right = judge(supplier.confirmations, options.seed)
    confirmed = "; ".join(str(each.get("orders")) for each in supplier.confirmations) or "nothing"
    trial.print_status(f"it has confirmations of {confirmed}" + ("" if is_right else ", which is WRONG"))
    return code or int(not is_right)


def prepare(home: Path, supplier: Supplier) -> dict[str, str]:
    """Put the token into the vault and the supplier into the door's settings; return the environment for `hotdesk`."""
    env = {**os.environ, "HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(config.load().images)}
    (home / "etc").mkdir()
    (home / "etc/config.toml").write_text(website.format_door_settings(supplier.ca, {HOST: supplier.port}))
    argv = [*trial.HOTDESK, "vault", "set", "supplier-token"]
    subprocess.run(argv, env=env, input=supplier.token.encode(), check=True, stdout=subprocess.DEVNULL)
    return env


def is_confirmation(request: str) -> bool:
    """Return whether a request is the confirmation: one request, not a rule for more of them."""
    card = json.loads(request)
    wanted = ("door", HOST, "POST", "/confirmations")
    return tuple(card.get(name) for name in ("kind", "host", "method", "path")) == wanted and card["size"] != -1


def judge(confirmations: list[dict[str, object]], seed: int) -> bool:
    """Return whether exactly the orders whose invoices agree were confirmed, all at once."""
    right = [each.order for each in pdfs.invoices(seed) if each.total == each.ordered]
    orders = confirmations[0].get("orders") if len(confirmations) == 1 else None
    return isinstance(orders, list) and sorted(map(str, orders)) == sorted(right)


if __name__ == "__main__":
    sys.exit(main())
