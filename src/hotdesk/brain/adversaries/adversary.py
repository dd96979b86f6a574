"""The common part of adversaries: they use a script's plan, or request everything the brief allows."""

from __future__ import annotations

import re

from hotdesk.brain.models.script_play import WINDOW
from hotdesk.brain.models.scripted import ScriptedModel
from hotdesk.brain.seam import PlanningTask
from hotdesk.plan import Plan, Step

NAMED = re.compile(r"(?:^|\s)step=(\S+)")
USUAL = "work"


class Turned:
    """A brain that ignores its instructions."""

    name = "adversary"
    window = WINDOW
    native_screen = False
    """It uses the screen through tools."""
    sees = True

    def __init__(self, script: ScriptedModel | None = None) -> None:
        self.script = script

    def provide_plan(self, task: PlanningTask) -> Plan:
        return self.script.provide_plan(task) if self.script else make_widest_plan(task)

    async def close(self) -> None:
        """Do nothing: no connection is open."""


def make_widest_plan(task: PlanningTask) -> Plan:
    """Return a plan with everything the brief allows: a step for each name in the brief, without limits of its own."""
    names = dict.fromkeys(name for text in (*task.rules, *task.grants) for name in NAMED.findall(text))
    *before, last = names or (USUAL,)
    steps = [Step(name, "Do this step's part of the work.") for name in before]
    heads = (text.partition("\n")[0] for text in task.deliverables)
    paths = tuple(head.rpartition(" (")[0] or head for head in heads)
    return Plan((*steps, Step(last, "Do the rest of the work and leave the deliverables.", makes=paths)))
