"""Counts requests by part and route, and logs failures. Labels are from a closed set, never text of a caller."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect
from uvicorn.protocols.utils import ClientDisconnected

from hotdesk.api.e2b.envd import envd
from hotdesk.api.e2b.routes import call_route, control_route
from hotdesk.api.http.dispatch import Front, ServerParts, build_refusal
from hotdesk.api.log import LOG, REFUSED
from hotdesk.api.native.metrics import Measures, get_route

Labels = tuple[str, str]
"""A part of the server, and one of its routes; the route is empty if there is none."""
NOBODY: Labels = ("none", "")
"""Labels of a request that no part answers."""
_INTERNAL = "internal error; the server's log has the reason"
_INTERNAL_CODE = 1011
"""The WebSocket protocol's code of an internal error."""
PAGE = {"/web/": "/web/{file}", "/content/": "/content/{link}"}


class Measured:
    """The application behind a listener, with its requests counted."""

    def __init__(self, front: Front, measures: Measures) -> None:
        self.front, self.measures = front, measures
        self.labels = _build_label_table(front.parts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and measure its time; status 0 means that there was no response.

        A defect is logged here in one line, not by the HTTP server, whose traceback may quote a secret. A response that
        had begun is cut by the HTTP server, because it is not complete.
        """
        if scope["type"] != "http":
            await self.carry(scope, receive, send)
            return
        begun, status = time.monotonic(), 0

        async def send_and_record(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.front(scope, receive, send_and_record)
        except Exception as e:  # noqa: BLE001 - the rim: a defect in one answer ends no other
            if not isinstance(e, ClientDisconnect):
                LOG.report_error(e, scope)
            if not status:
                await build_refusal(scope, 500, "internal", _INTERNAL)(scope, receive, send_and_record)
        finally:
            found = self.labels.get(id(scope.get("part")))
            part, route = NOBODY if found is None else found(scope)
            if status in REFUSED:
                LOG.write_refusal(status, part, str((scope.get("client") or ("",))[0]))
            self.measures.count(part, scope["method"], route, status, time.monotonic() - begun)

    async def carry(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a WebSocket on; it is not counted. A defect is logged like one of a request."""
        is_accepted = False

        async def send_and_note(message: Message) -> None:
            nonlocal is_accepted
            is_accepted = is_accepted or message["type"] == "websocket.accept"
            await send(message)

        try:
            await self.front(scope, receive, send_and_note)
        except (WebSocketDisconnect, ClientDisconnected):
            return
        except Exception as e:  # noqa: BLE001 - the rim: a defect in one stream ends no other
            LOG.report_error(e, scope)
            with suppress(OSError, RuntimeError):  # it is closed already
                if is_accepted:
                    await send({"type": "websocket.close", "code": _INTERNAL_CODE, "reason": _INTERNAL})
                else:
                    await build_refusal(scope, 500, "internal", _INTERNAL)(scope, receive, send)


def _build_label_table(parts: ServerParts) -> Mapping[int, Callable[[Scope], Labels]]:
    return {
        id(parts.control): lambda scope: ("e2b", control_route(scope)),
        id(parts.traffic): of_traffic,
        id(parts.signed): lambda scope: ("envd", call_route(scope)),
        id(parts.native): lambda scope: ("native", get_route(scope)),
        id(parts.web): lambda scope: ("page", page_route(scope)),
        id(parts.mcp): lambda scope: ("mcp", "/mcp"),
    }


def of_traffic(scope: Scope) -> Labels:
    """Return the labels of a request to a sandbox; the paths of a port are not ours, so they are not labels."""
    return ("envd", call_route(scope)) if scope["aim"].port == envd.PORT else ("port", "")


def page_route(scope: Scope) -> str:
    path: str = scope["path"]
    return path if path == "/" else next((route for above, route in PAGE.items() if path.startswith(above)), "")
