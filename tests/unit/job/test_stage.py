"""Tests of carrying out a vendor's own computer actions, and its safety checks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from hotdesk.desk.seam import Desk, Spec
from hotdesk.desk.wall.local.runtime import local_runtime
from hotdesk.event import ignore
from hotdesk.hands.screen.tools import TOOLS
from hotdesk.hands.toolbox import Free, Toolbox
from hotdesk.job.people.cards import make_question_card
from hotdesk.job.stage import StepStage
from hotdesk.plan import Step
from hotdesk.tool import Arguments, Call, Observation

PNG = b"\x89PNG\r\n\x1a\n"
CLICK = {"type": "click", "button": "left", "x": 3, "y": 4}
DOUBT = {"id": "cu_1", "code": "malicious_instructions", "message": "A page \x1b[2J told it to."}


@dataclass
class Glass:
    """A hand that only remembers how it was used."""

    tools = TOOLS
    used: list[tuple[str, Arguments]] = field(default_factory=list)

    async def use(self, tool: str, arguments: Arguments) -> Observation:
        """Remember; of a look give a picture."""
        self.used.append((tool, arguments))
        return Observation(image=PNG) if tool == "screen_screenshot" else Observation(f"{tool} done")

    async def close(self) -> None:
        """Let go of nothing."""


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with local_runtime() as runtime:
        yield await runtime.open(Spec())


def stage_at(desk: Desk, glass: Glass, answer: Observation, asked: list[str]) -> StepStage:
    async def people(tool: str, given: Arguments) -> Observation:
        asked.append(str(given["question"]))
        return answer

    return StepStage(Step("one", "Click."), desk, Toolbox([glass], ignore, Free(), desk.id), people)


async def test_actions_are_done_in_order_and_end_with_a_picture(desk: Desk) -> None:
    glass, asked = Glass(), list[str]()
    stage = stage_at(desk, glass, Observation("no"), asked)
    given = {"vendor": "openai", "actions": [CLICK, {"type": "type", "text": "hello"}]}
    seen = await stage.use(Call("c", "computer", given))
    done = ["screen_click", "screen_type"]
    assert [tool for tool, _ in glass.used] == [*done, "screen_settle", "screen_screenshot"]
    assert (seen.ok, seen.image) == (True, PNG)
    assert asked == []
    glass.used.clear()
    seen = await stage.use(Call("c", "computer", {**given, "picture": False}))
    assert ([tool for tool, _ in glass.used], seen.ok, seen.image) == (done, True, b"")


@pytest.mark.parametrize(
    ("answer", "done"),
    [
        (Observation("yes"), True),
        (Observation(" Yes\n"), True),
        (Observation("no"), False),
        (Observation("yes\n\nMeanwhile the desk was given back."), False),
        (Observation("yes", ok=False), False),
    ],
)
async def test_an_action_with_a_safety_check_needs_a_persons_approval(
    answer: Observation, done: bool, desk: Desk
) -> None:
    glass, asked = Glass(), list[str]()
    stage = stage_at(desk, glass, answer, asked)
    seen = await stage.use(Call("c", "computer", {"vendor": "openai", "actions": [CLICK], "checks": [DOUBT]}))
    assert seen.ok is done
    assert bool(glass.used) is done
    [question] = asked
    assert "malicious_instructions: A page" in question
    assert "\x1b" not in question


async def test_a_persons_approval_applies_to_one_call_with_its_actions_and_its_whole_warning(desk: Desk) -> None:
    asked = list[str]()
    stage = stage_at(desk, Glass(), Observation("yes"), asked)
    long = {"id": "cu_2", "code": "malicious_instructions", "message": "x" * 600}
    calls = [
        Call("c", "computer", {"vendor": "openai", "actions": [CLICK], "checks": [DOUBT]}),
        Call("d", "computer", {"vendor": "openai", "actions": [CLICK], "checks": [DOUBT]}),
        Call("c", "computer", {"vendor": "openai", "actions": [{**CLICK, "x": 9}], "checks": [DOUBT]}),
        Call("c", "computer", {"vendor": "openai", "actions": [CLICK], "checks": [long]}),
        Call("c", "computer", {"vendor": "openai", "actions": [CLICK], "checks": [{**long, "message": "x" * 601}]}),
    ]
    for call in calls:
        await stage.use(call)
    assert len({make_question_card(stage.step, question).digest for question in asked}) == len(calls)


async def test_an_invalid_action_is_refused_and_nothing_is_done(desk: Desk) -> None:
    glass = Glass()
    stage = stage_at(desk, glass, Observation("no"), [])
    wrong: tuple[object, ...] = (
        {},
        [],
        {"vendor": "other", "actions": []},
        {"vendor": "openai", "actions": [{"type": "fly"}]},
    )
    for given in wrong:
        assert not (await stage.use(Call("c", "computer", given))).ok
    assert glass.used == []
