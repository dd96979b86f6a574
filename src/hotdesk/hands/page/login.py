"""Access to a page that shows a desk: one-time codes, browser sessions, handles for streams.

Pure: the clock is an argument. A cookie of 127.0.0.1 is sent to every port there, so a session's cookie is limited to a
folder with an unguessable name.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import field

from hotdesk.dataclass import dataclass

CODE_SECONDS = 60.0
"""Seconds a code is valid."""
HANDLE_SECONDS = 10.0
"""Seconds within which a stream must begin with its handle."""
MAX_HANDLES = 16
MAX_SESSIONS = 8


@dataclass(slots=True)
class PageSession:
    """One browser that was admitted."""

    place: str
    """The folder of the page in its URL."""
    key: str
    """Value of the session's cookie."""
    viewer: str = ""
    """The owner's name for the session's latest stream."""


@dataclass(slots=True)
class PageLogin:
    """The admitted viewers, and the codes that admit more."""

    clock: Callable[[], float]
    codes: dict[str, float] = field(default_factory=dict)
    """Codes, and when they expire."""
    sessions: dict[str, PageSession] = field(default_factory=dict)
    """Sessions, by place."""
    handles: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Handles for one stream each: the session's place, and when they expire."""

    def invite(self) -> str:
        code = secrets.token_urlsafe(24)
        self.codes[code] = self.clock() + CODE_SECONDS
        return code

    def enter(self, code: str) -> PageSession | None:
        """Admit a browser with a one-time code; return `None` if the code is invalid or there are too many sessions."""
        if self.codes.pop(code, 0.0) < self.clock() or len(self.sessions) >= MAX_SESSIONS:
            return None
        session = PageSession(secrets.token_hex(16), secrets.token_urlsafe(32))
        self.sessions[session.place] = session
        return session

    def find(self, place: str, key: str) -> PageSession | None:
        session = self.sessions.get(place)
        expected = session.key if session is not None else ""
        return session if expected and secrets.compare_digest(expected.encode(), key.encode()) else None

    def issue(self, session: PageSession) -> str:
        """Return a handle with which this session can begin one stream; of too many, the oldest is dropped."""
        while len(self.handles) >= MAX_HANDLES:
            del self.handles[next(iter(self.handles))]
        handle = secrets.token_urlsafe(24)
        self.handles[handle] = (session.place, self.clock() + HANDLE_SECONDS)
        return handle

    def redeem(self, handle: str, session: PageSession) -> bool:
        """Return whether a handle is valid for this session. It is used up in any case."""
        place, until = self.handles.pop(handle, ("", 0.0))
        return place == session.place and self.clock() <= until

    def is_over(self) -> bool:
        return not self.sessions and all(until < self.clock() for until in self.codes.values())
