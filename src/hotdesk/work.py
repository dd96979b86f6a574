"""One job, from brief to ashes: plan, approve, act, verify in a second desk, keep, burn. Read this first."""

from __future__ import annotations

from hotdesk.brain.seam import Brain
from hotdesk.job.record.receipt import Receipt, read_receipt
from hotdesk.job.start import JobContext as JobContext
from hotdesk.job.start import begin_job
from hotdesk.job.verify import Candidate


async def work(order: JobContext, brain: Brain) -> Receipt:
    """Carry out a brief. What the worker could not do is in the receipt; what hotdesk could not is raised.

    A job that was stopped or killed goes on by the same line: what its events say is done is not done again.
    """
    await order.machine.prepare()
    with begin_job(order, brain) as line:
        await line.plan()
        await line.approve()
        async with line.hold_desks():
            proven: list[Candidate] | None = None
            while proven is None:
                for step in line.iterate_remaining():
                    await line.act(step)
                proven = await line.verify(await line.fetch())  # what fails goes back: steps are left again
            line.keep(proven)
            line.remember()
    return read_receipt(order.journal, order.id)
