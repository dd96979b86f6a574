"""What SPECIFICATION.md promises of the door, measured at its own process, behind a real desk's gate.

    make bench            the door alone
    make bench PEERS=1    and mitmproxy, in an environment of its own below the user's cache folder

The load comes from a process that enters the desk's network namespace; the upstream is a third. Rounds are interleaved,
because machines are shared and noisy; a ratio is the median of one round's ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import anyio
from bench.desk import Samples, memory_of, timed
from bench.door_load import Load
from tests.upstream import make_certificates

from hotdesk import config
from hotdesk.brief import Scope, parse_grant, parse_rule
from hotdesk.config import Config
from hotdesk.desk import kernel, state, uids
from hotdesk.desk.seam import Desk, Spec
from hotdesk.host import Host
from hotdesk.vault import Token, Vault, private

NAME = "erp.test"
TOKEN = "bench-token-0123456789abcdef"  # noqa: S105 - nobody's
GATE = 3128
MITMPROXY = "mitmproxy==11.0.2"
CONNECTIONS = 16
WARM = 800
LATENCY_COUNT = 500
LARGE = 1 << 30
IDLE_DESKS = 50
FLAT_MIB = 16.0
"""What memory may grow by while a gibibyte passes."""
PROMISES = {
    "door req per CPU s ÷ mitmproxy": (3.0, "least"),
    "latency ÷ relay": (1.5, "most"),
    "up: memory grew MiB": (FLAT_MIB, "most"),
    "down: memory grew MiB": (FLAT_MIB, "most"),
    "idle KiB per desk": (100.0, "most"),
    "self-test ÷ cold open": (0.5, "most"),
}


# -- processes ---------------------------------------------------------------------------------------------------


def peer_folder() -> Path:
    """Give where mitmproxy's environment is kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "hotdesk-bench" / MITMPROXY.replace("==", "-")


def install() -> None:
    """Make mitmproxy's environment, unless it is there."""
    folder = peer_folder()
    if (folder / "bin" / "mitmdump").exists():
        return
    uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    python = sys._base_executable  # type: ignore[attr-defined]
    subprocess.run([uv, "venv", "--quiet", "--no-python-downloads", "--python", python, folder], check=True)
    into = ["--python", str(folder / "bin" / "python"), "--compile-bytecode"]
    subprocess.run([uv, "pip", "install", "--quiet", *into, MITMPROXY], check=True)


@contextmanager
def server(*argv: str, python: str = sys.executable) -> Iterator[tuple[int, int]]:
    """Run a server for the length of a block; give its process and port."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([python, *argv], **streams) as process:  # type: ignore[call-overload]
        try:
            yield process.pid, int(process.stdout.readline())
        finally:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def part_pid(program: str, root: Path) -> int:
    """Find the door or keys that a keeper started, and not what these start themselves."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            argv = (entry / "cmdline").read_bytes().decode().split("\0")
            if program in argv and str(root) in argv[-2]:
                found[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended meanwhile
    return next(pid for pid, parent in found.items() if parent not in found)


def cpu_seconds(pid: int) -> float:
    """Give the processor time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_line(pid: int, name: str) -> float:
    """Give a line of a process's status, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name + ":"))


def drive(load: Load, *pids: int) -> tuple[dict[str, float], list[float]]:
    """Run a load; give what it saw, and the processor time each process used for it once it was warm."""
    argv = [sys.executable, "-m", "bench.door_load", json.dumps(asdict(load))]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, **streams) as process:  # type: ignore[call-overload]
        warm = process.stdout.readline()
        before = [cpu_seconds(pid) for pid in pids]
        told, _ = process.communicate("go\n")
        if warm != "warm\n" or process.returncode:
            raise RuntimeError(f"the load at {load.host} failed")
        return json.loads(told), [cpu_seconds(pid) - used for pid, used in zip(pids, before, strict=True)]


# -- what is measured --------------------------------------------------------------------------------------------


class Bench:
    """Everything that runs for one measurement."""

    def __init__(self, host: Host, home: Path, stack: ExitStack) -> None:
        self.host = host
        self.samples: Samples = {}
        self.facts: dict[str, float] = {}
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
        """Take a sample down."""
        self.samples.setdefault(name, []).append(value)

    def enter(self, desk: Desk) -> None:
        """Work from this desk from now on; the first call starts the door."""
        told = {str(entry["id"]): int(str(entry["pid"])) for entry in state.desks(self.host.config)}
        self.netns = f"/proc/{told[desk.id]}/ns/net"
        drive(self.through_door("rate"))
        self.door = part_pid("hotdesk.door.process", self.host.config.run)
        self.keys = part_pid("hotdesk.keys.process", self.host.config.lib)

    def through_door(self, work: str, **more: int) -> Load:
        """Give a load that goes through the door."""
        return replace(Load("rate", GATE, f"{NAME}:443", netns=self.netns), work=work, **more)  # type: ignore[arg-type]

    def rates(self, count: int) -> None:
        """Take requests per second of the door's processor time, and of mitmproxy's."""
        wanted = {"connections": CONNECTIONS, "count": count, "warm": WARM}
        told, (door, keys) = drive(self.through_door("rate", **wanted), self.door, self.keys)
        self.note("door req per CPU s", count / door)
        self.note("door req per s", count / told["seconds"])
        self.note("keys req per CPU s", count / max(keys, 0.01))
        if self.mitmproxy is not None:
            pid, port = self.mitmproxy
            few = max(count // 4, CONNECTIONS)
            load = Load("rate", port, f"localhost:{self.upstream}", connections=CONNECTIONS, count=few, warm=WARM // 4)
            told, (used,) = drive(load, pid)
            self.note("mitmproxy req per CPU s", few / used)
            self.note("mitmproxy req per s", few / told["seconds"])

    def latencies(self) -> None:
        """Take what one request takes directly, through the relay, and through the door; each in turn."""
        plain = Load("latency", self.upstream, NAME, proxied=False, token=TOKEN, count=LATENCY_COUNT)
        loads = {"direct": plain, "relay": replace(plain, port=self.relay)}
        loads["door"] = self.through_door("latency", count=LATENCY_COUNT, warm=100)
        for name, load in loads.items():
            told, _ = drive(load)
            self.note(f"{name} latency µs", told["median"] * 1e6)
            self.note(f"{name} latency µs, best tenth", told["tenth"] * 1e6)  # what it takes when nobody else works

    def large(self, work: str, size: int) -> None:
        """Pass one large body, and watch the door's memory."""
        Path(f"/proc/{self.door}/clear_refs").write_text("5")  # the peak begins anew
        before = memory_line(self.door, "VmRSS")
        told, (door,) = drive(self.through_door(work, count=size, warm=1), self.door)
        self.facts[f"{work}: MiB per CPU s"] = (size >> 20) / door
        self.facts[f"{work}: MiB per s"] = (size >> 20) / told["seconds"]
        self.facts[f"{work}: memory grew MiB"] = memory_line(self.door, "VmHWM") - before
        self.facts[f"{work}: memory after MiB"] = memory_line(self.door, "VmRSS")

    async def weigh(self) -> None:
        """Weigh what a desk costs the door: a gate and a charter, then also after a first call."""
        before = memory_of(self.door)
        small = Spec(memory=64 << 20, disk_in="memory")
        desks = [await self.host.open(small, self.scope) for _ in range(IDLE_DESKS)]
        await anyio.sleep(0.5)
        self.facts["idle KiB per desk"] = (memory_of(self.door) - before) / 1024 / IDLE_DESKS
        told = {str(entry["id"]): int(str(entry["pid"])) for entry in state.desks(self.host.config)}
        for desk in desks:
            await anyio.to_thread.run_sync(call_from, f"/proc/{told[desk.id]}/ns/net")
        await anyio.sleep(0.5)
        self.facts["KiB per desk after a call"] = (memory_of(self.door) - before) / 1024 / IDLE_DESKS
        for desk in desks:
            await self.host.burn(desk.id)

    async def opens(self) -> None:
        """Time a cold open, one with a scope, and the canaries that run in it."""
        prove = self.host.doors.prove

        async def prove_timed(desk: Desk) -> None:
            self.note("self-test ms", await timed(lambda: prove(desk)) * 1e3)

        async def cold(scope: Scope | None) -> None:
            opened.append(await (self.host.open() if scope is None else self.host.open(scope=scope)))

        opened: list[Desk] = []
        self.note("cold open ms", await timed(lambda: cold(None)) * 1e3)
        self.host.doors.prove = prove_timed  # type: ignore[method-assign]
        self.note("open with a scope ms", await timed(lambda: cold(self.scope)) * 1e3)
        self.host.doors.prove = prove  # type: ignore[method-assign]
        for desk in opened:
            await self.host.burn(desk.id)


def call_from(netns: str) -> None:
    """Make one request from a desk's network namespace."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    fd = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
    try:
        plain = kernel.in_netns(fd, lambda: socket.create_connection(("127.0.0.1", GATE), timeout=10))
    finally:
        os.close(fd)
    plain.sendall(f"CONNECT {NAME}:443 HTTP/1.1\r\nHost: {NAME}:443\r\n\r\n".encode())
    assert plain.recv(4096).startswith(b"HTTP/1.1 200")
    with context.wrap_socket(plain, server_hostname=NAME) as inside:
        inside.sendall(f"GET /data/x HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n".encode())
        assert inside.recv(4096).startswith(b"HTTP/1.1 200")


async def measure(rounds: int, count: int, large: int, home: Path) -> Bench:
    """Take every sample once a round, and every fact once."""
    ca, _ = make_certificates(home, NAME, "localhost")
    settings = Config(run=home / "run", lib=home / "lib", images=config.load().images, ca=str(ca))
    private.make_folder(settings.lib / "keys", uids.KEYS)
    Vault.make(settings.lib / "keys", "file").put("bench-token", Token(), TOKEN.encode())
    with ExitStack() as stack:
        async with Host(settings, control=False) as host:
            bench = Bench(host, home, stack)
            async with host.open_desk(Spec(deadline=3600), bench.scope) as desk:
                await anyio.to_thread.run_sync(bench.enter, desk)
                await bench.weigh()  # before freed memory hides what is taken
                for _ in range(rounds):
                    await anyio.to_thread.run_sync(bench.rates, count)
                    await anyio.to_thread.run_sync(bench.latencies)
                    await bench.opens()
                for work in ("up", "down"):
                    await anyio.to_thread.run_sync(bench.large, work, large)
    return bench


# -- what is said ------------------------------------------------------------------------------------------------


def ratio(samples: Samples, one: str, other: str) -> float | None:
    """Give the median of the rounds' ratios."""
    if one not in samples or other not in samples:
        return None
    return statistics.median(a / b for a, b in zip(samples[one], samples[other], strict=True))


def judged(bench: Bench) -> dict[str, float | None]:
    """Give what promises are about."""
    direct, relay, door = (bench.samples[f"{name} latency µs"] for name in ("direct", "relay", "door"))
    added = [(c - a) / (b - a) for a, b, c in zip(direct, relay, door, strict=True)]
    return {
        "door req per CPU s ÷ mitmproxy": ratio(bench.samples, "door req per CPU s", "mitmproxy req per CPU s"),
        "latency ÷ relay": ratio(bench.samples, "door latency µs", "relay latency µs"),
        "added latency ÷ relay": statistics.median(added),
        "latency ÷ relay, best tenth": ratio(
            bench.samples, "door latency µs, best tenth", "relay latency µs, best tenth"
        ),
        "self-test ÷ cold open": ratio(bench.samples, "self-test ms", "cold open ms"),
        **bench.facts,
    }


def report(bench: Bench, as_json: bool) -> bool:
    """Print what was measured; say whether every promise that could be measured was kept."""
    medians = {name: statistics.median(values) for name, values in bench.samples.items()}
    found = judged(bench)
    kept = {
        name: value <= bound if side == "most" else value >= bound
        for name, (bound, side) in PROMISES.items()
        if (value := found[name]) is not None
    }
    if as_json:
        rows = [
            {"what": name, "promised": bound, "at": side, "measured": found[name]}
            for name, (bound, side) in PROMISES.items()
        ]
        told = {"machine": platform.machine(), "medians": medians, "found": found, "promises": rows}
        print(json.dumps(told, indent=1))
        return all(kept.values())
    for name, value in {**medians, **found}.items():
        if name not in PROMISES and value is not None:
            print(f"{name:32} {value:9.2f}")
    for name, (bound, side) in PROMISES.items():
        value = found[name]
        said = (
            "not measured: make bench PEERS=1"
            if value is None
            else f"{value:.2f}  {'kept' if kept[name] else 'BROKEN'}"
        )
        print(f"{name} {'≤' if side == 'most' else '≥'} {bound:g}: {said}")
    return all(kept.values())


def main() -> None:
    """Measure, print, and fail when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--large", type=int, default=LARGE, help="bytes of a large body")
    parser.add_argument("--peers", action="store_true", help="install mitmproxy, beside which the door is measured")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.peers:
        install()
    with tempfile.TemporaryDirectory(prefix="hotdesk-bench-") as folder:
        home = Path(folder)
        home.chmod(0o755)  # desks' users pass through it
        bench = anyio.run(measure, chosen.rounds, chosen.requests, chosen.large, home)
    sys.exit(0 if report(bench, chosen.json) else 1)


if __name__ == "__main__":
    main()
