"""Tests of any desk: how it opens, its limits, its separation from other desks, and how it burns."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.keeper import state
from hotdesk.desk.seam import Desk, DeskId, Runtime, Spec, new_id
from hotdesk.errors import BriefError, DeskGone
from hotdesk.walls import TRAITS

Open = Callable[[Spec], AbstractAsyncContextManager[Desk]]

pytestmark = pytest.mark.timeout(60)

HOG = "import time\nkept = []\nfor n in range(40): kept.append(b'x' * (8 << 20))\nprint('had it all')"

MANY_FORKS = """
import os, signal
try:
    for _ in range(400):
        if not os.fork():
            signal.pause()
except OSError:
    os.killpg(0, signal.SIGKILL)
"""
FORKS = """
import os, signal
children = []
try:
    for _ in range(60):
        child = os.fork()
        if not child:
            signal.pause()
        children.append(child)
except BlockingIOError:
    pass
print(len(children))
for child in children:
    os.kill(child, 9)
    os.waitpid(child, 0)
"""


async def gone_within(desk: Desk, seconds: float) -> float:
    """Wait until a desk is gone; return how long that took."""
    start = anyio.current_time()
    with anyio.move_on_after(seconds):
        try:
            await desk.run(["sleep", "100"])
        except DeskGone:
            return anyio.current_time() - start
    pytest.fail(f"the desk still runs after {seconds} s")


# -- a desk on its own ---------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_desk_can_be_burnt_by_its_object_which_describes_its_state(fresh: Open) -> None:
    async with fresh(Spec(memory=256 * MIB)) as desk:
        assert repr(desk).startswith(f"<Desk {desk.id} open")
        assert {"run", "write", "burn"} <= set(dir(desk)) <= set(dir(Desk))
        with pytest.raises(BriefError, match=r"\['sh', '-c', 'sort x'\]"):
            await desk.run("sort x")
        await desk.burn()
        await desk.close()
        with pytest.raises(DeskGone):
            await desk.run(["true"])
        assert " gone" in repr(desk)


# -- separation ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_hostname_and_machine_id_are_a_desks_own(fresh: Open) -> None:
    async with fresh(Spec()) as one, fresh(Spec()) as two:
        for argv in (["hostname"], ["cat", "/etc/machine-id"], ["cat", "/proc/sys/kernel/random/boot_id"]):
            said = {(await desk.run(argv)).text for desk in (one, two)}
            assert len(said) == 2
            assert "" not in said


async def test_two_desks_do_not_see_each_others_files(fresh: Open) -> None:
    async with fresh(Spec()) as one, fresh(Spec()) as two:
        await one.write("/tmp/hotdesk-seen-by-whom", b"one")
        await one.write(f"{one.home}/secret", b"one")
        seen = await two.run(["cat", "/tmp/hotdesk-seen-by-whom", f"{one.home}/secret"])
        await one.remove("/tmp/hotdesk-seen-by-whom")
        assert seen.exit_code == 1
        assert seen.stdout == b""


async def test_two_desks_do_not_see_each_others_processes(fresh: Open) -> None:
    async with fresh(Spec()) as one, fresh(Spec()) as two:
        await one.start(["sleep", "4714"])
        await anyio.sleep(0.1)
        assert (await one.run(["pgrep", "-f", "sleep 471[4]"])).ok
        assert (await two.run(["pgrep", "-f", "sleep 471[4]"])).exit_code == 1


async def test_there_is_no_network_but_loopback(desk: Desk) -> None:
    done = await desk.run(["sh", "-c", "tail -n +3 /proc/net/dev | cut -d: -f1"])
    assert done.text.split() == ["lo"]


# -- limits --------------------------------------------------------------------------------------------------------


async def test_out_of_memory_is_reported(fresh: Open) -> None:
    async with fresh(Spec(memory=64 * MIB)) as desk:
        done = await desk.run(["python3", "-c", HOG], timeout=30)
        assert (done.exit_code, done.signal, done.out_of_memory) == (137, 9, True)
        killed = await desk.run(["sh", "-c", "kill -9 $$"])
        assert (killed.signal, killed.out_of_memory) == (9, False), "the limit killed nothing while this one ran"


async def test_out_of_memory_in_a_child_is_reported(fresh: Open) -> None:
    async with fresh(Spec(memory=64 * MIB)) as desk:
        done = await desk.run(["sh", "-c", 'python3 -c "$1"; echo $?; exit 3', "sh", HOG], timeout=30)
        assert (done.stdout, done.exit_code, done.out_of_memory) == (b"137\n", 3, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "code", "why"),
    [(Spec(memory=64 * MIB), "memory", "out of memory"), (Spec(pids=20), "processes", "out of processes")],
    ids=["memory", "processes"],
)
async def test_resource_exhaustion_ends_programs_or_the_desk_and_is_reported(
    fresh: Open, wall: str, spec: Spec, code: str, why: str
) -> None:
    assert wall != "local", "there is no limit, and what it would stop runs on this machine"
    hog = HOG if code == "memory" else MANY_FORKS
    async with fresh(spec) as desk:
        if TRAITS[wall].survives_exhaustion:
            assert not (await desk.run(["python3", "-c", hog], timeout=30)).ok
            assert (await desk.run(["true"])).ok
        else:
            with pytest.raises(DeskGone, match=why):
                await desk.run(["python3", "-c", hog], timeout=30)


async def test_the_number_of_processes_is_limited(fresh: Open) -> None:
    async with fresh(Spec(pids=20)) as desk:
        done = await desk.run(["python3", "-c", FORKS], timeout=15)
        assert done.ok
        assert 5 <= int(done.stdout) < 20
        assert (await desk.run(["echo", "still here"])).ok


@pytest.mark.parametrize(
    "wrong",
    [
        {"cpus": 0}, {"memory": 1}, {"disk": 0}, {"disk_in": "cloud"}, {"pids": 0}, {"deadline": 0}, {"idle": -1},
        {"memory": 1 << 64}, {"disk": 1 << 64}, {"env": {"A=": "x"}}, {"env": {"": "x"}}, {"env": {"A": "\0"}},
    ],
    ids=str,
)  # fmt: skip
async def test_an_impossible_spec_is_the_callers_error(wrong: dict[str, object]) -> None:
    with pytest.raises(BriefError):
        Spec(**wrong)  # type: ignore[arg-type]


@pytest.mark.slow
async def test_a_deadline_burns_the_desk(fresh: Open) -> None:
    async with fresh(Spec(deadline=1.0)) as desk:
        assert 0.3 < await gone_within(desk, 3) < 2.5


@pytest.mark.slow
async def test_an_idle_desk_is_burnt(fresh: Open) -> None:
    async with fresh(Spec(idle=1.0)) as desk:
        await anyio.sleep(2.0)
        with pytest.raises(DeskGone):
            await desk.run(["true"])


@pytest.mark.slow
async def test_a_desk_in_use_is_not_idle(fresh: Open) -> None:
    async with fresh(Spec(idle=1.5)) as desk:
        for _ in range(12):
            assert (await desk.run(["true"])).ok
            await anyio.sleep(0.25)
        program = await desk.start(["sh", "-c", "for n in 1 2 3 4 5 6; do echo $n; sleep 0.5; done"])
        assert [data async for _, data in program.output()] == [b"%d\n" % n for n in range(1, 7)]


# -- opening and burning ------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_several_desks_open_at_once(runtime: Runtime) -> None:
    opened: list[Desk] = []

    async def one() -> None:
        opened.append(await runtime.open(Spec()))

    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(one)
    assert len({desk.id for desk in opened}) == 6
    for number, desk in enumerate(opened):
        assert (await desk.run(["echo", str(number)])).text == f"{number}\n"
    async with anyio.create_task_group() as tasks:
        for desk in opened:
            tasks.start_soon(runtime.burn, desk.id)


async def test_an_open_desk_is_found_by_id(runtime: Runtime, desk: Desk) -> None:
    found = await runtime.find(desk.id)
    assert found.id == desk.id
    assert (await found.run(["true"])).ok
    with pytest.raises(DeskGone):
        await runtime.find(new_id())


async def test_burning_twice_or_an_unknown_desk_is_no_error(runtime: Runtime) -> None:
    desk = await runtime.open(Spec())
    await runtime.burn(desk.id)
    await runtime.burn(desk.id)
    await runtime.burn(new_id())


async def test_a_burnt_desk_is_gone_for_every_call(runtime: Runtime) -> None:
    desk = await runtime.open(Spec())
    await runtime.burn(desk.id)
    with pytest.raises(DeskGone):
        await desk.run(["true"])
    with pytest.raises(DeskGone):
        await desk.start(["true"])
    with pytest.raises(DeskGone):
        await desk.attach(2)
    with pytest.raises(DeskGone):
        await desk.read("x")
    with pytest.raises(DeskGone):
        await desk.write("x", b"")
    with pytest.raises(DeskGone):
        await desk.list()
    with pytest.raises(DeskGone):
        await desk.processes()
    with pytest.raises(DeskGone):
        await runtime.find(desk.id)


async def test_burning_ends_waiting_calls(runtime: Runtime) -> None:
    desk = await runtime.open(Spec())
    endings: list[str] = []

    async def wait(what: str) -> None:
        try:
            if what == "run":
                await desk.run(["sleep", "100"])
            elif what == "input":
                await desk.run(["sleep", "100"], stdin=bytes(4 * MIB))
            else:
                program = await desk.start(["sleep", "100"])
                await program.wait()
        except DeskGone:
            endings.append(what)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for what in ("run", "input", "follow"):
                tasks.start_soon(wait, what)
            await anyio.sleep(0.3)
            await runtime.burn(desk.id)
    assert sorted(endings) == ["follow", "input", "run"]


def find_listed(settings: Config, desk: Desk) -> dict[str, Any]:
    return next(facts for facts in state.list_own_desks(settings) if facts["id"] == desk.id)


async def test_a_desk_is_listed_in_its_state_directory_until_it_burns(fresh: Open, settings: Config) -> None:
    async with fresh(Spec()) as desk:
        with anyio.fail_after(30):
            while (listed := find_listed(settings, desk))["state"] == "ready":  # a claim is recorded after its reply
                await anyio.sleep(0.01)
        assert (listed["state"], listed["kept"]) == ("open", True)
    assert desk.id not in {told["id"] for told in state.list_own_desks(settings)}
    assert state.list_orphans(settings) == []


async def test_a_killed_first_process_ends_the_desk(runtime: Runtime, wall: str) -> None:
    desk = await runtime.open(Spec())
    pid = (await desk.run(["sh", "-c", "echo $PPID"])).text.strip()
    if wall == "local":
        os.kill(int(pid), 9)
    else:
        outside = [int(one) for one in os.listdir("/proc") if one.isdigit() and is_first_of(one, desk.id)]
        assert len(outside) == 1
        os.kill(outside[0], 9)
    await gone_within(desk, 5)
    await runtime.burn(desk.id)


def is_first_of(pid: str, desk: DeskId) -> bool:
    """Return whether a process is the guest of a desk: pid 1 of its namespace, in its cgroup."""
    try:
        with open(f"/proc/{pid}/cgroup") as cgroup, open(f"/proc/{pid}/status") as status:
            inside = next((line.split()[1:] for line in status if line.startswith("NSpid:")), [])
            return f"hotdesk-{desk}" in cgroup.read() and len(inside) == 2 and inside[1] == "1"
    except OSError:
        return False


async def test_opening_and_burning_leaves_no_descriptor_open(runtime: Runtime) -> None:
    await runtime.burn((await runtime.open(Spec())).id)
    await anyio.sleep(0.1)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await runtime.burn((await runtime.open(Spec())).id)
    await anyio.sleep(0.1)
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.slow
async def test_opening_that_is_cancelled_leaves_nothing(runtime: Runtime) -> None:
    for step in range(6):
        with anyio.move_on_after(0.01 * step):
            await runtime.burn((await runtime.open(Spec())).id)
