"""One job, from brief to receipt: plan, approve, act, verify in a second desk, keep, burn. Read this first."""

from __future__ import annotations

from hotdesk.brain.seam import Brain
from hotdesk.job.record.receipt import Receipt, read_receipt
from hotdesk.job.start import JobContext as JobContext
from hotdesk.job.start import begin_job
from hotdesk.job.verify import Candidate


async def work(order: JobContext, brain: Brain) -> Receipt:
    """Carry out a brief. The receipt says what the worker could not do; failures of hotdesk are raised.

    Called again for a job that was stopped or killed, it resumes: what its events show as done is not repeated.
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
                proven = await line.verify(await line.fetch())  # `None` if a deliverable failed: then steps remain
            line.keep(proven)
            line.remember()
    return read_receipt(order.journal, order.id)
