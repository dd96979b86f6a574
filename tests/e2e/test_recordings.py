"""Tests of recorded models: every recording in the repository is replayed at real desks, with the same verdict.

`tests/recordings/FAMILY-TASK-SEED.jsonl` are recordings of evaluation tasks, replayed by `hotdesk eval`;
`examples/NAME/recorded/*.jsonl` are those of an example, replayed by its `run.py`. The shortest of each kind runs in
`make test`, the others in `make test-long`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from examples.recording import read_note
from examples.trial import HOTDESK

from hotdesk.brain.models.record import read_parts
from hotdesk.brain.models.seam import Reply
from hotdesk.config import Config
from hotdesk.plan import Plan, from_json, to_json
from hotdesk.tool import Call
from tests.providers.acting import Acting
from tests.providers.behind import Asked, behind

ROOT = Path(__file__).parents[2]
EVALS = ROOT / "evals"
LABEL = re.compile(r"([a-z]+)-([a-z0-9_-]+)-([0-9]+)")
REPLAY_SECONDS = 900.0
OF_ONE_MONTH = ("legacy",)
"""Examples whose recorded clicks hit the days of a calendar, which are elsewhere in another month."""


def find_task_recordings(root: Path) -> list[Path]:
    return sorted((root / "tests/recordings").rglob("*.jsonl"))


def find_example_recordings(root: Path) -> list[Path]:
    return sorted((root / "examples").glob("*/recorded/*.jsonl"))


def list_cases(files: list[Path]) -> list[Any]:
    """List the cases, one for each recording that can be repeated; all but the shortest are `long`."""
    shortest = min(files, key=lambda file: (file.stat().st_size, file))
    return [
        pytest.param(file, id=f"{file.parents[1].name}-{file.stem}", marks=() if file == shortest else pytest.mark.long)
        for file in files
        if file.parents[1].name not in OF_ONE_MONTH or read_note(file).date[:7] == f"{datetime.now(UTC):%Y-%m}"
    ]


TASK_RECORDINGS, EXAMPLE_RECORDINGS = find_task_recordings(ROOT), find_example_recordings(ROOT)


@pytest.mark.container
@pytest.mark.timeout(REPLAY_SECONDS)
@pytest.mark.parametrize("file", list_cases(TASK_RECORDINGS))
def test_a_recorded_task_is_delivered_again_and_passes_its_grader(file: Path, settings: Config, home: Path) -> None:
    match = LABEL.fullmatch(file.stem)
    assert match, f"{file.name} is no FAMILY-TASK-SEED.jsonl"
    family, task, seed = match.groups()
    argv = [*HOTDESK, "eval", str(EVALS), "--task", f"{family}/{task}", "--seed", seed]
    argv += ["--replay", str(file.parent), "--json", "--require", "100"]
    env = {**os.environ, "HOTDESK_IMAGES": str(settings.images), "TMPDIR": str(home)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=REPLAY_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result, totals = map(json.loads, done.stdout.splitlines())
    assert (result["task"], result["outcome"]) == (f"{family}/{task}", "passed"), result
    assert "no model is called" in totals["worker"]


@pytest.mark.container
@pytest.mark.timeout(REPLAY_SECONDS)
@pytest.mark.parametrize("file", list_cases(EXAMPLE_RECORDINGS))
def test_a_recorded_example_is_delivered_again_and_its_judge_agrees(
    file: Path, settings: Config, home: Path, tmp_path: Path
) -> None:
    printed = run_example(file.parents[1], settings, home, "--out", str(tmp_path), "--replay", str(file))
    assert f"no model is called. The decisions were {read_note(file).describe()}" in printed


def run_example(example: Path, settings: Config, home: Path, *argv: str, **variables: str) -> str:
    """Run an example to a successful end; return its output."""
    env = {**os.environ, "HOTDESK_IMAGES": str(settings.images), "TMPDIR": str(home), **variables}
    command = [sys.executable, str(example / "run.py"), *argv]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=REPLAY_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.long
@pytest.mark.container
@pytest.mark.timeout(2 * REPLAY_SECONDS)
def test_the_demo_replays_its_recording_without_a_model(settings: Config, home: Path, tmp_path: Path) -> None:
    file, audit = tmp_path / "recorded/script.jsonl", ROOT / "examples/audit"
    argv = ["--out", str(tmp_path / "first"), "--seed", "7", "--count", "45", "--model", "anthropic:claude-sonnet-5"]
    argv += ["--record", str(file), "--answered-by", "by a script through a loopback provider"]
    with behind("anthropic", plan_and_act(audit)) as provider:
        address = {"ANTHROPIC_BASE_URL": provider.base_url, "ANTHROPIC_API_KEY": "any"}
        run_example(audit, settings, home, *argv, **address)
    printed = run_example(audit, settings, home, "--out", str(tmp_path / "second"), "--replay", str(file))
    assert "Generating 45 invoices from seed 7" in printed
    assert "answered by a script through a loopback provider; the work is done again" in printed
    assert "The password reached the ERP in 1 request." in printed
    assert (tmp_path / "second/Discrepancy_Report.xlsx.certificate.json").exists()


def plan_and_act(example: Path) -> Callable[[Asked], Reply]:
    """Decide as an example's script does, and add to the plan the hosts and secrets that a model must list."""
    brief = tomllib.loads((example / "brief.toml").read_text())
    acting = Acting(example / "brain.py", {"export": tuple(brief["egress"])})

    def decide(asked: Asked) -> Reply:
        reply = acting(asked)
        for call in reply.calls:
            if call.tool == "plan" and isinstance(call.arguments, dict):
                plan = from_json(call.arguments["plan"])
                granted = replace(plan.steps[0], grants=("erp-password",))
                written = to_json(Plan((granted, *plan.steps[1:])))
                return replace(reply, calls=(Call("", "plan", {"plan": written}),))
        return reply

    return decide


def test_every_recording_has_replies_and_names_their_origin() -> None:
    for file in (*TASK_RECORDINGS, *EXAMPLE_RECORDINGS):
        assert any(read_parts(file).values()), f"{file} has no reply"
        header = json.loads(file.read_text().partition("\n")[0])
        assert header["recording"]["answered_by"], f"{file} does not say who answered"
    for file in EXAMPLE_RECORDINGS:
        header = json.loads(file.read_text().partition("\n")[0])
        assert header["recording"]["answered_by"] == read_note(file).answered_by


def test_recordings_are_found_in_their_folders(tmp_path: Path) -> None:
    tasks = ["tests/recordings/code-fix-1", "tests/recordings/code-fix-2", "tests/recordings/web-a-1"]
    for name in (*tasks, "examples/audit/recorded/mind", "examples/audit/recorded/other"):
        (tmp_path / f"{name}.jsonl").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.jsonl").touch()
    cases = [*list_cases(find_task_recordings(tmp_path)), *list_cases(find_example_recordings(tmp_path))]
    shown = [(case.id.partition("-")[2], [mark.name for mark in case.marks]) for case in cases]
    expected = [("code-fix-1", []), ("code-fix-2", ["long"]), ("web-a-1", ["long"])]
    assert shown == [*expected, ("mind", []), ("other", ["long"])]
