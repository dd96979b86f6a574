"""Tests that planner and worker know what will be judged before anything is made."""

from __future__ import annotations

from pathlib import Path

from hotdesk.brain.brain import ModelBrain
from hotdesk.brain.models.scripted import Hands, ScriptedModel
from hotdesk.brain.planning import describe
from hotdesk.brain.seam import Log, PlanningTask
from hotdesk.brief.load import parse_job
from hotdesk.config import Config
from hotdesk.door.policy.scope import scope_of
from hotdesk.job.local import local_machine
from hotdesk.plan import Plan
from hotdesk.work import JobContext, work

BRIEF = """
goal = "Audit the invoices"
wall = "local"
budget = {tokens = 1500000, dollars = 2.5}

[[deliverables]]
path = "Report.xlsx"
check = "xlsx"

[deliverables.expect]
columns = ["Invoiced", "Per ERP", "Difference"]
formulas = ["column Difference", "Summary!B9:B11"]
mutate = [{set = "Invoices!A7", to = 1.0, moves = ["Summary!B9", "Summary!B11"], stays = ["Summary!B10"]}]

[[deliverables]]
path = "note.txt"
checks = []
"""


class ListeningBrain(ModelBrain):
    """Records what it was told to plan."""

    heard: tuple[PlanningTask, ...] = ()

    async def plan(self, task: PlanningTask, log: Log) -> Plan:
        self.heard = (*self.heard, task)
        return await super().plan(task, log)


async def test_what_a_check_judges_is_reported_before_the_first_delivery(tmp_path: Path) -> None:
    async def write(hands: Hands) -> None:
        await hands.write("note.txt", b"a note")

    settings = Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images")
    job = parse_job(BRIEF.encode(), tmp_path, scope_of)
    model = ScriptedModel.of(write)
    brain = ListeningBrain(job, [model], [model])
    async with local_machine(settings) as machine:
        await work(JobContext(machine, job, exact=True), brain)
    (task,) = brain.heard
    report, note = task.deliverables
    assert report.splitlines()[0] == "Report.xlsx (xlsx)"
    assert note == "note.txt (no check)"
    told = describe(task)
    assert "- seconds 900, tokens 1,500,000, dollars 2.5" in told
    assert "Tools; every step can also ask the person" in told
    for sentence in (
        "Every formula must be saved with its calculated value.",
        "Column Difference must have a formula in every row.",
        "On sheet Summary, cells B9:B11 must have formulas.",
        "When Invoices!A7, a typed value, is set to 1, Summary!B9 and Summary!B11 must change and Summary!B10 must not",
    ):
        assert sentence in told
