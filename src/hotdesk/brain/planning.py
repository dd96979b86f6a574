"""Thinks before acting: a plan from a model, audited by code and by the model itself, until nothing is said against it.

The planner is told the task, names only; never what any file holds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from hotdesk.brain.audit import audit
from hotdesk.brain.memory import fit
from hotdesk.brain.models.seam import Item, ModelRequest, OurMessage, Reply, Results
from hotdesk.brain.prompts import words
from hotdesk.brain.seam import Log, PlanningError, PlanningTask
from hotdesk.brain.window import share_out
from hotdesk.brief.brief import Brief
from hotdesk.errors import BriefError, printable
from hotdesk.plan import EXAMPLE, MAX_PLAN_CHARS, Plan, from_json, to_json
from hotdesk.tool import Call, Observation, Parameter, Tool, ToolArgumentError, text_of, texts_of

Ask: TypeAlias = Callable[[ModelRequest], Awaitable[Reply]]
ROUNDS = 3
_MOST_FINDINGS = 10
_LONGEST_FINDING = 500
TOKENS = 16_000
"""Of the longest plan."""
WINDOW = 200_000
PLAN = Tool(
    "plan",
    "Give the plan: JSON with `steps` and, if you like, `thoughts` on why so.",
    (Parameter("plan", "text", "the plan as JSON", required=True, longest=MAX_PLAN_CHARS),),
    example={"plan": EXAMPLE},
)
FINDINGS = Tool(
    "findings",
    "Say what is wrong with the plan; an empty list if nothing is.",
    (
        Parameter(
            "findings",
            "texts",
            "a sentence each: which step, what, what instead",
            required=True,
            longest=_LONGEST_FINDING,
        ),
    ),
    example={"findings": ["Step 'send' posts the report before anything checked it; check it in a step before."]},
)


async def make_plan(
    ask: Ask, task: PlanningTask, job: Brief, log: Log, rounds: int = ROUNDS, window: int = WINDOW
) -> Plan:
    """Have a plan made that code has nothing against; `PlanningError` lists what is left when there are no more rounds.

    What only the model says against its own plan goes back as long as there are rounds, and is then shown with it.
    """
    cache = job.digest[:16]
    thinking = Thinking(ask, log, words("plan") + EXAMPLE, (PLAN,), [OurMessage(describe(task))], cache, window)
    findings: Sequence[str] = ()
    for number in range(1, rounds + 1):
        plan, findings = await thinking.next_plan()
        if plan is not None:
            findings = audit(plan, job, task.tools)
            criticism = () if findings else await criticise(ask, task, plan, log, cache, window)
            log.note_plan(plan, number, (*findings, *criticism))
            if not findings and (not criticism or number == rounds):
                thinking.answer(())
                return plan
            findings = findings or criticism
        thinking.answer(findings)
    listed = "; ".join(map(printable, findings))
    raise PlanningError(
        f"no plan keeps within the brief after {rounds} rounds; widen the brief or state it simpler: {listed}"
    )


async def criticise(
    ask: Ask, task: PlanningTask, plan: Plan, log: Log, cache: str, window: int = WINDOW
) -> tuple[str, ...]:
    """Have a model say what is wrong with a plan it does not know to be its own."""
    prompt = f"{describe(task)}\n\nThe plan:\n{to_json(plan)}\n\nWhat is wrong with it?"
    thinking = Thinking(ask, log, words("criticise"), (FINDINGS,), [OurMessage(prompt)], cache, window)
    reply = await thinking.ask_once()
    found: list[str] = []
    for call in reply.calls:
        try:
            found += texts_of(FINDINGS.check(call.arguments), "findings") if call.tool == FINDINGS.name else []
        except ToolArgumentError:
            continue  # a critic that cannot be understood has said nothing
    thinking.answer(())
    return tuple(each.strip()[:_LONGEST_FINDING] for each in found if each.strip())[:_MOST_FINDINGS]


@dataclass(slots=True)
class Thinking:
    """A conversation in which nothing is done but thinking."""

    ask: Ask
    log: Log
    system: str
    tools: tuple[Tool, ...]
    history: list[Item]
    cache: str
    window: int
    """Tokens of the smallest window of those who are asked."""
    open: tuple[Call, ...] = ()
    """Calls that nothing was said to yet. They are no acts: nothing is done by them."""

    async def next_plan(self) -> tuple[Plan | None, tuple[str, ...]]:
        """Give the plan in the next reply, or what is wrong with it."""
        reply = await self.ask_once()
        if reply.stop == "refused":
            return None, ("The model would not plan this.",)
        try:
            return strict(from_json(plan_in(reply))), ()
        except (BriefError, ToolArgumentError) as e:
            cut = " The reply was cut at its greatest length: write a shorter plan." if reply.stop == "length" else ""
            return None, (f"{e}.{cut}",)

    async def ask_once(self) -> Reply:
        """Ask for the next reply, and have it noted."""
        self.log.check()
        room = share_out(self.window, self.system, self.tools)
        history = fit(self.history, room.conversation)
        request = ModelRequest(self.system, history, self.tools, tokens=min(TOKENS, self.window), cache=self.cache)
        began = time.monotonic()
        reply = await self.ask(request)
        self.log.note_reply("", request, reply, int((time.monotonic() - began) * 1000))
        self.history.append(reply)
        self.open = reply.calls
        return reply

    def answer(self, findings: Sequence[str]) -> None:
        """Say what came of a reply: its calls' results, or our words where it had none."""
        listed = "\n".join(f"- {each}" for each in findings)
        text = f"This plan cannot be taken yet:\n{listed}\nGive the whole plan again, corrected, with the tool `plan`."
        observation = Observation(text if findings else "Noted.", ok=not findings)
        self.history.append(
            Results(tuple((call, observation) for call in self.open)) if self.open else OurMessage(text)
        )
        self.open = ()


def strict(plan: Plan) -> Plan:
    """Have a model's steps go nowhere and have no secrets where they say nothing: only people and scripts mean all."""
    steps = (replace(step, hosts=step.hosts or (), grants=step.grants or ()) for step in plan.steps)
    return replace(plan, steps=tuple(steps))


def plan_in(reply: Reply) -> str:
    """Find the plan in a reply: what the tool was used with, or else what was written beside it."""
    calls = [call for call in reply.calls if call.tool == PLAN.name]
    if calls:
        return plan_text(calls[-1].arguments)
    begin, end = reply.text.find("{"), reply.text.rfind("}")
    if begin < 0 or end < begin:
        raise PLAN.refuse("no plan was given; there is no other tool while planning")
    return reply.text[begin : end + 1]


def plan_text(arguments: object) -> str:
    """Give the plan as text; models that write it as an object mean the same."""
    if isinstance(arguments, Mapping):
        inner = arguments.get("plan", arguments if "steps" in arguments else None)
        if isinstance(inner, Mapping):
            try:
                return json.dumps(inner, allow_nan=False)
            except (TypeError, ValueError, RecursionError):
                raise PLAN.refuse("the plan is no plain JSON") from None
    return text_of(PLAN.check(arguments), "plan")


def describe(task: PlanningTask) -> str:
    """Write a task for a planner."""
    tools = [f"{each.name}: {each.what.partition('. ')[0][:160]}" for each in task.tools]
    parts = (
        ("The goal", (task.goal,)),
        ("Inputs, in the home folder", task.inputs),
        ("Deliverables", task.deliverables),
        ("Where the brief lets a desk go", task.rules),
        ("Secrets the brief grants", task.grants),
        ("Tools", tools),
        ("The desk", (task.desk,)),
        ("Limits", (task.limits,)),
    )
    return "\n\n".join(f"{title}:\n{lines(each)}" for title, each in parts)


def lines(each: Sequence[str]) -> str:
    """Write a list."""
    return "\n".join(f"- {line}" for line in each if line) or "- none"
