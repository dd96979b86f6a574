"""Try the example whole: one button of a page is put off, found by looking, and mended.

sudo .venv/bin/python examples/button/run.py [--out FOLDER] [--seed N]
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import trial

HERE = Path(__file__).parent
PLANS = ("small", "medium", "large")
FARTHEST = 20
"""Pixels a button is off at most."""


def main() -> int:
    """Put a button off beside a copy of the brief, have that carried out, and judge what came of it."""
    told = trial.parse_arguments("A misaligned button on a page is found by looking, and mended.")
    with trial.state_directory("button") as home:
        brief = home / "brief"
        shutil.copytree(HERE, brief, ignore=shutil.ignore_patterns("run.py", "README.md", "__pycache__"))
        which, across, down = misaligned(told.seed)
        with (brief / "page/style.css").open("a") as file:
            file.write(f"#{which} button {{ transform: translate({across}px, {down}px); }}\n")
        if code := trial.run_brief(home, brief, told):
            return code
    held = judged(told.out, which, across, down)
    trial.print_status(
        "the button was off, and is where it belongs" if held else "that is NOT what was to be found and mended"
    )
    return int(not held)


def misaligned(seed: int) -> tuple[str, int, int]:
    """Choose which button is off, and how far: to the right, and down."""
    chance = random.Random(seed)  # noqa: S311 - the same seed gives the same page
    steps = [step for step in range(-FARTHEST, FARTHEST + 1) if step]
    return chance.choice(PLANS), chance.choice(steps), chance.choice(steps)


def judged(out: Path, which: str, across: int, down: int) -> bool:
    """Say whether just that was found, and nothing but what moved the button was taken out of the stylesheet."""
    found = json.loads((out / "found.json").read_bytes())
    mended = (HERE / "page/style.css").read_text() + f"#{which} button {{ }}\n"
    return found == {"button": which, "across": across, "down": down} and (out / "style.css").read_text() == mended


if __name__ == "__main__":
    sys.exit(main())
