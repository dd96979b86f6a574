"""Tests of limits: the error has its own type, and names what was exceeded, the limit, and the remedy."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.owner.control_http import BODY_LIMIT
from hotdesk.desk.owner.remote import ANSWER_LIMIT, RemoteRuntime
from hotdesk.desk.owner.runtime import container_runtime
from hotdesk.desk.owner.transfer import MAX_BYTES, Fetch
from hotdesk.desk.seam import Entry, Spec, new_id
from hotdesk.errors import BriefError, FileError, HotdeskError, KeeperError, LinkError
from hotdesk.host import Host, control_path
from hotdesk.ipc.tasks import background
from hotdesk.linux.sockets import accept, listen, receive, send
from hotdesk_guest import wire
from hotdesk_guest.wire import CREDIT, DATA, EVENT, REPLY, WINDOW, encode, encode_frame
from tests.fuzz.hostile import Corpus, Frame, HostileGuest

pytestmark = pytest.mark.timeout(60)

Call = Callable[[LinkedDesk], Awaitable[object]]
END: Frame = (REPLY, 1, encode({"code": 0}))
ENTRY = {"kind": "file"} | dict.fromkeys(("size", "mode", "uid", "gid", "modified"), 0)
LONG_ENTRY = encode([{"name": "n", "path": "/" + "p" * 60_000, **ENTRY}])
SHORT_ENTRIES = encode([{"name": "n", "path": "/n", **ENTRY}] * 50)
CHANGE = encode([{"kind": "create", "path": "p" * 60_000}])
SHORT_CHANGES = encode([{"kind": "create", "path": "p"}] * 600)


@asynccontextmanager
async def asked(corpus: Corpus) -> AsyncIterator[LinkedDesk]:
    """Yield a desk whose guest sends the replies of a corpus, within its credit or not."""
    ours, theirs = socket.socketpair()
    link = Link(ours)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.run)
        tasks.start_soon(HostileGuest(theirs, corpus, Random(0), 0.0).run)
        yield LinkedDesk(new_id(), link, "/home/user")
        link.hang_up()


class PatientGuest(HostileGuest):
    """A guest that waits for credit, and has much data to send."""

    async def answer(self, number: int, frames: list[Frame]) -> None:
        credit = WINDOW
        for kind, _, payload in frames:
            while credit < wire.compute_cost(payload):
                heard = await self.hear()
                if heard is None:
                    return
                credit += sum(int.from_bytes(given, "big") for said, _, given in heard if said == CREDIT)
            credit -= wire.compute_cost(payload)
            await self.say(encode_frame(kind, number, payload))


async def failure(call: Call, said: list[Frame], patient: bool = True) -> HotdeskError:
    """Make one call to a guest that sends too much; return the error."""
    ours, theirs = socket.socketpair()
    link = Link(ours)
    corpus = dict.fromkeys(("read", "list", "stat", "exec", "exec+tell", "watch", "processes"), said)
    guest = (PatientGuest if patient else HostileGuest)(theirs, corpus, Random(0), 0.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.run)
        tasks.start_soon(guest.run)
        try:
            with anyio.fail_after(50), pytest.raises(HotdeskError) as caught:
                await call(LinkedDesk(new_id(), link, "/home/user"))
        finally:
            link.hang_up()
    return caught.value


def check(error: HotdeskError, kind: type[HotdeskError], *words: str) -> None:
    assert type(error) is kind
    for word in words:
        assert word in str(error), str(error)


async def hear_late(desk: LinkedDesk) -> object:
    channel = await desk.link.open({"op": "stat"})
    await anyio.sleep(0.1)
    while True:
        await channel.receive()


async def watch(desk: LinkedDesk) -> object:
    return await (await desk.watch("folder")).changes()


# -- limits of a guest's data -----------------------------------------------------------------------------------------

PROTOCOL: dict[str, tuple[list[Frame], str]] = {
    "a frame": ([(DATA, 1, bytes(wire.GUEST_LIMIT + 1))], f"a frame of {wire.GUEST_LIMIT + 1} bytes"),
    "a window": ([(DATA, 1, b"\1" + bytes(60_000))] * 6, "more data than allowed"),
    "credit": ([(CREDIT, 1, b"\0\0\0\1")], "more flow-control credit than allowed"),
    "depth": ([(REPLY, 1, b"l" * 100)], "too deep"),
    "parts": ([(REPLY, 1, b"l" + b"n" * wire.MAX_PARTS + b"e")], "too many parts"),
    "numbers": ([(REPLY, 1, b"i" + b"9" * 19 + b";")], "more than 18 digits"),
}


@pytest.mark.parametrize("name", PROTOCOL)
async def test_a_guest_that_exceeds_a_limit_is_reported_and_dropped(name: str) -> None:
    said, words = PROTOCOL[name]
    error = await failure(hear_late, said, patient=False)
    check(error, LinkError, "hotdesk's process in the desk broke the protocol", words, "burn the desk and open another")


async def test_the_entries_of_a_listing_are_limited() -> None:
    error = await failure(lambda desk: desk.list("folder", limit=1000), [(EVENT, 1, SHORT_ENTRIES)] * 30)
    check(error, FileError, "folder", "more than 1000 entries", "list a smaller folder")


async def test_the_bytes_of_a_listing_are_limited() -> None:
    error = await failure(lambda desk: desk.list("folder"), [(EVENT, 1, LONG_ENTRY)] * 600)
    check(error, FileError, "folder", "more than 32 MiB of names", "list a smaller folder")


async def test_the_changes_of_a_watched_folder_are_limited() -> None:
    error = await failure(watch, [(EVENT, 1, SHORT_CHANGES)] * 180)
    check(error, FileError, "more than 100000 changes", "folder", "read the changes more often")


async def test_the_bytes_of_a_watched_folders_changes_are_limited() -> None:
    error = await failure(watch, [(EVENT, 1, CHANGE)] * 600)
    check(error, FileError, "more than 32 MiB of changes", "folder", "read the changes more often")


async def test_the_bytes_of_a_file_that_is_read_at_once_are_limited() -> None:
    said = [(DATA, 1, b"\0" + bytes(30_000))] * 100
    error = await failure(lambda desk: desk.read("file", limit=100_000), said)
    check(error, FileError, "file", "more than 100000 bytes", "read it as a stream")


async def test_output_beyond_its_limit_is_cut_and_reported() -> None:
    async with asked({"exec": [(DATA, 1, b"\1" + b"x" * 30_000)] * 3 + [END]}) as desk:
        done = await desk.run(["x"], output_limit=40_000)
    assert (len(done.stdout), done.truncated, done.exit_code) == (40_000, True, 0)


async def test_a_long_reason_is_cut() -> None:
    async with asked({"exec": [(REPLY, 1, encode({"code": 127, "text": "x" * 60_000}))]}) as desk:
        assert len((await desk.run(["x"])).reason) == 500
    error = await failure(lambda desk: desk.stat("x"), [(REPLY, 1, encode({"error": "other", "text": "x" * 60_000}))])
    assert isinstance(error, FileError)
    assert len(str(error)) < 600


# -- limits of what leaves a desk -------------------------------------------------------------------------------------


async def fetch(tmp_path: Path, found: Entry, said: list[Frame], **bounds: Any) -> HotdeskError:
    above = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)

    async def copy(desk: LinkedDesk) -> None:
        await Fetch(desk, lambda _: None, **bounds).copy_entry(found, "x", above, "out", 0)

    try:
        return await failure(copy, said)
    finally:
        os.close(above)


async def test_the_bytes_copied_out_are_limited(tmp_path: Path) -> None:
    large = Entry("x", "/x", "file", MAX_BYTES + 1, 0, 0, 0, 0.0)
    check(await fetch(tmp_path, large, []), FileError, "the copy exceeds the limit of 16 GiB at x", "copy fewer files")
    liar = Entry("x", "/x", "file", 0, 0, 0, 0, 0.0)
    said = [(DATA, 1, b"\0" + bytes(30_000))] * 20
    check(
        await fetch(tmp_path, liar, said, remaining_bytes=100_000),
        FileError,
        "exceeds the limit of 16 GiB",
        "stopped at x",
        "copy fewer files",
    )


async def test_the_entries_copied_out_are_limited(tmp_path: Path) -> None:
    folder = Entry("x", "/x", "directory", 0, 0, 0, 0, 0.0)
    said = [(EVENT, 1, encode([{"name": str(n), "path": "/x", **ENTRY, "kind": "other"} for n in range(50)]))] * 4
    said.append(END)
    error = await fetch(tmp_path, folder, said, remaining_entries=100)
    check(error, FileError, "more than 200000 entries", "copy fewer at once")


# -- limits of an owner's requests ------------------------------------------------------------------------------------


async def test_the_bytes_of_a_request_to_a_desk_are_limited() -> None:
    error = await failure(lambda desk: desk.run(["x", "y" * wire.HOST_LIMIT]), [])
    check(error, BriefError, "too large for a desk (8388", "put the data into a file")


@pytest.mark.container
async def test_the_bytes_of_a_request_to_a_keeper_are_limited(settings: Config) -> None:
    async with container_runtime(settings) as runtime:
        with pytest.raises(BriefError) as caught:
            await runtime.open(Spec(env={"A": "x" * 70_000}))
    check(caught.value, BriefError, "too large for the keeper (70", "put the environment variables into a file")


@pytest.mark.container
async def test_the_bytes_of_a_request_to_an_owner_are_limited(settings: Config) -> None:
    async with Host(settings):
        sock = socket.socket(socket.AF_UNIX)
        with sock:
            sock.setblocking(False)
            sock.connect(str(control_path(settings, os.getpid())))
            head = f"POST /desks HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY_LIMIT + 1}\r\n\r\n".encode()
            await send(sock, head + b" " * (BODY_LIMIT + 1))
            said = b""
            with anyio.fail_after(10):
                while data := await receive(sock):
                    said += data
    assert said.startswith(b"HTTP/1.1 413 ")
    for word in (b'"brief"', f"more than {BODY_LIMIT} bytes".encode(), b"into a file"):
        assert word in said


async def test_the_bytes_of_an_owners_answer_are_limited(tmp_path: Path) -> None:
    async def answer(listener: socket.socket) -> None:
        with await accept(listener) as sock:
            sock.setblocking(False)
            await receive(sock)
            try:
                await send(
                    sock,
                    f"HTTP/1.1 200 OK\r\nContent-Length: {2 * ANSWER_LIMIT}\r\n\r\n".encode() + bytes(2 * ANSWER_LIMIT),
                )
            except OSError:
                pass  # its connection was closed

    with listen(tmp_path / "owner.sock") as listener:
        async with background() as tasks:
            tasks.start(lambda: answer(listener))
            with pytest.raises(KeeperError) as caught:
                await RemoteRuntime(tmp_path / "owner.sock", tasks).call("GET", "/desks")
    check(caught.value, KeeperError, f"more than {ANSWER_LIMIT // MIB} MiB", "restart that process")
