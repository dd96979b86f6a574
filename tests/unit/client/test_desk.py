"""Tests of a desk on a server, with responses of other servers than today's: newer ones, and silent ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hotdesk.client.desk import FarDesk
from hotdesk.client.http import HttpClient
from hotdesk.desk.seam import DeskId
from hotdesk.errors import HostError

pytestmark = pytest.mark.anyio
DESK = DeskId("d-1")
NEW = {"field_of_a_newer_server": {"a": 1}}
USAGE = {"cpu": 1.5, "memory": 1, "disk": 2, "pids": 3, "oom_kills": 0}
ENTRY = {"name": "a", "path": "/a", "kind": "file", "size": 1, "mode": 0o644, "uid": 1, "gid": 1, "modified": 1.0}
GONE = {"code": "desk.gone", "message": "desk d-1 is not open"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def answering(replies: dict[str, tuple[int, object]], timeout: float = 5.0) -> AsyncIterator[FarDesk]:
    """Serve fixed replies by method and path on loopback; a request without a reply gets none."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, path, _ = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ", 2)
        found = replies.get(f"{method} {path.partition('?')[0].removeprefix('/api/v1')}")
        if found is not None:
            status, value = found
            body = json.dumps(value).encode() if value is not None else b""
            writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            writer.write_eof()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()[:2]
        yield FarDesk(HttpClient(f"http://{host}:{port}", "key", response_timeout=timeout), DESK)


async def test_unknown_fields_of_a_newer_server_are_ignored() -> None:
    replies = {
        "POST /desks/d-1/run": (200, {"exit_code": 3, "stdout": "aGk=", "stderr": "", **NEW}),
        "GET /desks/d-1/entries": (200, {"items": [{**ENTRY, **NEW}]}),
        "GET /desks/d-1/usage": (200, {**USAGE, **NEW}),
    }
    async with answering(replies) as desk:
        done = await desk.run(["true"])
        assert (done.exit_code, done.stdout) == (3, b"hi")
        assert [each.name for each in await desk.list()] == ["a"]
        assert (await desk.usage()).pids == 3


async def test_burning_a_desk_that_ended_meanwhile_does_nothing() -> None:
    replies = {
        "GET /desks": (200, {"items": [{"id": DESK}], "next": None}),
        "DELETE /desks/d-1": (404, GONE),
    }
    async with answering(replies) as desk:
        await desk.burn()


async def test_an_error_of_burning_is_raised() -> None:
    async with answering({"DELETE /desks/d-1": (502, {"code": "host", "message": "full"})}) as desk:
        with pytest.raises(HostError, match="full"):
            await desk.burn()


async def test_a_silent_server_is_an_error_of_the_host() -> None:
    async with answering({}, timeout=0.2) as desk:
        with pytest.raises(HostError, match=r"did not respond in 0\.2 seconds"):
            await desk.usage()
