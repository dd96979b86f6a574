"""The machine that a job runs on: `Host`, or one without walls in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from hotdesk.brief import CLOSED, Scope
from hotdesk.config import Config
from hotdesk.desk.seam import Desk, DeskId, Spec
from hotdesk.event import Event, Note
from hotdesk.hands.toolbox import Toolbox, WheelState
from hotdesk.tool import Tool, Vision
from hotdesk.walls import WallCatalog


class Machine(Protocol):
    """Where desks are opened and events are written down."""

    @property
    def config(self) -> Config:
        """Return the settings."""
        ...

    @property
    def walls(self) -> WallCatalog:
        """Return the walls this machine has, and those it lacks."""
        ...

    async def prepare(self) -> None:
        """Be able to take notes."""
        ...

    def note(self, *events: Event) -> None:
        """Have events written down, together: on disk when this returns."""
        ...

    def certify(self, claim: Mapping[str, object]) -> bytes:
        """Have what was seen of a deliverable signed, if it was; give the certificate. That it was is on disk then."""
        ...

    def certify_swarm(self, swarm: str) -> bytes:
        """Have the records of a swarm's items signed; give the certificate. That it was is written down by then."""
        ...

    def find_secrets(self, data: bytes, scope: Scope) -> tuple[str, ...]:
        """Name the secrets of live desks and of a scope whose value or placeholder is in some bytes."""
        ...

    async def open(self, spec: Spec | None = None, scope: Scope = CLOSED) -> Desk:
        """Open a desk that reaches what its scope lists."""
        ...

    async def burn(self, desk: DeskId) -> None:
        """End a desk and everything of it. Twice is no error."""
        ...

    def has(self, desk: DeskId) -> bool:
        """Return whether anything of a desk is left."""
        ...

    async def enter_step(self, desk: DeskId, step: str) -> None:
        """Have the door hold another step's rules and grants; what was open is cut."""
        ...

    async def allow(self, desk: DeskId, rules: Sequence[str], by: str) -> None:
        """Let a desk reach something more; `BriefError` when the operator does not."""
        ...

    async def try_grants(self, scope: Scope) -> tuple[str, ...]:
        """Say of each grant of a scope why it cannot be had; empty: it can."""
        ...

    def get_wheel(self, desk: Desk) -> WheelState:
        """Return the wheel of a desk: its worker's, unless a person has taken over."""
        ...

    def leave(self, desk: DeskId) -> None:
        """Let go of whoever reads a desk's screen and browser: the next step has others."""
        ...

    def list_worker_tools(self, image: str, vision: Vision | None = None, *, exact: bool = False) -> Sequence[Tool]:
        """List what a worker can do at a desk of an image, before there is one; `exact` adds what is for scripts."""
        ...

    async def hands(
        self, desk: Desk, vision: Vision | None = None, note: Note | None = None, *, exact: bool = False
    ) -> Toolbox:
        """Return everything a worker can do at a desk; each use is told to `note`, or written down."""
        ...
