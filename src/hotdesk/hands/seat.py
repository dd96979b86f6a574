"""Who sits at a desk's screen: asks the reader, and has screen and browser started in the desk on first need."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

from hotdesk.desk.seam import Desk
from hotdesk.errors import DeskError, LinkError, printable
from hotdesk.hands.reader import PARTS, Strange, Told

PROGRAMS = "/usr/local/lib/hotdesk"
STARTS = {
    "screen": (f"{PROGRAMS}/session",),
    "view": (f"{PROGRAMS}/session",),
    "browser": (f"{PROGRAMS}/session", f"{PROGRAMS}/browser"),
}
"""What must run in the desk before a part can be asked: each returns at once when it runs already."""
START_SECONDS = 60.0
DISPLAY = {"DISPLAY": ":0"}
"""The variable by which programs find the screen."""


class Seat(Protocol):
    """One desk's screen and browser, reached through its reader."""

    @property
    def desk(self) -> Desk:
        """Give the desk."""
        ...

    async def ask(self, verb: str, /, **arguments: object) -> Told:
        """Ask the reader: `screen.shot`. What the desk cannot do is `DeskError`; what it does wrong, `LinkError`."""
        ...


class LocalSeat:
    """Reads in this very process, for tests: no wall stands between it and what the desk says."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.parts: dict[str, Any] = {}

    async def ask(self, verb: str, /, **arguments: object) -> Told:
        """Ask a part of the reader, made on first need."""
        name, _, method = verb.partition(".")
        if name not in self.parts:
            await start(self.desk, name)
            module, _, kind = PARTS[name].partition(":")
            self.parts[name] = getattr(import_module(module), kind)(self.desk.dial)
        part = self.parts[name]
        assert method in part.VERBS, verb
        try:
            told: Told = await getattr(part, method)(**arguments)
        except Strange as e:
            raise LinkError(f"the {name} of desk {self.desk.id} misbehaves: {printable(str(e))}") from e
        return told


async def start(desk: Desk, part: str) -> None:
    """Have what a part talks to running in the desk."""
    for program in STARTS[part]:
        done = await desk.run([program], timeout=START_SECONDS)
        if done.exit_code == 127:
            raise DeskError(f"desk {desk.id} has no {part}: open one from the image `desktop`")
        if not done.ok:
            why = printable(done.stderr.decode("utf-8", "replace").strip()[-300:])
            raise DeskError(f"the {part} of desk {desk.id} does not start: {why or f'it ended with {done.exit_code}'}")
