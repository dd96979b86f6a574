"""All tools of one desk: checked, refused while they may not be used, and every use written down."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal, Protocol

from hotdesk.desk.seam import DeskId
from hotdesk.errors import BriefError, DeskError, DeskGone, printable
from hotdesk.event import Note, Used
from hotdesk.tool import Arguments, Hand, Observation, Tool, Wrong

UNKNOWN = "?"
"""The name of a tool that does not exist, in the journal: what was asked for is anybody's text."""
SIGHTED = ("screen_", "browser_")
"""What tools are called that need a screen."""
TAKEN = "a person took the wheel"
WORDS = 64
"""Characters of a note or fallback that are written down."""


class Wheel(Protocol):
    """Who drives: the worker, or a person who has taken over."""

    def refusal(self) -> str | None:
        """Say why the worker's tools are refused now; None: they are not."""
        ...

    async def welcome(self) -> Observation | None:
        """Tell, once after a person handed back, what changed; None: nothing to tell. Fails only by `DeskGone`."""
        ...

    async def drive(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something as the worker; it is broken off when a person takes over, which is no error."""
        ...


class Free:
    """A wheel nobody ever takes."""

    def refusal(self) -> str | None:
        """Refuse nothing."""
        return None

    async def welcome(self) -> Observation | None:
        """Tell nothing."""
        return None

    async def drive(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do it."""
        await work()


@dataclass(frozen=True, slots=True)
class Use:
    """What came of a use, and what is written down of it."""

    seen: Observation
    outcome: Literal["done", "failed", "refused", "wrong"]
    note: str = ""
    """Never the desk's or the worker's words: they may hold secrets."""


class Toolbox:
    """Some hands at one desk, used as one."""

    def __init__(
        self,
        hands: Sequence[Hand],
        note: Note,
        wheel: Wheel,
        desk_id: DeskId,
        allowed: Collection[str] | None = None,
    ) -> None:
        self.note = note
        self.wheel = wheel
        self.desk_id = desk_id
        self.allowed = allowed
        """Names of the tools that may be used now; None: all."""
        self.places = {tool.name: (hand, tool) for hand in hands for tool in hand.tools}
        if len(self.places) != sum(len(hand.tools) for hand in hands):
            raise BriefError("two tools of a toolbox have one name")

    @property
    def tools(self) -> tuple[Tool, ...]:
        """List every tool."""
        return tuple(tool for _, tool in self.places.values())

    def describe(self) -> list[dict[str, object]]:
        """Give the tools that may be used, as models are told of them."""
        usable = [self.places[name][1] for name in self.usable()]
        return [{"name": tool.name, "description": tool.what, "input_schema": tool.schema()} for tool in usable]

    async def use(self, name: str, arguments: object) -> Observation:
        """Use a tool. All that goes wrong is an observation, but for a desk that is gone: `DeskGone`."""
        began = time.monotonic()
        use = Use(Observation(ok=False), "failed", "it was broken off")
        try:
            use = await self.attempt(name, arguments)
        finally:
            known = name if name in self.places else UNKNOWN
            spent = int((time.monotonic() - began) * 1000)
            self.note(Used(self.desk_id, known, use.outcome, spent, use.seen.fallback[:WORDS], use.note[:WORDS]))
        return use.seen

    async def attempt(self, name: str, arguments: object) -> Use:
        """Use a tool, if there is one and it may be used."""
        if name not in self.places:
            return Use(Observation(self.unknown(name), ok=False), "wrong", "no such tool")
        if (why := self.wheel.refusal()) is not None:
            return Use(Observation(f"{name} was not used: {why}", ok=False), "refused", why)
        if self.allowed is not None and name not in self.allowed:
            return Use(Observation(self.forbidden(name), ok=False), "refused", "not allowed here")
        hand, tool = self.places[name]
        try:
            checked = tool.check(arguments)
        except Wrong as e:
            return Use(Observation(str(e), ok=False), "wrong")
        return await self.drive(hand, name, checked)

    async def drive(self, hand: Hand, name: str, arguments: Arguments) -> Use:
        """Have a hand do it, unless a person takes over meanwhile."""
        use = Use(Observation(f"{name} was broken off: {TAKEN}", ok=False), "refused", TAKEN)

        async def work() -> None:
            nonlocal use
            welcome = await self.wheel.welcome()
            done = await carry_out(hand, name, arguments)
            use = done if welcome is None else replace(done, seen=welcomed(welcome, done.seen))

        await self.wheel.drive(work)
        return use

    def unknown(self, name: str) -> str:
        """Say that there is no such tool, and which are near."""
        if name.startswith(SIGHTED):
            return f"This desk has no screen, and so no {printable(name)[:WORDS]}: open one from the image `desktop`."
        usable = self.usable()
        near = get_close_matches(name[:WORDS], usable, n=5, cutoff=0.7)
        there = f"Did you mean {' or '.join(near)}?" if near else f"There are {', '.join(usable) or 'none here'}."
        return f"There is no tool `{printable(name)[:WORDS]}`. {there}"

    def forbidden(self, name: str) -> str:
        """Say that a tool may not be used here, and which may."""
        return f"{name} was not used: this step does not allow it. It allows {', '.join(self.usable()) or 'no tool'}."

    def usable(self) -> list[str]:
        """List what may be used now."""
        return [each for each in self.places if self.allowed is None or each in self.allowed]


async def carry_out(hand: Hand, name: str, arguments: Arguments) -> Use:
    """Have a hand do it; what it could not do is told."""
    try:
        seen = await hand.use(name, arguments)
    except Wrong as e:
        return Use(Observation(str(e), ok=False), "wrong")
    except DeskGone:
        raise
    except (BriefError, DeskError) as e:
        return Use(Observation(f"{name} failed: {printable(str(e))}", ok=False), "failed", e.code)
    return Use(seen, "done" if seen.ok else "failed")


def welcomed(welcome: Observation, seen: Observation) -> Observation:
    """Put what a person left in front of what a tool gave; the tool's own picture is the newer one."""
    text = "\n\n".join(filter(None, (welcome.text, seen.text)))
    note = " ".join(filter(None, (welcome.note, seen.note)))
    if seen.image:
        return replace(seen, text=text, note=note)
    return replace(seen, text=text, note=note, image=welcome.image, media=welcome.media)
