"""The seam to the machine that a job runs on: `Host`, or `LocalMachine` in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from hotdesk.brief import CLOSED, Scope
from hotdesk.config import Config
from hotdesk.desk.image.description import ImageFacts
from hotdesk.desk.seam import Desk, DeskId, Spec
from hotdesk.event import Event, Note
from hotdesk.hands.toolbox import Toolbox, WheelState
from hotdesk.tool import Tool, Vision
from hotdesk.walls import WallCatalog


class Machine(Protocol):
    """Opens desks and records events."""

    @property
    def config(self) -> Config:
        """The settings."""
        ...

    @property
    def walls(self) -> WallCatalog:
        """The walls this machine has, and those that are not available."""
        ...

    def get_image_facts(self, name: str) -> ImageFacts:
        """Return the facts of an image on the machine that opens the desks."""
        ...

    async def prepare(self) -> None:
        """Start recording events."""
        ...

    def note(self, *events: Event) -> None:
        """Write events in one commit; they are on disk when this returns."""
        ...

    def certify(self, claim: Mapping[str, object]) -> bytes:
        """Sign a claim if the journal has evidence for it; return the certificate. The event is on disk by then."""
        ...

    def certify_swarm(self, swarm: str) -> bytes:
        """Sign the records of a swarm's items; return the certificate. The event is on disk by then."""
        ...

    def find_secrets(self, data: bytes, scope: Scope) -> tuple[str, ...]:
        """Return the names of secrets, of live desks and of a scope, whose value or placeholder occurs in `data`."""
        ...

    async def open(self, spec: Spec | None = None, scope: Scope = CLOSED) -> Desk:
        """Open a desk with the network access and secrets of `scope`."""
        ...

    async def burn(self, desk: DeskId) -> None:
        """Destroy a desk and everything in it. A second call does nothing."""
        ...

    def has(self, desk: DeskId) -> bool:
        """Return whether anything of a desk still exists."""
        ...

    async def enter_step(self, desk: DeskId, step: str) -> None:
        """Switch the door to another step's rules and grants; open connections are closed."""
        ...

    async def allow(self, desk: DeskId, rules: Sequence[str], by: str) -> None:
        """Add egress rules for a desk; raise `BriefError` if the operator's ceiling does not allow them."""
        ...

    async def try_grants(self, scope: Scope) -> tuple[str, ...]:
        """Return for each grant of a scope why it is unavailable, or `""` if it is available."""
        ...

    def get_wheel(self, desk: Desk) -> WheelState:
        """Return who controls a desk: its worker, unless a person has taken over."""
        ...

    def leave(self, desk: DeskId) -> None:
        """Stop the helpers that read a desk's screen and browser; the next step starts new ones."""
        ...

    def list_worker_tools(self, image: str, vision: Vision | None = None, *, exact: bool = False) -> Sequence[Tool]:
        """List the tools for a desk of an image before one is open; `exact` adds the tools for scripts."""
        ...

    async def hands(
        self, desk: Desk, vision: Vision | None = None, note: Note | None = None, *, exact: bool = False
    ) -> Toolbox:
        """Return all tools for a desk. Each use is passed to `note`, or recorded in the journal without it."""
        ...
