"""A receipt as text: files, checks, network use, costs, leftovers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hotdesk.drive.certificate import SUFFIX
from hotdesk.errors import make_printable
from hotdesk.event import Certified, Kept
from hotdesk.job.event_text import describe_alarm
from hotdesk.job.format import format_cost, format_count, format_duration, format_size
from hotdesk.job.record.door_activity import UNAPPROVED
from hotdesk.job.record.progress import ModelCost, StepProgress
from hotdesk.job.record.receipt import Receipt, Requests

MAX_LINES = 20
"""Maximum lines of one kind of request: a desk may try any number of hosts."""


def format_receipt(receipt: Receipt) -> list[str]:
    why = f", {receipt.why}" if receipt.why else ""
    lines = [f"receipt of job {receipt.job}: {receipt.outcome}{why}"]
    lines += (
        f"  {word:8} {text}"
        for word, text in (
            *_list_results(receipt),
            *_list_door_traffic(receipt),
            *_list_expenses(receipt),
            *_list_leftovers(receipt),
        )
    )
    return [make_printable(line) for line in lines]


def _list_results(receipt: Receipt) -> Iterator[tuple[str, str]]:
    for item in receipt.kept:
        yield "kept", f"{item.path}, {item.size} bytes, sha256 {item.sha256}"
        yield "proof", describe_certificate(item, receipt.certified)
    for check in receipt.checks:
        yield "checked", f"{check.path} by {check.check}: {check.outcome}"


def describe_certificate(stored: Kept, certified: Sequence[Certified]) -> str:
    found = [each for each in certified if (each.path, each.sha256) == (stored.path, stored.sha256)]
    if not found:
        return f"{stored.path} has no certificate: its brief requires no check"
    return f"{stored.path}{SUFFIX}, sha256 {found[-1].certificate}"


def _list_door_traffic(receipt: Receipt) -> Iterator[tuple[str, str]]:
    """Format the network use: admitted requests, refused requests, alarms."""
    refused = [each for each in receipt.requests if each.verdict in ("deny", "broken", UNAPPROVED)]
    yield from _list_requests("door", [each for each in receipt.requests if each not in refused], receipt.job)
    yield from _list_requests("refused", refused, receipt.job)
    for alarm in receipt.alarms[:MAX_LINES]:
        yield "ALARM", describe_alarm(alarm)


def _list_requests(word: str, requests: list[Requests], job: str) -> Iterator[tuple[str, str]]:
    shown = requests if len(requests) <= MAX_LINES else sorted(requests, key=lambda each: -each.count)[:MAX_LINES]
    for each in shown:
        grants = f" with {', '.join(each.grants)}" if each.grants else ""
        yield word, f"{each.count} x {each.verdict} {each.method[:40]} {each.host[:253]}{grants}"
    if rest := len(requests) - len(shown):
        yield word, f"and {rest:,} more kinds of requests; `hotdesk show {job} --door` lists all"


def _list_expenses(receipt: Receipt) -> Iterator[tuple[str, str]]:
    """Format the cost: brain, money, steps, time."""
    if receipt.brain:
        yield "brain", receipt.brain
    for cost in receipt.costs:
        yield "cost", _describe_cost(cost)
    for step in receipt.steps:
        yield "step", describe_step(step)
    if receipt.seconds:
        yield "time", f"{format_duration(receipt.seconds)}, {format_count(receipt.acts, 'act')}"
    for act in receipt.unknown:
        yield "unknown", f"act {act} was started, but its outcome was not recorded"


def _describe_cost(cost: ModelCost) -> str:
    part = {"plan": "planning", "act": "acting", "look": "looking at pictures"}[cost.part]
    cached = f" ({cost.cached:,} more from the provider's cache)" if cost.cached else ""
    read = f"{cost.read:,} tokens read{cached}, {cost.output:,} written"
    sent = f"{format_count(cost.replies, 'reply')}, {format_size(cost.up)} sent to its provider"
    return f"{part}, {cost.model}: {format_cost([cost])}; {read}; {sent}"


def describe_step(step: StepProgress) -> str:
    outcome = (
        "not started" if not step.attempts else "interrupted" if step.stand in ("to come", "current") else step.stand
    )
    attempts = f" at attempt {step.attempts}" if step.attempts > 1 else ""
    back = f", rolled back {format_count(step.rolled_back, 'time')}" if step.rolled_back else ""
    time = f", {format_duration(step.seconds)}, {format_count(step.acts, 'act')}" if step.attempts else ""
    return f"{step.name}: {outcome}{attempts}{back}{time}"


def _list_leftovers(receipt: Receipt) -> Iterator[tuple[str, str]]:
    for desk in receipt.burnt:
        yield "burnt", f"desk {desk}"
    for desk in receipt.left:
        yield "LEFT", f"desk {desk} is still open; end it with `hotdesk burn {desk}`"
    for wall in dict.fromkeys(each.describe() for each in receipt.walls.values()):
        desks = [desk for desk, each in receipt.walls.items() if each.describe() == wall]
        yield "wall", f"{wall}, used by {format_count(len(desks), 'desk')}: {', '.join(desks[:MAX_LINES])}"
    if receipt.cleanup is None:
        return
    for each in receipt.cleanup.destroyed:
        if not any(desk in each for desk in receipt.burnt):
            yield "destroyed:", each
    for each in receipt.cleanup.kept:
        yield "kept on purpose:", each
    for each in receipt.cleanup.left:
        if not any(desk in each for desk in receipt.left):
            yield "LEFT BEHIND:", each
    if not receipt.left and not receipt.cleanup.left:
        yield "left behind:", "nothing"
