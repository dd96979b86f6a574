"""The door's promises in SPECIFICATION.md, measured at its own process, behind a real desk's gate.

The load comes from a process that enters the desk's network namespace; the upstream is a third process. mitmproxy runs
in a virtual environment below the user's cache folder, where `--peers` installs it.
"""

from __future__ import annotations

import os
import socket
import ssl
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import anyio
from bench.book import Book, memory_of, timed
from bench.door_load import Load
from bench.door_processes import drive, memory_line, part_pid, peer_folder, server
from tests.upstream import make_certificates

from hotdesk.brief import Scope, parse_grant, parse_rule
from hotdesk.config import Config
from hotdesk.desk.keeper import state
from hotdesk.desk.seam import Desk, Spec
from hotdesk.host import Host
from hotdesk.linux import private_files, syscalls, uids
from hotdesk.vault import Token, Vault

NAME = "erp.test"
TOKEN = "bench-token-0123456789abcdef"  # noqa: S105 - nobody's
GATE = 3128
CONNECTIONS = 16
WARM = 800
LATENCY_COUNT = 500
IDLE_DESKS = 50
RATE, PEER_RATE = "door: requests per CPU second", "door: mitmproxy requests per CPU second"
LATENCY, RELAYED = "door: latency", "door: a relay's latency"
SELFTEST, OPEN, IDLE = "door: self-test", "door: cold open beside it", "door: KiB per idle desk"


def grew(work: str, size: int = 1 << 30) -> str:
    """Return the name of the growth of the door's memory while a body passes."""
    return f"door: MiB its memory grew by, {size >> 20:,} MiB {work}"


class Bench:
    """The processes of one measurement."""

    def __init__(self, host: Host, home: Path, stack: ExitStack, book: Book) -> None:
        self.host = host
        self.book = book
        self.round = 0
        ca, chain = home / "upstream-ca.pem", home / "upstream.pem"
        self.upstream = stack.enter_context(server("-m", "bench.door_upstream", str(chain), TOKEN))[1]
        relay = ("-m", "bench.door_relay", str(chain), str(ca), str(self.upstream), NAME)
        self.relay = stack.enter_context(server(*relay))[1]
        self.scope = Scope(
            rules=(parse_rule(f"write {NAME}/data/**"),),
            grants=(parse_grant(f"bench-token@{NAME}"),),
            names={NAME: f"127.0.0.1:{self.upstream}"},
        )
        self.mitmproxy: tuple[int, int] | None = None
        python = peer_folder() / "bin" / "python"
        if python.exists():
            script = str(Path(__file__).with_name("door_mitmproxy.py"))
            argv = (script, str(home / "mitmproxy"), str(ca), TOKEN)
            self.mitmproxy = stack.enter_context(server(*argv, python=str(python)))
        self.door = self.keys = 0
        self.netns = ""

    def note(self, name: str, value: float) -> None:
        self.book.note(name, self.round, value)

    def enter(self, desk: Desk) -> None:
        """Use this desk from now on; the first call starts the door."""
        told = {str(entry["id"]): int(str(entry["pid"])) for entry in state.list_own_desks(self.host.config)}
        self.netns = f"/proc/{told[desk.id]}/ns/net"
        drive(self.through_door("rate"))
        self.door = part_pid("hotdesk.door.process", self.host.config.run)
        self.keys = part_pid("hotdesk.keys.process", self.host.config.lib)

    def through_door(self, work: str, **more: int) -> Load:
        """Return a load that goes through the door."""
        return replace(Load("rate", GATE, f"{NAME}:443", netns=self.netns), work=work, **more)  # type: ignore[arg-type]

    def rates(self, count: int) -> None:
        """Measure requests per second of processor time, of door and keys and of mitmproxy.

        Keys records each request in the journal and has the secret, work that mitmproxy does in its one process.
        """
        wanted = {"connections": CONNECTIONS, "count": count, "warm": WARM}
        told, (door, keys) = drive(self.through_door("rate", **wanted), self.door, self.keys)
        self.note(RATE, count / (door + keys))
        self.note("door: requests per CPU second of the door alone", count / door)
        self.note("door: requests per s", count / told["seconds"])
        self.note("door: keys' requests per CPU second", count / max(keys, 0.01))
        if self.mitmproxy is None:
            self.book.lack([PEER_RATE], "mitmproxy is not installed: make bench PEERS=1")
        else:
            pid, port = self.mitmproxy
            few = max(count // 4, CONNECTIONS)
            load = Load("rate", port, f"localhost:{self.upstream}", connections=CONNECTIONS, count=few, warm=WARM // 4)
            told, (used,) = drive(load, pid)
            self.note(PEER_RATE, few / used)
            self.note("door: mitmproxy requests per s", few / told["seconds"])

    def latencies(self) -> None:
        """Measure the latency of a request: directly, through the relay, and through the door, alternately."""
        plain = Load("latency", self.upstream, NAME, proxied=False, token=TOKEN, count=LATENCY_COUNT)
        loads = {"door: upstream's own latency": plain, RELAYED: replace(plain, port=self.relay)}
        loads[LATENCY] = self.through_door("latency", count=LATENCY_COUNT, warm=100)
        for name, load in loads.items():
            told, _ = drive(load)
            self.note(name, told["median"])
            self.note(f"{name}, best tenth", told["tenth"])  # the latency when no other program works

    def large(self, work: str, size: int) -> None:
        """Pass one large body, and measure the door's memory."""
        Path(f"/proc/{self.door}/clear_refs").write_text("5")  # resets the peak
        before = memory_line(self.door, "VmRSS")
        told, (door,) = drive(self.through_door(work, count=size, warm=1), self.door)
        facts = self.book.facts
        facts[f"door: MiB per CPU second, {work}"] = (size >> 20) / door
        facts[f"door: MiB per s, {work}"] = (size >> 20) / told["seconds"]
        facts[grew(work, size)] = memory_line(self.door, "VmHWM") - before
        facts[f"door: MiB of memory afterwards, {work}"] = memory_line(self.door, "VmRSS")

    async def weigh(self) -> None:
        """Measure the door's memory for each desk: with a gate and rules, then also after a first call."""
        before = memory_of(self.door)
        small = Spec(memory=64 << 20, disk_in="memory")
        desks = [await self.host.open(small, self.scope) for _ in range(IDLE_DESKS)]
        await anyio.sleep(0.5)
        self.book.facts[IDLE] = (memory_of(self.door) - before) / 1024 / IDLE_DESKS
        told = {str(entry["id"]): int(str(entry["pid"])) for entry in state.list_own_desks(self.host.config)}
        for desk in desks:
            await anyio.to_thread.run_sync(call_from, f"/proc/{told[desk.id]}/ns/net")
        await anyio.sleep(0.5)
        self.book.facts["door: KiB per desk after a call"] = (memory_of(self.door) - before) / 1024 / IDLE_DESKS
        for desk in desks:
            await self.host.burn(desk.id)

    async def opens(self) -> None:
        """Time a cold open, one with a scope, and the canaries that run in it."""
        prove = self.host.doors.prove

        async def prove_timed(desk: Desk) -> None:
            self.note(SELFTEST, await timed(lambda: prove(desk)))

        async def cold(scope: Scope | None) -> None:
            opened.append(await (self.host.open() if scope is None else self.host.open(scope=scope)))

        opened: list[Desk] = []
        self.note(OPEN, await timed(lambda: cold(None)))
        self.host.doors.prove = prove_timed  # type: ignore[method-assign]
        self.note("door: open with a scope", await timed(lambda: cold(self.scope)))
        self.host.doors.prove = prove  # type: ignore[method-assign]
        for desk in opened:
            await self.host.burn(desk.id)


def call_from(netns: str) -> None:
    """Make one request from a desk's network namespace."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    fd = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
    try:
        plain = syscalls.run_in_netns(fd, lambda: socket.create_connection(("127.0.0.1", GATE), timeout=10))
    finally:
        os.close(fd)
    plain.sendall(f"CONNECT {NAME}:443 HTTP/1.1\r\nHost: {NAME}:443\r\n\r\n".encode())
    assert plain.recv(4096).startswith(b"HTTP/1.1 200")
    with context.wrap_socket(plain, server_hostname=NAME) as inside:
        inside.sendall(f"GET /data/x HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n".encode())
        assert inside.recv(4096).startswith(b"HTTP/1.1 200")


async def measure(images: Path, home: Path, book: Book, *, rounds: int, count: int, large: int) -> None:
    """Take every sample once a round, and every fact once."""
    home.chmod(0o755)  # desks' users must be able to traverse it
    ca, _ = make_certificates(home, NAME, "localhost")
    settings = Config(run=home / "run", lib=home / "lib", images=images, ca=str(ca))
    private_files.make_folder(settings.lib / "keys", uids.KEYS)
    Vault.make(settings.lib / "keys", "file").put("bench-token", Token(), TOKEN.encode())
    with ExitStack() as stack:
        async with Host(settings, control=False) as host:
            bench = Bench(host, home, stack, book)
            async with host.open_desk(Spec(deadline=3600), bench.scope) as desk:
                await anyio.to_thread.run_sync(bench.enter, desk)
                await bench.weigh()  # before freed memory distorts the result
                for bench.round in range(rounds):
                    await anyio.to_thread.run_sync(bench.rates, count)
                    await anyio.to_thread.run_sync(bench.latencies)
                    await bench.opens()
                for work in ("up", "down"):
                    await anyio.to_thread.run_sync(bench.large, work, large)
