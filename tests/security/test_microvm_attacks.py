"""Attacks behind the microvm wall: by root of a machine, and by an attacker who has taken over its emulator."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import signal
import socket
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.image import image, sterile
from hotdesk.desk.owner.runtime import KeeperRuntime, container_runtime
from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import DeskGone
from hotdesk.linux import syscalls, uids
from hotdesk.linux.cgroup import Cgroup, find_hierarchies
from hotdesk.linux.processes import read_status
from tests.security.conftest import Attack
from tests.security.guards import Removal, falls_without, no_guard

pytestmark = [pytest.mark.container, pytest.mark.microvm, pytest.mark.timeout(300)]

SPEC = Spec(wall="microvm", memory=256 * MIB, disk=128 * MIB)
TIME = 120.0
"""Seconds an attack may take in an emulated machine."""
DEVICES = """
found = {}
for each in os.listdir("/sys/bus/pci/devices"):
    kind = [open("/sys/bus/pci/devices/%s/%s" % (each, name)).read().strip() for name in ("vendor", "device")]
    found[" ".join(kind)] = found.get(" ".join(kind), 0) + 1
tell({"pci": found, "net": os.listdir("/sys/class/net"), "ports": len(os.listdir("/sys/class/virtio-ports"))})
"""
LAYERS = """
def serial(each):
    with open("/sys/block/%s/serial" % each) as file:
        return file.read().strip()
blocks = [each for each in os.listdir("/sys/block") if each.startswith("vd")]
def write(each):
    fd = os.open("/dev/" + each, os.O_RDWR)
    if given["clears"]:
        fcntl.ioctl(fd, 0x125d, struct.pack("i", 0))
    same = os.pread(fd, 4096, 0)
    os.pwrite(fd, same, 0)
    os.fsync(fd)
tell({serial(each): attempt(write, each) for each in blocks if serial(each) != "disk"})
"""
WHO = """
tell([open("/proc/sys/kernel/random/uuid").read(), open("/proc/sys/kernel/random/boot_id").read(),
      os.urandom(16).hex(), open("/etc/machine-id").read(), socket.gethostname(), os.environ["HOTDESK_PROCESS"]])
"""
PORTS = """
def label(each):
    with open("/sys/class/virtio-ports/%s/name" % each) as file:
        return file.read().strip()
tell({label(each): attempt(os.open, "/dev/" + each, os.O_RDWR) for each in os.listdir("/sys/class/virtio-ports")})
"""
FILL = """
disk = next(each for each in os.listdir("/sys/block") if each.startswith("vd")
            and open("/sys/block/%s/serial" % each).read().strip() == "disk")
fd = os.open("/dev/" + disk, os.O_WRONLY)
size = os.lseek(fd, 0, os.SEEK_END)
at, written = size // 2, 0
while at < size:
    data = os.urandom(1 << 20)
    try:
        n = os.pwrite(fd, data, at)
        os.fsync(fd)
    except OSError:
        break
    at += n
    written += n
tell([size, written])
"""

SEIZE, INTERRUPT, GET_FILTER, DETACH = 0x4206, 0x4207, 0x420C, 17
"""Requests of ptrace."""
WALL = 0x40000000
SET_SECCOMP = 22
FILE_REQUESTS = {"block size": 2, "flags": 0x80086601, "clone": 0x40049409, "subvolume": 0x5000940E, "trim": 0xC0185879}


@pytest.fixture(scope="module")
def emulating(settings: Config) -> Config:
    return replace(settings, microvm_emulate=True)


@pytest.fixture(scope="module")
async def runtime(emulating: Config) -> AsyncIterator[KeeperRuntime]:
    async with container_runtime(emulating) as opened:
        yield opened
    opened.keeper.sock.close()


@pytest.fixture(scope="module")
async def desk(runtime: KeeperRuntime) -> AsyncIterator[Desk]:
    opened = await runtime.open(SPEC)
    yield opened
    await runtime.burn(opened.id)


@pytest.fixture(scope="module")
async def rooted(runtime: KeeperRuntime) -> AsyncIterator[Desk]:
    opened = await runtime.open(replace(SPEC, root=True))
    await opened.run(["true"], user="root", timeout=TIME)
    yield opened
    await runtime.burn(opened.id)


def find_emulator(desk: Desk) -> int:
    for pid in Cgroup(find_hierarchies(), desk.id).list_pids():
        if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"/usr/bin/qemu-system-"):
            return pid
    raise AssertionError("no emulator")


# -- root of the machine ---------------------------------------------------------------------------------------


@pytest.mark.long
@no_guard("the list of devices is one function of the task; a machine with another is another machine")
async def test_a_machine_has_only_its_disks_and_two_ports(settings: Config, rooted: Desk, attack: Attack) -> None:
    answer = await attack(rooted, DEVICES, user="root", timeout=TIME)
    layers = len(image.find(settings.images, "base").layers)
    kinds = {"0x1af4 0x1003": 1, "0x1af4 0x1001": layers + 1}
    modern = {"0x1af4 0x1043": 1, "0x1af4 0x1042": layers + 1}
    others = {kind: count for kind, count in answer["pci"].items() if kind not in {*kinds, *modern}}
    assert {kind: answer["pci"].get(kind) for kind in kinds} == kinds or all(
        answer["pci"].get(kind) == count for kind, count in modern.items()
    )
    assert all(kind.startswith(("0x1b36", "0x8086")) for kind in others), "bridges of the board, and nothing else"
    assert (answer["net"], answer["ports"]) == (["lo"], 2)


@pytest.mark.long
@falls_without(
    "layers of a machine are read-only",
    Removal("hotdesk_vmm/qemu.py", '"readonly=on")', '"discard=ignore")'),
    Removal(
        "microvm/wall.py", "syscalls.mount_idmapped(str(source), str(at), userns)", "show_writable(source, at, userns)"
    ),
    Removal("microvm/wall.py", 'plain = ("bind", "ro", ', 'plain = ("bind", '),
    Removal(
        "microvm/wall.py",
        "def hold_layer(",
        "def show_writable(source: Path, at: Path, userns: int) -> None:\n"
        "    syscalls.mount_idmapped(str(source), str(at), userns, 0)\n\n\ndef hold_layer(",
    ),
)
@pytest.mark.parametrize("clears", [False, True])
async def test_root_of_a_machine_cannot_write_its_images_layers(rooted: Desk, attack: Attack, clears: bool) -> None:
    answer = await attack(rooted, LAYERS, user="root", timeout=TIME, clears=clears)
    assert answer
    assert set(answer.values()) <= {"EACCES", "EROFS", "EPERM", "EIO"}, answer


@pytest.mark.long
@falls_without(
    "programs see no group beside the one that stands still",
    Removal("hotdesk_guest/freezer.py", '        check(libc.unshare(_CLONE_NEWCGROUP), "unshare")\n', ""),
)
async def test_root_of_a_machine_finds_no_group_that_goes_on_while_others_stand_still(rooted: Desk) -> None:
    look = "mkdir -p /run/groups && mount -t cgroup2 groups /run/groups && ls /run/groups && cat /proc/self/cgroup"
    found = await rooted.run(["sh", "-c", look], user="root", timeout=TIME)
    assert found.ok, found
    assert found.text.split()[-1] == "0::/"
    assert "desk" not in found.text.split()


@pytest.mark.long
@falls_without(
    "a machine's own randomness",
    Removal("hotdesk_guest/vm.py", '    reseed_kernel(seed["random"])\n', ""),
)
async def test_two_machines_of_one_template_share_no_secret(runtime: KeeperRuntime, attack: Attack) -> None:
    answers = []
    for _ in range(2):
        desk = await runtime.open(SPEC)
        answers.append(await attack(desk, WHO, timeout=TIME))
        await runtime.burn(desk.id)
    assert all(one != other for one, other in zip(*answers, strict=True)), answers


@pytest.mark.long
@no_guard("a machine maps its template copy-on-write, from a mount that is read-only, of a file that is root's")
async def test_a_machine_changes_neither_its_template_nor_its_layers(
    emulating: Config, desk: Desk, attack: Attack
) -> None:
    base = image.find(emulating.images, "base")
    folder = image.get_template_folder(emulating.images, base.digest)
    files = [file for place in folder.iterdir() for file in place.iterdir()]
    before = {file: digest(file) for file in files}
    assert files
    await desk.run(["sh", "-c", "head -c 20M /dev/urandom >/dev/shm/x; rm /dev/shm/x"], timeout=TIME)
    assert {file: digest(file) for file in files} == before
    copy, _ = sterile.find_copy(emulating.images, base.layers[0].name)
    assert digest(copy) == sterile.get_digest_path(copy).read_text().strip()


def digest(file: Path) -> str:
    fd = os.open(file, os.O_RDONLY)
    try:
        return sterile.compute_digest(fd)
    finally:
        os.close(fd)


@pytest.mark.long
@falls_without(
    "a machine's disk is within its desk's limit",
    Removal("room/rootfs.py", "self.disk.make(self.desk, size, at)", "self.disk.make(self.desk, size << 4, at)"),
    Removal("microvm/wall.py", "(room.spec.disk - room.spec.disk // OWN_DISK_SHARE)", "(room.spec.disk << 2)"),
)
async def test_a_raw_write_cannot_exceed_a_disks_limit(runtime: KeeperRuntime, attack: Attack) -> None:
    desk = await runtime.open(replace(SPEC, root=True))
    await attack(desk, FILL, user="root", timeout=TIME)
    assert (await desk.usage()).disk <= SPEC.disk
    await runtime.burn(desk.id)


@pytest.mark.long
@no_guard("the kernel gives a port to one process alone, and that is the machine's first")
async def test_root_of_a_machine_cannot_take_its_ports(rooted: Desk, attack: Attack) -> None:
    answer = await attack(rooted, PORTS, user="root", timeout=TIME)
    assert set(answer.values()) == {"EBUSY"}, answer
    assert {*answer} == {"link", "mux"}


# -- in the emulator's place -----------------------------------------------------------------------------------


@falls_without(
    "an emulator's own filter",
    Removal("hotdesk_vmm/qemu.py", '"-sandbox", SANDBOX]', "]"),
)
async def test_an_emulator_has_no_access_to_the_host(desk: Desk) -> None:
    pid = find_emulator(desk)
    status = read_status(pid)
    user = int(status["Uid"].split()[0])
    assert (user - uids.FIRST) % uids.WIDTH == uids.USER
    assert [status[f"Cap{kind}"] for kind in ("Prm", "Eff", "Bnd", "Amb", "Inh")] == ["0" * 16] * 5
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert int(status["Seccomp_filters"]) >= 2, "the desk's, and its own"
    for kind in ("pid", "mnt", "ipc", "uts", "net", "user", "cgroup"):
        assert os.stat(f"/proc/{pid}/ns/{kind}").st_ino != os.stat(f"/proc/self/ns/{kind}").st_ino
    cards = [line.partition(":")[0].strip() for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]]
    assert cards == ["lo"]


def read_desk_filter(pid: int) -> bytes:
    """Read the oldest seccomp filter of a process, which its container set, from the kernel."""

    def trace(request: int, address: int = 0, data: object = None) -> int:
        found = syscalls.libc.ptrace(request, pid, ctypes.c_void_p(address), data)
        return syscalls.check(found, f"ptrace {request:#x}")

    trace(SEIZE)
    try:
        trace(INTERRUPT)
        os.waitpid(pid, WALL)
        program = ctypes.create_string_buffer(trace(GET_FILTER) * 8)
        trace(GET_FILTER, 0, program)
        return program.raw
    finally:
        trace(DETACH)


def set_filter(program: bytes) -> None:
    buffer = ctypes.create_string_buffer(program, len(program))
    description = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    syscalls.check(syscalls.libc.prctl(SET_SECCOMP, 2, description, 0, 0), "seccomp")


@falls_without(
    "an emulator's container admits listed ioctls",
    Removal("microvm/wall.py", "self.requests = seccomp.IoctlRequests(REQUESTS, kinds)", "self.requests = None"),
)
async def test_a_compromised_emulator_cannot_call_a_host_file_systems_ioctls(desk: Desk, tmp_path: Path) -> None:
    """While its machine is saved an emulator has a file of the host's file system."""
    pid = find_emulator(desk)
    program = read_desk_filter(pid)
    with (tmp_path / "saved").open("wb") as file:

        def work() -> object:
            set_filter(program)
            answers = {name: attempt(fcntl.ioctl, file, request, bytes(64)) for name, request in FILE_REQUESTS.items()}
            return {**answers, "nonblocking": attempt(os.set_blocking, file.fileno(), False)}

        answer = in_place_of(pid, uids.USER, work)
    assert answer.pop("nonblocking") == "done"
    assert answer == dict.fromkeys(FILE_REQUESTS, "ENOSYS")


def in_place_of(pid: int, user: int, work: Callable[[], object]) -> Any:
    r, w = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(30)
            kinds = ("user", "pid", "net", "ipc", "uts", "mnt")
            spaces = {kind: os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds}
            for kind in kinds[1:]:
                syscalls.check(syscalls.libc.setns(spaces[kind], 0), f"setns {kind}")
            os.setgroups([])
            syscalls.check(syscalls.libc.setns(spaces["user"], 0), "setns user")
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            if (grandchild := os.fork()) == 0:
                os.write(w, json.dumps(work()).encode())
                os._exit(0)
            os.waitpid(grandchild, 0)
        except BaseException as e:  # noqa: BLE001 - a child: told to its parent
            os.write(w, json.dumps(f"raised {e!r}").encode())
        finally:
            os._exit(0)
    os.close(w)
    with os.fdopen(r, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer)


def attempt(work: Callable[..., object], *arguments: object) -> str:
    try:
        work(*arguments)
    except OSError as e:
        return errno.errorcode.get(e.errno or 0, str(e))
    return "done"


@no_guard("the container's walls, each of which has its own attacks; here from the place of an emulator")
async def test_a_compromised_emulator_is_unprivileged_in_a_container(settings: Config, desk: Desk, home: Path) -> None:
    ours = os.getpid()

    def work() -> object:
        return {
            "kill": attempt(os.kill, ours, 0),
            "cards": [name for _, name in socket.if_nameindex()],
            "layer": attempt(os.open, "/run/vm/layer0", os.O_RDWR),
            "template": attempt(os.open, "/run/vm/ram", os.O_RDWR),
            "task": attempt(os.open, "/run/vm/task.json", os.O_RDWR),
            "chmod": attempt(os.chmod, "/run/vm/layer0", 0o666),
            "home": attempt(os.listdir, str(home)),
            "hotdesk": attempt(os.listdir, "/var/lib/hotdesk"),
        }

    answer = in_place_of(find_emulator(desk), uids.USER, work)
    assert answer.pop("cards") == ["lo"]
    assert answer.pop("kill") == "ESRCH"
    assert answer.pop("home") == answer.pop("hotdesk") == "ENOENT"
    assert set(answer.values()) <= {"EROFS", "EACCES", "EPERM"}, answer


@pytest.mark.long
@falls_without(
    "who stands for root's guest has no capability",
    Removal("microvm/wall.py", "    root_capabilities = 0\n", "    root_capabilities = bundle.CAPABILITY_BITS\n"),
    Removal("microvm/wall.py", 'return {**process, "capabilities": {name: [] for name in sets}}', "return {**process}"),
)
async def test_the_process_that_relays_for_roots_guest_has_no_rights(rooted: Desk) -> None:
    await rooted.run(["true"], user="root", timeout=TIME)
    pids = Cgroup(find_hierarchies(), rooted.id).list_pids()
    status = next(found for pid in pids if int((found := read_status(pid))["Uid"].split()[0]) % uids.WIDTH == 0)
    assert [status[f"Cap{kind}"] for kind in ("Prm", "Eff", "Bnd")] == ["0" * 16] * 3
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


@pytest.mark.long
@no_guard("the supervisor waits for its emulator, and ends with it; so does the container")
async def test_a_desk_ends_with_its_emulator(runtime: KeeperRuntime) -> None:
    desk = await runtime.open(SPEC)
    os.kill(find_emulator(desk), signal.SIGKILL)
    with pytest.raises(DeskGone), anyio.fail_after(20):
        await desk.run(["sleep", "20"])
