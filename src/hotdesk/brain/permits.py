"""Permissions of a plan: rules, grants and tools of each step, never more than the brief has. Pure.

In a step the door admits what the plan lists, and asks about everything else the brief allows, such as an unplanned
write or an unplanned host. Where the brief says `ask`, a person is asked; what it denies is denied, and what it does
not name is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Literal, TypeAlias, TypeVar

from hotdesk.brief import ANY, READ, Grant, Rule, Scope, parse_rule, rule_text
from hotdesk.brief.brief import MEMORY, Brief
from hotdesk.brief.coverage import can_overlap, find_cover, rank_rule, shares_host
from hotdesk.brief.names import is_address, put_domain_first
from hotdesk.dataclass import dataclass
from hotdesk.plan import Plan, Step
from hotdesk.tool import Tool
from hotdesk.walls import UNWALLED

FIXED = "run"
"""The tool that runs the program of a `program` step."""
AS_ROOT = "packages"
"""The tool that may act as root."""
Thing = TypeVar("Thing", Rule, Grant)


def compile_scope(plan: Plan, scope: Scope, only: Collection[str] | None = None) -> Scope:
    """Return the scope that applies while a plan is carried out; rules beyond the brief are left out.

    `only` names the steps at one desk: rules and grants of other steps are left out, too.
    """
    shares = Counter(cover for step in plan.steps for _, cover in _match_planned_rules(step, scope))
    rules = [tuple(dict.fromkeys(_step_rules(step, scope, shares))) for step in plan.steps]
    grants = [select_grants(step, scope) for step in plan.steps]
    denies = [each for each in scope.rules if each.verdict == "deny"]
    here = {"", *(only if only is not None else (step.name for step in plan.steps))}
    return replace(
        scope,
        rules=tuple(dict.fromkeys(each for each in (*denies, *_bind_to_steps(plan, rules)) if each.step in here)),
        grants=tuple(dict.fromkeys(each for each in _bind_to_steps(plan, grants) if each.step in here)),
    )


def _bind_to_steps(plan: Plan, each: Sequence[tuple[Thing, ...]]) -> Iterator[Thing]:
    """Yield rules or grants limited to their steps; those that all of several steps have are not limited."""
    common = set(each[0]).intersection(*each[1:]) if len(each) > 1 else set[Thing]()
    for step, things in zip(plan.steps, each, strict=True):
        for thing in things:
            yield thing if thing.step or thing in common else replace(thing, step=step.name)


def _step_rules(step: Step, scope: Scope, shares: Counter[Rule]) -> Iterator[Rule]:
    """Yield the rules of one step except denies: those of its plan, and asks for the rest."""
    if step.hosts is None:
        yield from (each for each in select_rules(step.name, scope.rules) if each.verdict != "deny")
        return
    allowed = [
        _inherit_limits(rule, cover, shares[cover], step.name) for rule, cover in _match_planned_rules(step, scope)
    ]
    yield from allowed
    for each in select_rules(step.name, scope.rules):
        if each.verdict == "ask":
            yield each
        elif each.verdict == "allow" and not each.tunnel:
            yield from iterate_asks(each, allowed, scope)


def _match_planned_rules(step: Step, scope: Scope) -> Iterator[tuple[Rule, Rule]]:
    """Yield each planned rule that the brief admits without asking, with the brief's rule that covers it."""
    for text in step.hosts or ():
        rule = parse_rule(text)
        cover = find_cover(rule, select_rules(step.name, scope.rules)) if rule.step in ("", step.name) else None
        if cover is not None and "ask" not in (rule.verdict, cover.verdict):
            yield rule, cover


def select_rules(step: str, rules: Iterable[Rule]) -> tuple[Rule, ...]:
    return tuple(each for each in rules if each.step in ("", step))


def _inherit_limits(rule: Rule, cover: Rule, shares: int, step: str) -> Rule:
    """Return a planned rule with the limits of the brief's rule: private networks, rate, and its part of the bytes."""
    return replace(
        rule,
        private=cover.private,
        up=_choose_lesser(rule.up, None if cover.up is None else max(1, cover.up // shares)),
        down=_choose_lesser(rule.down, None if cover.down is None else max(1, cover.down // shares)),
        rate=rule.rate if cover.rate is None else min(rule.rate or cover.rate, cover.rate),
        step=step,
    )


def _choose_lesser(one: int | None, other: int | None) -> int | None:
    """Return the lesser of two limits; `None` is no limit."""
    return min((each for each in (one, other) if each is not None), default=None)


def iterate_asks(rule: Rule, allowed: Sequence[Rule], scope: Scope) -> Iterator[Rule]:
    """Yield the ask rules for a brief's rule in a step whose plan lists other rules, or a part of it.

    An ask matches more than an allow: it is left out if it would precede a deny or a rule of the plan.
    """
    for piece in _split_rule(rule):
        ask = replace(piece, verdict="ask", query=piece.query or None)
        before = [each for each in allowed if each.tunnel and shares_host(each.host, ask.host)]
        before += [each for each in allowed if can_overlap(each, ask) and not rank_rule(each) > rank_rule(ask)]
        hidden = [
            each
            for each in scope.rules
            if each.verdict == "deny" and shares_host(each.host, ask.host) and not rank_rule(each) > rank_rule(ask)
        ]
        if not before and not hidden:
            yield ask


def _split_rule(rule: Rule) -> Iterator[Rule]:
    if rule.methods in (ANY, READ):
        yield rule
    else:
        yield from (replace(rule, methods=(method,)) for method in rule.methods)


def select_grants(step: Step, scope: Scope) -> tuple[Grant, ...]:
    mine = (each for each in scope.grants if each.step in ("", step.name))
    return tuple(each for each in mine if step.grants is None or each.secret in step.grants)


def select_tools(step: Step, job: Brief, tools: Sequence[Tool]) -> frozenset[str]:
    """Return the names of the tools that a step's worker may use.

    A `choose` step has the tools it lists except those of its actions, which were fixed before any content was read.
    """
    names = [each.name for each in tools if matches(each.name, job.tools or ("*",))]
    if step.kind == "program":
        return frozenset({FIXED}.intersection(names))
    if step.kind == "choose":
        fixed = {each.tool for each in step.actions}
        return frozenset(name for name in names if matches(name, step.tools or ()) and name not in fixed)
    return frozenset(name for name in names if step.tools is None or matches(name, step.tools))


def list_job_tools(plan: Plan, job: Brief, tools: Sequence[Tool]) -> frozenset[str]:
    """Return the names of tools that any step of a plan may use: every request of the job lists them.

    Being listed is no permission: a step can use only those of `select_tools`.
    """
    steps = (step for step in plan.steps if step.kind != "program")
    return frozenset(name for step in steps for name in select_tools(step, job, tools))


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a tool matches one of the patterns, such as `browser_*`."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def list_reachable_rules(step: Step, scope: Scope) -> tuple[Rule, ...]:
    if step.hosts is None:
        return tuple(each for each in select_rules(step.name, scope.rules) if each.verdict == "allow")
    return tuple(rule for rule, _ in _match_planned_rules(step, scope))


def can_write(rule: Rule) -> bool:
    return rule.tunnel or not set(rule.methods) <= {*READ}


_StakeKind: TypeAlias = Literal["secret", "tunnel", "write", "private", "foreign", "processes", "root"]


@dataclass(frozen=True, slots=True)
class Stake:
    """One thing that is at stake in a step."""

    kind: _StakeKind
    fact: str
    """The fact in the syntax of rules, for engineers and models."""
    rule: Rule | None = None
    grant: Grant | None = None
    signed_in: bool = False
    """Whether the step has a secret for the host; for a write."""


def is_risky(what: Plan | Step, scope: Scope) -> tuple[str, ...]:
    """Describe what is at stake in a plan or a step, as facts; empty if it only reads, without credentials."""
    if isinstance(what, Plan):
        return tuple(f"{step.name}: {fact}" for step in what.steps for fact in is_risky(step, scope))
    return tuple(dict.fromkeys(each.fact for each in find_stakes(what, scope)))


def is_at_stake(step: Step, scope: Scope) -> bool:
    return step.risk == "high" or bool(is_risky(step, scope))


def find_stakes(step: Step, scope: Scope) -> Iterator[Stake]:
    grants, rules = select_grants(step, scope), list_reachable_rules(step, scope)
    trusted = {each.host for each in grants}
    for grant in grants:
        yield Stake(
            "secret", f"uses the secret {grant.secret} at {put_domain_first(grant.host, grant.host)}", grant=grant
        )
    for rule in rules:
        if rule.tunnel:
            yield Stake(
                "tunnel",
                f"opens a TLS tunnel that the door cannot read: {put_domain_first(rule.host, rule_text(rule))}",
                rule,
            )
    for rule in rules:
        if can_write(rule) and not rule.tunnel:
            signed_in, text = rule.host in trusted, put_domain_first(rule.host, rule_text(rule))
            yield Stake(
                "write", f"may write{'' if signed_in else ' without signing in'}: {text}", rule, signed_in=signed_in
            )
    for rule in rules:
        if rule.private or is_address(rule.host):
            yield Stake("private", f"reaches a private network: {rule_text(rule)}", rule)
    if grants and step.desk == "same":
        yield Stake("foreign", "has secrets and stays at a desk that may have read untrusted content")
    if grants and step.keeps:
        yield Stake("processes", "has secrets and keeps the processes of the previous step")
    if step.tools is not None and matches(AS_ROOT, step.tools):
        yield Stake("root", "may install packages, as root where the desk has root")


def find_makers(plan: Plan, path: str) -> tuple[Step, ...]:
    """Return the steps that declare a file among their results, or the last step if none does."""
    makers = (step for step in plan.steps if any(PurePosixPath(path).is_relative_to(each) for each in step.makes))
    return tuple(makers) or plan.steps[-1:]


def list_possible_predecessors(plan: Plan, index: int, job: Brief) -> list[int]:
    """List the indexes of the steps that may have run before a step: all others if its results may be sent back."""
    name, after = plan.steps[index].name, range(index + 1, len(plan.steps))
    repeats = any(find_makers(plan, each.path)[-1].name == name for each in job.deliverables)
    return [*range(index), *(after if repeats and not job.frozen else ())]  # no item of a swarm is sent back


def needs_fresh(plan: Plan, index: int, job: Brief) -> bool:
    """Return whether a step needs a desk of its own: it has secrets, and the shared desk may have untrusted data."""
    step = plan.steps[index]
    if step.desk or step.keeps:
        return step.desk == "fresh"
    if not select_grants(step, job.scope):
        return False
    if any(may_have_memory(each, job) for each in plan.steps):  # a step may be carried out again after any other
        return True
    return any(can_taint(plan, other, job) for other in list_possible_predecessors(plan, index, job))


def can_taint(plan: Plan, index: int, job: Brief) -> bool:
    """Return whether a step may leave untrusted data at a desk that later steps use."""
    step = plan.steps[index]
    reads = step.hosts is None or bool(step.hosts)
    reaching = bool(select_rules(step.name, job.scope.rules)) if step.hosts is None else reads
    foreign = reaching or bool(job.inputs) or has_memory(plan, index, job)
    return foreign and (bool(step.makes) or not needs_fresh(plan, index, job))


def is_sensitive(plan: Plan, index: int, job: Brief) -> bool:
    """Return whether a step has secrets, or may read untrusted data: inputs, responses of hosts, memory."""
    step, first = plan.steps[index], find_first_step(plan, index)
    if select_grants(step, job.scope) or has_memory(plan, index, job):
        return True
    if bool(select_rules(step.name, job.scope.rules)) if step.hosts is None else bool(step.hosts):
        return True
    if needs_fresh(plan, first, job):  # it has the files that it names, and they come from the job's desk
        return any(bool(each.files) for each in plan.steps[first : index + 1])
    return bool(job.inputs) or any(can_taint(plan, each, job) for each in list_possible_predecessors(plan, index, job))


def choose_wall(plan: Plan, indexes: Iterable[int], job: Brief) -> str:
    """Return the wall of the desk for some steps: the strongest that any of them needs."""
    if job.wall == UNWALLED:
        return job.wall
    needed = [job.wall]
    for index in indexes:
        needed.append(plan.steps[index].wall)
        needed.append(job.sensitive_wall if is_sensitive(plan, index, job) else "")
    return job.walls.choose(*needed)


def find_steps(plan: Plan, index: int | None, job: Brief) -> list[int]:
    """List the indexes of all steps at the desk of step `index`; `None` means the job's own desk."""
    firsts = [find_first_step(plan, place) for place in range(len(plan.steps))]
    if index is not None and needs_fresh(plan, firsts[index], job):
        return [place for place, first in enumerate(firsts) if first == firsts[index]]
    return [place for place, first in enumerate(firsts) if not needs_fresh(plan, first, job)]


def may_have_memory(step: Step, job: Brief) -> bool:
    """Return whether a step may see what earlier jobs stored: never a step with secrets."""
    return bool(job.memory) and not select_grants(step, job.scope)


def find_first_step(plan: Plan, index: int) -> int:
    """Return the index of the step whose desk and programs a step continues; its own if it continues none."""
    while index and plan.steps[index].keeps:
        index -= 1
    return index


def has_memory(plan: Plan, index: int, job: Brief) -> bool:
    """Return whether a step sees what earlier jobs stored: at a fresh desk only if its files name it."""
    first = find_first_step(plan, index)
    named = any(PurePosixPath(path).is_relative_to(MEMORY) for path in plan.steps[first].files)
    return may_have_memory(plan.steps[index], job) and (named or not needs_fresh(plan, first, job))
