"""A worker that knows a program by its looks alone: it sees pixels, points and types. This script runs outside."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done
from hotdesk.tool import Observation

Region: TypeAlias = tuple[int, int, int, int]
"""Left, top, right, bottom."""

HERE = Path(__file__).parent
PROGRAM = "tkremind"
SCREEN: Region = (0, 0, 1280, 800)
PATIENCE = 100
"""How often it looks for something to show, or to go. It counts looks, not seconds: those would differ another time."""
TITLE = 50
"""Pixels from the names of the weekdays up to the window's title."""
FIELD = 100
"""Pixels from a label into the field beside it."""


class Word(NamedTuple):
    """A word on the screen, and where it stands."""

    text: str
    left: int
    top: int
    right: int
    bottom: int

    @property
    def middle(self) -> tuple[int, int]:
        """Give the point to click at."""
        return (self.left + self.right) // 2, (self.top + self.bottom) // 2


class Day(NamedTuple):
    """A day of the calendar: where its number stands, and what is written below."""

    x: int
    y: int
    text: str


class Dialog(NamedTuple):
    """The window in which a record is entered: where it is used, and how its label looks."""

    label: Word
    add: Word
    looks: bytes


async def enter(hands: Hands) -> None:
    """Enter each record in the dialog of its day."""
    for name in ("look.py", "report.py"):
        await hands.write(name, (HERE / name).read_bytes())
    await launch(hands)
    [yes] = await find(hands, "Yes")  # it asks whether it may make its file
    await click(hands, *yes.middle)
    days, dialog = await calendar(hands), None
    for day, customer, amount in records():
        await click(hands, days[day].x, days[day].y)
        dialog = await opened(hands, dialog)
        await click(hands, dialog.label.right + FIELD, dialog.label.middle[1])
        await use(hands, "screen_type", text=f"{customer} {amount:.2f}")
        await click(hands, *dialog.add.middle)
        if not await comes(hands, dialog, shown=False):
            raise ValueError(f"the dialog of day {day} does not close")


async def read_back(hands: Hands) -> None:
    """Start the program anew, since it ended with the step before, and read what its window shows."""
    await launch(hands)
    days = await calendar(hands)
    await hands.write("read.json", json.dumps({day: seen.text for day, seen in days.items() if seen.text}).encode())
    await hands.write("calendar.png", await picture(hands))


async def compare(hands: Hands) -> Done:
    """Compare what was entered with what was read; write both down."""
    read = {int(day): str(text) for day, text in json.loads(await hands.read("read.json")).items()}
    entered = {day: f"{customer} {amount:.2f}" for day, customer, amount in records()}
    if wrong := [day for day in sorted({*read, *entered}) if read.get(day) != entered.get(day)]:
        told = [f"day {day}: {entered.get(day)!r} was entered, {read.get(day)!r} was read" for day in wrong]
        return Done(1, stderr="; ".join(told).encode())
    rows = [(day, customer, amount, float(read[day].split()[-1])) for day, customer, amount in records()]
    await hands.write("rows.json", json.dumps(rows).encode())
    return await hands.run(["python3", "report.py"], timeout=60)


PLAN = (
    step(enter),
    step(read_back, makes=["read.json", "calendar.png"]),
    step(compare, files=["read.json"], makes=["Read_Back.xlsx"]),
)


def records() -> list[tuple[int, str, float]]:
    """Give who has to pay how much on which day."""
    with (HERE / "records.csv").open(newline="") as file:
        return [(int(row["Day"]), row["Customer"], float(row["Amount"])) for row in csv.DictReader(file)]


async def launch(hands: Hands) -> None:
    """Start the program, and wait for its window."""
    await settle(hands)
    before = await picture(hands)
    await use(hands, "screen_launch", argv=[PROGRAM])
    for tries in range(PATIENCE):
        if await picture(hands) != before:
            return
        await settle(hands, longer(tries))


async def calendar(hands: Hands) -> dict[int, Day]:
    """Have the program's window fill the screen, and find the days of its month."""
    [weekday] = await find(hands, "Wednesday")
    await click(hands, weekday.middle[0], weekday.middle[1] - TITLE, count=2)
    await settle(hands, 0.5)
    days = {each["day"]: Day(each["x"], each["y"], each["text"]) for each in await look(hands, "days")}
    if len(days) < 28:
        raise ValueError(f"the calendar shows {len(days)} days")
    return days


async def opened(hands: Hands, known: Dialog | None) -> Dialog:
    """Wait for the dialog. What is in it is looked for once; then it is known by its looks."""
    if known is not None and await comes(hands, known):
        return known
    label, add = await find(hands, "Summary", "Add to")
    return Dialog(label, add, await picture(hands, label[1:]))


async def comes(hands: Hands, dialog: Dialog, shown: bool = True) -> bool:
    """Wait until a dialog shows, or no longer does; say whether that came about."""
    for tries in range(PATIENCE):
        if (await picture(hands, dialog.label[1:]) == dialog.looks) is shown:
            return True
        await settle(hands, longer(tries))
    return False


async def find(hands: Hands, *phrases: str) -> list[Word]:
    """Look until phrases stand on the screen; give the first word of each."""
    for tries in range(PATIENCE):
        await settle(hands, longer(tries))
        seen = [Word(**each) for each in await look(hands, "words")]
        places = [place(each.split(), seen) for each in phrases]
        if None not in places:
            return [seen[at] for at in places if at is not None]
    raise ValueError(f"the screen shows no {' and '.join(phrases)}")


def place(phrase: list[str], seen: Sequence[Word]) -> int | None:
    """Say with which word a phrase begins."""
    texts = [re.sub(r"[^A-Za-z]", "", word.text) for word in seen]
    return next((at for at in range(len(texts)) if texts[at : at + len(phrase)] == phrase), None)


async def look(hands: Hands, what: str) -> Any:
    """Take a picture, and have it read in the desk, where a picture can hurt nobody."""
    await hands.write("window.png", await picture(hands))
    done = await hands.run(["python3", "look.py", what, "window.png"], timeout=60)
    if not done.ok:
        raise ValueError(f"the picture could not be read: {done.stderr.decode(errors='replace')[-300:]}")
    return json.loads(done.stdout)


async def picture(hands: Hands, region: Region = SCREEN) -> bytes:
    """Take a picture. Nobody out here reads it; that two of them are the same can be said without."""
    return (await use(hands, "screen_screenshot", region=list(region))).image


def longer(tries: int) -> float:
    """Say how long the picture shall stand still: a little longer each time, since what is the same gives the same."""
    return 0.1 + tries / 50


async def settle(hands: Hands, quiet: float = 0.2) -> None:
    """Wait until the picture stands still."""
    await use(hands, "screen_settle", quiet=quiet)


async def click(hands: Hands, x: int, y: int, count: int = 1) -> None:
    """Click at a point."""
    await use(hands, "screen_click", x=x, y=y, count=count)


async def use(hands: Hands, tool: str, **arguments: object) -> Observation:
    """Use a tool that must succeed."""
    seen = await hands.use(tool, **arguments)
    if not seen.ok:
        raise ValueError(seen.text)
    return seen
