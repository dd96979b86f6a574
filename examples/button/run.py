"""Run the example: misplace a button of a page, and have it found by looking and fixed.

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
MAX_OFFSET_PIXELS = 20


def main() -> int:
    """Misplace a button in a copy of the brief, carry it out, and judge the result."""
    options = trial.parse_arguments("Find a misplaced button on a page by looking, and fix it.")
    with trial.state_directory("button") as home:
        brief = home / "brief"
        shutil.copytree(HERE, brief, ignore=shutil.ignore_patterns("run.py", "README.md", "__pycache__"))
        which, across, down = misplace_button(options.seed)
        with (brief / "page/style.css").open("a") as file:
            file.write(f"#{which} button {{ transform: translate({across}px, {down}px); }}\n")
        if code := trial.run_brief(home, brief, options):
            return code
    is_right = judge(options.out, which, across, down)
    trial.print_status("the right button was found and fixed" if is_right else "the button was NOT found and fixed")
    return int(not is_right)


def misplace_button(seed: int) -> tuple[str, int, int]:
    """Choose which button is off, and how far: to the right, and down."""
    chance = random.Random(seed)  # noqa: S311 - the same seed gives the same page
    steps = [step for step in range(-MAX_OFFSET_PIXELS, MAX_OFFSET_PIXELS + 1) if step]
    return chance.choice(PLANS), chance.choice(steps), chance.choice(steps)


def judge(out: Path, which: str, across: int, down: int) -> bool:
    """Return whether that button was found, and the style sheet lost only the rule that moved it."""
    found = json.loads((out / "found.json").read_bytes())
    fixed = (HERE / "page/style.css").read_text() + f"#{which} button {{ }}\n"
    return found == {"button": which, "across": across, "down": down} and (out / "style.css").read_text() == fixed


if __name__ == "__main__":
    sys.exit(main())
