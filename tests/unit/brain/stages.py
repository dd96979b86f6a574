"""Stand-ins for tests of the worker loop: a stage of functions, a log in memory, a model that is a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from hotdesk.brain.loop import Loop
from hotdesk.brain.models.seam import Item, ModelRequest, Reply, Results, TokenUsage
from hotdesk.brain.notes import Notes
from hotdesk.brain.seam import PlanningTask, Situation, StepOutcome
from hotdesk.plan import Plan, Step
from hotdesk.tool import Call, Observation, Parameter, Tool

Do = Callable[[Call], Awaitable[Observation]]
LOOK = Tool("look", "Look at a page.", (Parameter("page", "integer", "which"),), {"page": 1}, parallel=True)
DO = Tool("do", "Do something.", (Parameter("what", "text", "what", required=True),), {"what": "it"})
FREE = TokenUsage(dollars=0.0)


@dataclass
class Room:
    """A stage whose tools are a function."""

    do: Do
    tools: Sequence[Tool] = (LOOK, DO)
    screen: tuple[int, int] | None = None
    lacks: list[str] = field(default_factory=list)
    """What each check of the promised files reports as missing; nothing once it is exhausted."""
    used: list[Call] = field(default_factory=list)
    others: Sequence[Tool] = ()
    """Tools of other steps."""

    @property
    def listed(self) -> Sequence[Tool]:
        """List the tools of all steps."""
        return (*self.tools, *self.others)

    async def use(self, call: Call) -> Observation:
        self.used.append(call)
        return await self.do(call)

    async def describe_missing(self) -> str:
        return self.lacks.pop(0) if self.lacks else ""


@dataclass
class Kept:
    """A log that stores its events in memory."""

    thoughts: list[Reply] = field(default_factory=list)
    seen: dict[int, tuple[Call, Observation]] = field(default_factory=dict)
    numbers: Iterable[int] = field(default_factory=lambda: count(1))
    checks: int = 0
    unused: list[Reply] = field(default_factory=list)

    def note_reply(self, step: str, request: ModelRequest, reply: Reply, ms: int) -> list[int]:
        self.thoughts.append(reply)
        return [number for _, number in zip(reply.calls, self.numbers, strict=False)]

    def note_unused(self, step: str, reply: Reply) -> None:
        self.unused.append(reply)

    def note_observation(self, step: str, act: int, call: Call, seen: Observation, ms: int) -> str:
        assert act not in self.seen
        self.seen[act] = (call, seen)
        return f"paper {act}"

    def note_plan(self, plan: Plan, round_number: int, findings: Sequence[str]) -> None:
        """Record nothing."""

    def check(self) -> None:
        self.checks += 1

    def is_halted(self) -> bool:
        return False


@dataclass
class Says:
    """A model that is a function of its request."""

    say: Callable[[ModelRequest], Reply]
    name: str = "test:says"
    window: int = 100_000
    native_screen: bool = False
    sees: bool = True
    asked: list[ModelRequest] = field(default_factory=list)

    async def ask(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        return self.say(request)

    async def close(self) -> None:
        """Release nothing."""


def in_turn(*replies: Reply) -> Says:
    left = list(replies)
    return Says(lambda request: left.pop(0))


def wants(*calls: tuple[str, object], text: str = "") -> Reply:
    made = tuple(Call(f"c{place}", tool, given) for place, (tool, given) in enumerate(calls))
    return Reply(text=text, calls=made, stop="calls", usage=FREE)


def finishes(summary: str = "done") -> Reply:
    return wants(("finish", {"summary": summary}))


def step_of(**given: object) -> Situation:
    step = Step("one", "Do it.", **given)  # type: ignore[arg-type]
    return Situation(PlanningTask("A goal.", (), (), (), (), (), ""), Plan((step,)), step)


async def take(
    model: Says, room: Room, situation: Situation | None = None, *, log: Kept | None = None, native: bool = False
) -> StepOutcome:
    told = situation or step_of()
    return await Loop(told, room, log or Kept(), model.ask, model.window, Notes(), "job", native).take()


def texts(items: Sequence[Item]) -> list[str]:
    last = items[-1]
    assert isinstance(last, Results)
    return [seen.text for _, seen in last.pairs]
