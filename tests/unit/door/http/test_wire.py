"""Tests of a connection: its timeouts end on time, and its end is told from its loss."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import uvloop
from tests.upstream import make_certificates

from hotdesk.door.http.wire import TimedOutError, Wire


@pytest.fixture
async def ends() -> AsyncIterator[tuple[Wire, socket.socket]]:
    near, far = socket.socketpair()
    _, wire = await asyncio.get_running_loop().create_unix_connection(Wire, sock=near)
    yield wire, far
    wire.abort()
    far.close()
    await asyncio.sleep(0)


async def test_a_short_wait_after_a_long_one_is_short(ends: tuple[Wire, socket.socket]) -> None:
    wire, far = ends
    far.send(b"a")
    assert await wire.read(60) == b"a"
    with pytest.raises(TimedOutError):
        await asyncio.wait_for(wire.read(0.02), 10)


async def test_a_long_wait_is_not_ended_by_the_alarm_of_a_short_one(ends: tuple[Wire, socket.socket]) -> None:
    wire, far = ends
    far.send(b"a")
    assert await wire.read(0.05) == b"a"
    alarm = wire.alarm
    assert alarm is not None
    reading = asyncio.ensure_future(wire.read(60))
    while wire.alarm is alarm:  # until it rang and was set anew
        await asyncio.sleep(0.005)
    assert not reading.done()
    far.send(b"b")
    assert await reading == b"b"


async def test_a_connection_that_is_gone_leaves_no_alarm(ends: tuple[Wire, socket.socket]) -> None:
    wire, far = ends
    far.send(b"a")
    assert await wire.read(60) == b"a"
    far.close()
    assert await wire.read(60) == b""
    wire.abort()
    while not wire.lost:
        await asyncio.sleep(0)
    assert wire.alarm is None


LENGTH = 3 << 20
"""More than is read ahead, so that the connection ends while reading is paused."""


@contextmanager
def server_that_ends(folder: Path, tls: bool, reset: bool, polite: bool) -> Iterator[tuple[int, Path, threading.Event]]:
    """Serve one connection `LENGTH` bytes, and end it, with a reset once they were read."""
    ca, chain = make_certificates(folder, "end.test")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    read = threading.Event()

    def serve() -> None:
        sock = listener.accept()[0]
        sock.settimeout(10)
        talk = context.wrap_socket(sock, server_side=True, suppress_ragged_eofs=False) if tls else sock
        with sock, talk:
            talk.sendall(bytes(LENGTH))
            if polite and isinstance(talk, ssl.SSLSocket):
                talk.setblocking(False)
                with suppress(ssl.SSLWantReadError):
                    talk.unwrap()  # as most servers do, it does not wait for the answer
            if reset:
                read.wait(10)  # a reset discards what was not read
                talk.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1], ca, read
        read.set()
        thread.join(10)


@pytest.mark.parametrize(
    ("factory", "tls", "reset", "polite", "cut_off"),
    [
        pytest.param(asyncio.new_event_loop, False, False, False, False, id="closed"),
        pytest.param(uvloop.new_event_loop, False, False, False, False, id="closed, uvloop"),
        pytest.param(asyncio.new_event_loop, False, True, False, True, id="reset"),
        pytest.param(uvloop.new_event_loop, False, True, False, True, id="reset, uvloop"),
        pytest.param(asyncio.new_event_loop, True, False, True, False, id="TLS closed"),
        pytest.param(uvloop.new_event_loop, True, False, True, False, id="TLS closed, uvloop"),
        # asyncio does not tell it from a proper end; the door runs uvloop
        pytest.param(uvloop.new_event_loop, True, False, False, True, id="TLS closed without close_notify, uvloop"),
    ],
)
def test_the_end_of_a_connection_is_told_from_its_loss(
    factory: Callable[[], asyncio.AbstractEventLoop],
    tls: bool,
    reset: bool,
    polite: bool,
    cut_off: bool,
    tmp_path: Path,
) -> None:
    async def receive(port: int, context: ssl.SSLContext) -> tuple[int, bool]:
        _, wire = await asyncio.get_running_loop().create_connection(Wire, "127.0.0.1", port)
        if tls:
            await wire.start_tls(context, name="end.test")
        await asyncio.sleep(0.2)  # until reading was paused
        length = 0
        while length < LENGTH and (data := await wire.read(10)):
            length += len(data)
        read.set()
        assert await wire.read(10) == b""
        wire.abort()
        await asyncio.sleep(0)
        return length, wire.cut_off

    with (
        server_that_ends(tmp_path, tls, reset, polite) as (port, ca, read),
        asyncio.Runner(loop_factory=factory) as runner,
    ):
        length, lost = runner.run(receive(port, ssl.create_default_context(cafile=ca)))
    assert (lost, lost or length) == (cut_off, cut_off or LENGTH), length
