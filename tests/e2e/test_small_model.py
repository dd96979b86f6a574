"""Tests of a real model that cannot do the work: it gets clear errors, is stopped, and nothing is kept."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from examples.trial import HOTDESK

from hotdesk.brain.models.seam import Reply
from hotdesk.brain.planning import ROUNDS
from hotdesk.config import Config
from hotdesk.drive.journal import FILE, read
from hotdesk.event import Acted, Burnt, Event, Observed, StepBegun, Thought, Verified
from hotdesk.job.record.receipt import Receipt, read_receipt
from hotdesk.plan import Plan, Step, to_json
from hotdesk.tool import Call
from tests.providers.behind import Asked, behind
from tests.small_model import Served, small_model

pytestmark = [pytest.mark.container, pytest.mark.long, pytest.mark.timeout(1500)]
WORKING = 700.0
"""Seconds a job may take: more than its brief allows."""
BRIEF = """\
goal = "Count the words of notes.txt, and write the number into a workbook."
inputs = ["notes.txt"]
egress = ["read example.test"]
seconds = 240
wait = "5s"
tools = ["run", "file_create"]

[budget]
acts = 25
tokens = 200_000

[[deliverables]]
path = "count.xlsx"
check = "sheet"

[deliverables.expect]
columns = ["File", "Words"]
rows = 1
"""
NOTES = "Twelve words are here, and not one of them is about money.\n"
ACTS = 25
STOPPED = re.compile(r"time limit|acts|tokens|gave up|made no progress|without calling a tool")
KIND = re.compile(r"There is no tool|Did you mean|Arguments: |The step allows|is not finished|exit code|failed: ")
"""Texts of which every refusal and failure must have one: what is right, what exists, or how it ended."""
PLAN = Plan(
    (
        Step(
            "count",
            "Count the words of notes.txt with wc, and write File and Words into count.xlsx.",
            tools=("run", "file_create"),
            files=("notes.txt",),
            makes=("count.xlsx",),
        ),
    )
)


@dataclass
class Bench:
    """A state directory with a brief, where models are tried."""

    home: Path
    env: dict[str, str]

    def hotdesk(self, *argv: str) -> tuple[int, str]:
        """Run `hotdesk` as a person does; return its exit code and output."""
        done = subprocess.run(
            [*HOTDESK, *argv],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WORKING,
            check=False,
        )
        print(done.stdout)
        return done.returncode, done.stdout

    def work(self, model: str, planner: str) -> tuple[int, str]:
        names = ("--model", model, "--planner", planner)
        return self.hotdesk("work", str(self.home / "brief"), *names, "--out", str(self.home / "out"))

    @property
    def job(self) -> str:
        [folder] = (self.home / "lib/jobs").iterdir()
        return folder.name

    def receipt(self) -> Receipt:
        return read_receipt(self.home / "lib/keys" / FILE, self.job)

    def events(self, *kinds: type) -> list[Event]:
        """List events of some kinds, of the job and of its desks."""
        rows = read(self.home / "lib/keys" / FILE)
        return [event for row in rows if isinstance(event := row.read_event(), kinds)]


@pytest.fixture
def bench(settings: Config, home: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Yield a separate state directory; at the end no desk is left, nothing was kept, and the journal is whole."""
    folder = home / request.node.name
    (folder / "brief").mkdir(parents=True)
    (folder / "brief/brief.toml").write_text(BRIEF)
    (folder / "brief/notes.txt").write_text(NOTES)
    plain = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    own = {"HOTDESK_HOME": str(folder), "HOTDESK_IMAGES": str(settings.images), "HOTDESK_LOOPBACK_MODELS": "1"}
    made = Bench(folder, {**plain, **own, "HOTDESK_CHAT_WINDOW": "8192"})
    yield made
    desks = folder / "run/desks"
    assert not desks.exists() or os.listdir(desks) == []
    assert made.receipt().kept == ()
    assert made.receipt().left == ()
    assert made.events(Verified) == []
    assert not (folder / "out").exists() or os.listdir(folder / "out") in ([], ["report.html"])
    code, told = made.hotdesk("journal", "verify")
    assert code == 0, told


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with small_model() as model:
        yield model


def planning(asked: Asked) -> Reply:
    if "plan" in asked.tools:
        return Reply(calls=(Call("", "plan", {"plan": to_json(PLAN)}),))
    if "findings" in asked.tools:
        return Reply(calls=(Call("", "findings", {"findings": []}),))
    return Reply(calls=(Call("", "give_up", {"why": "it only plans"}),))


def test_a_model_that_cannot_plan_gets_the_errors_and_opens_no_desk(bench: Bench, served: Served) -> None:
    code, told = bench.work(served.plain, served.plain)
    assert code == 1, told
    assert bench.receipt().outcome == "failed"
    assert f"after {ROUNDS} rounds" in told
    assert len(bench.events(Thought)) >= ROUNDS
    assert bench.events(StepBegun, Acted, Burnt) == []


def test_a_model_that_cannot_act_gets_clear_refusals_and_is_stopped(bench: Bench, served: Served) -> None:
    with behind("chat", planning) as planner:
        code, told = bench.work(served.tools, f"chat:planner@{planner.base_url}")
    _, transcript = bench.hotdesk("show", bench.job, "--transcript")
    receipt = bench.receipt()
    assert (code, receipt.outcome) in ((1, "failed"), (75, "paused")), told
    assert STOPPED.search(receipt.why), receipt.why
    assert {each.desk for each in bench.events(Burnt) if isinstance(each, Burnt)} == set(receipt.burnt) != set()
    thoughts = [each for each in bench.events(Thought) if isinstance(each, Thought) and each.step == "count"]
    assert any("smollm2" in each.model for each in thoughts)
    acts, seen = bench.events(Acted), bench.events(Observed)
    assert 0 < len(seen) == len(acts) <= ACTS
    failures = re.findall(r"act \d+: failed after \d+ ms\n   text: (.*(?:\n      .*)*)", transcript)
    assert len(failures) == sum(isinstance(each, Observed) and each.outcome == "failed" for each in seen)
    assert [said for said in failures if not KIND.search(said)] == []
