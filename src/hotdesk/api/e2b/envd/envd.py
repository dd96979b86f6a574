"""The service that E2B programs use at port 49983 of a sandbox. It runs on the host; the desk has only the guest."""

from __future__ import annotations

import hmac
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from anyio.abc import TaskGroup
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from hotdesk.api.e2b.envd import files, filesystem, process, signing
from hotdesk.api.e2b.envd.connect import Envelopes, RpcError, Say
from hotdesk.api.e2b.envd.state import EnvdState
from hotdesk.api.e2b.responses import E2bError, answer, make_not_running_error, make_unknown_route_error
from hotdesk.api.e2b.sandboxes import Sandbox
from hotdesk.config import MIB
from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, DeskGone, HotdeskError, make_printable, unwrap_group

PORT = 49983
_INTERNAL = frozenset({"/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw"})
"""Calls of E2B's own machinery, which are not supported."""
SERVICES = {"process.Process": process.METHODS, "filesystem.Filesystem": filesystem.METHODS}


@dataclass(frozen=True, slots=True)
class EnvdCall:
    request: Request
    sandbox: Sandbox
    reset: Callable[[], None]
    """Cuts the connection, so that no client takes its end for a complete response."""
    tasks: TaskGroup
    """Runs the readers of programs that continue after their caller has disconnected."""

    @property
    def room(self) -> EnvdState:
        return self.sandbox.room

    @contextmanager
    def cut(self) -> Iterator[None]:
        self.sandbox.cuts.add(self.reset)
        try:
            yield
        finally:
            self.sandbox.cuts.discard(self.reset)

    def stream(self, tell: Callable[[Say], Awaitable[None]]) -> Response:
        """Answer with a stream; it is cut when the sandbox ends."""

        async def produce(say: Say) -> None:
            with self.cut():
                try:
                    await tell(say)
                except (HotdeskError, BaseExceptionGroup) as e:
                    raise self.convert_error(unwrap_group(e) if isinstance(e, BaseExceptionGroup) else e) from None

        return Envelopes(produce)

    def convert_error(self, error: BaseException) -> BaseException:
        """Convert an error in the middle of a stream for its reader; if the sandbox is gone, cut the connection."""
        if isinstance(error, DeskGone):
            self.reset()
        return _as_rpc(error) if isinstance(error, HotdeskError) else error


def _as_rpc(error: HotdeskError) -> RpcError:
    return RpcError("invalid_argument" if isinstance(error, BriefError) else "unavailable", str(error))


def get_reset(scope: Scope) -> Callable[[], None]:
    found: Callable[[], None] = scope.get("extensions", {}).get("hotdesk.reset", lambda: None)
    return found


async def respond(call: EnvdCall) -> Response:
    """Answer a call; the errors of a streaming call are sent as a stream."""
    try:
        return await _route_call(call)
    except RpcError as e:
        if not call.request.headers.get("content-type", "").startswith(Envelopes.media_type):
            raise
        return _stream_error(e)
    except DeskGone:
        raise make_not_running_error(call.sandbox.id) from None
    except HotdeskError as e:
        raise _as_rpc(e) from None


def authorize(request: Request, sandbox: Sandbox) -> None:
    """Refuse a request without the sandbox's token; to `/files`, a signature by it is enough."""
    if request.url.path == "/files":
        files.authorize(request, sandbox)
    else:
        signing.check_token(request.headers.get("x-access-token", ""), sandbox.token)


def is_authorized(request: Request, sandbox: Sandbox) -> bool:
    shown = request.headers.get("x-access-token", "")
    if hmac.compare_digest(shown.encode(), sandbox.token.encode()):
        return True
    return request.url.path == "/files" and files.is_signed(request, sandbox)


def _stream_error(error: RpcError) -> Response:
    async def tell(say: Say) -> None:
        raise error

    return Envelopes(tell)


async def _route_call(call: EnvdCall) -> Response:
    path = call.request.url.path
    if path == "/health":
        return Response(status_code=204)
    authorize(call.request, call.sandbox)
    if path == "/files":
        return await files.respond(call)
    match call.request.method, path:
        case "GET", "/envs":
            return answer(dict(call.sandbox.env))
        case "GET", "/metrics":
            return answer(await measure_usage(call))
        case _, _ if path in _INTERNAL:
            raise make_unknown_route_error()
    service, _, method = path.strip("/").partition("/")
    if call.request.method != "POST" or (act := SERVICES.get(service, {}).get(method)) is None:
        raise E2bError(404, f"{make_printable(path[:100])} is not a known call, or the method is not POST")
    return await act(call)


async def measure_usage(call: EnvdCall) -> dict[str, object]:
    sandbox, now = call.sandbox, time.monotonic()
    usage = await sandbox.desk.usage()
    before, cpu = call.room.sampled
    call.room.sampled = (now, usage.cpu)
    share = (usage.cpu - cpu) / (now - before) / sandbox.spec.cpus * 100 if before and now > before else 0.0
    memory = min(usage.memory, sandbox.spec.memory)
    return {
        "ts": int(time.time()),
        "cpu_count": max(1, int(sandbox.spec.cpus)),
        "cpu_used_pct": round(min(max(share, 0.0), 100.0), 2),
        "mem_total": sandbox.spec.memory,
        "mem_used": memory,
        "mem_cache": 0,
        "mem_total_mib": sandbox.spec.memory // MIB,
        "mem_used_mib": memory // MIB,
        "disk_used": usage.disk,
        "disk_total": sandbox.spec.disk,
    }
