"""Tests of an owner's connection to keys: a cancelled request is still sent completely."""

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
    """Read complete messages; fail if the connection has anything else."""
    frames = Frames()
    found: list[dict[str, object]] = []
    while len(found) < count:
        found += [message for message, _ in frames.feed(sock.recv(1 << 16))]
    return found


async def test_a_request_cancelled_half_sent_does_not_corrupt_later_ones() -> None:
    ours, theirs = socket.socketpair()
    wait, other = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    client = KeysClient(ours.detach(), wait.detach())
    with theirs, other:
        theirs.settimeout(10)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(client.ask, "note", "", text="x" * 500_000))
            await anyio.sleep(0.1)  # the socket accepts only a part of it
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                first = await anyio.to_thread.run_sync(read_requests, theirs, 1)
        with anyio.move_on_after(0.2):
            await client.ask("ready", "")
        second = await anyio.to_thread.run_sync(read_requests, theirs, 1)
        client.close()
    assert [message["verb"] for message in (*first, *second)] == ["note", "ready"]
    assert len(json.dumps(first[0])) > 500_000
