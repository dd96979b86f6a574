"""An owner's line to keys: a request whose caller gives up is still sent whole, so that the next one can be read."""

from __future__ import annotations

import json
import socket
from functools import partial

import anyio
import pytest

from hotdesk.ipc.frames import Frames
from hotdesk.keys.client import KeysClient

pytestmark = pytest.mark.anyio


def read_requests(sock: socket.socket, count: int) -> list[dict[str, object]]:
    """Read whole messages, and fail where the line holds anything else."""
    frames = Frames()
    found: list[dict[str, object]] = []
    while len(found) < count:
        found += [message for message, _ in frames.feed(sock.recv(1 << 16))]
    return found


async def test_a_request_that_is_cancelled_half_sent_spoils_none_after_it() -> None:
    ours, theirs = socket.socketpair()
    wait, other = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    client = KeysClient(ours.detach(), wait.detach())
    with theirs, other:
        theirs.settimeout(10)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(client.ask, "note", "", text="x" * 500_000))
            await anyio.sleep(0.1)  # the socket takes a part of it
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                first = await anyio.to_thread.run_sync(read_requests, theirs, 1)
        with anyio.move_on_after(0.2):
            await client.ask("ready", "")
        second = await anyio.to_thread.run_sync(read_requests, theirs, 1)
        client.close()
    assert [message["verb"] for message in (*first, *second)] == ["note", "ready"]
    assert len(json.dumps(first[0])) > 500_000
