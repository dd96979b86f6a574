"""The plan of one job: written, checked, approved and amended. The job's permissions are derived from it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import field, replace
from itertools import takewhile

from hotdesk.brain.amendments import (
    Amendment,
    amend,
    decide_amendment,
    describe_difference,
    read_amendment,
    widen_scope,
)
from hotdesk.brain.permits import (
    choose_wall,
    compile_scope,
    find_first_step,
    find_steps,
    has_memory,
    is_risky,
    list_job_tools,
    matches,
    needs_fresh,
    select_grants,
)
from hotdesk.brain.plan_audit import audit, audit_wall, says_nothing
from hotdesk.brain.seam import Brain, PlanningError, PlanningTask
from hotdesk.brief import CLOSED, READ, Scope, grant_text, parse_rule, rule_text
from hotdesk.brief.brief import Brief
from hotdesk.checks.required import describe_deliverable
from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError
from hotdesk.event import Amended, Decided, Preflight
from hotdesk.job.description import NAME as DESCRIPTION
from hotdesk.job.description import read_description
from hotdesk.job.machine import Machine
from hotdesk.job.memory import JobMemory
from hotdesk.job.people.cards import make_amendment_card, plan_card, step_card
from hotdesk.job.people.people import People
from hotdesk.job.people.plan_text import describe_amendment, describe_plan
from hotdesk.job.preflight import run_preflight
from hotdesk.job.record.log import JobLog
from hotdesk.job.record.resume_state import ResumeState
from hotdesk.job.safe_names import describe_inputs
from hotdesk.plan import Plan, Step, from_json, to_json
from hotdesk.tool import Arguments, Observation, Tool
from hotdesk.walls import UNWALLED, describe_kernel

_HAS_MEMORY = (
    "This step has read files of earlier jobs, so it gets no secret. With `steps`, ask for a later step that has the "
    "secret, and list the files it needs in its `files`."
)


class JobStoppedError(Exception):
    """The job ends here, because the worker failed or a person refused."""


@dataclass(slots=True)
class Plans:
    """The plan of one job, its approval and its amendments."""

    machine: Machine
    job: Brief
    brain: Brain
    log: JobLog
    people: People
    past: ResumeState
    tools: Sequence[Tool]
    memory: JobMemory
    desk: str = ""
    """A description of the job's desks for the planner."""
    plan: Plan = field(default_factory=lambda: Plan(()))
    allowed: Scope = CLOSED
    """The brief's scope, and the rules that people approved beyond it."""
    scope: Scope = CLOSED
    """The scope compiled from the plan for all of its steps."""

    def __post_init__(self) -> None:
        more = tuple(map(parse_rule, self.past.amended.rules)) if self.past.amended is not None else ()
        self.allowed = replace(self.job.scope, rules=(*self.job.scope.rules, *more)) if more else self.job.scope

    @property
    def task(self) -> PlanningTask:
        """A planner's input: names, never contents."""
        job = self.job
        limits = {"seconds": job.seconds, "tokens": job.budget.tokens, "dollars": job.budget.dollars,
                  "acts": job.budget.acts}  # fmt: skip
        return PlanningTask(
            goal=job.goal,
            inputs=describe_inputs(job),
            deliverables=tuple(map(describe_deliverable, job.deliverables)),
            rules=tuple(map(rule_text, job.scope.rules)),
            grants=tuple(map(grant_text, job.scope.grants)),
            tools=tuple(tool for tool in self.tools if matches(tool.name, job.tools or ("*",))),
            limits=", ".join(f"{name} {value:,.15g}" for name, value in limits.items() if value is not None),
            memory=self.memory.describe_items(),
            keeps_memory=bool(job.memory),
            desk=self.desk,
            walls=_describe_walls(job),
            description=read_description(job),
        )

    @property
    def job_tools(self) -> frozenset[str]:
        """Names of the tools that some step of the plan may use."""
        return list_job_tools(self.plan, self.job, self.tools)

    @property
    def bounded(self) -> Brief:
        return replace(self.job, scope=self.allowed)

    async def make(self) -> None:
        """Load the recorded plan, or request one from the brain and audit it."""
        if paper := self.find_paper():
            self.plan = from_json(self.log.papers.read_text(paper))
            self.require_walls()
        else:
            self.plan = await self.request_plan()
            if findings := audit(self.plan, self.bounded, self.tools):
                raise JobStoppedError(f"the plan cannot be carried out: {'; '.join(findings)}")
        self.compile()

    async def request_plan(self) -> Plan:
        """Ask the brain for a plan; raise `JobStoppedError` if it produces none."""
        try:
            return await self.log.run_within_limits(self.brain.plan(self.task, self.log), thinking=True)
        except PlanningError as e:
            raise JobStoppedError(str(e)) from e

    def find_paper(self) -> str:
        past = self.past
        if past.amended is not None:
            return past.amended.paper
        return past.planned.paper if past.planned is not None and past.summary.preflight is not None else ""

    def compile(self) -> None:
        self.scope = compile_scope(self.plan, self.allowed) if self.allowed != CLOSED else CLOSED

    def is_apart(self, index: int) -> bool:
        """Return whether a step needs a fresh desk, because it must not see what other steps left behind."""
        return needs_fresh(self.plan, find_first_step(self.plan, index), self.bounded)

    def has_description(self, step: Step) -> bool:
        """Return whether a step sees the task description: the file is at its desk, like other inputs."""
        index = [each.name for each in self.plan.steps].index(step.name)
        listed = self.plan.steps[find_first_step(self.plan, index)].files
        return DESCRIPTION in listed or not self.is_apart(index)

    def has_memory(self, step: Step) -> bool:
        names = [each.name for each in self.plan.steps]
        return has_memory(self.plan, names.index(step.name), self.bounded)

    def get_wall(self, index: int | None = None) -> str:
        """Return the wall of a step's desk, or of the main desk for `None`, for all steps at that desk."""
        return choose_wall(self.plan, find_steps(self.plan, index, self.bounded), self.bounded)

    def get_walls(self, index: int) -> tuple[str, str]:
        return self.get_wall(), self.get_wall(index)

    def require_walls(self) -> None:
        """Raise `BriefError` if the plan needs a wall that is not available, as may happen on resuming."""
        for step in self.plan.steps:
            for finding in audit_wall(step, self.bounded):
                raise BriefError(f"step {step.name}: {finding}")

    def get_scope(self, index: int | None = None) -> Scope:
        """Return the scope of a step's own desk, with the steps that continue there, or of the main desk for `None`."""
        steps = self.plan.steps
        if index is None:
            names = [step.name for place, step in enumerate(steps) if not self.is_apart(place)]
        else:
            after = takewhile(lambda step: step.keeps, steps[index + 1 :])
            names = [steps[index].name, *(step.name for step in after)]
        return compile_scope(self.plan, self.allowed, names) if self.allowed != CLOSED else CLOSED

    async def approve(self) -> None:
        """Run the preflight, and have the plan approved by policy or a person."""
        tried = self.past.summary.preflight
        if tried is None:
            passed, failed = await run_preflight(
                self.plan,
                self.bounded,
                self.tools,
                self.machine.try_grants,
                self.machine.config.names,
                drive=self.machine.config.lib / "drive",
            )
            tried = Preflight(self.log.job, self.plan.digest, passed, failed)
            self.log.note(tried)
        if self.past.amended is not None:
            return
        card = plan_card(self.plan, self.bounded, tried.held, tried.failed)
        card = describe_plan(card, self.plan, self.bounded, failed=tried.failed)
        if self.is_waved_through():
            if not self.people.find_asked("plan", card):
                self.people.settle("plan", card, f"policy {self.job.approve}")
            return
        decided = await self.people.decide("plan", card)
        self.require(decided, "the plan")
        if decided.paper:
            self.adopt(self.load_edited_plan(decided))

    def is_waved_through(self) -> bool:
        return self.job.approve == "auto" or (self.job.approve == "risky" and not is_risky(self.plan, self.allowed))

    async def approve_step(self, step: Step) -> None:
        if self.job.approve == "every":
            index = self.plan.steps.index(step)
            card = describe_plan(step_card(self.plan, index, self.bounded), self.plan, self.bounded, index)
            self.require(await self.people.decide("step", card, step.name), f"step {step.name}")

    async def amend(self, step: Step, arguments: Arguments, finished: Collection[str] = ()) -> Observation:
        """Amend the plan from this step on if it passes the audit and policy or a person approves it."""
        if self.job.frozen:
            return _refuse_amendment(
                "the permissions of this job were fixed when it started and cannot be extended; work within the plan"
            )
        try:
            amendment = read_amendment(self.plan, step.name, arguments, self.allowed)
            new = amend(self.plan, amendment, self.allowed, finished)
        except BriefError as e:
            return _refuse_amendment(str(e))
        if new == self.plan:
            return Observation(
                "The plan already allows this. If a request was refused, the text of its denial has the reason.",
                ok=False,
            )
        ceiling = tuple(map(parse_rule, self.machine.config.ceiling))
        verdict = decide_amendment(amendment, self.plan, self.job, self.job.approve, ceiling, finished)
        wider = replace(self.job, scope=widen_scope(self.allowed, amendment))
        if findings := audit(new, wider, self.tools, complete=not says_nothing(self.plan)):
            return _refuse_amendment(" ".join(findings))
        if self.gains_secret(step, new):
            return _refuse_amendment(_HAS_MEMORY)
        if verdict == "refused":
            return _refuse_amendment(
                "the change exceeds the operator's limits, so no person can approve it; work within the plan"
            )
        card = make_amendment_card(amendment, self.plan, new, self.bounded)
        card = describe_amendment(card, amendment, self.plan, new, self.bounded)
        if verdict == "approved":
            self.people.settle("amendment", card, f"policy {self.job.approve}", step.name)
        else:
            decided = await self.people.decide("amendment", card, step.name)
            if decided.answer != "approved":
                return _refuse_amendment(self.describe_refusal(decided))
            if decided.paper:
                new, amendment = self.load_edited_amendment(decided, amendment)
                if self.gains_secret(step, new):
                    return _refuse_amendment(_HAS_MEMORY)
            self.allowed = widen_scope(self.allowed, amendment)
        changes = describe_difference(self.plan, new)
        self.adopt(new, step.name)
        return Observation("The plan is amended: " + "; ".join(changes))

    def gains_secret(self, step: Step, new: Plan) -> bool:
        if not self.has_memory(step):
            return False
        return any(select_grants(each, self.allowed) for each in new.steps if each.name == step.name)

    def describe_refusal(self, decided: Decided) -> str:
        if decided.answer == "expired":
            return "no person answered in time"
        reason = self.log.papers.read_text(decided.paper) if decided.paper else ""
        who = decided.by if decided.by and not decided.by.startswith("uid ") else "a person"
        return f"{decided.answer} by {who}{f': {reason}' if reason else ''}"

    def load_edited_plan(self, decided: Decided, job: Brief | None = None) -> Plan:
        """Return the plan as a person edited it; raise `JobStoppedError` if it was altered or fails the audit."""
        text = self.log.papers.read_text(decided.paper)
        if hashlib.sha256(text.encode()).hexdigest() != decided.digest:
            raise JobStoppedError("the stored edit of the plan is not the one that was approved; start a new job")
        plan = from_json(text)
        if findings := audit(plan, job or self.bounded, self.tools):
            raise JobStoppedError(f"the edited plan cannot be carried out: {'; '.join(findings)}")
        return plan

    def load_edited_amendment(self, decided: Decided, amendment: Amendment) -> tuple[Plan, Amendment]:
        wider = replace(self.job, scope=widen_scope(self.allowed, amendment))
        new = self.load_edited_plan(decided, wider)
        listed = {each for step in new.steps if step.name == amendment.step for each in step.hosts or ()}
        names = {step.name for step in amendment.steps or ()}
        steps = None if amendment.steps is None else tuple(step for step in new.steps if step.name in names)
        hosts = tuple(each for each in amendment.hosts if each in listed)
        return new, replace(amendment, hosts=hosts, steps=steps)

    def adopt(self, plan: Plan, step: str = "") -> None:
        names = tuple(each.name for each in plan.steps)
        more = tuple(rule_text(rule) for rule in self.allowed.rules if rule not in self.job.scope.rules)
        self.log.note(Amended(self.log.job, plan.digest, names, self.log.papers.write(to_json(plan)), step, more))
        self.plan = plan
        self.compile()

    def may_write(self, step: Step) -> bool:
        rules = (rule for rule in self.scope.rules if rule.step in ("", step.name) and rule.verdict != "deny")
        return any(rule.tunnel or not set(rule.methods) <= set(READ) for rule in rules)

    def require(self, decided: Decided, what: str) -> None:
        if decided.answer != "approved":
            by = f" by {decided.by}" if decided.by else ""
            raise JobStoppedError(f"{what} was {decided.answer}{by}")


def _describe_walls(job: Brief) -> tuple[str, ...]:
    names = job.walls.list_available(job.wall) if job.wall != UNWALLED else ()
    traits = {name: job.walls.find(name).traits for name in names}
    lines = (f"{name}: {describe_kernel(each.kernel, is_boundary=each.is_boundary)}" for name, each in traits.items())
    return tuple(lines) if len(names) > 1 else ()


def _refuse_amendment(why: str) -> Observation:
    return Observation(f"The plan was not amended: {why}", ok=False)
