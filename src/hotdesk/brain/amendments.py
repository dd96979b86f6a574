"""Amendments of a plan: a worker's request during a step, the resulting plan, and who decides. Pure.

Finished steps stay as they are. A worker may be under the influence of what it read. So the only right it can gain
without a person is to read more inside the brief, in the current step, and only while that step has no secrets. Its
check, its files and the steps after it change without a person only if nothing is at stake. A person decides everything
else, on facts.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields, replace
from typing import Literal, TypeAlias

from hotdesk.brain.narrowing import narrow_steps
from hotdesk.brain.permits import can_write, is_at_stake, is_risky, matches, select_grants, select_rules
from hotdesk.brain.plan_reply import restrict_step, strip_home, tidy_step
from hotdesk.brief import CLOSED, Rule, Scope, parse_rule, rule_text
from hotdesk.brief.brief import Approve, Brief
from hotdesk.brief.coverage import can_overlap, find_cover, rank_rule
from hotdesk.brief.names import put_domain_first
from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, make_printable
from hotdesk.plan import EXAMPLE_STEP, MOST_STEPS, Plan, Step, read_part
from hotdesk.strict import StrictError, parse_json
from hotdesk.tool import Arguments, get_text, get_texts
from hotdesk.walls import NAMES

Policy: TypeAlias = Literal["approved", "ask", "refused"]


@dataclass(frozen=True, slots=True)
class Amendment:
    """A worker's request to change the plan during a step."""

    step: str
    """The current step."""
    hosts: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    check: str | None = None
    """The check of this step, or `None` to leave it as it is."""
    makes: tuple[str, ...] | None = None
    """All files that this step leaves, or `None` to leave the list as it is."""
    steps: tuple[Step, ...] | None = None
    """All unfinished steps after this one, or `None` to leave them as they are."""
    reason: str = ""
    """The reason in the worker's words."""


def read_amendment(plan: Plan, step: str, arguments: Arguments, scope: Scope = CLOSED) -> Amendment:
    """Read the arguments of `AMEND_PLAN`; raise `BriefError` if they are invalid.

    Rules of other steps are narrowed to the scope as a plan's are. Those of this step are not: a worker that asks for
    more than the brief allows may mean it, and a person decides.
    """
    hosts, grants, tools = (tuple(get_texts(arguments, name)) for name in ("hosts", "grants", "tools"))
    amendment = Amendment(
        step,
        tuple(rule_text(_parse_allow_rule(each)) for each in hosts),
        grants,
        tools,
        get_text(arguments, "check").strip() if "check" in arguments else None,
        tuple(map(strip_home, get_texts(arguments, "makes"))) if "makes" in arguments else None,
        narrow_steps(_read_steps(plan, get_text(arguments, "steps")), scope) if "steps" in arguments else None,
    )
    if amendment == Amendment(step):
        raise BriefError("the amendment changes nothing; give one or more of hosts, grants, tools, check, makes, steps")
    return replace(amendment, reason=get_text(arguments, "reason"))


def _read_steps(plan: Plan, text: str) -> Iterator[Step]:
    """Read steps in the format of a plan; a step that is given by name alone stays as it is."""
    try:
        data = parse_json(text or "[]", overflow=True)
    except StrictError as e:
        raise BriefError(f"steps is not valid JSON: {str(e)[:200]}; write it like [{EXAMPLE_STEP}]") from None
    if not isinstance(data, list) or len(data) > MOST_STEPS:
        raise BriefError(f"steps must be a JSON list of at most {MOST_STEPS} steps; write it like [{EXAMPLE_STEP}]")
    now = {step.name: step for step in plan.steps}
    for index, each in enumerate(data):
        name = each.get("name") if isinstance(each, dict) and len(each) == 1 else None
        if isinstance(name, str) and name in now:
            yield now[name]
        else:
            yield restrict_step(read_part(Step, tidy_step(each), f"steps[{index}]"))


def _parse_allow_rule(text: str) -> Rule:
    """Parse an allow rule; the worker cannot choose its step."""
    rule = parse_rule(text)
    if rule.verdict == "deny":
        raise BriefError(f"rule {text[:200]!r}: an amendment cannot add a deny rule; list only hosts to allow")
    return replace(rule, step="")


def amend(plan: Plan, amendment: Amendment, scope: Scope = CLOSED, finished: Collection[str] = ()) -> Plan:
    """Return the plan with an amendment: this step changes, and so do the remaining ones.

    Earlier steps, and later ones that are finished, stay. If this step has the whole scope, its rules are listed
    explicitly from then on: the plan is what is approved, so every host must be in it.
    """
    index = _find_index(plan, amendment.step)
    now, after = plan.steps[index], plan.steps[index + 1 :]
    if amendment.steps is not None:
        stays = tuple(step for step in after if step.name in finished)
        after = (*stays, *amendment.steps)
        _require_new_names([*plan.steps[: index + 1], *stays], amendment.steps)
    if index + 1 + len(after) > MOST_STEPS:
        count = index + 1 + len(after)
        raise BriefError(f"the amended plan would have {count} steps; the limit is {MOST_STEPS}: list fewer steps")
    rules = (rule_text(each) for each in select_rules(now.name, scope.rules) if each.verdict != "deny")
    hosts = tuple(rules) if now.hosts is None and amendment.hosts else now.hosts
    now = replace(
        now,
        hosts=_merge_names(hosts, amendment.hosts),
        grants=_merge_names(now.grants, amendment.grants),
        tools=_merge_names(now.tools, amendment.tools),
        check=now.check if amendment.check is None else amendment.check,
        makes=now.makes if amendment.makes is None else amendment.makes,
    )
    return replace(plan, steps=(*plan.steps[:index], now, *after))


def _require_new_names(stays: Iterable[Step], steps: Iterable[Step]) -> None:
    """Refuse a step that has the name of a remaining step, or of another new one."""
    names = {step.name for step in stays}
    for step in steps:
        if step.name in names:
            raise BriefError(
                f"the plan already has a step {make_printable(step.name[:64])!r}; give the new step another name"
            )
        names.add(step.name)


def _find_index(plan: Plan, name: str) -> int:
    for index, step in enumerate(plan.steps):
        if step.name == name:
            return index
    raise BriefError(
        f"the plan has no step {make_printable(name[:64])!r}; its steps are {', '.join(s.name for s in plan.steps)}"
    )


def _merge_names(have: tuple[str, ...] | None, more: tuple[str, ...]) -> tuple[str, ...] | None:
    """Add names to a list; `None`, which stands for all names, stays `None`."""
    return None if have is None else tuple(dict.fromkeys((*have, *more)))


def widen_scope(scope: Scope, amendment: Amendment) -> Scope:
    """Return the scope with the rules a person approved, each limited to its step."""
    rules = list_rules(amendment)
    more = [
        replace(rule, step=step) for step, rule in rules if find_cover(rule, select_rules(step, scope.rules)) is None
    ]
    return replace(scope, rules=tuple(dict.fromkeys((*scope.rules, *more))))


def list_rules(amendment: Amendment) -> list[tuple[str, Rule]]:
    hosts = [(amendment.step, each) for each in amendment.hosts]
    hosts += [(step.name, each) for step in amendment.steps or () for each in step.hosts or ()]
    return [(step, _parse_allow_rule(text)) for step, text in hosts]


def asks_for_secrets(amendment: Amendment) -> bool:
    return bool(amendment.grants) or any(step.grants for step in amendment.steps or ())


def describe_difference(old: Plan, new: Plan) -> tuple[str, ...]:
    """Describe the differences of two plans as facts, without a worker's free text."""
    before, after = ({step.name: step for step in plan.steps} for plan in (old, new))
    lines = [f"- step {make_printable(name[:64])}" for name in before if name not in after]
    for name, step in after.items():
        shown = make_printable(name[:64])
        if name not in before:
            lines.append(f"+ step {shown} ({step.kind})")
        lines += [f"{sign} {shown}: {fact}" for sign, fact in describe_changes(before.get(name, EMPTY), step)]
    common = [name for name in before if name in after]
    if common != [name for name in after if name in before]:
        lines.append("the order of the steps changed")
    return tuple(lines)


EMPTY = Step("", "", (), (), ())
_SHOWN_CHARS = 200
"""Characters of a changed text in a fact; the approval card shows the whole text among its steps."""
_SINGULAR = {"hosts": "host", "grants": "secret", "tools": "tool", "files": "reads", "makes": "makes"}


def describe_changes(old: Step, new: Step) -> Iterator[tuple[str, str]]:
    for each in fields(Step):
        before, after = getattr(old, each.name), getattr(new, each.name)
        if before == after or each.name in ("name", "intent", "expect"):
            continue
        if each.name in _SINGULAR:
            yield from _diff_names(_SINGULAR[each.name], before, after)
        elif each.name == "actions":
            yield "~", f"the actions changed: {len(after)} now, {len(before)} before"
        else:
            yield "~", f"{each.name} is {shorten(make_printable(json.dumps(after, ensure_ascii=False)))}"


def shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]} [and {len(text) - _SHOWN_CHARS} more]"


def _diff_names(what: str, before: tuple[str, ...] | None, after: tuple[str, ...] | None) -> Iterator[tuple[str, str]]:
    show = _format_rule if what == _SINGULAR["hosts"] else make_printable
    if before is None or after is None:
        yield "~", f"{what}: {'all that the brief allows' if after is None else ', '.join(map(show, after)) or 'none'}"
        return
    yield from (("+", f"{what} {show(each)}") for each in after if each not in before)
    yield from (("-", f"{what} {show(each)}") for each in before if each not in after)


def _format_rule(text: str) -> str:
    try:
        return make_printable(put_domain_first(parse_rule(text).host, text))
    except BriefError:
        return make_printable(text)


def decide_amendment(
    amendment: Amendment,
    plan: Plan,
    job: Brief,
    approve: Approve,
    ceiling: Iterable[Rule] = (),
    finished: Collection[str] = (),
) -> Policy:
    """Decide an amendment, or return that a person must: never beyond the operator's ceiling or against a deny."""
    top, rules = tuple(ceiling), list_rules(amendment)
    secrets = {*amendment.grants, *(each for step in amendment.steps or () for each in step.grants or ())}
    if any(is_barred(rule, select_rules(step, job.scope.rules), top) for step, rule in rules):
        return "refused"
    if not secrets <= {each.secret for each in job.scope.grants}:
        return "refused"
    inside = all(find_cover(rule, select_rules(step, job.scope.rules)) for step, rule in rules)
    tools = all(matches(each, job.tools or ("*",)) for each in amendment.tools)
    harmless = inside and tools and _is_harmless(amendment, plan, job, finished)
    return "approved" if approve in ("auto", "risky") and harmless else "ask"


def _is_harmless(amendment: Amendment, plan: Plan, job: Brief, finished: Collection[str]) -> bool:
    """Return whether a worker cannot misuse an amendment, whatever it has read.

    More reading is harmless in a step without secrets, and so are more tools where nothing is at stake. Another
    check, other files or other steps are harmless only if nothing is at stake in this step and in those that
    remain: the files a step leaves, and whether it passes its check, determine what later steps do with their
    rights.
    """
    index = _find_index(plan, amendment.step)
    old, new = plan.steps[index:], amend(plan, amendment, job.scope, finished).steps[index:]
    reading = not any(can_write(_parse_allow_rule(each)) for each in amendment.hosts)
    gains = {*is_risky(new[0], job.scope)} - {*is_risky(old[0], job.scope)}
    if amendment.grants or gains or not reading or (amendment.hosts and select_grants(old[0], job.scope)):
        return False
    if _changes_choice(old, new, finished) or (amendment.tools and is_at_stake(old[0], job.scope)):
        return False
    if amendment.check is None and amendment.makes is None and amendment.steps is None:
        return not select_grants(old[0], job.scope)
    if _lowers_wall([step for step in old if step.name not in finished], new, job):
        return False
    remaining = [step for step in (*old, *new) if step.name not in finished]
    lists_tools = all(step.tools is not None for step in amendment.steps or ())
    return lists_tools and not any(is_risky(step, job.scope) for step in remaining)


def _changes_choice(old: tuple[Step, ...], new: tuple[Step, ...], finished: Collection[str]) -> bool:
    """Return whether a step changes whose worker may only choose: its limits were fixed before any content was read."""
    return any(step.kind == "choose" and step not in new for step in old if step.name not in finished)


def _lowers_wall(old: Iterable[Step], new: Iterable[Step], job: Brief) -> bool:
    after = {step.name: step.wall for step in new if step.wall in NAMES}
    return any(step.wall and job.walls.is_weaker(after.get(step.name, job.wall), step.wall) for step in old)


def is_barred(rule: Rule, brief: Iterable[Rule], ceiling: tuple[Rule, ...]) -> bool:
    """Return whether no person may approve a rule: it is denied, or its traffic could not be inspected."""
    brief_rules = tuple(brief)
    if ceiling and find_cover(rule, ceiling) is None:
        return True
    if rule.tunnel and find_cover(rule, brief_rules) is None:
        return True
    denies = (each for each in brief_rules if each.verdict == "deny" and can_overlap(rule, each))
    return any(not rank_rule(each) > rank_rule(rule) for each in denies)
