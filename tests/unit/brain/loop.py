"""A minimal worker loop at desks without walls: it uses every tool a model requests, whatever the rules say."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hotdesk.brain.models.seam import Item, LanguageModel, ModelRequest, OurMessage, Results
from hotdesk.desk.seam import Desk, Spec
from hotdesk.desk.wall.local.runtime import LocalRuntime
from hotdesk.event import ignore
from hotdesk.hands.files import Files
from hotdesk.hands.script_tools import Exact
from hotdesk.hands.shell import Shell
from hotdesk.hands.toolbox import Free, Toolbox
from hotdesk.plan import Plan, Step
from hotdesk.tool import Call, Observation, Tool

ATTEMPTS = 2
MOST = 200
"""Maximum number of replies in one attempt."""
UNKNOWN = Observation("nobody knows what came of this use", ok=False)


@dataclass
class Loop:
    """Carries out a plan; `renewed` returns the model for each reply, so that each may come from another process."""

    runtime: LocalRuntime
    desk: Desk
    renewed: Callable[[], LanguageModel]
    settle: Callable[[Desk], None] = lambda desk: None
    """Prepares a desk for a step with grants."""
    forget: int = -1
    """The number of the use whose outcome is forgotten."""
    used: list[Call] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    """How each attempt ended."""

    async def carry_out(self, plan: Plan) -> bool:
        """Take every step; return whether all of them were completed."""
        for step in plan.steps:
            if not any([await self.attempt(step, number) for number in range(1, ATTEMPTS + 1) if not self.done(step)]):
                return False
        return True

    def done(self, step: Step) -> bool:
        return bool(self.told) and self.told[-1].startswith(f"{step.name} finish")

    async def attempt(self, step: Step, number: int) -> bool:
        """Take a step once: at a fresh desk if it has grants; rolled back if it fails and is risky."""
        home = Path(self.desk.home)
        kept = home.with_name("kept")
        shutil.copytree(home, kept)
        desk = await self.runtime.open(Spec()) if step.grants else self.desk
        if desk is not self.desk:
            self.settle(desk)
            carry(home, Path(desk.home), step.files)
        done = await self.act(step, number, desk)
        if desk is not self.desk:
            carry(Path(desk.home), home, step.makes if done else ())
            await self.runtime.burn(desk.id)
        if not done and step.risk == "high":
            shutil.rmtree(home)
            shutil.move(kept, home)
        shutil.rmtree(kept, ignore_errors=True)
        return done

    async def act(self, step: Step, number: int, desk: Desk) -> bool:
        """Ask and use tools until the step is ended."""
        box = Toolbox([Shell(desk), Files(desk), Exact(desk)], ignore, Free(), desk.id)
        history: list[Item] = [OurMessage(step.intent)]
        for _ in range(MOST):
            reply = await self.renewed().ask(
                ModelRequest("", tuple(history), tools=box.tools, step=step.name, attempt=number)
            )
            ended = next((call for call in reply.calls if call.tool in ("finish", "give_up")), None)
            if ended is not None:
                self.told.append(f"{step.name} {ended.tool} {ended.arguments}")
                return ended.tool == "finish"
            seen = [(call, await self.use(box, call)) for call in reply.calls]
            history += [reply, Results(tuple(seen))]
        return False

    async def use(self, box: Toolbox, call: Call) -> Observation:
        """Use a tool and remember the outcome, unless it is the one to forget."""
        self.used.append(call)
        seen = await box.use(call.tool, call.arguments)
        return UNKNOWN if len(self.used) - 1 == self.forget else seen


def carry(source: Path, target: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (shutil.copytree if (source / name).is_dir() else shutil.copy)(source / name, target / name)


def named(*names: str) -> tuple[Tool, ...]:
    return tuple(Tool(name, name) for name in names)
