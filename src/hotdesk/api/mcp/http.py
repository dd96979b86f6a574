"""MCP over streamable HTTP: a session belongs to one API key, and ends with it or when its client is gone."""

from __future__ import annotations

import logging
import secrets
from dataclasses import field

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp.server.transport_security import RequestBodyLimitMiddleware
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import INVALID_REQUEST, UNSUPPORTED_PROTOCOL_VERSION, ErrorData, JSONRPCError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from hotdesk.api.caller import Caller
from hotdesk.api.keys import ApiKeys
from hotdesk.api.mcp.deliver import MAX_DELIVERIES
from hotdesk.api.mcp.desk_limits import McpPolicy
from hotdesk.api.mcp.protocol import build_server
from hotdesk.api.mcp.session import McpSession
from hotdesk.api.tenants import Tenants
from hotdesk.dataclass import dataclass
from hotdesk.errors import HotdeskError, make_printable
from hotdesk.host import Host

log = logging.getLogger(__name__)
_MAX_REQUEST_BYTES = 1 << 20
"""Maximum bytes of a request."""
MAX_SESSIONS = 64
"""Concurrent sessions of a server."""
MAX_SESSIONS_PER_TENANT = 32
"""Concurrent sessions of one tenant, however many keys it has."""
MAX_SESSIONS_PER_KEY = 16
"""Concurrent sessions of one key."""
_WHOSE = "unknown key; create one with `hotdesk key new --name NAME` and send it as `Authorization: Bearer KEY`"


@dataclass(slots=True)
class LiveSession:
    transport: StreamableHTTPServerTransport
    key: str
    """The id of the key that started it."""
    tenant: str
    streams: int = 0
    """Number of streams its client has open."""
    calls: int = 0
    """Number of its client's requests."""


@dataclass(slots=True)
class Mcp:
    """The application at `/mcp`."""

    keys: ApiKeys
    tenants: Tenants
    policy: McpPolicy
    tasks: TaskGroup
    grace: float
    """Seconds after which a session ends when its client, which had a stream open, has disconnected."""
    live: dict[str, LiveSession] = field(default_factory=dict)
    delivering: dict[str, anyio.Semaphore] = field(default_factory=dict)
    """Admits deliveries, by tenant."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        await RequestBodyLimitMiddleware(self.answer, _MAX_REQUEST_BYTES)(scope, receive, send)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        caller = self.keys.find(parse_bearer_key(request))
        refused = _find_refusal(request, caller)
        if caller is None or refused is not None:
            await (refused or _make_fault_response(401, _WHOSE))(scope, receive, send)
            return
        number = request.headers.get(MCP_SESSION_ID_HEADER)
        if number is None:
            await self.begin(caller, scope, receive, send)
            return
        live = self.live.get(number)
        if live is None or live.key != caller.key:
            await _make_fault_response(404, "this session does not exist or has ended; start a new one")(
                scope, receive, send
            )
            return
        await self.go_on(live, request, receive, send)

    async def go_on(self, live: LiveSession, request: Request, receive: Receive, send: Send) -> None:
        """Pass a request on to its session; a client that disconnects has a grace period to return."""
        live.calls += 1
        is_stream = request.method == "GET"
        live.streams += is_stream
        try:
            await live.transport.handle_request(request.scope, receive, send)
        finally:
            live.streams -= is_stream
            if is_stream and not live.streams and not live.transport.is_terminated:
                self.tasks.start_soon(self.miss, live)

    async def miss(self, live: LiveSession) -> None:
        """End a session whose client disconnected and does not return in time."""
        calls = live.calls
        await anyio.sleep(self.grace)
        if live.calls == calls and not live.streams:
            await live.transport.terminate()

    async def outlive(self, caller: Caller, live: LiveSession) -> None:
        """End the session when its key expires or is revoked."""
        await self.keys.wait_end(caller.key)
        await live.transport.terminate()

    async def begin(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Start a session; one whose first request is invalid ends at once."""
        own = [each for each in self.live.values() if each.tenant == caller.tenant]
        of_key = sum(each.key == caller.key for each in own)
        if len(self.live) >= MAX_SESSIONS or len(own) >= MAX_SESSIONS_PER_TENANT or of_key >= MAX_SESSIONS_PER_KEY:
            await _make_fault_response(
                429,
                f"too many MCP sessions are open (at most {MAX_SESSIONS_PER_KEY} per key, {MAX_SESSIONS_PER_TENANT} "
                f"per tenant, {MAX_SESSIONS} in all); end one, or wait until one ends",
            )(scope, receive, send)
            return
        number = secrets.token_hex(16)
        transport = StreamableHTTPServerTransport(number, idle_timeout=self.policy.spec.idle)
        live = LiveSession(transport, caller.key, caller.tenant)
        self.live[number] = live
        status = 500

        async def forward(message: Message) -> None:
            nonlocal status
            status = int(message.get("status", status))
            await send(message)

        try:
            await self.start(number, live, caller)
            await transport.handle_request(scope, receive, forward)
        except HotdeskError as e:
            await _make_fault_response(503, f"the session could not be started: {make_printable(str(e))}")(
                scope, receive, send
            )
        finally:
            if status >= 400:
                with anyio.CancelScope(shield=True):
                    await transport.terminate()

    async def start(self, number: str, live: LiveSession, caller: Caller) -> None:
        try:
            await self.tasks.start(self.run, number, live, caller)
        except BaseException:
            self.live.pop(number, None)
            raise

    async def run(self, number: str, live: LiveSession, caller: Caller, *, task_status: TaskStatus[None]) -> None:
        """Serve one session until it ends; its desk is burnt with it."""
        tenant = await self.tenants.get_tenant(caller.tenant)
        server = build_server(self.make_session(tenant.host, caller))
        try:
            async with live.transport.connect() as (read, write):
                task_status.started()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self.outlive, caller, live)
                    with live.transport.idle_scope or anyio.CancelScope():
                        await server.run(read, write, server.create_initialization_options())
                    tasks.cancel_scope.cancel()
        except Exception:  # a failure of one session must not affect others
            log.exception("a session failed")
        finally:
            self.live.pop(number, None)
            with anyio.CancelScope(shield=True):
                await live.transport.terminate()

    def make_session(self, host: Host, caller: Caller) -> McpSession:
        delivering = self.delivering.setdefault(caller.tenant, anyio.Semaphore(MAX_DELIVERIES))
        owner, by = f"tenant:{caller.tenant}", f"key {caller.key} mcp"
        return McpSession(host, self.policy, owner, by, delivering=delivering)


def _find_refusal(request: Request, caller: Caller | None) -> Response | None:
    """Return the response that refuses a request, or `None`."""
    origin = request.headers.get("origin")
    if origin is not None and origin != f"{request.scope['scheme']}://{request.headers.get('host', '')}":
        return _make_fault_response(
            403, "cross-origin requests are refused; connect from a program, or from a page that this server serves"
        )
    if caller is None:
        return _make_fault_response(401, _WHOSE, **{"WWW-Authenticate": "Bearer"})
    if not caller.may("desks"):
        return _make_fault_response(
            403, "this key lacks the power 'desks'; use a key created with `hotdesk key new --name NAME --power desks`"
        )
    version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
    if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
        supported = {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": version[:64]}
        versions = ", ".join(HANDSHAKE_PROTOCOL_VERSIONS)
        why = f"this server does not support this MCP version; send `initialize` with one of {versions}"
        return _error_to_response(400, ErrorData(code=UNSUPPORTED_PROTOCOL_VERSION, message=why, data=supported))
    return None


def parse_bearer_key(request: Request) -> str:
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key if kind.lower() == "bearer" else ""


def _make_fault_response(status: int, why: str, **headers: str) -> Response:
    return _error_to_response(status, ErrorData(code=INVALID_REQUEST, message=why), **headers)


def _error_to_response(status: int, error: ErrorData, **headers: str) -> Response:
    body = JSONRPCError(jsonrpc="2.0", id=None, error=error).model_dump_json(by_alias=True, exclude_unset=True)
    return Response(body, status, headers, "application/json")
