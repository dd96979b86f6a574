"""Takeover of one desk: a person takes control, the worker is suspended, and later learns what changed."""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import field

import anyio

from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, DeskError, DeskGone, HotdeskError, make_printable
from hotdesk.event import HandedBack, Note, TookOver
from hotdesk.hands.reader import BROWSER_PORT
from hotdesk.hands.screen.reader_client import DISPLAY, Seat
from hotdesk.ipc.tasks import Background
from hotdesk.tool import Observation

_LEASE_S = 90.0
"""Seconds without a sign of the viewer until the worker gets control back: a background page wakes once a minute."""
LOOK_TIMEOUT_S = 3.0
"""Seconds that recording a desk's state may take before a person gets control, or the worker is informed."""
FINISH_TIMEOUT_S, CANCEL_TIMEOUT_S = 10.0, 1.0
"""Seconds in which a screen or browser call may end by itself before it is cancelled: normal, and repeatable calls."""
STOPPING_SECONDS, STOP_AGAIN = 10.0, 0.1
"""Seconds in which a busy desk's programs must stop, and between two attempts."""
_RETURN_TIMEOUT_S, _THAW_INTERVAL_S = 10.0, 1.0
"""Seconds a desk may take to continue after control is handed back, and between two attempts if it does not."""
MARK = "wheel"
"""Name of the stored picture that the screen is compared with."""
MAX_NAMES = 20
MAX_NAME_CHARS = 120


@dataclass(frozen=True, slots=True)
class DesktopState:
    """The open windows and pages of a desk, as the desk reports them."""

    windows: frozenset[str] = frozenset()
    pages: frozenset[str] = frozenset()


@dataclass(slots=True)
class Holder:
    """The person who has control."""

    viewer: int
    by: str
    """The peer's credentials from the kernel, such as `uid 0 pid 4711`."""
    since: float
    renewed_at: float
    """When the viewer last sent a sign."""
    scene: DesktopState = field(default_factory=DesktopState)
    drives: bool = False
    """Whether their keys reach the desk; until then its programs are being stopped."""


@dataclass(frozen=True, slots=True)
class PastTakeovers:
    """Finished takeovers that were not reported to the worker yet."""

    seconds: float
    clicks: int
    keys: int
    scene: DesktopState
    """What was open before the first of them."""

    def merge_earlier(self, before: PastTakeovers | None) -> PastTakeovers:
        if before is None:
            return self
        return PastTakeovers(
            before.seconds + self.seconds, before.clicks + self.clicks, before.keys + self.keys, before.scene
        )


@dataclass(slots=True, eq=False)
class RunningCall:
    """One running tool call of the worker."""

    scope: anyio.CancelScope
    patience: float | None
    """Seconds it may continue when a person takes over, or `None` if it is frozen with the desk's programs."""
    ended: anyio.Event = field(default_factory=anyio.Event)


class Wheel:
    """Who controls a desk: the worker, unless a person has taken over."""

    def __init__(
        self,
        seat: Seat,
        suspend_desk: Callable[[bool], Awaitable[None]],
        note: Note,
        tasks: Background,
        secrets: Mapping[str, str] | None = None,
        has_worker: Callable[[], bool] = lambda: True,
    ) -> None:
        self.seat = seat
        self.suspend_desk = suspend_desk
        """Freezes all of the desk except its screen, window manager and browser, or thaws it."""
        self.note = note
        self.tasks = tasks
        self.secrets = secrets or {}
        """Placeholders of the desk's secrets, by the secrets' names."""
        self.has_worker = has_worker
        """Returns whether a worker uses the desk; programs of a desk that only people use are not frozen."""
        self.worker_clock: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered while a person has control: stops the worker's clock."""
        self.holder: Holder | None = None
        self.driven: PastTakeovers | None = None
        self.lease = _LEASE_S
        self.stopping = STOPPING_SECONDS
        self.returning, self.thawing = _RETURN_TIMEOUT_S, _THAW_INTERVAL_S
        self.turning = anyio.Lock()
        self.free = anyio.Event()
        """Set while no person has control."""
        self.free.set()
        self.desk_suspended = False
        self.is_thawing = False
        """Whether a task tries to continue the desk's programs."""
        self.suspended = ExitStack()
        self.under_way: set[RunningCall] = set()

    # -- the worker's side ------------------------------------------------------------------------------------

    def explain_refusal(self) -> str | None:
        if self.holder is None:
            return None
        seconds = time.monotonic() - self.holder.since
        return f"a person has had control of this desk for {seconds:.0f} s; try again when they hand it back"

    async def wait_until_free(self) -> None:
        while self.holder is not None:
            await self.free.wait()

    @asynccontextmanager
    async def reserve(self) -> AsyncIterator[None]:
        """Wait until no person has control, and prevent a takeover inside the block."""
        while True:
            await self.wait_until_free()
            async with self.turning:
                if self.holder is None:
                    yield
                    return

    async def drive(self, work: Callable[[], Awaitable[None]], *, stands_still: bool, repeatable: bool) -> None:
        """Run a call of the worker. A takeover freezes it with the desk's programs, or cancels it after a moment."""
        patience = None if stands_still else CANCEL_TIMEOUT_S if repeatable else FINISH_TIMEOUT_S
        with anyio.CancelScope() as scope:
            act = RunningCall(scope, patience)
            self.under_way.add(act)
            try:
                await work()
            finally:
                self.under_way.discard(act)
                act.ended.set()

    async def welcome(self) -> Observation | None:
        """Report once, after control is handed back, what the person did and what changed, with a fresh picture."""
        drive, self.driven = self.driven, None
        if drive is None:
            return None
        try:
            return await self.tell(drive)
        except BaseException:
            self.driven = self.driven or drive
            raise

    async def tell(self, drive: PastTakeovers) -> Observation:
        changed, picture = 0.0, b""
        with suppress(HotdeskError), anyio.move_on_after(LOOK_TIMEOUT_S):
            changed = read_changed_share(await self.ask("screen.difference", name=MARK))
            picture = (await self.seat.ask("screen.shot")).blob
        now = await self.look()
        text = (
            f"A person controlled this desk for {drive.seconds:.0f} s ({drive.clicks} clicks, {drive.keys} keys) and "
            f"handed it back. {changed:.0%} of the screen changed in that time."
        )
        lines = [text, *describe_differences("Windows", drive.scene.windows, now.windows)]
        lines += describe_differences("Pages", drive.scene.pages, now.pages)
        return Observation("\n".join(lines), image=picture, media="image/png" if picture else "")

    # -- the person's side ------------------------------------------------------------------------------------

    async def take(self, viewer: int, by: str) -> None:
        """Give a viewer control once the worker is suspended; wait while a takeover is prevented."""
        async with self.turning:
            if self.holder is not None and self.holder.viewer != viewer:
                raise BriefError(
                    f"{self.holder.by} has control of this desk; you can take over after they hand it back"
                )
            if self.holder is not None:
                return
            await self.seat.ask("view.present", number=viewer)
            holder = self.begin(viewer, by)
            try:
                await self.wait_for_acts()
                scene = await self.look(mark=self.driven is None)
                holder.scene = scene if self.driven is None else self.driven.scene
                await self.record(TookOver(self.seat.desk.id, viewer, by))
                await self.stop()
                await self.seat.ask("view.lease", number=viewer)
            except BaseException:
                with anyio.CancelScope(shield=True), suppress(HotdeskError):
                    await self.let_go_on()
                    await self.record_return(
                        HandedBack(self.seat.desk.id, viewer, "", 0.0, 0, 0, "control could not be taken")
                    )
                self.end()
                raise
            holder.drives = True
        self.tasks.start(functools.partial(self.guard, holder))

    async def record(self, event: TookOver) -> None:
        """Record an event in a thread, because it waits for the disk and the event loop must not."""
        await anyio.to_thread.run_sync(self.note, event)

    async def record_return(self, event: HandedBack) -> None:
        """Record an event; if that takes too long, the worker continues before it is done."""
        with anyio.move_on_after(self.returning):
            await anyio.to_thread.run_sync(self.note, event, abandon_on_cancel=True)

    def begin(self, viewer: int, by: str) -> Holder:
        """Suspend the worker: from now on its calls wait or are refused, and its clock is stopped."""
        now = time.monotonic()
        holder = self.holder = Holder(viewer, by, now, now)
        self.free = anyio.Event()
        self.suspended.enter_context(self.worker_clock())
        return holder

    def end(self) -> None:
        self.holder = None
        self.suspended.close()
        self.free.set()

    async def wait_for_acts(self) -> None:
        """Wait for calls that are not frozen with the desk's programs, and cancel those that take too long."""
        async with anyio.create_task_group() as tasks:
            for act in self.under_way:
                if act.patience is not None:
                    tasks.start_soon(self.end_act, act, act.patience)

    async def end_act(self, act: RunningCall, patience: float) -> None:
        with anyio.move_on_after(patience) as moment:
            await act.ended.wait()
        if moment.cancelled_caught:
            act.scope.cancel()
            await act.ended.wait()

    async def stop(self) -> None:
        """Freeze the desk's programs if a worker uses it; a busy desk may need several attempts."""
        if not self.has_worker():
            return
        end = time.monotonic() + self.stopping
        while True:
            try:
                await self.suspend_desk(True)
            except DeskGone:
                raise
            except DeskError:
                if time.monotonic() > end:
                    raise
                await anyio.sleep(STOP_AGAIN)
            else:
                self.desk_suspended = True
                return

    def leave(self) -> None:
        """Record that control was handed back, because the desk has ended."""
        if (holder := self.holder) is not None and holder.drives:
            seconds = round(time.monotonic() - holder.since, 1)
            with suppress(HotdeskError):
                self.note(HandedBack(self.seat.desk.id, holder.viewer, "", seconds, 0, 0, "its desk ended"))
            self.end()

    def keep(self, viewer: int) -> None:
        if self.holder is not None and self.holder.viewer == viewer:
            self.holder.renewed_at = time.monotonic()

    async def type_secret(self, viewer: int, name: str) -> None:
        if self.holder is None or self.holder.viewer != viewer:
            raise BriefError("only the person who has control of the desk can type a secret; take control first")
        if name not in self.secrets:
            listed = ", ".join(map(_sanitize_word, sorted(self.secrets))) or "none"
            raise BriefError(
                f"this desk was granted no secret {_sanitize_word(name)!r} to type; its secrets are: {listed}"
            )
        keys = [["key", ord(each), down] for each in self.secrets[name] for down in (True, False)]
        await self.seat.ask("screen.input", events=keys)

    async def hand_back(self, viewer: int, by: str, note: str = "") -> None:
        """Give control back to the worker; without effect from a viewer that does not have it."""
        if self.holder is None or self.holder.viewer != viewer:
            return
        with anyio.CancelScope(shield=True):
            async with self.turning:
                holder = self.holder
                if holder is None or holder.viewer != viewer:
                    return
                seconds = round(time.monotonic() - holder.since, 1)
                try:
                    clicks, keys = await self.let_go_on()
                    self.driven = PastTakeovers(seconds, clicks, keys, holder.scene).merge_earlier(self.driven)
                    await self.record_return(HandedBack(self.seat.desk.id, viewer, by, seconds, clicks, keys, note))
                finally:
                    self.end()

    async def let_go_on(self) -> tuple[int, int]:
        """End a person's control, then thaw the desk's programs; return the numbers of clicks and keys."""
        acted = await self.end_lease()
        if self.has_worker() or self.desk_suspended:
            self.desk_suspended = True
            if not await self.thaw() and not self.is_thawing:
                self.is_thawing = True
                self.tasks.start(self.keep_thawing)
        match acted:
            case {"clicks": int(clicks), "keys": int(keys)}:
                return clicks, keys
        return 0, 0

    async def end_lease(self) -> object:
        """End a person's control; return what they did. A reader that does not confirm it in time is ended."""
        acted: object = None
        confirmed = False

        async def give_up() -> None:
            await anyio.sleep(LOOK_TIMEOUT_S)
            if not confirmed:
                self.seat.close()  # also ends a request that is being sent, which cannot be cancelled
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(give_up)
            with suppress(HotdeskError):
                await self.seat.ask("view.lease", number=0)
                confirmed = True
                acted = (await self.seat.ask("view.acted")).value
            tasks.cancel_scope.cancel()
        if not confirmed:
            self.seat.close()  # otherwise the person might act at the same time as the worker
        return acted

    async def thaw(self) -> bool:
        """Continue the desk's programs; return whether that succeeded in time, or the desk is gone."""
        with suppress(HotdeskError), anyio.move_on_after(self.returning):
            with suppress(DeskGone):
                await self.suspend_desk(False)
            self.desk_suspended = False
        return not self.desk_suspended

    async def keep_thawing(self) -> None:
        """Try again to continue the desk's programs, except while a person has control."""
        while self.desk_suspended:
            await anyio.sleep(self.thawing)
            async with self.reserve():
                if self.desk_suspended:
                    await self.thaw()
        self.is_thawing = False

    async def guard(self, holder: Holder) -> None:
        while self.holder is holder:
            remaining = holder.renewed_at + self.lease - time.monotonic()
            if remaining <= 0:
                with suppress(HotdeskError):  # it cannot be recorded; control is returned all the same
                    await self.hand_back(holder.viewer, "", "the person's viewer did not respond")
                return
            await anyio.sleep(remaining)

    # -- state of the desk ------------------------------------------------------------------------------------

    async def look(self, mark: bool = False) -> DesktopState:
        windows: frozenset[str] = frozenset()
        pages: frozenset[str] = frozenset()
        with suppress(HotdeskError), anyio.move_on_after(LOOK_TIMEOUT_S):
            if mark:
                await self.seat.ask("screen.mark", name=MARK)
            windows = await self.list_window_titles()
            pages = await self.list_page_addresses()
        return DesktopState(windows, pages)

    async def list_window_titles(self) -> frozenset[str]:
        done = await self.seat.desk.run(["wmctrl", "-l"], env=DISPLAY, timeout=LOOK_TIMEOUT_S, output_limit=1 << 16)
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        rows = (line.split(maxsplit=3) for line in lines[:MAX_NAMES])
        return frozenset(_sanitize_word(words[3]) for words in rows if len(words) == 4)  # a title may be empty

    async def list_page_addresses(self) -> frozenset[str]:
        (await self.seat.desk.dial(BROWSER_PORT)).close()
        reply = await self.ask("browser.tabs")
        tabs = reply.get("tabs") if isinstance(reply, dict) else None
        listed = [tab.get("url") for tab in tabs[:MAX_NAMES] if isinstance(tab, dict)] if isinstance(tabs, list) else []
        return frozenset(_sanitize_word(url.partition("?")[0]) for url in listed if isinstance(url, str))

    async def ask(self, verb: str, **arguments: object) -> object:
        return (await self.seat.ask(verb, **arguments)).value


def _sanitize_word(text: str) -> str:
    return make_printable(text)[:MAX_NAME_CHARS]


def read_changed_share(value: object) -> float:
    match value:
        case {"changed": (int() | float()) as changed}:
            return float(min(1, max(0, changed)))
    return 0.0


def describe_differences(what: str, before: frozenset[str], now: frozenset[str]) -> list[str]:
    came, went = sorted(now - before), sorted(before - now)
    lines = [f"{what} that appeared: {'; '.join(came)}."] if came else []
    return [*lines, f"{what} that disappeared: {'; '.join(went)}."] if went else lines
