"""Tests of using another process's desk through its owner's control socket: terminals, watches, calls, pauses, root."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.keeper import state
from hotdesk.desk.link.channel import GuestReply
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.lend import OWNERS_ALONE
from hotdesk.desk.owner.remote import remote_runtime
from hotdesk.desk.seam import Change, Desk, Process, Size, Spec
from hotdesk.drive.journal import FILE, read
from hotdesk.drive.journal_audit import verify
from hotdesk.drive.signing import load_own_public
from hotdesk.errors import BriefError, DeskError, DeskGone, FileError, LinkError
from hotdesk.host import Host, borrow, control_path
from hotdesk.linux import uids
from hotdesk_guest import wire

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

SERVER = """
import socket, sys, threading
listener = socket.socket(socket.AF_INET6 if sys.argv[1] == "6" else socket.AF_INET)
listener.bind(("::1" if sys.argv[1] == "6" else "127.0.0.1", 0))
listener.listen(0 if sys.argv[1] == "silent" else 64)
print(listener.getsockname()[1], flush=True)
def echo(caller):
    while data := caller.recv(65536):
        caller.sendall(data)
    caller.sendall(b"[end]")
    caller.close()
while sys.argv[1] == "silent":
    threading.Event().wait()
while True:
    threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
"""


@asynccontextmanager
async def lent(settings: Config, spec: Spec | None = None) -> AsyncIterator[tuple[Desk, Desk]]:
    async with Host(settings) as host, host.open_desk(spec) as desk, borrow(settings, desk.id) as borrowed:
        yield desk, borrowed


async def until(process: Process, pattern: bytes) -> bytes:
    said = b""
    with anyio.move_on_after(20):
        while not re.search(pattern, said):
            said += (await anext(process.output()))[1]
        return said
    pytest.fail(f"{pattern!r} did not come, only {said!r}")


async def serve(desk: Desk, kind: str = "4") -> int:
    """Start a server in a desk; return its port."""
    process = await desk.start(["python3", "-c", SERVER, kind], stdin=False)
    return int(await until(process, rb"\n"))


async def talk(sock: socket.socket, data: bytes) -> bytes:
    heard = bytearray()

    async def send() -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[sock.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(sock)
        sock.shutdown(socket.SHUT_WR)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        while True:
            await anyio.wait_readable(sock)
            if not (part := sock.recv(65536)):
                return bytes(heard)
            heard += part
    raise AssertionError


async def test_a_terminal_is_borrowed(settings: Config) -> None:
    async with lent(settings) as (desk, borrowed):
        env = {"PS1": "$ ", "TERM": "dumb"}
        process = await borrowed.start(["bash", "--norc", "-i"], pty=Size(20, 60), env=env)
        await until(process, rb"\$ ")
        await process.resize(Size(30, 90))
        await process.send(b"stty size; cat\r")
        await until(process, rb"30 90\r\n")
        await process.send(b"word\r")
        await until(process, rb"word\r\nword\r\n")
        await process.send(b"\x03")
        await until(process, rb"\$ ")
        await process.detach()
        again = await desk.attach(process.pid)
        await again.send(b"exit 4\r")
        assert (await again.wait()).exit_code == 4


async def test_large_output_of_a_borrowed_terminal_has_no_loss(settings: Config) -> None:
    async with lent(settings) as (_, borrowed):
        process = await borrowed.start(["seq", "100000"], pty=Size())
        said = b"".join([data async for _, data in process.output()])
        assert said == b"".join(b"%d\r\n" % number for number in range(1, 100001))


async def test_a_folder_is_watched_by_a_borrower(settings: Config) -> None:
    async with lent(settings) as (desk, borrowed):
        await desk.mkdir("watched")
        watch, own = await borrowed.watch("watched"), await desk.watch("watched")
        await desk.run(["sh", "-c", "mkdir d; : >d/f; for n in $(seq 3000); do : >$n; done"], cwd="watched")
        for each in (watch, own):
            told = {change.path for change in await each.changes() if change.kind == "create"}
            assert told == {"d", "d/f", *map(str, range(1, 3001))}
        await desk.write("watched/later", b"")
        with anyio.fail_after(10):
            assert await watch.wait() == [Change("create", "later")]
        await watch.close()
        await own.close()
        with pytest.raises(FileError) as raised:
            await borrowed.watch("nowhere")
        assert raised.value.reason == "missing"


async def test_a_server_is_dialled_by_a_borrower(settings: Config) -> None:
    async with lent(settings) as (_, borrowed):
        data = os.urandom(4 * MIB)
        for kind in ("4", "6"):
            port = await serve(borrowed, kind)
            with await borrowed.dial(port) as sock:
                assert not sock.getblocking()
                assert await talk(sock, data) == data + b"[end]"
        for wrong in (0, -1, 65536):
            with pytest.raises(BriefError):
                await borrowed.dial(wrong)
        with pytest.raises(DeskError, match="nothing listens"):
            await borrowed.dial(1)


@pytest.mark.long
async def test_a_server_that_never_answers_does_not_block_a_borrower(settings: Config) -> None:
    async with lent(settings) as (_, borrowed):
        port = await serve(borrowed, "silent")
        kept: list[socket.socket] = []
        failure = None
        with anyio.fail_after(40):
            while failure is None and len(kept) < 10:
                try:
                    kept.append(await borrowed.dial(port))
                except DeskError as e:
                    failure = str(e)
        for sock in kept:
            sock.close()
        assert failure is not None
        assert "did not respond" in failure


async def test_calls_a_borrower_gave_up_are_closed_at_the_owner(settings: Config) -> None:
    async with lent(settings) as (_, borrowed):
        port = await serve(borrowed)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            (await borrowed.dial(port)).close()
        with anyio.fail_after(10):
            while True:
                if len(os.listdir("/proc/self/fd")) <= before:
                    break
                await anyio.sleep(0.05)


async def test_a_borrower_pauses_and_resumes(settings: Config) -> None:
    async with lent(settings) as (desk, borrowed):
        await borrowed.pause()
        await borrowed.pause()
        assert [told["state"] for told in state.list_own_desks(settings)] == ["paused"]
        said: list[str] = []

        async def ask(through: Desk) -> None:
            said.append((await through.run(["echo", "hi"])).text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, desk)
            tasks.start_soon(ask, borrowed)
            await anyio.sleep(0.3)
            assert said == []
            await borrowed.resume()
        assert said == ["hi\n"] * 2
        await borrowed.resume()
        assert [told["state"] for told in state.list_own_desks(settings)] == ["open"]


@pytest.mark.long
async def test_a_borrower_reads_what_a_desk_uses(settings: Config) -> None:
    async with lent(settings) as (desk, borrowed):
        before = await borrowed.usage()
        await desk.run(["python3", "-c", "import time\nwhile time.process_time() < 0.5: pass"])
        after = await borrowed.usage()
        assert after.cpu - before.cpu > 0.4
        assert min(after.memory, after.disk, after.pids) > 0
        hog = "kept = []\nfor n in range(400): kept.append(b'x' * (16 << 20))"
        assert (await borrowed.run(["python3", "-c", hog], timeout=40)).out_of_memory


async def test_a_borrower_is_root_where_the_desk_has_it(settings: Config) -> None:
    async with lent(settings, Spec(root=True)) as (desk, borrowed):
        assert (await borrowed.run(["id", "-u"], user="root")).text == "0\n"
        assert (await borrowed.run(["sudo", "id", "-u"])).text == "0\n"
        process = await borrowed.start(["bash", "--norc", "-i"], user="root", pty=Size(), env={"PS1": "# "})
        await until(process, b"# ")
        await process.send(b"id -u; exit 2\r")
        await until(process, rb"\n0\r\n")
        assert (await process.wait()).exit_code == 2
        with anyio.fail_after(30), pytest.raises(DeskError):
            await borrowed.run(["sh", "-c", "kill -9 $PPID; sleep 100"], user="root")
        with anyio.fail_after(10):
            assert (await borrowed.run(["id", "-u"], user="root")).text == "0\n"
        noted = [json.loads(row.data) for row in read(settings.lib / "keys" / FILE, desk.id) if row.name == "RootAct"]
        acts = [(act["by"], act["argv"]) for act in noted]
        assert acts[:3] == [("owner", ["id", "-u"]), ("sudo", ["id", "-u"]), ("owner", ["bash", "--norc", "-i"])]


async def test_a_borrower_is_not_root_where_the_desk_has_none(settings: Config) -> None:
    async with lent(settings) as (_, borrowed):
        with pytest.raises(BriefError, match="root"):
            await borrowed.run(["true"], user="root")


async def test_a_desk_with_root_is_opened_through_an_owner(settings: Config) -> None:
    async with Host(settings), remote_runtime(control_path(settings, os.getpid())) as runtime:
        desk = await runtime.open(Spec(root=True))
        assert (await desk.run(["sudo", "id", "-u"])).text == "0\n"
        await runtime.burn(desk.id)
        for call in (desk.usage, desk.pause, lambda: desk.dial(80), lambda: desk.run(["true"], user="root")):
            with pytest.raises((DeskGone, LinkError)):
                await call()


async def test_the_journal_is_readable_by_its_keys_process_only_and_records_acts_of_root(settings: Config) -> None:
    file = settings.lib / "keys" / FILE
    async with Host(settings, control=False) as host, host.open_desk(Spec(root=True)) as desk:
        await desk.run(["sudo", "echo", "line\nbreak", "\x1b[31m"])
        with anyio.fail_after(10):  # root's guest reports over a link of its own
            while "RootActEnded" not in [row.name for row in read(file, desk.id)]:
                await anyio.sleep(0.01)
    rows = list(read(file, desk.id))
    assert [row.name for row in rows] == ["Opened", "RootAct", "RootActEnded", "Burnt"]
    assert json.loads(rows[1].data)["argv"] == ["echo", "line\nbreak", "\x1b[31m"]
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.stat().st_uid == uids.KEYS
    assert not verify(file, load_own_public(file.parent)).faults


@pytest.mark.sample(2)
@pytest.mark.parametrize("ask", [{"op": "acts"}, {"op": "settle", "env": {"PATH": "/evil"}}], ids=lambda ask: ask["op"])
@pytest.mark.parametrize("user", ["user", "root"])
async def test_a_borrower_cannot_use_the_owners_calls(settings: Config, user: str, ask: dict[str, object]) -> None:
    async with lent(settings, Spec(root=True)) as (desk, borrowed):
        assert isinstance(borrowed, LinkedDesk)
        channel = await (await borrowed.get_link(user)).open(dict(ask))
        item = await channel.answer(20)
        assert isinstance(item, GuestReply)
        assert (item.body["error"], item.body["text"]) == (
            "denied",
            "only the process that opened the desk may send this request",
        )
        assert (await borrowed.run(["printenv", "PATH"])).text == (await desk.run(["printenv", "PATH"])).text != "/evil"
        assert (await desk.run(["sudo", "id", "-u"], timeout=20)).text == "0\n"


@pytest.mark.parametrize("digits", [b"4", b"04", b"0004"])
def test_no_encoding_of_an_owners_request_is_accepted_from_a_borrower(digits: bytes) -> None:
    payload = b"ds2:ops" + digits + b":actse"
    assert wire.decode(payload) == {"op": "acts"}
    assert OWNERS_ALONE.search(payload)
