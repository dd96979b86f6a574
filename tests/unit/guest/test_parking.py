"""Tests of a guest that disconnects while its memory is saved, and continues with the same host or another."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from hotdesk.desk.image import guest_code
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.link.recognition import new_token, recognize
from hotdesk.desk.seam import new_id
from hotdesk.errors import DeskError, DeskGone
from hotdesk.ipc.tasks import background
from hotdesk_guest.line import PortLink
from hotdesk_vmm.link import CALL

pytestmark = pytest.mark.timeout(30)

START = """
import sys
sys.path.insert(0, sys.argv[1])
from hotdesk_guest import agent, ports
guest = agent.Guest(sys.argv[2] + "/link.sock")
guest.ports = ports.GuestPorts(guest, sys.argv[2] + "/gate.sock", ("127.0.0.1", int(sys.argv[3])))
guest.line.dial()
guest.is_hidden = sys.argv[4] == "hidden" and agent.hide()
guest.run()
"""


class Parked:
    """A guest process, and where it calls."""

    def __init__(self, folder: Path, port: int, hidden: bool = True) -> None:
        self.path = str(folder / "link.sock")
        self.listener = self.listen()
        argv = [sys.executable, "-I", "-S", "-B", "-c", START, str(guest_code.GUEST.parent), str(folder), str(port)]
        argv.append("hidden" if hidden else "open")
        self.process = subprocess.Popen(argv, env={"PATH": os.defpath, "HOME": str(folder)}, stdin=subprocess.DEVNULL)

    def listen(self) -> socket.socket:
        Path(self.path).unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(4)
        listener.setblocking(False)
        return listener

    async def accept(self) -> socket.socket:
        with anyio.fail_after(10):
            while True:
                try:
                    return self.listener.accept()[0]
                except BlockingIOError:
                    await anyio.wait_readable(self.listener)

    def stop_listening(self) -> None:
        self.listener.close()
        Path(self.path).unlink(missing_ok=True)

    async def hear(self, token: str) -> tuple[socket.socket, dict[str, object]]:
        self.listener = self.listen()
        with anyio.fail_after(10):
            return await recognize(self.listener, (self.process.pid, os.getuid()), token)


@asynccontextmanager
async def parked(folder: Path, hidden: bool = True) -> AsyncIterator[tuple[Parked, LinkedDesk]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    guest = Parked(folder, port, hidden)
    try:
        async with background() as tasks:
            link = Link(await guest.accept())
            tasks.start(link.run)
            await link.wait_for_hello()
            guest.stop_listening()
            yield guest, LinkedDesk(new_id(), link, str(folder))
            link.hang_up()
    finally:
        guest.process.kill()
        guest.process.wait()
        guest.listener.close()


async def test_a_program_continues_over_the_next_connection_of_the_same_host(tmp_path: Path) -> None:
    async with parked(tmp_path) as (guest, desk):
        echo = await desk.start(["cat"])
        await echo.send(b"before")
        output = echo.output()
        assert (await anext(output))[1] == b"before"
        short = await desk.start(["sh", "-c", "read line; echo $line"])
        await short.send(b"ends meanwhile\n")
        token = new_token()
        await desk.link.park(token)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(echo.send, b"after")
            sock, _ = await guest.hear(token)
            await desk.link.rejoin(sock)
        assert (await anext(output))[1] == b"after"
        told = b"".join([data async for _, data in short.output()])
        assert told == b"ends meanwhile\n"
        assert (await short.wait()).exit_code == 0
        assert (await desk.run(["echo", "new"])).text == "new\n"
        await echo.kill()


async def test_another_host_knows_of_no_channel_and_gives_its_own_variables(tmp_path: Path) -> None:
    async with parked(tmp_path) as (guest, desk), background() as tasks:
        cat = await desk.start(["cat"])
        token = new_token()
        await desk.link.park(token)
        sock, hello = await guest.hear(token)
        link = Link(sock)
        link.hello = hello
        tasks.start(link.run)
        await link.ask_beside({"op": "rejoin", "same": False, "env": {"STAGE": "2"}})
        other = LinkedDesk(new_id(), link, str(tmp_path))
        assert (await other.run(["sh", "-c", "echo $STAGE"])).text == "2\n"
        again = await other.attach(cat.pid)
        await again.send(b"on")
        async for _, data in again.output():
            assert data == b"on"
            break
        await again.kill()
        desk.link.hang_up()
        link.hang_up()


async def test_waiting_calls_learn_that_a_parked_desk_ended(tmp_path: Path) -> None:
    async with parked(tmp_path) as (_, desk):
        await desk.link.park(new_token())

        async def ask() -> None:
            with pytest.raises(DeskGone):
                await desk.run(["true"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            desk.link.hang_up()


async def test_a_guest_whose_memory_others_can_read_is_not_parked(tmp_path: Path) -> None:
    async with parked(tmp_path, hidden=False) as (_, desk):
        with pytest.raises(DeskError, match="programs could read the memory of hotdesk's process"):
            await desk.link.park(new_token())
        assert (await desk.run(["echo", "on"])).text == "on\n"


@pytest.fixture
def port() -> Iterator[tuple[PortLink, socket.socket]]:
    ours, host = socket.socketpair()
    host.setblocking(False)
    os.set_blocking(ours.fileno(), False)
    with select.epoll() as poll, ours, host:
        yield PortLink(ours.fileno(), poll), host


def test_a_guest_in_a_virtual_machine_greets_at_once_when_it_starts(port: tuple[PortLink, socket.socket]) -> None:
    line, host = port
    assert line.dial()
    assert host.recv(100)


def test_a_parked_guest_in_a_virtual_machine_writes_nothing_until_it_is_called(
    port: tuple[PortLink, socket.socket],
) -> None:
    line, host = port
    line.dial()
    host.recv(1000)
    line.token = new_token()
    line.parked = line.leaving = True
    line.flush()
    assert not line.dial()
    with pytest.raises(BlockingIOError):
        host.recv(1)
    host.send(CALL)
    assert line.dial()
    assert line.token.encode() in host.recv(1000)
