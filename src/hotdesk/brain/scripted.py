"""A brain that is a script beside a brief. It runs on the host, as whoever runs the job: the operator's own code.

async def count(hands):
    "Count the invoices."
    return await hands.run(["ls", "invoices"])

PLAN = (count,)
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol

from hotdesk.brain.seam import Hands, Step
from hotdesk.desk.seam import Desk, Done
from hotdesk.errors import BriefError, HotdeskError
from hotdesk.tool import Observation

FILE = "brain.py"
READ_LIMIT = 64 << 20
EXAMPLE = "PLAN = (count,), each an `async def count(hands)` with a docstring"


class Act(Protocol):
    """One function of a script."""

    __name__: str

    def __call__(self, hands: Hands, /) -> Awaitable[object]:
        """Take the step."""
        ...


class Tools(Protocol):
    """The tools of one desk."""

    async def use(self, name: str, arguments: object) -> Observation:
        """Use one."""
        ...


@dataclass(frozen=True, slots=True)
class DeskHands:
    """Run, read and write at one desk, use its tools, and no more."""

    desk: Desk
    tools: Tools

    async def run(self, argv: Sequence[str], *, timeout: float | None = None) -> Done:
        """Run a program to its end."""
        return await self.desk.run(argv, timeout=timeout)

    async def read(self, path: str) -> bytes:
        """Give a file's bytes."""
        return await self.desk.read(path, limit=READ_LIMIT)

    async def write(self, path: str, data: bytes) -> None:
        """Write a file."""
        await self.desk.write(path, data)

    async def use(self, tool: str, /, **arguments: object) -> Observation:
        """Use a tool."""
        return await self.tools.use(tool, arguments)


class ScriptedBrain:
    """Takes the steps a script has, each an asynchronous function: its name, and what its docstring says."""

    def __init__(self, acts: Sequence[Act]) -> None:
        self.acts = {act.__name__: act for act in acts}
        self.steps = tuple(Step(act.__name__, (inspect.getdoc(act) or act.__name__).splitlines()[0]) for act in acts)

    def plan(self, goal: str) -> tuple[Step, ...]:
        """Give the steps in the script's order, each with the first line of its docstring."""
        return self.steps

    async def act(self, step: Step, hands: Hands) -> Done:
        """Take one step; one that gives back nothing has ended well."""
        with translated(f"step {step.name}"):
            told = await self.acts[step.name](hands)
        return told if isinstance(told, Done) else Done(0)


def load_brain(folder: Path) -> ScriptedBrain:
    """Load the script beside a brief. This runs it."""
    path = folder / FILE
    module = ModuleType("brain")
    module.__file__ = str(path)
    try:
        code = compile(path.read_bytes(), str(path), "exec")
    except (OSError, SyntaxError, ValueError) as e:
        raise BriefError(f"the brain {path} cannot be loaded: {e}; it is a script that ends in {EXAMPLE}") from e
    sys.modules[module.__name__] = module  # a dataclass in it looks itself up there
    with translated(str(path)):
        exec(code, vars(module))  # noqa: S102 - the operator's own code, and no bytecode is left beside it
    plan = getattr(module, "PLAN", ())
    if not isinstance(plan, tuple) or not plan or not all(inspect.iscoroutinefunction(act) for act in plan):
        raise BriefError(f"{path} has no plan; write {EXAMPLE}")
    return ScriptedBrain(plan)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Say which part of a script broke; what hotdesk itself could not do stays as it is."""
    try:
        yield
    except HotdeskError:
        raise
    except Exception as e:
        raise BriefError(f"{what} of the brain broke: {type(e).__name__}: {e}; mend {FILE}") from e
