"""Open questions of jobs and doors, and the answers people give."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import anyio
from fastapi import APIRouter, Path
from pydantic import Field

from hotdesk.api.native.access.auth import ForApproval, RequestContext
from hotdesk.api.native.jobs.views import get_task
from hotdesk.api.native.problems import ProblemError, document_errors
from hotdesk.api.native.schema import After, Limit, Model, Page, clean, paginate
from hotdesk.brief.names import get_registrable_domain
from hotdesk.errors import BriefError, HotdeskError
from hotdesk.event import Asked as Question
from hotdesk.job.people import questions
from hotdesk.job.people.draft import as_draft, from_draft
from hotdesk.job.people.wait import MAX_QUOTE_CHARS
from hotdesk.job.record.decisions import PLANS, Answer, OpenDecision, load_decision, make_decision, require_first
from hotdesk.job.record.summary import JobSummary

router = APIRouter(prefix="/approvals", tags=["approvals"], responses=document_errors(409))
MAX_TEXT_CHARS = 64 << 10
_ApprovalId = Annotated[str, Path(pattern="^[A-Za-z0-9]{1,64}$")]


class StepInWords(Model):
    """One step of a plan."""

    name: str
    points: list[str] = Field(description="The hosts, secrets and files that the step uses, one sentence each.")


class CardShown(Model):
    """The approval card: facts that the server worked out first, the worker's or the desk's words last."""

    title: str
    stakes: list[str] = Field(default=[], description="What is at stake, one sentence each.")
    steps: list[StepInWords] = Field(default=[], description="The steps of a plan, in words.")
    facts: dict[str, str]
    lines: list[str]
    words: str = Field(description="Untrusted.")
    subject: str = Field(description="The full text that the decision applies to; `digest` is its SHA-256.")


class Approval(Model):
    """A request that waits for a person's decision."""

    id: str
    kind: str = Field(
        description="What to decide: `plan`, `step`, `amendment` (a change of the plan), `repeat` (an act with an "
        "unknown outcome), `question`, `pilot` (the first items of a swarm), `cohort` (one request that many items "
        "make), `review` (an item's result) or `door` (a request to a host)."
    )
    job: str | None
    task: str
    desk: str | None
    card: CardShown | None = Field(
        description="Null: the text to decide on is missing or was changed, so the only possible decision is `refuse`."
    )
    plan_text: str = Field(description="For a plan: the plan as TOML, for editing.")
    digest: str
    asked: float | None
    until: float
    by: str = Field(description="Who requested the job.")


class Decision(Model):
    """A decision. The digest ties it to exactly what the person was shown."""

    answer: Literal["approve", "refuse", "answer", "edit"]
    words: Annotated[str, Field(max_length=MAX_TEXT_CHARS)] = ""
    plan: Annotated[str, Field(max_length=1 << 20, description="With `edit`: the plan, as TOML.")] = ""
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Settled(Model):
    """The decision that was recorded."""

    id: str
    answer: str
    by: str
    digest: str


@router.get("", summary="Pending approvals")
async def list_approvals(context: ForApproval, limit: Limit = 100, after: After = "") -> Page[Approval]:
    """List pending approvals of jobs and doors, the most urgent first."""
    found = [*await list_cases(context), *await _list_door_approvals(context)]
    some, more = paginate(sorted(found, key=lambda each: (each.until, each.id)), lambda each: each.id, limit, after)
    return Page(items=some, next=more)


@router.post("/{id}", summary="Decide")
async def decide(context: ForApproval, id: _ApprovalId, decision: Decision) -> Settled:
    """Approve, refuse, edit or answer a pending approval, once. The digest must match what is pending."""
    for summary in (await context.ledger.read_summaries()).values():
        if (pending := summary.waiting.pending.get(id)) is not None:
            case = await anyio.to_thread.run_sync(load_decision, context.tenant.settings, summary.waiting, pending)
            return await settle(context, summary, case, decision)
    return await _answer_door(context, id, decision)


async def list_cases(context: RequestContext) -> list[Approval]:
    now = int(time.time() * 1000)
    found = []
    for summary in (await context.ledger.read_summaries()).values():
        for pending in summary.waiting.open if summary.ended is None else ():
            if pending.until > now:
                case = await anyio.to_thread.run_sync(load_decision, context.tenant.settings, summary.waiting, pending)
                found.append(_of_case(context, summary, case))
    return found


def _of_case(context: RequestContext, summary: JobSummary, case: OpenDecision) -> Approval:
    pending, card = case.pending, case.card
    return Approval(
        id=pending.id, kind=pending.kind, job=pending.job, desk=None, card=format_card(case),
        task=get_task(context, summary),
        plan_text=draft(card.subject) if card is not None and pending.kind in PLANS else "", digest=pending.digest,
        asked=None, until=pending.until / 1000, by=_get_requester(context, summary),
    )  # fmt: skip


def _get_requester(context: RequestContext, summary: JobSummary) -> str:
    request = context.native.jobs.read_requests(context.tenant.name, context.tenant.settings).get(summary.job)
    return request.by if request is not None else summary.by


def require_other(context: RequestContext, summary: JobSummary) -> None:
    if not context.native.serving.requester_may_approve and _get_requester(context, summary) == context.caller.name:
        raise ProblemError(
            403,
            "approval.requester",
            "you requested this job, so another person must approve it (`[serve] requester_may_approve` is off)",
        )


def format_card(case: OpenDecision) -> CardShown | None:
    if (card := case.card) is None:
        return None
    facts = {clean(name): clean(value) for name, value in card.facts.items()}
    lines = [clean(each) for each in card.lines]
    return CardShown(
        title=card.title, facts=facts, lines=lines, words=clean(card.words), subject=clean(card.subject),
        stakes=[clean(each) for each in card.stakes],
        steps=[StepInWords(name=clean(name), points=[clean(each) for each in points]) for name, *points in card.steps],
    )  # fmt: skip


def draft(subject: str) -> str:
    """Format a plan for an editor; empty if the subject is not a plan."""
    try:
        return clean(as_draft(subject))
    except HotdeskError:
        return ""


async def settle(context: RequestContext, summary: JobSummary, case: OpenDecision, decision: Decision) -> Settled:
    require_other(context, summary)
    answer = _interpret_decision(case, decision)
    edited = from_draft(decision.plan) if decision.answer == "edit" else ""
    try:
        case.require_open(decision.digest)
    except BriefError as e:
        raise ProblemError(409, "approval.closed", str(e)) from None
    words = decision.words.strip() if decision.answer in ("answer", "refuse") else ""
    event = await anyio.to_thread.run_sync(make_decision, case, answer, context.by, edited, words)
    await anyio.to_thread.run_sync(context.tenant.host.note, event)
    try:
        await anyio.to_thread.run_sync(require_first, context.tenant.settings, event)
    except BriefError as e:
        raise ProblemError(409, "approval.closed", str(e)) from None
    return Settled(id=event.id, answer=event.answer, by=event.by, digest=event.digest)


def _interpret_decision(case: OpenDecision, decision: Decision) -> Answer:
    """Return the answer to record for a decision; a question takes a text, anything else yes or no."""
    kind = case.pending.kind
    match decision.answer:
        case "refuse":
            return "refused"
        case "answer" if kind == "question" and decision.words.strip():
            return "answered"
        case "approve" if kind != "question":
            return "approved"
        case "edit" if kind in PLANS and decision.plan.strip():
            return "approved"
    takes = (
        '"answer" with a text in `words`, or "refuse"'
        if kind == "question"
        else '"approve" or "refuse"; for a plan also "edit" with the plan in `plan`'
    )
    raise ProblemError(400, "approval.kind", f"for approval {case.pending.id} ({kind}), `answer` must be {takes}")


async def _list_door_approvals(context: RequestContext) -> list[Approval]:
    summaries = (await context.ledger.read_summaries()).values()
    jobs = {desk: summary for summary in summaries for desk in summary.desks}
    waiting = await questions.ask_all_owners(context.tenant.settings)
    return [_of_question(context, each.question, jobs.get(each.question.desk)) for each in waiting]


def _of_question(context: RequestContext, question: Question, summary: JobSummary | None) -> Approval:
    size = {} if question.size == -1 else {"bytes": str(question.size) if question.size >= 0 else "not stated"}
    place = {"domain": get_registrable_domain(question.host), "host": question.host}
    facts = {**place, "method": question.method, "path": question.path, **size, "adds": question.rule}
    card = CardShown(
        title="Let this out?", facts={name: clean(value) for name, value in facts.items()}, lines=[],
        words=clean(question.reason[:MAX_QUOTE_CHARS]), subject=clean(question.rule),
    )  # fmt: skip
    return Approval(
        id=question.id, kind="door", job=summary.job if summary is not None else None,
        task=get_task(context, summary) if summary is not None else "", desk=question.desk, card=card, plan_text="",
        digest=question.digest, asked=None, until=time.time() + question.seconds,
        by=_get_requester(context, summary) if summary is not None else "",
    )  # fmt: skip


async def _answer_door(context: RequestContext, number: str, decision: Decision) -> Settled:
    if decision.answer not in ("approve", "refuse"):
        raise ProblemError(
            400,
            "approval.kind",
            f"approval {number} is either not pending, or a request at the door, for which `answer` must be "
            '"approve" or "refuse"; GET /approvals lists the pending ones',
        )
    found = [each for each in await questions.ask_all_owners(context.tenant.settings) if each.question.id == number]
    if not found:
        raise ProblemError(
            404, "approval.missing", f"no approval {number} is pending; GET /approvals lists the pending ones"
        )
    try:
        waiting = questions.select_question(found, number, decision.digest)
    except BriefError as e:
        raise ProblemError(409, "approval.closed", str(e)) from None
    summary = next(
        (each for each in (await context.ledger.read_summaries()).values() if waiting.question.desk in each.desks), None
    )
    if summary is not None:
        require_other(context, summary)
    done = await questions.answer(waiting, decision.answer == "approve", context.by)
    answer = "approved" if decision.answer == "approve" else "refused"
    return Settled(id=done.id, answer=answer, by=context.by, digest=done.digest)
