"""Run the example: read a generated contract, and compare the clauses found with the truth.

sudo .venv/bin/python examples/contract/run.py [--out FOLDER] [--seed N]
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import trial
from examples.contract import contract

HERE = Path(__file__).parent


def main() -> int:
    """Write the seed's contract into a copy of the brief, carry it out, and judge the result."""
    options = trial.parse_arguments("Read a contract, and prove each clause by its page.")
    with trial.state_directory("contract") as home:
        brief = home / "brief"
        brief.mkdir()
        for name in ("brief.toml", "brain.py", "read.py", "evidence.py"):
            shutil.copy(HERE / name, brief)
        contract.write(brief / "contract.pdf", options.seed)
        if code := trial.run_brief(home, brief, options):
            return code
    is_right = judge(options.seed, (options.out / "clauses.json").read_bytes())
    trial.print_status(
        "every clause is as in the contract" if is_right else "the clauses are NOT those of the contract"
    )
    return int(not is_right)


def judge(seed: int, found: bytes) -> bool:
    """Return whether the clauses found are the truth."""
    clauses = json.loads(found)["clauses"]
    return {each["clause"]: each["value"] for each in clauses} == contract.truth(seed) and len(clauses) == 6


if __name__ == "__main__":
    sys.exit(main())
