"""Access to a page that shows a desk: a code that enters once, a browser session, handles for streams.

Pure: time is given. A cookie of 127.0.0.1 goes to every port of it, so a session's is for one folder with a name that
no one else knows.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import field

from hotdesk.dataclass import dataclass

CODE_SECONDS = 60.0
"""How long a code enters."""
HANDLE_SECONDS = 10.0
"""How long a stream may be begun with a handle."""
MAX_HANDLES = 16
MAX_SESSIONS = 8


@dataclass(slots=True)
class PageSession:
    """One browser that entered."""

    place: str
    """The folder of the page, in its address."""
    key: str
    """What its cookie says."""
    viewer: str = ""
    """What its latest stream is called at the owner."""


@dataclass(slots=True)
class PageLogin:
    """The viewers that entered, and the codes that admit more."""

    clock: Callable[[], float]
    codes: dict[str, float] = field(default_factory=dict)
    """Codes that enter, and until when."""
    sessions: dict[str, PageSession] = field(default_factory=dict)
    """Who entered, by place."""
    handles: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Handles that begin a stream: whose, and until when."""

    def invite(self) -> str:
        code = secrets.token_urlsafe(24)
        self.codes[code] = self.clock() + CODE_SECONDS
        return code

    def enter(self, code: str) -> PageSession | None:
        """Admit a browser with a one-time code; None: the code is unknown."""
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
        """Make a handle with which this session begins one stream; the oldest of too many is void."""
        while len(self.handles) >= MAX_HANDLES:
            del self.handles[next(iter(self.handles))]
        handle = secrets.token_urlsafe(24)
        self.handles[handle] = (session.place, self.clock() + HANDLE_SECONDS)
        return handle

    def redeem(self, handle: str, session: PageSession) -> bool:
        """Return whether a handle begins a stream of this session's; whatever the answer, it begins no other."""
        place, until = self.handles.pop(handle, ("", 0.0))
        return place == session.place and self.clock() <= until

    def is_over(self) -> bool:
        return not self.sessions and all(until < self.clock() for until in self.codes.values())
