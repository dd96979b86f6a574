"""Routes traffic for a sandbox: to envd here, or to any other port inside its desk."""

from __future__ import annotations

import hmac
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import field
from ipaddress import ip_address

import anyio
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hotdesk.api.e2b.envd import envd
from hotdesk.api.e2b.envd.connect import RpcError
from hotdesk.api.e2b.envd.signing import check_token as check_access
from hotdesk.api.e2b.ports import shares
from hotdesk.api.e2b.ports.access_log import AccessEntry
from hotdesk.api.e2b.ports.headers import Inward, build_inward_request
from hotdesk.api.e2b.ports.proxy import Passing
from hotdesk.api.e2b.ports.shares import Share
from hotdesk.api.e2b.responses import E2bError, answer, log, make_not_running_error
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes, has_ended
from hotdesk.api.e2b.templates import PLAIN, parse_image_name
from hotdesk.api.e2b.templates import PORT as INTERPRETER_PORT
from hotdesk.api.http.dispatch import NOT_SERVED, Aim, get_host_name, list_own_names
from hotdesk.api.quotas import Bucket, QuotaError, Quotas, get_burst
from hotdesk.api.settings import Serving
from hotdesk.dataclass import dataclass
from hotdesk.desk.room.room import GATE
from hotdesk.door.http.framing import HttpMessageError
from hotdesk.errors import DeskError, DeskGone, HotdeskError

TOKEN = "e2b-traffic-access-token"  # noqa: S105 - a header's name
CLOSED = frozenset((0, GATE[1]))
"""Ports that no request can reach: at the gate is the desk's egress proxy."""
RUNS = frozenset({(49999, "execute"), (49999, "init")})
"""Calls with which a code interpreter runs code or sets variables: they need the access token, even on public ports."""
AT_ONCE = 256
"""Concurrent requests to one sandbox: to envd, and to its ports."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Forwards requests to sandboxes."""

    sandboxes: Sandboxes
    quotas: Quotas = field(default_factory=Quotas)
    under_way: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """Number of running requests, by sandbox and whether they are for envd."""
    paces: dict[str, Bucket] = field(default_factory=dict)
    """Token buckets of share links, the one used last at the end; a full one is forgotten."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        aim: Aim = scope["aim"]
        with ExitStack() as counted:
            try:
                check_name(scope, self.sandboxes.serving)
                if aim.port != envd.PORT and self.sandboxes.serving.access_log:
                    entry = AccessEntry(scope, aim.sandbox, aim.port)
                    counted.callback(entry.write)
                    receive, send = entry.watch_receive(receive), entry.watch_send(send)
                    scope["access"] = entry
                sandbox = await self.find(aim, scope)
                counted.enter_context(self.track_request(sandbox, aim.port))
                if aim.port != envd.PORT:
                    await self.forward(sandbox, aim.port, scope, receive, send)
                    return
                self.count_call(sandbox, scope)
                call = envd.EnvdCall(Request(scope, receive), sandbox, envd.get_reset(scope), self.sandboxes.tasks)
                response = await envd.respond(call)
            except (E2bError, RpcError) as e:
                response = e.make_response()
            except QuotaError as e:
                response = answer_too_fast(e)
            await response(scope, receive, send)

    async def find(self, aim: Aim, scope: Scope) -> Sandbox:
        """Return the sandbox a request is for; a paused one is resumed if the caller would be admitted."""
        sandbox = self.sandboxes.by_id.get(aim.sandbox)
        if sandbox is None and self.sandboxes.live is not None:
            self.sandboxes.live.require_known(aim.sandbox)
        if sandbox is None or has_ended(sandbox):
            raise make_not_running_error(aim.sandbox)
        if sandbox.state != "running":
            if sandbox.auto_resume and aim.port == envd.PORT:
                envd.authorize(Request(scope), sandbox)
            elif sandbox.auto_resume:
                check_token(scope, sandbox, aim.port, self.sandboxes.serving)
            await self.wake(sandbox)
        return sandbox

    async def wake(self, sandbox: Sandbox) -> None:
        """Resume a paused sandbox with auto-resume; another one, or one that cannot be resumed, is not running."""
        try:
            await self.sandboxes.wake(sandbox)
        except HotdeskError as e:
            if not isinstance(e, DeskGone):
                log(e)
            raise make_not_running_error(sandbox.id) from None

    @contextmanager
    def track_request(self, sandbox: Sandbox, port: int) -> Iterator[None]:
        """Count a request while it runs; envd's are counted separately, so that a busy port does not block it."""
        place = (sandbox.id, port == envd.PORT)
        if self.under_way[place] >= AT_ONCE:
            raise E2bError(
                429, f"{AT_ONCE} requests to this sandbox are running, which is the limit; wait until some end"
            )
        self.under_way[place] += 1
        try:
            yield
        finally:
            self.under_way[place] -= 1
            if not self.under_way[place]:
                del self.under_way[place]

    def count_call(self, sandbox: Sandbox, scope: Scope) -> None:
        """Count a call of envd; one without the right token or signature uses nothing of the tenant's rate."""
        if envd.is_authorized(Request(scope), sandbox):
            self.quotas.ask(sandbox.tenant.name, "calls")

    async def forward(self, sandbox: Sandbox, port: int, scope: Scope, receive: Receive, send: Send) -> None:
        share = check_token(scope, sandbox, port, self.sandboxes.serving)
        _note_access(scope, sandbox, share)
        if share is not None:
            self.pace(share)
            if (token := shares.find_query_token(scope)) and scope["method"] in ("GET", "HEAD"):
                own = _verify_token(token, sandbox, port)
                await redirect(scope, own, token)(scope, receive, send)
                return
        if (port, scope["path"].strip("/")) in RUNS:
            check_access(Headers(scope=scope).get("x-access-token", ""), sandbox.token)
        if port == INTERPRETER_PORT:
            _check_interpreter(Headers(scope=scope), sandbox)
        try:
            request = build_inward_request(scope, _mask_host(sandbox, port))
        except HttpMessageError as e:
            raise E2bError(
                e.status if e.status < 500 else 400, f"this request cannot be forwarded: {e.reason}"
            ) from None
        self.quotas.ask(sandbox.tenant.name, "calls")
        why = ""
        with _limit_passage(sandbox, share, envd.get_reset(scope)):
            why = await _relay_request(sandbox, port, request, scope, receive, send)
        if why:
            raise E2bError(
                502,
                f"The sandbox is running but port {port} sent no valid response: {why}",
                **_describe_port(sandbox, port),
            )

    def pace(self, share: Share) -> None:
        """Count a request through a share link; `QuotaError` when they come too fast."""
        rate, now = self.sandboxes.serving.share_rate, time.monotonic()
        bucket = self.paces[share.id] = self.paces.pop(share.id, Bucket(get_burst(rate), now))
        wait = bucket.draw(rate, now)
        while self.paces[oldest := next(iter(self.paces))].is_full(rate, now):
            del self.paces[oldest]
        if wait > 0:
            raise QuotaError(f"this share link is limited to {rate:g} requests a second; wait {wait:.1f} s", wait)


def answer_too_fast(error: QuotaError) -> Response:
    return answer({"code": 429, "message": str(error)}, 429, error.headers)


@contextmanager
def _limit_passage(sandbox: Sandbox, share: Share | None, reset: Callable[[], None]) -> Iterator[None]:
    """Limit the requests of a share link to its validity; then cut their connections."""
    if share is None:
        yield
        return
    with anyio.move_on_after(share.expires - time.time()) as passage:
        sandbox.passages.setdefault(share.id, set()).add(passage)
        try:
            yield
        finally:
            sandbox.passages[share.id].discard(passage)
            if not sandbox.passages[share.id]:
                del sandbox.passages[share.id]
    if passage.cancelled_caught:
        reset()


async def _relay_request(
    sandbox: Sandbox, port: int, request: Inward, scope: Scope, receive: Receive, send: Send
) -> str:
    """Forward one request over a connection of its own; return why there was no response, or an empty string."""
    reset, take = envd.get_reset(scope), scope["extensions"]["hotdesk.take"]
    sock = await _dial_port(sandbox, port)
    sandbox.cuts.add(reset)
    try:
        return await Passing(request, sock, receive, send, take, reset).run()
    finally:
        sandbox.cuts.discard(reset)
        sock.close()


async def _dial_port(sandbox: Sandbox, port: int) -> socket.socket:
    """Connect to a port of a desk's own loopback: there is no other way in, and it reaches nothing else."""
    if port in CLOSED or port > 65535:
        raise _make_not_open_error(sandbox, port)
    try:
        return await sandbox.desk.dial(port)
    except DeskGone:
        raise make_not_running_error(sandbox.id) from None
    except DeskError:
        raise _make_not_open_error(sandbox, port) from None
    except HotdeskError as e:
        raise E2bError(502, str(e), **_describe_port(sandbox, port)) from None


def _make_not_open_error(sandbox: Sandbox, port: int) -> E2bError:
    """Return the error for a port without a listener; the SDKs recognise it by its message."""
    return E2bError(502, "The sandbox is running but port is not open", **_describe_port(sandbox, port))


def _describe_port(sandbox: Sandbox, port: int) -> dict[str, object]:
    return {"sandboxId": sandbox.id, "port": port}


def _mask_host(sandbox: Sandbox, port: int) -> str | None:
    """Return the host name that the server inside sees, if the sandbox's program set one."""
    mask = (sandbox.network or {}).get("maskRequestHost")
    return mask.replace("${PORT}", str(port)) if isinstance(mask, str) and mask else None


# -- authorization ------------------------------------------------------------------------------------------------


def check_name(scope: Scope, serving: Serving) -> None:
    """Refuse host names that are not this server's: a page elsewhere may resolve one to it (DNS rebinding)."""
    name = get_host_name(Headers(scope=scope).get("host", ""))
    if name not in list_own_names(serving) and name != serving.domain and not name.endswith(f".{serving.domain}"):
        raise E2bError(421, NOT_SERVED)


def check_token(scope: Scope, sandbox: Sandbox, port: int, serving: Serving) -> Share | None:
    """Refuse a request without a token where one is needed: everywhere, except for public ports on this machine.

    Return the share link of the request, if it has one.
    """
    if (share := find_share(scope, sandbox, port)) is not None:
        return share
    if sandbox.traffic_token is None and is_public(scope, serving):
        return None
    shown = Headers(scope=scope).get(TOKEN, "")
    if sandbox.traffic_token is None or not hmac.compare_digest(shown.encode(), sandbox.traffic_token.encode()):
        raise E2bError(
            403,
            f"this port needs the sandbox's traffic token in the header {TOKEN}, or a share link that has not expired; "
            "the cookie of a share link counts for requests of this host name's own pages only",
            sandboxId=sandbox.id,
        )
    return None


def find_share(scope: Scope, sandbox: Sandbox, port: int) -> Share | None:
    """Return the share link whose token a request has; `None` if it has none that is valid for this port now."""
    key = sandbox.share_key
    for token in shares.list_tokens(scope) if key else ():
        if (share := _verify_token(token, sandbox, port)) is not None:
            return share
    return None


def _verify_token(token: str, sandbox: Sandbox, port: int) -> Share | None:
    share = shares.verify(sandbox.share_key, sandbox.id, port, token)
    return share if share is not None and share.id not in sandbox.revoked else None


def redirect(scope: Scope, share: Share | None, token: str) -> Response:
    """Redirect a browser to the address without the token, which the browser keeps as a cookie if it is valid."""
    headers = {
        "Location": shares.clean_address(scope),
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
    }
    if share is not None:
        tls = scope["scheme"] == "https"
        headers["Set-Cookie"] = shares.build_cookie(token, share, tls=tls, now=time.time())
    return Response(status_code=303, headers=headers)


def _note_access(scope: Scope, sandbox: Sandbox, share: Share | None) -> None:
    entry: AccessEntry | None = scope.get("access")
    if entry is not None:
        entry.tenant, entry.share = sandbox.tenant.name, share.id if share is not None else ""


def _check_interpreter(headers: Headers, sandbox: Sandbox) -> None:
    """Refuse a request with neither the access token nor the traffic token, which E2B's programs send for contexts."""
    if parse_image_name(sandbox.template) in PLAIN:
        return
    token, shown = sandbox.shown_traffic_token, headers.get(TOKEN, "")
    if token is None or not hmac.compare_digest(shown.encode(), token.encode()):
        check_access(headers.get("x-access-token", ""), sandbox.token)


def is_public(scope: Scope, serving: Serving) -> bool:
    """Return whether a request came over a listener that only this machine can reach."""
    return is_loopback(serving.host) and is_loopback(str((scope.get("server") or ("",))[0]))


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
