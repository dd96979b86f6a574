"""Cuts a plan's egress rules down to the brief if that only takes rights away, and explains what is outside.

Pure. A planner has read no untrusted content, so a step may also be renamed to the name in the brief's rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from hotdesk.brain.own_tools import NAMES as OWN_NAMES
from hotdesk.brain.permits import select_rules
from hotdesk.brief import ANY, READ, Rule, Scope, parse_rule, rule_text
from hotdesk.brief.coverage import can_overlap, covers, covers_host, find_cover, list_endpoints, narrow, shares_host
from hotdesk.brief.rules import format_size
from hotdesk.errors import BriefError
from hotdesk.plan import Plan, Step


def narrow_plan(plan: Plan, scope: Scope) -> Plan:
    """Return a plan with each rule cut down to what the brief allows, if it differs in nothing else."""
    return replace(plan, steps=narrow_steps(_rename_steps(plan, scope).steps, scope))


def narrow_steps(steps: Iterable[Step], scope: Scope) -> tuple[Step, ...]:
    """Return steps with their rules cut down to the brief's; the audit refuses rules that cannot be cut down.

    The tools that every step has, such as `ask_person`, are left out of a step's list: they need no permission.
    """
    return tuple(
        replace(
            step,
            hosts=step.hosts and tuple(_narrow_text(text, step.name, scope) for text in step.hosts),
            tools=step.tools and tuple(name for name in step.tools if name not in OWN_NAMES),
        )
        for step in steps
    )


def _narrow_text(text: str, step: str, scope: Scope) -> str:
    try:
        rule = parse_rule(text)
    except BriefError:
        return text
    part = _fit_rule(rule, step, scope.rules)
    return text if part is None or part == rule else rule_text(part)


def _fit_rule(rule: Rule, step: str, rules: Iterable[Rule]) -> Rule | None:
    """Return the rule, or the part of it that the brief covers in a step; `None` if there is no such part."""
    if rule.verdict == "deny":
        return None
    mine = select_rules(step, rules)
    if rule.step in ("", step) and find_cover(rule, mine) is not None:
        return rule
    return narrow(rule, mine)


# -- names of steps ---------------------------------------------------------------------------------------------------


def _rename_steps(plan: Plan, scope: Scope) -> Plan:
    """Give a step the one name under which the brief allows all it lists, unless another step would get it, too."""
    names = [_find_name(step, plan, scope) for step in plan.steps]
    times = Counter(names)
    steps = (
        replace(step, name=name) if name and times[name] == 1 else step
        for step, name in zip(plan.steps, names, strict=True)
    )
    return replace(plan, steps=tuple(steps))


def _find_name(step: Step, plan: Plan, scope: Scope) -> str:
    names = ({each.step for each in scope.rules} | {each.step for each in scope.grants}) - {""}
    if step.name in names or _fits(step, step.name, scope):
        return ""
    plan_names = {each.name for each in plan.steps}
    fitting = [name for name in names if name not in plan_names and _fits(step, name, scope)]
    return fitting[0] if len(fitting) == 1 else ""


def _fits(step: Step, name: str, scope: Scope) -> bool:
    try:
        rules = [parse_rule(text) for text in step.hosts or ()]
    except BriefError:
        return False
    secrets = {each.secret for each in scope.grants if each.step in ("", name)}
    return {*(step.grants or ())} <= secrets and all(_fit_rule(rule, name, scope.rules) for rule in rules)


# -- explanations -----------------------------------------------------------------------------------------------------


def explain(rule: Rule, step: Step, scope: Scope, names: Collection[str]) -> str:
    """Explain why the brief does not cover a rule in a step, and what to write; `names` are the plan's steps."""
    others = sorted({each.step for each in scope.rules if each.step not in ("", step.name)})
    if fitting := [name for name in others if _fit_rule(rule, name, scope.rules) is not None]:
        return _explain_step(fitting, names)
    mine = select_rules(step.name, scope.rules)
    if (part := narrow(rule, mine)) is not None:
        return f"{_explain_parts(rule, part, mine)}: write `{rule_text(part)}`."
    denies = [each for each in mine if each.verdict != "allow" and can_overlap(rule, each)]
    if denies and any(covers(each, rule) for each in mine):
        return f"The brief's `{rule_text(denies[0])}` applies to a part of this rule. List other paths only."
    near = [each for each in mine if each.verdict != "deny" and shares_host(each.host, rule.host)]
    if not near:
        return f"The brief allows this step no access to {rule.host}. Remove this rule from the plan."
    best = max(near, key=lambda each: _count_common(each, rule))
    differences = "; ".join(_compare(best, rule)) or "your rule allows more"
    return f"The closest rule of the brief is `{rule_text(best)}`: {differences}. List only what that rule covers."


def _explain_step(fitting: Sequence[str], names: Collection[str]) -> str:
    there = [name for name in fitting if name in names]
    if there:
        return f"The brief has this rule for the step `{there[0]}` only. List it in that step."
    if len(fitting) == 1:
        return f"The brief has such rules only for a step called `{fitting[0]}`. Name this step `{fitting[0]}`."
    listed = ", ".join(f"`{name}`" for name in fitting)
    return f"The brief has such rules only for steps called {listed}. Give this step one of these names."


def _explain_parts(rule: Rule, part: Rule, rules: Iterable[Rule]) -> str:
    """Describe the limits of the brief's rule that required the cut."""
    cover = find_cover(part, rules) or part
    parts = [_describe_query(cover)] if part.query != rule.query else []
    sizes = (("up", rule.up, part.up), ("down", rule.down, part.down))
    parts += [f"at most {name}={format_size(size)}" for name, old, size in sizes if old and size and size < old]
    parts += [f"at most rate={part.rate:g}"] if rule.rate and part.rate and part.rate < rule.rate else []
    parts += ["GET only"] if part.methods != rule.methods else []
    parts += [f"{part.scheme} only"] if part.scheme != rule.scheme else []
    parts += ["no private networks"] if part.private != rule.private else []
    return f"The brief's rule allows {', '.join(parts) or 'no `step=` of another step'}"


def _describe_query(rule: Rule) -> str:
    if not rule.query:
        return "no query" if rule.query == () else "any query"
    return f"only the query parameters {', '.join(f'{name}={value}' for name, value in rule.query)}"


def _count_common(brief: Rule, rule: Rule) -> int:
    return 4 - len(list(_compare(brief, rule)))


def _compare(brief: Rule, rule: Rule) -> Iterator[str]:
    if brief.tunnel != rule.tunnel:
        yield "the brief's rule is a tunnel" if brief.tunnel else "the brief's rule is not a tunnel"
        return
    if not covers_host(brief.host, rule.host):
        yield f"the brief's rule is for the host {brief.host}"
    if not list_endpoints(rule) <= list_endpoints(brief):
        ends = " and ".join(f"{scheme} port {port}" for scheme, port in sorted(list_endpoints(brief)))
        yield f"the brief's rule is for {ends} only"
    if not set(rule.methods) <= set(brief.methods) and brief.methods != ANY:
        methods = "reading (GET, HEAD)" if brief.methods == READ else ", ".join(brief.methods)
        yield f"the brief's rule allows {methods} only"
    same_but_path = replace(brief, path=rule.path, query=None, up=None, down=None, rate=None)
    if not covers(replace(brief, query=None), same_but_path):
        yield f"the brief's rule is for the path {brief.path}"
