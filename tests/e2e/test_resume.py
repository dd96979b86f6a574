"""Tests of jobs that stop, wait, are killed and continue, with the real program; answers come from other processes.

Most run on a machine without walls, because the wall makes no difference here.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from hotdesk.config import Config
from hotdesk.desk.wall.local.handle import list_programs, strike
from hotdesk.drive.journal import FILE, read
from hotdesk.event import (
    Acted,
    Amended,
    Checkpointed,
    Event,
    JobBurnt,
    JobEnded,
    JobPaused,
    Kept,
    Observed,
    Pending,
    Resumed,
    StepBegun,
    StepEnded,
)
from hotdesk.host import Host
from tests.e2e.conftest import environment

pytestmark = [pytest.mark.container, pytest.mark.anyio]

SOURCE = os.pathsep.join(filter(None, sys.path))
MAIN = "from hotdesk.cli import main; main()"
PAUSED, UNDONE, REFUSED, SECONDS = 75, 1, 125, 30.0
IMPORTS = "from hotdesk.brain.models.scripted import Failed, Hands, step\n"
SLOW = """
async def slow(hands):
    "Take a while."
    await hands.run(["sh", "-c", "echo one >> log"])
    await hands.run(["sh", "-c", "echo two >> log; sleep 1.5; echo end >> log"])
    await hands.run(["sh", "-c", "echo three >> log; cp log result.txt"])
PLAN = (slow,)
"""
ASKING = """
async def ask(hands):
    "Ask."
    await hands.write("before.txt", b"kept")
    try:
        name = await hands.ask("Which?")
    except Failed as e:
        name = str(e)
    before = await hands.read("before.txt")
    await hands.write("result.txt", name.splitlines()[0].encode() + b" " + before)
PLAN = (ask,)
"""
QUICK = """
async def quick(hands):
    "Be quick."
    await hands.write("result.txt", b"done")
PLAN = (quick,)
"""
WIDER = """
async def wider(hands):
    "Do more than was planned."
    first = await hands.use("shell", command="echo no > result.txt")
    assert not first.ok
    asked = await hands.amend(reason="it needs a shell", tools=["shell"])
    seen = await hands.use("shell", command="echo yes > result.txt")
    if not seen.ok:
        await hands.write("result.txt", b"no")
PLAN = (step(wider, tools=["exact_*"], makes=["result.txt"]),)
"""
T = TypeVar("T")


@dataclass
class Place:
    """A state directory, and the briefs that are carried out in it."""

    settings: Config
    folder: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def environment(self, **env: str) -> dict[str, str]:
        return {**environment(self.settings), "PYTHONPATH": SOURCE, "HOTDESK_ALLOW_LOCAL": "1", **env}

    def call(self, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", MAIN, *argv]
        around = self.environment(**env)
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=90, env=around)

    def write(self, script: str, *, top: str = "") -> None:
        deliverable = '[[deliverables]]\npath = "result.txt"\nchecks = []\n'
        (self.folder / "brief.toml").write_text(f'goal = "Try."\nwall = "local"\n{top}\n{deliverable}')
        (self.folder / "brain.py").write_text(IMPORTS + script)

    def work(self, *argv: str) -> subprocess.Popen[bytes]:
        script = str(self.folder / "brain.py")
        return self.start("work", str(self.folder), "--script", script, "--out", str(self.folder / "out"), *argv)

    def start(self, *argv: str) -> subprocess.Popen[bytes]:
        """Start `hotdesk` as the leader of a process group."""
        command = [sys.executable, "-c", MAIN, *argv]
        around = self.environment()
        process = subprocess.Popen(
            command, env=around, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            process_group=0,
        )  # fmt: skip
        self.running.append(process)
        return process

    @property
    def job(self) -> str:
        (job,) = os.listdir(self.settings.lib / "jobs")
        return job

    @property
    def events(self) -> list[Event]:
        jobs = self.settings.lib / "jobs"
        if not jobs.exists() or not os.listdir(jobs):
            return []
        return [row.read_event() for row in read(self.settings.lib / "keys" / FILE, self.job)]

    def all(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]

    def wait_for(self, kind: type[T], holds: Callable[[T], bool] = lambda event: True) -> T:
        end = time.monotonic() + SECONDS
        while not (found := [event for event in self.all(kind) if holds(event)]):
            assert time.monotonic() < end, f"no {kind.__name__} in {self.events}"
            time.sleep(0.05)
        return found[-1]

    def resume(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return self.call("resume", self.job, *argv)

    @property
    def result(self) -> str:
        return (self.folder / "out/result.txt").read_text()


@pytest.fixture
async def place(settings: Config) -> AsyncIterator[Place]:
    """Yield a state directory whose journal belongs to the keys process; at the end it must be whole."""
    with placed(settings) as made:
        async with Host(made.settings, control=False) as host:
            await host.prepare()
        yield made
        verified = made.call("journal", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr


@contextmanager
def placed(settings: Config) -> Iterator[Place]:
    home = Path(tempfile.mkdtemp(prefix="resume-", dir=settings.run.parent))
    home.chmod(0o755)
    (home / "brief").mkdir()
    (home / "etc").mkdir()
    made = Place(replace(settings, run=home / "run", lib=home / "lib"), home / "brief")
    try:
        yield made
    finally:
        for process in made.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=20)
    shutil.rmtree(home)


def ended(process: subprocess.Popen[bytes]) -> int:
    process.wait(SECONDS)
    return process.returncode


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
async def test_a_signal_stops_a_job_after_its_act_and_it_continues_in_the_same_step(
    place: Place, number: signal.Signals
) -> None:
    place.write(SLOW)
    working = place.work()
    place.wait_for(Acted, lambda event: event.act == 2)
    working.send_signal(number)
    assert ended(working) == PAUSED
    (kept,) = place.all(Checkpointed)
    assert (kept.amid, kept.act, len(place.all(Observed))) == (True, 2, 2)
    assert isinstance(place.events[-2], JobPaused)
    assert isinstance(place.events[-1], JobBurnt)
    done = place.resume()
    assert done.returncode == 0, done.stderr
    assert place.result == "one\ntwo\nend\nthree\n"
    assert [event.act for event in place.all(Acted)] == [1, 2, 3, 4]
    assert place.all(Resumed)[0].unknown == ()
    assert {event.attempt for event in place.all(StepBegun) if event.step == "slow"} == {1}


async def test_two_signals_burn_the_desk_at_once_and_the_job_is_over(place: Place) -> None:
    place.write(SLOW)
    working = place.work()
    place.wait_for(Acted, lambda event: event.act == 2)
    working.send_signal(signal.SIGINT)
    await anyio.sleep(0.3)
    working.send_signal(signal.SIGINT)
    assert ended(working) == 128 + signal.SIGINT
    (over,) = place.all(JobEnded)
    assert over.outcome == "interrupted"
    assert [event.note for event in place.all(StepEnded) if event.step == "desk"] == ["burnt"]
    assert "checkpoint-key" not in os.listdir(place.settings.lib / "jobs" / place.job)
    refused = place.resume()
    assert (refused.returncode, "has ended: interrupted" in refused.stderr) == (REFUSED, True)
    assert "checkpoint-key" not in os.listdir(place.settings.lib / "jobs" / place.job)


@pytest.mark.long
async def test_a_budget_that_is_used_up_pauses_and_more_of_it_continues(place: Place) -> None:
    place.write(SLOW.replace("sleep 1.5", "true"))
    assert ended(place.work("--acts", "2")) == PAUSED
    assert "2 acts is used up" in place.wait_for(JobPaused).why
    assert place.resume().returncode == PAUSED
    done = place.resume("--acts", "9")
    assert done.returncode == 0, done.stderr
    assert place.result == "one\ntwo\nend\nthree\n"
    refused = place.resume()
    assert (refused.returncode, "has ended: done" in refused.stderr) == (REFUSED, True)
    assert len(place.all(Kept)) == 1


@pytest.mark.long
async def test_a_long_wait_burns_the_desk_and_the_job_continues_at_another_with_its_files(place: Place) -> None:
    (place.settings.run.parent / "etc/config.toml").write_text("[jobs]\npatience = 1\n")
    place.write(ASKING)
    working = place.work()
    asked = place.wait_for(Pending, lambda event: event.kind == "question")
    place.wait_for(StepEnded, lambda event: event.step == "desk")
    assert [event.amid for event in place.all(Checkpointed)] == [True]
    refused = place.resume()
    assert (refused.returncode, "another process is running job" in refused.stderr) == (REFUSED, True)
    assert place.all(Resumed) == []
    assert place.call("answer", asked.id, "this one").returncode == 0
    assert ended(working) == 0
    assert place.result == "this one kept"
    assert len([event for event in place.all(StepBegun) if event.step == "desk"]) == 2


@pytest.mark.long
async def test_an_expired_question_is_reported_to_the_worker(place: Place) -> None:
    place.write(ASKING, top="wait = 1")
    assert ended(place.work()) == 0
    assert place.result == "No person answered in time. Continue without the answer. kept"


@pytest.mark.long
async def test_a_job_stopped_during_a_question_does_not_repeat_it(place: Place) -> None:
    place.write(ASKING, top='egress = ["POST https://shop.test/*"]')
    working = place.work()
    asked = place.wait_for(Pending, lambda event: event.kind == "question")
    working.send_signal(signal.SIGINT)
    assert ended(working) == PAUSED
    assert place.call("answer", asked.id, "that one").returncode == 0
    done = place.resume()
    assert done.returncode == 0, done.stderr
    assert place.result == "that one kept"
    assert [event.kind for event in place.all(Pending)] == ["plan", "question"]


async def test_a_plan_is_approved_while_the_job_is_not_running(place: Place) -> None:
    place.write(QUICK, top='approve = "plan"')
    working = place.work()
    asked = place.wait_for(Pending)
    os.killpg(working.pid, signal.SIGKILL)
    assert ended(working) == -signal.SIGKILL
    said = place.call("approve", asked.id)
    assert f"no process is running this job; continue it with `hotdesk resume {place.job}`" in said.stdout
    done = place.resume()
    assert done.returncode == 0, done.stderr
    assert (place.result, len(place.all(Pending))) == ("done", 1)


@pytest.mark.long
async def test_a_plan_edited_during_a_wait_is_the_one_carried_out(place: Place) -> None:
    place.write(QUICK, top='approve = "plan"')
    working = place.work()
    editor = place.folder / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/Be quick/Be very quick/' \"$1\"\n")
    editor.chmod(0o755)
    said = place.call("approve", place.wait_for(Pending).id, "--edit", EDITOR=str(editor))
    assert said.returncode == 0, said.stderr
    assert ended(working) == 0
    assert len(place.all(Amended)) == 1
    assert [event.what for event in place.all(StepBegun) if event.step == "quick"] == ["Be very quick."]


@pytest.mark.long
@pytest.mark.parametrize(("wait", "why"), [("60", "refused"), pytest.param("1", "expired", marks=pytest.mark.long)])
async def test_a_plan_that_is_refused_or_not_answered_in_time_is_not_carried_out(
    place: Place, wait: str, why: str
) -> None:
    place.write(QUICK, top=f'approve = "plan"\nwait = {wait}')
    working = place.work()
    asked = place.wait_for(Pending)
    if why == "refused":
        assert place.call("refuse", asked.id, "--reason", "not today").returncode == 0
    assert ended(working) == UNDONE
    (over,) = place.all(JobEnded)
    assert (over.outcome, f"the plan was {why}" in over.why) == ("failed", True)
    assert place.all(StepBegun) == []


@pytest.mark.parametrize(
    ("word", "result"), [("approve", "yes\n"), pytest.param("refuse", "no", marks=pytest.mark.long)]
)
async def test_an_amendment_applies_once_a_person_approves_it(place: Place, word: str, result: str) -> None:
    place.write(WIDER, top='approve = "plan"')
    working = place.work()
    assert place.call("approve", place.wait_for(Pending).id).returncode == 0
    asked = place.wait_for(Pending, lambda event: event.kind == "amendment")
    assert place.call(word, asked.id).returncode == 0
    assert ended(working) == 0
    assert place.result == result
    assert len(place.all(Amended)) == (word == "approve")


@pytest.mark.parametrize("word", [pytest.param("approve", marks=pytest.mark.long), "refuse"])
async def test_an_act_that_may_have_had_effects_outside_is_repeated_only_with_approval(place: Place, word: str) -> None:
    place.write(SLOW, top='egress = ["POST https://shop.test/*"]')
    working = place.work()
    place.wait_for(Acted, lambda event: event.act == 2)
    kill_all(working, place)
    going = place.start("resume", place.job)
    asked = place.wait_for(Pending, lambda event: event.kind == "repeat")
    assert place.all(Resumed)[0].unknown == ("2 exact_run",)
    os.killpg(going.pid, signal.SIGKILL)  # nor when this one is killed
    going.wait(SECONDS)
    again = place.start("resume", place.job)
    place.wait_for(Resumed, lambda event: len(place.all(Resumed)) == 2)
    assert place.call(word, asked.id).returncode == 0
    assert ended(again) == (0 if word == "approve" else UNDONE)
    assert len([event for event in place.all(Pending) if event.kind == "repeat"]) == 1
    if word == "refuse":
        assert "repeating step slow was refused" in place.all(JobEnded)[0].why
        assert [event.act for event in place.all(Acted)] == [1, 2]
    else:
        assert place.result == "one\ntwo\nend\nthree\n"


@pytest.mark.long
async def test_resuming_a_forgotten_job_or_a_damaged_workspace_is_refused_with_the_reason(place: Place) -> None:
    place.write(SLOW.replace("sleep 1.5", "true"))
    assert ended(place.work("--acts", "2")) == PAUSED
    (kept,) = place.all(Checkpointed)
    file = place.settings.lib / "jobs" / place.job / "checkpoints" / kept.sha256
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    refused = place.resume("--acts", "9")
    assert refused.returncode == REFUSED
    assert refused.stderr.splitlines()[-1].endswith("was changed; start a new job")
    assert place.all(Kept) == []
    job = place.job
    assert place.call("forget", job, "--yes").returncode == 0
    refused = place.call("resume", job)
    assert refused.returncode == REFUSED
    assert json.dumps(job)[1:-1] in refused.stderr


def kill_all(working: subprocess.Popen[bytes], place: Place) -> None:
    os.killpg(working.pid, signal.SIGKILL)
    working.wait(SECONDS)
    for event in place.all(StepBegun):
        if event.step == "desk":
            for folder in Path(tempfile.gettempdir()).glob(f"hotdesk-{event.desk}-*"):
                while left := list_programs(folder / "home"):
                    strike(left, signal.SIGKILL)
                    time.sleep(0.02)
                shutil.rmtree(folder)
