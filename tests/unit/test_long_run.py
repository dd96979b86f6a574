"""Tests of the long run: each runs pytest with its plugin in a small repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
RECORD = "out/record.jsonl"
TESTS = """
from pathlib import Path

def test_first(): pass
def test_second(): assert not Path("broken").exists()
"""
LATER = "\ndef test_later(): pass\n"


class Project:
    """A repository with tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "test_a.py").write_text(TESTS)
        self.git("init", "--quiet")
        self.commit()

    def git(self, *argv: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.test"]
        return subprocess.run(
            ["git", *who, *argv], cwd=self.folder, check=True, capture_output=True, text=True, timeout=60
        ).stdout.strip()

    def commit(self) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "x")
        return self.git("rev-parse", "HEAD")

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.long_run", "--record", RECORD]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.run(
            [*argv, *options], cwd=self.folder, env=env, check=False, capture_output=True, text=True, timeout=60
        )

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        """Every test that was run, in order, and its outcome."""
        rows = [json.loads(line) for line in (self.folder / RECORD).read_text().splitlines()]
        return [(row["test"].partition("::")[2], row["outcome"]) for row in rows]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_new_tests_come_first_then_failed_ones_and_passed_ones_are_not_run_again(project: Project) -> None:
    (project.folder / "broken").touch()
    assert project.run().returncode == pytest.ExitCode.TESTS_FAILED
    first = [("test_first", "passed"), ("test_second", "failed")]
    assert project.outcomes == first
    (project.folder / "test_a.py").write_text(TESTS + LATER)
    done = project.run()
    assert (done.returncode, "1 left or failed in this shard" in done.stdout) == (pytest.ExitCode.TESTS_FAILED, True)
    assert project.outcomes == [*first, ("test_later", "passed"), ("test_second", "failed")]
    (project.folder / "broken").unlink()
    assert project.run().returncode == pytest.ExitCode.OK
    assert project.outcomes[4:] == [("test_second", "passed")]
    done = project.run()
    assert (done.returncode, "0 left or failed in this shard" in done.stdout) == (pytest.ExitCode.OK, True)
    assert len(project.outcomes) == 5


@pytest.mark.parametrize(
    "workers",
    [(), pytest.param(("-p", "xdist", "-n", "1"), marks=pytest.mark.long)],
    ids=["alone", "with workers"],
)
def test_a_run_whose_time_is_up_fails_until_a_later_one_has_run_the_rest(
    project: Project, workers: tuple[str, ...]
) -> None:
    stopped = project.run("--minutes", "0", *workers)
    assert stopped.returncode == pytest.ExitCode.INTERRUPTED
    assert "the time is up: run it again to go on" in stopped.stdout
    begun = len(project.outcomes)
    assert begun < len(("test_first", "test_second"))
    assert project.run(*workers).returncode == pytest.ExitCode.OK
    assert project.outcomes == [("test_first", "passed"), ("test_second", "passed")]
    assert project.run(*workers).returncode == pytest.ExitCode.OK
    assert len(project.outcomes) == 2


def test_what_passed_on_an_earlier_commit_is_run_again_unless_since_accepts_it(project: Project) -> None:
    first = project.git("rev-parse", "HEAD")
    project.run()
    project.commit()
    assert project.run("--since", first).returncode == pytest.ExitCode.OK
    assert len(project.outcomes) == 2
    project.run()
    assert len(project.outcomes) == 4


def test_a_file_that_passed_has_a_row_that_counts_until_the_file_changes(project: Project) -> None:
    table = project.folder / "results.csv"
    options = ("--results", table.name, "--since", project.git("rev-parse", "HEAD"))
    (project.folder / "broken").touch()
    (project.folder / "test_b.py").write_text(LATER)
    first = project.commit()
    assert project.run(*options).returncode == pytest.ExitCode.TESTS_FAILED
    assert [row.split(",")[:2] for row in table.read_text().splitlines()] == [["file", "commit"], ["test_b.py", first]]
    (project.folder / "broken").unlink()
    second = project.commit()
    (project.folder / RECORD).unlink()  # on another machine
    assert project.run(*options).returncode == pytest.ExitCode.OK
    assert project.outcomes == [("test_first", "passed"), ("test_second", "passed")]
    rows = [row.split(",") for row in table.read_text().splitlines()[1:]]
    assert [(row[0], row[1], row[3]) for row in rows] == [("test_a.py", second, "2"), ("test_b.py", first, "1")]
    (project.folder / "test_b.py").write_text(LATER.replace("later", "changed"))
    project.commit()
    (project.folder / RECORD).unlink()
    assert project.run(*options).returncode == pytest.ExitCode.OK
    assert project.outcomes == [("test_changed", "passed")]


def test_a_file_whose_tests_ran_on_two_commits_or_were_skipped_does_not_count(project: Project) -> None:
    table, first = project.folder / "results.csv", project.git("rev-parse", "HEAD")
    options = ("--results", table.name, "--since", first)
    assert project.run(*options, "--minutes", "0").returncode == pytest.ExitCode.INTERRUPTED
    project.commit()
    assert project.run(*options).returncode == pytest.ExitCode.OK
    assert table.read_text().splitlines()[1:] == []
    (project.folder / "test_a.py").write_text("import pytest\n@pytest.mark.skip\ndef test_first(): pass\n")
    project.commit()
    (project.folder / RECORD).unlink()
    assert project.run(*options).returncode == pytest.ExitCode.OK
    (project.folder / RECORD).unlink()
    assert project.run(*options).returncode == pytest.ExitCode.OK
    assert project.outcomes == [("test_first", "skipped")]


def test_shards_take_every_test_once(project: Project) -> None:
    for name in "bcdefgh":
        (project.folder / f"test_{name}.py").write_text(TESTS)
    parts = [collect(project, f"{number}/3") for number in (1, 2, 3)]
    assert all(parts)
    everything = [f"test_{name}.py::{test}" for name in "abcdefgh" for test in ("test_first", "test_second")]
    assert sorted(test for part in parts for test in part) == everything


def collect(project: Project, shard: str) -> list[str]:
    lines = project.run("--collect-only", "--quiet", "--shard", shard).stdout.splitlines()
    return [line for line in lines if "::" in line]
