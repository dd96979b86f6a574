"""Makes the repository of a seed: history, one bug, and a test that fails because of it. No worker gets this file."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
GIT = ["git", "-c", "user.name=A. Clerk", "-c", "user.email=clerk@example.test", "-c", "commit.gpgsign=false"]
CALM = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "PATH": os.environ["PATH"]}
WHEN = {"GIT_AUTHOR_DATE": "2026-01-05T09:00:00Z", "GIT_COMMITTER_DATE": "2026-01-05T09:00:00Z"}


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug, and the test that fails because of it."""

    module: str
    right: str
    wrong: str
    test: str

    @property
    def name(self) -> str:
        """Return the test's name without its module."""
        return self.test.rpartition(".")[2]


BUGS = (
    Bug(
        "shares",
        "    share, rest = divmod(cents, count)\n    return [share + 1] * rest + [share] * (count - rest)\n",
        "    return [cents // count] * count\n",
        "tests.test_shares.SharesTest.test_shares_add_up_to_the_sum",
    ),
    Bug(
        "months",
        "    return date(year, month, min(day.day, monthrange(year, month)[1]))\n",
        "    return date(year, month, day.day)\n",
        "tests.test_months.MonthsTest.test_what_is_due_on_the_last_stays_due_on_the_last",
    ),
    Bug(
        "prices",
        "        total += max(min(pieces, end) - below, 0) * cents\n",
        "        if below < pieces <= end:\n            total = pieces * cents\n",
        "tests.test_prices.PricesTest.test_only_further_pieces_are_cheaper",
    ),
)


def make(folder: Path, seed: int) -> Bug:
    """Make the repository of a seed; return its bug."""
    chance = random.Random(seed)  # noqa: S311 - the same seed gives the same repository
    bug = BUGS[seed % len(BUGS)]
    shutil.copytree(HERE / "repo", folder, ignore=shutil.ignore_patterns("__pycache__"))
    for module, old, new in numbers(chance):
        change(folder / f"tests/test_{module}.py", old, new)
    git(folder, "init", "--quiet", "--template=", "--initial-branch=main")
    commit(folder, "Shares, months and prices")
    change(folder / f"billing/{bug.module}.py", bug.right, bug.wrong)
    commit(folder, f"Simplify {bug.module}")
    return bug


def numbers(chance: random.Random) -> list[tuple[str, str, str]]:
    """Choose the numbers in the tests."""
    count = chance.randint(3, 9)
    cents = count * chance.randint(100, 900) + chance.randint(2, count - 1)
    first, cheap = chance.randint(6, 40), chance.randint(100, 300)
    steps = ((first, cheap + 200), (first * 10, cheap + 100), (first * 100, cheap))
    return [
        ("shares", "CENTS, COUNT = 1000, 7", f"CENTS, COUNT = {cents}, {count}"),
        ("months", "YEAR = 2025", f"YEAR = {chance.randint(2020, 2030)}"),
        ("prices", "STEPS = ((10, 500), (100, 400), (1000, 300))", f"STEPS = {steps}"),
    ]


def change(path: Path, old: str, new: str) -> None:
    """Replace one text in a file."""
    text = path.read_text()
    if text.count(old) != 1:
        raise ValueError(f"{path.name} does not have {old!r} once")
    path.write_text(text.replace(old, new))


def commit(folder: Path, subject: str) -> None:
    """Commit all changes."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", subject)


def git(folder: Path, *argv: str) -> None:
    """Run git independently of this machine's settings."""
    subprocess.run([*GIT, "-C", str(folder), *argv], env={**CALM, **WHEN}, check=True)
