"""Tests of snapshots: rolling back to them, restarting from disk, and forking other desks from them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

import anyio
import pytest
from tests.conformance.conftest import WALLS, Open
from tests.trees import OWN, differences, tree

from hotdesk.config import MIB, Config
from hotdesk.desk.keeper import state
from hotdesk.desk.seam import SNAPSHOTS, Desk, DeskId, Process, Runtime, SnapshotId, Spec
from hotdesk.errors import BriefError, DeskError, DeskGone, HotdeskError

pytestmark = pytest.mark.timeout(60)

VARIETY = r"""
import os, socket, sys
os.chdir("/srv")
os.makedirs("d/e", mode=0o750)
with open("d/odd", "wb") as f: f.write(os.urandom(300_000))
os.chmod("d/odd", 0o604); os.chown("d/odd", 33, 44)
os.utime("d/odd", ns=(1, 987_654_321_123_456_789))
os.symlink("../no/such", "d/dangling"); os.symlink("odd", "d/link")
for name in ("one", "two"): os.link("d/odd", "d/e/" + name)
with open(b"d/\xff\xfe not utf-8", "wb") as f: f.write(b"x")
with open("d/sparse", "wb") as f: f.seek(1 << 26); f.write(b"end")
os.setxattr("d/odd", "user.note", b"\0\1 bytes"); os.setxattr("d", "user.note", b"a folder's")
os.mkfifo("d/fifo", 0o640)
s = socket.socket(socket.AF_UNIX); s.bind("d/socket"); s.close()
os.unlink("/etc/debian_version"); os.rename("/etc/motd", "/etc/moved") if os.path.exists("/etc/motd") else None
with open("/etc/passwd", "a") as f: f.write("added:x:77:77::/:/bin/false\n")
os.system("rm -r /usr/share/doc && mkdir /usr/share/doc && echo fresh >/usr/share/doc/fresh")
os.utime("/usr/share/doc", ns=(5, 5))
os.chmod("/home/user", 0o711)
os.system("cp -a /usr/bin/env /usr/local/bin/own-env; ln /usr/local/bin/own-env /usr/local/bin/env-again")
"""
"""Creates files of every kind as root: new files, links and holes; deletes, moves and writes files of the image."""

HAVOC = r"""
import os, shutil
os.chdir("/srv/d")
with open("odd", "r+b") as f: f.write(b"overwritten")
os.chmod("odd", 0o777); os.setxattr("odd", "user.note", b"other"); os.setxattr("odd", "user.more", b"")
os.unlink("e/one"); os.unlink("link"); os.symlink("elsewhere", "link")
os.unlink(b"\xff\xfe not utf-8"); os.truncate("sparse", 10); os.unlink("fifo")
os.removexattr("/srv/d", "user.note")
for name in ("base-files", "fresh"):
    path = "/usr/share/doc/" + name
    os.unlink(path) if os.path.isfile(path) else None
shutil.rmtree("/usr/lib/python3/dist-packages", ignore_errors=True); shutil.rmtree("/usr/share/doc")
os.unlink("/etc/passwd"); os.unlink("/etc/hostname"); os.unlink("/bin/true"); os.chmod("/", 0o700)
with open("/etc/debian_version", "w") as f: f.write("13.37")
with open("/etc/machine-id", "w") as f: f.write("not it")
"""

WRITER = """
import hashlib, os
out = os.open("journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
number = 0
while True:
    body = b"%08d" % number + bytes([number % 251]) * (number * 37 % 5000)
    os.write(out, len(body).to_bytes(4, "big") + hashlib.sha256(body).digest() + body)
    number += 1
"""
READER = """
import hashlib
data = open("journal", "rb").read()
at = number = 0
while at < len(data):
    size = int.from_bytes(data[at:at + 4], "big")
    digest, body = data[at + 4:at + 36], data[at + 36:at + 36 + size]
    assert len(body) == size and hashlib.sha256(body).digest() == digest, ("torn", number, at, len(data))
    assert int(body[:8]) == number, ("out of order", number)
    at += 36 + size; number += 1
print(number)
"""
CROWD = """
import os
pids = []
try:
    for number in range(60):
        pids.append(os.posix_spawn("/bin/sleep", ["sleep", "9"], {}))
finally:
    for pid in pids:
        os.kill(pid, 9)
"""
FILL = """
import os, sys
written = 0
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
try:
    while written < int(sys.argv[2]) << 20:
        written += os.write(out, os.urandom(1 << 18))
    os.fsync(out)
except OSError as e:
    print(written >> 20, e.errno)
else:
    print(written >> 20, 0)
"""


@pytest.fixture(scope="module", params=[*WALLS, pytest.param("ext4", marks=pytest.mark.container)])
def wall(request: pytest.FixtureRequest) -> str:
    """Return the wall to test; it occurs a second time where snapshots are copies."""
    return str(request.param)


async def boot_id(desk: Desk) -> str:
    return (await desk.read("/proc/sys/kernel/random/boot_id")).decode().strip()


async def who(desk: Desk) -> tuple[str, str]:
    name = (await desk.run(["hostname"])).text.strip()
    assert name == (await desk.read("/etc/hostname")).decode().strip()
    return name, (await desk.read("/etc/machine-id")).decode().strip()


async def fill(desk: Desk, name: str, mebibytes: int) -> tuple[int, int]:
    """Write random data to the disk; return the MiB written, and the errno of the write that failed."""
    done = await desk.run(["python3", "-c", FILL, name, str(mebibytes)])
    written, number = done.text.split()
    return int(written), int(number)


async def line(process: Process) -> bytes:
    async for _, data in process.output():
        return data
    raise AssertionError("it said nothing")


async def ended(work: Callable[[], Awaitable[object]], kind: type[HotdeskError] = DeskGone) -> None:
    with anyio.fail_after(10), pytest.raises(kind):
        await work()


async def go_back_often(desk: Desk, snapshot: SnapshotId) -> None:
    while True:
        await desk.rollback(snapshot)


async def wait_for(told: Callable[[], bool], seconds: float = 15) -> None:
    with anyio.fail_after(seconds):
        while not told():
            await anyio.sleep(0.02)


async def kept(stack: AsyncExitStack, runtime: Runtime, desks: Sequence[Desk]) -> Sequence[Desk]:
    for desk in desks:
        stack.push_async_callback(runtime.burn, desk.id)
    return desks


def facts(settings: Config, desk: DeskId) -> dict[str, object] | None:
    return state.read_facts(settings.run / "desks" / desk)


def listed(settings: Config, condition: str = "") -> set[str]:
    return {str(told["id"]) for told in state.list_own_desks(settings) if condition in ("", told["state"])}


# -- snapshot and rollback ----------------------------------------------------------------------------------------


async def test_rollback_restores_the_whole_tree_exactly(fresh: Open) -> None:
    async with fresh(Spec(root=True)) as desk:
        assert (await desk.run(["python3", "-c", VARIETY], user="root")).ok
        before, identity = await tree(desk), await who(desk)
        assert not any(path.startswith("/usr/share/doc/base") for path in before)
        snapshot = await desk.snapshot()
        assert (await desk.run(["python3", "-c", HAVOC], user="root")).ok
        assert not (await desk.run(["true"])).ok
        for _ in range(2):
            await desk.rollback(snapshot)
            assert differences(before, await tree(desk)) == []
            assert await who(desk) == identity
            assert (await desk.stat("/srv/d/sparse")).size == (1 << 26) + 3
            blocks = await desk.run(["stat", "-c", "%b", "/srv/d/sparse"])
            assert int(blocks.text) < 1000
            assert (await desk.run(["rm", "-rf", "/srv/d", "/usr/share/doc"], user="root")).ok


async def test_a_snapshot_is_a_point_in_time(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        taken = []
        for number in range(3):
            await desk.write("state", b"%d" % number)
            taken.append(await desk.snapshot())
        assert len(set(taken)) == 3
        await desk.write("state", b"now")
        assert await desk.read("state") == b"now"
        for number in (1, 0, 2):
            await desk.rollback(taken[number])
            assert await desk.read("state") == b"%d" % number


async def test_rollback_ends_every_program_and_keeps_the_id(fresh: Open, runtime: Runtime) -> None:
    async with fresh(Spec(env={"SAID": "hello"})) as desk:
        desk_id, boot = desk.id, await boot_id(desk)
        snapshot = await desk.snapshot()
        process = await desk.start(["sh", "-c", "echo up; exec sleep 1000"])
        await line(process)
        await desk.write("/tmp/later", b"x")
        await desk.write("/dev/shm/later", b"x")
        await desk.rollback(snapshot)
        await ended(process.wait)
        assert (desk.id, await runtime.find(desk_id)) == (desk_id, desk)
        assert await boot_id(desk) != boot
        assert await desk.processes() == []
        assert (await desk.run(["sh", "-c", "pgrep sleep; ls /tmp /dev/shm; echo $SAID"])).text.split()[-1] == "hello"
        assert "later" not in {entry.name for folder in ("/tmp", "/dev/shm") for entry in await desk.list(folder)}


async def test_a_snapshot_during_writing_is_whole(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        process = await desk.start(["python3", "-c", WRITER])
        counts = []
        taken = []
        while not any(entry.name == "journal" for entry in await desk.list()):
            await anyio.sleep(0.05)
        for _ in range(3):
            await anyio.sleep(0.2)
            taken.append(await desk.snapshot())
        size = (await desk.stat("journal")).size
        await anyio.sleep(0.2)
        assert (await desk.stat("journal")).size > size, "the program goes on"
        await process.kill()
        for snapshot in taken:
            await desk.rollback(snapshot)
            done = await desk.run(["python3", "-c", READER])
            assert done.ok, done.stderr
            counts.append(int(done.text))
        assert counts == sorted(set(counts))
        assert counts[0] > 0


async def test_calls_under_way_when_a_desk_is_rolled_back_end(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        snapshot = await desk.snapshot()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ended, lambda: desk.run(["sleep", "1000"]))
            await anyio.sleep(0.3)
            await desk.rollback(snapshot)
        assert (await desk.run(["true"])).ok


async def test_calls_made_while_a_desk_is_rolled_back_wait(fresh: Open) -> None:
    async with fresh(Spec(root=True)) as desk:
        await desk.write("file", b"kept")
        snapshot = await desk.snapshot()
        found: list[object] = []

        async def read() -> None:
            found.append(await desk.read("file"))

        async def count() -> None:
            found.append((await desk.usage()).disk > 0)

        async def take() -> None:
            found.append(await desk.snapshot() != snapshot)

        async def be_root() -> None:
            found.append((await desk.run(["id", "-u"], user="root")).text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(desk.rollback, snapshot)
            for wait in (0.0, 0.005, 0.02, 0.05):
                await anyio.sleep(wait)
                for call in (read, count, take, be_root):
                    tasks.start_soon(call)
        assert sorted(map(str, found)) == sorted(map(str, [b"kept", True, True, "0\n"] * 4))


async def test_a_rollback_that_is_cancelled_leaves_a_desk_that_works(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        snapshot = await desk.snapshot()
        for wait in (0.0, 0.01, 0.03, 0.1):
            with anyio.move_on_after(wait):
                await desk.rollback(snapshot)
            with anyio.fail_after(15):
                assert (await desk.run(["echo", "here"])).text == "here\n"


async def test_paused_and_halted_desks_can_be_snapshotted(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        await desk.write("file", b"1")
        await desk.pause()
        first = await desk.snapshot()
        with anyio.move_on_after(0.3) as waits:
            await desk.run(["true"])
        assert waits.cancelled_caught, "it is still paused"
        await desk.resume()
        await desk.write("file", b"2")
        await desk.pause(memory=False)
        second = await desk.snapshot()
        await desk.resume()
        await desk.write("file", b"3")
        for snapshot, data in ((first, b"1"), (second, b"2")):
            await desk.rollback(snapshot)
            assert await desk.read("file") == data


async def test_paused_and_halted_desks_are_rolled_back(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        await desk.write("file", b"kept")
        snapshot = await desk.snapshot()
        for memory in (True, False):
            await desk.write("file", b"other")
            await desk.pause(memory=memory)
            await desk.rollback(snapshot)
            with anyio.fail_after(15):
                assert await desk.read("file") == b"kept"


async def test_an_unknown_snapshot_changes_nothing(desk: Desk) -> None:
    await refuse(desk, "99")


@pytest.mark.parametrize("snapshot", ["", "0", "x", "../1", "1\r\n"])
async def test_an_invalid_snapshot_id_changes_nothing(desk: Desk, snapshot: str) -> None:
    await refuse(desk, snapshot)


async def refuse(desk: Desk, snapshot: str) -> None:
    boot = await boot_id(desk)
    process = await desk.start(["cat"])
    for call in (desk.rollback, desk.forget, lambda each: desk.fork(1, each)):
        with pytest.raises(BriefError, match="snapshot"):
            await call(SnapshotId(snapshot))
    await process.send(b"still here")
    assert await line(process) == b"still here"
    assert await boot_id(desk) == boot
    await process.kill()


async def test_a_halted_desk_stays_halted_when_there_is_no_such_snapshot(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        await desk.write("file", b"x")
        await desk.pause(memory=False)
        with pytest.raises(BriefError):
            await desk.rollback(SnapshotId("99"))
        with anyio.move_on_after(0.3) as waits:
            await desk.run(["true"])
        assert waits.cancelled_caught
        await desk.resume()
        assert await desk.read("file") == b"x"


async def test_a_forgotten_snapshot_is_gone(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        one, two = await desk.snapshot(), await desk.snapshot()
        await desk.forget(one)
        for call in (desk.rollback, desk.forget):
            with pytest.raises(BriefError):
                await call(one)
        await desk.rollback(two)
        assert await desk.snapshot() not in (one, two)


@pytest.mark.long
async def test_the_number_of_snapshots_is_limited(fresh: Open) -> None:
    async with fresh(Spec(disk=32 * MIB)) as desk:
        taken = [await desk.snapshot() for _ in range(SNAPSHOTS)]
        assert len(set(taken)) == SNAPSHOTS
        with pytest.raises(DeskError, match=r"delete (one|some)"):
            await desk.snapshot()
        await desk.forget(taken[100])
        assert await desk.snapshot() not in taken
        assert (await desk.run(["true"])).ok


async def test_a_disk_in_memory_has_no_snapshots(fresh: Open) -> None:
    async with fresh(Spec(disk=64 * MIB, disk_in="memory")) as desk:
        process = await desk.start(["cat"])
        for call in (desk.snapshot, desk.fork):
            with pytest.raises(DeskError, match="disk is in memory"):
                await call()
        await process.send(b"here")
        assert await line(process) == b"here"


# -- pausing without memory ---------------------------------------------------------------------------------------


async def test_a_desk_starts_again_from_its_disk(fresh: Open) -> None:
    async with fresh(Spec(root=True)) as desk:
        await desk.run(["sh", "-c", "echo kept >/srv/file"], user="root")
        boot, identity = await boot_id(desk), await who(desk)
        process = await desk.start(["sleep", "1000"])
        await desk.pause(memory=False)
        await ended(process.wait)
        assert (await desk.usage()).pids == 0
        await desk.pause(memory=False)
        await desk.pause()
        await desk.resume()
        await desk.resume()
        assert await desk.read("/srv/file") == b"kept\n"
        assert await who(desk) == identity
        assert await boot_id(desk) != boot
        assert (await desk.run(["sudo", "id", "-u"])).text == "0\n"


async def test_calls_wait_while_a_desk_is_halted_and_then_succeed(fresh: Open) -> None:
    async with fresh(Spec(root=True)) as desk:
        await desk.write("kept", b"x")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ended, lambda: desk.run(["sleep", "1000"]))
            tasks.start_soon(ended, lambda: desk.run(["sleep", "1000"], user="root"))
            await anyio.sleep(0.5)
            await desk.pause(memory=False)
        done: dict[str, object] = {}

        async def run() -> None:
            done["run"] = (await desk.run(["echo", "hi"])).text

        async def be_root() -> None:
            done["root"] = (await desk.run(["id", "-u"], user="root")).text

        async def read() -> None:
            done["read"] = await desk.read("kept")

        async def dial() -> None:
            with pytest.raises(DeskError, match="nothing listens"):
                await desk.dial(9)
            done["dial"] = True

        async with anyio.create_task_group() as tasks:
            for call in (run, be_root, read, dial):
                tasks.start_soon(call)
            await anyio.sleep(0.4)
            assert done == {}
            await desk.resume()
        assert done == {"run": "hi\n", "root": "0\n", "read": b"x", "dial": True}


async def test_a_paused_desk_can_be_halted(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        process = await desk.start(["sleep", "1000"])
        await desk.pause()
        await desk.pause(memory=False)
        await ended(process.wait)
        await desk.resume()
        assert (await desk.run(["true"])).ok


async def test_the_deadline_does_not_wait_for_a_halted_desk(fresh: Open, settings: Config) -> None:
    async with fresh(Spec(deadline=1.5)) as desk:
        await desk.pause(memory=False)
        await ended(lambda: desk.run(["true"]))
        await wait_for(lambda: facts(settings, desk.id) is None)
        await ended(desk.resume)


async def test_the_deadline_is_not_later_for_a_desk_that_started_again(fresh: Open) -> None:
    async with fresh(Spec(deadline=2)) as desk:
        snapshot = await desk.snapshot()
        with anyio.fail_after(15), pytest.raises(DeskGone):
            await go_back_often(desk, snapshot)


@pytest.mark.long
async def test_a_halted_desk_is_not_idle(fresh: Open) -> None:
    async with fresh(Spec(idle=2)) as desk:
        await desk.pause(memory=False)
        await anyio.sleep(3)
        await desk.resume()
        assert (await desk.run(["echo", "here"])).text == "here\n"


async def test_a_desk_burns_when_it_is_halted(runtime: Runtime, settings: Config) -> None:
    desk = await runtime.open(Spec())
    await desk.pause(memory=False)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ended, lambda: desk.run(["true"]))
        await anyio.sleep(0.1)
        await runtime.burn(desk.id)
    await ended(desk.resume)
    assert facts(settings, desk.id) is None


@pytest.mark.parametrize("wait", [0.0, 0.003, 0.01, 0.03, 0.06])
async def test_a_desk_burns_during_a_reboot(runtime: Runtime, settings: Config, wait: float) -> None:
    desk = await runtime.open(Spec())
    snapshot = await desk.snapshot()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ended, lambda: go_back_often(desk, snapshot), HotdeskError)
            await anyio.sleep(wait)
            await runtime.burn(desk.id)
    await ended(lambda: desk.run(["true"]))
    assert facts(settings, desk.id) is None


async def test_a_desks_listing_says_whether_it_is_halted(fresh: Open, settings: Config) -> None:
    async with fresh(Spec()) as desk:
        said = []
        for halted in (True, False):
            await (desk.pause(memory=False) if halted else desk.resume())
            said.append((facts(settings, desk.id) or {}).get("state"))
        assert said == ["halted", "open"]


async def test_limits_are_the_same_after_a_restart(fresh: Open) -> None:
    async with fresh(Spec(memory=96 * MIB, pids=40, env={"OWN": "value"})) as desk:
        await desk.rollback(await desk.snapshot())
        assert (await desk.run(["sh", "-c", "echo $OWN"])).text == "value\n"
        hog = textwrap.dedent("kept = []\nfor n in range(40): kept.append(b'x' * (8 << 20))")
        assert (await desk.run(["python3", "-c", hog])).out_of_memory
        assert b"BlockingIOError" in (await desk.run(["python3", "-c", CROWD])).stderr
        with pytest.raises(BriefError, match="root"):
            await desk.run(["id"], user="root")


# -- forking ------------------------------------------------------------------------------------------------------


async def test_forks_are_computers_of_their_own(fresh: Open, runtime: Runtime, settings: Config) -> None:
    async with fresh(Spec(root=True, env={"OWN": "value"})) as desk, AsyncExitStack() as stack:
        await desk.run(["sh", "-c", "echo as-root >/srv/file; rm /etc/debian_version"], user="root")
        process = await desk.start(["python3", "-c", WRITER])
        await anyio.sleep(0.2)
        forks = await kept(stack, runtime, await desk.fork(3))
        everyone = [desk, *forks]
        assert len({each.id for each in everyone}) == 4
        assert len({await boot_id(each) for each in everyone}) == 4
        names, machines = zip(*[await who(each) for each in everyone], strict=True)
        assert len(set(names)) == len(set(machines)) == 4
        assert len({(facts(settings, each.id) or {}).get("base") for each in everyone}) == 4
        for number, each in enumerate(forks):
            assert await each.read("/srv/file") == b"as-root\n"
            assert (await each.run(["sh", "-c", "test ! -e /etc/debian_version && echo $OWN"])).text == "value\n"
            done = await each.run(["python3", "-c", READER])
            assert done.ok, done.stderr
            assert all(running.exit_code is not None for running in await each.processes())
            assert await each.list("/tmp") == []
            assert (await each.run(["sh", "-c", f"echo {number} >/srv/file"], user="root")).ok
        assert [await each.read("/srv/file") for each in everyone] == [b"as-root\n", b"0\n", b"1\n", b"2\n"]
        size = (await desk.stat("journal")).size
        await anyio.sleep(0.1)
        assert (await desk.stat("journal")).size > size, "the origin goes on"
        await process.kill()


async def test_a_fork_has_the_very_files_of_its_origin(fresh: Open, runtime: Runtime) -> None:
    async with fresh(Spec(root=True)) as desk, AsyncExitStack() as stack:
        assert (await desk.run(["python3", "-c", VARIETY], user="root")).ok
        (fork,) = await kept(stack, runtime, await desk.fork())
        assert differences(await tree(desk), await tree(fork), OWN) == []


async def test_forks_outlive_their_origin(runtime: Runtime) -> None:
    async with AsyncExitStack() as stack:
        (desk,) = await kept(stack, runtime, [await runtime.open(Spec())])
        await desk.write("file", b"origin's")
        (fork,) = await kept(stack, runtime, await desk.fork())
        await runtime.burn(desk.id)
        snapshot = await fork.snapshot()
        await fork.write("file", b"fork's")
        (again,) = await kept(stack, runtime, await fork.fork(1, snapshot))
        await runtime.burn(fork.id)
        assert await again.read("file") == b"origin's"
        await again.rollback(await again.snapshot())
        assert await again.read("file") == b"origin's"


async def test_a_fork_begins_with_a_snapshots_files(fresh: Open, runtime: Runtime) -> None:
    async with fresh(Spec()) as desk, AsyncExitStack() as stack:
        await desk.write("file", b"then")
        snapshot = await desk.snapshot()
        await desk.write("file", b"now")
        for memory in (True, False):
            await desk.pause(memory=memory)
            old, new = [(await kept(stack, runtime, await desk.fork(1, which)))[0] for which in (snapshot, None)]
            assert (await old.read("file"), await new.read("file")) == (b"then", b"now")
            await desk.resume()
        await desk.rollback(snapshot)
        assert await desk.read("file") == b"then"


async def test_a_failed_fork_leaves_nothing(fresh: Open, settings: Config) -> None:
    async with fresh(Spec()) as desk:
        before = listed(settings)
        snapshot = await desk.snapshot()
        await desk.forget(snapshot)
        with pytest.raises(BriefError):
            await desk.fork(3, snapshot)
        for count in (0, -1, 1001):
            with pytest.raises(BriefError):
                await desk.fork(count)
        assert listed(settings) == before
        assert (await desk.run(["true"])).ok


@pytest.mark.parametrize("up", [0, 1, 3, 5])
async def test_a_cancelled_fork_leaves_nothing(fresh: Open, settings: Config, up: int) -> None:
    async with fresh(Spec()) as desk:
        before = listed(settings)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(desk.fork, 12)
            await anyio.sleep(0.01)
            await wait_for(lambda: len(listed(settings, "open") - before) >= up)
            tasks.cancel_scope.cancel()
        await wait_for(lambda: listed(settings) == before)
        assert not (facts(settings, desk.id) or {}).get("snapshots"), "a snapshot nobody knows of is left"
        assert (await desk.run(["true"])).ok


async def test_a_forks_deadline_begins_when_it_is_forked(fresh: Open, runtime: Runtime) -> None:
    async with fresh(Spec(deadline=3)) as desk, AsyncExitStack() as stack:
        await anyio.sleep(1.5)
        (fork,) = await kept(stack, runtime, await desk.fork())
        with anyio.fail_after(15), pytest.raises(DeskGone):
            await desk.run(["sleep", "100"])
        assert (await fork.run(["echo", "here"])).text == "here\n"


# -- disk space -----------------------------------------------------------------------------------------------------


async def test_rolling_back_gains_no_disk_space(fresh: Open) -> None:
    async with fresh(Spec(disk=100 * MIB)) as desk:
        assert await fill(desk, "one", 60) == (60, 0)
        snapshot = await desk.snapshot()
        for _ in range(2):
            await desk.rollback(snapshot)
            assert 60 * MIB <= (await desk.usage()).disk < 75 * MIB
            written, number = await fill(desk, "two", 60)
            assert number
            assert 20 < written < 45
        await desk.rollback(snapshot)
        assert await fill(desk, "two", 20) == (20, 0)
        second = await desk.snapshot()
        await desk.rollback(second)
        assert (await fill(desk, "three", 60))[0] < 25
        await desk.rollback(snapshot)
        await desk.forget(second)
        assert await fill(desk, "two", 30) == (30, 0)


async def test_rolling_back_repeatedly_gains_a_full_desk_almost_no_space(fresh: Open) -> None:
    async with fresh(Spec(disk=32 * MIB)) as desk:
        written = (await fill(desk, "first", 40))[0]
        for number in range(6):
            snapshot = await desk.snapshot()
            await desk.rollback(snapshot)
            assert (await desk.run(["true"])).ok
            written += (await fill(desk, f"more{number}", 40))[0]
        assert written <= 36


async def test_forks_are_limited_as_their_origin_is(fresh: Open, runtime: Runtime) -> None:
    async with fresh(Spec(disk=100 * MIB)) as desk, AsyncExitStack() as stack:
        assert await fill(desk, "one", 60) == (60, 0)
        forks = await kept(stack, runtime, await desk.fork(2))
        again = await kept(stack, runtime, await forks[0].fork())
        for each in (*forks, *again):
            assert 60 * MIB <= (await each.usage()).disk < 75 * MIB
            written, number = await fill(each, "two", 60)
            assert number
            assert 20 < written < 45
        assert await fill(desk, "two", 30) == (30, 0)


@pytest.mark.long
@pytest.mark.timeout(200)
async def test_forgetting_a_snapshot_frees_its_space(fresh: Open) -> None:
    async with fresh(Spec(disk=64 * MIB)) as desk:
        for _ in range(3):
            assert await fill(desk, "file", 30) == (30, 0)
            snapshot = await desk.snapshot()
            await desk.remove("file")
            await desk.forget(snapshot)
            with anyio.fail_after(60):  # the kernel frees the space when it commits, every half a minute
                while True:
                    if (await desk.usage()).disk < 20 * MIB:
                        break
                    await anyio.sleep(0.2)


async def test_the_record_of_a_desk_names_its_snapshots(fresh: Open, settings: Config) -> None:
    async with fresh(Spec()) as desk:
        one, two = await desk.snapshot(), await desk.snapshot()
        await desk.forget(one)
        assert (facts(settings, desk.id) or {}).get("snapshots") == [two]
        assert json.dumps(facts(settings, desk.id))
