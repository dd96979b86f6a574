"""Records a real guest: it gets every request an owner can make, and its replies are captured."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import anyio

from hotdesk.desk.image import guest_code
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.seam import Size, new_id
from hotdesk.linux.sockets import accept, send
from hotdesk_guest import wire
from tests.fuzz.hostile import Corpus, asked

START = "import sys;sys.path.insert(0,sys.argv[1]);from hotdesk_guest import agent;agent.main(sys.argv[2])"


class RealGuest:
    """The guest as an ordinary process that connects to our listener."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(folder / "link.sock"))
        self.listener.listen(1)
        self.listener.setblocking(False)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-c", START, str(guest_code.GUEST.parent), str(folder / "link.sock")],
            env={"PATH": os.defpath, "HOME": str(self.home)},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    async def call(self) -> socket.socket:
        with anyio.fail_after(60):
            return await accept(self.listener)

    def close(self) -> str:
        """End the guest; return its error output."""
        self.listener.close()
        self.process.kill()
        return self.process.communicate()[1].decode(errors="replace")


async def overhear(source: socket.socket, sink: socket.socket, heard: bytearray) -> None:
    while True:
        try:
            data = source.recv(1 << 16)
        except BlockingIOError:
            await anyio.wait_readable(source)
            continue
        if not data:
            sink.shutdown(socket.SHUT_WR)
            return
        heard += data
        await send(sink, data)


async def record(folder: Path) -> Corpus:
    """Send every request to a real guest; return its replies by request."""
    guest = RealGuest(folder)
    try:
        sock = await guest.call()
        ours, between = socket.socketpair()
        for end in (sock, between):
            end.setblocking(False)
        to_host, to_guest = bytearray(), bytearray()
        link = Link(ours)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run)
            tasks.start_soon(overhear, sock, between, to_host)
            tasks.start_soon(overhear, between, sock, to_guest)
            await link.wait_for_hello()
            await ask_everything(LinkedDesk(new_id(), link, str(folder)))
            tasks.cancel_scope.cancel()
        for end in (sock, between, ours):
            end.close()
    finally:
        guest.close()
    return sort(bytes(to_host), bytes(to_guest))


async def ask_everything(desk: LinkedDesk) -> None:
    await desk.mkdir("home/made")
    await desk.write("home/file", bytes(100_000))
    await desk.read("home/file")
    await desk.write("home/other", b"x")
    await desk.run(["ln", "-s", "file", "home/link"])
    await desk.list("home", depth=3)
    await desk.stat("home/file")
    process = await desk.start(["sh", "-c", "echo started; cat"])
    again = await desk.attach(process.pid)
    await process.send(b"hello")
    await process.close_stdin()
    await process.wait()
    await again.wait()
    await desk.processes()
    terminal = await desk.start(["sh", "-c", "echo in a terminal"], pty=Size(24, 80))
    await terminal.resize(Size(30, 90))
    await terminal.wait()
    watch = await desk.watch("home")
    await desk.write("home/changed", b"x")
    await watch.changes()
    await watch.close()
    await desk.move("home/other", "home/moved")
    await desk.remove("home/moved")
    await desk.run(["cat"], stdin=b"y" * 10_000, timeout=20)


def sort(to_host: bytes, to_guest: bytes) -> Corpus:
    """Match replies to requests; for a repeated request the last reply counts."""
    questions = {
        number: asked(wire.decode(payload))  # type: ignore[arg-type]
        for kind, number, payload in wire.FrameReader(wire.HOST_KINDS, wire.HOST_LIMIT).feed(to_guest)
        if kind == wire.OPEN
    }
    found: Corpus = {}
    for number, question in questions.items():
        frames = wire.FrameReader(wire.GUEST_KINDS, wire.GUEST_LIMIT).feed(to_host)
        # the replies of a guest to a program's input are made up when the host sends some
        found[question] = [each for each in frames if each[1] == number and each[0] != wire.CREDIT]
    return found
