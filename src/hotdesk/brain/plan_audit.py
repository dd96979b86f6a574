"""Audit a plan against its brief. Pure; each finding is a sentence for a model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from hotdesk.brain.narrowing import explain
from hotdesk.brain.permits import (
    can_taint,
    can_write,
    compile_scope,
    find_first_step,
    has_memory,
    list_possible_predecessors,
    matches,
    may_have_memory,
    select_grants,
    select_rules,
)
from hotdesk.brief import ANY, Rule, Scope, parse_rule, rule_text
from hotdesk.brief.brief import MEMORY, Brief, locate_input
from hotdesk.brief.coverage import covers_host, find_cover, list_endpoints
from hotdesk.brief.data import MOST_GRANTS, MOST_RULES
from hotdesk.brief.rules import STEP_SHAPE
from hotdesk.errors import BriefError, make_printable
from hotdesk.plan import MOST_STEPS, OURS, Plan, Step
from hotdesk.tool import Tool, ToolArgumentError
from hotdesk.walls import NAMES, explain_missing

SHOWN = 40
"""Names listed in a finding."""
_SHOWN_RULES, _SHOWN_RULE_CHARS = 30, 200
_OUTSIDE = "is not covered by a single rule of the brief"
_NAMES_MEMORY = re.compile(rf"(?<![\w-]){MEMORY}/|\b(?:cd|pushd) +(?:~/|\./)?{MEMORY}\b")
"""The memory folder, as shell commands name it."""


def audit(plan: Plan, job: Brief, tools: Sequence[Tool], *, complete: bool = True) -> tuple[str, ...]:
    """Describe what is wrong with a plan: what, why, and the remedy. Empty if it is within its brief.

    `complete`: check also that every deliverable is in `makes` of some step.
    """
    found = [*_audit_names(plan, job), *_audit_files(plan, job)]
    found += _audit_deliverables(plan, job) if complete and not says_nothing(plan) else []
    outside = False
    for index, step in enumerate(plan.steps):
        hosts = list(_audit_hosts(step, plan, job.scope))
        outside = outside or any(_OUTSIDE in each for each in hosts)
        each = [*_audit_tools(step, job, tools), *hosts, *_audit_grants(step, job.scope)]
        each += [*_audit_kind(step, job, tools), *_audit_desk(plan, index, job), *audit_wall(step, job)]
        found += [f"Step {make_printable(step.name[:64])!r}: {finding}" for finding in each]
    found += [f"The brief's rules are: {_format_rules(job.scope)}."] if outside else []
    return tuple(found or _audit_size(plan, job))


def _format_rules(scope: Scope) -> str:
    rules = [f"`{make_printable(rule_text(each)[:_SHOWN_RULE_CHARS])}`" for each in scope.rules[:_SHOWN_RULES]]
    rest = len(scope.rules) - _SHOWN_RULES
    return ", ".join([*rules, *([f"and {rest} more"] if rest > 0 else [])]) or "none, so no step has network access"


def _audit_names(plan: Plan, job: Brief) -> Iterator[str]:
    if not 0 < len(plan.steps) <= MOST_STEPS:
        yield f"The plan has {len(plan.steps)} steps; it needs 1 to {MOST_STEPS}. Join steps that belong together."
    if job.budget.acts is not None and len(plan.steps) > job.budget.acts:
        yield (
            f"The plan has {len(plan.steps)} steps, but the budget allows only {job.budget.acts} tool calls. "
            "Plan fewer, larger steps."
        )
    for name, times in Counter(step.name for step in plan.steps).items():
        shown = make_printable(name[:64])
        if times > 1:
            yield f"{times} steps are called {shown!r}; permissions are assigned by name. Give each step its own name."
        if not name or not STEP_SHAPE.fullmatch(name):
            yield f"{shown!r} is not a valid step name. Use at most 64 letters, digits, `.`, `_` and `-`."
        if name in OURS:
            yield f"A step cannot be called {shown!r}: this name is reserved for the job itself. Choose another."


def _audit_tools(step: Step, job: Brief, tools: Sequence[Tool]) -> Iterator[str]:
    allowed = [each.name for each in tools if matches(each.name, job.tools or ("*",))]
    for name in step.tools or ():
        if not any(matches(each, (name,)) for each in allowed):
            exists = any(matches(each.name, (name,)) for each in tools)
            why = "the brief does not allow this tool" if exists else "this tool does not exist"
            shown = make_printable(name[:64])
            yield f"the tool {shown!r} cannot be used: {why}. Allowed tools: {_format_names(sorted(allowed))}."


def _audit_hosts(step: Step, plan: Plan, scope: Scope) -> Iterator[str]:
    for text in step.hosts or ():
        try:
            rule = parse_rule(text)
        except BriefError as e:
            yield f"{e}."
        else:
            yield from _audit_rule(rule, step, plan, scope)


def _audit_rule(rule: Rule, step: Step, plan: Plan, scope: Scope) -> Iterator[str]:
    shown = repr(rule_text(rule))
    if rule.verdict == "deny":
        yield f"{shown} is a deny rule. A plan lists only the hosts that a step uses; leave this rule out."
    elif rule.step not in ("", step.name):
        yield f"{shown} is for another step. List it there, or leave `step=` out."
    elif find_cover(rule, select_rules(step.name, scope.rules)) is None:
        names = {each.name for each in plan.steps}
        yield f"{shown} {_OUTSIDE}. {explain(rule, step, scope, names)}"
    elif can_write(rule) and not rule.tunnel and (rule.methods == ANY or not _is_explicit(rule.path)):
        yield (
            f"{shown} allows any write. Name the methods and the path of each write, as in 'POST {rule.host}/orders'."
        )


def _is_explicit(path: str) -> bool:
    return path == "/" or bool(path.replace("*", "").replace("/", ""))


def _audit_grants(step: Step, scope: Scope) -> Iterator[str]:
    mine = [each for each in scope.grants if each.step in ("", step.name)]
    for name in step.grants or ():
        hosts = [(each.host, each.port) for each in mine if each.secret == name]
        if not hosts:
            secrets = _format_names(sorted({each.secret for each in mine}))
            steps = sorted({each.step for each in scope.grants if each.secret == name})
            remedy = f"It grants the secret to the step `{steps[0]}`." if steps else f"It grants: {secrets}."
            yield f"the brief grants no secret {make_printable(name[:64])!r} to this step. {remedy}"
        elif not any(can_reach(step, scope, *each) for each in hosts):
            places = ", ".join(host for host, _ in hosts)
            yield (
                f"the secret {name!r} is for {places}, but no rule of this step admits that host. "
                "Add the host to `hosts`, or remove the secret from `grants`."
            )


def can_reach(step: Step, scope: Scope, host: str, port: int) -> bool:
    return any(
        rule.verdict != "deny" and covers_host(rule.host, host) and ("https", port) in list_endpoints(rule)
        for rule in _list_rules(step, scope)
    )


def _list_rules(step: Step, scope: Scope) -> tuple[Rule, ...]:
    if step.hosts is None:
        return select_rules(step.name, scope.rules)
    found = []
    for text in step.hosts:
        try:
            found.append(parse_rule(text))
        except BriefError:
            continue
    return tuple(found)


def _audit_kind(step: Step, job: Brief, tools: Sequence[Tool]) -> Iterator[str]:
    if step.kind == "program":
        if not step.program.strip():
            yield "the step has the kind `program`, but no program. Write the shell command in `program`."
        if step.tools:
            yield "a `program` step only runs its program, so it cannot use tools. Leave `tools` empty."
    elif step.program:
        yield "the step has a program, but its kind is not `program`. Set `kind` to `program`, or leave `program` out."
    if step.kind == "choose":
        yield from _audit_actions(step, job, tools)
    elif step.actions:
        yield "the step has actions, but its kind is not `choose`. Set `kind` to `choose`, or leave `actions` out."


def _audit_actions(step: Step, job: Brief, tools: Sequence[Tool]) -> Iterator[str]:
    """Check the actions of a `choose` step: they are fixed in the plan, so they must be valid now."""
    if len(step.actions) < 2:
        yield "a `choose` step needs at least two actions. Add actions, or use another kind of step."
    if len({each.name for each in step.actions}) < len(step.actions) or not all(each.name for each in step.actions):
        yield "two actions of the step have the same name, or one has no name. Give each action its own name."
    usable = {each.name: each for each in tools if matches(each.name, job.tools or ("*",))}
    for each in step.actions:
        if each.tool not in usable:
            yield (
                f"the action {make_printable(each.name[:64])!r} uses {make_printable(each.tool[:64])!r}, which "
                "this step cannot "
                f"use. It may use: {_format_names(sorted(usable))}."
            )
            continue
        try:
            usable[each.tool].check(each.arguments)
        except ToolArgumentError as e:
            yield f"the action {make_printable(each.name[:64])!r} is malformed: {e}"


def _audit_desk(plan: Plan, index: int, job: Brief) -> Iterator[str]:
    """Check at which desk a step runs, and what it takes over from the previous one."""
    step = plan.steps[index]
    if step.keeps and index == 0:
        yield "the step is the first, so there are no programs to keep. Set `keeps` to false."
    if step.keeps and step.desk == "fresh":
        yield (
            "the step keeps the programs of the previous step, but asks for a fresh desk. "
            "Set `keeps` to false, or leave `desk` empty."
        )
    if step.live and step.desk == "fresh":
        yield (
            "the step has `live` (a login, a started server), but its desk is burnt when the step ends. "
            "Leave `desk` empty, or save the result in a file and set `live` to false."
        )
    soiled = any(can_taint(plan, other, job) for other in list_possible_predecessors(plan, index, job))
    if step.kind == "program" and soiled and select_grants(step, job.scope) and (step.keeps or step.desk == "same"):
        yield (
            "a program with secrets must not run at a desk where untrusted content was read before. "
            "Leave `desk` empty and `keeps` false, and name the files it needs in `files`."
        )
    if job.memory:
        yield from _audit_memory(plan, index, job)


def audit_wall(step: Step, job: Brief) -> Iterator[str]:
    """Check that this machine has the step's wall; a wall weaker than the brief's is ignored."""
    if not step.wall:
        return
    walls = _format_names(job.walls.list_available(job.wall))
    there = f"Available walls: {walls}. Leave `wall` empty for {job.wall}."
    if step.wall not in NAMES[1:]:
        yield f"unknown wall {make_printable(step.wall[:64])!r}. {there}"
    elif not job.walls.is_weaker(step.wall, job.wall) and (missing := job.walls.find(step.wall)).missing:
        yield f"{explain_missing(missing)}; hotdesk does not fall back to a weaker wall. {there}"


def _audit_memory(plan: Plan, index: int, job: Brief) -> Iterator[str]:
    """Check that stored data of earlier jobs cannot reach a secret or influence a decision."""
    step, first = plan.steps[index], find_first_step(plan, index)
    secret = bool(select_grants(step, job.scope))
    if secret and any(_is_below(path, MEMORY) for path in step.files):
        yield f"the step has secrets, so it must not read {MEMORY}/. Read {MEMORY}/ in an earlier step without secrets."
    stays = plan.steps[first].desk == "same" and any(may_have_memory(each, job) for each in plan.steps)
    if secret and (stays or any(has_memory(plan, place, job) for place in range(first, index))):
        yield (
            f"a step with secrets cannot stay at a desk that has {MEMORY}/. Leave `desk` empty and `keeps` false, and "
            "name the files it needs in `files`."
        )
    if any(_is_below(path, MEMORY) for path in step.makes):
        yield f"steps cannot write to {MEMORY}/; workers store files for later jobs with the tool keep_file."
    fixed = [step.check, step.program, *(str(dict(each.arguments)) for each in step.actions)]
    if any(_NAMES_MEMORY.search(text) for text in fixed):
        yield (
            f"the check, program or actions of the step use {MEMORY}/, whose content is untrusted. "
            f"Let the worker of a step without secrets read {MEMORY}/ instead."
        )


def _audit_files(plan: Plan, job: Brief) -> Iterator[str]:
    there = [*(locate_input(name) for name in job.inputs), *([MEMORY] if job.memory else [])]
    for step in plan.steps:
        for path in (*step.files, *step.makes):
            if not _is_path(path):
                yield (
                    f"Step {make_printable(step.name[:64])!r}: {make_printable(path[:80])!r} is not a path in the "
                    "home folder. Write it like 'out/report.xlsx', without wildcards."
                )
        for path in step.files:
            if _is_path(path) and not any(_is_below(path, each) or _is_below(each, path) for each in there):
                yield (
                    f"Step {make_printable(step.name[:64])!r} reads {make_printable(path[:80])!r}, which is not an "
                    f"input and is in `makes` of no earlier step. Available files: {_format_names(there)}. Add the "
                    "file to `makes` of the step that writes it."
                )
        there += step.makes


def _audit_deliverables(plan: Plan, job: Brief) -> Iterator[str]:
    for item in job.deliverables:
        if not any(_is_below(item.path, each) for step in plan.steps for each in step.makes):
            yield f"No step makes the deliverable {item.path!r}. Add the file to `makes` of the step that writes it."


def says_nothing(plan: Plan) -> bool:
    """Return whether a plan's steps list nothing, as a script's may: then they have all that the brief allows."""
    return all(each == Step(each.name, each.intent) for each in plan.steps)


def _is_path(text: str) -> bool:
    """Return whether a text is a relative path without `..` that every program resolves alike."""
    path = PurePosixPath(text)
    plain = text == make_printable(text) and text.isprintable() and "*" not in text
    return plain and not path.is_absolute() and bool(path.parts) and ".." not in path.parts


def _is_below(path: str, folder: str) -> bool:
    return PurePosixPath(path).is_relative_to(PurePosixPath(folder))


def _audit_size(plan: Plan, job: Brief) -> list[str]:
    scope = compile_scope(plan, job.scope)
    if len(scope.rules) <= MOST_RULES and len(scope.grants) <= MOST_GRANTS:
        return []
    return [
        f"The steps of the plan have {len(scope.rules)} rules and {len(scope.grants)} grants in total; the limits are "
        f"{MOST_RULES} and {MOST_GRANTS}. Join steps that use the same hosts."
    ]


def _format_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(make_printable(each[:120]) for each in names[:SHOWN])}{more}" if names else "nothing"
