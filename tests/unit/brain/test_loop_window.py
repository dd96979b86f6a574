"""Tests of a step with a small context window: every request fits, whatever the tools take up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hotdesk.brain.loop import Loop
from hotdesk.brain.models.seam import ModelRequest, Reply
from hotdesk.brain.notes import Notes
from hotdesk.brain.own_tools import OWN
from hotdesk.brain.seam import PlanningTask, Situation
from hotdesk.brain.window import request_tokens
from hotdesk.hands.tools import list_tools
from hotdesk.plan import Plan, Step
from hotdesk.tool import Call, Observation, Tool

WINDOW = 16_000
STEP = Step("read", "Read everything.")
SITUATION = Situation(PlanningTask("Read.", (), (), (), (), (), ""), Plan((STEP,)), STEP)
FEW = list_tools(screen=False, vision=False, exact=False)
ALL = list_tools(screen=True, vision=True, exact=False)


@dataclass
class Long:
    """A stage whose results are long; it gets more tools after some uses, as after an amendment."""

    tools: Sequence[Tool] = FEW
    screen: tuple[int, int] | None = None
    uses: int = 0

    @property
    def listed(self) -> Sequence[Tool]:
        """List no more."""
        return self.tools

    async def use(self, call: Call) -> Observation:
        self.uses += 1
        if self.uses == 14:
            self.tools = ALL
        return Observation(f"{self.uses} is a number that is not the same each time. " * 24)

    async def describe_missing(self) -> str:
        return ""


@dataclass
class Narrow:
    """A stage with a toolbox that has one tool."""

    tools: Sequence[Tool] = FEW[:1]
    screen: tuple[int, int] | None = None
    others: Sequence[Tool] = ()
    """What other steps may use, too."""

    @property
    def listed(self) -> Sequence[Tool]:
        """List the tools of all steps."""
        return self.others or self.tools

    async def use(self, call: Call) -> Observation:
        """Do what is known; refuse the rest."""
        return Observation("Refused.", ok=False)

    async def describe_missing(self) -> str:
        return ""


@dataclass
class Log:
    """A log that counts replies."""

    acts: int = 0

    def note_reply(self, step: str, request: ModelRequest, reply: Reply, ms: int) -> list[int]:
        self.acts += len(reply.calls)
        return list(range(self.acts - len(reply.calls), self.acts))

    def note_unused(self, step: str, reply: Reply) -> None:
        raise AssertionError("every reply is used")

    def note_observation(self, step: str, act: int, call: Call, seen: Observation, ms: int) -> str:
        return ""

    def note_plan(self, plan: Plan, round_number: int, findings: Sequence[str]) -> None:
        """Record nothing."""

    def check(self) -> None:
        """Let the step continue."""

    def is_halted(self) -> bool:
        return False


@dataclass
class Reading:
    """A model that reads for thirty turns."""

    asked: list[ModelRequest] = field(default_factory=list)

    async def ask(self, request: ModelRequest) -> Reply:
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


async def test_a_call_of_a_missing_tool_is_answered_with_the_tools_of_every_step() -> None:
    loop = Loop(SITUATION, Narrow(), Log(), Reading().ask, WINDOW, Notes())
    seen, ended = await loop.use(Call("c", "screen_click", {}))
    assert seen.text.startswith("Refused. Every step can also use finish, give_up, ask_person, amend_plan")
    assert ended is None
    assert (await loop.use(Call("c", FEW[0].name, {})))[0].text == "Refused."
    assert (await loop.use(Call("c", "choose", {})))[0].text == "Refused."


async def test_a_reply_that_was_cut_before_it_used_a_tool_is_told_so() -> None:
    said = [Reply("Well, ", stop="length"), Reply("Well."), Reply(calls=(Call("c", "finish", {"summary": "Done."}),))]
    asked: list[ModelRequest] = []

    async def ask(request: ModelRequest) -> Reply:
        asked.append(request)
        return said.pop(0)

    assert (await Loop(SITUATION, Narrow(), Log(), ask, WINDOW, Notes()).take()).done
    assert [str(request.history[-1]).count("cut off because it reached") for request in asked] == [0, 1, 0]


async def test_a_small_window_has_no_room_for_tools_of_other_steps() -> None:
    stage = Narrow()
    stage.others = ALL
    for window, listed in ((WINDOW, [FEW[0].name]), (200_000, [tool.name for tool in ALL])):
        model = Reading()
        await Loop(SITUATION, stage, Log(), model.ask, window, Notes()).take()
        assert [tool.name for tool in model.asked[0].tools] == [*listed, *(tool.name for tool in OWN)]
