"""Tests of the guest as a separate process, with hosts that connect and disconnect."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest

from hotdesk.config import MIB
from hotdesk.desk.image import guest_code
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.seam import new_id
from hotdesk.errors import DeskGone, FileError

pytestmark = pytest.mark.timeout(30)

START = "import sys;sys.path.insert(0,sys.argv[1]);from hotdesk_guest import agent;agent.main(sys.argv[2])"


class Guest:
    """A guest that dials a listener of ours."""

    def __init__(self, folder: Path) -> None:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(folder / "link.sock"))
        self.listener.listen(1)
        self.listener.setblocking(False)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-c", START, str(guest_code.GUEST.parent), str(folder / "link.sock")],
            env={"PATH": os.defpath, "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
        )

    async def accept(self) -> socket.socket:
        with anyio.fail_after(10):
            while True:
                try:
                    return self.listener.accept()[0]
                except BlockingIOError:
                    await anyio.wait_readable(self.listener)

    @asynccontextmanager
    async def desk(self) -> AsyncIterator[LinkedDesk]:
        """Use the guest until the end of the block, then disconnect without notice."""
        link = Link(await self.accept())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run)
            hello = await link.wait_for_hello()
            yield LinkedDesk(new_id(), link, str(hello["home"]))
            link.hang_up()

    def close(self) -> None:
        self.listener.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture
async def guest(tmp_path: Path) -> AsyncIterator[Guest]:
    """Yield a running guest; a test ends the programs it started in it."""
    started = Guest(tmp_path)
    yield started
    started.close()


async def test_it_greets_with_its_home(guest: Guest, tmp_path: Path) -> None:
    async with guest.desk() as desk:
        assert desk.home == str(tmp_path)
        assert (await desk.run(["pwd"])).text == f"{tmp_path}\n"


async def test_it_reconnects_and_its_programs_kept_running(guest: Guest) -> None:
    async with guest.desk() as desk:
        program = await desk.start(["sh", "-c", "echo one; read line; echo $line; exit 3"])
        assert await anext(program.output()) == ("stdout", b"one\n")
    async with guest.desk() as desk:
        assert [(one.pid, one.exit_code) for one in await desk.processes()] == [(program.pid, None)]
        again = await desk.attach(program.pid)
        await again.send(b"two\n")
        assert b"".join([data async for _, data in again.output()]) == b"one\ntwo\n"
        assert (await again.wait()).exit_code == 3


async def test_it_survives_many_hosts(guest: Guest) -> None:
    for number in range(10):
        async with guest.desk() as desk:
            assert (await desk.run(["echo", str(number)])).text == f"{number}\n"


@pytest.mark.slow
async def test_an_exit_code_is_kept_for_the_next_host(guest: Guest) -> None:
    async with guest.desk() as desk:
        program = await desk.start(["sh", "-c", "sleep 0.2; echo late; exit 4"])
    await anyio.sleep(0.5)
    async with guest.desk() as desk:
        late = await desk.attach(program.pid)
        assert b"".join([data async for _, data in late.output()]) == b"late\n"
        assert (await late.wait()).exit_code == 4


async def test_a_host_that_goes_while_a_program_talks_does_not_block_it(guest: Guest, tmp_path: Path) -> None:
    async with guest.desk() as desk:
        await desk.start(["sh", "-c", "head -c 5000000 /dev/zero; echo over >over"])
        await anyio.sleep(0.1)
    with anyio.fail_after(10):
        while not (tmp_path / "over").exists():
            await anyio.sleep(0.02)


@pytest.mark.slow
async def test_a_timeout_holds_while_no_host_is_there(guest: Guest) -> None:
    async with guest.desk() as desk:
        program = await desk.start(["sleep", "4716"], timeout=0.5)
    await anyio.sleep(1.0)
    async with guest.desk() as desk:
        done = await (await desk.attach(program.pid)).wait()
        assert (done.timed_out, done.signal) == (True, 9)


async def test_a_half_written_file_is_closed_when_the_host_goes(guest: Guest) -> None:
    async with guest.desk() as desk:

        async def broken_off() -> AsyncIterator[bytes]:
            yield bytes(1000)
            await until_size(desk, "half", 1000)
            desk.link.hang_up()
            yield bytes(1000)

        with pytest.raises(DeskGone):
            await desk.write("half", broken_off())
    async with guest.desk() as desk:
        assert len(await desk.read("half")) == 1000
    held = [os.readlink(f"/proc/{guest.process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{guest.process.pid}/fd")]
    assert not [path for path in held if path.endswith("/half")]


async def until_size(desk: LinkedDesk, path: str, size: int) -> None:
    with anyio.fail_after(30):
        while (await desk.stat(path)).size < size:
            await anyio.sleep(0.01)


async def test_it_leaks_no_file_descriptor(guest: Guest) -> None:
    folder = f"/proc/{guest.process.pid}/fd"
    async with guest.desk() as desk:
        await desk.run(["true"])
        before = len(os.listdir(folder))
        for _ in range(5):
            await desk.run(["cat"], stdin=bytes(1000))
            await desk.run(["no-such-program"])
            await desk.run(["true"], cwd="no-such-folder")
            await desk.write("file", bytes(1000))
            await desk.read("file")
            await desk.list(".")
            with pytest.raises(FileError):
                await desk.read("absent")
            stream = desk.read_stream("file")
            await anext(stream)
            await stream.aclose()
        await anyio.sleep(0.05)
        assert len(os.listdir(folder)) == before


@pytest.mark.slow
async def test_its_memory_stays_flat(guest: Guest) -> None:
    def resident() -> int:
        with open(f"/proc/{guest.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    async with guest.desk() as desk:
        await desk.run(["head", "-c", "10000000", "/dev/zero"])
        before = resident()
        await desk.run(["head", "-c", "60000000", "/dev/zero"], output_limit=1000)
        await desk.run(["sleep", "0.2"], stdin=bytes(8 * MIB))
        assert resident() - before < 8 * MIB


@pytest.mark.slow
async def test_it_does_not_spin_while_nothing_happens(guest: Guest) -> None:
    def spent() -> int:
        with open(f"/proc/{guest.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    async with guest.desk() as desk:
        program = await desk.start(["sleep", "4717"])
        closed = await desk.start(["sh", "-c", "exec >&- 2>&-; sleep 4717"])
        before = spent()
        await anyio.sleep(1.0)
        assert spent() - before <= 5  # hundredths of a second
        await program.kill()
        await closed.kill()
        await desk.processes()  # it has handled everything before


@pytest.mark.slow
async def test_a_stopped_host_that_never_reads_blocks_no_other_program(guest: Guest) -> None:
    async with guest.desk() as desk:
        blocked = await desk.start(["head", "-c", "50000000", "/dev/zero"])
        await anyio.sleep(0.2)
        assert (await desk.run(["echo", "through"], timeout=5)).text == "through\n"
        await blocked.kill()
        await desk.processes()
