"""Authenticates a request: an API key in a header, or a browser's session; returns the tenant."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

from fastapi import Depends, Request, Security, WebSocket
from fastapi.security import APIKeyCookie, APIKeyHeader, HTTPBearer
from pydantic import BaseModel
from starlette.requests import HTTPConnection

from hotdesk.api.caller import DEFAULT_TENANT, Caller, Power
from hotdesk.api.native.access.browsers import COOKIE, SAFE
from hotdesk.api.native.context import Native
from hotdesk.api.native.jobs.ledger import JobLedger
from hotdesk.api.native.problems import ProblemError
from hotdesk.api.tenants import Tenant
from hotdesk.dataclass import dataclass

_BEARER = HTTPBearer(auto_error=False, description="A key created with `hotdesk key new`.")
HEADER = APIKeyHeader(name="X-API-Key", auto_error=False, description="The same key, sent in the header X-API-Key.")
BROWSER = APIKeyCookie(
    name=COOKIE, auto_error=False, description="The session cookie of a browser that signed in with `POST /session`."
)
UNKNOWN = "unknown key; create one with `hotdesk key new --name NAME` and send it as `Authorization: Bearer KEY`"
MISSING = (
    "the request has no key; create one with `hotdesk key new --name NAME` and send it as `Authorization: Bearer KEY`"
)
T = TypeVar("T")
CHALLENGE = {"WWW-Authenticate": "Bearer"}


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The authenticated caller of a request, and its tenant."""

    native: Native
    caller: Caller
    tenant: Tenant
    by_page: bool = False
    """Whether the caller is a person at the page, with a session instead of a key."""

    @property
    def ledger(self) -> JobLedger:
        return self.native.get_ledger(self.tenant)

    async def run_once(self, act: str, key: str | None, body: BaseModel, work: Callable[[], Awaitable[T]]) -> T:
        store, caller = self.native.idempotency, self.caller
        return await store.run_once(caller.tenant, key, body, work, (caller.key, act))

    def list_visible_tenants(self) -> list[Tenant]:
        """List the tenants whose metrics the caller sees: all open ones for an admin of the machine's own tenant."""
        tenants = self.native.tenants.open.values()
        return sorted(tenants, key=lambda each: each.name) if self.is_operator else [self.tenant]

    @property
    def is_operator(self) -> bool:
        return self.tenant.name == DEFAULT_TENANT and self.caller.may("admin")

    @property
    def by(self) -> str:
        return self.caller.described


def get_native(connection: HTTPConnection) -> Native:
    found = connection.app.state.native
    assert isinstance(found, Native)
    return found


def authenticate_caller(connection: HTTPConnection) -> Caller:
    """Return the caller; a browser's changes need its CSRF token and must come from our own page."""
    native = get_native(connection)
    if (key := find_key(connection)) is not None:
        caller = native.keys.find(key)
    else:
        caller = native.sessions.find(connection)
        if caller is not None and (connection.scope["type"] == "websocket" or connection.scope["method"] not in SAFE):
            native.sessions.check(connection)
    if caller is None:
        raise ProblemError(401, "key.unknown", MISSING if key is None else UNKNOWN, CHALLENGE)
    return caller


def find_key(connection: HTTPConnection) -> str | None:
    scheme, _, key = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    return connection.headers.get("x-api-key")


async def _authorize(connection: HTTPConnection, power: Power | None) -> RequestContext:
    """Return the context of a caller that has the power; its tenant's machine is opened if necessary."""
    caller = authenticate_caller(connection)
    if power is not None and not caller.may(power):
        raise ProblemError(
            403,
            "key.power",
            f"this key lacks the power {power!r}; use a key created with `hotdesk key new --name NAME --power {power}`",
        )
    native = get_native(connection)
    return RequestContext(native, caller, await native.tenants.get_tenant(caller.tenant), find_key(connection) is None)


class RequirePower:
    """A dependency that requires a power, or only a valid key."""

    def __init__(self, power: Power | None = None) -> None:
        self.power = power

    async def __call__(
        self,
        request: Request,
        bearer: Annotated[object, Security(_BEARER)],
        header: Annotated[object, Security(HEADER)],
        browser: Annotated[object, Security(BROWSER)],
    ) -> RequestContext:
        return await _authorize(request, self.power)


async def on_socket(socket: WebSocket, power: Power) -> RequestContext:
    """Authenticate the client of a WebSocket; a browser must come from our own page."""
    return await _authorize(socket, power)


Anybody = Annotated[RequestContext, Depends(RequirePower())]
ForDesks = Annotated[RequestContext, Depends(RequirePower("desks"))]
ForJobs = Annotated[RequestContext, Depends(RequirePower("jobs"))]
ForApproval = Annotated[RequestContext, Depends(RequirePower("approve"))]
ForDrive = Annotated[RequestContext, Depends(RequirePower("drive"))]
ForVault = Annotated[RequestContext, Depends(RequirePower("vault"))]
ForJournal = Annotated[RequestContext, Depends(RequirePower("journal"))]
ForAdmin = Annotated[RequestContext, Depends(RequirePower("admin"))]
