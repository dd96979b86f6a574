"""Tests of what is done to any desk from outside: dialling a server in it, pausing it, measuring its use."""

from __future__ import annotations

import socket
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.keeper import state
from hotdesk.desk.seam import Desk, Process, Runtime, Spec
from hotdesk.errors import BriefError, DeskError, DeskGone

Open = Callable[[Spec], AbstractAsyncContextManager[Desk]]

pytestmark = pytest.mark.timeout(60)

SERVER = """
import socket, sys, threading
family = socket.AF_INET6 if "6" in sys.argv[1] else socket.AF_INET
listener = socket.socket(family)
listener.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
listener.listen(int(sys.argv[2]))
print(listener.getsockname()[1], flush=True)
def echo(caller):
    while data := caller.recv(65536):
        caller.sendall(data)
    caller.sendall(b"[end]" if "end" in sys.argv[1] else b"")
    caller.close()
while "silent" in sys.argv[1]:
    threading.Event().wait()
while True:
    threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
"""
COUNT = """
import os, time
number = 0
while True:
    number += 1
    with open("next", "w") as file:
        file.write(str(number))
    os.replace("next", "count")
    time.sleep(0.005)
"""


@asynccontextmanager
async def serving(desk: Desk, kind: str = "4", backlog: int = 16) -> AsyncIterator[int]:
    """Run a server in a desk; yield its port."""
    process = await desk.start(["python3", "-c", SERVER, kind, str(backlog)], stdin=False, timeout=50)
    try:
        yield int(await line(process))
    finally:
        await process.kill()


async def line(process: Process) -> bytes:
    said = b""
    async for _, data in process.output():
        said += data
        if b"\n" in said:
            return said
    raise AssertionError(f"it ended early: {said!r}")


async def talk(sock: socket.socket, data: bytes = b"", *, end: bool = False) -> bytes:
    """Send, half close if `end`, and return the reply: all of it if `end`, else as many bytes as were sent."""
    heard = bytearray()

    async def send() -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[sock.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(sock)
        if end:
            sock.shutdown(socket.SHUT_WR)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        while end or len(heard) < len(data):
            try:
                part = sock.recv(65536)
            except BlockingIOError:
                await anyio.wait_readable(sock)
                continue
            if not part:
                break
            heard += part
    return bytes(heard)


async def counted(desk: Desk) -> int:
    return int((await desk.run(["sh", "-c", "while ! cat count 2>/dev/null | grep .; do sleep 0.01; done"])).stdout)


# -- dialling -----------------------------------------------------------------------------------------------------


async def test_a_server_inside_is_dialled(desk: Desk) -> None:
    async with serving(desk) as port:
        for word in (b"hello", b"again"):
            with await desk.dial(port) as sock:
                assert not sock.getblocking()
                assert await talk(sock, word) == word


async def test_a_server_that_listens_on_ipv6_alone_is_dialled(desk: Desk) -> None:
    async with serving(desk, "6") as port:
        with await desk.dial(port) as sock:
            assert await talk(sock, b"hello") == b"hello"


async def test_a_port_without_a_listener_is_an_error(desk: Desk) -> None:
    script = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"
    port = int((await desk.run(["python3", "-c", script])).text)
    start = anyio.current_time()
    with pytest.raises(DeskError, match=str(port)):
        await desk.dial(port)
    assert anyio.current_time() - start < 5


@pytest.mark.parametrize("port", [0, -1, 65536, 1 << 40])
async def test_an_invalid_port_is_refused(desk: Desk, port: int) -> None:
    with pytest.raises(BriefError):
        await desk.dial(port)


async def test_one_direction_can_end_before_the_other(desk: Desk) -> None:
    async with serving(desk, "4 end") as port:
        with await desk.dial(port) as sock:
            assert await talk(sock, b"question", end=True) == b"question[end]"


async def test_large_data_passes_both_ways_at_once(desk: Desk) -> None:
    data = bytes(range(256)) * 4096 * 16
    async with serving(desk) as port:
        with await desk.dial(port) as sock:
            assert await talk(sock, data, end=True) == data


async def test_many_calls_at_once_keep_apart(desk: Desk) -> None:
    heard: dict[int, bytes] = {}

    async def one(port: int, number: int) -> None:
        with await desk.dial(port) as sock:
            heard[number] = await talk(sock, b"%d" % number, end=True)

    async with serving(desk, backlog=64) as port, anyio.create_task_group() as tasks:
        for number in range(40):
            tasks.start_soon(one, port, number)
    assert heard == {number: b"%d" % number for number in range(40)}


@pytest.mark.long
async def test_a_server_that_never_answers_does_not_block_forever(desk: Desk) -> None:
    kept: list[socket.socket] = []
    try:
        async with serving(desk, "4 silent", backlog=0) as port:
            with anyio.fail_after(30):
                failure = None
                while failure is None and len(kept) < 10:
                    try:
                        kept.append(await desk.dial(port))
                    except DeskError as e:
                        failure = str(e)
            assert failure is not None
            assert "did not respond" in failure
            assert (await desk.run(["true"])).ok
    finally:
        for sock in kept:
            sock.close()


async def test_a_call_ends_with_the_desk(runtime: Runtime) -> None:
    desk = await runtime.open(Spec())
    try:
        async with serving(desk) as port:
            sock = await desk.dial(port)
            assert await talk(sock, b"hello") == b"hello"
            await runtime.burn(desk.id)
    finally:
        await runtime.burn(desk.id)
    with sock, anyio.fail_after(10):
        await anyio.wait_readable(sock)
        try:
            assert sock.recv(1) == b""
        except ConnectionResetError:
            pass
    with pytest.raises(DeskGone):
        await desk.dial(port)


# -- pausing ------------------------------------------------------------------------------------------------------


async def test_nothing_runs_while_a_desk_is_paused(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        await desk.start(["python3", "-c", COUNT])
        await counted(desk)
        await desk.pause()
        used = (await desk.usage()).cpu
        await anyio.sleep(0.5)
        assert (await desk.usage()).cpu == used
        await desk.resume()
        now = await counted(desk)
        await anyio.sleep(0.3)
        assert await counted(desk) > now


async def test_calls_wait_while_a_desk_is_paused_and_then_succeed(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        await desk.write("kept", b"x")
        await desk.pause()
        done: dict[str, object] = {}

        async def run() -> None:
            done["run"] = (await desk.run(["echo", "hi"])).text

        async def read() -> None:
            done["read"] = await desk.read("kept")

        async def write() -> None:
            await desk.write("large", bytes(2 * MIB))
            done["write"] = (await desk.stat("large")).size

        async with anyio.create_task_group() as tasks:
            for call in (run, read, write):
                tasks.start_soon(call)
            await anyio.sleep(0.4)
            assert done == {}
            await desk.resume()
        assert done == {"run": "hi\n", "read": b"x", "write": 2 * MIB}


async def test_pausing_and_resuming_twice_is_no_error(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        await desk.resume()
        await desk.pause()
        await desk.pause()
        await desk.resume()
        await desk.resume()
        for _ in range(20):
            await desk.pause()
            await desk.resume()
        assert (await desk.run(["true"])).ok


async def test_a_paused_desk_burns(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        await desk.start(["python3", "-c", COUNT])
        await desk.pause()
    with pytest.raises(DeskGone):
        await desk.run(["true"])
    with pytest.raises(DeskGone):
        await desk.resume()


async def test_the_deadline_does_not_wait_for_a_paused_desk(fresh: Open) -> None:
    async with fresh(Spec(deadline=1.5)) as desk:
        await desk.pause()
        with anyio.fail_after(15), pytest.raises(DeskGone, match="deadline"):
            await desk.run(["true"])


@pytest.mark.long
async def test_a_paused_desk_is_not_idle(fresh: Open) -> None:
    async with fresh(Spec(idle=0.6)) as desk:
        await desk.pause()
        await anyio.sleep(2)
        await desk.resume()
        assert (await desk.run(["echo", "here"])).text == "here\n"
        await anyio.sleep(3)
        with pytest.raises(DeskGone, match="idle"):
            await desk.run(["true"])


async def test_a_desks_listing_says_that_it_is_paused(fresh: Open, settings: Config) -> None:
    async with fresh(Spec()) as desk:
        said = []
        for step in (desk.pause, desk.pause, desk.resume):
            await step()
            said += [told["state"] for told in state.list_own_desks(settings) if told["id"] == desk.id]
        assert said == ["paused", "paused", "open"]


async def test_the_clock_is_right_after_a_pause(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        await desk.pause()
        await anyio.sleep(1)
        await desk.resume()
        assert abs(float((await desk.run(["date", "+%s.%N"])).text) - time.time()) < 1


async def test_a_paused_desk_can_be_dialled_and_answers_later(fresh: Open) -> None:
    async with fresh(Spec()) as desk, serving(desk) as port:
        await desk.pause()
        with await desk.dial(port) as sock:
            sock.send(b"hello")
            with anyio.move_on_after(0.3) as silent:
                await anyio.wait_readable(sock)
            assert silent.cancelled_caught
            await desk.resume()
            assert await talk(sock, b"!") in (b"h", b"hello", b"hello!")


async def test_a_program_survives_a_pause(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        process = await desk.start(["sh", "-c", "read word; echo $word"])
        await desk.pause()
        await process.send(b"typed meanwhile\n")
        await desk.resume()
        assert [data async for _, data in process.output()] == [b"typed meanwhile\n"]


# -- usage ----------------------------------------------------------------------------------------------------------


async def test_processor_time_is_counted(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        before = await desk.usage()
        await desk.run(["python3", "-c", "import time\nwhile time.process_time() < 1: pass"])
        assert 0.9 < (await desk.usage()).cpu - before.cpu < 10


async def test_memory_is_counted(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        before = await desk.usage()
        script = "import time; kept = b'x' * (100 << 20); print(len(kept), flush=True); time.sleep(100)"
        process = await desk.start(["python3", "-c", script])
        await line(process)
        assert 95 * MIB < (await desk.usage()).memory - before.memory < 200 * MIB
        await process.kill()
        with anyio.fail_after(10):
            while True:
                if (await desk.usage()).memory - before.memory < 50 * MIB:
                    break
                await anyio.sleep(0.05)


async def test_disk_use_is_counted(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        with anyio.fail_after(40):
            while not (before := await desk.usage()).disk:  # the kernel counts data once it is committed
                await anyio.sleep(0.2)
        await desk.run(
            ["sh", "-c", "head -c 50000000 /dev/urandom >big; python3 -c 'import os; os.fsync(os.open(\"big\", 0))'"]
        )
        with anyio.fail_after(40):
            while True:
                if 45 * MIB < (await desk.usage()).disk - before.disk < 80 * MIB:
                    break
                await anyio.sleep(0.2)


async def test_processes_are_counted(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        before = await desk.usage()
        assert before.pids >= 1
        script = "for n in 1 2 3 4 5 6 7 8 9 10; do sleep 100 & done; echo ready; wait"
        process = await desk.start(["sh", "-c", script])
        await line(process)
        assert (await desk.usage()).pids == before.pids + 11
        await process.kill()


async def test_kills_for_memory_are_counted(fresh: Open) -> None:
    async with fresh(Spec(memory=96 * MIB)) as desk:
        assert (await desk.usage()).oom_kills == 0
        hog = textwrap.dedent("kept = []\nfor n in range(40): kept.append(b'x' * (8 << 20))")
        assert (await desk.run(["python3", "-c", hog])).out_of_memory
        assert (await desk.usage()).oom_kills == 1
        assert not (await desk.run(["false"])).out_of_memory


async def test_a_burnt_desk_uses_nothing(runtime: Runtime) -> None:
    desk = await runtime.open(Spec())
    await runtime.burn(desk.id)
    for call in (desk.usage, desk.pause, desk.resume):
        with pytest.raises(DeskGone):
            await call()
