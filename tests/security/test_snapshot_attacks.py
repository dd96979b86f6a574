"""Attacks by a compromised desk through what is made of it: snapshots, forks, rollbacks; and on ready desks."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from hotdesk.brief import CLOSED
from hotdesk.config import MIB, Config
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.owner.control import serve_control
from hotdesk.desk.owner.remote import RemoteRuntime, remote_runtime
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.request import KeeperRequest
from hotdesk.desk.seam import Desk, DeskId, Spec
from hotdesk.errors import BriefError, DeskError, DeskGone, HotdeskError
from hotdesk.host import control_path
from tests.security.conftest import Attack, Launch, Open, Visit
from tests.security.guards import Removal, falls_without, no_guard
from tests.security.secret_room import Room, placeholders
from tests.security.test_pause_attacks import DISK, FORKING, VFORKED

pytestmark = [pytest.mark.container, pytest.mark.timeout(90)]

BOUND = 5.0
"""Seconds one of these attacks may delay others on a busy machine; the keeper's own bounds are far below."""

# -- files that are in the way -----------------------------------------------------------------------------------------

LINKED: dict[str, str] = {
    "a folder that leads to the host": "mv /etc /etc.old && ln -s {marker} /etc",
    "a folder that leads out by dots": "mv /etc /etc.old && ln -s ../../../../../../../../../../../..{marker} /etc",
    "a folder that leads through a process": "mv /etc /etc.old && ln -s /proc/self/root{marker} /etc",
    "a file that leads to the host": "ln -sf {marker}/hostname /etc/hostname",
}
PLACED: dict[str, str] = {
    "a link": "ln -sf /home/user/elsewhere /etc/hostname",
    "a pipe": "rm /etc/hostname && mkfifo /etc/hostname",
    "a second name": "echo mine > /home/user/elsewhere && ln -f /home/user/elsewhere /etc/hostname",
    "a hole": "rm /etc/hostname /etc/hosts /etc/machine-id",
}
BURIED: dict[str, str] = {
    "a folder": "rm /etc/machine-id && mkdir /etc/machine-id && cd /etc/machine-id && seq 20000 | xargs touch",
    "a deep folder": 'rm /etc/machine-id && python3 -c \'import os; os.chdir("/etc")\nfor _ in range(3000):\n'
    ' os.mkdir("machine-id"); os.chdir("machine-id")\'',
    "a file instead of a folder": "mv /etc /etc.old && touch /etc",
    "no folder": "mv /etc /etc.old",
}


async def turned(desk: Desk, trap: str) -> None:
    done = await desk.run(["bash", "-c", trap], user="root", timeout=60)
    assert done.ok, done.stderr


async def burnt(runtime: KeeperRuntime, forks: list[Desk]) -> None:
    for fork in forks:
        await runtime.burn(fork.id)


async def forked(desk: Desk) -> list[Desk]:
    try:
        return list(await desk.fork())
    except HotdeskError:
        return []


@falls_without(
    "names that end at their layer",
    Removal("linux/openat2.py", "flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS, mode)", "flags, 0, mode)"),
    cases="a folder that leads to the host | a folder that leads out by dots",
)
@falls_without(
    "names that end at their layer, and at no process",
    Removal("linux/openat2.py", "flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS, mode)", "flags, 0, mode)"),
    cases="a folder that leads through a process",
)
@falls_without(
    "files in the place of what was there",
    Removal(
        "linux/openat2.py",
        "    remove(fd, name)\n    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC\n",
        "    flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC\n",
    ),
    cases="a file that leads to the host",
)
@pytest.mark.parametrize("trap", LINKED)
async def test_a_link_in_place_of_a_forks_own_files_is_not_followed(
    fresh: Open, runtime: KeeperRuntime, tmp_path: Path, trap: str
) -> None:
    tmp_path.joinpath("hostname").write_text("the host's\n")
    async with fresh(Spec(root=True)) as desk:
        await turned(desk, LINKED[trap].format(marker=tmp_path))
        await burnt(runtime, await forked(desk))
        assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"hostname": "the host's\n"}


FILES_NOT_PLANTED = Removal(
    "room/rootfs.py",
    "        identity.write_tree(upper, files)\n",
    "        identity.write_tree(upper, {} if source else files)\n",
)


@falls_without("files in the place of what was there", cases="a link | a pipe | a second name")
@falls_without("files of a fork's own", FILES_NOT_PLANTED)
@pytest.mark.parametrize("trap", PLACED)
async def test_anything_in_place_of_a_forks_own_files_is_replaced(
    fresh: Open, runtime: KeeperRuntime, trap: str
) -> None:
    async with fresh(Spec(root=True)) as desk:
        before = await desk.read("/etc/machine-id")
        await turned(desk, PLACED[trap])
        forks = await forked(desk)
        try:
            assert len(forks) == 1
            assert await forks[0].read("/etc/hostname") == f"{forks[0].id[:12]}\n".encode()
            assert await forks[0].read("/etc/machine-id") != before
            assert (await forks[0].run(["sh", "-c", "cat elsewhere 2>/dev/null"])).text in ("", "mine\n")
        finally:
            await burnt(runtime, forks)


@falls_without(
    "no folder that is emptied for a fork",
    Removal("room/identity.py", "    if is_folder(fd, name):\n", "    if not path:\n"),
    cases="a folder",
)
@no_guard(
    "the kernel or the interpreter refuses it, too; that only the fork is harmed must pass",
    cases="a deep folder | a file instead of a folder | no folder",
)
@pytest.mark.parametrize("trap", BURIED)
async def test_obstacles_in_a_fork_do_not_block_the_keeper_and_harm_only_the_fork(
    fresh: Open, runtime: KeeperRuntime, trap: str
) -> None:
    async with fresh(Spec(root=True)) as desk:
        await turned(desk, BURIED[trap])
        kept = await desk.snapshot()
        begun = time.monotonic()
        with pytest.raises(HotdeskError):
            await desk.fork(1, kept)
        assert time.monotonic() - begun < BOUND
        assert (await desk.run(["true"])).ok
        await desk.rollback(kept)
        assert (await desk.run(["true"])).ok


# -- what outlives -----------------------------------------------------------------------------------------------------

UNDEAD = """
import array
sys.path.insert(0, "/run/hotdesk/lib")
from hotdesk_guest.wire import encode

def dial():
    sock = socket.socket(socket.AF_UNIX)
    sock.connect("/run/hotdesk/sudo.sock")
    return sock

waiting = [dial() for _ in range(64)]
time.sleep(1)
body = encode({"argv": ["touch", "/home/user/undead"], "env": {}, "cwd": "/"})
for _ in range(4):
    sock = dial()
    itself = array.array("i", [sock.fileno()] * 3)
    sock.sendmsg([len(body).to_bytes(4, "big") + body], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, itself)])
tell("waits")
time.sleep(60)
"""
PLANT = """
planted = []
for folder, folders, _ in os.walk("/"):
    if folder in ("/proc", "/sys"):
        folders.clear()
    try:
        with open(folder + "/planted", "w") as file:
            file.write("planted")
        planted.append(folder)
    except OSError:
        pass
for number in range(20):
    if not os.fork():
        os.setsid()
        for each in range(1, 65):
            try:
                signal.signal(each, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        while True:
            time.sleep(0.01)
tell(len(planted))
while True:
    time.sleep(1)
"""
LOOK = """
found = [folder for folder, _, files in os.walk("/") if "planted" in files]
names = [open("/proc/%s/comm" % pid).read().strip() for pid in os.listdir("/proc") if pid.isdigit()]
tell({"found": found, "processes": len(names)})
"""


@falls_without(
    "calls of `sudo` that end with their desk's life",
    Removal(
        "room/room.py",
        "        if self.sudo is not None:\n            self.sudo.close()  #",
        "        if self.sudo is not None and self.sudo.fileno() < 0:\n            self.sudo.close()  #",
    ),
)
async def test_a_sudo_call_that_stays_open_does_not_survive_a_rollback(fresh: Open, launch: Launch) -> None:
    async with fresh(Spec(root=True)) as desk:
        kept = await desk.snapshot()
        await desk.run(["true"], user="root")
        _, told = await launch(desk, UNDEAD)
        assert told == "waits"
        await desk.rollback(kept)
        await desk.run(["true"], user="root")
        await anyio.sleep(0.5)
        assert (await desk.run(["ls"])).text == ""


@falls_without(
    "files as they were",
    Removal(
        "keeper/reboot.py", "                layers.roll_back(source, tracked.spec.disk)\n", "                pass\n"
    ),
)
async def test_no_file_and_no_process_survives_a_rollback(fresh: Open, launch: Launch, attack: Attack) -> None:
    async with fresh(Spec(root=True)) as desk:
        kept = await desk.snapshot()
        _, planted = await launch(desk, PLANT, user="root")
        assert planted > 100
        await launch(desk, PLANT)
        await desk.rollback(kept)
        told = await attack(desk, LOOK)
        assert told["found"] == []
        assert told["processes"] <= 3


@falls_without(
    "an end to a root that is starting",
    Removal("keeper/reboot.py", "if tracked.runtime or tracked.down:", "if tracked.is_starting() or tracked.down:"),
)
async def test_a_root_guest_that_keeps_starting_does_not_prevent_a_halt(fresh: Open, runtime: KeeperRuntime) -> None:
    async with fresh(Spec(root=True)) as desk:
        kept = await desk.snapshot()
        rising = runtime.handles[desk.id].rising
        for _ in range(3):
            await desk.start(["sudo", "true"], stdin=False)
            with anyio.fail_after(20):
                while not rising.locked():
                    await anyio.sleep(0.001)
            await desk.rollback(kept)
        assert (await desk.run(["true"])).ok


@falls_without(
    "an end to what resists",
    Removal(
        "keeper/reboot.py", "if tracked.room.cgroup.strike() or tracked.list_children():", "if tracked.list_children():"
    ),
)
@pytest.mark.parametrize("code", [VFORKED, FORKING, DISK], ids=["vfork", "forking", "disk"])
async def test_a_resisting_desk_is_snapshotted_whole_or_reported_and_still_rolls_back(
    fresh: Open, neighbour: Desk, launch: Launch, code: str
) -> None:
    async with fresh(Spec(pids=300, memory=512 * MIB)) as desk:
        clean = await desk.snapshot()
        await launch(desk, code)
        begun = time.monotonic()
        with suppress(DeskError):
            await desk.snapshot()
        assert time.monotonic() - begun < BOUND
        assert (await neighbour.usage()).pids > 0
        await desk.rollback(clean)
        assert time.monotonic() - begun < 3 * BOUND
        assert len(await desk.processes()) == 0
        assert (await desk.usage()).pids < 100  # a sentry has threads of its own


# -- room on the disk --------------------------------------------------------------------------------------------------

FILL = """
written = 0
try:
    with open(given["name"], "wb", buffering=0) as file:
        while written < 96:
            file.write(os.urandom(1 << 20))
            written += 1
        os.fsync(file.fileno())
except OSError:
    pass
tell(os.stat(given["name"]).st_size >> 20)
"""


@falls_without(
    "room that was used already",
    Removal("room/btrfs.py", "most = max(size - self.charges.sum_other_lives(desk), MIB)", "most = size"),
)
async def test_rollback_and_fork_do_not_raise_the_disk_limit(
    fresh: Open, runtime: KeeperRuntime, attack: Attack
) -> None:
    async with fresh(Spec(disk=64 * MIB)) as desk:
        first = await desk.run(["sh", "-c", "head -c 40M /dev/urandom > held && sync"])
        assert first.ok, first.stderr
        kept = await desk.snapshot()
        for number in range(2):
            await desk.rollback(kept)
            assert await attack(desk, FILL, name=f"more{number}") < 32
        (fork,) = await desk.fork(1, kept)
        try:
            assert await attack(fork, FILL, name="more") < 32
        finally:
            await runtime.burn(fork.id)


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def borrowed(runtime: KeeperRuntime, settings: Config) -> AsyncIterator[RemoteRuntime]:
    path = control_path(settings, 1)
    async with serve_control(runtime, path), remote_runtime(path) as remote:
        yield remote


GUESSED = ("0", "01", "2", "1.1", "../1", "..%2f1", "1\n", "-1", "\u0661", "99999999999", "OTHER.1", "../OTHER.1",
           "KEPT")  # fmt: skip


@falls_without(
    "snapshots by a number",
    Removal("desk/request.py", '[str, re.compile(r"[1-9][0-9]{0,8}"', '[str, re.compile(r"(?s).*"'),
    Removal("room/rootfs.py", "        if snapshot not in self.snapshots:\n", "        if not snapshot:\n"),
    Removal("room/rootfs.py", "        return self.snapshots[snapshot]\n", "        return snapshot\n"),
    cases="10",
)
@falls_without(
    "snapshots of its own",
    Removal("room/rootfs.py", "str] = field(default_factory=dict)", "str] = field(default_factory=lambda all={}: all)"),
    cases="12",
)
@no_guard(
    "without the first guard another refuses it: the keeper's names, or the shape a request must have",
    cases="0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 11",
)
@pytest.mark.parametrize("name", GUESSED, ids=range(len(GUESSED)))
async def test_no_name_selects_a_snapshot_of_another_desk(
    desk: Desk, neighbour: Desk, borrowed: RemoteRuntime, runtime: KeeperRuntime, name: str
) -> None:
    kept = await neighbour.snapshot()
    guess = name.replace("OTHER.1", f"{neighbour.id}.{kept}").replace("KEPT", kept)
    try:
        for act in ("halt", "boot", "forks"):
            with pytest.raises(BriefError):
                await borrowed.call("POST", f"/desks/{desk.id}/{act}", {"snapshot": guess, "count": 1})
        with pytest.raises(HotdeskError):
            await runtime.keeper.ask(KeeperRequest("forget", desk.id, snapshot=guess))
        with pytest.raises(HotdeskError):
            await begun(runtime, desk, Spec(), guess)
        assert (await desk.run(["true"])).ok
    finally:
        await neighbour.forget(kept)


@falls_without(
    "a tenant's forks",
    Removal("keeper/open.py", "origin.spec.tenant != spec.tenant:", "origin.spec.tenant == origin.desk:"),
)
async def test_a_fork_stays_with_its_tenant(fresh: Open, runtime: KeeperRuntime) -> None:
    async with fresh(Spec(tenant="one")) as desk:
        kept = await desk.snapshot()
        for tenant in ("two", ""):
            with pytest.raises(BriefError):
                await begun(runtime, desk, Spec(tenant=tenant), kept)


async def begun(runtime: KeeperRuntime, desk: Desk, spec: Spec, snapshot: str) -> None:
    """Begin a desk of a spec from another desk's files; burn it if it opens."""
    await runtime.burn((await runtime.begin(spec, CLOSED, origin=desk.id, snapshot=snapshot)).id)


# -- desks that are kept ready -----------------------------------------------------------------------------------------


async def spare(runtime: KeeperRuntime, spec: Spec) -> LinkedDesk:
    """Have a desk opened in advance; return it."""
    runtime.pool.keep(spec, 1)
    await runtime.pool.wait_until_full()
    (shelf,) = (shelf for shelf in runtime.pool.shelves.values() if shelf.spec.tenant == spec.tenant and shelf.ready)
    return shelf.ready[0].desk


def taken(runtime: KeeperRuntime, spec: Spec) -> DeskId | None:
    found = runtime.pool.take(spec, CLOSED)
    runtime.pool.keep(spec, 0)
    return found[0].id if found else None


@falls_without(
    "desks nobody finds",
    Removal(
        "owner/runtime.py",
        "            if not spare:\n                self.desks",
        "            if desk:\n                self.desks",
    ),
)
@falls_without(
    "desks that are claimed once",
    Removal("keeper/operations.py", "    if not tracked.spare:\n", "    if tracked.down:\n"),
)
async def test_a_ready_desk_cannot_be_reached_and_is_claimed_once(
    runtime: KeeperRuntime, borrowed: RemoteRuntime
) -> None:
    ready = await spare(runtime, Spec(tenant="ready"))
    with pytest.raises(DeskGone):
        await runtime.find(ready.id)
    for way in ("link", "root", "dial/3128"):
        with pytest.raises(DeskGone):
            await borrowed.upgrade(f"/desks/{ready.id}/{way}", "hotdesk-link")
    for act in ("snapshots", "resume", "forks", "halt"):
        with pytest.raises(DeskGone):
            await borrowed.call("POST", f"/desks/{ready.id}/{act}", {"count": 1})
    assert taken(runtime, Spec(tenant="ready")) == ready.id
    await runtime.keeper.ask(KeeperRequest("claim", ready.id, Spec(tenant="ready")))
    try:
        with pytest.raises(BriefError):
            await runtime.keeper.ask(KeeperRequest("claim", ready.id, Spec(tenant="ready", root=True)))
    finally:
        await runtime.burn(ready.id)


@falls_without(
    "a tenant's spares", Removal("owner/pool.py", "return Kind(spec.tenant, image,", 'return Kind("", image,')
)
@falls_without(
    "a tenant's spares, as the keeper has them",
    Removal("keeper/operations.py", "    if request.spec.tenant != tracked.spec.tenant or", "    if"),
)
async def test_a_desk_ready_for_one_tenant_is_not_given_to_another(runtime: KeeperRuntime) -> None:
    ready = await spare(runtime, Spec(tenant="one"))
    try:
        assert runtime.pool.take(Spec(tenant="two"), CLOSED) is None
        assert runtime.pool.take(Spec(), CLOSED) is None
        with pytest.raises(BriefError):
            await runtime.keeper.ask(KeeperRequest("claim", ready.id, Spec(tenant="two")))
    finally:
        taken(runtime, Spec(tenant="one"))
        await runtime.burn(ready.id)


# -- secrets -----------------------------------------------------------------------------------------------------------


@no_guard("placeholders are made anew for every desk: test_secret_attacks.py shows what keeps them apart")
async def test_a_fork_cannot_use_its_origins_grants(room: Room, visit: Visit) -> None:
    (fork,) = await room.desk.fork()
    try:
        held = await placeholders(fork)
        assert set(held) == set(room.held)
        assert not set(held.values()) & set(room.held.values())
        own, origins = await visit(
            fork,
            {"host": "b.test", "headers": [["X-Api-Key", held["B"]]]},
            {"host": "b.test", "headers": [["X-Api-Key", room.held["B"]]]},
        )
        assert (own.status, origins.status) == (200, 403)
        (back,) = await visit(room.desk, {"host": "b.test", "headers": [["X-Api-Key", held["B"]]]})
        assert back.status == 403
    finally:
        await room.host.burn(fork.id)


@falls_without("a certificate of a fork's own", FILES_NOT_PLANTED)
async def test_a_fork_trusts_its_own_door_and_outlives_its_origin(room: Room, visit: Visit) -> None:
    async with room.host.open_desk(scope=room.scope("token-b@b.test header=X-Api-Key env=B")) as desk:
        certificate = await desk.read("/usr/local/share/ca-certificates/hotdesk.crt")
        (fork,) = await desk.fork()
    try:
        assert await fork.read("/usr/local/share/ca-certificates/hotdesk.crt") != certificate
        bundle = await fork.read("/etc/ssl/certs/ca-certificates.crt")
        assert certificate.strip() not in bundle
        (answer,) = await visit(fork, {"host": "b.test"})
        assert answer.status == 200
    finally:
        await room.host.burn(fork.id)
