"""What every attack gets: desks to attack from, and a way to run attack code inside and read its verdict."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import anyio
import pytest

from hotdesk.config import Config
from hotdesk.desk.oci import ContainerRuntime, container_runtime
from hotdesk.desk.seam import Desk, Process, Spec

Attack: TypeAlias = Callable[..., Awaitable[Any]]
"""Runs Python inside a desk; gives what the code told."""
Program: TypeAlias = Callable[..., list[str]]
Launch: TypeAlias = Callable[..., Awaitable[tuple[Process, Any]]]
Owning: TypeAlias = Callable[[Config], AbstractAsyncContextManager[ContainerRuntime]]
Open: TypeAlias = Callable[[Spec], AbstractAsyncContextManager[Desk]]
"""Opens a desk of one's own; it burns at the end of the block."""

SYSCALLS: dict[str, dict[str, int]] = {
    "aarch64": {
        "add_key": 217,
        "adjtimex": 171,
        "bpf": 280,
        "chroot": 51,
        "clone": 220,
        "clone3": 435,
        "fsopen": 430,
        "io_cancel": 3,
        "io_destroy": 1,
        "io_getevents": 4,
        "io_setup": 0,
        "io_submit": 2,
        "io_uring_setup": 425,
        "kcmp": 272,
        "keyctl": 219,
        "mknodat": 33,
        "mlockall": 230,
        "mount": 40,
        "mount_setattr": 442,
        "move_mount": 429,
        "name_to_handle_at": 264,
        "open_by_handle_at": 265,
        "open_tree": 428,
        "perf_event_open": 241,
        "personality": 92,
        "pidfd_getfd": 438,
        "pivot_root": 41,
        "prlimit64": 261,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "ptrace": 117,
        "reboot": 142,
        "remap_file_pages": 234,
        "request_key": 218,
        "seccomp": 277,
        "setns": 268,
        "setrlimit": 164,
        "setsockopt": 208,
        "socket": 198,
        "socketpair": 199,
        "splice": 76,
        "sync": 81,
        "syslog": 116,
        "tee": 77,
        "umount2": 39,
        "unshare": 97,
        "userfaultfd": 282,
        "vmsplice": 75,
    },
    "x86_64": {
        "add_key": 248,
        "adjtimex": 159,
        "bpf": 321,
        "chroot": 161,
        "clone": 56,
        "clone3": 435,
        "fsopen": 430,
        "io_cancel": 210,
        "io_destroy": 207,
        "io_getevents": 208,
        "io_setup": 206,
        "io_submit": 209,
        "io_uring_setup": 425,
        "kcmp": 312,
        "keyctl": 250,
        "mknodat": 259,
        "mlockall": 151,
        "mount": 165,
        "mount_setattr": 442,
        "move_mount": 429,
        "name_to_handle_at": 303,
        "open_by_handle_at": 304,
        "open_tree": 428,
        "perf_event_open": 298,
        "personality": 135,
        "pidfd_getfd": 438,
        "pivot_root": 155,
        "prlimit64": 302,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "ptrace": 101,
        "reboot": 169,
        "remap_file_pages": 216,
        "request_key": 249,
        "seccomp": 317,
        "setns": 308,
        "setrlimit": 160,
        "setsockopt": 54,
        "socket": 41,
        "socketpair": 53,
        "splice": 275,
        "sync": 162,
        "syslog": 103,
        "tee": 276,
        "umount2": 166,
        "unshare": 272,
        "userfaultfd": 323,
        "vmsplice": 278,
    },
}
"""Numbers of the calls that are attacked with, because libc hides or wraps them."""

KNOCK = ["curl", "-sx", "http://127.0.0.1:3128", "http://knock/"]
"""Starts the door, which a runtime keeps from the first call on: later it would look like something left behind."""

PRELUDE = """
import ctypes, errno, fcntl, json, os, resource, select, signal, socket, stat, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
given = json.loads(sys.argv[1])

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


@pytest.fixture(scope="session")
def owning() -> Owning:
    """Give the way to own desks for a block, with a keeper of one's own."""

    @asynccontextmanager
    async def owned(settings: Config) -> AsyncIterator[ContainerRuntime]:
        async with container_runtime(settings) as runtime:
            yield runtime
        runtime.keeper.sock.close()  # left to the collector otherwise, which warns in somebody else's test

    return owned


@pytest.fixture(scope="module")
async def runtime(settings: Config, owning: Owning) -> AsyncIterator[ContainerRuntime]:
    """Give a runtime the attacks of one file share."""
    async with owning(settings) as opened:
        yield opened


@pytest.fixture(scope="module")
async def desk(runtime: ContainerRuntime) -> AsyncIterator[Desk]:
    """Give a desk for attacks that leave it whole."""
    opened = await runtime.open(Spec())
    await opened.run(KNOCK, timeout=20)
    yield opened
    await runtime.burn(opened.id)


@pytest.fixture(scope="module")
async def neighbour(runtime: ContainerRuntime) -> AsyncIterator[Desk]:
    """Give a second desk beside it."""
    opened = await runtime.open(Spec())
    await opened.run(KNOCK, timeout=20)
    yield opened
    await runtime.burn(opened.id)


@pytest.fixture
def fresh(runtime: ContainerRuntime) -> Open:
    """Give a way to open a desk that nobody shares."""

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
    """Give the whole command line of attack code."""

    def whole(code: str, **given: object) -> list[str]:
        told = {"syscalls": SYSCALLS[os.uname().machine], **given}
        return ["python3", "-c", PRELUDE + code, json.dumps(told)]

    return whole


@pytest.fixture(scope="session")
def attack(program: Program) -> Attack:
    """Give the way to run attack code inside a desk to its end; its last line is one JSON verdict, by `tell`."""

    async def run(desk: Desk, code: str, *, timeout: float = 60, **given: object) -> Any:
        done = await desk.run(program(code, **given), timeout=timeout)
        assert done.exit_code == 0, f"exit {done.exit_code} {done.signal}: {done.stderr[-2000:].decode()}"
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture(scope="session")
def launch(program: Program) -> Launch:
    """Give the way to start attack code that goes on: its first line is its verdict."""

    async def start(desk: Desk, code: str, **given: object) -> tuple[Process, Any]:
        process = await desk.start(program(code, **given), stdin=False)
        said = b""
        async for _, data in process.output():
            said += data
            if b"\n" in said:
                return process, json.loads(said)
        raise AssertionError(f"the attack ended early: {said!r}")

    return start


@pytest.fixture(scope="session")
def init() -> Callable[[Config, Desk], int]:
    """Give the way to find the host's pid of a desk's first process."""

    def find(settings: Config, desk: Desk) -> int:
        return int(json.loads((settings.run / "desks" / desk.id / "desk.json").read_text())["pid"])

    return find
