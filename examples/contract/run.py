"""Try the example whole: a contract of a seed is read, and what was found is compared with what it says in truth.

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
    """Put a contract of the seed beside a copy of the brief, have that carried out, and judge what came of it."""
    told = trial.parse_arguments("A contract is read, and each clause found in it is proven by its page.")
    with trial.state_directory("contract") as home:
        brief = home / "brief"
        brief.mkdir()
        for name in ("brief.toml", "brain.py", "read.py", "evidence.py"):
            shutil.copy(HERE / name, brief)
        contract.write(brief / "contract.pdf", told.seed)
        if code := trial.run_brief(home, brief, told):
            return code
    held = judged(told.seed, (told.out / "clauses.json").read_bytes())
    trial.print_status("every clause says what the contract says" if held else "that is NOT what the contract says")
    return int(not held)


def judged(seed: int, found: bytes) -> bool:
    """Say whether what was found is the truth."""
    clauses = json.loads(found)["clauses"]
    return {each["clause"]: each["value"] for each in clauses} == contract.truth(seed) and len(clauses) == 6


if __name__ == "__main__":
    sys.exit(main())
