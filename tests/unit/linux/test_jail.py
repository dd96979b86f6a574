"""Tests of a confined process: what it can still do, and everything it cannot."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hotdesk.linux import bpf

pytestmark = [pytest.mark.container, pytest.mark.slow]

UID = 64999
ENTER = """
import asyncio, ctypes, errno, fcntl, json, mmap, os, resource, signal, socket, sqlite3, ssl, sys, threading
from pathlib import Path
import uvloop
from hotdesk.linux import syscalls as kernel
from hotdesk.linux import bpf as calls, jail as cell
from hotdesk.door.http import ca

root, uid, kind, port = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
authority, key = ca.new_authority("i1", ca.get_utc_now()), ca.new_key()
upstream = ca.make_upstream_context(authority.certificate_pem)
listener = socket.create_server(("127.0.0.1", 0))
folder = os.open("/etc", os.O_RDONLY)
parent = os.getppid()
memory = mmap.mmap(-1, 4096)
page = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
os.setgroups([uid + 1])

def attempt(work, *args, **kwargs):
    try:
        return work(*args, **kwargs) or "done"
    except OSError as e:
        return errno.errorcode[e.errno]
    except Exception as e:
        return type(e).__name__

def make(family, kind, protocol=0):
    socket.socket(family, kind, protocol).close()

def libc(name, *args):
    kernel.check(getattr(kernel.libc, name)(*args), name)

def enter():
    cell.enter(root, uid, getattr(calls, kind), dials=kind == "DOOR")
"""
TRY = """
enter()
print(json.dumps({name: attempt(*try_) for name, try_ in TRIES.items()}))
"""


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hotdesk-cell-", dir="/dev/shm") as folder:
        os.chown(folder, UID, UID)
        Path(folder).chmod(0o700)
        yield Path(folder)


def run(root: Path, kind: str, script: str, port: int = 0) -> Any:
    """Run a script that enters the cell; return what it printed."""
    command = [sys.executable, "-c", ENTER + script, str(root), str(UID), kind, str(port)]
    env = {"PATH": os.defpath, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, env=env, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


REFUSED = """
TRIES = {
    "read a file of the host": (lambda: open("/etc/passwd").close(),),
    "read through a folder held open": (lambda: os.open("passwd", os.O_RDONLY, dir_fd=folder),),
    "leave through a folder held open": (os.fchdir, folder),
    "change root back": (os.chroot, "."),
    "exec": (os.execv, "/bin/true", ["true"]),
    "fork": (os.fork,),
    "start a thread": (lambda: threading.Thread(target=print).start(),),
    "unix socket": (make, socket.AF_UNIX, socket.SOCK_STREAM),
    "netlink": (make, socket.AF_NETLINK, socket.SOCK_RAW),
    "packet": (make, socket.AF_PACKET, socket.SOCK_RAW),
    "raw": (make, socket.AF_INET, socket.SOCK_RAW, 1),
    "datagrams": (make, socket.AF_INET, socket.SOCK_DGRAM),
    "datagrams over IPv6": (make, socket.AF_INET6, socket.SOCK_DGRAM),
    "vsock": (make, socket.AF_VSOCK, socket.SOCK_STREAM),
    "signal the parent": (os.kill, parent, 0),
    "signal another's thread": (libc, "tgkill", parent, parent, 0),
    "become root": (os.setuid, 0),
    "trace": (libc, "ptrace", 16, parent, 0, 0),
    "read another's memory": (libc, "process_vm_readv", parent, 0, 0, 0, 0, 0),
    "new namespace": (libc, "unshare", 0x10000000),
    "mount": (libc, "mount", b"none", b"/", b"tmpfs", 0, 0),
    "bpf": (libc, "syscall", 280 if os.uname().machine == "aarch64" else 321, 0, 0, 0),
    "io_uring": (libc, "syscall", 425, 1, 0),
    "keyctl": (libc, "syscall", 219 if os.uname().machine == "aarch64" else 250, 0, -3, 0),
    "another filter": (libc, "prctl", 22, 2, 0),
    "code in memory": (mmap.mmap, -1, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC),
    "memory made code": (libc, "mprotect", page, ctypes.c_size_t(4096), 5),
    "a pair of another family": (socket.socketpair, socket.AF_INET, socket.SOCK_STREAM),
    "signals for others": (fcntl.fcntl, listener, 10, signal.SIGUSR1),
    "a terminal's input": (libc, "ioctl", 0, 0x5412, 0),
    "a socket filter": (lambda: listener.setsockopt(1, 26, bytes(16)),),
    "another limit": (resource.setrlimit, resource.RLIMIT_CORE, (0, 0)),
    "a link": (os.symlink, "/etc", "/way-out"),
    "a folder": (os.mkdir, "/folder"),
    "be dumpable": (libc, "prctl", 4, 1),
}
"""


@pytest.mark.parametrize("kind", ["DOOR", "KEYS"])
def test_what_a_process_in_its_cell_cannot_do(root: Path, kind: str) -> None:
    told = run(root, kind, REFUSED + TRY)
    odd = {"read a file of the host": "ENOENT", "start a thread": "RuntimeError", "another limit": "ValueError"}
    if kind == "KEYS":
        odd["read through a folder held open"] = "EACCES"  # its filter admits folders, its Landlock only its own
    assert told == {name: odd.get(name, "EPERM") for name in told}
    assert len(told) == 35


@pytest.mark.parametrize("kind", ["DOOR", "KEYS"])
def test_the_filter_alone_refuses_them_to_root(root: Path, kind: str) -> None:
    alone = """
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
def enter():
    cell.install(calls.build_program(os.uname().machine, getattr(calls, kind), os.getpid()))
"""
    told = run(root, kind, REFUSED + alone + TRY)
    assert isinstance(told.pop("read a file of the host"), str)
    if kind == "KEYS":
        del told["read through a folder held open"]  # Landlock's to refuse
    odd = {"start a thread": "RuntimeError", "another limit": "ValueError"}
    assert told == {name: odd.get(name, "EPERM") for name in told}


def test_keys_cannot_make_sockets_or_connections(root: Path) -> None:
    tries = """
TRIES = {
    "tcp": (make, socket.AF_INET, socket.SOCK_STREAM),
    "tcp over IPv6": (make, socket.AF_INET6, socket.SOCK_STREAM),
    "dial with what is held": (spare.connect, ("127.0.0.1", port)),
    "accept": (listener.accept,),
}
"""
    with socket.create_server(("127.0.0.1", 0)) as server:
        told = run(root, "KEYS", "spare = socket.socket()" + tries + TRY, server.getsockname()[1])
    assert set(told.values()) == {"EPERM"}


def test_the_door_can_store_nothing_durable_and_listen_nowhere_new(root: Path) -> None:
    tries = """
TRIES = {"rename": (os.rename, "/a", "/b"), "sync": (os.fsync, 2), "bind": (socket.socket().bind, ("127.0.0.1", 0))}
"""
    assert set(run(root, "DOOR", tries + TRY).values()) == {"EPERM"}


LANDLOCK = """
def dial():
    socket.create_connection(("127.0.0.1", port)).close()

cell.preload()
cell.confine_to_root(root, uid, dials=kind == "DOOR")
print(json.dumps({
    "through a folder": attempt(lambda: os.close(os.open("passwd", os.O_RDONLY, dir_fd=folder))),
    "run": attempt(os.execv, "/program", ["program"]),
    "signal": attempt(os.kill, parent, 0),
    "bind": attempt(socket.create_server, ("127.0.0.1", 0)),
    "dial": attempt(dial),
    "root": attempt(os.chroot, "/"),
    "mine": attempt(Path("/mine").write_text, "x"),
    "folder": attempt(os.mkdir, "/folder"),
    "status": dict(line.split(":\\t") for line in status.read().splitlines()),
    "dumpable": kernel.libc.prctl(3, 0, 0, 0, 0),
    "core": resource.getrlimit(resource.RLIMIT_CORE),
}))
"""


@pytest.mark.parametrize("kind", ["DOOR", "KEYS"])
def test_the_walls_around_files_and_privilege_stand_without_the_filter(root: Path, kind: str) -> None:
    program = root / "program"
    program.write_bytes(Path("/bin/true").read_bytes())
    program.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = "status = open('/proc/thread-self/status')" + LANDLOCK
        told = run(root, kind, script, server.getsockname()[1])
    assert [told[name] for name in ("through a folder", "run", "bind", "root")] == [
        "EACCES",
        "EACCES",
        "EACCES",
        "EPERM",
    ]
    assert (told["signal"], told["folder"], told["mine"]) == ("EPERM", "EACCES", 1)
    assert told["dial"] == ("done" if kind == "DOOR" else "EACCES")
    assert told["dumpable"] == 0
    assert set(told["core"]) <= {0, 1}
    status = told["status"]
    assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb", "CapInh")} == {0}
    assert status["NoNewPrivs"] == "1"
    assert status["Groups"].split() == []
    assert status["Uid"].split() == [str(UID)] * 4 == status["Gid"].split()


TALK = """
enter()
leaves = ca.Leaves(authority, key, Path("/"))

async def serve(reader, writer):
    await writer.start_tls(leaves.get_tls_context("a.example.test"))
    writer.write(await reader.readline())
    await writer.drain()
    writer.close()

async def main():
    server = await asyncio.start_server(serve, sock=listener)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
    await writer.start_tls(upstream, server_hostname="a.example.test")
    writer.write(b"hello\\n")
    told = await asyncio.wait_for(reader.readline(), 10)
    writer.close()
    server.close()
    await asyncio.sleep(0.01)
    return told.decode()

loop = LOOP.new_event_loop()
print(json.dumps([loop.run_until_complete(main()), os.listdir("/")]))
loop.close()
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_the_door_speaks_tls_both_ways_from_its_cell(root: Path, loop: str) -> None:
    assert run(root, "DOOR", TALK.replace("LOOP", loop)) == ["hello\n", []]


NAMES = """
from ipaddress import ip_network
from hotdesk.door.http.resolve import Resolver, UnresolvedError, start_resolver
line, child = start_resolver(uid)
enter()

async def main():
    resolver = Resolver(line)
    resolver.listen()
    try:
        await resolver.resolve("localhost")
    except UnresolvedError as e:
        refused = str(e)
    named = [ip_network("127.0.0.0/8"), ip_network("::1/128")]
    found = await asyncio.gather(*(resolver.resolve("localhost", named) for _ in range(60)))
    return [refused, len(found), str(found[59][0])]

loop = LOOP.new_event_loop()
print(json.dumps(loop.run_until_complete(main())))
loop.close()
line.close()
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_names_are_resolved_for_the_door_in_its_cell(root: Path, loop: str) -> None:
    told = run(root, "DOOR", NAMES.replace("LOOP", loop))
    assert told == ["127.0.0.1 is loopback", 60, "127.0.0.1"]


STORE = """
enter()
database = sqlite3.connect("/journal.db")
mode = database.execute("pragma journal_mode=wal").fetchone()
database.execute("create table event (text)")
with database:
    database.executemany("insert into event values (?)", [("x" * 100,)] * 1000)
database.execute("delete from event where rowid > 10")
database.commit()
database.execute("pragma wal_checkpoint(truncate)")
count = database.execute("select count(*) from event").fetchone()
during = sorted(os.listdir("/"))
database.close()
os.rename("/journal.db", "/kept.db")
print(json.dumps([mode, count, during, os.listdir("/")]))
"""


def test_keys_keep_a_database_in_their_cell(root: Path) -> None:
    files = ["journal.db", "journal.db-shm", "journal.db-wal"]
    assert run(root, "KEYS", STORE) == [["wal"], [10], files, ["kept.db"]]


HANDED = """
import array
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
socket.send_fds(theirs, [b"gate"], [listener.fileno()])
enter()
data, fds, _, _ = socket.recv_fds(ours, 100, 1, socket.MSG_CMSG_CLOEXEC)
ours.send(b"thanks")
print(json.dumps([data.decode(), socket.socket(fileno=fds[0]).getsockname()[0], theirs.recv(10).decode()]))
"""


@pytest.mark.parametrize("kind", ["DOOR", "KEYS"])
def test_a_process_in_its_cell_is_handed_sockets(root: Path, kind: str) -> None:
    assert run(root, kind, HANDED) == ["gate", "127.0.0.1", "thanks"]


ALREADY = """
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
libc("prctl", 4, 1)
cell.drop_privileges(uid)
print(kernel.libc.prctl(3, 0, 0, 0, 0))
"""


def test_memory_is_shut_even_where_no_user_is_changed(root: Path) -> None:
    assert run(root, "DOOR", ALREADY) == 0


LATER = """
enter()
print(json.dumps([
    "b\\u00fccher.example".encode("idna").decode(), "x".encode("latin-1").decode("unicode_escape"),
    ca.datetime.strptime("2026", "%Y").year, len(ca.new_key().curve.name) > 0,
    resource.getrlimit(resource.RLIMIT_CORE)[0] <= 1,
]))
"""


def test_modules_the_library_imports_late_are_available(root: Path) -> None:
    assert run(root, "DOOR", LATER) == ["xn--bcher-kva.example", "x", 2026, True, True]


def test_a_ring_made_before_keeps_a_process_out(root: Path) -> None:
    tried = "loop = uvloop.new_event_loop()\nprint(json.dumps([attempt(enter), os.path.exists('/etc/passwd')]))"
    assert run(root, "DOOR", tried) == ["RuntimeError", True]


SPY = """
import os, sys
os.setresgid(UID, UID, UID)
os.setresuid(UID, UID, UID)
try:
    open(f"/proc/{sys.argv[1]}/mem", "rb")
    print("open")
except PermissionError:
    print("shut")
""".replace("UID", str(UID))


def test_processes_of_the_same_user_cannot_read_its_memory(root: Path) -> None:
    script = f"{ENTER}\nenter()\nprint(flush=True)\ninput()"
    command = [sys.executable, "-c", script, str(root), str(UID), "DOOR", "0"]
    env = {"PATH": os.defpath, "PYTHONPATH": ":".join(sys.path)}
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as held:
        assert held.stdout is not None
        held.stdout.readline()
        spy = [sys.executable, "-c", SPY, str(held.pid)]
        told = subprocess.run(spy, capture_output=True, timeout=30, check=True).stdout
        held.communicate(b"\n", timeout=30)
    assert told == b"shut\n"


@pytest.mark.parametrize(("machine", "column"), [("aarch64", 0), ("x86_64", 1)])
def test_every_call_has_its_number(machine: str, column: int) -> None:
    library = ctypes.CDLL("libseccomp.so.2")
    architecture = ctypes.c_uint32(bpf.ARCHITECTURES[machine])
    for name, numbers in bpf.TABLE.items():
        number = library.seccomp_syscall_resolve_name_arch(architecture, name.encode())
        assert numbers[column] == (number if number >= 0 else None), name


@pytest.mark.parametrize("foreign", ["aarch64", "x86_64"])
def test_a_call_of_another_architecture_ends_the_process(foreign: str) -> None:
    other = foreign != platform.machine()
    script = f"""
import os
from hotdesk.linux import syscalls as kernel
from hotdesk.linux import bpf as calls, jail as cell
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
cell.install(calls.build_program({foreign!r}, calls.DOOR, os.getpid()))
os._exit(0)
"""
    env = {"PATH": os.defpath, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=env, timeout=30, check=False)
    assert done.returncode == (-31 if other else 0)


def test_the_other_numbering_of_x86_is_refused() -> None:
    code = bpf.build_program("x86_64", bpf.DOOR, 1)
    assert verdict(code, 0xC000003E, 0) == bpf.ALLOW
    assert verdict(code, 0xC000003E, 0x40000000) == bpf.REFUSE
    assert verdict(code, 0xC000003E, 59) == bpf.REFUSE
    assert verdict(code, 0x40000003, 3) == bpf.KILL


def verdict(code: bytes, architecture: int, number: int) -> int:
    at, value = 0, 0
    while True:
        kind, if_so, if_not, operand = struct.unpack_from("=HBBI", code, at * 8)
        at += 1
        match kind:
            case bpf.LOAD:
                value = {0: number, 4: architecture}.get(operand, 0)
            case bpf.AND:
                value &= operand
            case bpf.EQUAL:
                at += if_so if value == operand else if_not
            case bpf.RETURN:
                return int(operand)
