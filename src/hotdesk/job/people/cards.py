"""Cards for people who approve a plan or an amendment: facts first, the worker's words last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hotdesk.brain.amendments import Amendment, asks_for_secrets, describe_difference, list_rules, widen_scope
from hotdesk.brain.permits import (
    choose_wall,
    find_steps,
    has_memory,
    is_risky,
    needs_fresh,
    select_grants,
    select_rules,
)
from hotdesk.brief import grant_text, parse_rule, rule_text
from hotdesk.brief.brief import Brief
from hotdesk.brief.coverage import find_cover
from hotdesk.brief.names import get_registrable_domain, put_domain_first
from hotdesk.errors import BriefError, make_printable
from hotdesk.job.format import format_count
from hotdesk.job.people.wait import MAX_WORDS_CHARS, Card, quote
from hotdesk.plan import Plan, Step, to_json

MAX_CHARS = 300
"""Maximum characters of a line."""
ALL = "everything that the brief allows"
_INTENT = "   the worker says (unchecked): "
REACHES, ASKS = "reaches", "asks each time before it reaches"
FOREIGN = "at stake: the program that uses the secret may have read untrusted content in this step"


def plan_card(plan: Plan, job: Brief, held_lines: Sequence[str] = (), failed: Sequence[str] = ()) -> Card:
    """Return the card of a whole plan; the plan's digest is what is approved."""
    stakes = is_risky(plan, job.scope)
    facts = {
        "steps": str(len(plan.steps)),
        "at stake": f"{format_count(len(stakes), 'thing')}, listed below"
        if stakes
        else "nothing: it only reads, without credentials",
        "preflight": f"{len(held_lines)} passed, {len(failed)} failed",
        "brief": job.digest,
        "digest": plan.digest,
    }
    lines = [
        line
        for index, step in enumerate(plan.steps)
        for line in (*_describe_step(plan, index, job), *_quote_intent(step))
    ]
    lines += [f"{item.path} may contain {', '.join(item.active)}" for item in job.deliverables if item.active]
    lines += [f"at stake: {each}" for each in stakes] + [f"preflight failed: {each}" for each in failed]
    return Card(
        "Carry out this plan?",
        facts,
        sanitize_lines(lines),
        quote(plan.thoughts),
        to_json(plan),
    )


def make_amendment_card(amendment: Amendment, old: Plan, new: Plan, job: Brief) -> Card:
    """Return the card of an amendment; the digest of the amended plan is what is approved."""
    outside = [
        rule for step, rule in list_rules(amendment) if find_cover(rule, select_rules(step, job.scope.rules)) is None
    ]
    facts = {
        "step": amendment.step,
        "within the brief": "no" if outside else "yes",
        "digest": new.digest,
        "digest of the current plan": old.digest,
    }
    lines = [
        *describe_difference(old, new),
        *(
            f"approval also allows what the brief does not, at {get_registrable_domain(each.host)}: {rule_text(each)}"
            for each in outside
        ),
    ]
    before, after = is_risky(old, job.scope), is_risky(new, widen_scope(job.scope, amendment))
    lines += [f"at stake: {each}" for each in after if each not in before]
    lines += [FOREIGN] if asks_for_secrets(amendment) else []
    return Card(
        "Change the plan?",
        facts,
        sanitize_lines(lines),
        quote(amendment.reason),
        to_json(new),
    )


def step_card(plan: Plan, index: int, job: Brief) -> Card:
    """Return the card of one step; that step of that plan is what is approved."""
    step = plan.steps[index]
    stakes = is_risky(step, job.scope)
    facts = {"step": f"{index + 1} of {len(plan.steps)}", "at stake": "; ".join(stakes) or "nothing",
             "digest of the plan": plan.digest}  # fmt: skip
    subject = f"{plan.digest} {step.name}"
    return Card(
        "Carry out this step?",
        facts,
        sanitize_lines(list(_describe_step(plan, index, job))),
        quote(step.intent),
        subject,
    )


def make_question_card(step: Step, question: str) -> Card:
    """Return the card of a question; all of it is the worker's words."""
    return Card(
        "The worker asks",
        {"step": step.name},
        (),
        quote(question, MAX_WORDS_CHARS),
        f"{step.name}: {question}",
    )


def repeat_card(step: Step, attempt: int, lost: Sequence[str], unknown: Sequence[str], sent: Sequence[str]) -> Card:
    facts = {
        "step": step.name,
        "attempt": str(attempt),
        "acts so far": str(len(lost)),
        "acts with an unknown outcome": ", ".join(unknown) or "none",
        "sent outside the desk": f"{format_count(len(sent), 'request')} that may have changed something"
        if sent
        else "no request that may have changed something",
    }
    lines = [f"sent: {each}" for each in sent]
    return Card("Repeat this step?", facts, sanitize_lines(lines), "", f"{step.name} {attempt} {lost} {unknown} {sent}")


def sanitize_lines(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(cut(make_printable(each)) for each in lines)


def cut(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]} [and {len(text) - MAX_CHARS} more characters]"


def _describe_step(plan: Plan, index: int, job: Brief) -> Iterator[str]:
    step = plan.steps[index]
    live = ", leaves programs or logins active" if step.live else ""
    wall = choose_wall(plan, find_steps(plan, index, job), job)
    behind = f", behind the wall {wall}" if wall != job.wall else ""
    yield f"{index + 1}. {step.name} ({step.kind}), {describe_place(plan, index, job)}{behind}{live}"
    yield from (f"   {each}" for each in _iterate_destinations(step, job))
    grants = select_grants(step, job.scope)
    yield from (f"   uses the secret {put_domain_first(each.host, grant_text(each))}" for each in grants)
    for what, names in (("tools", step.tools), ("reads", step.files), ("makes", step.makes)):
        if names is None or names:
            yield f"   {what}: {ALL if names is None else ', '.join(names)}"
    if has_memory(plan, index, job):
        yield f"   reads what earlier jobs stored in the memory {job.memory}"
    if step.program:
        yield f"   runs: {step.program}"
    yield from (f"   may choose the action {each.name}: {each.tool} {dict(each.arguments)}" for each in step.actions)
    if step.check:
        yield f"   is checked by: {step.check}"


def _quote_intent(step: Step) -> Iterator[str]:
    """Quote what the step tells the worker to do. Double quotes are replaced, so the text cannot end the quotation."""
    if step.intent:
        intent = quote(step.intent, MAX_CHARS - len(_INTENT) - 2).replace('"', "'")
        yield f'{_INTENT}"{intent}"'


def describe_place(plan: Plan, index: int, job: Brief) -> str:
    step = plan.steps[index]
    if needs_fresh(plan, index, job):
        return "at a fresh desk that has only the files it reads"
    if step.keeps:
        return "continues at the desk of the step before, with its programs"
    return "at the job's own desk" + (", because the plan says so" if step.desk == "same" else "")


def _iterate_destinations(step: Step, job: Brief) -> Iterator[str]:
    """List a step's destinations: the registrable domain, whether the brief allows it, then the rule.

    The domain comes first because the owner of a domain chooses the start of a host name, and long lines are cut.
    """
    if step.hosts is None:
        rules = [each for each in select_rules(step.name, job.scope.rules) if each.verdict != "deny"]
        for each in rules:
            domain = get_registrable_domain(each.host)
            yield f"{ASKS if each.verdict == 'ask' else REACHES} {domain}: {rule_text(each)} (allowed by the brief)"
        return
    for text in step.hosts:
        try:
            rule = parse_rule(text)
        except BriefError:
            yield f"cannot reach {text}, because this is not a valid egress rule"
            continue
        domain, cover = get_registrable_domain(rule.host), find_cover(rule, select_rules(step.name, job.scope.rules))
        if cover is None:
            yield f"cannot reach {domain}, because the brief does not allow it: {rule_text(rule)}"
        elif cover.verdict == "ask":
            yield f"{ASKS} {domain}: {rule_text(rule)}"
        else:
            yield f"{REACHES} {domain}: {rule_text(rule)}"
