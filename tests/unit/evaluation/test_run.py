"""Tests of one run of a task: whatever breaks is its result, and ends no other run."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.evaluation.job import EvalWorker
from hotdesk.evaluation.run import Evaluation, RunOptions, TaskRun
from hotdesk.evaluation.task import read_task

pytestmark = pytest.mark.anyio
SAMPLE = Path(__file__).parents[2] / "evals/code/sample"


def prepare(folder: Path, out: Path | None = None) -> TaskRun:
    """Return a run on a machine without images, where a task cannot even be generated."""
    settings = Config(folder / "run", folder / "lib", folder / "images")
    task = read_task(SAMPLE)
    options = RunOptions(EvalWorker(is_reference=True), out=out)
    evaluation = Evaluation(settings, [task], options, lambda text: None, lambda result: None)
    return TaskRun(evaluation, task, 1, folder / "state")


async def test_a_result_that_cannot_be_stored_is_still_a_result(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = await prepare(tmp_path, out=tmp_path / "file").carry_out()
    assert (result.outcome, bool(result.failure)) == ("broken", True)
    assert not (tmp_path / "state").exists()


async def test_a_state_directory_that_cannot_be_made_is_a_result(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    result = await prepare(tmp_path).carry_out()
    assert (result.outcome, "File exists" in result.failure) == ("broken", True)
