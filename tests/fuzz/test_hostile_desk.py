"""Tests of a real desk with a program that sends hostile data everywhere: its owner keeps using it and another desk."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.seam import Desk, Spec
from hotdesk.host import Host
from tests.fuzz.conftest import Seeds
from tests.fuzz.hostile import memory_within

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

PROGRAM = r"""
import array, os, random, select, socket, struct, sys, time
sys.path.insert(0, "/run/hotdesk/lib")
from hotdesk_guest import wire
chance = random.Random(int(sys.argv[1]))
end = time.monotonic() + float(sys.argv[2])
GREETING = wire.encode({"version": 1, "pid": 1, "home": "/evil", "code": 0})
FRAMES = [wire.encode_frame(kind, number, payload) for kind in range(1, 12) for number in (0, 1, 2, 0xFFFFFFFF)
          for payload in (b"", b"n", b"l" * 50, b"\1x", GREETING)]
HEADS = [
    b"GET http://a/ HTTP/1.1\r\n\r\n",
    b"CONNECT a:443 HTTP/1.1\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 99999\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 3000,
    b"GET /\x1b[31m\xff\0 HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nffff\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00",
    b"\r\n" * 900,
    b"A" * 20000,
]
ACT = {"argv": ["id"], "cwd": "/", "env": {}}
ASKS = [
    ACT,
    {**ACT, "argv": ["x" * 9000]},
    {**ACT, "argv": ["y"] * 3000},
    {**ACT, "argv": ["y"] * 5000},
    {**ACT, "argv": []},
    {**ACT, "cwd": "/nowhere"},
    {**ACT, "env": {"A=B": "x"}},
    {**ACT, "argv": ["sleep", "0.1"], "env": {"A": "\udcff"}},
    {**ACT, "argv": [None], "cwd": 5},
    {**ACT, "env": []},
    {**ACT, "more": 1},
    *({"argv": ["id"]}, None, [], "sudo"),
]

def spoil(data):
    if chance.random() < 0.5 or not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + chance.choice((b"", os.urandom(3), data[at:] * 2, b"\xff" * 9)) + data[at + chance.randrange(3):]

def speak(sock, data, listen=0.05):
    sock.settimeout(2)
    try:
        sock.sendall(data)
        if chance.random() < 0.3:
            sock.shutdown(chance.randrange(3))
        if select.select([sock], [], [], listen)[0]:
            sock.recv(5000)
    except OSError:
        pass
    sock.close()

def link():
    for name in os.listdir("/run/hotdesk"):
        if name.endswith(".sock"):
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.connect("/run/hotdesk/" + name)
            except OSError:
                sock.close()
                continue
            speak(sock, b"".join(spoil(frame) for frame in chance.choices(FRAMES, k=chance.randint(1, 30))))

def sudo():
    for name in os.listdir("/run/hotdesk"):
        if "sudo" in name or "root" in name:
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.connect("/run/hotdesk/" + name)
                ask = wire.encode(chance.choice(ASKS))
                data = spoil(chance.choice((len(ask), len(ask), len(ask), 0, 1 << 31)).to_bytes(4, "big") + ask)
                null = os.open("/dev/null", os.O_RDWR)
                fds = [null] * chance.choice((0, 1, 3, 3, 3, 3, 4, 100))
                sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
                os.close(null)
                speak(sock, os.urandom(chance.randrange(20)))
            except OSError:
                sock.close()

def gate():
    sock = socket.socket()
    sock.settimeout(2)
    try:
        sock.connect(("127.0.0.1", 3128))
    except OSError:
        sock.close()
        return
    speak(sock, spoil(chance.choice(HEADS)))

def out():
    for fd in (1, 2):
        os.write(fd, spoil(chance.choice(FRAMES)) * chance.choice((1, 10, 200)))
        os.write(fd, chance.choice((b"\x1b]0;evil\x07", b"\x1b[2J", b"\xff\xfe", b"\0" * 999, "\u202e".encode())))

def names():
    name = os.urandom(chance.choice((1, 20, 200))).replace(b"/", b"x").replace(b"\0", b"y")
    os.makedirs(b"hostile", exist_ok=True)
    try:
        if chance.random() < 0.5:
            os.symlink(os.urandom(9).hex() + "\x1b", b"hostile/" + name)
        else:
            open(b"hostile/" + name, "w").close()
    except OSError:
        pass
    if len(os.listdir(b"hostile")) > 300:
        for each in os.listdir(b"hostile"):
            os.unlink(b"hostile/" + each)

count = 0
while time.monotonic() < end:
    chance.choice((link, sudo, gate, gate, out, names))()
    count += 1
with open("count", "w") as file:
    file.write(str(count))
"""


@pytest.fixture
async def host(settings: Config) -> AsyncIterator[Host]:
    async with Host(settings, control=False) as opened:
        yield opened


async def attacked(host: Host, seed: int, seconds: float) -> tuple[int, int]:
    """Use a hostile desk and its neighbour for a while; return how often, and how much the hostile one sent."""
    spec = Spec(memory=256 * MIB, disk=256 * MIB, root=True)
    used = 0
    async with host.open_desk(spec) as desk, host.open_desk(spec) as neighbour:
        await desk.write("program.py", PROGRAM.encode())
        program: Any = await desk.start(["python3", "program.py", str(seed), str(seconds)], timeout=seconds + 30)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen, program)
            while not program.done:
                for each in (desk, neighbour):
                    with anyio.fail_after(30):
                        await use(each, used)
                used += 1
        done = await program.wait()
        assert done.ok, done
        return used, int(await desk.read("count"))


async def listen(program: Any) -> None:
    async for _, data in program.output():
        assert data


async def use(desk: Desk, number: int) -> None:
    assert (await desk.run(["echo", str(number)], timeout=20)).text == f"{number}\n"
    await desk.write(f"mine/{number % 10}", str(number).encode())
    assert await desk.read(f"mine/{number % 10}") == str(number).encode()
    if number % 5 == 0:
        assert (await desk.run(["id", "-u"], user="root", timeout=20)).text == "0\n"
        assert all(entry.name for entry in await desk.list(".", depth=2))
        assert (await desk.usage()).pids > 0


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_an_owner_uses_a_desk_that_sends_hostile_data(host: Host) -> None:
    with memory_within(96 * MIB):
        used, did = await attacked(host, 1, 3.0)
    assert used > 1
    assert did > 15


@pytest.mark.long
async def test_an_owner_uses_desks_that_send_hostile_data_for_long(host: Host, seeds: Seeds, share: float) -> None:
    before = descriptors()
    used = did = 0
    with memory_within(160 * MIB):
        for seed in seeds():
            more = await attacked(host, seed, min(20.0, share / 2))
            used, did = used + more[0], did + more[1]
    print(f"{did} hostile acts, {used} rounds of use beside them")
    await anyio.sleep(0.5)
    assert descriptors() <= before + 2


def test_the_hostile_program_compiles() -> None:
    compile(PROGRAM, str(Path("program.py")), "exec")
