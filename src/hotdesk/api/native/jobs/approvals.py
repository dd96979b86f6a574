"""What waits for people, of jobs and at doors; and what they say."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import anyio
from fastapi import APIRouter, Path
from pydantic import Field

from hotdesk.api.native.access.auth import ForApproval, RequestContext
from hotdesk.api.native.problems import Problem, documented
from hotdesk.api.native.schema import After, Limit, Model, Page, clean, paged
from hotdesk.brief.names import registrable
from hotdesk.errors import BriefError, HotdeskError
from hotdesk.event import Asked as Question
from hotdesk.job.people import questions
from hotdesk.job.people.draft import as_draft, from_draft
from hotdesk.job.people.wait import MAX_QUOTE_CHARS
from hotdesk.job.record.decisions import PLANS, Answer, OpenDecision, case_of, decided, require_first
from hotdesk.job.record.summary import JobSummary

router = APIRouter(prefix="/approvals", tags=["approvals"], responses=documented(409))
LONGEST = 64 << 10
ApprovalId = Annotated[str, Path(pattern="^[A-Za-z0-9]{1,64}$")]


class StepInWords(Model):
    """One step of a plan."""

    name: str
    points: list[str] = Field(description="What it reaches, uses, reads and makes, a sentence each.")


class CardShown(Model):
    """What a person is shown: facts worked out here first, the worker's or the desk's words last."""

    title: str
    stakes: list[str] = Field(default=[], description="What is at stake, a sentence each.")
    steps: list[StepInWords] = Field(default=[], description="The steps of a plan, in words.")
    facts: dict[str, str]
    lines: list[str]
    words: str = Field(description="Untrusted.")
    subject: str = Field(description="What is decided, whole; its SHA-256 is the digest.")


class Approval(Model):
    """Something that waits for a person."""

    id: str
    kind: str = Field(description="plan, step, amendment, repeat, question, door")
    job: str | None
    task: str
    desk: str | None
    card: CardShown | None = Field(description="Null: it is gone or was changed; then it can only be refused.")
    plan_text: str = Field(description="Of a plan: as TOML, to be edited.")
    digest: str
    asked: float | None
    until: float
    by: str = Field(description="Who asked for the job.")


class Decision(Model):
    """What a person says, to exactly what they were shown."""

    answer: Literal["approve", "refuse", "answer", "edit"]
    words: Annotated[str, Field(max_length=LONGEST)] = ""
    plan: Annotated[str, Field(max_length=1 << 20, description="With `edit`: the plan, as TOML.")] = ""
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Settled(Model):
    """What was decided."""

    id: str
    answer: str
    by: str
    digest: str


@router.get("", summary="What waits for people")
async def list_approvals(asked: ForApproval, limit: Limit = 100, after: After = "") -> Page[Approval]:
    """List what waits, of jobs and of doors, the most urgent first."""
    found = [*await cases(asked), *await at_doors(asked)]
    some, more = paged(sorted(found, key=lambda each: (each.until, each.id)), lambda each: each.id, limit, after)
    return Page(items=some, next=more)


@router.post("/{id}", summary="Decide")
async def decide(asked: ForApproval, id: ApprovalId, told: Decision) -> Settled:
    """Say yes, no, or what was asked for; to exactly what the digest names, once."""
    for tale in (await asked.ledger.known()).values():
        if (pending := tale.waiting.pending.get(id)) is not None:
            case = await anyio.to_thread.run_sync(case_of, asked.tenant.settings, tale.waiting, pending)
            return await settle(asked, tale, case, told)
    return await answer_door(asked, id, told)


async def cases(asked: RequestContext) -> list[Approval]:
    """Give what jobs wait for."""
    now = int(time.time() * 1000)
    found = []
    for tale in (await asked.ledger.known()).values():
        for pending in tale.waiting.open if tale.ended is None else ():
            if pending.until > now:
                case = await anyio.to_thread.run_sync(case_of, asked.tenant.settings, tale.waiting, pending)
                found.append(of_case(asked, tale, case))
    return found


def of_case(asked: RequestContext, tale: JobSummary, case: OpenDecision) -> Approval:
    """Tell of what a job waits for."""
    pending, card = case.pending, case.card
    return Approval(
        id=pending.id, kind=pending.kind, job=pending.job, task=clean(tale.goal), desk=None, card=shown(case),
        plan_text=draft(card.subject) if card is not None and pending.kind in PLANS else "", digest=pending.digest,
        asked=None, until=pending.until / 1000, by=requester(asked, tale),
    )  # fmt: skip


def requester(asked: RequestContext, tale: JobSummary) -> str:
    """Name who asked for a job."""
    request = asked.native.jobs.requests(asked.tenant.name, asked.tenant.settings).get(tale.job)
    return request.by if request is not None else tale.by


def require_other(asked: RequestContext, tale: JobSummary) -> None:
    """Refuse whoever asked for a job, where somebody else has to decide."""
    if not asked.native.serving.requester_may_approve and requester(asked, tale) == asked.caller.name:
        raise Problem(403, "approval.requester", "who asked for a job does not approve it here; somebody else has to")


def shown(case: OpenDecision) -> CardShown | None:
    """Give a card as it is shown."""
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
    """Write a plan for an editor; nothing where it is none."""
    try:
        return clean(as_draft(subject))
    except HotdeskError:
        return ""


async def settle(asked: RequestContext, tale: JobSummary, case: OpenDecision, told: Decision) -> Settled:
    """Decide what a job waits for, if nobody was first."""
    require_other(asked, tale)
    answer = meant(case, told)
    edited = from_draft(told.plan) if told.answer == "edit" else ""
    try:
        case.require_open(told.digest)
    except BriefError as e:
        raise Problem(409, "approval.closed", str(e)) from None
    words = told.words.strip() if told.answer in ("answer", "refuse") else ""
    made = await anyio.to_thread.run_sync(decided, case, answer, asked.by, edited, words)
    await anyio.to_thread.run_sync(asked.tenant.host.note, made)
    try:
        await anyio.to_thread.run_sync(require_first, asked.tenant.settings, made)
    except BriefError as e:
        raise Problem(409, "approval.closed", str(e)) from None
    return Settled(id=made.id, answer=made.answer, by=made.by, digest=made.digest)


def meant(case: OpenDecision, told: Decision) -> Answer:
    """Say what an answer means for what waits; a question takes words, anything else yes or no."""
    kind = case.pending.kind
    match told.answer:
        case "refuse":
            return "refused"
        case "answer" if kind == "question" and told.words.strip():
            return "answered"
        case "approve" if kind != "question":
            return "approved"
        case "edit" if kind in PLANS and told.plan.strip():
            return "approved"
    takes = "`answer` with words" if kind == "question" else "`approve` or `refuse`; a plan `edit` with a plan, too"
    raise Problem(400, "approval.kind", f"{case.pending.id} is a {kind}: it takes {takes}")


async def at_doors(asked: RequestContext) -> list[Approval]:
    """Give what desks ask for at their doors."""
    tales = (await asked.ledger.known()).values()
    jobs = {desk: tale for tale in tales for desk in tale.desks}
    waiting = await questions.everything(asked.tenant.settings)
    return [of_question(asked, each.asked, jobs.get(each.asked.desk)) for each in waiting]


def of_question(asked: RequestContext, question: Question, tale: JobSummary | None) -> Approval:
    """Tell of what a desk asks for."""
    size = {} if question.size == -1 else {"bytes": str(question.size) if question.size >= 0 else "it does not say"}
    place = {"domain": registrable(question.host), "host": question.host}
    facts = {**place, "method": question.method, "path": question.path, **size, "adds": question.rule}
    card = CardShown(
        title="Let this out?", facts={name: clean(value) for name, value in facts.items()}, lines=[],
        words=clean(question.reason[:MAX_QUOTE_CHARS]), subject=clean(question.rule),
    )  # fmt: skip
    return Approval(
        id=question.id, kind="door", job=tale.job if tale is not None else None,
        task=clean(tale.goal) if tale is not None else "", desk=question.desk, card=card, plan_text="",
        digest=question.digest, asked=None, until=time.time() + question.seconds,
        by=requester(asked, tale) if tale is not None else "",
    )  # fmt: skip


async def answer_door(asked: RequestContext, number: str, told: Decision) -> Settled:
    """Answer what a desk asks for, at its owner."""
    if told.answer not in ("approve", "refuse"):
        raise Problem(400, "approval.kind", f"nothing waits under {number}, or it takes `approve` or `refuse` only")
    found = [each for each in await questions.everything(asked.tenant.settings) if each.asked.id == number]
    if not found:
        raise Problem(404, "approval.missing", f"nothing waits under {number}; GET /approvals lists what does")
    try:
        waiting = questions.chosen(found, number, told.digest)
    except BriefError as e:
        raise Problem(409, "approval.closed", str(e)) from None
    tale = next((each for each in (await asked.ledger.known()).values() if waiting.asked.desk in each.desks), None)
    if tale is not None:
        require_other(asked, tale)
    done = await questions.answer(waiting, told.answer == "approve", asked.by)
    answer = "approved" if told.answer == "approve" else "refused"
    return Settled(id=done.id, answer=answer, by=asked.by, digest=done.digest)
