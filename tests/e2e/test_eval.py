"""Tests of complete evaluations: the sample task with its reference solution, spoilt, recorded, interrupted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hotdesk.config import Config
from hotdesk.ipc.child import SOURCE
from tests.e2e.conftest import environment
from tests.providers.acting import Acting
from tests.providers.behind import behind

pytestmark = pytest.mark.container
SAMPLES = Path(__file__).parents[1] / "evals"
HOTDESK = [sys.executable, "-c", "from hotdesk.cli import main; main()"]
HOSTS: dict[str, tuple[str, ...]] = {"fetch": ("GET https://rates.example.test/rate",)}
TOTAL = '"total": total}'
BY_HAND = "by hand through a loopback provider"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def temporary(settings: Config, home: Path) -> Iterator[Path]:
    folder = home / "e"  # sockets below it need short paths
    folder.mkdir(exist_ok=True, mode=0o755)
    yield folder
    assert os.listdir(folder) == []


@pytest.fixture
def variables(settings: Config, temporary: Path) -> dict[str, str]:
    own = {"PYTHONPATH": str(SOURCE), "TMPDIR": str(temporary), "HOTDESK_LOOPBACK_MODELS": "1"}
    return {**environment(settings), **own}


@pytest.fixture
def evaluate(variables: dict[str, str]) -> Run:
    def run(*argv: str | Path) -> subprocess.CompletedProcess[str]:
        words = [*HOTDESK, "eval", *map(str, argv)]
        return subprocess.run(words, env=variables, capture_output=True, text=True, timeout=110, check=False)

    return run


def copy_sample(folder: Path, file: str, old: str, new: str) -> Path:
    """Copy the sample task with one file changed; return the folder of tasks."""
    shutil.copytree(SAMPLES, folder)
    changed = folder / "code/sample" / file
    text = changed.read_text()
    assert old in text
    changed.write_text(text.replace(old, new))
    return folder


def read_json(done: subprocess.CompletedProcess[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    *results, last = [json.loads(line) for line in done.stdout.splitlines()]
    return results, last


def test_the_reference_solution_passes_at_the_first_delivery(evaluate: Run, tmp_path: Path) -> None:
    done = evaluate(SAMPLES, "--reference", "--runs", "2", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    worker, head, *rows, total = done.stdout.splitlines()
    assert worker == "Worker: each task's reference solution, a script; no model is called"
    assert head.startswith("TASK")
    assert [row.split()[:4] for row in rows] == [["code/sample", seed, "yes", "yes"] for seed in ("1", "2")]
    assert total.split()[:4] == ["total", "2", "2/2", "2/2"]
    assert total.endswith("100 % passed")
    assert "code/sample seed 1: passed at the first delivery" in done.stderr
    names = {"total.json", "total.json.certificate.json", "report.html", "result.json", "events.jsonl"}
    logs = {f"{command}.log" for command in ("run", "site", "vault", "work")}
    for seed in (1, 2):
        assert set(os.listdir(tmp_path / f"out/code-sample-{seed}")) == names | logs
    results = [json.loads((tmp_path / f"out/code-sample-{seed}/total.json").read_text()) for seed in (1, 2)]
    assert results[0] != results[1]
    again = evaluate(SAMPLES, "--reference", "--out", tmp_path / "out")
    assert (again.returncode, again.stdout) == (125, "")
    assert "exists already. Remove it, or choose another folder." in again.stderr


@pytest.mark.long
def test_a_spoilt_delivery_passes_the_brief_and_fails_the_grader(evaluate: Run, tmp_path: Path) -> None:
    tasks = copy_sample(tmp_path / "evals", "solution.py", TOTAL, '"total": total + 1}')
    done = evaluate(tasks, "--reference", "--json")
    [result], last = read_json(done)
    assert done.returncode == 0, done.stderr
    assert (result["outcome"], result["first_delivery"], result["passed"]) == ("failed", False, False)
    assert result["first_failure"].startswith("total.json has the total ")
    assert result["faults"] == [result["first_failure"]]
    assert last["totals"]["percent"] == 0.0
    required = evaluate(tasks, "--reference", "--require", "50")
    assert (required.returncode, "--require asks for 50 %" in required.stderr) == (1, True)


@pytest.mark.long
def test_a_delivery_that_first_fails_its_check_is_corrected_and_counted_separately(
    evaluate: Run, tmp_path: Path
) -> None:
    tasks = copy_sample(
        tmp_path / "evals", "solution.py", TOTAL, '"total": total if hands.attempt > 1 or hands.before else "?"}'
    )
    done = evaluate(tasks, "--reference", "--json")
    [result], _ = read_json(done)
    assert (result["outcome"], result["first_delivery"]) == ("passed", False), done.stderr
    assert result["first_failure"].startswith("total.json failed the check json: ")


@pytest.mark.long
def test_questions_are_answered_and_approvals_refused_at_once(evaluate: Run, tmp_path: Path) -> None:
    asking = """answer = await hands.ask("Which rate?")
    amended = await hands.amend(reason="I am curious.", hosts=["GET https://other.example.test/"])
    assert "decide yourself" in answer, answer
    assert not amended.ok, amended.text
    done = await"""
    tasks = copy_sample(tmp_path / "evals", "solution.py", "done = await", asking)
    done = evaluate(tasks, "--reference", "--json")
    [result], _ = read_json(done)
    assert (result["outcome"], result["first_failure"]) == ("passed", None), done.stderr
    assert result["seconds"]["wall"] < 60


@pytest.mark.long
def test_a_recording_is_replayed_with_the_same_figures_and_without_a_provider(evaluate: Run, tmp_path: Path) -> None:
    acting = Acting(SAMPLES / "code/sample/solution.py", HOSTS)
    with behind("chat", acting) as provider:
        model = f"chat:m@{provider.base_url}"
        options = ("--record", tmp_path / "recordings", "--answered-by", BY_HAND, "--json")
        first = evaluate(SAMPLES, "--model", model, *options)
    [recorded], last = read_json(first)
    assert (recorded["outcome"], recorded["model"]) == ("passed", model), first.stderr
    assert last["worker"] == f"{model}; answered {BY_HAND}"
    assert recorded["turns"] == len(acting.shown) > 4
    assert recorded["tokens"]["input"] > 0
    assert os.listdir(tmp_path / "recordings") == ["code-sample-1.jsonl"]
    second = evaluate(SAMPLES, "--replay", tmp_path / "recordings", "--json")
    [replayed], last = read_json(second)
    assert second.returncode == 0, second.stderr
    assert replayed["model"] == f"replay of record code-sample-1.jsonl ({BY_HAND})"
    assert last["worker"].endswith(f"no model is called. Recorded with {model}, answered {BY_HAND}.")
    times, name = "seconds", "model"
    same = {key: value for key, value in recorded.items() if key not in (times, name)}
    assert {key: value for key, value in replayed.items() if key not in (times, name)} == same
    assert replayed[times]["model"] == pytest.approx(recorded[times]["model"], abs=0.5)
    missing = evaluate(SAMPLES, "--replay", tmp_path / "recordings", "--seed", "2")
    assert (missing.returncode, "There is no recording" in missing.stderr) == (125, True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "old", "new", "failure"),
    [
        pytest.param("generate.py", "rate = chance", "raise ValueError('no rate')\n    rate = chance",
         "generate.py ended with exit code 1: ValueError: no rate", marks=pytest.mark.long),
        ("grade.py", "print(", "raise ValueError('no grade')\n    print(",
         "grade.py ended with exit code 1: ValueError: no grade"),
        pytest.param("site.py", "    class", "    hidden['rates']\n\n    class",
         "site.py failed: KeyError: 'rates'. Correct it.", marks=pytest.mark.long),
        pytest.param("generate.py", 'goal = ', 'gaol = ', "The job did not start: ", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_a_broken_task_is_one_line_beside_the_others(
    evaluate: Run, tmp_path: Path, file: str, old: str, new: str, failure: str
) -> None:
    tasks = copy_sample(tmp_path / "evals", file, old, new)
    if file == "generate.py" and "rate" in old:
        shutil.copytree(SAMPLES / "code/sample", tasks / "code/whole")
    done = evaluate(tasks, "--reference", "--json")
    results, last = read_json(done)
    assert done.returncode == 1
    broken = next(result for result in results if result["task"] == "code/sample")
    assert broken["outcome"] == "broken"
    assert broken["first_failure"].startswith(failure)
    assert last["totals"]["passed"] == len(results) - 1
    assert last["totals"]["broken"] == 1


@pytest.mark.long
def test_an_interrupted_evaluation_ends_its_jobs_and_prints_what_is_finished(
    variables: dict[str, str], tmp_path: Path
) -> None:
    tasks = copy_sample(tmp_path / "evals", "solution.py", '["curl"', '["sleep", "100"] or ["curl"')
    shutil.copytree(SAMPLES / "code/sample", tasks / "code/another")
    argv = [*HOTDESK, "eval", str(tasks), "--reference", "--jobs", "2"]
    process = subprocess.Popen(argv, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "code/another seed 1: passed" in line:
            break
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "1 of 2 runs were finished" in errors
    assert [line.split()[0] for line in output.splitlines()] == ["Worker:", "TASK", "code/another", "total"]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "one of the arguments --model --reference --replay is required"),
        (["--reference", "--task", "web/*"], "No task matches --task web/*. The tasks are code/sample."),
        (["--reference", "--record", "x"], "--record needs --model"),
        (["--reference", "--answered-by", "x"], "--answered-by needs --record"),
        (["--reference", "--jobs", "0"], "--jobs must be 1 to 64, not 0."),
        (["--model", "m"], "is not a model name"),
    ],
)
def test_a_wrong_call_gets_an_error_with_the_remedy(evaluate: Run, argv: list[str], message: str) -> None:
    done = evaluate(SAMPLES, *argv)
    assert (done.returncode, done.stdout) == (125, "")
    assert message in done.stderr
