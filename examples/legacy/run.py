"""Run the example with the records of a seed. It leaves only the workbook and a picture.

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
    """Write the seed's records into a copy of the brief, and carry it out."""
    options = trial.parse_arguments("Enter ten records into a desktop program, and read them back.")
    with trial.state_directory("legacy") as home:
        brief = home / "brief"
        shutil.copytree(HERE, brief)
        records.write(brief / "records.csv", options.seed)
        return trial.run_brief(home, brief, options)


if __name__ == "__main__":
    sys.exit(main())
