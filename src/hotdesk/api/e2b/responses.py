"""Responses in the format of E2B's SDKs: JSON, and errors with a number and a message."""

from __future__ import annotations

import json

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Scope

from hotdesk.api.log import LOG
from hotdesk.errors import BriefError, DeskGone, HostError, HotdeskError, WallError, make_printable

ENVD_VERSION = "0.6.13"
"""The version of envd as the SDKs see it; it decides which features they use."""
_CONNECT_WAIT_S = 2
"""Seconds after which a request for a sandbox on a node may be repeated: the server dials nodes about as often."""


class E2bError(Exception):
    """An error response that ends a request."""

    wait: int | None = None
    """Seconds after which the request may be repeated; `None` if that does not help."""

    def __init__(self, status: int, message: str, **more: object) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"code": status, "message": message, **more}

    def make_response(self) -> Response:
        headers = {"Should-Retry": "false"} if self.status in (429, 503) else {}
        if self.wait is not None:
            headers = {"Retry-After": str(self.wait)}
        return answer(self.body, self.status, headers)


def answer(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(json.dumps(value, separators=(",", ":")), status, headers, "application/json")


def answer_empty() -> Response:
    return Response(status_code=204)


def make_not_running_error(sandbox: str) -> E2bError:
    """Return the error for a sandbox that does not run; the SDKs recognise it by its message."""
    return E2bError(502, "The sandbox was not found", sandboxId=sandbox)


def make_not_paused_error(why: str) -> E2bError:
    """Return the error for a sandbox that still runs: to the SDKs, 409 means paused, and an error code damaged."""
    return E2bError(503, f"{why}, so it was not paused; try again, or kill it")


def make_not_connected_error(sandbox: str) -> E2bError:
    """Return the error for a sandbox on a node that this server, which was restarted, waits for."""
    name = make_printable(sandbox[:64])
    error = E2bError(503, f"sandbox '{name}' is not connected to this server yet, which was restarted; try again")
    error.wait = _CONNECT_WAIT_S
    return error


def make_unknown_route_error() -> E2bError:
    return E2bError(404, "this server's API has no such path and method")


def make_not_found_error(sandbox: str) -> E2bError:
    return E2bError(404, f"sandbox '{make_printable(sandbox[:64])}' not found")


def make_refusal(error: Exception, scope: Scope) -> E2bError:
    """Return an error with what the caller of a request can do; what only the operator can fix is logged."""
    match error:
        case E2bError():
            return error
        case BriefError():
            return E2bError(400, make_printable(str(error)[:500]))
        case DeskGone():
            return E2bError(404, "the sandbox ended in the meantime; create another one")
        case ClientDisconnect():
            return E2bError(400, "the client disconnected before the request was read")
    LOG.report_error(error, scope)
    if isinstance(error, WallError):
        return E2bError(503, f"the sandbox could not be created for this key: {make_printable(str(error)[:500])}")
    if isinstance(error, HostError):
        return E2bError(503, "this server has no capacity for the request now; try later, or ask the server's operator")
    kind = error.code if isinstance(error, HotdeskError) else "internal"
    return E2bError(500, f"internal error ({kind}); the server's operator can find the reason in the server's log")


def log(error: Exception) -> None:
    LOG.report_error(error)
