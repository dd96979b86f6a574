"""The wheel of one desk: a person takes it, the worker's tools are refused, and later it is told what changed."""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import anyio

from hotdesk.desk.background import Background
from hotdesk.errors import BriefError, DeskGone, HotdeskError, printable
from hotdesk.event import HandedBack, Note, TookOver
from hotdesk.hands.reader import BROWSER_PORT
from hotdesk.hands.seat import DISPLAY, Seat
from hotdesk.tool import Observation

LEASE = 90.0
"""Seconds a viewer may be silent before the worker has the wheel again: a page in the background wakes each minute."""
LOOKING = 3.0
"""Seconds that looking at a desk may take before a person is let at it, or the worker told."""
RETURNING = 10.0
"""Seconds a desk may take to go on after hand-back."""
MARK = "wheel"
"""What the picture is called that the screen is compared with."""
MOST_NAMES = 20
LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class Scene:
    """What is open at a desk. All of it is the desk's word."""

    windows: frozenset[str] = frozenset()
    pages: frozenset[str] = frozenset()


@dataclass(slots=True)
class Holder:
    """The person who drives."""

    viewer: int
    by: str
    """`uid 0 pid 4711`, as the kernel says."""
    since: float
    kept: float
    """When the viewer was last heard of."""
    scene: Scene = field(default_factory=Scene)


@dataclass(frozen=True, slots=True)
class Drive:
    """One takeover that is over, and that the worker was not told of yet."""

    seconds: float
    clicks: int
    keys: int
    scene: Scene


class Wheel:
    """Who drives a desk: the worker, unless a person has taken over."""

    def __init__(
        self,
        seat: Seat,
        hush: Callable[[bool], Awaitable[None]],
        note: Note,
        tasks: Background,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self.seat = seat
        self.hush = hush
        """Stops all of the desk but its screen, window manager and browser, or lets it go on."""
        self.note = note
        self.tasks = tasks
        self.secrets = secrets or {}
        """What stands for secrets in the desk, by their names."""
        self.holder: Holder | None = None
        self.driven: Drive | None = None
        self.lease = LEASE
        self.turning = anyio.Lock()
        self.under_way: set[anyio.CancelScope] = set()
        """What the worker is doing."""

    # -- the worker's side ------------------------------------------------------------------------------------

    def refusal(self) -> str | None:
        """Say why the worker's tools are refused now."""
        if self.holder is None:
            return None
        seconds = time.monotonic() - self.holder.since
        return f"a person has held the wheel of this desk for {seconds:.0f} s; try again when it is handed back"

    async def drive(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something as the worker; it is broken off when a person takes over."""
        with anyio.CancelScope() as scope:
            self.under_way.add(scope)
            try:
                await work()
            finally:
                self.under_way.discard(scope)

    async def welcome(self) -> Observation | None:
        """Tell, once after a hand-back, what the person did and what is different now, with a fresh picture."""
        drive, self.driven = self.driven, None
        if drive is None:
            return None
        changed, picture = 0.0, b""
        with suppress(HotdeskError), anyio.move_on_after(LOOKING):
            changed = share(await self.ask("screen.difference", name=MARK))
            picture = (await self.seat.ask("screen.shot")).blob
        now = await self.look()
        text = (
            f"A person held the wheel for {drive.seconds:.0f} s ({drive.clicks} clicks, {drive.keys} keys) and handed "
            f"it back. {changed:.0%} of the screen is different."
        )
        lines = [text, *differences("Windows", drive.scene.windows, now.windows)]
        lines += differences("Pages", drive.scene.pages, now.pages)
        return Observation("\n".join(lines), image=picture, media="image/png" if picture else "")

    # -- the person's side ------------------------------------------------------------------------------------

    async def take(self, viewer: int, by: str) -> None:
        """Give the wheel to a viewer, once nothing but screen, window manager and browser runs in the desk."""
        async with self.turning:
            if self.holder is not None and self.holder.viewer != viewer:
                raise BriefError(f"{self.holder.by} holds the wheel; it can be taken when they hand it back")
            if self.holder is not None:
                return
            now = time.monotonic()
            self.holder = Holder(viewer, by, now, now)  # from here on tools are refused
            for scope in self.under_way:
                scope.cancel()
            try:
                self.holder.scene = await self.look(mark=True)
                self.note(TookOver(self.seat.desk.id, viewer, by))
                await self.hush(True)
                await self.seat.ask("view.lease", number=viewer)
            except BaseException:
                with anyio.move_on_after(RETURNING, shield=True), suppress(HotdeskError):
                    await self.let_go_on()
                    self.note(HandedBack(self.seat.desk.id, viewer, "", 0.0, 0, 0, "it could not be taken"))
                self.holder = None
                raise
        self.tasks.start(functools.partial(self.guard, self.holder))

    def keep(self, viewer: int) -> None:
        """Hear that a viewer is still there."""
        if self.holder is not None and self.holder.viewer == viewer:
            self.holder.kept = time.monotonic()

    async def type_secret(self, viewer: int, name: str) -> None:
        """Type a secret's placeholder where the desk's cursor is, for whoever drives."""
        if self.holder is None or self.holder.viewer != viewer:
            raise BriefError("only who holds the wheel has a secret typed")
        if name not in self.secrets:
            raise BriefError(f"this desk has no placeholder for {shown(name)!r}")
        keys = [["key", ord(each), down] for each in self.secrets[name] for down in (True, False)]
        await self.seat.ask("screen.input", events=keys)

    async def hand_back(self, viewer: int, by: str, note: str = "") -> None:
        """Give the wheel back to the worker; from who does not hold it this is nothing."""
        with anyio.CancelScope(shield=True):
            async with self.turning:
                holder = self.holder
                if holder is None or holder.viewer != viewer:
                    return
                seconds = round(time.monotonic() - holder.since, 1)
                try:
                    with anyio.move_on_after(RETURNING):
                        clicks, keys = await self.let_go_on()
                        self.driven = Drive(seconds, clicks, keys, holder.scene)
                        self.note(HandedBack(self.seat.desk.id, viewer, by, seconds, clicks, keys, note))
                finally:
                    self.holder = None

    async def let_go_on(self) -> tuple[int, int]:
        """Have a person drive no longer, then the desk's programs go on; give how much was clicked and typed."""
        acted: object = None
        confirmed = False
        with suppress(HotdeskError), anyio.move_on_after(LOOKING):
            await self.seat.ask("view.lease", number=0)
            confirmed = True
            acted = (await self.seat.ask("view.acted")).value
        if not confirmed:
            self.seat.close()  # or a person might drive on beside the worker
        with suppress(DeskGone):
            await self.hush(False)
        match acted:
            case {"clicks": int(clicks), "keys": int(keys)}:
                return clicks, keys
        return 0, 0

    async def guard(self, holder: Holder) -> None:
        """Take the wheel back from a viewer that is not heard of any more."""
        while self.holder is holder:
            left = holder.kept + self.lease - time.monotonic()
            if left <= 0:
                await self.hand_back(holder.viewer, "", "its viewer was not heard of")
                return
            await anyio.sleep(left)

    # -- looking ----------------------------------------------------------------------------------------------

    async def look(self, mark: bool = False) -> Scene:
        """See what is open at the desk, as far as it says within a moment."""
        windows: frozenset[str] = frozenset()
        pages: frozenset[str] = frozenset()
        with suppress(HotdeskError), anyio.move_on_after(LOOKING):
            if mark:
                await self.seat.ask("screen.mark", name=MARK)
            windows = await self.windows()
            pages = await self.pages()
        return Scene(windows, pages)

    async def windows(self) -> frozenset[str]:
        """List the titles of windows."""
        done = await self.seat.desk.run(["wmctrl", "-l"], env=DISPLAY, timeout=LOOKING, output_limit=1 << 16)
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        told = (line.split(maxsplit=3) for line in lines[:MOST_NAMES])
        return frozenset(shown(words[3]) for words in told if len(words) == 4)  # a title may be empty

    async def pages(self) -> frozenset[str]:
        """List the addresses the browser shows, if one runs."""
        (await self.seat.desk.dial(BROWSER_PORT)).close()
        told = await self.ask("browser.tabs")
        tabs = told.get("tabs") if isinstance(told, dict) else None
        listed = (
            [tab.get("url") for tab in tabs[:MOST_NAMES] if isinstance(tab, dict)] if isinstance(tabs, list) else []
        )
        return frozenset(shown(url.partition("?")[0]) for url in listed if isinstance(url, str))

    async def ask(self, verb: str, **arguments: object) -> object:
        """Ask the reader for a value."""
        return (await self.seat.ask(verb, **arguments)).value


def shown(text: str) -> str:
    """Write a desk's word so that it can be put in a line."""
    return printable(text)[:LONGEST_NAME]


def share(told: object) -> float:
    """Read what share of a screen changed."""
    match told:
        case {"changed": (int() | float()) as changed}:
            return float(min(1, max(0, changed)))
    return 0.0


def differences(what: str, before: frozenset[str], now: frozenset[str]) -> list[str]:
    """Say what came and what went."""
    came, went = sorted(now - before), sorted(before - now)
    lines = [f"{what} that came: {'; '.join(came)}."] if came else []
    return [*lines, f"{what} that went: {'; '.join(went)}."] if went else lines
