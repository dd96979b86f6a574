"""Tests of callers at an owner's control socket that break HTTP, stall or come in crowds; and of malformed owners."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from random import Random

import anyio
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.owner.remote import RemoteHandle, RemoteRuntime
from hotdesk.desk.seam import Desk, Spec, Usage, new_id
from hotdesk.errors import BriefError, HotdeskError
from hotdesk.host import Host, control_path
from hotdesk.ipc.tasks import background
from hotdesk.linux.sockets import accept, listen, receive, send
from tests.fuzz.conftest import Seeds
from tests.fuzz.hostile import memory_within, run, spoil_bytes
from tests.fuzz.test_hostile_borrower import sentence

PORTS = ("1", "0", "-1", "x", "99999", "9" * 5000)
CROWD = """
import resource, socket, sys, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
crowd = []
for _ in range(int(sys.argv[2])):
    caller = socket.socket(socket.AF_UNIX)
    caller.settimeout(2)
    for _ in range(40):
        try:
            caller.connect(sys.argv[1])
            caller.send(b"GET /desks HTTP/1.1\\r\\nHo")
            crowd.append(caller)
            break
        except BlockingIOError:
            time.sleep(0.01)
    else:
        break
print(len(crowd), flush=True)
sys.stdin.read()
"""


# -- callers of an owner -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def host(settings: Config) -> AsyncIterator[Host]:
    async with Host(settings) as opened:
        yield opened


@pytest.fixture(scope="module")
async def desk(host: Host) -> AsyncIterator[Desk]:
    async with host.open_desk(Spec(memory=256 * MIB)) as opened:
        yield opened


def request(chance: Random, desk: Desk) -> bytes:
    body = b'{"image": "no-such-image", "memory": 268435456}'
    size = chance.choice((len(body), len(body), 0, 5, 70_000, 1 << 40, -1))
    head = "Host: hotdesk\r\nConnection: Upgrade\r\nUpgrade: hotdesk-link\r\n"
    said = chance.choice(
        (
            b"GET /desks HTTP/1.1\r\nHost: x\r\n\r\n",
            f"GET /desks/{desk.id}/usage HTTP/1.1\r\n{head}\r\n".encode(),
            f"GET /desks/{desk.id}/root HTTP/1.1\r\n{head}\r\n".encode() + sentence(chance),
            f"GET /desks/{desk.id}/dial/{chance.choice(PORTS)} HTTP/1.1\r\n{head}\r\n".encode(),
            f"GET /desks/{desk.id}/link HTTP/1.1\r\n{head}\r\n".encode() + sentence(chance),
            f"DELETE /desks/{new_id()} HTTP/1.1\r\n{head}\r\n".encode(),
            f"DELETE /desks/../{desk.id} HTTP/1.1\r\n{head}\r\n".encode(),
            f"POST /desks HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode() + body,
            b"POST /desks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n" + bytes(10_000),
            b"POST /desks HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n" + b"[" * 60_000,
            b"GET /" + b"a" * 100_000,
            b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        )
    )
    return spoil_bytes(chance, said) if chance.random() < 0.3 else said


async def call(settings: Config, chance: Random, said: bytes) -> None:
    """Be one caller: fast or slow, reading or not, disconnecting at some point."""
    sock = socket.socket(socket.AF_UNIX)
    with sock:
        sock.connect(str(control_path(settings, os.getpid())))
        sock.setblocking(False)
        with suppress(OSError), anyio.move_on_after(chance.choice((0.01, 0.1, 0.3))):
            cut = chance.randrange(len(said) + 1)
            await send(sock, said[:cut])
            await anyio.sleep(chance.choice((0, 0, 0.01)))
            await send(sock, said[cut:])
            if chance.random() < 0.3:
                sock.shutdown(chance.choice((socket.SHUT_RD, socket.SHUT_WR)))
            while await receive(sock):
                pass


async def attack(settings: Config, desk: Desk, seed: int) -> None:
    chance = Random(seed)
    said = [request(chance, desk) for _ in range(5)]
    try:
        async with anyio.create_task_group() as tasks:
            for each in said:
                tasks.start_soon(call, settings, Random(chance.random()), each)
            with anyio.fail_after(20):
                assert (await desk.run(["echo", str(seed)])).text == f"{seed}\n"
    except BaseException as e:
        raise AssertionError(f"HOTDESK_FUZZ_SEED={seed}") from e


@pytest.mark.container
async def test_an_owner_serves_its_desks_despite_hostile_callers(settings: Config, desk: Desk) -> None:
    with memory_within(64 * MIB):
        for seed in range(40):
            await attack(settings, desk, seed)
        await settled(desk)


@pytest.mark.container
@pytest.mark.long
async def test_an_owner_serves_its_desks_despite_hostile_callers_for_long(
    settings: Config, desk: Desk, seeds: Seeds
) -> None:
    with memory_within(128 * MIB):
        for seed in seeds():
            await attack(settings, desk, seed)
        await settled(desk)


async def settled(desk: Desk) -> None:
    for _ in range(1000):
        if not desk.link.channels:  # type: ignore[attr-defined]
            return
        await anyio.sleep(0.01)
    raise AssertionError("channels of callers that are gone")


@contextmanager
def crowd(settings: Config, size: int) -> Iterator[int]:
    """Have many callers stall in the middle of their requests; yield how many could connect."""
    path = str(control_path(settings, os.getpid()))
    argv = [sys.executable, "-c", CROWD, path, str(size)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as callers:
        assert callers.stdout is not None
        yield int(callers.stdout.readline())
        callers.kill()


@pytest.mark.container
async def test_a_crowd_of_callers_does_not_end_an_owner(settings: Config, desk: Desk) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, hard))
    try:
        come = await anyio.to_thread.run_sync(crowded, settings)
        assert come > 40
        for _ in range(20):
            assert (await desk.run(["true"])).ok
            await anyio.sleep(0.01)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    await anyio.sleep(0.3)
    async with background() as tasks:
        answer = await RemoteRuntime(control_path(settings, os.getpid()), tasks).call("GET", "/desks")
        assert answer["items"]


def crowded(settings: Config) -> int:
    with crowd(settings, 200) as come:
        time.sleep(0.5)
        return come


# -- owners with malformed answers ----------------------------------------------------------------------------------

UPGRADE = b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: hotdesk-link\r\n\r\n"
NONSENSE: dict[str, bytes] = {
    "nothing": b"",
    "no HTTP": b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n",
    "half an answer": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
    "no JSON": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[}",
    "deep JSON": b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n" + b"[" * 60_000,
    "a number of many digits": b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n" + b"9" * 9000,
    "a strange error": b'HTTP/1.1 500 Error\r\nContent-Length: 12\r\n\r\n{"code": 12}',
    "an unknown error": b'HTTP/1.1 500 Error\r\nContent-Length: 32\r\n\r\n{"code": "builtins.exit", "text": "x"}'[:-5],
    "a strange id": b'HTTP/1.1 201 OK\r\nContent-Length: 12\r\n\r\n{"id": "..."}'[:-1],
    "an endless head": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000,
    "an endless body": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + bytes(5 << 20),
    "a link that is none": UPGRADE + b"\xff" * 99,
    "a link that ends": UPGRADE,
    "memory that is no number": b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"memory":[]}',
}


async def dial(runtime: RemoteRuntime) -> None:
    (await RemoteHandle(runtime, new_id()).dial(80)).close()


Ask = Callable[[RemoteRuntime], Awaitable[object]]
ASKS: dict[str, Ask] = {
    "open": lambda runtime: runtime.open(Spec()),
    "find": lambda runtime: runtime.find(new_id()),
    "burn": lambda runtime: runtime.burn(new_id()),
    "usage": lambda runtime: RemoteHandle(runtime, new_id()).usage(),
    "pause": lambda runtime: RemoteHandle(runtime, new_id()).pause(True),
    "root": lambda runtime: RemoteHandle(runtime, new_id()).get_root_link(),
    "dial": dial,
}


async def answer(listener: socket.socket, said: bytes, reset: bool) -> None:
    while True:
        sock = await accept(listener)
        sock.setblocking(False)
        with sock, suppress(OSError):
            if not reset:
                await receive(sock)
            await send(sock, said)


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("name", NONSENSE)
def test_an_owner_that_answers_nonsense_is_an_error_of_ours(name: str, ask: str, tmp_path: Path) -> None:
    async def play(reset: bool) -> None:
        with listen(tmp_path / "owner.sock") as listener:
            async with background() as tasks:
                tasks.start(lambda: answer(listener, NONSENSE[name], reset))
                runtime = RemoteRuntime(tmp_path / "owner.sock", tasks)
                try:
                    with anyio.fail_after(300):
                        given = await ASKS[ask](runtime)
                    assert not isinstance(given, Usage) or all(type(n) in (int, float) for n in astuple(given))
                except HotdeskError:
                    pass
                for link in (each for links in runtime.links.values() for each in links):
                    link.hang_up()

    for reset in (False, True):
        run(play, reset)


async def dial_often(runtime: RemoteRuntime) -> None:
    """Call until the owner's queue is full."""
    with ExitStack() as crowd:
        for _ in range(70):
            crowd.enter_context(await runtime.dial())


def test_a_call_to_an_owner_that_never_answers_is_given_up(tmp_path: Path) -> None:
    async def play() -> None:
        with listen(tmp_path / "owner.sock"):
            async with background() as tasks:
                runtime = RemoteRuntime(tmp_path / "owner.sock", tasks)
                for ask in ASKS.values():
                    with anyio.fail_after(300), pytest.raises(HotdeskError):
                        await ask(runtime)
                with anyio.fail_after(300), pytest.raises(HotdeskError, match="accepted no connection"):
                    await dial_often(runtime)

    run(play)


def test_a_too_large_spec_is_refused_before_a_request_is_sent(tmp_path: Path) -> None:
    async def play() -> None:
        async with background() as tasks:
            with pytest.raises(BriefError, match="put the data into a file"):
                await RemoteRuntime(tmp_path / "owner.sock", tasks).open(Spec(env={"A": "x" * 70_000}))

    run(play)
