"""Attacks on desks whose memory is saved: by programs that run in a copy before its guest answers, and on the disk."""

from __future__ import annotations

import json
import stat
from collections.abc import AsyncIterator
from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.request import KeeperRequest
from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import BriefError, HotdeskError
from tests.security.conftest import Attack, Owning
from tests.security.guards import Removal, falls_without, no_guard

pytestmark = pytest.mark.container

GVISOR = Spec(wall="gvisor", cpus=1, memory=512 * MIB)
MICROVM = Spec(wall="microvm", cpus=1, memory=256 * MIB, disk=512 * MIB)
WALLS = (
    pytest.param(GVISOR, id="gvisor", marks=[pytest.mark.gvisor, pytest.mark.timeout(120)]),
    pytest.param(MICROVM, id="microvm", marks=[pytest.mark.microvm, pytest.mark.timeout(600)]),
)
TIME = 240.0
"""Seconds an attack may take: a virtual machine may be emulated."""
IMPOSTOR = """
import socket, sys, time
sys.path.insert(0, "/run/hotdesk/lib")
from hotdesk_guest.wire import HELLO, OPEN, REPLY, encode, encode_frame, FrameReader, HOST_KINDS, HOST_LIMIT
print("ready", flush=True)
while True:
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect("/run/hotdesk/link.sock")
    except FileNotFoundError:
        time.sleep(0.01)
        continue
    except OSError:
        continue
    s.settimeout(30)
    try:
        s.sendall(encode_frame(HELLO, 0, encode({"version": 1, "pid": 1, "home": "/stolen", "token": "0" * 64})))
        reader = FrameReader(HOST_KINDS, HOST_LIMIT)
        while data := s.recv(65536):
            for kind, number, payload in reader.feed(data):
                if kind == OPEN:
                    ended = {"code": 0, "signal": None, "timed_out": False, "text": ""}
                    s.sendall(encode_frame(REPLY, number, encode(ended)))
    except OSError:
        pass
"""
TOKEN = """
tell({"mem": attempt(open, "/proc/1/mem", "rb"), "maps": attempt(lambda: len(open("/proc/1/maps").read())),
      "attach": attempt_ptrace(), "fd": attempt(os.listdir, "/proc/1/fd")})
"""
PTRACE = """
def attempt_ptrace():
    return call("ptrace", 16, 1, 0, 0)
"""

DRAW = """
import os, time
with open("drawn", "a", buffering=1) as drawn:
    while True:
        offset = time.time() - time.monotonic()
        drawn.write("%s %.3f\\n" % (os.urandom(16).hex(), offset))
        time.sleep(0.002)
"""
LEAP_S = 0.02
"""Seconds the clock leaps at least over the time in which a desk's memory was written."""


@pytest.fixture(scope="module")
async def runtime(settings: Config, owning: Owning) -> AsyncIterator[KeeperRuntime]:
    async with owning(replace(settings, microvm_emulate=True)) as opened:
        yield opened


@pytest.fixture(params=WALLS)
def spec(request: pytest.FixtureRequest) -> Spec:
    assert isinstance(request.param, Spec)
    return request.param


GVISOR_ALONE = pytest.mark.parametrize("spec", WALLS[:1], indirect=True)
MICROVM_ALONE = pytest.mark.parametrize("spec", WALLS[1:], indirect=True)


@falls_without(
    "a guest shows its token",
    Removal("link/recognition.py", "self.found is None and is_right(hello, self.token):", "self.found is None:"),
    cases="gvisor",
)
@no_guard("the socket of the link is outside the machine, and its port is root's alone", cases="microvm")
async def test_an_impostor_that_calls_first_in_a_copy_is_not_taken_for_its_guest(
    runtime: KeeperRuntime, spec: Spec
) -> None:
    desk = await runtime.open(spec)
    await desk.write("impostor.py", IMPOSTOR)
    starting = [await desk.start(["python3", "impostor.py"]) for _ in range(2)]
    for impostor in starting:
        async for _, data in impostor.output():
            assert data == b"ready\n"
            break
    (copy,) = await desk.fork(memory=True)
    assert copy.home != "/stolen"
    for each in (desk, copy):
        assert (await each.run(["echo", "guest"], timeout=TIME)).text == "guest\n"
        await runtime.burn(each.id)


@no_guard("a sentry lets programs trace their descendants alone, and a machine's guest was root when it began")
async def test_no_program_reads_the_token_in_the_guests_memory(
    runtime: KeeperRuntime, spec: Spec, attack: Attack
) -> None:
    desk = await runtime.open(spec)
    told = await attack(desk, PTRACE + TOKEN, timeout=TIME)
    assert told["mem"] in ("EACCES", "EPERM")
    assert told["attach"] in ("EACCES", "EPERM")
    await runtime.burn(desk.id)


@falls_without(
    "what is kept of a desk is root's alone",
    Removal("keeper/hibernated.py", "os.O_TRUNC | os.O_CLOEXEC, 0o600)", "os.O_TRUNC | os.O_CLOEXEC, 0o644)"),
)
async def test_the_token_of_a_hibernated_desk_cannot_be_read_by_other_users(
    runtime: KeeperRuntime, spec: Spec, settings: Config
) -> None:
    desk = await runtime.open(spec)
    await desk.pause(keep="disk")
    record = settings.lib / "hibernated" / f"{desk.id}.json"
    token = json.loads(record.read_text())["token"]
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700
    assert token not in (settings.run / "hibernated" / f"{desk.id}.json").read_text()
    assert token not in (settings.run / "desks" / desk.id / "desk.json").read_text()
    await runtime.burn(desk.id)


@pytest.mark.long
@GVISOR_ALONE
@no_guard("the layer has the memory beside the files that programs see, not among them")
async def test_no_program_finds_the_saved_memory(runtime: KeeperRuntime, spec: Spec) -> None:
    desk = await runtime.open(replace(spec, root=True))
    (copy,) = await desk.fork(memory=True)
    find = ["sh", "-c", "find / -xdev -name 'checkpoint.img' -o -xdev -name 'pages*.img' 2>/dev/null; echo done"]
    for each in (desk, copy):
        assert (await each.run(find, user="root", timeout=60)).text == "done\n"
        await runtime.burn(each.id)


@falls_without(
    "a hibernated desk is woken as it was",
    Removal("keeper/open.py", "check_same(record, parse_spec(record.spec), request.spec)", "pass"),
)
async def test_a_hibernated_desk_cannot_be_woken_by_another_tenant(runtime: KeeperRuntime, spec: Spec) -> None:
    desk = await runtime.open(replace(spec, tenant="first"))
    await desk.pause(keep="disk")
    await runtime.burn(desk.id, spare_hibernated=True)
    for other in (replace(spec, tenant="second"), replace(spec, tenant="first", root=True)):
        with pytest.raises(BriefError, match="was hibernated with other values"):
            await runtime.keeper.ask(KeeperRequest("open", desk.id, other, memory=True), 2)
    woken = await runtime.wake(desk.id)
    assert (await woken.run(["true"])).ok
    await runtime.burn(desk.id)


@GVISOR_ALONE
@pytest.mark.long
@no_guard("the program that renames a copy comes from its keeper, and none of the desk's files is run")
async def test_root_gains_no_capability_from_a_copy_even_if_it_replaced_all_programs(
    runtime: KeeperRuntime, spec: Spec
) -> None:
    desk = await runtime.open(replace(spec, root=True))
    spy = "#!/bin/sh\ngrep Cap /proc/self/status >> /tmp/caps\n"
    plant = "for p in /bin/hostname /usr/bin/hostname; do cp /tmp/spy $p; done; chmod 755 /bin/hostname; :> /tmp/caps"
    await desk.write("/tmp/spy", spy, mode=0o755)
    await desk.run(["sh", "-c", plant], user="root")
    (copy,) = await desk.fork(memory=True)
    assert (await copy.read("/tmp/caps")) == b""
    uname = ["python3", "-c", "import socket; print(socket.gethostname())"]
    assert (await copy.run(uname)).text.strip() == copy.id[:12]
    for each in (desk, copy):
        await runtime.burn(each.id)


@no_guard("what is written counts against the disk's limit, which the kernel holds")
async def test_memory_too_large_for_the_disk_is_refused_and_the_desk_keeps_running(
    runtime: KeeperRuntime, spec: Spec
) -> None:
    desk = await runtime.open(replace(spec, disk=64 * MIB))
    fill = "import os,time; x=os.urandom(128 << 20); print(1, flush=True); time.sleep(600)"
    process = await desk.start(["python3", "-c", fill])
    async for _, data in process.output():
        assert data == b"1\n"
        break
    with pytest.raises(HotdeskError, match=r"could not be saved: .* The desk keeps running"):
        await desk.fork(memory=True)
    assert (await desk.run(["true"])).ok
    await process.kill()
    await anyio.lowlevel.checkpoint()
    await runtime.burn(desk.id)


@MICROVM_ALONE
@falls_without("a machine's own randomness")
@falls_without(
    "programs stand still while a machine is saved",
    Removal("hotdesk_guest/vm.py", "            self.freezer.freeze()\n", "            pass\n"),
)
async def test_a_copy_draws_none_of_the_random_numbers_that_its_origin_draws(
    runtime: KeeperRuntime, spec: Spec
) -> None:
    desk = await runtime.open(spec)
    await desk.write("draw.py", DRAW)
    await desk.start(["python3", "draw.py"])
    while not await has_drawn(desk, 20):
        await anyio.sleep(0.05)
    (copy,) = await desk.fork(memory=True)
    drawn = []
    for each in (desk, copy):
        with anyio.fail_after(TIME):
            while not split(await each.read("drawn"))[1][20:]:
                await anyio.sleep(0.05)
        drawn.append(split(await each.read("drawn")))
        await runtime.burn(each.id)
    (before, after), (copied, other) = drawn
    assert len(copied) == len(before), "programs stood still until the copy was seeded, and the clock set"
    assert copied[:-1] == before[:-1]
    assert {*after}.isdisjoint(other)


async def has_drawn(desk: Desk, lines: int) -> bool:
    is_there = any(each.name == "drawn" for each in await desk.list())
    return is_there and (await desk.read("drawn")).count(b"\n") > lines


def split(drawn: bytes) -> tuple[list[str], list[str]]:
    """Return what was drawn before the memory was saved, and after: the clock leaps over the time between."""
    rows = [line.split() for line in drawn.decode().splitlines()[:-1]]
    first = float(rows[0][1])
    words: tuple[list[str], list[str]] = ([], [])
    for word, offset in rows:
        words[float(offset) > first + LEAP_S].append(word)
    return words
