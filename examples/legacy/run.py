"""Try the example whole, with records of a seed. Nothing is left but the workbook and a picture.

sudo .venv/bin/python examples/legacy/run.py [--out FOLDER] [--seed N]
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import trial
from examples.legacy import records

HERE = Path(__file__).parent


def main() -> int:
    """Put records of the seed beside a copy of the brief, and have that carried out."""
    told = trial.parse_arguments("Ten records are entered into a program by its window, and read back.")
    with trial.state_directory("legacy") as home:
        brief = home / "brief"
        shutil.copytree(HERE, brief)
        records.write(brief / "records.csv", told.seed)
        return trial.run_brief(home, brief, told)


if __name__ == "__main__":
    sys.exit(main())
