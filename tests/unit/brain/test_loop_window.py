"""One step, taken by a model with a small window: what it is told fits, whatever its tools take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hotdesk.brain.loop import Loop
from hotdesk.brain.models.seam import Reply, Request
from hotdesk.brain.notes import Notes
from hotdesk.brain.own_tools import OWN
from hotdesk.brain.room import request_tokens
from hotdesk.brain.seam import Situation, Task
from hotdesk.hands.kit import tools_of
from hotdesk.plan import Plan, Step
from hotdesk.tool import Call, Observation, Tool

WINDOW = 16_000
STEP = Step("read", "Read everything.")
SITUATION = Situation(Task("Read.", (), (), (), (), (), ""), Plan((STEP,)), STEP)
FEW = tools_of(screen=False, vision=False, exact=False)
ALL = tools_of(screen=True, vision=True, exact=False)


@dataclass
class Long:
    """A stage where every use shows much; it has more tools after some uses, as after an amendment."""

    tools: Sequence[Tool] = FEW
    screen: tuple[int, int] | None = None
    uses: int = 0

    async def use(self, call: Call) -> Observation:
        """Show much."""
        self.uses += 1
        if self.uses == 14:
            self.tools = ALL
        return Observation(f"{self.uses} is a number that is not the same each time. " * 24)

    async def lacking(self) -> str:
        """Miss nothing."""
        return ""


@dataclass
class Log:
    """A log that counts."""

    acts: int = 0

    def thought(self, step: str, request: Request, reply: Reply, ms: int) -> list[int]:
        """Number the calls."""
        self.acts += len(reply.calls)
        return list(range(self.acts - len(reply.calls), self.acts))

    def observed(self, step: str, act: int, call: Call, seen: Observation, ms: int) -> str:
        """Take note of nothing."""
        return ""

    def planned(self, plan: Plan, round_number: int, findings: Sequence[str]) -> None:
        """Take note of nothing."""

    def check(self) -> None:
        """Let it go on."""


@dataclass
class Reading:
    """A model that reads for thirty turns."""

    asked: list[Request] = field(default_factory=list)

    async def ask(self, request: Request) -> Reply:
        """Read on, or finish."""
        self.asked.append(request)
        number = len(self.asked)
        last = Call(f"c{number}", "finish", {"summary": "Read."})
        return Reply(calls=(Call(f"c{number}", "file_read", {"path": f"{number}.txt"}) if number <= 30 else last,))


async def test_tools_conversation_and_reply_fit_a_small_window_also_after_an_amendment() -> None:
    model = Reading()
    ended = await Loop(SITUATION, Long(), Log(), model.ask, WINDOW, Notes()).take()
    assert ended.done
    sizes = [request_tokens(each) + each.tokens for each in model.asked]
    assert max(sizes) <= WINDOW
    assert model.asked[0].tools == (*FEW, *OWN)
    last = model.asked[-1].tools
    assert [tool.name for tool in last] == [tool.name for tool in (*ALL, *OWN)]
    assert sum(len(tool.what) for tool in last) < sum(len(tool.what) for tool in (*ALL, *OWN))
