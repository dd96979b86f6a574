"""A toolbox: what it refuses, how it says so, and what it writes down."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest

from hotdesk.desk.seam import DeskId
from hotdesk.errors import BriefError, DeskError, DeskGone, FileError
from hotdesk.event import Event, Used
from hotdesk.hands.toolbox import Free, Toolbox, Wheel
from hotdesk.tool import Arguments, Observation, Parameter, Tool

DESK = DeskId("i" + "0" * 20)
DOUBLE = Tool("double", "Double a number.", (Parameter("number", "integer", "which", required=True),), {"number": 2})
SHOW = Tool("show", "Show a picture.")


class Doubling:
    """A hand that doubles, fails at 13, and says that its desk is gone at 0."""

    tools: Sequence[Tool] = (DOUBLE, SHOW)

    async def use(self, tool: str, arguments: Arguments) -> Observation:
        if tool == "show":
            return Observation(image=b"new", media="image/png")
        match arguments["number"]:
            case 13:
                raise FileError("no luck with\x1b[2J secret-word", "missing")
            case 14:
                raise BriefError("nobody means 14")
            case 15:
                raise DOUBLE.refuse("15 is odd")
            case 16:
                return Observation("it did not work", ok=False)
            case 0:
                raise DeskGone("the desk is gone")
            case int(number):
                return Observation(str(2 * number), fallback="keyboard")
        raise AssertionError


class Taken:
    """A wheel a person holds for a while."""

    def __init__(self) -> None:
        self.held = True
        self.news: Observation | None = None

    def refusal(self) -> str | None:
        return "a person holds the wheel" if self.held else None

    async def welcome(self) -> Observation | None:
        told, self.news = self.news, None
        return told

    async def drive(self, work: Callable[[], Awaitable[None]]) -> None:
        await work()


def box(wheel: Wheel | None = None, allowed: Sequence[str] | None = None) -> tuple[Toolbox, list[Used]]:
    """Give a toolbox, and where it writes."""
    written: list[Used] = []

    def note(event: Event) -> None:
        assert isinstance(event, Used)
        written.append(event)

    return Toolbox([Doubling()], note, wheel or Free(), DESK, allowed), written


@pytest.mark.parametrize(
    ("name", "arguments", "text", "written"),
    [
        ("double", {"number": 4}, "8", Used(DESK, "double", "done", 0, "keyboard")),
        ("double", {"number": "4"}, "double was not used: number is '4', not a", Used(DESK, "double", "wrong", 0)),
        ("double", None, "double was not used: its arguments are no object", Used(DESK, "double", "wrong", 0)),
        ("double", {"number": 15}, "double was not used: 15 is odd", Used(DESK, "double", "wrong", 0)),
        ("double", {"number": 13}, "double failed: no luck", Used(DESK, "double", "failed", 0, note="desk.file")),
        ("double", {"number": 14}, "double failed: nobody", Used(DESK, "double", "failed", 0, note="brief")),
        ("double", {"number": 16}, "it did not work", Used(DESK, "double", "failed", 0)),
        ("duble", {"number": 4}, "Did you mean double?", Used(DESK, "?", "wrong", 0, note="no such tool")),
        ("x\x1b", {}, "There are double, show.", Used(DESK, "?", "wrong", 0, note="no such tool")),
    ],
)
async def test_every_use_is_answered_and_written_down(name: str, arguments: object, text: str, written: Used) -> None:
    toolbox, notes = box()
    seen = await toolbox.use(name, arguments)
    assert text in seen.text
    assert seen.text.isprintable()
    assert seen.ok is (written.outcome == "done")
    [note] = notes
    assert 0 <= note.ms < 1000
    assert Used(note.desk, note.tool, note.outcome, 0, note.fallback, note.note) == written


async def test_a_desk_that_is_gone_is_an_error_and_the_use_is_written_down() -> None:
    toolbox, notes = box()
    with pytest.raises(DeskGone):
        await toolbox.use("double", {"number": 0})
    assert [(note.outcome, note.note) for note in notes] == [("failed", "it was broken off")]


async def test_every_tool_is_refused_while_a_person_holds_the_wheel_and_none_is_queued() -> None:
    wheel = Taken()
    toolbox, notes = box(wheel)
    for tool in toolbox.tools:
        seen = await toolbox.use(tool.name, tool.example)
        assert (seen.ok, seen.text) == (False, f"{tool.name} was not used: a person holds the wheel")
    assert {note.outcome for note in notes} == {"refused"}
    wheel.held = False
    assert (await toolbox.use("double", {"number": 4})).text == "8"


async def test_what_a_person_left_is_told_once_whatever_comes_of_the_use() -> None:
    wheel = Taken()
    wheel.held, wheel.news = False, Observation("You are logged in now.", image=b"old", media="image/jpeg")
    toolbox, _ = box(wheel)
    wrong = await toolbox.use("double", {})
    assert "logged in" not in wrong.text
    seen = await toolbox.use("double", {"number": 13})
    assert seen.text.startswith("You are logged in now.\n\ndouble failed")
    assert (seen.image, seen.media, seen.ok) == (b"old", "image/jpeg", False)
    assert (await toolbox.use("double", {"number": 1})).text == "2"
    wheel.news = Observation("Again.", image=b"old", media="image/jpeg")
    assert (await toolbox.use("show", {})).image == b"new"


async def test_only_what_is_allowed_is_used_and_described() -> None:
    toolbox, notes = box(allowed=["show"])
    seen = await toolbox.use("double", {"number": 4})
    assert seen.text == "double was not used: this step does not allow it. It allows show."
    assert notes[0].outcome == "refused"
    assert [tool["name"] for tool in toolbox.describe()] == ["show"]
    toolbox.allowed = ()
    assert "It allows no tool." in (await toolbox.use("show", {})).text


def test_tools_are_described_as_models_are_told_of_them() -> None:
    toolbox, _ = box()
    assert toolbox.describe()[0] == {
        "name": "double",
        "description": "Double a number.",
        "input_schema": DOUBLE.schema(),
    }


def test_two_tools_of_one_name_cannot_be() -> None:
    with pytest.raises(BriefError, match="one name"):
        Toolbox([Doubling(), Doubling()], print, Free(), DESK)


async def test_an_error_nobody_at_the_desk_can_act_on_is_raised() -> None:
    class Broken(Doubling):
        async def use(self, tool: str, arguments: Arguments) -> Observation:
            raise ZeroDivisionError

    toolbox = Toolbox([Broken()], lambda event: None, Free(), DESK)
    with pytest.raises(ZeroDivisionError):
        await toolbox.use("show", {})
    assert issubclass(DeskGone, DeskError)


async def test_an_unknown_tool_is_answered_with_those_that_may_be_used() -> None:
    toolbox = Toolbox([Doubling()], lambda event: None, Free(), DESK, allowed={"show"})
    assert (await toolbox.use("frobnicate", {})).text == "There is no tool `frobnicate`. There are show."
    assert (await toolbox.use("doubel", {})).text == "There is no tool `doubel`. There are show."
    toolbox.allowed = None
    assert (await toolbox.use("doubel", {})).text == "There is no tool `doubel`. Did you mean double?"
    toolbox.allowed = ()
    assert (await toolbox.use("frobnicate", {})).text == "There is no tool `frobnicate`. There are none here."
