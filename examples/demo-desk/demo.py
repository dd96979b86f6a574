"""One minute with two desks: open, use, inspect and wreck one beside the other, and burn both.

Each line with a mark is a claim that was just tested. The exit code is 1 if one of them failed.
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
RELEASE_TIMEOUT_S = 5.0
"""How long the kernel may take to release a mount or a loop device."""
SQUARES = "import csv; csv.writer(open('squares.csv', 'w')).writerows((n, n * n) for n in range(1000))"
DOOR = "http://127.0.0.1:3128"
CANNOT_CONNECT = (7, 28)
"""curl's exit codes for a failed connection and for a timeout."""
FORK_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 60"


@dataclass(slots=True)
class Report:
    """Prints claims, and collects those that failed."""

    colours: bool = field(default_factory=sys.stdout.isatty)
    failed: list[str] = field(default_factory=list)

    def chapter(self, text: str) -> None:
        """Print a heading."""
        print(f"\n{self.paint('1', text)}", flush=True)

    def say(self, text: str) -> None:
        """Print a line that is no claim."""
        print(f"    {make_printable(text)}", flush=True)

    def claim(self, is_true: bool, text: str) -> None:
        """Print a claim and whether it is true."""
        mark = self.paint("32", "ok ") if is_true else self.paint("31", "NOT")
        print(f"{mark} {make_printable(text)}", flush=True)
        if not is_true:
            self.failed.append(text)

    def paint(self, code: str, text: str) -> str:
        """Return a text in colour on a terminal."""
        return f"\033[{code}m{text}\033[0m" if self.colours else text


def main() -> int:
    """Run the demo in a temporary state directory."""
    report, began = Report(), time.monotonic()
    home = Path(tempfile.mkdtemp(prefix="hotdesk-demo-"))
    home.chmod(0o711)  # desks' own users must be able to reach their rooms
    try:
        anyio.run(run_demo, report, home)
    except* HotdeskError as group:
        report.claim(False, "; ".join(str(e) for e in group.exceptions))
    finally:
        shutil.rmtree(home)
    summary = f"{len(report.failed)} claims are NOT true" if report.failed else "every claim is true"
    print(f"\n{summary}, in {time.monotonic() - began:.0f} s")
    return 1 if report.failed else 0


async def run_demo(report: Report, home: Path) -> None:
    """Open two desks, test the claims, burn both, and look for leftovers."""
    settings = replace(config.load(), run=home / "run", lib=home / "lib")
    report.chapter("Open two computers")
    began = time.monotonic()
    async with Host(settings, control=False) as host:
        first = await host.open(SIZE)
        report.say(
            f"desk {first.id} opened in {since(began)}, with the keeper and the disk pool, which are started once"
        )
        began = time.monotonic()
        second = await host.open(SIZE)
        report.say(f"desk {second.id} opened in {since(began)}")
        desks = (first.id, second.id)
        await show_work(report, first)
        await show_isolation(report, first)
        await show_misuse(report, first, second)
        open_things = count_things(home, desks)
        report.chapter("Burn both")
        began = time.monotonic()
        for desk in desks:
            await host.burn(desk)
        report.say(f"burnt in {since(began)}")
    left = count_things(home, desks)
    end = time.monotonic() + RELEASE_TIMEOUT_S
    while any(left.values()) and time.monotonic() < end:
        await anyio.sleep(0.05)
        left = count_things(home, desks)
    for name, count in open_things.items():
        report.claim(count > 0 and left[name] == 0, f"{name}: {count} while they were open, {left[name]} now")


async def show_work(report: Report, desk: Desk) -> None:
    """Run programs, and read a file they wrote."""
    report.chapter("It works")
    began = time.monotonic()
    done = await desk.run(["python3", "-c", "print(6*7)"])
    report.claim(done.text == "42\n", f"python3 -c 'print(6*7)' says {done.text.strip()} after {since(began)}")
    done = await desk.run(["sh", "-c", f'python3 -c "{SQUARES}" && sha256sum squares.csv'])
    data = await desk.read("squares.csv")
    same = done.ok and done.text.split()[0] == hashlib.sha256(data).hexdigest()
    report.claim(same and data.endswith(b"998001\r\n"), f"squares.csv taken out: {len(data)} bytes, the same as inside")


async def show_isolation(report: Report, desk: Desk) -> None:
    """Show which user a program in a desk is, and what it can reach."""
    report.chapter("Its programs have no rights, and reach nothing")
    text = (await desk.run(["sh", "-c", "id -u; cat /proc/self/uid_map; cat /proc/self/status"])).text
    number, mapped = int(text.split()[0]), int(text.split()[2])
    outside = mapped + number
    report.claim(
        number == 1000 and not is_account(outside),
        f"uid 1000 inside, {outside} outside, which is no account of this machine",
    )
    facts = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    has_none = all(int(facts[f"Cap{kind}"], 16) == 0 for kind in ("Prm", "Eff", "Bnd"))
    report.claim(has_none, "no capability, and no way to get one")
    report.claim(facts["NoNewPrivs"] == "1" and facts["Seccomp"] == "2", "no new privileges; system calls are filtered")
    cards = [line.split(":")[0].strip() for line in (await desk.read("/proc/net/dev")).decode().splitlines()[2:]]
    report.claim(cards == ["lo"], f"network cards: {', '.join(cards)} and no other")
    with serve() as url:
        answered = await anyio.to_thread.run_sync(fetch, url)
        done = await desk.run(["curl", "-sS", "-m", "5", "--noproxy", "*", url])
        cut_off = answered == b"hello\n" and done.exit_code in CANNOT_CONNECT
        report.claim(
            cut_off, f"a server that this machine can reach is out of the desk's reach: {read_last_line(done.stderr)}"
        )
        done = await desk.run(["curl", "-sS", "-m", "5", "-x", DOOR, url])
        report.claim(
            b'"refused"' in done.stdout and b"hello" not in done.stdout,
            "the door, its only way out, refuses the request",
        )


async def show_misuse(report: Report, desk: Desk, neighbour: Desk) -> None:
    """Wreck a desk while its neighbour works."""
    report.chapter("Wreck one; the other works on")
    await neighbour.write("kept.txt", b"still here\n")
    waits: list[float] = []

    async def use_neighbour() -> None:
        while True:
            began = time.monotonic()
            done = await neighbour.run(["cat", "kept.txt"], timeout=30)
            waits.append(time.monotonic() - began if done.stdout == b"still here\n" else 1e9)
            await anyio.sleep(0.05)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(use_neighbour)
        await desk.run(["rm", "-rf", "--no-preserve-root", "/"], timeout=30)
        left = await desk.list(desk.home)
        report.claim(left == [], "rm -rf --no-preserve-root / removed the desk's files")
        process = await desk.start(["bash", "-c", FORK_BOMB], stdin=False)
        peak = 0
        for _ in range(30):
            await anyio.sleep(0.1)
            peak = max(peak, len(processes(desk.id)))
        report.claim(peak >= SIZE.pids // 2, f"a fork bomb reached {peak} processes; the limit is {SIZE.pids}")
        await process.detach()
        tasks.cancel_scope.cancel()
    worst = max(waits, default=1e9)
    report.claim(
        len(waits) >= 5 and worst < 5,
        f"meanwhile the neighbour answered {len(waits)} times, the slowest in {worst * 1000:.0f} ms",
    )


# -- what the desks use of this machine -----------------------------------------------------------------------


def count_things(home: Path, desks: tuple[DeskId, ...]) -> dict[str, int]:
    """Count what the desks use."""
    return {
        "processes": sum(len(processes(desk)) for desk in desks) + len(keepers(home)),
        "mounts": len(mounts(home)),
        "cgroups": sum(len(cgroups(desk)) for desk in desks),
        "loop devices": len(loops(home)),
        "user id ranges": len(ranges(home)),
        "state folders": len(list((home / "run/desks").glob("*"))),
    }


def processes(desk: DeskId) -> set[str]:
    """List the processes in a desk's cgroups."""
    found: set[str] = set()
    for folder in cgroups(desk):
        with suppress(OSError):
            found.update((folder / "cgroup.procs").read_text().split())
    return found


def keepers(home: Path) -> list[str]:
    """List the processes that were started for a state directory."""
    return [pid for pid in pids() if f"{home}/".encode() in read(f"/proc/{pid}/cmdline")]


def mounts(home: Path) -> set[bytes]:
    """List the mounts below a state directory, in all mount namespaces."""
    found: set[bytes] = set()
    for pid in pids():
        found.update(line for line in read(f"/proc/{pid}/mountinfo").splitlines() if f"{home}/".encode() in line)
    return found


def cgroups(desk: DeskId) -> list[Path]:
    """List a desk's cgroups in all hierarchies."""
    return [*Path("/sys/fs/cgroup").glob(f"hotdesk-{desk}"), *Path("/sys/fs/cgroup").glob(f"*/hotdesk-{desk}")]


def loops(home: Path) -> list[Path]:
    """List the loop devices of files in a state directory."""
    shown = Path("/sys/block").glob("loop*/loop/backing_file")
    return [file for file in shown if f"{home}/".encode() in read(str(file))]


def ranges(home: Path) -> list[Path]:
    """List the claimed ranges of user ids of a state directory's desks."""
    return [
        link for link in uids.CLAIMS.glob("[0-9]*") if link.is_symlink() and home in Path(os.readlink(link)).parents
    ]


def pids() -> list[str]:
    """List all processes but this one."""
    return [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def read(path: str) -> bytes:
    """Return a file's bytes; none if it is gone."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


# -- a server on this machine ---------------------------------------------------------------------------------


class Greeter(BaseHTTPRequestHandler):
    """Answers every request."""

    def do_GET(self) -> None:
        """Say hello."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello\n")

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def serve() -> Iterator[str]:
    """Run a server at this machine's address during the block; yield its URL."""
    with HTTPServer((address(), 0), Greeter) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{server.server_address[0]!s}:{server.server_port}/"
        server.shutdown()


def fetch(url: str) -> bytes:
    """Return what that server answers."""
    with urlopen(url, timeout=5) as response:  # noqa: S310 - this demo's server
        return bytes(response.read())


def is_account(number: int) -> bool:
    """Return whether a user id belongs to an account of this machine."""
    try:
        pwd.getpwuid(number)
    except KeyError:
        return False
    return True


def address() -> str:
    """Return the address this machine sends from; loopback if it has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def read_last_line(stderr: bytes) -> str:
    return (stderr.decode("utf-8", "replace").strip().splitlines() or ["no answer"])[-1]


def since(began: float) -> str:
    """Format the time since `began`."""
    return f"{(time.monotonic() - began) * 1000:.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
