"""Routes a request to its part of the server. Host names are matched exactly: requests for others are refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from hotdesk.api.http import body_limits, cors
from hotdesk.api.http.body_limits import BodyError
from hotdesk.api.quotas import QuotaError, Quotas
from hotdesk.api.web.content import get_content_name
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import ID_SHAPE

if TYPE_CHECKING:
    from hotdesk.api.keys import ApiKeys
    from hotdesk.api.native.access.browsers import Browsers
    from hotdesk.api.settings import Serving

FRAMING = ("host", "content-length", "transfer-encoding", "e2b-sandbox-id", "e2b-sandbox-port")
SHOWN = ("authorization", "x-api-key")
"""Headers that must not be repeated; the second list only in requests to the server itself."""
SCRIPT_PORTS = frozenset((49983, 49999))
"""Ports of a sandbox with E2B's API: commands and files, the code interpreter. Others send their own CORS headers."""
NOT_SERVED = "this server does not serve that host name; its operator can list the name in `[serve] names`"
DOTTED = frozenset({".", ".."})
LABEL = re.compile(r"([0-9]{1,5})-(i[a-z0-9]{20})")


@dataclass(frozen=True, slots=True)
class Aim:
    """The sandbox and port that a request is for."""

    sandbox: str
    port: int


@dataclass(frozen=True, slots=True)
class ServerParts:
    control: ASGIApp
    """E2B's control plane."""
    traffic: ASGIApp
    """Requests to a sandbox; the scope has its `aim`."""
    signed: ASGIApp
    """`/files` with a signature, which identifies the sandbox."""
    native: ASGIApp
    """`/api`, `/health`, `/ready`, `/metrics`."""
    web: ASGIApp
    """The page."""
    mcp: ASGIApp


@dataclass(frozen=True, slots=True)
class Front:
    """The application behind a listener."""

    serving: Serving
    parts: ServerParts
    keys: ApiKeys
    quotas: Quotas
    browsers: Browsers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        part = scope["part"] = self.choose_part(scope, headers)
        if scope["type"] == "websocket" and part is not self.parts.native:
            await send({"type": "websocket.close"})  # no other part speaks WebSocket, or logs it
            return
        if (why := _find_oddity(scope, headers)) is not None:
            await build_refusal(scope, 400, "request.odd", why)(scope, receive, send)
            return
        if part is None:
            await build_refusal(scope, 421, "request.host", NOT_SERVED)(scope, receive, send)
            return
        if origin := cors.find_origin(headers, self.serving.origins):
            is_open = self.is_for_scripts(scope, part)
            if cors.is_preflight(scope, headers) and (is_open or cors.names_header(headers, "e2b-sandbox-id")):
                await cors.answer_preflight(headers, origin)(scope, receive, send)
                return
            send = cors.wrap_send(send, origin) if is_open else send
        try:
            is_known = "aim" not in scope and self.count(scope, headers, part)
            if "aim" not in scope and part is not self.parts.signed and body_limits.is_whole(scope, headers):
                most = body_limits.MAX_BODY_BYTES if is_known else body_limits.MAX_ANONYMOUS_BYTES
                receive = await body_limits.buffer_body(receive, headers, most)
        except QuotaError as e:
            await build_refusal(scope, 429, e.code, str(e), e.headers)(scope, receive, send)
            return
        except BodyError as e:
            await build_refusal(scope, e.status, e.code, str(e))(scope, receive, send)
            return
        await part(scope, receive, send)

    def is_for_scripts(self, scope: Scope, part: ASGIApp) -> bool:
        """Return whether scripts of configured pages may ask: E2B's API alone, which never authenticates by cookie."""
        if "aim" in scope:
            return scope["aim"].port in SCRIPT_PORTS
        return part in (self.parts.control, self.parts.signed)

    def count(self, scope: Scope, headers: Headers, part: ASGIApp) -> bool:
        """Count a request against its caller's rate limit, and return whether the caller is known.

        Raises `QuotaError` when requests come too fast. Files of the page are not counted; a sandbox counts its own.
        """
        shown = (headers.get("x-api-key", ""), headers.get("authorization", "").rpartition(" ")[2])
        signed_in = self.browsers.find(HTTPConnection(scope)) if part is self.parts.native else None
        tenants = {caller.tenant for caller in (*map(self.keys.find, shown), signed_in) if caller is not None}
        for tenant in tenants:
            self.quotas.ask(tenant)
        return bool(tenants)

    def choose_part(self, scope: Scope, headers: Headers) -> ASGIApp | None:
        """Return the part that answers; `None` when the request is for a host name that this server does not have."""
        name = get_host_name(headers.get("host", ""))
        if (aim := _find_aim(headers, name, self.serving.domain)) is not None:
            scope["aim"] = aim
            return self.parts.traffic
        if name == get_content_name(self.serving.domain):
            return self.parts.web
        if name not in list_own_names(self.serving):
            return None
        path: str = scope["path"]
        if path == "/files":
            return self.parts.signed
        if path.startswith("/api/") or path in ("/api", "/health", "/ready", "/metrics"):
            return self.parts.native
        if path == "/mcp":
            return self.parts.mcp
        if path == "/" or path.startswith("/web/"):
            return self.parts.web
        return self.parts.control


def build_refusal(
    scope: Scope, status: int, code: str, why: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    """Return the refusal in the format of the addressed part; E2B's programs expect a number as `code`."""
    body_code = code if scope["path"].startswith("/api/") else status
    return JSONResponse({"code": body_code, "message": why}, status, headers)


def _find_oddity(scope: Scope, headers: Headers) -> str | None:
    """Describe what proxies and servers could interpret differently in a request; `None` if there is nothing.

    Requests for a sandbox's port may have any path and key, because the desk interprets them.
    """
    aimed = "aim" in scope
    for name in FRAMING if aimed else (*FRAMING, *SHOWN):
        if len(headers.getlist(name)) > 1:
            return f"the header {name} is present more than once; send it once"
    if aimed:
        return None
    if b"%" in (scope.get("raw_path") or b"/").split(b"/", 2)[1]:
        return "the first part of a path must not be percent-encoded"
    segments = scope["path"].split("/")
    if DOTTED & set(segments) or "\\" in scope["path"] or not scope["path"].isprintable():
        return "a path must not contain `.` or `..` parts, backslashes or invisible characters"
    return None


def get_host_name(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


def _find_aim(headers: Headers, name: str, domain: str) -> Aim | None:
    """Find the sandbox and port of a request, from its headers or its host name."""
    if (sandbox := headers.get("e2b-sandbox-id")) is not None:
        port = headers.get("e2b-sandbox-port", "49983")
        number = int(port) if port.isdecimal() and len(port) < 6 else 0
        return Aim(sandbox if ID_SHAPE.fullmatch(sandbox) else "", number)
    label, _, rest = name.partition(".")
    if rest == domain and (found := LABEL.fullmatch(label)):
        return Aim(found[2], int(found[1]))
    return None


def list_own_names(serving: Serving) -> frozenset[str]:
    return frozenset({"127.0.0.1", "localhost", "[::1]", serving.host, *serving.names})
