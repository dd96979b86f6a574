"""The receipt of a swarm, folded from its events."""

from __future__ import annotations

from hotdesk.dataclass import dataclass
from hotdesk.job.record.receipt import Receipt
from hotdesk.job.record.summary import Outcome
from hotdesk.swarm.results import SwarmState


@dataclass(frozen=True, slots=True)
class SwarmReceipt:
    """The outcome of one swarm, over or paused."""

    job: str
    outcome: Outcome
    why: str
    items: int
    done: int
    quarantined: int
    failures: tuple[tuple[str, str, int], ...]
    """Items in quarantine, grouped: the cause, the reason, the number of items."""
    seconds: float
    tokens: int
    dollars: float
    acts: int
    root: str
    """Root of the signed hash tree over all records. Empty: nothing was signed."""
    report: str
    """The id of the job that built the report. Empty: there is none."""
    reports: tuple[str, ...]
    """Paths of the report's files."""


def make_receipt(receipt: Receipt, state: SwarmState) -> SwarmReceipt:
    cost = state.cost
    return SwarmReceipt(
        job=receipt.job,
        outcome=receipt.outcome,
        why=receipt.why,
        items=state.begun.items if state.begun is not None else 0,
        done=state.done,
        quarantined=len(state.quarantined),
        failures=tuple(state.group_failures()),
        seconds=receipt.seconds,
        tokens=cost.tokens,
        dollars=cost.dollars,
        acts=cost.acts,
        root=state.certified.root if state.certified is not None else "",
        report=state.reduced.reduce if state.reduced is not None else "",
        reports=state.reduced.paths if state.reduced is not None else (),
    )
