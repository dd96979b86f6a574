"""All tools of one desk: checked, suspended or refused while a person has control, and every use recorded."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from difflib import get_close_matches
from typing import Literal, Protocol

import anyio

from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import DeskId
from hotdesk.errors import BriefError, DeskError, DeskGone, make_printable
from hotdesk.event import Note, Used
from hotdesk.hands.picture import Sight
from hotdesk.tool import Arguments, Hand, Observation, Tool, ToolArgumentError

UNKNOWN = "?"
"""The journal's name for a tool that does not exist: the requested name is untrusted text."""
_SIGHTED = ("screen_", "browser_")
"""Prefixes of the tools that need a screen."""
REPEATABLE = frozenset({
    "browser_goto", "browser_read", "browser_snapshot", "browser_screenshot", "browser_wait_for", "browser_downloads",
    "browser_fill", "browser_select", "browser_hover", "screen_read", "screen_screenshot", "screen_zoom", "screen_move",
    "screen_wait", "screen_settle", "screen_cursor_position", "screen_windows", "screen_focus", "screen_clipboard_get",
    "screen_clipboard_set",
})  # fmt: skip
"""Tools of screen and browser that are safe to repeat: after a takeover cancels one, it is used again."""
TAKEN = "a person took over"
WORDS = 64
"""Characters of a note or fallback that are recorded."""
BLIND = (
    "The result has a picture, but the model in use cannot see images. Read the screen as text with screen_read, a web "
    "page with browser_read or browser_snapshot."
)


class WheelState(Protocol):
    """Who controls the desk: the worker, or a person who has taken over."""

    def explain_refusal(self) -> str | None:
        """Explain why the worker's tools are refused now, or return `None` if they are not."""
        ...

    async def wait_until_free(self) -> None:
        """Wait until no person has control."""
        ...

    def reserve(self) -> AbstractAsyncContextManager[None]:
        """Wait until no person has control, and prevent a takeover inside the block."""
        ...

    async def welcome(self) -> Observation | None:
        """Report once what changed while a person had control, or return `None`. Raises nothing but `DeskGone`."""
        ...

    async def drive(self, work: Callable[[], Awaitable[None]], *, stands_still: bool, repeatable: bool) -> None:
        """Run a call of the worker. If a person takes over, the call is frozen with the desk's programs
        (`stands_still`) or may be cancelled after a moment, which is not an error.
        """
        ...

    worker_clock: Callable[[], AbstractContextManager[None]]
    """Entered while a person has control: stops the worker's clock."""


class Free:
    """A wheel that is never taken over."""

    worker_clock: Callable[[], AbstractContextManager[None]] = nullcontext

    def explain_refusal(self) -> str | None:
        return None

    async def wait_until_free(self) -> None:
        """Return at once."""

    @asynccontextmanager
    async def reserve(self) -> AsyncIterator[None]:
        yield

    async def welcome(self) -> Observation | None:
        return None

    async def drive(self, work: Callable[[], Awaitable[None]], *, stands_still: bool, repeatable: bool) -> None:
        await work()


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The result of a tool, and what is recorded about it."""

    observation: Observation
    outcome: Literal["done", "failed", "refused", "wrong"]
    note: str = ""
    """Never text from the desk or the worker: it may contain secrets."""
    interrupted: bool = False
    """Whether a person took over before the call ended."""


class Toolbox:
    """Several hands at one desk, combined."""

    def __init__(
        self,
        hands: Sequence[Hand],
        note: Note,
        wheel: WheelState,
        desk_id: DeskId,
        allowed: Collection[str] | None = None,
        *,
        note_in_thread: bool = False,
        sight: Sight | None = None,
    ) -> None:
        self.note = note
        self.note_in_thread = note_in_thread
        """Whether `note` waits for a disk, so that it must not run in this event loop."""
        self.wheel = wheel
        self.desk_id = desk_id
        self.sight = sight or Sight()
        self.allowed = allowed
        """Names of the tools that may be used now, or `None` for all."""
        self.waits = False
        """Whether a call waits while a person has control; otherwise it is refused."""
        self.places = {tool.name: (hand, tool) for hand in hands for tool in hand.tools}
        if len(self.places) != sum(len(hand.tools) for hand in hands):
            raise BriefError("two tools of a toolbox have the same name")

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(tool for _, tool in self.places.values())

    def describe(self) -> list[dict[str, object]]:
        usable = [self.places[name][1] for name in self.list_usable()]
        return [{"name": tool.name, "description": tool.what, "input_schema": tool.build_schema()} for tool in usable]

    async def use(self, name: str, arguments: object) -> Observation:
        """Use a tool. Errors are returned as observations, except `DeskGone`."""
        began = time.monotonic()
        use = ToolOutcome(Observation(ok=False), "failed", "it was interrupted")
        try:
            use = await self.attempt(name, arguments)
        finally:
            tool = name if name in self.places else UNKNOWN
            spent = int((time.monotonic() - began) * 1000)
            used = Used(self.desk_id, tool, use.outcome, spent, use.observation.fallback[:WORDS], use.note[:WORDS])
            if self.note_in_thread:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self.note, used)
            else:
                self.note(used)
        return use.observation if self.sight.sees else _describe_picture(use.observation)

    async def attempt(self, name: str, arguments: object) -> ToolOutcome:
        if name not in self.places:
            return ToolOutcome(Observation(self.describe_unknown(name), ok=False), "wrong", "no such tool")
        if not self.waits and (why := self.wheel.explain_refusal()) is not None:
            return ToolOutcome(Observation(f"{name} was not used: {why}", ok=False), "refused", why)
        if self.allowed is not None and name not in self.allowed:
            return ToolOutcome(Observation(self.describe_forbidden(name), ok=False), "refused", "not allowed here")
        hand, tool = self.places[name]
        try:
            checked = tool.check(arguments)
        except ToolArgumentError as e:
            return ToolOutcome(Observation(str(e), ok=False), "wrong")
        if not self.waits:
            return await self.drive(hand, name, checked)
        return await self.drive_on(hand, name, checked)

    async def drive_on(self, hand: Hand, name: str, arguments: Arguments) -> ToolOutcome:
        """Use a hand while no person has control; an interrupted call is repeated if that is safe, or reported."""
        await self.wheel.wait_until_free()
        use = await self.drive(hand, name, arguments)
        while use.interrupted:
            await self.wheel.wait_until_free()
            if name not in REPEATABLE:
                welcome = await self.wheel.welcome()
                return use if welcome is None else replace(use, observation=_add_welcome(welcome, use.observation))
            use = await self.drive(hand, name, arguments)
        return use

    async def drive(self, hand: Hand, name: str, arguments: Arguments) -> ToolOutcome:
        """Use a hand unless a person takes over meanwhile; the result includes the person's changes."""
        use = ToolOutcome(Observation(_describe_interruption(name), ok=False), "refused", TAKEN, interrupted=True)

        async def work() -> None:
            nonlocal use
            before = await self.wheel.welcome()
            done = await carry_out(hand, name, arguments)
            after = await self.wheel.welcome()
            for welcome in filter(None, (after, before)):
                done = replace(done, observation=_add_welcome(welcome, done.observation))
            use = done

        await self.wheel.drive(work, stands_still=not name.startswith(_SIGHTED), repeatable=name in REPEATABLE)
        return use

    def describe_unknown(self, name: str) -> str:
        if name.startswith(_SIGHTED):
            return (
                f"There is no tool `{make_printable(name)[:WORDS]}`: this desk has no screen. The image `desktop` "
                "has one."
            )
        usable = self.list_usable()
        near = get_close_matches(name[:WORDS], usable, n=5, cutoff=0.7)
        there = f"Did you mean {' or '.join(near)}?" if near else f"The tools are: {', '.join(usable) or 'none'}."
        return f"There is no tool `{make_printable(name)[:WORDS]}`. {there}"

    def describe_forbidden(self, name: str) -> str:
        allowed = ", ".join(self.list_usable()) or "no tool"
        return f"{name} was not used: this step does not allow it. The step allows {allowed}."

    def list_usable(self) -> list[str]:
        return [each for each in self.places if self.allowed is None or each in self.allowed]


async def carry_out(hand: Hand, name: str, arguments: Arguments) -> ToolOutcome:
    """Use a hand; return its failures as results."""
    try:
        observation = await hand.use(name, arguments)
    except ToolArgumentError as e:
        return ToolOutcome(Observation(str(e), ok=False), "wrong")
    except DeskGone:
        raise
    except (BriefError, DeskError) as e:
        return ToolOutcome(Observation(f"{name} failed: {make_printable(str(e))}", ok=False), "failed", e.code)
    return ToolOutcome(observation, "done" if observation.ok else "failed")


def _describe_interruption(name: str) -> str:
    return (
        f"{name} was interrupted because {TAKEN}. It may have taken effect, in part or completely. When the desk is "
        "handed back, look at the desk first. Repeat the call only if it has not taken effect."
    )


def _describe_picture(observation: Observation) -> Observation:
    """Replace a picture with words, for a model that cannot see."""
    if not observation.image:
        return observation
    text = f"{observation.text}\n{BLIND}".lstrip()
    return replace(observation, text=text, image=b"", media="")


def _add_welcome(welcome: Observation, observation: Observation) -> Observation:
    """Add a report of a person's changes to a tool's result, as a note: scripts rely on the tool's own text.

    If the tool returned a picture, that one stays, because it is newer.
    """
    note = "\n".join(filter(None, (welcome.text, welcome.note, observation.note)))
    if observation.image:
        return replace(observation, note=note)
    return replace(observation, note=note, image=welcome.image, media=welcome.media)
