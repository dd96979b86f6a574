"""Tests of TLS around plain sockets: data arrives, each direction ends separately, truncation is detected."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from hotdesk.cluster.certificates import enroll, find_peer_name, make_tls_context, read_name
from hotdesk.cluster.tls import TlsTunnel
from hotdesk.errors import BriefError, HostError
from hotdesk.linux.sockets import receive, send


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("identities")
    enroll(folder / "authority", "node", "n1", folder / "node", 1)
    enroll(folder / "authority", "server", "home", folder / "server", 1)
    return folder


@asynccontextmanager
async def connected(identities: Path) -> AsyncIterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        caller = socket.create_connection(listener.getsockname())
        answerer, _ = listener.accept()
    called = TlsTunnel(answerer, make_tls_context(identities / "node", "node"), server_side=True)
    calling = TlsTunnel(caller, make_tls_context(identities / "server", "server"), server_side=False)
    ends = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(called.shake_hands)
        tasks.start_soon(calling.shake_hands)
    async with anyio.create_task_group() as tasks:
        for tunnel in (called, calling):
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            theirs.setblocking(False)
            ends.append(ours)
            tasks.start_soon(tunnel.run, theirs)
        assert find_peer_name(calling.tls.getpeercert(), "node") == "n1"
        yield ends[0], ends[1]
        for end in ends:
            end.close()


async def read_all(sock: socket.socket) -> bytes:
    found = b""
    while data := await receive(sock):
        found += data
    return found


async def pour_for_ever(sock: socket.socket) -> None:
    while True:
        await send(sock, b"x" * 1000)
        await anyio.sleep(0.01)


async def test_each_direction_ends_separately(identities: Path) -> None:
    with anyio.fail_after(10):
        async with connected(identities) as (node, server):
            await send(server, b"request")
            server.shutdown(socket.SHUT_WR)
            assert await read_all(node) == b"request"
            await send(node, b"reply" * 1000)
            node.close()
            assert await read_all(server) == b"reply" * 1000


@pytest.mark.slow
async def test_more_than_a_buffer_passes_both_ways(identities: Path) -> None:
    async def pour(sock: socket.socket) -> None:
        await send(sock, b"x" * 2_000_000)
        sock.shutdown(socket.SHUT_WR)

    with anyio.fail_after(30):
        async with connected(identities) as ends, anyio.create_task_group() as tasks:
            for end in ends:
                tasks.start_soon(pour, end)
            for end in ends:
                assert len(await read_all(end)) == 2_000_000


async def test_closing_ends_the_other_side_completely(identities: Path) -> None:
    with anyio.fail_after(10):
        async with connected(identities) as (node, server):
            server.close()
            assert await read_all(node) == b""
            with pytest.raises(BrokenPipeError):
                await pour_for_ever(node)


def test_an_identity_is_written_once_and_is_of_one_role(identities: Path) -> None:
    assert (read_name(identities / "node", "node"), read_name(identities / "server", "server")) == ("n1", "home")
    with pytest.raises(HostError, match="is not that of a server"):
        read_name(identities / "node", "server")
    with pytest.raises(BriefError, match="already"):
        enroll(identities / "authority", "node", "n1", identities / "node", 1)
    with pytest.raises(BriefError, match="not a valid node name"):
        enroll(identities / "authority", "server", "*", identities / "any", 1)


def test_a_world_readable_key_is_refused(identities: Path, tmp_path: Path) -> None:
    enroll(identities / "authority", "node", "n2", tmp_path / "n2", 1)
    (tmp_path / "n2/private.key").chmod(0o644)
    with pytest.raises(HostError, match="every user can read"):
        make_tls_context(tmp_path / "n2", "node")


async def test_a_connection_that_continues_after_its_end_is_cut(identities: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        caller = socket.create_connection(listener.getsockname())
        answerer, _ = listener.accept()
    called = TlsTunnel(answerer, make_tls_context(identities / "node", "node"), server_side=True)
    calling = TlsTunnel(caller, make_tls_context(identities / "server", "server"), server_side=False)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with anyio.fail_after(10), ours, caller:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(called.shake_hands)
            tasks.start_soon(calling.shake_hands)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(called.run, theirs)
            calling.tls.write(bytes(4))
            calling.tls.write((1000).to_bytes(4, "big") + bytes(1000))
            await calling.flush()
            assert await read_all(ours) == b""
            while await calling.fill():
                pass
