"""The end of a swarm whose items have ended: failure threshold, review of a sample, report, signature."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from hotdesk.brain.seam import JobHaltedError
from hotdesk.brief.brief import JobBudget
from hotdesk.dataclass import dataclass
from hotdesk.drive.catalog import Version
from hotdesk.drive.identity import get_current_user
from hotdesk.drive.swarm_certificate import encode_record
from hotdesk.event import ItemEnded, ItemReviewed, Kept
from hotdesk.swarm.page import choose_quoted, make_page
from hotdesk.swarm.reduce import ReportJob
from hotdesk.swarm.results import read_state
from hotdesk.swarm.review import choose_sample, make_review_card

if TYPE_CHECKING:
    from hotdesk.swarm.run import SwarmRun

CERTIFICATE, RECORDS, RESULTS, PAGE = "swarm-certificate.json", "records.jsonl", "results.zip", "swarm.html"
"""Files that a swarm leaves in the drive beside its report: certificate, item records, deliverables, page."""
_ONE_DAY = (1980, 1, 1, 0, 0, 0)
"""The timestamp of every file in the archive, so that the same results give the same bytes."""


@dataclass(frozen=True, slots=True)
class SwarmEnding:
    """The last phase of one swarm."""

    run: SwarmRun

    def require_enough(self) -> None:
        """Raise `JobHaltedError` when more items are in quarantine than the brief allows."""
        state, share = self.run.state, self.run.each.quarantine
        failed, total = len(state.quarantined), len(self.run.items)
        if failed == total:
            why = state.quarantined[0].why
            raise JobHaltedError(
                f"no item passed; cause of the first failure: {why}. Correct it, then run "
                f"`hotdesk resume {self.run.id} --retry-failed`"
            )
        if failed > share * total and not self.run.context.accept_failed:
            causes = "; ".join(f"{why} ({count})" for _, why, count in state.group_failures()[:3])
            raise JobHaltedError(
                f"{failed} of {total} items failed, more than the {share:.0%} that the brief allows; causes (with the "
                f"number of items): {causes}. Run `hotdesk resume {self.run.id} --retry-failed`, or with "
                "--accept-failed to continue without these items"
            )

    async def review(self) -> None:
        """Have a person compare a random sample with its sources. The certificate records the verdicts."""
        paths = {item.key: item.place or f"{self.run.each.over}: {item.key}" for item in self.run.items}
        for record in choose_sample(self.run.state.items.values(), self.run.context.review, self.run.id):
            if record.item in self.run.state.reviews:
                continue
            files = {path: self.run.papers.read(name) for path, name in zip(record.paths, record.files, strict=True)}
            card = make_review_card(record, paths[record.item], files)
            decided = await self.run.line.plans.people.decide("review", card, record.item)
            if decided.answer in ("approved", "refused"):
                verdict: Literal["right", "wrong"] = "right" if decided.answer == "approved" else "wrong"
                self.run.note(ItemReviewed(self.run.id, record.item, verdict, decided.by))

    async def reduce(self) -> None:
        if self.run.brief.reduce is None or self.run.state.reduced is not None:
            return
        context, papers = self.run.context, self.run.papers
        report = ReportJob(context.order, self.run.brief, papers, context.brains, self.measure_rest, self.run.note)
        self.run.note(await report.build(self.run.state.list_in_order(), self.run.state.reduce))
        self.run.count_reports()  # items may be added that were offered meanwhile

    def measure_rest(self, job: str) -> JobBudget:
        """Return what is left of the swarm's budget for a job that builds its report."""
        self.run.count_reports(besides=job)
        total, use = self.run.brief.budget, self.run.ledger.measure_use
        return JobBudget(
            tokens=None if total.tokens is None else max(1, total.tokens - int(use("tokens"))),
            dollars=None if total.dollars is None else max(0.01, total.dollars - use("dollars")),
            acts=None if total.acts is None else max(1, total.acts - int(use("acts"))),
        )

    def certify(self) -> None:
        certificate = self.run.machine.certify_swarm(self.run.id)
        self.run.state = read_state(self.run.context.order.journal, self.run.id)
        records = self.run.state.list_in_order()
        self.keep(RECORDS, b"".join(encode_record(each) + b"\n" for each in records))
        self.keep(RESULTS, self.pack(records))
        self.keep(PAGE, self.draw_page())
        self.keep(CERTIFICATE, certificate)

    def draw_page(self) -> bytes:
        texts = {each.item: self.quote(each) for each in choose_quoted(self.run.state)}
        return make_page(self.run.id, self.run.brief.goal, self.run.state, texts)

    def quote(self, record: ItemEnded) -> str:
        """Return the failures of an item's attempts, followed by the start of each file it delivered."""
        attempts = json.loads(self.run.papers.read(record.paper))["attempts"] if record.paper else []
        failures = [str(each["failure"]) for each in attempts if each["failure"]]
        files = (self.run.papers.read(name)[:4000].decode("utf-8", "replace") for name in record.files)
        return "\n".join([*failures, *files])

    def pack(self, records: Sequence[ItemEnded]) -> bytes:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for each in records:
                for path, name in zip(each.paths, each.files, strict=True):
                    if each.outcome == "done":
                        archive.writestr(zipfile.ZipInfo(path, _ONE_DAY), self.run.papers.read(name))
        return packed.getvalue()

    def keep(self, name: str, data: bytes) -> None:
        """Keep a file in the drive. The event is on disk before the name appears."""

        def intent(version: Version) -> None:
            event = Kept(self.run.id, name, version.sha256, version.size, version.number)
            self.run.machine.note(event)
            self.run.line.past.stored[name] = event
            self.run.context.order.listener(event)

        drive, brief, job = self.run.line.drive, self.run.brief.digest, self.run.id
        drive.keep(f"{job}/{name}", data, owner=get_current_user(), job=job, brief=brief, intent=intent)
