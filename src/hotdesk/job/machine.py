"""The machine that a job runs on: `Host`, or one without walls in tests."""

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
        """Return the settings."""
        ...

    @property
    def walls(self) -> WallCatalog:
        """Return the walls this machine has and those it lacks."""
        ...

    def get_image_facts(self, name: str) -> ImageFacts:
        """Return what is known of an image where desks are opened."""
        ...

    async def prepare(self) -> None:
        """Start recording events."""
        ...

    def note(self, *events: Event) -> None:
        """Write events together: on disk when this returns."""
        ...

    def certify(self, claim: Mapping[str, object]) -> bytes:
        """Sign a check's evidence, if there is any; return the certificate. The event is on disk by then."""
        ...

    def certify_swarm(self, swarm: str) -> bytes:
        """Sign the records of a swarm's items; return the certificate. The event is on disk by then."""
        ...

    def find_secrets(self, data: bytes, scope: Scope) -> tuple[str, ...]:
        """Return the secrets, of live desks and of a scope, whose value or placeholder occurs in some bytes."""
        ...

    async def open(self, spec: Spec | None = None, scope: Scope = CLOSED) -> Desk:
        """Open a desk that reaches what its scope lists."""
        ...

    async def burn(self, desk: DeskId) -> None:
        """Destroy a desk and everything in it. A second call does nothing."""
        ...

    def has(self, desk: DeskId) -> bool:
        """Return whether anything of a desk is left."""
        ...

    async def enter_step(self, desk: DeskId, step: str) -> None:
        """Switch the door to another step's rules and grants; open connections are cut."""
        ...

    async def allow(self, desk: DeskId, rules: Sequence[str], by: str) -> None:
        """Let a desk reach more; raises `BriefError` when the operator does not allow it."""
        ...

    async def try_grants(self, scope: Scope) -> tuple[str, ...]:
        """Return for each grant of a scope why it is not available; empty if it is."""
        ...

    def get_wheel(self, desk: Desk) -> WheelState:
        """Return who controls a desk: its worker, unless a person has taken over."""
        ...

    def leave(self, desk: DeskId) -> None:
        """End the readers of a desk's screen and browser: the next step starts new ones."""
        ...

    def list_worker_tools(self, image: str, vision: Vision | None = None, *, exact: bool = False) -> Sequence[Tool]:
        """List the tools for a desk of an image, before there is one; `exact` adds tools for scripts."""
        ...

    async def hands(
        self, desk: Desk, vision: Vision | None = None, note: Note | None = None, *, exact: bool = False
    ) -> Toolbox:
        """Return all tools for a desk; each use is reported to `note`, or written down."""
        ...
