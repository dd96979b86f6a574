"""Tests of connections a guest carries: from programs to the gate, and from its host to ports inside."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import anyio
import anyio.to_thread
import pytest

from hotdesk.desk.image import guest_code
from hotdesk.desk.link.link import Link
from hotdesk.desk.link.port import call_port
from hotdesk.errors import DeskError, HotdeskError
from hotdesk.ipc.tasks import background

pytestmark = pytest.mark.timeout(30)

START = """
import sys
sys.path.insert(0, sys.argv[1])
from hotdesk_guest import agent, ports
guest = agent.Guest(sys.argv[2] + "/link.sock")
guest.ports = ports.GuestPorts(guest, sys.argv[2] + "/gate.sock", ("127.0.0.1", int(sys.argv[3])))
guest.line.dial()
guest.run()
"""
LARGE = os.urandom(4096) * 1024
"""More than any buffer on the way holds."""


def listen(address: str | tuple[str, int]) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    listener.bind(address)
    listener.listen(64)
    return listener


@contextmanager
def serving(listener: socket.socket, work: Callable[[socket.socket], None]) -> Iterator[None]:
    def serve() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=run, args=(sock,), daemon=True).start()

    def run(sock: socket.socket) -> None:
        with sock:
            work(sock)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def echo(sock: socket.socket) -> None:
    """Give back everything, once it is complete."""
    sock.sendall(read_all(sock))


def read_all(sock: socket.socket) -> bytes:
    data = bytearray()
    while part := sock.recv(1 << 16):
        data += part
    return bytes(data)


def exchange(sock: socket.socket, data: bytes) -> bytes:
    sock.setblocking(True)
    with sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        return read_all(sock)


@pytest.fixture
def proxy() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


Dial: TypeAlias = Callable[[int], Awaitable[socket.socket]]


@asynccontextmanager
async def guest(folder: Path, proxy: int) -> AsyncIterator[Dial]:
    listener = listen(str(folder / "link.sock"))
    argv = [sys.executable, "-I", "-S", "-B", "-c", START, str(guest_code.GUEST.parent), str(folder), str(proxy)]
    process = subprocess.Popen(argv, env={"PATH": os.defpath, "HOME": str(folder)}, stdin=subprocess.DEVNULL)
    try:
        with listener:
            sock, _ = await anyio.to_thread.run_sync(listener.accept)
        async with background() as tasks:
            link = Link(sock)
            tasks.start(link.run)
            await link.wait_for_hello()
            yield lambda port: call_port(link, "i", port, tasks.start)
            link.hang_up()
    finally:
        process.kill()
        process.wait()


async def test_a_guest_connects_to_a_port_for_its_host(tmp_path: Path, proxy: int) -> None:
    server = listen(("127.0.0.1", 0))
    async with guest(tmp_path, proxy) as dial:
        with serving(server, echo):
            sock = await dial(server.getsockname()[1])
            assert await anyio.to_thread.run_sync(exchange, sock, LARGE) == LARGE


async def test_a_port_without_a_listener_is_reported(tmp_path: Path, proxy: int) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        async with guest(tmp_path, proxy) as dial:
            with pytest.raises(DeskError, match="nothing listens"):
                await dial(probe.getsockname()[1])


async def test_an_invalid_port_is_refused(tmp_path: Path, proxy: int) -> None:
    async with guest(tmp_path, proxy) as dial:
        for port in (0, 65536, -1):
            with pytest.raises(HotdeskError):
                await dial(port)


async def test_a_caller_that_is_gone_ends_the_connection_inside(tmp_path: Path, proxy: int) -> None:
    server, over = listen(("127.0.0.1", 0)), threading.Event()

    def wait_for_end(sock: socket.socket) -> None:
        read_all(sock)
        over.set()

    async with guest(tmp_path, proxy) as dial:
        with serving(server, wait_for_end):
            (await dial(server.getsockname()[1])).close()
            assert await anyio.to_thread.run_sync(over.wait, 10)


async def test_a_server_that_disconnects_ends_the_callers_connection(tmp_path: Path, proxy: int) -> None:
    server = listen(("127.0.0.1", 0))
    async with guest(tmp_path, proxy) as dial:
        with serving(server, lambda sock: None):
            sock = await dial(server.getsockname()[1])
            assert await anyio.to_thread.run_sync(exchange, sock, b"") == b""


async def test_a_caller_that_does_not_read_does_not_block_the_link(tmp_path: Path, proxy: int) -> None:
    server = listen(("127.0.0.1", 0))
    async with guest(tmp_path, proxy) as dial:
        with serving(server, lambda sock: sock.sendall(LARGE)):
            slow = await dial(server.getsockname()[1])
            await anyio.sleep(0.2)
            quick = await dial(server.getsockname()[1])
            assert await anyio.to_thread.run_sync(exchange, quick, b"") == LARGE
            assert await anyio.to_thread.run_sync(exchange, slow, b"") == LARGE


async def test_what_programs_send_to_the_proxy_comes_to_the_gate(tmp_path: Path, proxy: int) -> None:
    with serving(listen(str(tmp_path / "gate.sock")), echo):
        async with guest(tmp_path, proxy):
            sock = socket.create_connection(("127.0.0.1", proxy), 10)
            assert await anyio.to_thread.run_sync(exchange, sock, LARGE) == LARGE


async def test_without_a_gate_a_program_is_disconnected(tmp_path: Path, proxy: int) -> None:
    async with guest(tmp_path, proxy):
        sock = socket.create_connection(("127.0.0.1", proxy), 10)
        assert await anyio.to_thread.run_sync(sock.recv, 1) == b""
        sock.close()


async def test_many_programs_reach_the_gate_at_once(tmp_path: Path, proxy: int) -> None:
    with serving(listen(str(tmp_path / "gate.sock")), echo):
        async with guest(tmp_path, proxy):
            socks = [socket.create_connection(("127.0.0.1", proxy), 10) for _ in range(40)]
            for number, sock in enumerate(socks):
                data = b"%d" % number
                assert await anyio.to_thread.run_sync(exchange, sock, data) == data


def answer_early(sock: socket.socket) -> None:
    """Answer a request without reading more than its beginning, as a server does that refuses a large upload."""
    sock.recv(10)
    sock.sendall(b"too large")


def send_and_read(sock: socket.socket) -> bytes:
    """Send more than the other side reads; return what it answered."""
    sock.setblocking(True)
    sock.settimeout(10)
    with sock:
        with suppress(ConnectionError):
            sock.sendall(LARGE)
        data = bytearray()
        with suppress(ConnectionError):
            while part := sock.recv(1 << 16):
                data += part
        return bytes(data)


async def test_an_answer_to_an_upload_that_is_not_read_arrives(tmp_path: Path, proxy: int) -> None:
    server = listen(("127.0.0.1", 0))
    async with guest(tmp_path, proxy) as dial:
        with serving(server, answer_early):
            for _ in range(20):
                sock = await dial(server.getsockname()[1])
                assert await anyio.to_thread.run_sync(send_and_read, sock) == b"too large"


async def test_an_answer_of_the_gate_to_an_upload_that_is_not_read_arrives(tmp_path: Path, proxy: int) -> None:
    with serving(listen(str(tmp_path / "gate.sock")), answer_early):
        async with guest(tmp_path, proxy):
            for _ in range(20):
                sock = socket.create_connection(("127.0.0.1", proxy), 10)
                assert await anyio.to_thread.run_sync(send_and_read, sock) == b"too large"


def send_part_and_reset(sock: socket.socket) -> None:
    """Send much of an answer, and reset the connection: data of the other side is left unread."""
    sock.recv(1)
    sock.sendall(LARGE)


async def test_a_reset_by_the_gate_is_no_clean_end_for_the_program(tmp_path: Path, proxy: int) -> None:
    with serving(listen(str(tmp_path / "gate.sock")), send_part_and_reset):
        async with guest(tmp_path, proxy):
            sock = socket.create_connection(("127.0.0.1", proxy), 10)
            data, was_reset = await anyio.to_thread.run_sync(read_until_reset, sock)
            assert LARGE.startswith(data)
            assert was_reset


def read_until_reset(sock: socket.socket) -> tuple[bytes, bool]:
    """Send some bytes and read slowly; return what was read, and whether it ended by a reset."""
    data = bytearray()
    with sock:
        sock.setblocking(True)
        sock.settimeout(10)
        sock.sendall(b"xx")
        try:
            while part := sock.recv(1 << 16):
                data += part
        except ConnectionResetError:
            return bytes(data), True
    return bytes(data), False
