"""Repeats the recorded decisions of a job: its plan, and each step's replies from its papers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path, PurePosixPath

from hotdesk.brain.models.codec import reply_from_json
from hotdesk.brain.models.replay import Replay
from hotdesk.brain.models.seam import Reply
from hotdesk.brain.seam import PlanningTask
from hotdesk.brief import READ, Rule, parse_rule
from hotdesk.brief.brief import MEMORY, Brief, JobBudget
from hotdesk.drive.journal import read
from hotdesk.errors import BriefError
from hotdesk.event import Amended, Planned, StepBegun, Thought
from hotdesk.job.record.papers import Papers
from hotdesk.plan import OURS, Plan, from_json


class Replayed(Replay):
    """A brain that repeats a recorded plan and recorded replies."""

    def __init__(self, job: str, plan: Plan, replies: dict[str, list[Reply]]) -> None:
        super().__init__(f"job {job}", replies)
        self.plan = plan

    def provide_plan(self, task: PlanningTask) -> Plan:
        return self.plan


def load_replay(journal: Path, job: str, papers: Papers) -> Replayed:
    """Read a job's recorded decisions: its last plan, and the replies of each step's last attempt."""
    plan, replies, attempts = "", dict[str, list[Reply]](), dict[str, int]()
    for row in read(journal, job):
        match event := row.read_event():
            case Planned() | Amended():
                plan = event.paper
            case StepBegun() if event.step not in OURS and attempts.get(event.step) != event.attempt:
                attempts[event.step] = event.attempt
                replies[event.step] = []  # an attempt that was interrupted and resumed begins twice, and goes on
            case Thought() if event.step and not event.is_unused:
                replies[event.step].append(reply_from_json(json.loads(papers.read_text(event.paper))))
    if not plan:
        raise BriefError(f"job {job} has no recorded plan, so there are no decisions to repeat")
    return Replayed(job, _drop_writes(from_json(papers.read_text(plan))), replies)


def make_harmless(job: Brief) -> Brief:
    """Return a brief for a replay that only reads, without secrets, questions, budget and memory.

    Without memory, nothing is stored for later jobs.
    """
    rules = tuple(rule for rule in job.scope.rules if rule.verdict == "deny" or _is_reading(rule))
    scope = replace(job.scope, rules=rules, grants=(), may_ask=False)
    return replace(job, scope=scope, approve="auto", budget=JobBudget(), memory="")


def _drop_writes(plan: Plan) -> Plan:
    """Return a plan whose steps only read, without secrets and memory."""
    steps = (
        replace(
            step,
            files=tuple(path for path in step.files if not PurePosixPath(path).is_relative_to(MEMORY)),
            grants=() if step.grants else step.grants,
            hosts=None if step.hosts is None else tuple(each for each in step.hosts if _is_reading(parse_rule(each))),
        )
        for step in plan.steps
    )
    return replace(plan, steps=tuple(steps))


def _is_reading(rule: Rule) -> bool:
    return rule.verdict == "allow" and not rule.tunnel and set(rule.methods) <= set(READ)
