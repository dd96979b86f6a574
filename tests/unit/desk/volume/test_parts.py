"""Tests of responses of the content API: ranges, from header to bytes, and listings for slow readers."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.requests import Request

from hotdesk.api.e2b.responses import E2bError
from hotdesk.api.e2b.volumes.content import read_order
from hotdesk.api.e2b.volumes.processes import VolumeCall
from hotdesk.desk.volume.files import VolumeFiles
from hotdesk.desk.volume.process import VolumeRequest
from hotdesk.ipc.frames import write


@pytest.fixture
def files(tmp_path: Path) -> Iterator[VolumeFiles]:
    """Return the files of a volume: one of ten bytes, one empty."""
    folders = []
    for name in ("files", "staging"):
        (tmp_path / name).mkdir()
        folders.append(os.open(tmp_path / name, os.O_RDONLY | os.O_DIRECTORY))
    (tmp_path / "files/ten").write_bytes(b"0123456789")
    (tmp_path / "files/none").touch()
    yield VolumeFiles(*folders)
    for fd in folders:
        os.close(fd)


async def ask(files: VolumeFiles, name: str, header: str) -> tuple[int, bytes, str]:
    """Request a file as a client does; return status, body and content range."""
    scope = {
        "type": "http",
        "method": "GET",
        "headers": [(b"range", header.encode())],
        "query_string": b"path=/" + name.encode(),
    }
    order = await read_order(Request(scope), "read")
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        serving = threading.Thread(target=VolumeRequest(theirs, files).run)
        serving.start()
        call = VolumeCall(ours)
        await call.tell(order)
        status, length, part = await call.hear_head()
        body = b""
        while len(body) < length:
            body += (await call.hear())[1]
        serving.join()
    return status, body, part


@pytest.mark.parametrize(
    ("header", "status", "body", "part"),
    [
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-2", 206, b"89", "bytes 8-9/10"),
        ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=-", 200, b"0123456789", ""),
        ("bytes=1-2,4-5", 200, b"0123456789", ""),
        ("lines=1-2", 200, b"0123456789", ""),
    ],
)
async def test_a_range_returns_the_requested_bytes(
    files: VolumeFiles, header: str, status: int, body: bytes, part: str
) -> None:
    assert await ask(files, "ten", header) == (status, body, part)


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=5-4", "bytes=-0"])
async def test_a_range_outside_the_file_is_refused(files: VolumeFiles, header: str) -> None:
    status, body, part = await ask(files, "ten", header)
    assert (status, part) == (416, "")
    assert b"10 bytes" in body


async def test_an_empty_file_has_no_ranges(files: VolumeFiles) -> None:
    assert await ask(files, "none", "bytes=0-") == (200, b"", "")


@pytest.mark.parametrize(
    "head",
    [
        {"status": 206, "length": 3},
        {"status": 206, "length": 3, "first": 8, "size": 10},
        {"status": 206, "length": 0, "first": 1, "size": 10},
        {"status": 206, "length": 3, "first": -1, "size": 10},
        {"status": 206, "length": 3, "first": "0", "size": 10},
    ],
)
async def test_a_process_that_lies_about_a_range_is_detected(head: dict[str, object]) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        theirs.sendall(write(head))
        with pytest.raises(E2bError, match="malformed"):
            await VolumeCall(ours).hear_head()


def test_slow_readers_hold_two_listings_for_a_limited_time(files: VolumeFiles, tmp_path: Path) -> None:
    for number in range(1000):
        os.link(tmp_path / "files/none", tmp_path / f"files/{number:0250}")
    pairs = [socket.socketpair() for _ in range(3)]
    requests = [VolumeRequest(theirs, files) for _, theirs in pairs]
    threads = [threading.Thread(target=request.run) for request in requests]
    for (ours, _), request, thread in zip(pairs, requests, threads, strict=True):
        request.listing_limit_s = 2.0
        ours.sendall(write({"act": "list", "path": "/"}))
        thread.start()
        if thread is not threads[-1]:
            assert ours.recv(1)
    third = pairs[-1][0]
    assert not select.select([third], [], [], 0.5)[0], "a third listing was made"
    third.settimeout(10)
    while third.recv(1 << 20)[-1:] != b"]":
        pass
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    for pair in pairs:
        for sock in pair:
            sock.close()
