"""Leaving the plan: what a worker asks for amid a step, what the plan is then, and who decides. Pure.

What was finished stays as it is. A worker may be under the influence of what it read, so nothing is widened but reading
inside the brief, for the step being taken, while it has no secrets; all else a person decides, on facts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Literal, TypeAlias

from hotdesk.brain.permits import is_risky, matches, select_grants, select_rules, writes
from hotdesk.brief import CLOSED, Rule, Scope, parse_rule, rule_text
from hotdesk.brief.brief import Approve, Brief
from hotdesk.brief.coverage import decides, overlap, within
from hotdesk.brief.names import domain_first
from hotdesk.errors import BriefError, printable
from hotdesk.plan import EXAMPLE_STEP, MOST_STEPS, Plan, Step, read_part
from hotdesk.strict import StrictError, loads
from hotdesk.tool import Arguments, Parameter, Tool, text_of, texts_of

Policy: TypeAlias = Literal["approved", "ask", "refused"]
MAX_AMENDMENT_ITEMS = 20
"""Items of each list in one amendment."""
AMEND = Tool(
    "amend",
    "Ask for more than the plan lists for this step: hosts, secrets, tools, or steps to be taken after it. "
    "It may take a while, and may be refused; ask for the least that will do.",
    (
        Parameter("reason", "text", "why it is needed, in a sentence", required=True, longest=300),
        Parameter(
            "hosts",
            "texts",
            "rules with method and path, as 'GET https://erp.example.test/orders/*'",
            items=MAX_AMENDMENT_ITEMS,
        ),
        Parameter("grants", "texts", "names of secrets", items=MAX_AMENDMENT_ITEMS),
        Parameter("tools", "texts", "names of tools", items=MAX_AMENDMENT_ITEMS),
        Parameter("steps", "text", f"steps to add after this one, as a JSON list: [{EXAMPLE_STEP}]"),
    ),
    example={"reason": "The orders are on a second page.", "hosts": ["GET https://erp.example.test/orders/2"]},
)


@dataclass(frozen=True, slots=True)
class Amendment:
    """What a worker asks for amid a step."""

    step: str
    """The step being taken."""
    hosts: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    """To be taken after it."""
    reason: str = ""
    """The worker's words."""


def read_amendment(step: str, arguments: Arguments) -> Amendment:
    """Read what `AMEND` was used with; `BriefError` says what of it cannot be meant."""
    try:
        steps_data = loads(text_of(arguments, "steps") or "[]", overflow=True)
    except StrictError as e:
        raise BriefError(f"steps cannot be read: it is not JSON: {str(e)[:200]}; write [{EXAMPLE_STEP}]") from None
    if not isinstance(steps_data, list) or len(steps_data) > MAX_AMENDMENT_ITEMS:
        raise BriefError(
            f"steps cannot be read: it is no list of at most {MAX_AMENDMENT_ITEMS}; write [{EXAMPLE_STEP}]"
        )
    steps = tuple(read_part(Step, each, f"steps[{index}]") for index, each in enumerate(steps_data))
    hosts, grants, tools = (tuple(texts_of(arguments, name)) for name in ("hosts", "grants", "tools"))
    amendment = Amendment(step, tuple(rule_text(allowing(each)) for each in hosts), grants, tools, steps)
    if amendment == Amendment(step):
        raise BriefError("nothing is asked for; name hosts, grants, tools or steps")
    return replace(amendment, reason=text_of(arguments, "reason"))


def allowing(text: str) -> Rule:
    """Read a rule that admits something; for which step is not the worker's to say."""
    rule = parse_rule(text)
    if rule.verdict == "deny":
        raise BriefError(f"rule {text[:200]!r}: it denies; ask only for where to go")
    return replace(rule, step="")


def amend(plan: Plan, amendment: Amendment, scope: Scope = CLOSED) -> Plan:
    """Give the plan with what is asked for in it: only the step being taken is another, and steps stand behind it.

    A step that has all of the scope lists it from then on: what is approved is the plan, so each host stands in it.
    """
    index = _index_of(plan, amendment.step)
    names = {step.name for step in plan.steps}
    if len(plan.steps) + len(amendment.steps) > MOST_STEPS:
        raise BriefError(f"the plan would have more than {MOST_STEPS} steps; ask for fewer")
    for step in amendment.steps:
        if step.name in names:
            raise BriefError(f"the plan has a step {printable(step.name[:64])!r} already; name the new one otherwise")
        names.add(step.name)
    now = plan.steps[index]
    rules = (rule_text(each) for each in select_rules(now.name, scope.rules) if each.verdict != "deny")
    hosts = tuple(rules) if now.hosts is None and amendment.hosts else now.hosts
    now = replace(
        now,
        hosts=merge_names(hosts, amendment.hosts),
        grants=merge_names(now.grants, amendment.grants),
        tools=merge_names(now.tools, amendment.tools),
    )
    return replace(plan, steps=(*plan.steps[:index], now, *amendment.steps, *plan.steps[index + 1 :]))


def _index_of(plan: Plan, name: str) -> int:
    """Find a step."""
    for index, step in enumerate(plan.steps):
        if step.name == name:
            return index
    raise BriefError(f"the plan has no step {printable(name[:64])!r}; it has {', '.join(s.name for s in plan.steps)}")


def merge_names(have: tuple[str, ...] | None, more: tuple[str, ...]) -> tuple[str, ...] | None:
    """Add names to a list; one that is all stays all."""
    return None if have is None else tuple(dict.fromkeys((*have, *more)))


def widen_scope(scope: Scope, amendment: Amendment) -> Scope:
    """Give a brief's scope with what a person approved beyond it, each rule for its step alone."""
    hosts = [(amendment.step, each) for each in amendment.hosts]
    hosts += [(step.name, each) for step in amendment.steps for each in step.hosts or ()]
    rules = [(step, allowing(text)) for step, text in hosts]
    more = [replace(rule, step=step) for step, rule in rules if within(rule, select_rules(step, scope.rules)) is None]
    return replace(scope, rules=tuple(dict.fromkeys((*scope.rules, *more))))


def difference(old: Plan, new: Plan) -> tuple[str, ...]:
    """Say in which facts two plans differ; none of it is a worker's free text."""
    before, after = ({step.name: step for step in plan.steps} for plan in (old, new))
    lines = [f"- step {printable(name[:64])}" for name in before if name not in after]
    for name, step in after.items():
        shown = printable(name[:64])
        if name not in before:
            lines.append(f"+ step {shown} ({step.kind})")
        lines += [f"{sign} {shown}: {fact}" for sign, fact in changes(before.get(name, EMPTY), step)]
    common = [name for name in before if name in after]
    if common != [name for name in after if name in before]:
        lines.append("the steps stand in another order")
    return tuple(lines)


EMPTY = Step("", "", (), (), ())
_SINGULAR = {"hosts": "host", "grants": "secret", "tools": "tool", "files": "reads", "makes": "makes"}


def changes(old: Step, new: Step) -> Iterator[tuple[str, str]]:
    """Say in which facts two steps differ."""
    for each in fields(Step):
        before, after = getattr(old, each.name), getattr(new, each.name)
        if before == after or each.name in ("name", "intent", "expect"):
            continue
        if each.name in _SINGULAR:
            yield from diff_names(_SINGULAR[each.name], before, after)
        elif each.name == "actions":
            yield "~", f"actions are {len(after)}, before {len(before)}"
        else:
            yield "~", f"{each.name} is {printable(json.dumps(after, ensure_ascii=False)[:200])}"


def diff_names(what: str, before: tuple[str, ...] | None, after: tuple[str, ...] | None) -> Iterator[tuple[str, str]]:
    """Say what stands in one list and not in another."""
    show = _format_rule if what == _SINGULAR["hosts"] else printable
    if before is None or after is None:
        yield "~", f"{what}: {'all the brief has' if after is None else ', '.join(map(show, after)) or 'none'}"
        return
    yield from (("+", f"{what} {show(each)}") for each in after if each not in before)
    yield from (("-", f"{what} {show(each)}") for each in before if each not in after)


def _format_rule(text: str) -> str:
    """Write a rule with its host's domain first where that is long."""
    try:
        return printable(domain_first(parse_rule(text).host, text))
    except BriefError:
        return printable(text)


def policy(amendment: Amendment, plan: Plan, job: Brief, approve: Approve, ceiling: Iterable[Rule] = ()) -> Policy:
    """Decide an amendment, or say that a person must: never beyond the operator's ceiling or against a deny."""
    top, now = tuple(ceiling), plan.steps[_index_of(plan, amendment.step)]
    rules = [(amendment.step, allowing(each)) for each in amendment.hosts]
    rules += [(step.name, allowing(each)) for step in amendment.steps for each in step.hosts or ()]
    secrets = {*amendment.grants, *(each for step in amendment.steps for each in step.grants or ())}
    if any(is_barred(rule, select_rules(step, job.scope.rules), top) for step, rule in rules):
        return "refused"
    if not secrets <= {each.secret for each in job.scope.grants}:
        return "refused"
    inside = all(within(rule, select_rules(step, job.scope.rules)) for step, rule in rules)
    tools = all(matches(each, job.tools or ("*",)) for each in amendment.tools)
    reading = not any(writes(rule) for _, rule in rules)
    alone = not amendment.steps and not secrets and not select_grants(now, job.scope)
    after = amend(plan, amendment, job.scope).steps[_index_of(plan, amendment.step)]
    stakes = {*is_risky(after, job.scope)} - {*is_risky(now, job.scope)}
    harmless = inside and tools and reading and alone and not stakes
    return "approved" if approve in ("auto", "risky") and harmless else "ask"


def is_barred(rule: Rule, brief: Iterable[Rule], ceiling: tuple[Rule, ...]) -> bool:
    """Say whether nobody may approve a rule: the operator or the brief denies it, or nobody could look inside."""
    brief_rules = tuple(brief)
    if ceiling and within(rule, ceiling) is None:
        return True
    if rule.tunnel and within(rule, brief_rules) is None:
        return True
    denies = (each for each in brief_rules if each.verdict == "deny" and overlap(rule, each))
    return any(not decides(each) > decides(rule) for each in denies)
