"""Fixtures of the attacks: desks to attack from, and a way to run attack code inside and read its verdict."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest

from hotdesk.config import Config
from hotdesk.desk.image import image
from hotdesk.desk.owner.runtime import KeeperRuntime, container_runtime
from hotdesk.desk.seam import Desk, Process, Spec
from tests.origins import WALLED, Origin
from tests.security import secret_room
from tests.security.other_walls import GVISOR_ANSWERS, GVISOR_ENDS, NOT_BEHIND, REFUSALS, UNREACHABLE
from tests.security.secret_room import VISIT, Answer, Case, Room

Attack: TypeAlias = Callable[..., Awaitable[Any]]
"""Runs Python inside a desk and returns the verdict it printed."""
Program: TypeAlias = Callable[..., list[str]]
Launch: TypeAlias = Callable[..., Awaitable[tuple[Process, Any]]]
Owning: TypeAlias = Callable[[Config], AbstractAsyncContextManager[KeeperRuntime]]
Open: TypeAlias = Callable[[Spec], AbstractAsyncContextManager[Desk]]
"""Opens a separate desk, which is burnt at the end of the block."""
Init: TypeAlias = Callable[[Config, Desk], int]
Craft: TypeAlias = Callable[..., Config]
Command: TypeAlias = Callable[..., Awaitable["subprocess.CompletedProcess[bytes]"]]
Visit: TypeAlias = Callable[..., Awaitable[list[Answer]]]
"""Sends requests from inside a desk, one after the other; returns the answers."""
Rows: TypeAlias = dict[str, tuple[str, object]]
"""Attacks by description: each a Python expression to evaluate inside a desk, and the answer it must get."""

HOTDESK = [sys.executable, "-c", "from hotdesk.cli import main; main()"]
"""The command line of this source tree; an installed one may be another version."""

NUMBERS: dict[str, tuple[int, int]] = {
    "acct": (89, 163),
    "add_key": (217, 248),
    "adjtimex": (171, 159),
    "bpf": (280, 321),
    "chroot": (51, 161),
    "clock_adjtime": (266, 305),
    "clock_settime": (112, 227),
    "clone": (220, 56),
    "delete_module": (106, 176),
    "execveat": (281, 322),
    "fanotify_init": (262, 300),
    "finit_module": (273, 313),
    "init_module": (105, 175),
    "io_cancel": (3, 210),
    "io_destroy": (1, 207),
    "io_getevents": (4, 208),
    "io_setup": (0, 206),
    "io_submit": (2, 209),
    "kcmp": (272, 312),
    "kexec_file_load": (294, 320),
    "kexec_load": (104, 246),
    "keyctl": (219, 250),
    "linkat": (37, 265),
    "lookup_dcookie": (18, 212),
    "mbind": (235, 237),
    "migrate_pages": (238, 256),
    "mknodat": (33, 259),
    "mlockall": (230, 151),
    "mount": (40, 165),
    "move_pages": (239, 279),
    "mq_open": (180, 240),
    "msgget": (186, 68),
    "name_to_handle_at": (264, 303),
    "nfsservctl": (42, 180),
    "open_by_handle_at": (265, 304),
    "perf_event_open": (241, 298),
    "personality": (92, 135),
    "pivot_root": (41, 155),
    "prlimit64": (261, 302),
    "process_vm_readv": (270, 310),
    "process_vm_writev": (271, 311),
    "ptrace": (117, 101),
    "quotactl": (60, 179),
    "reboot": (142, 169),
    "remap_file_pages": (234, 216),
    "renameat2": (276, 316),
    "request_key": (218, 249),
    "rt_tgsigqueueinfo": (240, 297),
    "seccomp": (277, 317),
    "semget": (190, 64),
    "set_mempolicy": (237, 238),
    "setdomainname": (162, 171),
    "sethostname": (161, 170),
    "setns": (268, 308),
    "setrlimit": (164, 160),
    "setsockopt": (208, 54),
    "settimeofday": (170, 164),
    "shmat": (196, 30),
    "shmget": (194, 29),
    "socket": (198, 41),
    "socketpair": (199, 53),
    "splice": (76, 275),
    "swapoff": (225, 168),
    "swapon": (224, 167),
    "sync": (81, 162),
    "syslog": (116, 103),
    "tee": (77, 276),
    "umount2": (39, 166),
    "unshare": (97, 272),
    "userfaultfd": (282, 323),
    "vhangup": (58, 153),
    "vmsplice": (75, 278),
}
"""System call numbers on aarch64 and x86_64, for calls that libc hides or wraps."""
NEWER: dict[str, int] = {
    "cachestat": 451,
    "clone3": 435,
    "fsconfig": 431,
    "fsmount": 432,
    "fsopen": 430,
    "fspick": 433,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "io_uring_setup": 425,
    "landlock_add_rule": 445,
    "landlock_create_ruleset": 444,
    "landlock_restrict_self": 446,
    "listmount": 458,
    "lsm_set_self_attr": 460,
    "mount_setattr": 442,
    "move_mount": 429,
    "open_tree": 428,
    "open_tree_attr": 467,
    "openat2": 437,
    "pidfd_getfd": 438,
    "pidfd_open": 434,
    "pidfd_send_signal": 424,
    "process_madvise": 440,
    "process_mrelease": 448,
    "quotactl_fd": 443,
    "set_mempolicy_home_node": 450,
    "statmount": 457,
}
"""Numbers that are the same on every architecture."""

KNOCK = ["curl", "-sx", "http://127.0.0.1:3128", "http://knock/"]
"""Starts the door, which then keeps running; started by a later test, it would look like something left behind."""

PRELUDE = """
import ctypes, errno, fcntl, json, os, resource, select, signal, socket, stat, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
given = json.loads(sys.argv[1])
SUDO = "/run/sudo.sock" if os.path.exists("/run/sudo.sock") else "/run/hotdesk/sudo.sock"

def name(number):
    return errno.errorcode.get(number, str(number))

def call(what, *args):
    ctypes.set_errno(0)
    words = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    result = libc.syscall(ctypes.c_long(given["syscalls"][what]), *words)
    return name(ctypes.get_errno()) if result == -1 else result

def attempt(work, *args, **named):
    try:
        result = work(*args, **named)
    except OSError as e:
        return name(e.errno)
    return result if isinstance(result, (int, str, list)) else "done"

def put(path, text):
    fd = os.open(path, os.O_WRONLY)
    try:
        return attempt(os.write, fd, text.encode())
    finally:
        os.close(fd)

def apart(work):
    '''Run in a child, because a success would change us.'''
    r, w = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(20)
        try:
            os.write(w, json.dumps(work()).encode())
        except BaseException as e:
            os.write(w, json.dumps("raised " + repr(e)).encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r, "rb") as pipe:
        told = pipe.read()
    status = os.waitpid(child, 0)[1]
    return json.loads(told) if told else "died %d" % status

def tell(value):
    print(json.dumps(value), flush=True)
"""


TRY_ALL = """
first = os.getpid()

def make(expression):
    result = eval(expression)
    if os.getppid() != first:
        os._exit(0)  # a clone that should not be
    return result if isinstance(result, (int, str, list, dict)) else "done"

tell([apart(lambda: make(each)) for each in given["rows"]])
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with the reason, what cannot be tried behind another wall."""
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            params = item.callspec.params
            wall = str(params.get("origin", params.get("behind", "")))
            case = "-".join(part for part in item.callspec.id.split("-") if part != wall)
            reasons = [NOT_BEHIND.get((wall, name)) for name in (item.originalname, f"{item.originalname}[{case}]")]
            if any(reasons):
                item.add_marker(pytest.mark.skip(reason=next(filter(None, reasons))))


@pytest.fixture(scope="module")
def owning(origin: Origin) -> Owning:
    @asynccontextmanager
    async def owned(settings: Config) -> AsyncIterator[KeeperRuntime]:
        async with container_runtime(settings) as runtime:
            yield origin(runtime)
        runtime.keeper.sock.close()  # otherwise left to the garbage collector, which warns in an unrelated test

    return owned


@pytest.fixture(scope="module")
async def runtime(settings: Config, owning: Owning) -> AsyncIterator[KeeperRuntime]:
    async with owning(settings) as opened:
        yield opened


@pytest.fixture(scope="module")
async def desk(runtime: KeeperRuntime) -> AsyncIterator[Desk]:
    opened = await runtime.open(Spec())
    await opened.run(KNOCK, timeout=20)
    yield opened
    await runtime.burn(opened.id)


@pytest.fixture(scope="module")
async def neighbour(runtime: KeeperRuntime) -> AsyncIterator[Desk]:
    opened = await runtime.open(Spec())
    await opened.run(KNOCK, timeout=20)
    yield opened
    await runtime.burn(opened.id)


@pytest.fixture
def fresh(runtime: KeeperRuntime) -> Open:
    @asynccontextmanager
    async def opened(spec: Spec) -> AsyncIterator[Desk]:
        desk = await runtime.open(spec)
        try:
            yield desk
        finally:
            with anyio.move_on_after(20, shield=True):
                await runtime.burn(desk.id)

    return opened


@pytest.fixture(scope="session")
def program() -> Program:
    column = ("aarch64", "x86_64").index(os.uname().machine)
    syscalls = NEWER | {name: numbers[column] for name, numbers in NUMBERS.items()}

    def whole(code: str, **given: object) -> list[str]:
        return ["python3", "-c", PRELUDE + code, json.dumps({"syscalls": syscalls, **given})]

    return whole


@pytest.fixture(scope="session")
def attack(program: Program) -> Attack:
    """Return a function that runs attack code in a desk to its end; `tell` prints the verdict as the last line."""

    async def run(desk: Desk, code: str, *, timeout: float = 60, user: str | None = None, **given: object) -> Any:
        done = await desk.run(program(code, **given), timeout=timeout, user=user)
        assert done.exit_code == 0, f"exit {done.exit_code} {done.signal}: {done.stderr[-2000:].decode()}"
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture(scope="session")
def launch(program: Program) -> Launch:
    """Return a function that starts attack code that keeps running; its first line is its verdict."""

    async def start(desk: Desk, code: str, *, user: str | None = None, **given: object) -> tuple[Process, Any]:
        process = await desk.start(program(code, **given), stdin=False, user=user)
        said = b""
        async for _, data in process.output():
            said += data
            if b"\n" in said:
                return process, json.loads(said)
        raise AssertionError(f"the attack ended early: {said!r}")

    return start


@pytest.fixture(scope="module")
async def answers(
    request: pytest.FixtureRequest, desk: Desk, attack: Attack, victim: int, home: Path, origin: Origin
) -> dict[str, object]:
    """Evaluate every expression of a file's `ROWS` in one program in one desk, each in a child process.

    The program gets the pid of a process and the path of a folder that exist only on the host.
    """
    rows: Rows = request.module.ROWS
    if origin is WALLED["gvisor"]:
        rows = {row: each for row, each in rows.items() if row not in GVISOR_ENDS}
    expressions = [expression for expression, _ in rows.values()]
    told = await attack(desk, request.module.TOOLS + TRY_ALL, rows=expressions, victim=victim, marker=str(home))
    found = dict(zip(rows, told, strict=True))
    if origin is not WALLED["gvisor"]:
        return found
    return {row: translate(row, rows[row][1], answer) for row, answer in found.items()}


def translate(row: str, expected: object, answer: object) -> object:
    """Return a container's answer where a sentry refuses differently, or where `GVISOR_ANSWERS` gives a reason."""
    same = isinstance(answer, str) and any({expected, answer} <= alike for alike in (REFUSALS, UNREACHABLE))
    other, _ = GVISOR_ANSWERS.get(row, ("no such answer", ""))
    return expected if same or answer == other or (other is int and isinstance(answer, int)) else answer


@pytest.fixture(scope="session")
def init() -> Callable[[Config, Desk], int]:
    def find(settings: Config, desk: Desk) -> int:
        return int(json.loads((settings.run / "desks" / desk.id / "desk.json").read_text())["pid"])

    return find


@pytest.fixture(scope="session")
def victim() -> Iterator[int]:
    """Yield a process of this machine, outside any desk, that must survive."""
    with subprocess.Popen(["sleep", "3600"]) as process:
        yield process.pid
        assert process.poll() is None, "an attack killed a process of the host"
        process.kill()


@pytest.fixture
def crafted(settings: Config, home: Path) -> Iterator[Craft]:
    """Yield a function that builds an image with a hostile layer on top; it returns settings that know the image."""
    store = home / "crafted"
    base = image.find(settings.images, "base")

    def craft(name: str, fill: Callable[[Path], None], python: str = base.python) -> Config:
        layer = store / "layers" / ("e" * 64)
        layer.mkdir(parents=True)
        (store / "images").mkdir()
        fill(layer)
        for lower in base.layers:
            (store / "layers" / lower.name).symlink_to(lower)
        made = replace(base, name=name, digest=name, layers=(layer, *base.layers), python=python)
        (store / "images" / f"{name}.json").write_bytes(image.dump(made))
        return replace(settings, images=store)

    yield craft
    shutil.rmtree(store)


@pytest.fixture(scope="module")
async def room(
    request: pytest.FixtureRequest, settings: Config, home: Path, visit: Visit, origin: Origin
) -> AsyncIterator[Room]:
    """Return desks with grants and the hosts the grants are for; all processes that belong to them have started."""
    folder = home / request.module.__name__.rpartition(".")[2]
    async with secret_room.opened(settings, folder, origin) as room:
        for desk in (room.desk, room.neighbour):
            await visit(desk, {"host": "a.test"})
        yield room
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def visit(attack: Attack) -> Visit:
    async def run(desk: Desk, *requests: dict[str, object], together: bool = False) -> list[Answer]:
        await desk.write("requests", json.dumps(requests).encode())
        each = "visit_all(requests)" if together else "[visit(**each) for each in requests]"
        code = f"{VISIT}requests = json.load(open('requests'))\ntell({each})"
        return secret_room.loads(json.dumps(await attack(desk, code)))

    return run


@pytest.fixture(scope="module")
async def cases(request: pytest.FixtureRequest, room: Room, visit: Visit) -> dict[str, Case]:
    """Send everything a file's `requests` makes, concurrently; return the outcome of each."""
    made = request.module.requests(room)
    sent = [{**told, "case": str(number)} for number, told in enumerate(made.values())]
    answers = await visit(room.desk, *sent, together=True)
    seen = list(room.up.seen)
    return {
        name: Case(answer, tuple(each for each in seen if each.header("x-request-id") == str(number)))
        for number, (name, answer) in enumerate(zip(made, answers, strict=True))
    }


@pytest.fixture(scope="session")
def command() -> Command:
    async def run(settings: Config, *argv: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
        with anyio.fail_after(50):
            return await anyio.run_process(
                [*HOTDESK, *argv], env=environment(settings), check=False, stdin=subprocess.DEVNULL, cwd=cwd
            )

    return run


def environment(settings: Config) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOTDESK_HOME": str(settings.run.parent),
        "HOTDESK_IMAGES": str(settings.images),
        "HOTDESK_HOLDER": "0",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
