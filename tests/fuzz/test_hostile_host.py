"""Tests of a broken host, or one with a broken borrower: the guest answers or disconnects, and survives.

The guest is an ordinary process of the tests' user here: no path in anything it gets leads out of its folder.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import suppress
from random import Random

import anyio
import pytest

from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.seam import new_id
from hotdesk.errors import HotdeskError
from hotdesk.linux.sockets import receive, send
from hotdesk_guest import wire
from hotdesk_guest.wire import CREDIT, DATA, DROP, END, HELLO, OPEN, PING, SIGNAL, encode, encode_frame
from tests.fuzz.conftest import Seeds
from tests.fuzz.corpus import RealGuest
from tests.fuzz.hostile import render, resident

pytestmark = pytest.mark.timeout(60)

SLEEP = encode_frame(OPEN, 1, encode({"op": "exec", "argv": ["sleep", "5"], "stdin": True, "timeout": 500}))
SLEEP_IN_TERMINAL = encode_frame(
    OPEN, 1, encode({"op": "exec", "argv": ["sleep", "5"], "pty": [24, 80], "timeout": 500})
)
VALUES: list[object] = [None, True, 5, -1, 10**18, b"bytes", "name", "", [], ["x"], {}, {"a": "b"}, [None], "~", "\0"]
"""Values that may replace any part of a request; the only paths are names in the guest's folder."""
ASKS: list[dict[str, object]] = [
    {"op": "exec", "argv": ["true"], "env": {"A": "b"}, "cwd": "", "stdin": True, "timeout": 500, "tell": True},
    {"op": "attach", "pid": 7},
    {"op": "processes"},
    {"op": "read", "path": "file"},
    {"op": "write", "path": "file", "mode": 0o600},
    {"op": "list", "path": "here", "depth": 1},
    {"op": "stat", "path": "file"},
    {"op": "mkdir", "path": "made"},
    {"op": "move", "source": "made", "destination": "moved"},
    {"op": "remove", "path": "moved"},
    {"op": "exec", "argv": ["true"], "pty": [24, 80], "timeout": 500},
    {"op": "watch", "path": "here", "recursive": True},
    {"op": "acts"},
    {"op": "nothing"},
]
BROKEN: dict[str, bytes] = {
    "an unknown kind": encode_frame(99, 1),
    "a guest's kind": encode_frame(HELLO, 0, encode({})),
    "a frame over the limit": (wire.HOST_LIMIT + 1).to_bytes(4, "big") + bytes([OPEN, 0, 0, 0, 1]),
    "a request that is no value": encode_frame(OPEN, 1, b"?"),
    "a request that is nothing": encode_frame(OPEN, 1),
    "a request that is a list": encode_frame(OPEN, 1, b"le"),
    "a request too deep": encode_frame(OPEN, 1, b"l" * 60_000),
    "an order that is no value": SLEEP + encode_frame(SIGNAL, 1, b"?"),
    "an order that is a list": SLEEP + encode_frame(SIGNAL, 1, b"le"),
    "an order without its words": SLEEP + encode_frame(SIGNAL, 1, encode({})),
    "a signal that is text": SLEEP + encode_frame(SIGNAL, 1, encode({"tree": False, "signal": "KILL"})),
    "a signal there is not": SLEEP + encode_frame(SIGNAL, 1, encode({"tree": False, "signal": 999})),
    "a signal of many digits": SLEEP + encode_frame(SIGNAL, 1, encode({"tree": False, "signal": 10**18})),
    "a size that is none": SLEEP_IN_TERMINAL + encode_frame(SIGNAL, 1, encode({"size": [1]})),
    "a size that is text": SLEEP_IN_TERMINAL + encode_frame(SIGNAL, 1, encode({"size": "24x80"})),
    "a size beyond all terminals": SLEEP_IN_TERMINAL + encode_frame(SIGNAL, 1, encode({"size": [10**9, -1]})),
    "an order to a watch without its words": encode_frame(
        OPEN, 1, encode({"op": "watch", "path": "", "recursive": True})
    )
    + encode_frame(SIGNAL, 1, encode({})),
    "credit of many bytes": SLEEP + encode_frame(CREDIT, 1, b"\xff" * 5000),
    "a channel opened twice": SLEEP * 2,
    "a file opened twice": encode_frame(OPEN, 1, encode({"op": "write", "path": "file", "mode": None})) * 50,
    "bytes for a program that is gone": encode_frame(OPEN, 1, encode({"op": "exec", "argv": ["true"], "stdin": True}))
    + encode_frame(DATA, 1, b"\0" + bytes(100_000)) * 5
    + encode_frame(END, 1) * 3,
    "bytes for nobody": encode_frame(DATA, 9, b"\0x")
    + encode_frame(END, 9)
    + encode_frame(SIGNAL, 9)
    + encode_frame(DROP, 9)
    + encode_frame(CREDIT, 9),
    "noise": bytes(range(255, -1, -1)) * 100,
}


@pytest.fixture(scope="module")
async def guest(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RealGuest]:
    """Yield a guest that several tests share; if it died, all later tests would fail."""
    folder = tmp_path_factory.mktemp("guest")
    started = RealGuest(folder)
    yield started
    complaint = started.close()
    assert not complaint


async def shout(guest: RealGuest, *said: bytes) -> None:
    sock = await guest.call()
    with sock:
        sock.setblocking(False)
        with suppress(OSError), anyio.move_on_after(0.5):
            for data in said:
                await send(sock, data)
            await send(sock, encode_frame(PING, 0, b"last"))
            heard = b""
            while b"last" not in heard and (data := await receive(sock)):
                heard = heard[-10:] + data
        anyio.notify_closing(sock)


async def prove(guest: RealGuest) -> None:
    assert guest.process.poll() is None, guest.close()
    link = Link(await guest.call())
    if not guest.home.is_dir():  # the previous host may have had it removed, or replaced by a file
        guest.home.unlink(missing_ok=True)
        guest.home.mkdir()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.run)
        with anyio.fail_after(10):
            await link.wait_for_hello()
            desk = LinkedDesk(new_id(), link, "/")
            assert (await desk.run(["echo", "alive"], timeout=10)).text == "alive\n"
        link.hang_up()


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_host_does_not_end_its_guest(guest: RealGuest, name: str) -> None:
    await shout(guest, BROKEN[name])
    await prove(guest)


@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: str(ask["op"]))
async def test_a_request_with_malformed_parts_is_answered(guest: RealGuest, ask: dict[str, object]) -> None:
    said, number = [], 0
    for name in ask:
        for value in VALUES:
            number += 1
            strange = encode({**ask, name: value})
            said.append(
                encode_frame(OPEN, number, strange) + encode_frame(DATA, number, b"\0x") + encode_frame(END, number)
            )
        number += 1
        said.append(encode_frame(OPEN, number, encode({key: value for key, value in ask.items() if key != name})))
    await shout(guest, *said)
    await prove(guest)


async def test_a_program_that_cannot_start_leaves_no_open_descriptor(guest: RealGuest) -> None:
    await prove(guest)
    before = len(os.listdir(f"/proc/{guest.process.pid}/fd"))
    wrong = ({"cwd": "\0"}, {"env": {"A": "\0"}}, {"env": {"A=B": ""}}, {"argv": ["\0"]}, {"pty": [0, 0]}, {"pty": 5})
    for ask in wrong:
        await shout(
            guest, *[encode_frame(OPEN, n, encode({"op": "exec", "argv": ["true"], **ask})) for n in range(1, 20)]
        )
        await prove(guest)
    assert len(os.listdir(f"/proc/{guest.process.pid}/fd")) <= before + 2


@pytest.mark.parametrize("path", [5, None, b"bytes", ["x"]], ids=str)
async def test_a_path_that_is_not_a_text_is_an_error_and_does_not_end_the_desk(guest: RealGuest, path: str) -> None:
    link = Link(await guest.call())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.run)
        desk = LinkedDesk(new_id(), link, "/")
        for call in (desk.read, desk.list, desk.stat, desk.mkdir, desk.remove):
            with anyio.fail_after(10), pytest.raises(HotdeskError):
                await call(path)
        link.hang_up()
    await prove(guest)


def sentence(chance: Random) -> bytes:
    """Return a correct or nearly correct message of a host, without paths."""
    number = chance.randint(1, 6)
    ask = dict(chance.choice(ASKS))
    for _ in range(chance.choice((0, 1, 1, 2))):
        ask[chance.choice(sorted(ask))] = chance.choice(VALUES)
    frames = [
        encode_frame(OPEN, number, render(ask)),
        encode_frame(DATA, number, b"\0" + bytes(chance.choice((0, 1, 1000, 40_000)))),
        encode_frame(CREDIT, number, chance.randbytes(chance.choice((0, 4, 4, 9)))),
        encode_frame(END, number),
        encode_frame(SIGNAL, number, encode({"signal": chance.choice((0, 9, 15, -1, 999, "x", None)), "tree": False})),
        encode_frame(SIGNAL, number, encode({"signal": 9, "tree": chance.choice(VALUES)})),
        encode_frame(SIGNAL, number, encode({chance.choice(("size", "drain", "act")): chance.choice(VALUES)})),
        encode_frame(SIGNAL, number, chance.randbytes(5)),
        encode_frame(DROP, number),
        encode_frame(PING, number, chance.randbytes(chance.randrange(100))),
        chance.randbytes(20),
    ]
    return b"".join(chance.choices(frames, weights=(9, 4, 3, 2, 1, 1, 1, 0.2, 2, 1, 0.1), k=chance.randint(5, 40)))


async def play(guest: RealGuest, seed: int) -> None:
    """Run the case of one seed; a failure names the seed."""
    chance = Random(seed)
    try:
        await shout(guest, *(sentence(chance) for _ in range(chance.randint(1, 5))))
        if seed % 5 == 0:
            await prove(guest)
    except BaseException as e:
        raise AssertionError(f"HOTDESK_FUZZ_SEED={seed}") from e


async def test_no_host_ends_its_guest(guest: RealGuest) -> None:
    for seed in range(60):
        await play(guest, seed)
    await nothing_left(guest)


@pytest.mark.long
async def test_no_host_ends_its_guest_for_long(guest: RealGuest, seeds: Seeds) -> None:
    for seed in seeds():
        await play(guest, seed)
    await nothing_left(guest)


async def nothing_left(guest: RealGuest) -> None:
    await prove(guest)
    await anyio.sleep(1)
    await prove(guest)
    assert len(os.listdir(f"/proc/{guest.process.pid}/fd")) < 40
    assert resident("VmRSS", guest.process.pid) < 64 << 20
