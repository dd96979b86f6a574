"""Makes a plan with a model; code narrows and audits it and the model reviews it, until it is accepted.

The planner gets the task: names of files, and the content of only the description that the goal names. Three counters
bound the work: rounds in which the audit objects, additional corrections of form, and reviews. A review is advice, and
uses up no round.
"""

from __future__ import annotations

from collections.abc import Sequence

from hotdesk.brain.asking import describe_refusal
from hotdesk.brain.critic import Critic
from hotdesk.brain.models.seam import OurMessage
from hotdesk.brain.narrowing import narrow_plan
from hotdesk.brain.plan_audit import audit
from hotdesk.brain.plan_reply import PLAN, read_reply
from hotdesk.brain.prompts import DESCRIBED, WORDS, quote_text, read_prompt
from hotdesk.brain.seam import Log, PlanningError, PlanningTask
from hotdesk.brain.small_plan import is_small, plan_small
from hotdesk.brain.thinking import WINDOW, Ask, Thinking, format_list
from hotdesk.brief.brief import Brief
from hotdesk.errors import BriefError, make_printable
from hotdesk.plan import EXAMPLE, Plan
from hotdesk.tool import ToolArgumentError

ROUNDS = 5
"""Plans the audit may refuse."""
FORM_CORRECTIONS = 3
"""Replies without a readable plan that use up no round."""
_MEMORY_RULE = "unverified, and hidden from steps with secrets: let an earlier step without secrets read them"
_WALL_RULE = "for sensitive work, `wall` of a step chooses a stronger one for its desk; otherwise leave `wall` out"
_OWN_RULE = (
    "every step can also ask the person it works for, ask for a change of the plan, and remember and recall facts"
)
_TOOL_CHARS = 200
"""Characters of a tool's description that a planner gets."""


async def make_plan(
    ask: Ask, task: PlanningTask, job: Brief, log: Log, rounds: int = ROUNDS, window: int = WINDOW
) -> Plan:
    """Make a plan that passes the audit; raise `PlanningError` with the findings if there is none after the last round.

    A small brief gets its plan without a model. If only the critic has findings, they are sent back as advice.
    """
    if is_small(job):
        plan = plan_small(job, task.tools)
        log.note_plan(plan, 1, ())
        return plan
    cache = job.digest[:16]
    prompt = f"{describe(task)}\n\n{_describe_rounds(rounds)}"
    thinking = Thinking(ask, log, f"{read_prompt('plan')}\n{EXAMPLE}", (PLAN,), [OurMessage(prompt)], cache, window)
    critic = Critic(ask, log, describe(task), cache, window)
    rounds_left, forms, number = rounds, FORM_CORRECTIONS, 0
    accepted: Plan | None = None
    findings: Sequence[str] = ()
    readable = False
    while rounds_left > 0:
        number += 1
        try:
            draft, findings = await _ask_for_plan(thinking)
        except PlanningError:
            if accepted is None:
                raise
            break
        readable = draft is not None
        if draft is None:
            rounds_left, forms = (rounds_left, forms - 1) if forms else (rounds_left - 1, 0)
            thinking.answer(_refuse(findings, rounds_left), ok=False)
            continue
        plan = narrow_plan(draft, job.scope)
        findings = audit(plan, job, task.tools)
        remarks = () if findings else await critic.review(plan)
        log.note_plan(plan, number, (*findings, *remarks))
        if findings:
            rounds_left -= 1
            thinking.answer(_refuse(findings, rounds_left), ok=False)
            continue
        accepted = plan
        if not remarks:
            thinking.answer("The plan is accepted.")
            return plan
        thinking.answer(_advise(remarks))
    if accepted is None:
        raise PlanningError(_explain_failure(findings, rounds, readable))
    log.note_plan(accepted, number + 1, ())
    return accepted


async def _ask_for_plan(thinking: Thinking) -> tuple[Plan | None, tuple[str, ...]]:
    """Return a plan and its findings; raise `PlanningError` if the model refuses, because it would do so again."""
    reply = await thinking.ask_once()
    if reply.stop == "refused":
        raise PlanningError(
            f"The model refused to plan the job: {describe_refusal(reply)} Change the goal, or use another `--planner`."
        )
    try:
        return read_reply(reply), ()
    except (BriefError, ToolArgumentError) as e:
        cut = " The reply was cut off at its length limit: write a shorter plan." if reply.stop == "length" else ""
        return None, (f"{e}.{cut}",)


def _describe_rounds(rounds: int) -> str:
    return f"The plan is checked against the brief. You have {rounds} rounds to correct it."


def _refuse(findings: Sequence[str], rounds_left: int) -> str:
    rounds = f"{rounds_left} round{'' if rounds_left == 1 else 's'} left"
    return (
        f"The plan is not accepted yet ({rounds}):\n{format_list(findings)}\n"
        "Submit the whole corrected plan again with the tool `plan`."
    )


def _advise(remarks: Sequence[str]) -> str:
    return (
        f"The plan is within the limits of the brief. A reviewer suggests:\n{format_list(remarks)}\n"
        "Adopt what improves the work. Submit the whole plan again with the tool `plan`, changed or not."
    )


def _explain_failure(findings: Sequence[str], rounds: int, readable: bool) -> str:
    listed = " ".join(map(make_printable, findings))
    if not readable:
        return (
            f"The model gave no readable plan after {rounds} rounds. Last error: {listed} "
            "Use a model that can write JSON with tools (`--planner`)."
        )
    return (
        f"The planner's last plan was not accepted after {rounds} rounds: {listed} For each point: if the work "
        "needs that rule, tool or secret, add it to the brief; if not, say so in the goal, or use another `--planner`."
    )


def describe(task: PlanningTask) -> str:
    tools = [f"{each.name}: {_shorten(each.what.partition('. ')[0])}" for each in task.tools]
    parts = (
        ("The goal", (task.goal,)),
        ("Inputs, in the home folder", task.inputs),
        *([("Files of earlier jobs, in the home folder; " + _MEMORY_RULE, task.memory)] if task.memory else []),
        ("Deliverables", task.deliverables),
        ("Network rules of the brief", task.rules),
        ("Secrets the brief grants", task.grants),
        (f"Tools; {_OWN_RULE}", tools),
        ("The desk", (task.desk,)),
        *([("Walls, from the weakest to the strongest; " + _WALL_RULE, task.walls)] if task.walls else []),
        ("Limits", (task.limits,)),
    )
    texts = [f"{title}:\n{format_list(each)}" for title, each in parts]
    if task.description:
        texts.insert(1, f"{DESCRIBED} ({WORDS}):\n{quote_text(task.description)}")
    return "\n\n".join(texts)


def _shorten(text: str) -> str:
    return text if len(text) <= _TOOL_CHARS else f"{text[:_TOOL_CHARS].rpartition(' ')[0]} …"
