"""Tests of a step that this machine's failure interrupted: it is repeated like one that was killed, with approval."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.brain.brain import ModelBrain
from hotdesk.brain.models.scripted import Hands, ScriptedModel
from hotdesk.brain.models.seam import ModelRequest, Reply
from hotdesk.brief.load import parse_job
from hotdesk.config import Config
from hotdesk.door.policy.scope import scope_of
from hotdesk.drive.journal import read
from hotdesk.errors import HostError
from hotdesk.event import Decided, Event, Exchange, Observed, Pending, StepBegun
from hotdesk.job.local import local_machine
from hotdesk.job.people.wait import Card, decide
from hotdesk.job.record import papers
from hotdesk.work import JobContext, work

BRIEF = b'goal = "Order."\nwall = "local"\ndeliverables = [{path = "note.txt", checks = []}]\n'


async def order(hands: Hands) -> None:
    await hands.run(["true"])
    await hands.write("note.txt", b"ordered")


class Failing(ScriptedModel):
    """A model whose machine fails when it is asked for the second time."""

    asked = 0

    async def ask(self, request: ModelRequest) -> Reply:
        self.asked += 1
        if self.asked == 2:
            raise HostError("the disk is full")
        return await super().ask(request)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "asked"), [("POST", ["repeat"]), ("GET", [])])
async def test_a_step_in_which_this_machine_failed_is_repeated_with_approval_if_it_wrote(
    method: str, asked: list[str], tmp_path: Path
) -> None:
    settings = Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images")
    job = parse_job(BRIEF, tmp_path, scope_of)
    desks: list[str] = []
    async with local_machine(settings) as machine:
        context = JobContext(machine, job, exact=True)

        def send(event: Event) -> None:
            if isinstance(event, StepBegun) and event.step == "order":
                desks.append(event.desk)
            if isinstance(event, Observed) and len(desks) == 1:
                url = ("https", "shop.test", 443, "/orders", 201)
                machine.note(Exchange(desks[0], "order", "allow", "", method, *url, 90, 9, 1))

        async def refuse(pending: Pending, card: Card) -> Decided:
            kept = papers.find(settings.lib / "jobs", context.id)
            return decide(pending, card, kept, "refused", "a person")

        context.listener, context.prompt = send, refuse
        model = Failing.of(order)
        with pytest.raises(HostError):
            await work(context, ModelBrain(job, [model], [model]))
        context.goes_on, model = True, ScriptedModel.of(order)
        receipt = await work(context, ModelBrain(job, [model], [model]))
        events = [row.read_event() for row in read(context.journal, context.id)]
    assert [event.kind for event in events if isinstance(event, Pending) and event.kind != "plan"] == asked
    assert (receipt.outcome, "repeating step order was refused" in receipt.why) == (
        ("failed", True) if asked else ("done", False)
    )
