"""A job as a page of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from hotdesk.cli.board.receipt import describe_certificate
from hotdesk.cli.jobs.jobs import cut
from hotdesk.cli.machine.journal import format_moment
from hotdesk.errors import make_printable
from hotdesk.event import Exchange, Kept
from hotdesk.job.format import format_size
from hotdesk.job.people.approval_text import KINDS, describe_deadline
from hotdesk.job.record.door_activity import DoorActivity, count_requests
from hotdesk.job.record.progress import StepProgress, step_dict
from hotdesk.job.record.summary import JobSummary

MARKS = {"": " ", "begun": ">", "done": "x", "failed": "!"}
MAX_CHARS = 200
REFUSED = 20
"""Maximum refused requests that are listed."""


def format_page(
    summary: JobSummary,
    state: tuple[str, str],
    door: DoorActivity,
    intents: Mapping[str, str],
    now: int,
) -> list[str]:
    """Format a job as lines without control characters."""
    parts = [
        describe_job(summary, state),
        _format_checklist(summary, intents),
        [*_format_decisions(summary, now), *format_questions(door)],
        _format_exchanges(door.exchanges),
        [f"  {each.outcome:8}{each.path} by {each.check}: {'; '.join(each.findings)}" for each in summary.checks],
        [line for each in summary.kept for line in _describe_stored(each, summary)],
        _format_burn_receipt(summary),
    ]
    titles = ("", "plan", "approvals and questions", "door", "checks", "kept", "receipt")
    lines: list[str] = []
    for title, part in zip(titles, parts, strict=True):
        lines += [*(["", title] if title and part else []), *part]
    return [make_printable(line) for line in lines]


def _describe_stored(stored: Kept, summary: JobSummary) -> list[str]:
    line = f"  {stored.path}, version {stored.version}, {stored.size} bytes, sha256 {stored.sha256}"
    return [line, f"    {describe_certificate(stored, summary.certified)}"]


def describe_job(summary: JobSummary, state: tuple[str, str]) -> list[str]:
    how, why = state
    status = f"waiting for {why}" if how == "waiting" else f"{how}: {cut(why, MAX_CHARS)}" if why else how
    took, acts, cost = (summary.over or summary.last) - summary.begun, summary.course.acts, summary.cost
    cached = f" ({cost.cached:,} more from the provider's cache)" if cost.cached else ""
    facts = {
        "goal": cut(summary.goal, MAX_CHARS),
        "begun": f"{format_moment(summary.begun)}{f' by {summary.by}' if summary.by else ''}",
        "brain": summary.brain,
        "took": f"{format_duration(took / 1000)}, {acts} acts, {cost.replies} model replies",
        "spent": f"{cost}; {cost.read:,} tokens read{cached}, {cost.output:,} written; "
        f"{format_size(cost.up)} sent to providers",
        "resumed": f"{summary.resumed} time{'s' if summary.resumed > 1 else ''}" if summary.resumed else "",
        "preflight": "" if summary.preflight is None else _describe_preflight(summary),
        "stored data": _describe_forgetting(summary),
        "not read": f"{summary.strange} events, written by a newer version of hotdesk" if summary.strange else "",
    }
    return [f"job {summary.job}  {status}", *(f"  {name:12}{value}" for name, value in facts.items() if value)]


def _describe_preflight(summary: JobSummary) -> str:
    assert summary.preflight is not None
    failed = f", FAILED: {'; '.join(summary.preflight.failed)}" if summary.preflight.failed else ""
    return f"{len(summary.preflight.held)} passed{failed}"


def _describe_forgetting(summary: JobSummary) -> str:
    if summary.forgotten is None:
        return ""
    return f"deleted by {summary.forgotten.by}{f': {summary.forgotten.why}' if summary.forgotten.why else ''}"


def _format_checklist(summary: JobSummary, intents: Mapping[str, str]) -> list[str]:
    lines = [f"  digest {summary.plan[:16]}"] if summary.plan else []
    for number, step in enumerate(summary.list_steps(), 1):
        intent = cut(step.what or intents.get(step.name, ""), MAX_CHARS)
        lines.append(f"  [{MARKS[step.outcome]}] {number} {step.name}: {intent}".rstrip(": "))
        if step.tries:
            lines.append(f"        {_describe_effort(step)}")
        lines += [
            f"        attempt {place} failed{', rolled back' if each.rolled_back else ''}: {cut(each.note, MAX_CHARS)}"
            for place, each in enumerate(step.tries, 1)
            if each.outcome == "failed"
        ]
        if step.unknown:
            lines.append(f"        OUTCOME UNKNOWN of acts {', '.join(map(str, sorted(step.unknown)))}")
    return lines


def _describe_effort(step: StepProgress) -> str:
    count, tools = len(step.tries), ", ".join(f"{count} x {tool}" for tool, count in step.tools.most_common())
    failed = f"; {step.failed} failed" if step.failed else ""
    models = ", ".join(dict.fromkeys(each.model for each in step.tries if each.model))
    parts = [
        f"{count} attempt{'s' if count > 1 else ''}",
        f"{step.acts} acts" + (f" ({tools}{failed})" if tools else ""),
        format_duration(step.seconds),
        models,
        str(step.cost) if step.cost.replies else "",
    ]
    return ", ".join(part for part in parts if part)


def _format_decisions(summary: JobSummary, now: int) -> list[str]:
    lines = []
    for number, (kind, step) in summary.waiting.history.items():
        decided = summary.waiting.decided.get(number)
        of = f"{KINDS[kind]}{f' in {step}' if step else ''}"
        if decided is not None:
            by, at = f" by {decided.by}" if decided.by else "", format_moment(summary.waiting.decided_at[number])
            lines.append(f"  {number}  {of}: {decided.answer}{by} at {at}, digest {decided.digest[:16]}")
        elif number in summary.waiting.pending:
            lines.append(f"  {number}  {of}: WAITS, {describe_deadline(summary.waiting.pending[number], now)}")
        else:
            lines.append(f"  {number}  {of}: not decided")
    return lines


def format_questions(door: DoorActivity) -> list[str]:
    lines = []
    for _, each, answer in door.questions:
        outcome = "not decided" if answer is None else f"{answer.answer}{f' by {answer.by}' if answer.by else ''}"
        lines.append(
            f"  {each.id}  {each.method} {each.host}{cut(each.path, MAX_CHARS)}: {outcome}, digest {each.digest[:16]}"
        )
    return lines


def _format_exchanges(exchanges: Sequence[Exchange]) -> list[str]:
    """Count the requests by kind, and list the refused ones."""
    lines = []
    for (verdict, method, host, grants), count in count_requests(exchanges):
        lines.append(f"  {count} x {verdict} {method} {host}{' with ' * bool(grants)}{', '.join(grants)}")
    refused = [each for each in exchanges if each.refused]
    for each in refused[:REFUSED]:
        lines.append(f"  refused {each.method} {each.host}{cut(each.path, MAX_CHARS)}: {each.rule}")
    rest = len(refused) - REFUSED
    return [*lines, f"  … and {rest} more refusals: see --door"] if rest > 0 else lines


def _format_burn_receipt(summary: JobSummary) -> list[str]:
    if summary.receipt is None:
        return []
    lines = [f"  destroyed  {each}" for each in summary.receipt.destroyed]
    lines += [f"  kept       {each}" for each in summary.receipt.kept]
    return [*lines, *(f"  LEFT       {each}" for each in summary.receipt.left)]


def format_duration(seconds: float) -> str:
    if seconds < 120:
        return f"{max(seconds, 0.0):.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def as_dict(summary: JobSummary, state: tuple[str, str], exchanges: Sequence[Exchange]) -> dict[str, object]:
    fields = asdict(summary)
    waiting = fields.pop("waiting")
    del fields["course"]
    return {
        **fields,
        "checking": sorted(summary.checking),
        "state": state[0],
        "why": state[1],
        "cost": asdict(summary.cost),
        "steps": [step_dict(step) for step in summary.list_steps()],
        "desks": list(summary.desks),
        "pending": [asdict(each) for each in summary.waiting.open],
        "decided": list(waiting["decided"].values()),
        "door": [asdict(each) for each in exchanges],
    }
