"""Tests of an owner's connection to keys: a cancelled request is still sent completely."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from functools import partial

import anyio
import pytest

from hotdesk.errors import HostError
from hotdesk.ipc.frames import Frames, write
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


async def test_a_late_reply_is_never_taken_for_that_of_another_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotdesk.keys.client.ANSWER_TIMEOUT_S", 0.1)
    ours, theirs = socket.socketpair()
    wait, other = socket.socketpair()
    client = KeysClient(ours.detach(), wait.detach())
    with theirs, other:
        with pytest.raises(HostError, match="did not respond within"):
            await anyio.to_thread.run_sync(partial(client.wait, "scan", data="x"))
        [request] = await anyio.to_thread.run_sync(read_requests, other, 1)
        with suppress(OSError):
            other.sendall(write({"re": request["n"], "ok": {"secrets": ["late"]}}))
        with pytest.raises(HostError):
            await anyio.to_thread.run_sync(partial(client.wait, "scan", data="y"))
        await client.run()  # ends, because both connections are shut down
        with pytest.raises(HostError, match="keys process"):
            await client.ask("open", "i1")
        client.close()


async def test_blocking_requests_have_numbers_of_their_own() -> None:
    ours, theirs = socket.socketpair()
    wait, other = socket.socketpair()
    client = KeysClient(ours.detach(), wait.detach())
    with theirs, other:
        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, partial(client.wait, "note"))
                [request] = await anyio.to_thread.run_sync(read_requests, other, 1)
                other.sendall(write({"re": -1, "ok": {}}) if request["n"] != -1 else b"")
                other.sendall(write({"re": request["n"], "ok": {}}))
        assert request["n"] == -2
        client.close()


async def test_a_request_that_is_too_large_breaks_no_connection() -> None:
    ours, theirs = socket.socketpair()
    wait, other = socket.socketpair()
    client = KeysClient(ours.detach(), wait.detach())
    with theirs, other:
        with pytest.raises(HostError, match="`scan` is too large"):
            client.wait("scan", data="x" * (4 << 20))
        other.sendall(write({"re": -2, "ok": {"secrets": []}}))
        assert client.wait("scan", data="") == {"secrets": []}
        client.close()
