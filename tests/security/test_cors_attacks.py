"""Attacks by scripts of web pages: to read E2B's API from a page that the operator did not list, or other routes."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from hotdesk.api.http.dispatch import Front, ServerParts
from hotdesk.api.keys import ApiKeys
from hotdesk.api.native.access.browsers import Browsers
from hotdesk.api.quotas import Quotas
from hotdesk.api.settings import Serving
from tests.security.guards import Removal, falls_without, no_guard

LISTED = "https://app.test"
SANDBOX = "i" + "a" * 20
GENEROUS = {"access-control-allow-origin": "*", "access-control-allow-credentials": "true"}


class Part:
    """A part of the server, behind which a program answers with headers of its own."""

    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await Response("secret", headers=self.headers)(scope, receive, send)


async def send_request(
    folder: Path, origin: str, path: str = "/v2/sandboxes", host: str = "localhost", *, method: str = "GET",
    headers: dict[str, str] | None = None,
) -> dict[str, str]:  # fmt: skip
    """Return the CORS headers of the answer."""
    keys = ApiKeys(folder / "serve")
    parts = ServerParts(*(Part(headers or {}) for _ in range(6)))
    front = Front(Serving(origins=(LISTED,)), parts, keys, Quotas(), Browsers(keys))
    wants = {"access-control-request-method": "POST"} if method == "OPTIONS" else {}
    lines = {"host": host, "origin": origin, **wants}
    scope: Scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in lines.items()], "scheme": "http",
        "http_version": "1.1", "server": ("127.0.0.1", 3700), "client": ("127.0.0.1", 1), "extensions": {},
    }  # fmt: skip
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    with anyio.fail_after(10):
        await front(scope, receive, send)
    fields = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return {name: value for name, value in fields.items() if name.startswith("access-control-allow-")}


@no_guard("no attack: what a listed page may do")
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
async def test_a_listed_page_may_use_the_api(tmp_path: Path, method: str) -> None:
    allowed = await send_request(tmp_path, LISTED, method=method)
    assert allowed["access-control-allow-origin"] == LISTED
    assert "access-control-allow-credentials" not in allowed


@falls_without(
    "cors: the operator lists origins",
    Removal("http/cors.py", "if len(origins) == 1 and origins[0] in listed else", "if len(origins) == 1 else"),
)
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
@pytest.mark.parametrize("page", ["https://evil.test", "null", f"{LISTED}.evil.test", "http://app.test", f"{LISTED}:1"])
async def test_another_page_may_not_use_the_api(tmp_path: Path, page: str, method: str) -> None:
    assert await send_request(tmp_path, page, method=method) == {}


@falls_without(
    "cors: E2B's API alone",
    Removal(
        "http/dispatch.py",
        "        return part in (self.parts.control, self.parts.signed)\n",
        "        return part is not None\n",
    ),
)
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
@pytest.mark.parametrize("path", ["/api/v1/desks", "/", "/mcp", "/health"])
async def test_a_listed_page_may_not_use_routes_with_sessions(tmp_path: Path, path: str, method: str) -> None:
    assert await send_request(tmp_path, LISTED, path, method=method) == {}


@falls_without(
    "cors: ports of E2B's API alone",
    Removal("http/dispatch.py", '            return scope["aim"].port in SCRIPT_PORTS\n', "            return True\n"),
)
async def test_a_sandboxes_own_port_is_not_opened_to_listed_pages(tmp_path: Path) -> None:
    assert await send_request(tmp_path, LISTED, host=f"8000-{SANDBOX}.localhost") == {}


@falls_without(
    "cors: the answer is the server's",
    Removal("http/cors.py", "                del fields[name]\n", "                pass\n"),
)
async def test_a_program_inside_cannot_allow_credentials(tmp_path: Path) -> None:
    allowed = await send_request(tmp_path, LISTED, host=f"49999-{SANDBOX}.localhost", headers=GENEROUS)
    assert allowed == {"access-control-allow-origin": LISTED}
