"""Programs that test the wall from inside, and the parser of their output: bounded, one line of JSON, not trusted."""

from __future__ import annotations

import json
import os
import secrets
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Done
from hotdesk.doctor import calls
from hotdesk.doctor.measure import SilentProbeError
from hotdesk.errors import make_printable

LIMIT = 1 << 18
"""Maximum bytes of a probe's output."""
REPLY_TIMEOUT_S = 8.0
"""Seconds until the door must have replied to a probe, and the owner hung up on it; the door starts meanwhile."""
TERMINALS, SIGNALS = 64, 1024
"""Maximum terminals and queued signals of a desk."""
BEYOND = ("169.254.169.254", "10.0.0.1", "192.168.0.1", "172.17.0.1", "192.0.2.1")
"""Addresses of metadata services and private networks, and an unused one. Nothing is sent to any of them."""
BEYOND_SIX = ("fd00:ec2::254", "2001:db8::1")

PRELUDE = """
import ctypes, errno, fcntl, json, os, resource, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
arguments = json.loads(sys.argv[1])
references = []

def name(number):
    return errno.errorcode.get(number, str(number))

def call(what, *args):
    ctypes.set_errno(0)
    words = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    result = libc.syscall(ctypes.c_long(arguments["numbers"][what]), *words)
    return name(ctypes.get_errno()) if result == -1 else result

def attempt(work, *args):
    try:
        result = work(*args)
    except OSError as e:
        return name(e.errno) if e.errno else "silence"
    return result if isinstance(result, (int, str)) else "done"

def apart(work):
    # in a child, because a success would change us
    r, w = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(w, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(w)
    with os.fdopen(r, "rb") as pipe:
        data = pipe.read()
    status = os.waitpid(child, 0)[1]
    return json.loads(data) if data else "ended by signal %d" % os.WTERMSIG(status)

def tell(value):
    print(json.dumps(value), flush=True)
"""
_TOOLS = """
def pipes():
    (r1, w1), (r2, w2) = os.pipe(), os.pipe()
    os.write(w1, b"x")
    return r1, 0, w2, 0

def pair():
    return ctypes.byref((ctypes.c_int * 2)())

def program():
    code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
    references.append(code)
    return struct.pack("HxxxxxxQ", 1, ctypes.addressof(code))

def option(kind, level, number, value):
    with socket.socket(socket.AF_INET, kind) as s:
        return call("setsockopt", s.fileno(), level, number, value, len(value))

def dial(family, kind, address):
    with socket.socket(family, kind) as s:
        s.settimeout(2)
        return attempt(s.connect, address)

def take(address):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        return attempt(lambda: (s.bind(address), s.listen()) and None)

def knock():
    with socket.create_connection(("127.0.0.1", 3128), arguments["patience"]) as s:
        s.sendall(b"GET http://example.com/ HTTP/1.1\\r\\nHost: example.com\\r\\n\\r\\n")
        return s.recv(64).decode("latin-1").split("\\r\\n")[0]

def call_again():
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(arguments["patience"])
        s.connect("/run/hotdesk/link.sock")
        return "heard" if s.recv(1) else "disconnected"

def loopback_flags():
    with socket.socket() as s:
        now = struct.unpack_from("16sH", fcntl.ioctl(s, 0x8913, struct.pack("16sH22x", b"lo", 0)))[1]
        return fcntl.ioctl(s, 0x8914, struct.pack("16sH22x", b"lo", now)) and None

def terminals():
    count = 0
    while count <= arguments["terminals"] + 16:
        try:
            references.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
        except OSError:
            break
        count += 1
    for fd in references[-count:] if count else []:
        os.close(fd)
    return count

def crash():
    child = os.fork()
    if not child:
        os.chdir("/tmp")
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
    status = os.waitpid(child, 0)[1]
    return [os.WTERMSIG(status), os.WCOREDUMP(status)]

def first_process():
    data = {}
    for path in ("mem", "fd", "root", "cwd", "exe", "environ", "maps"):
        data[path] = attempt(lambda: os.close(os.open("/proc/1/" + path, os.O_RDONLY)))
    data["attach"] = call("ptrace", 16, 1, 0, 0)
    data["seize"] = call("ptrace", 0x4206, 1, 0, 0)
    for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
        os.kill(1, number)
    return data

def other_width():
    fd = os.open("/tmp/doctor", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o755)
    os.write(fd, bytes.fromhex(arguments["small"]))
    os.close(fd)
    def run():
        if attempt(os.execv, "/tmp/doctor", ["doctor"]) == "ENOEXEC":
            os._exit(7)
        os._exit(8)
    child = os.fork()
    if not child:
        run()
    status = os.waitpid(child, 0)[1]
    return [os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, os.WEXITSTATUS(status)]

def x32():
    arguments["numbers"]["x32"] = arguments["numbers"]["getpid"] | 1 << 30
    return apart(lambda: call("x32"))

"""
_REACH = """
data = {}
data["beyond"] = {host: dial(socket.AF_INET, socket.SOCK_DGRAM, (host, 9)) for host in arguments["four"]}
data["beyond"].update({host: dial(socket.AF_INET6, socket.SOCK_DGRAM, (host, 9)) for host in arguments["six"]})
data["host"] = [dial(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", arguments["port"])),
                dial(socket.AF_UNIX, socket.SOCK_STREAM, "\\0" + arguments["abstract"])]
data["gate"] = attempt(knock)
data["take"] = [take(("127.0.0.1", 3128)), take(("0.0.0.0", 3128))]
data["link"] = attempt(call_again)
data["name"] = os.uname().nodename
"""
"""Tests for a desk behind any wall: the network, the gate, the link."""
_CALLS = """
data.update({group: {what: eval(code) for what, code in tries} for group, tries in arguments["calls"].items()})
data["flags"] = attempt(loopback_flags)
data["terminals"] = terminals()
data["crash"] = crash()
data["first"] = first_process()
data["width"] = other_width()
data["x32"] = x32() if os.uname().machine == "x86_64" else None
tell(data)
"""
_KERNEL = """
data["release"] = os.uname().release
tell(data)
"""
STAY = """
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
libc.sigqueue.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
sent = 0
while sent <= arguments["signals"] + 64 and libc.sigqueue(os.getpid(), 40, None) == 0:
    sent += 1
tell({"signals": sent})
while True:
    time.sleep(0.005)
"""
"""A program that keeps running for the host to observe: it queues as many signals as it can, and ticks."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """A probe's report: a table whose values are checked on use."""

    values: Mapping[str, object]

    def get_table(self, name: str) -> dict[str, object]:
        value = self.values.get(name)
        if not isinstance(value, dict):
            raise SilentProbeError(f"no result for the test {name!r}")
        return value

    def get_list(self, name: str, length: int) -> list[object]:
        value = self.values.get(name)
        if not isinstance(value, list) or len(value) != length:
            raise SilentProbeError(f"no result for the test {name!r}")
        return value

    def get_word(self, name: str) -> str:
        value = self.values.get(name)
        if not isinstance(value, str):
            raise SilentProbeError(f"no result for the test {name!r}")
        return value

    def get_number(self, name: str) -> int:
        value = self.values.get(name)
        if type(value) is not int:
            raise SilentProbeError(f"no result for the test {name!r}")
        return value


def read_result(done: Done) -> ProbeResult:
    """Parse the last line of a probe's output. Raise `SilentProbeError` if it is invalid."""
    line = done.stdout[-LIMIT:].splitlines()[-1:] if done.ok and not done.truncated else []
    try:
        value = json.loads(line[0]) if line else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        complaint = done.stderr[-200:].decode("utf-8", "replace").strip()
        raise SilentProbeError(f"exit code {done.exit_code} {make_printable(complaint)}".strip())
    return ProbeResult(value)


def build_command(code: str, **arguments: object) -> list[str]:
    return ["python3", "-I", "-c", PRELUDE + code, json.dumps(arguments)]


def probe(port: int, abstract: str, patience: float) -> list[str]:
    """Return the command of the probe; `patience` are the seconds that it waits for replies of hotdesk's processes."""
    machine = os.uname().machine
    return build_command(
        _TOOLS + _REACH + _CALLS,
        numbers=calls.get_numbers(machine),
        calls={group: [(each.what, each.code) for each in listed] for group, listed in calls.GROUPS.items()},
        **_build_addresses(port, abstract),
        patience=patience,
        terminals=TERMINALS,
        small=_build_32bit_program(machine).hex(),
    )


def build_sentry_probe(port: int, abstract: str, patience: float) -> list[str]:
    """Return the command of the probe for desks whose kernel is not the host's."""
    return build_command(_TOOLS + _REACH + _KERNEL, **_build_addresses(port, abstract), patience=patience)


def _build_addresses(port: int, abstract: str) -> dict[str, object]:
    return {"four": [*BEYOND, *_find_own_addresses()], "six": BEYOND_SIX, "port": port, "abstract": abstract}


@contextmanager
def listening() -> Iterator[tuple[int, str]]:
    """Listen on the host's loopback and at an abstract name, which must be unreachable from a desk."""
    name = f"hotdesk-{secrets.token_hex(8)}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(f"\0{name}")
        unix.listen()
        yield tcp.getsockname()[1], name


def _find_own_addresses() -> list[str]:
    """Return this machine's own address, if it has one, found by a route lookup that sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))
            return [s.getsockname()[0]]
        except OSError:
            return []


def _build_32bit_program(machine: str) -> bytes:
    """Return a minimal program for a machine's 32-bit sibling; it exits with 42."""
    kind, flags, code = {
        "aarch64": (40, 0x05000000, bytes.fromhex("0170a0e32a00a0e3000000ef")),
        "x86_64": (3, 0, bytes.fromhex("b801000000bb2a000000cd80")),
    }[machine]
    base, start = 0x10000, 52 + 32
    ident = b"\x7fELF\x01\x01\x01" + bytes(9)
    header = ident + struct.pack("<HHIIIIIHHHHHH", 2, kind, 1, base + start, 52, 0, flags, 52, 32, 1, 0, 0, 0)
    size = start + len(code)
    return header + struct.pack("<8I", 1, 0, base, base, size, size, 5, 0x10000) + code
