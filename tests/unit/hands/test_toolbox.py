"""Tests of a toolbox: what it refuses, its messages, and what it records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext

import pytest

from hotdesk.desk.seam import DeskId
from hotdesk.errors import BriefError, DeskError, DeskGone, FileError
from hotdesk.event import Event, Used
from hotdesk.hands.toolbox import Free, Toolbox, WheelState
from hotdesk.tool import Arguments, Hand, Observation, Parameter, Tool

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


class Browsing:
    """A hand that returns what it was asked to do."""

    tools: Sequence[Tool] = (Tool("browser_goto", "Go."), Tool("browser_click", "Click."))

    async def use(self, tool: str, arguments: Arguments) -> Observation:
        return Observation(f"{tool} done")


class Taken:
    """A takeover by a person for a limited time."""

    worker_clock: Callable[[], AbstractContextManager[None]] = nullcontext

    def __init__(self) -> None:
        self.held = True
        self.news: Observation | None = None
        self.interruptions = 0
        """How many calls a person interrupts."""
        self.waited = 0
        self.still: list[bool] = []

    def explain_refusal(self) -> str | None:
        return "a person holds the wheel" if self.held else None

    async def wait_until_free(self) -> None:
        self.waited += 1
        self.held = False

    def reserve(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def welcome(self) -> Observation | None:
        told, self.news = self.news, None
        return told

    async def drive(self, work: Callable[[], Awaitable[None]], *, stands_still: bool, repeatable: bool) -> None:
        self.still.append(stands_still)
        if self.interruptions:
            self.interruptions -= 1
            self.held, self.news = True, Observation("A person was here.", image=b"old", media="image/jpeg")
        else:
            await work()


def box(wheel: WheelState | None = None, allowed: Sequence[str] | None = None) -> tuple[Toolbox, list[Used]]:
    written: list[Used] = []

    def note(event: Event) -> None:
        assert isinstance(event, Used)
        written.append(event)

    hands: list[Hand] = [Doubling(), *([Browsing()] if wheel is not None else [])]
    return Toolbox(hands, note, wheel or Free(), DESK, allowed), written


@pytest.mark.parametrize(
    ("name", "arguments", "text", "written"),
    [
        ("double", {"number": 4}, "8", Used(DESK, "double", "done", 0, "keyboard")),
        ("double", {"number": "4"}, "double was not used: number is '4', not a", Used(DESK, "double", "wrong", 0)),
        ("double", None, "double was not used: its arguments must be a JSON object", Used(DESK, "double", "wrong", 0)),
        ("double", {"number": 15}, "double was not used: 15 is odd", Used(DESK, "double", "wrong", 0)),
        ("double", {"number": 13}, "double failed: no luck", Used(DESK, "double", "failed", 0, note="desk.file")),
        ("double", {"number": 14}, "double failed: nobody", Used(DESK, "double", "failed", 0, note="brief")),
        ("double", {"number": 16}, "it did not work", Used(DESK, "double", "failed", 0)),
        ("duble", {"number": 4}, "Did you mean double?", Used(DESK, "?", "wrong", 0, note="no such tool")),
        ("x\x1b", {}, "The tools are: double, show.", Used(DESK, "?", "wrong", 0, note="no such tool")),
    ],
)
async def test_every_use_is_answered_and_recorded(name: str, arguments: object, text: str, written: Used) -> None:
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
    assert [(note.outcome, note.note) for note in notes] == [("failed", "it was interrupted")]


async def test_every_tool_is_refused_while_a_person_drives_and_none_is_queued() -> None:
    wheel = Taken()
    toolbox, notes = box(wheel)
    for tool in toolbox.tools:
        seen = await toolbox.use(tool.name, tool.example)
        assert (seen.ok, seen.text) == (False, f"{tool.name} was not used: a person holds the wheel")
    assert {note.outcome for note in notes} == {"refused"}
    wheel.held = False
    assert (await toolbox.use("double", {"number": 4})).text == "8"


async def test_what_a_person_left_is_reported_once_whatever_comes_of_the_use() -> None:
    wheel = Taken()
    wheel.held, wheel.news = False, Observation("You are logged in now.", image=b"old", media="image/jpeg")
    toolbox, _ = box(wheel)
    wrong = await toolbox.use("double", {})
    assert "logged in" not in wrong.text
    seen = await toolbox.use("double", {"number": 13})
    assert seen.text.startswith("double failed")
    assert seen.note == "You are logged in now."
    assert (seen.image, seen.media, seen.ok) == (b"old", "image/jpeg", False)
    assert (await toolbox.use("double", {"number": 1})).text == "2"
    wheel.news = Observation("Again.", image=b"old", media="image/jpeg")
    assert (await toolbox.use("show", {})).image == b"new"


async def test_a_step_waits_while_a_person_drives_and_then_continues() -> None:
    wheel = Taken()
    toolbox, notes = box(wheel)
    toolbox.waits = True
    seen = await toolbox.use("double", {"number": 4})
    assert (seen.ok, seen.text, wheel.waited, wheel.still) == (True, "8", 1, [True])
    assert [note.outcome for note in notes] == ["done"]


async def test_what_a_person_interrupted_is_done_again_where_that_changes_nothing() -> None:
    wheel = Taken()
    toolbox, notes = box(wheel)
    toolbox.waits, wheel.interruptions = True, 2
    seen = await toolbox.use("browser_goto", {})
    assert (seen.ok, seen.text, seen.note) == (True, "browser_goto done", "A person was here.")
    assert wheel.still == [False] * 3
    assert [note.outcome for note in notes] == ["done"]


async def test_what_a_person_interrupted_is_reported_clearly_where_it_may_have_happened() -> None:
    wheel = Taken()
    toolbox, notes = box(wheel)
    toolbox.waits, wheel.interruptions = True, 1
    seen = await toolbox.use("browser_click", {})
    assert not seen.ok
    assert seen.text.startswith("browser_click was interrupted because a person took over. It may have taken effect")
    assert (seen.note, seen.image) == ("A person was here.", b"old")
    assert wheel.held is False, "it was told before the desk was handed back"
    assert [(note.outcome, note.note) for note in notes] == [("refused", "a person took over")]


async def test_only_what_is_allowed_is_used_and_described() -> None:
    toolbox, notes = box(allowed=["show"])
    seen = await toolbox.use("double", {"number": 4})
    assert seen.text == "double was not used: this step does not allow it. The step allows show."
    assert notes[0].outcome == "refused"
    assert [tool["name"] for tool in toolbox.describe()] == ["show"]
    toolbox.allowed = ()
    assert "The step allows no tool." in (await toolbox.use("show", {})).text


def test_tools_are_described_as_models_are_told_of_them() -> None:
    toolbox, _ = box()
    assert toolbox.describe()[0] == {
        "name": "double",
        "description": "Double a number.",
        "input_schema": DOUBLE.build_schema(),
    }


def test_two_tools_with_one_name_are_refused() -> None:
    with pytest.raises(BriefError, match="the same name"):
        Toolbox([Doubling(), Doubling()], print, Free(), DESK)


async def test_an_error_the_model_cannot_act_on_is_raised() -> None:
    class HttpMessageError(Doubling):
        async def use(self, tool: str, arguments: Arguments) -> Observation:
            raise ZeroDivisionError

    toolbox = Toolbox([HttpMessageError()], lambda event: None, Free(), DESK)
    with pytest.raises(ZeroDivisionError):
        await toolbox.use("show", {})
    assert issubclass(DeskGone, DeskError)


async def test_an_unknown_tool_is_answered_with_those_that_may_be_used() -> None:
    toolbox = Toolbox([Doubling()], lambda event: None, Free(), DESK, allowed={"show"})
    assert (await toolbox.use("frobnicate", {})).text == "There is no tool `frobnicate`. The tools are: show."
    assert (await toolbox.use("doubel", {})).text == "There is no tool `doubel`. The tools are: show."
    toolbox.allowed = None
    assert (await toolbox.use("doubel", {})).text == "There is no tool `doubel`. Did you mean double?"
    toolbox.allowed = ()
    assert (await toolbox.use("frobnicate", {})).text == "There is no tool `frobnicate`. The tools are: none."


async def test_a_picture_is_replaced_with_words_for_a_model_that_cannot_see() -> None:
    box = Toolbox([Doubling()], lambda event: None, Free(), DESK)
    assert (await box.use("show", {})).image == b"new"
    box.sight.sees = False
    seen = await box.use("show", {})
    assert (seen.image, seen.media) == (b"", "")
    assert seen.text.startswith("The result has a picture, but the model in use cannot see images.")
