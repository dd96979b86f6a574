"""Tests of the pool: a claimed desk is like one opened on demand, and no caller gets a desk meant for another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from hotdesk.brief import Scope, parse_rule
from hotdesk.config import MIB, Config
from hotdesk.desk.image import image
from hotdesk.desk.keeper import state
from hotdesk.desk.owner.remote import remote_runtime
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Desk, DeskId, Spec
from hotdesk.errors import BriefError, DeskGone, ImageError
from hotdesk.host import Host, borrow, control_path
from hotdesk.linux.cgroup import Cgroup, find_hierarchies, get_share
from tests.e2e.conftest import Hotdesk
from tests.trees import OWN, differences, tree
from tests.upstream import upstream

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

SPEC = Spec(memory=256 * MIB)
OWNER = """
import anyio, sys
from pathlib import Path
from hotdesk.config import Config
from hotdesk.desk.seam import Spec
from hotdesk.host import Host

async def main():
    async with Host(Config(run=Path(sys.argv[1]), lib=Path(sys.argv[2]), images=Path(sys.argv[3]))) as host:
        host.keep_ready(Spec(), 3)
        await host.pool.wait_until_full()
        await host.open(Spec())
        print("ready", host.runtime.keeper.pid, flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@asynccontextmanager
async def pooled(settings: Config, count: int, spec: Spec = SPEC, *, control: bool = False) -> AsyncIterator[Host]:
    async with Host(settings, control=control) as host:
        host.keep_ready(spec, count)
        with anyio.fail_after(100):
            await host.pool.wait_until_full()
        yield host


def ready(settings: Config) -> set[str]:
    return {str(told["id"]) for told in state.list_own_desks(settings) if told["state"] == "ready"}


def pid_of(settings: Config, desk: str) -> int:
    told = state.read_facts(settings.run / "desks" / desk)
    assert told is not None
    return int(str(told["pid"]))


async def become(told: Callable[[], object], wanted: object, seconds: float = 20) -> None:
    with anyio.move_on_after(seconds):
        while told() != wanted:
            await anyio.sleep(0.02)
    assert told() == wanted


async def claim(host: Host, settings: Config, spec: Spec, scope: Scope | None = None) -> Desk:
    before = ready(settings)
    desk = await (host.open(spec) if scope is None else host.open(spec, scope))
    assert desk.id in before, "it was opened cold"
    return desk


def runtime_of(host: Host) -> KeeperRuntime:
    assert isinstance(host.runtime, KeeperRuntime)
    return host.runtime


@pytest.fixture
def store(settings: Config, home: Path) -> Iterator[Config]:
    folder = home / "store"
    base = image.find(settings.images, "base")
    (folder / "layers").mkdir(parents=True)
    (folder / "images").mkdir()
    for layer in base.layers:
        (folder / "layers" / layer.name).symlink_to(layer)
    (folder / "images/base.json").write_bytes(image.dump(base))
    yield replace(settings, images=folder)
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    folder.rmdir()


def rebuild(settings: Config, digest: str) -> None:
    """Make the name `base` stand for another image."""
    file = settings.images / "images/base.json"
    file.write_bytes(image.dump(replace(image.find(settings.images, "base"), digest=digest)))


# -- as clean as one opened on demand -------------------------------------------------------------------------------


@pytest.mark.timeout(300)  # every file of two desks is hashed
@pytest.mark.parametrize("root", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_a_claimed_desk_has_the_very_files_of_a_cold_one(settings: Config, root: bool) -> None:
    spec, user = Spec(root=root), "root" if root else "user"
    async with Host(settings, control=False) as cold, cold.open_desk(spec) as desk:
        wanted = await tree(desk, user)
    async with pooled(settings, 1) as host:
        found = await tree(await claim(host, settings, spec), user)
    assert differences(wanted, found, OWN) == []


@pytest.mark.timeout(300)
async def test_no_two_claimed_desks_are_alike(settings: Config) -> None:
    said: dict[str, list[str]] = {}
    script = (
        "import os, uuid, random, socket; print(socket.gethostname(), open('/etc/machine-id').read().strip(), "
        "open('/proc/sys/kernel/random/boot_id').read().strip(), os.urandom(16).hex(), uuid.uuid4(), "
        "random.random(), hash('text'))"
    )
    async with pooled(settings, 20) as host, AsyncExitStack() as stack:
        for _ in range(20):
            desk = await claim(host, settings, SPEC)
            stack.push_async_callback(host.burn, desk.id)
            words = (await desk.run(["python3", "-c", script])).text.split()
            assert words[0] == desk.id[:12]
            for name, word in zip(("name", "machine", "boot", "urandom", "uuid", "random", "hash"), words, strict=True):
                said.setdefault(name, []).append(word)
            host.keep_ready(SPEC, len(ready(settings)))
    assert {name: len(set(words)) for name, words in said.items()} == dict.fromkeys(said, 20)


def clocks() -> tuple[float, float, float]:
    return time.time(), time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)


async def test_the_clock_is_right_after_a_desk_was_frozen(settings: Config) -> None:
    async with pooled(settings, 1) as host:
        await anyio.sleep(2)
        desk = await claim(host, settings, SPEC)
        script = "import time; print(time.time(), time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME))"
        before = clocks()
        told = [float(word) for word in (await desk.run(["python3", "-c", script])).text.split()]
        for first, inside, last in zip(before, told, clocks(), strict=True):
            assert first - 1 < inside < last + 1


# -- options of the claim -------------------------------------------------------------------------------------------


async def test_options_of_a_claim_are_in_force(settings: Config) -> None:
    spec = Spec(cpus=0.5, memory=123 * MIB, disk=77 * MIB, pids=55, env={"ONE": "ü", "TWO": "2"}, root=True)
    async with pooled(settings, 1) as host:
        desk = await claim(host, settings, spec)
        cgroup = Cgroup(find_hierarchies(), desk.id)
        limits = {
            1: {"memory": "memory.limit_in_bytes", "pids": "pids.max", "cpu": "cpu.cfs_quota_us"},
            2: {"memory": "memory.max", "pids": "pids.max", "cpu": "cpu.max"},
        }[cgroup.version]
        told = {name: (cgroup.get_folder(name) / file).read_text().split()[0] for name, file in limits.items()}
        assert told == {"memory": str(123 * MIB), "pids": "55", "cpu": "50000"}
        share = get_share()
        weight = ("cpu.shares", f"{share}") if cgroup.version == 1 else ("cpu.weight", f"{share * 100 // 1024}")
        assert (cgroup.get_folder("cpu") / weight[0]).read_text().strip() == weight[1]
        for user in ("user", "root"):
            done = await desk.run(
                ["sh", "-c", "echo $ONE$TWO; cat /sys/devices/system/cpu/online; sudo id -u"], user=user
            )
            assert done.text.split() == ["ü2", "0", "0"], (user, done)
        shm = await desk.run(["df", "--output=size", "-B1", "/dev/shm"])
        async with Host(settings, control=False) as cold, cold.open_desk(spec) as other:
            assert (await other.run(["df", "--output=size", "-B1", "/dev/shm"])).text == shm.text
        full = await desk.run(["sh", "-c", "head -c 100M /dev/urandom >big; stat -c %s big"])
        assert 60 * MIB < int(full.text) < 80 * MIB
        process = await desk.start(["sh", "-c", "sudo sleep 1000"])
        await process.kill()
        await desk.rollback(await desk.snapshot())
        assert (await desk.run(["sh", "-c", "echo $ONE$TWO; sudo id -u"])).text.split() == ["ü2", "0"]


async def test_a_claim_of_the_same_size_waits_for_no_reply(settings: Config) -> None:
    async with pooled(settings, 1, replace(SPEC, deadline=600)) as host:
        await host.prepare()  # the keeper starts keys, which record what root does
        keeper = runtime_of(host).keeper.pid
        os.kill(keeper, signal.SIGSTOP)
        try:
            with anyio.fail_after(20):
                desk = await claim(host, settings, replace(SPEC, env={"ONE": "ü"}))
        finally:
            os.kill(keeper, signal.SIGCONT)
        assert (await desk.run(["sh", "-c", "echo $ONE"])).text == "ü\n"


async def test_a_larger_desk_is_claimed_too(settings: Config) -> None:
    async with pooled(settings, 1, Spec(memory=64 * MIB, disk=32 * MIB, pids=20)) as host:
        desk = await claim(host, settings, Spec(memory=512 * MIB, disk=256 * MIB, pids=200))
        done = await desk.run(["sh", "-c", "head -c 100M /dev/urandom >big && python3 -c 'x = b\"x\" * (200 << 20)'"])
        assert done.ok, done.stderr


async def test_a_desk_claimed_without_root_has_none(settings: Config) -> None:
    async with pooled(settings, 1, Spec(root=True)) as host:
        desk = await claim(host, settings, Spec())
        assert (await desk.run(["sh", "-c", "command -v sudo; ls /run/hotdesk 2>/dev/null | grep sudo"])).stdout == b""
        with pytest.raises(BriefError, match="root"):
            await desk.run(["id"], user="root")


@pytest.mark.long
async def test_variables_a_pool_was_made_with_are_not_given_to_others(settings: Config) -> None:
    async with pooled(settings, 1, Spec(env={"SECRET": "of the one who made the pool"})) as host:
        desk = await claim(host, settings, Spec())
        assert b"SECRET" not in (await desk.run(["env"])).stdout


@pytest.mark.long
async def test_deadline_and_idle_time_are_the_claims(settings: Config) -> None:
    async with pooled(settings, 2, Spec(deadline=1.0, idle=0.5)) as host:
        await anyio.sleep(1.2)
        assert len(ready(settings)) == 2, "neither time of the spec counts while a desk is ready"
        idle = await claim(host, settings, Spec(idle=0.5))
        soon = await claim(host, settings, Spec(deadline=1.5))
        for desk, why in ((soon, "deadline"), (idle, "idle")):
            with anyio.fail_after(10), pytest.raises(DeskGone, match=why):
                await (desk.run(["sleep", "100"]) if desk is soon else gone(host, desk))


async def gone(host: Host, desk: Desk) -> None:
    """Wait until a desk is gone without using it, then use it."""
    while desk.id in runtime_of(host).list_live():
        await anyio.sleep(0.05)
    await desk.run(["true"])


async def test_egress_is_given_at_the_claim_and_only_then(settings: Config, tmp_path: Path) -> None:
    with upstream(tmp_path, "erp.test") as server:
        scope = Scope(rules=(parse_rule("erp.test"),), names={"erp.test": server.address})
        status = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", "https://erp.test/"]
        async with pooled(replace(settings, ca=str(server.ca)), 2) as host:
            let = await claim(host, settings, SPEC, scope)
            shut = await claim(host, settings, SPEC)
            assert (await let.run(status)).text == "200"
            assert (await shut.run(status)).text == "000"
            proxied = await shut.run([*status, "-x", "http://127.0.0.1:3128"])
            assert "200" not in proxied.text
            (fork,) = await let.fork()
            await let.rollback(await let.snapshot())
            for desk in (fork, let):
                assert (await desk.run(status)).text == "200"
        assert len(server.seen) == 3


# -- size and tenants of the pool -----------------------------------------------------------------------------------


async def test_a_pool_is_bounded_refilled_and_emptied(settings: Config) -> None:
    async with pooled(settings, 3) as host:
        assert len(ready(settings)) == 3
        claimed = [await claim(host, settings, SPEC) for _ in range(3)]
        with anyio.fail_after(30):
            await host.pool.wait_until_full()
        assert len(ready(settings)) == 3
        await anyio.sleep(0.5)
        assert len(state.list_own_desks(settings)) == 6
        host.keep_ready(SPEC, 1)
        await become(lambda: len(ready(settings)), 1)
        await claim(host, settings, SPEC)
        host.keep_ready(SPEC, 0)
        await become(lambda: len(ready(settings)), 0)
        assert all([(await desk.run(["true"])).ok for desk in claimed])
        with pytest.raises(BriefError):
            host.keep_ready(SPEC, -1)
    assert state.list_own_desks(settings) == []


@pytest.mark.long
async def test_concurrent_claims_are_all_answered_with_different_desks(settings: Config) -> None:
    names: list[str] = []

    async def one(host: Host) -> None:
        async with host.open_desk(SPEC) as desk:
            names.append((await desk.run(["hostname"])).text)

    async with pooled(settings, 4) as host:
        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(one, host)
        assert len(set(names)) == 12
        with anyio.fail_after(30):
            await host.pool.wait_until_full()
        assert len(state.list_own_desks(settings)) == 4


@pytest.mark.long
async def test_a_killed_desk_is_replaced_when_the_pool_looks(settings: Config) -> None:
    async with pooled(settings, 2) as host:
        before = ready(settings)
        for desk in before:
            os.kill(pid_of(settings, desk), signal.SIGKILL)
        host.pool.change()
        await become(lambda: len(ready(settings) - before), 2)
        assert not ready(settings) & before
        opened = await host.open(SPEC)
        assert (await opened.run(["true"])).ok
        await host.pool.wait_until_full()
        assert len(runtime_of(host).handles) == 3, "something is remembered of a desk that is no more"


async def test_a_desk_killed_just_before_its_claim_is_reported_as_gone(settings: Config) -> None:
    async with pooled(settings, 1) as host:
        (desk,) = ready(settings)
        os.kill(pid_of(settings, desk), signal.SIGKILL)
        opened = await host.open(SPEC)
        with anyio.fail_after(10), pytest.raises(DeskGone):
            await opened.run(["true"])
        await host.pool.wait_until_full()
        assert (await (await host.open(SPEC)).run(["true"])).ok


async def test_a_cancelled_claim_leaves_nothing(settings: Config) -> None:
    async with pooled(settings, 3) as host:
        for wait in (0.0, 0.0005, 0.002):
            with anyio.move_on_after(wait):
                await host.burn((await host.open(SPEC)).id)
            with anyio.fail_after(30):
                await host.pool.wait_until_full()
            await become(lambda: len(state.list_own_desks(settings)), 3)
        with anyio.fail_after(30):
            await host.pool.wait_until_full()


async def test_a_rebuilt_image_is_never_given_as_it_was(store: Config) -> None:
    async with pooled(store, 2) as host:
        old = ready(store)
        rebuild(store, "another")
        desk = await host.open(SPEC)
        assert desk.id not in old
        with anyio.fail_after(30):
            await host.pool.wait_until_full()
        await become(lambda: len(ready(store)), 2)
        assert not ready(store) & old
        await claim(host, store, SPEC)


async def test_tenants_do_not_share(settings: Config) -> None:
    async with pooled(settings, 1, Spec(tenant="one")) as host:
        (theirs,) = ready(settings)
        for tenant in ("", "two"):
            async with host.open_desk(Spec(tenant=tenant)) as desk:
                assert desk.id != theirs
        assert (await claim(host, settings, Spec(tenant="one"))).id == theirs


async def test_a_disk_in_memory_is_claimed_only_for_one(settings: Config) -> None:
    there = Spec(disk_in="memory", disk=64 * MIB, memory=256 * MIB)
    async with pooled(settings, 1, there) as host:
        (spare,) = ready(settings)
        for other in (SPEC, replace(there, disk=32 * MIB)):
            async with host.open_desk(other) as desk:
                assert desk.id != spare
        desk = await claim(host, settings, there)
        assert (await desk.run(["df", "--output=fstype", "/"])).text.split()[-1] == "overlay"


async def test_a_ready_desk_cannot_be_found_by_id(settings: Config) -> None:
    async with Host(settings) as host:
        host.keep_ready(SPEC, 2)
        seen: set[str] = set()
        with anyio.fail_after(30):
            while len(ready(settings)) < 2:
                for told in state.list_own_desks(settings):
                    seen.add(str(told["id"]))
                    with pytest.raises(DeskGone):
                        await host.runtime.find(DeskId(str(told["id"])))
                await anyio.lowlevel.checkpoint()
            await host.pool.wait_until_full()
        async with remote_runtime(control_path(settings, os.getpid())) as remote:
            for desk in map(DeskId, ready(settings)):
                with pytest.raises(DeskGone):
                    await remote.find(desk)
                with pytest.raises(DeskGone):
                    async with borrow(settings, desk):
                        pass
                for verb in ("usage", "resume", "snapshots", "forks", "halt", "dial/22"):
                    with pytest.raises(DeskGone):
                        await remote.call("GET" if verb in ("usage", "dial/22") else "POST", f"/desks/{desk}/{verb}")
        assert len(seen | ready(settings)) == 2
        await claim(host, settings, SPEC)


async def test_ps_shows_ready_desks(settings: Config, hotdesk: Hotdesk) -> None:
    async with pooled(settings, 1) as host:
        desk = await host.open(Spec(tenant="other"))
        done = await anyio.to_thread.run_sync(lambda: hotdesk("ps", "--json"))
        told = {each["id"]: each["state"] for each in json.loads(done.stdout)}
        assert told.pop(desk.id) == "open"
        assert list(told.values()) == ["ready"]


async def test_the_error_that_keeps_a_pool_empty_is_reported(store: Config) -> None:
    async with Host(store, control=False) as host:
        host.keep_ready(SPEC, 1)
        (store.images / "images/base.json").unlink()
        with anyio.fail_after(20), pytest.raises(ImageError, match="image 'base' is not on this machine"):
            await host.pool.wait_until_full()


@pytest.mark.sample(1)
@pytest.mark.parametrize("victim", ["owner", "keeper", "both"])
def test_killed_processes_leave_nothing(settings: Config, victim: str) -> None:
    argv = [sys.executable, "-c", OWNER, str(settings.run), str(settings.lib), str(settings.images)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        keeper = int(owner.stdout.readline().split()[1])
        assert len(state.list_own_desks(settings)) >= 3
        for pid in {"owner": (owner.pid,), "keeper": (keeper,), "both": (owner.pid, keeper)}[victim]:
            os.kill(pid, signal.SIGKILL)
        if victim == "keeper":
            time.sleep(1)
            owner.kill()
    if victim == "both":
        subprocess.run([sys.executable, "-c", BURY, *argv[3:]], check=True, timeout=40)
    end = time.monotonic() + 10
    while state.list_own_desks(settings) and time.monotonic() < end:
        time.sleep(0.05)
    assert state.list_own_desks(settings) == []


BURY = """
import anyio, sys
from pathlib import Path
from hotdesk.config import Config
from hotdesk.desk.owner.runtime import bury
anyio.run(bury, Config(run=Path(sys.argv[1]), lib=Path(sys.argv[2]), images=Path(sys.argv[3])))
"""
