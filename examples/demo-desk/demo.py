"""A minute with two desks: one is opened, used, looked at and misused beside the other; both burn, nothing is left.

Every line that begins with a mark is a claim that was tested just now; the exit code says whether all of them held.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.request import urlopen

import anyio

from hotdesk import Desk, Host, HotdeskError, Spec, config
from hotdesk.desk.seam import DeskId
from hotdesk.errors import make_printable
from hotdesk.linux import uids

SIZE = Spec(cpus=1, memory=512 << 20, disk=1 << 30, pids=256)
SETTLING = 5.0
"""Seconds the kernel may take to let go of a mount or a loop device."""
SQUARES = "import csv; csv.writer(open('squares.csv', 'w')).writerows((n, n * n) for n in range(1000))"
DOOR = "http://127.0.0.1:3128"
CANNOT_CONNECT = (7, 28)
"""curl's exit codes for no connection, and for none in time."""
FORK_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 60"


@dataclass(slots=True)
class Show:
    """What is told, and whether all of it held."""

    colours: bool = field(default_factory=sys.stdout.isatty)
    failed: list[str] = field(default_factory=list)

    def chapter(self, text: str) -> None:
        """Begin a part."""
        print(f"\n{self.paint('1', text)}", flush=True)

    def say(self, text: str) -> None:
        """Tell something that claims nothing."""
        print(f"    {make_printable(text)}", flush=True)

    def claim(self, held: bool, text: str) -> None:
        """Tell what was tested, and how it went."""
        mark = self.paint("32", "ok ") if held else self.paint("31", "NOT")
        print(f"{mark} {make_printable(text)}", flush=True)
        if not held:
            self.failed.append(text)

    def paint(self, code: str, text: str) -> str:
        """Colour a text on a terminal."""
        return f"\033[{code}m{text}\033[0m" if self.colours else text


def main() -> int:
    """Give the show in a state directory of its own."""
    show, began = Show(), time.monotonic()
    home = Path(tempfile.mkdtemp(prefix="hotdesk-demo-"))
    home.chmod(0o711)  # desks' own users must be able to reach their rooms
    try:
        anyio.run(give, show, home)
    except* HotdeskError as group:
        show.claim(False, "; ".join(str(e) for e in group.exceptions))
    finally:
        shutil.rmtree(home)
    told = f"{len(show.failed)} claims did not hold" if show.failed else "every claim held"
    print(f"\n{told}, in {time.monotonic() - began:.0f} s")
    return 1 if show.failed else 0


async def give(show: Show, home: Path) -> None:
    """Open two desks, go through the claims, burn both, and look at what is left."""
    settings = replace(config.load(), run=home / "run", lib=home / "lib")
    show.chapter("A computer, now")
    began = time.monotonic()
    async with Host(settings, control=False) as host:
        first = await host.open(SIZE)
        show.say(f"desk {first.id} opened in {since(began)}, with its keeper and disk pool, which are made once")
        began = time.monotonic()
        second = await host.open(SIZE)
        show.say(f"desk {second.id} opened in {since(began)}")
        desks = (first.id, second.id)
        await use(show, first)
        await look_around(show, first)
        await misuse(show, first, second)
        open_things = things(home, desks)
        show.chapter("Burn both")
        began = time.monotonic()
        for desk in desks:
            await host.burn(desk)
        show.say(f"burnt in {since(began)}")
    left = things(home, desks)
    end = time.monotonic() + SETTLING
    while any(left.values()) and time.monotonic() < end:
        await anyio.sleep(0.05)
        left = things(home, desks)
    for name, count in open_things.items():
        show.claim(count > 0 and left[name] == 0, f"{name}: {count} while they were open, {left[name]} now")


async def use(show: Show, desk: Desk) -> None:
    """Have the desk work, and take a file out."""
    show.chapter("It works")
    began = time.monotonic()
    done = await desk.run(["python3", "-c", "print(6*7)"])
    show.claim(done.text == "42\n", f"python3 -c 'print(6*7)' says {done.text.strip()} after {since(began)}")
    done = await desk.run(["sh", "-c", f'python3 -c "{SQUARES}" && sha256sum squares.csv'])
    data = await desk.read("squares.csv")
    same = done.ok and done.text.split()[0] == hashlib.sha256(data).hexdigest()
    show.claim(same and data.endswith(b"998001\r\n"), f"squares.csv taken out: {len(data)} bytes, the same as inside")


async def look_around(show: Show, desk: Desk) -> None:
    """Show who a program in a desk is, and what it can reach."""
    show.chapter("It is nobody, and it can reach nothing")
    told = (await desk.run(["sh", "-c", "id -u; cat /proc/self/uid_map; cat /proc/self/status"])).text
    number, mapped = int(told.split()[0]), int(told.split()[2])
    outside = mapped + number
    show.claim(number == 1000 and not is_account(outside), f"uid 1000 inside, {outside} outside, which is nobody's")
    facts = dict(line.split(":\t", 1) for line in told.splitlines() if ":\t" in line)
    bare = all(int(facts[f"Cap{kind}"], 16) == 0 for kind in ("Prm", "Eff", "Bnd"))
    show.claim(bare, "no capability, and none to be had")
    show.claim(facts["NoNewPrivs"] == "1" and facts["Seccomp"] == "2", "no new privileges; system calls are filtered")
    cards = [line.split(":")[0].strip() for line in (await desk.read("/proc/net/dev")).decode().splitlines()[2:]]
    show.claim(cards == ["lo"], f"network cards: {', '.join(cards)} and no other")
    with serving() as url:
        answered = await anyio.to_thread.run_sync(fetch, url)
        done = await desk.run(["curl", "-sS", "-m", "5", url])
        cut_off = answered == b"hello\n" and done.exit_code in CANNOT_CONNECT
        show.claim(cut_off, f"a server that answers this machine is out of the desk's reach: {why(done.stderr)}")
        done = await desk.run(["curl", "-sS", "-m", "5", "-x", DOOR, url])
        show.claim(
            b'"refused"' in done.stdout and b"hello" not in done.stdout, "and the one door there is refuses to go"
        )


async def misuse(show: Show, desk: Desk, neighbour: Desk) -> None:
    """Wreck a desk while its neighbour is at work."""
    show.chapter("Wreck one; the other works on")
    await neighbour.write("kept.txt", b"still here\n")
    waits: list[float] = []

    async def keep_asking() -> None:
        while True:
            began = time.monotonic()
            done = await neighbour.run(["cat", "kept.txt"], timeout=30)
            waits.append(time.monotonic() - began if done.stdout == b"still here\n" else 1e9)
            await anyio.sleep(0.05)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep_asking)
        await desk.run(["rm", "-rf", "--no-preserve-root", "/"], timeout=30)
        left = await desk.list(desk.home)
        show.claim(left == [], "rm -rf --no-preserve-root / took all that was the desk's own")
        process = await desk.start(["bash", "-c", FORK_BOMB], stdin=False)
        peak = 0
        for _ in range(30):
            await anyio.sleep(0.1)
            peak = max(peak, len(processes(desk.id)))
        show.claim(peak >= SIZE.pids // 2, f"a fork bomb came to {peak} processes; the limit is {SIZE.pids}")
        await process.detach()
        tasks.cancel_scope.cancel()
    worst = max(waits, default=1e9)
    show.claim(len(waits) >= 5 and worst < 5, f"beside it {len(waits)} answers, the slowest in {worst * 1000:.0f} ms")


# -- what is on this machine because of the desks ---------------------------------------------------------------


def things(home: Path, desks: tuple[DeskId, ...]) -> dict[str, int]:
    """Count what two desks hold."""
    return {
        "processes": sum(len(processes(desk)) for desk in desks) + len(keepers(home)),
        "mounts": len(mounts(home)),
        "cgroups": sum(len(cgroups(desk)) for desk in desks),
        "loop devices": len(loops(home)),
        "user id ranges": len(ranges(home)),
        "state folders": len(list((home / "run/desks").glob("*"))),
    }


def processes(desk: DeskId) -> set[str]:
    """Give the processes in a desk's cgroups."""
    found: set[str] = set()
    for folder in cgroups(desk):
        with suppress(OSError):
            found.update((folder / "cgroup.procs").read_text().split())
    return found


def keepers(home: Path) -> list[str]:
    """Give the processes that were started for a state directory."""
    return [pid for pid in pids() if f"{home}/".encode() in read(f"/proc/{pid}/cmdline")]


def mounts(home: Path) -> set[bytes]:
    """Give the mounts below a state directory, in whichever mount namespace."""
    found: set[bytes] = set()
    for pid in pids():
        found.update(line for line in read(f"/proc/{pid}/mountinfo").splitlines() if f"{home}/".encode() in line)
    return found


def cgroups(desk: DeskId) -> list[Path]:
    """Give a desk's cgroups, in every hierarchy."""
    return [*Path("/sys/fs/cgroup").glob(f"hotdesk-{desk}"), *Path("/sys/fs/cgroup").glob(f"*/hotdesk-{desk}")]


def loops(home: Path) -> list[Path]:
    """Give the loop devices that show a file of a state directory."""
    shown = Path("/sys/block").glob("loop*/loop/backing_file")
    return [file for file in shown if f"{home}/".encode() in read(str(file))]


def ranges(home: Path) -> list[Path]:
    """Give the ranges of user ids taken for desks of a state directory."""
    return [
        link for link in uids.CLAIMS.glob("[0-9]*") if link.is_symlink() and home in Path(os.readlink(link)).parents
    ]


def pids() -> list[str]:
    """List every process but ourselves."""
    return [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def read(path: str) -> bytes:
    """Give a file's bytes, none when it went away."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


# -- small things -----------------------------------------------------------------------------------------------


class Greeter(BaseHTTPRequestHandler):
    """Answers everything."""

    def do_GET(self) -> None:
        """Say hello."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello\n")

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@contextmanager
def serving() -> Iterator[str]:
    """Serve on this machine's own address for the length of a block."""
    with HTTPServer((address(), 0), Greeter) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{server.server_address[0]!s}:{server.server_port}/"
        server.shutdown()


def fetch(url: str) -> bytes:
    """Give what our own server answers."""
    with urlopen(url, timeout=5) as answer:  # noqa: S310 - our own server
        return bytes(answer.read())


def is_account(number: int) -> bool:
    """Say whether a user id belongs to anybody on this machine."""
    try:
        pwd.getpwuid(number)
    except KeyError:
        return False
    return True


def address() -> str:
    """Give the address this machine would send from; loopback where it has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def why(stderr: bytes) -> str:
    """Give the last line of a complaint."""
    return (stderr.decode("utf-8", "replace").strip().splitlines() or ["no answer"])[-1]


def since(began: float) -> str:
    """Write the time since a moment."""
    return f"{(time.monotonic() - began) * 1000:.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
