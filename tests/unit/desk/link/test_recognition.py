"""Tests of recognising a guest by its token among callers that are silent, loud, wrong, or many."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from hotdesk.desk.link.recognition import is_right, new_token, recognize
from hotdesk_guest import wire
from hotdesk_guest.wire import HELLO, encode, encode_frame

pytestmark = pytest.mark.timeout(30)

TOKEN = new_token()
US = (os.getpid(), os.getuid())


def hello(token: object = TOKEN, version: int = wire.VERSION) -> bytes:
    return encode_frame(HELLO, 0, encode({"version": version, "pid": 1, "home": "/", "token": token}))


WRONG = {
    "another token": hello(new_token()),
    "a part of it": hello(TOKEN[:-1]),
    "one that is no text": hello(7),
    "none": encode_frame(HELLO, 0, encode({"version": wire.VERSION, "pid": 1, "home": "/"})),
    "another version": hello(version=99),
    "more behind it": hello() + b"more",
    "twice": hello() + hello(),
    "another frame": encode_frame(wire.REPLY, 1, encode({})),
    "a frame of a gigabyte": (1 << 30).to_bytes(4, "big") + bytes((HELLO,)) + bytes(4),
    "no frame": b"GET / HTTP/1.1\r\n\r\n",
    "nothing": b"",
}


@asynccontextmanager
async def listening(folder: Path) -> AsyncIterator[tuple[socket.socket, str]]:
    path = str(folder / "link.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        listener.setblocking(False)
        yield listener, path


def call(path: str, data: bytes) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    sock.sendall(data)
    return sock


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
async def test_a_caller_without_the_token_is_disconnected(tmp_path: Path, wrong: bytes) -> None:
    async with listening(tmp_path) as (listener, path):
        with call(path, wrong) as stranger, call(path, hello()) as guest:
            with anyio.fail_after(10):
                sock, body = await recognize(listener, US, TOKEN)
            with sock:
                assert body["token"] == TOKEN
                sock.setblocking(True)
                sock.sendall(b"you")
                assert guest.recv(3) == b"you"
            stranger.settimeout(30)
            assert stranger.recv(1) == b"" if wrong else True


async def test_a_crowd_of_silent_callers_does_not_keep_the_guest_out(tmp_path: Path) -> None:
    crowd: list[socket.socket] = []
    async with listening(tmp_path) as (listener, path), anyio.create_task_group() as tasks:

        async def press() -> None:
            while len(crowd) < 40:
                crowd.append(await anyio.to_thread.run_sync(call, path, b"" if len(crowd) < 39 else hello()))

        tasks.start_soon(press)
        with anyio.fail_after(20):
            sock, _ = await recognize(listener, US, TOKEN)
        sock.close()
    for each in crowd:
        each.close()


async def test_another_process_is_ignored(tmp_path: Path) -> None:
    async with listening(tmp_path) as (listener, path):
        with call(path, hello()) as stranger, anyio.move_on_after(0.3) as waited:
            await recognize(listener, (1, 0), TOKEN)
        assert waited.cancelled_caught
        stranger.close()


def test_an_empty_token_matches_no_guest() -> None:
    assert not is_right({"token": ""}, "")
    assert not is_right({}, "")
