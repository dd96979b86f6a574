"""Tests of every evaluation task: its reference solution passes its grader, and every spoilt variant fails."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from evals.prove import EVALS, list_tasks, prove

from hotdesk.config import Config

pytestmark = [pytest.mark.container, pytest.mark.timeout(900)]
SEEDS = (1, 2, 3)
SHORT = {"documents/contract_clauses": 1}
"""Tasks that run in every run, each with one seed; all others run in the long run."""
PARTS = ("task.toml", "generate.py", "grade.py", "spoil.py", "solution.py")


def cases() -> list[object]:
    return [
        pytest.param(name, seed, marks=() if SHORT.get(name) == seed else pytest.mark.long, id=f"{name}-{seed}")
        for name in list_tasks()
        for seed in SEEDS
    ]


@pytest.mark.parametrize(("name", "seed"), cases())
def test_a_grader_passes_the_reference_solution_and_fails_every_spoilt_variant(
    name: str, seed: int, settings: Config
) -> None:
    with tempfile.TemporaryDirectory(prefix="eval-", dir=settings.run.parent) as folder:
        home = Path(folder)
        home.chmod(0o711)  # desks' users must be able to reach their folders
        prove(name, seed, home)


@pytest.mark.parametrize("name", list_tasks())
def test_a_task_has_all_its_parts(name: str) -> None:
    assert [part for part in PARTS if not (EVALS / name / part).is_file()] == []
