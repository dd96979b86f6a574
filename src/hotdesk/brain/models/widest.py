"""The plan of somebody who wants everything: what an adversary asks for when no script's plan hides it."""

from __future__ import annotations

import re

from hotdesk.brain.seam import Task
from hotdesk.plan import Plan, Step

NAMED = re.compile(r"(?:^|\s)step=(\S+)")
USUAL = "work"


def widest(task: Task) -> Plan:
    """Give a plan that has all the brief has: a step for each the brief names, without any limit of its own."""
    names = dict.fromkeys(name for text in (*task.rules, *task.grants) for name in NAMED.findall(text))
    *before, last = names or (USUAL,)
    steps = [Step(name, "Do what is needed.") for name in before]
    made = tuple(line.rpartition(" (")[0] or line for line in task.deliverables)
    return Plan((*steps, Step(last, "Do what is needed, and leave what is wanted.", makes=made)))
