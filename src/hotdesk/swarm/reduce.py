"""The report of a swarm: an ordinary job over the verified results, whose desk has no network access.

Its permissions are fixed here and by the brief: no host, no secret, and no person who could allow more. So nothing in
an item's result can extend what the worker that reads all of them may do.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from hotdesk.brain.seam import JobHaltedError
from hotdesk.brief import CLOSED
from hotdesk.brief.brief import Brief, JobBudget
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import new_id
from hotdesk.errors import BriefError
from hotdesk.event import Event, ItemEnded, ReduceBegun, Reduced
from hotdesk.job.plans import JobStoppedError
from hotdesk.job.record.papers import KEY, Papers
from hotdesk.job.record.receipt import Receipt, read_receipt
from hotdesk.linux import private_files
from hotdesk.swarm.brains import Brains
from hotdesk.work import JobContext, work

FOLDER = "reduce"
RESULTS, QUARANTINE = "results.jsonl", "quarantine.jsonl"
"""The input files of the report's worker: a line for each item that passed, and for each one in quarantine."""
MARK = b"swarm "
"""The first bytes of the stored request of a report's job: it can only be resumed through its swarm."""


def _make_brief(brief: Brief, folder: Path, budget: JobBudget) -> Brief:
    assert brief.reduce is not None
    reduce = brief.reduce
    return replace(
        brief,
        goal=reduce.goal,
        deliverables=reduce.deliverables,
        folder=folder,
        inputs=(RESULTS, QUARANTINE),
        scope=CLOSED,
        image=reduce.image,
        seconds=reduce.seconds,
        approve="auto",
        look="",
        budget=budget,
        memory="",
        each=None,
        reduce=None,
        frozen=True,
    )


def write_results(folder: Path, records: Iterable[ItemEnded], papers: Papers) -> str:
    """Write the report's input files; return a SHA-256 over them. Results are quoted, not parsed."""
    results, quarantine = [], []
    for each in records:
        if each.outcome == "done":
            files = {path: _quote(papers.read(name)) for path, name in zip(each.paths, each.files, strict=True)}
            results.append({"item": each.item, "input": each.input, "files": files})
        else:
            quarantine.append({"item": each.item, "input": each.input, "cause": each.cause, "why": each.why})
    private_files.make_folder(folder)
    digest = hashlib.sha256()
    for name, lines in ((RESULTS, results), (QUARANTINE, quarantine)):
        data = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        private_files.write(folder, name, data, 0o600)
        digest.update(hashlib.sha256(data).digest())
    return digest.hexdigest()


def _quote(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


@dataclass(slots=True)
class ReportJob:
    """Builds or resumes the report of one swarm."""

    order: JobContext
    """The swarm's context."""
    brief: Brief
    """The swarm's whole brief, including `[reduce]`."""
    papers: Papers
    brains: Brains
    make_budget: Callable[[str], JobBudget]
    """Returns what is left of the swarm's budget for one job, with what this job has used itself."""
    note: Callable[[Event], None]

    async def build(self, records: Iterable[ItemEnded], before: ReduceBegun | None) -> Reduced:
        """Build the report. Raise `JobStoppedError` if its job failed, `JobHaltedError` if it is paused."""
        folder = self.papers.folder / FOLDER
        digest = write_results(folder, records, self.papers)
        job = self.find_earlier(before, digest)
        if not job:
            job = new_id()
            self.note(ReduceBegun(self.order.id, job, digest))
        try:
            receipt = await self.carry_out(job, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # the results in it are not encrypted
        if receipt.outcome == "paused":
            raise JobHaltedError(f"the report is not written yet: {receipt.why}")
        if receipt.outcome != "done":
            raise JobStoppedError(
                f"the report was not written, because its job ended with the outcome {receipt.outcome}: {receipt.why}; "
                f"see `hotdesk show {job}`"
            )
        paths = {each.path: each.sha256 for each in receipt.kept}
        return Reduced(self.order.id, job, tuple(paths), tuple(paths.values()))

    def find_earlier(self, before: ReduceBegun | None, digest: str) -> str:
        """Return the id of the job started for exactly these results; empty if there is none or it failed."""
        if before is None or before.results != digest:
            return ""
        failed = read_receipt(self.order.journal, before.reduce).outcome in ("failed", "broken", "interrupted")
        return "" if failed else before.reduce

    async def carry_out(self, job: str, folder: Path) -> Receipt:
        """Carry out or resume the report's job; if it is already done, return its receipt."""
        machine = self.order.machine
        begun = (machine.config.lib / "jobs" / job / KEY).exists()
        if begun and (receipt := read_receipt(self.order.journal, job)).outcome == "done":
            return receipt
        brief = _make_brief(self.brief, folder, self.make_budget(job))
        order = JobContext(machine, brief, job, begun, self.order.listener, exact=self.brains.exact)
        order.request, order.by = MARK + self.order.id.encode(), self.order.by
        brain = self.brains.reduce(brief)
        try:
            return await work(order, brain)
        finally:
            await brain.close()


def refuse_alone(order: bytes, job: str) -> None:
    if order.startswith(MARK):
        swarm = order.removeprefix(MARK).decode("ascii", "replace")
        raise BriefError(
            f"job {job} writes the report of a swarm; resume the swarm instead: `hotdesk resume {swarm[:40]}`"
        )
