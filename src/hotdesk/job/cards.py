"""Cards (stand-in)."""
from __future__ import annotations
from hotdesk.job.waiting import Card
from hotdesk.plan import to_json
def plan_card(plan, job, tried): return Card("plan", {"digest": plan.digest}, (), "", to_json(plan))
def step_card(step, plan, job): return Card("step", {"step": step.name}, (), "", repr(step))
def amendment_card(old, new, asked): return Card("amendment", {"step": asked.step}, (), asked.reason, to_json(new))
def question_card(step, words): return Card("question", {"step": step.name}, (), words, words)
def repeat_card(step, past, writes): return Card("repeat", {"step": step.name}, tuple(writes), "", f"{step.name} {past.attempt} {past.last}")
