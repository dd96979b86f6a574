"""Attacks by a compromised reader process: it holds no file, makes no connection and starts no process."""

from __future__ import annotations

import errno
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import hotdesk
from hotdesk.hands.reader import make_reader_frames
from hotdesk.ipc.frames import write
from hotdesk.linux import uids
from tests.security.guards import Removal, falls_without, no_guard

pytestmark = pytest.mark.container

SOURCE = str(Path(hotdesk.__file__).parents[1])
TURNED = textwrap.dedent("""
    import asyncio, ctypes, os, signal, socket, subprocess, sys, time
    from hotdesk.hands.reader import VerbResult

    libc = ctypes.CDLL(None, use_errno=True)

    def outcome(work):
        try:
            return repr(work())
        except BaseException as e:
            return type(e).__name__

    class Turned:
        VERBS = frozenset({"attempt", "work", "dial", "echo"})

        def __init__(self, dial):
            self.connect = dial

        async def echo(self, text):
            return VerbResult({"text": text}, text.encode())

        async def attempt(self, code):
            return VerbResult(outcome(lambda: eval(code)))

        async def work(self, code):
            exec(code, globals())
            return VerbResult("done")

        async def dial(self, port):
            sock = await self.connect(port)
            sock.setblocking(False)
            return VerbResult((await asyncio.get_running_loop().sock_recv(sock, 100)).decode())
    """)
CALLS = {
    "ptrace": (117, 101),
    "process_vm_readv": (270, 310),
    "io_uring_setup": (425, 425),
    "bpf": (280, 321),
    "perf_event_open": (241, 298),
    "mount": (40, 165),
}
"""Numbers on aarch64 and x86_64."""
ATTEMPTS = {
    "reads a file": "open('/etc/passwd')",
    "lists a folder": "os.listdir('/')",
    "opens its folder": "os.open('.', os.O_RDONLY)",
    "looks at its environment": "os.stat('/proc/self/environ')",
    "follows a link": "os.readlink('/proc/self/exe')",
    "dials": "socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
    "calls a neighbour": "socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)",
    "asks the kernel": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "forks": "os.fork() or os._exit(0)",
    "starts a program": "subprocess.run(['/bin/true'])",
    "signals its parent": "os.kill(os.getppid(), 0)",
    "signals init": "os.kill(1, 0)",
    "becomes root": "os.setuid(0)",
    "makes a file in memory": "os.memfd_create('x')",
    "holds its parent": "os.pidfd_open(os.getppid())",
    "moves its root": "os.chroot('.')",
}
START = (
    "import sys; sys.path[:0] = sys.argv[1].split(':'); sys.argv[1:3] = [''] * 2\n"
    "from hotdesk.hands.reader import process; process.main({'turned': 'turned:Turned'})"
)


class Line:
    """The owner's ends of a reader's connections."""

    def __init__(self, child: subprocess.Popen[bytes], talk: socket.socket, hand: socket.socket) -> None:
        self.child, self.talk, self.hand = child, talk, hand
        self.frames, self.number = make_reader_frames(), 0
        talk.settimeout(20)

    def say(self, verb: str, **arguments: object) -> None:
        self.number += 1
        self.talk.sendall(write({"n": self.number, "verb": verb, "arguments": arguments}))

    def hear(self) -> tuple[dict[str, Any], bytes]:
        while True:
            data = self.talk.recv(1 << 16)
            if not data:
                raise EOFError
            if found := self.frames.feed(data):
                return found[0]

    def ask(self, verb: str, **arguments: object) -> Any:
        self.say(verb, **arguments)
        message, _ = self.hear()
        return message["ok"]


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("turned")
    (folder / "turned.py").write_text(TURNED)
    return folder


@pytest.fixture(scope="module")
def start(turned: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Line]]:
    """Start readers with one part that does whatever it is asked, as a compromised reader would."""
    running: list[Line] = []
    root = tmp_path_factory.mktemp("empty")

    def begin(stuck: float = 30.0, before: str = "exec") -> Line:
        talk, hears = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        hand, takes = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with hears, takes:
            told = json.dumps({"uid": uids.READER, "root": str(root), "stuck": stuck})
            moved = f'exec 3<&{hears.fileno()} 4<&{takes.fileno()}; {before} "$@"'
            program = [sys.executable, "-P", "-B", "-c", START, f"{turned}:{SOURCE}", "", told]
            child = subprocess.Popen(
                ["bash", "-c", moved, "bash", *program],
                pass_fds=(hears.fileno(), takes.fileno()), env={"PATH": "/usr/bin:/bin"},
            )  # fmt: skip
        running.append(Line(child, talk, hand))
        return running[-1]

    yield begin
    for line in running:
        line.talk.close()
        line.hand.close()
        line.child.kill()
        line.child.wait()


@pytest.fixture(scope="module")
def reader(start: Callable[..., Line]) -> Line:
    line = start()
    assert line.ask("turned.echo", text="here") == {"text": "here"}
    return line


@falls_without(
    "the reader's cell",
    Removal(
        "reader/process.py",
        '    jail.enter(Path(settings["root"]), int(settings["uid"]), bpf.READER, leashed=True)\n',
        "",
    ),
    cases=ATTEMPTS,
)
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_compromised_reader_reaches_nothing(reader: Line, attempt: str) -> None:
    told = reader.ask("turned.attempt", code=ATTEMPTS[attempt])
    assert told in ("PermissionError", "FileNotFoundError")
    assert reader.ask("turned.echo", text="on") == {"text": "on"}


@falls_without("the reader's cell", cases=CALLS)
@pytest.mark.parametrize("call", CALLS)
def test_a_compromised_reader_cannot_make_system_calls_it_does_not_need(reader: Line, call: str) -> None:
    number = CALLS[call][platform.machine() == "x86_64"]
    told = reader.ask("turned.attempt", code=f"(libc.syscall({number}, 0, 0, 0, 0, 0), ctypes.get_errno())")
    assert told == f"(-1, {errno.EPERM})"


@falls_without("the reader's cell")
def test_a_compromised_reader_is_unprivileged_and_cannot_be_inspected(reader: Line) -> None:
    assert reader.ask("turned.attempt", code="os.getuid()") == str(uids.READER)
    status = Path(f"/proc/{reader.child.pid}/status").read_text()
    assert "CapEff:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert Path(f"/proc/{reader.child.pid}/environ").stat().st_uid == 0, "it is dumpable"


@falls_without(
    "memory a reader may have",
    Removal("reader/process.py", "    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))\n", ""),
)
def test_a_compromised_reader_cannot_exhaust_memory(reader: Line) -> None:
    assert reader.ask("turned.attempt", code="len(bytes(2 << 30))") == "MemoryError"


@falls_without(
    "descriptors a reader may have",
    Removal("reader/process.py", "    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))\n", ""),
)
def test_a_compromised_reader_cannot_exhaust_kernel_memory(reader: Line) -> None:
    assert reader.ask("turned.attempt", code="len([socket.socketpair() for _ in range(200)])") == "OSError"


@falls_without(
    "readers that are stuck",
    Removal("reader/process.py", "            signal.setitimer(signal.ITIMER_REAL, self.stuck)\n", ""),
)
def test_a_reader_that_is_stuck_is_ended(start: Callable[..., Line]) -> None:
    line = start(1.0)
    line.ask("turned.echo", text="here")
    line.say("turned.work", code="while True: pass")
    assert line.child.wait(10) == -signal.SIGALRM


@falls_without("readers on a leash", Removal("reader/process.py", "bpf.READER, leashed=True)", "bpf.READER)"))
def test_a_compromised_reader_dies_with_its_keeper(start: Callable[..., Line]) -> None:
    line = start(before="true &&")
    pid = int(line.ask("turned.attempt", code="os.getpid()"))
    line.say("turned.work", code="signal.setitimer(signal.ITIMER_REAL, 0)\nwhile True: pass")
    assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1] == str(line.child.pid)
    line.child.kill()
    line.child.wait()
    try:
        end = time.monotonic() + 5
        while Path(f"/proc/{pid}").exists():
            assert time.monotonic() < end
            time.sleep(0.02)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@falls_without(
    "readers that end with their owner",
    Removal(
        "reader/process.py",
        '        """End this process together with its owner."""\n        self.reader.over.set()\n',
        '        """Stay."""\n',
    ),
)
def test_a_reader_ends_with_its_owner(start: Callable[..., Line]) -> None:
    line = start()
    line.ask("turned.echo", text="here")
    line.talk.close()
    assert line.child.wait(10) == 0


@no_guard("a control: what a reader is for")
def test_a_reader_uses_the_connection_it_is_passed(reader: Line) -> None:
    reader.say("turned.dial", port=5900)
    wish, _ = reader.hear()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(reader.hand, [json.dumps({"dial": wish["dial"]}).encode()], [theirs.fileno()])
        ours.sendall(b"frame")
        message, _ = reader.hear()
    assert (wish["port"], message["ok"]) == (5900, "frame")


@falls_without(
    "a rim around what hostile bytes find",
    Removal(
        "reader/process.py",
        "        except Exception as e:  # noqa: BLE001 - a rim",
        "        except KeyError as e:  #",
    ),
)
def test_an_exception_in_one_verb_affects_no_other(reader: Line) -> None:
    reader.say("turned.work", code="raise RuntimeError('hole')")
    message, _ = reader.hear()
    assert message["error"] == "defect"
    reader.say("turned.nothing")
    message, _ = reader.hear()
    assert message["error"] == "desk"
    assert reader.ask("turned.echo", text="on") == {"text": "on"}
