"""Browsers that signed in with a key: a cookie that no script can read, and a CSRF token for every change."""

from __future__ import annotations

import hmac
import secrets
import time

from starlette.requests import HTTPConnection

from hotdesk.api.caller import Caller
from hotdesk.api.keys import ApiKeys
from hotdesk.api.native.problems import ProblemError
from hotdesk.dataclass import dataclass

COOKIE = "__Host-hotdesk"
_SESSION_LIFETIME_S = 12 * 3600.0
"""Seconds a browser stays signed in."""
MAX_SESSIONS = 10_000
MAX_SESSIONS_PER_TENANT = 500
"""Sessions of one tenant: its oldest one ends first, never another tenant's."""
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
TRIES, WINDOW = 20, 60.0
"""Failed sign-ins from one address within that many seconds, after which it must wait."""


@dataclass(frozen=True, slots=True)
class BrowserSession:
    key: str
    """The id of the key it signed in with; the key is checked at every request, so that the session ends with it."""
    csrf: str
    until: float
    tenant: str


class Browsers:
    """Signed-in browsers; forgotten when the server ends."""

    def __init__(self, keys: ApiKeys) -> None:
        self.keys = keys
        self.sessions: dict[str, BrowserSession] = {}
        self.tries: dict[str, list[float]] = {}

    def begin(self, key: str, address: str) -> tuple[Caller, str, str]:
        """Sign a browser in; return its caller, cookie and CSRF token."""
        now = time.monotonic()
        self.require_patience(address, now)
        caller = self.keys.find(key)
        if caller is None:
            self.tries.setdefault(address, []).append(now)
            raise ProblemError(401, "key.unknown", "unknown key; create one with `hotdesk key new --name NAME`")
        self.sessions = {
            name: each for name, each in list(self.sessions.items())[-MAX_SESSIONS + 1 :] if each.until > now
        }
        own = [name for name, each in self.sessions.items() if each.tenant == caller.tenant]
        for name in own[: -MAX_SESSIONS_PER_TENANT + 1]:
            del self.sessions[name]
        cookie, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self.sessions[cookie] = BrowserSession(caller.key, csrf, now + _SESSION_LIFETIME_S, caller.tenant)
        return caller, cookie, csrf

    def require_patience(self, address: str, now: float) -> None:
        """Refuse an address with too many failed sign-ins."""
        self.tries = {
            name: late for name, each in self.tries.items() if (late := [at for at in each if at > now - WINDOW])
        }
        if len(self.tries.get(address, [])) >= TRIES:
            raise ProblemError(
                429, "session.tries", "too many failed sign-ins from this address; wait a minute", {"Retry-After": "60"}
            )

    def find_session(self, connection: HTTPConnection) -> BrowserSession | None:
        found = self.sessions.get(connection.cookies.get(COOKIE, ""))
        return found if found is not None and found.until > time.monotonic() else None

    def find(self, connection: HTTPConnection) -> Caller | None:
        found = self.find_session(connection)
        return None if found is None else self.keys.find_caller(found.key)

    def check(self, connection: HTTPConnection) -> None:
        """Refuse a change that another page may have triggered (CSRF)."""
        self.check_origin(connection)
        if connection.scope["type"] == "websocket":
            return  # a browser cannot add a header to a WebSocket request; its Origin, which it cannot choose, must do
        found = self.find_session(connection)
        token = connection.headers.get("x-csrf-token", "")
        if found is None or not hmac.compare_digest(found.csrf.encode(), token.encode()):
            raise ProblemError(
                403, "session.token", "missing or wrong X-CSRF-Token; send the token that the sign-in returned"
            )

    def check_origin(self, connection: HTTPConnection) -> None:
        """Refuse a request whose origin is not the server's own page."""
        if connection.headers.get("origin", "").partition("://")[2] != connection.headers.get("host", ""):
            raise ProblemError(403, "session.origin", "cross-origin requests are refused; use the server's own page")

    def end(self, connection: HTTPConnection) -> None:
        self.sessions.pop(connection.cookies.get(COOKIE, ""), None)
