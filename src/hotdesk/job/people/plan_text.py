"""A plan in sentences: the stakes first, then what each step reaches, uses, reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hotdesk.brain.amendments import Amendment, asks_for_secrets, list_rules, widen_scope
from hotdesk.brain.permits import (
    Stake,
    can_write,
    choose_wall,
    find_stakes,
    find_steps,
    has_memory,
    matches,
    needs_fresh,
    select_grants,
    select_rules,
)
from hotdesk.brief import READ, Rule, parse_rule
from hotdesk.brief.brief import Brief
from hotdesk.brief.coverage import find_cover
from hotdesk.brief.names import get_registrable_domain
from hotdesk.brief.rules import format_target
from hotdesk.job.format import format_size
from hotdesk.job.people.cards import sanitize_lines
from hotdesk.job.people.wait import Card
from hotdesk.plan import Plan, Step

MOST_STAKES, MOST_POINTS, MOST_NAMES = 60, 40, 30
"""Maximum numbers of stakes, points of a step and names shown. Omissions are stated; the card's lines have them."""
ASKED, REFUSED = ", with your approval each time", ": refused, because the brief does not allow it"
TOOLS = {
    "shell": "run commands", "file_": "edit files", "exact_": "run programs and edit files",
    "browser_": "use the browser", "screen_": "use the screen", "computer": "use the screen",
    "packages": "install packages", "search": "search files", "find_files": "search files",
}  # fmt: skip
"""What a tool is for, by the prefix of its name."""


def describe_plan(card: Card, plan: Plan, job: Brief, only: int | None = None, failed: Sequence[str] = ()) -> Card:
    """Return the card with sentences about the whole plan, or about its step `only`."""
    chosen = range(len(plan.steps)) if only is None else (only,)
    risks = [
        f"Step {plan.steps[index].name} {each}" for index in chosen for each in step_stakes(plan.steps[index], job)
    ]
    if only is None:
        risks += [f"{item.path} may contain {_join_names(item.active)}." for item in job.deliverables if item.active]
    risks += [f"Something that the plan needs is missing or was not tested: {each}" for each in failed]
    steps = tuple(
        sanitize_lines([f"{index + 1}. {plan.steps[index].name}", *_step_points(plan, index, job)]) for index in chosen
    )
    return replace(card, stakes=sanitize_lines(limit_lines(risks, MOST_STAKES)), steps=steps)


def describe_amendment(card: Card, amendment: Amendment, old: Plan, new: Plan, job: Brief) -> Card:
    before = {step.name: step for step in old.steps}
    wide = replace(job, scope=widen_scope(job.scope, amendment))
    chosen = [
        place for place, step in enumerate(new.steps) if step.name == amendment.step or step != before.get(step.name)
    ]
    risks = [each for place in chosen for each in _list_new_stakes(new.steps[place], before, job, wide)]
    outside = [
        (step, rule)
        for step, rule in list_rules(amendment)
        if find_cover(rule, select_rules(step, job.scope.rules)) is None
    ]
    risks += [
        f"Step {step} asks for {_describe_destination(rule)}, which the brief does not allow." for step, rule in outside
    ]
    if asks_for_secrets(amendment):
        risks.append(f"Step {amendment.step} asks for a secret after it may have read untrusted content.")
    after = {step.name for step in new.steps}
    risks += [f"Step {name} is removed." for name in before if name not in after]
    steps = tuple(each for place in chosen for each in describe_plan(card, new, wide, place).steps)
    return replace(card, stakes=sanitize_lines(limit_lines(risks, MOST_STAKES)), steps=steps)


def _list_new_stakes(step: Step, before: Mapping[str, Step], job: Brief, wide: Brief) -> Iterator[str]:
    """Describe the stakes that a changed step adds, and a changed check command."""
    old = before.get(step.name)
    before_stakes = step_stakes(old, job) if old is not None else []
    yield from (f"Step {step.name} {each}" for each in step_stakes(step, wide) if each not in before_stakes)
    if old is not None and old.check != step.check:
        now = "another command" if step.check else "no command"
        yield f"Step {step.name} is now checked by {now}; before: {old.check or 'none'}"


def step_stakes(step: Step, job: Brief) -> list[str]:
    """Describe the stakes of a step; each text continues a sentence that starts with the step's name."""
    return list(dict.fromkeys(_describe_stake(each) for each in find_stakes(step, job.scope)))


def _describe_stake(stake: Stake) -> str:
    match stake:
        case Stake(kind="secret", grant=grant) if grant is not None:
            owner = get_registrable_domain(grant.host)
            return f"uses the secret {grant.secret} at {owner}{'' if owner == grant.host else f' ({grant.host})'}."
        case Stake(kind="tunnel", rule=rule) if rule is not None:
            return f"may exchange encrypted data with {_describe_destination(rule)} that hotdesk cannot read or check."
        case Stake(kind="write", rule=rule) if rule is not None:
            who = "" if stake.signed_in else ", without using a secret of yours"
            return f"may send data to {_describe_destination(rule)}{who}."
        case Stake(kind="private", rule=rule) if rule is not None:
            return f"may reach a private network: {_describe_destination(rule)}."
        case Stake(kind="foreign"):
            return "uses secrets at a desk that may have read untrusted content."
        case Stake(kind="processes"):
            return "uses secrets while programs of the step before are still running."
        case Stake(kind="root"):
            return "may install packages, as root where the desk has root."
    return f"{stake.fact}."


def _step_points(plan: Plan, index: int, job: Brief) -> list[str]:
    step = plan.steps[index]
    points = [*_iterate_network_points(step, job), *_iterate_secret_points(step, job), _describe_tools(step)]
    points += [f"Reads {_join_names(step.files)}."] if step.files else []
    points += [f"Reads what earlier jobs stored in the memory {job.memory}."] if has_memory(plan, index, job) else []
    points += [f"Writes {_join_names(step.makes)}."] if step.makes else []
    points += [f"Runs this program: {step.program}"] if step.program else []
    points += [f"May choose the action {each.name}: {each.tool} {dict(each.arguments)}" for each in step.actions]
    points += [f"Is checked by this command: {step.check}"] if step.check else []
    return limit_lines([_place_point(plan, index, job), *filter(None, points)], MOST_POINTS)


def _place_point(plan: Plan, index: int, job: Brief) -> str:
    step = plan.steps[index]
    live = " It leaves programs or logins active for later steps." if step.live else ""
    wall = choose_wall(plan, find_steps(plan, index, job), job)
    live += f" The desk is behind the wall {wall}." if wall != job.wall else ""
    if needs_fresh(plan, index, job):
        return f"Works at a fresh desk that has only the files it reads.{live}"
    if step.keeps:
        return f"Continues at the desk of the step before, whose programs still run.{live}"
    return f"Works at the job's own desk.{live}"


def _iterate_network_points(step: Step, job: Brief) -> Iterator[str]:
    groups: dict[tuple[str, str, str], list[str]] = {}
    for rule, how in _iterate_destinations(step, job):
        groups.setdefault((_describe_act(rule), get_registrable_domain(rule.host), how), []).append(_format_place(rule))
    for (act, owner, how), places in groups.items():
        yield f"{act} {owner} ({_join_names(list(dict.fromkeys(places)))}){how}."
    if not groups:
        yield "Has no network access."


def _iterate_destinations(step: Step, job: Brief) -> Iterator[tuple[Rule, str]]:
    brief = select_rules(step.name, job.scope.rules)
    if step.hosts is None:
        yield from ((each, ASKED if each.verdict == "ask" else "") for each in brief if each.verdict != "deny")
        return
    for text in step.hosts:
        rule = parse_rule(text)
        cover = find_cover(rule, brief)
        yield rule, REFUSED if cover is None else ASKED if cover.verdict == "ask" else ""


def _describe_act(rule: Rule) -> str:
    if rule.tunnel:
        return "Exchanges encrypted data, which hotdesk cannot read, with"
    if not can_write(rule):
        return "Reads from"
    return "Reads from and sends data to" if rule.methods == ("*",) or set(rule.methods) & {*READ} else "Sends data to"


def _describe_destination(rule: Rule) -> str:
    """Return a rule's destination, the registrable domain first: its owner chooses what stands before it."""
    return f"{get_registrable_domain(rule.host)} ({_format_place(rule)})"


def _format_place(rule: Rule) -> str:
    """Return a rule's address in ASCII form, with the methods that do more than read and the upload limit."""
    limit = f", at most {format_size(rule.up)} in total" if rule.up is not None and can_write(rule) else ""
    methods = "" if rule.tunnel or set(rule.methods) <= {*READ, "*"} else f"{', '.join(rule.methods)} "
    return f"{methods}{format_target(rule).removesuffix('?')}{limit}"


def _iterate_secret_points(step: Step, job: Brief) -> Iterator[str]:
    for grant in select_grants(step, job.scope):
        yield f"Uses the secret {grant.secret} at {grant.host}; the desk gets a placeholder, never its value."


def _describe_tools(step: Step) -> str:
    if step.tools is None:
        return "May use every tool the brief allows."
    named = (
        next((words for name, words in TOOLS.items() if each.startswith(name)), f"use {each}") for each in step.tools
    )
    may = list(dict.fromkeys(["use every tool"] if matches("", step.tools) else named))
    return f"May {_join_names(may)}." if may else ""


def _join_names(names: Sequence[str]) -> str:
    """Join names with commas and `and`; of a long list, name the first and count the rest."""
    some = list(names[:MOST_NAMES])
    if len(names) > MOST_NAMES:
        some.append(f"{len(names) - MOST_NAMES} more")
    return " and ".join(filter(None, (", ".join(some[:-1]), some[-1]))) if some else "nothing"


def limit_lines(lines: Sequence[str], most: int) -> list[str]:
    """Return the first `most` lines, and a line with the number of those left out."""
    rest = len(lines) - most
    return [*lines[:most], *([f"… and {rest} more, listed in the exact plan"] if rest > 0 else [])]
