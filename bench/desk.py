"""What SPECIFICATION.md promises of a single desk, measured beside its peers in one run on the same root file system.

    make bench            the desk alone
    make bench PEERS=1    and podman, runc, bubblewrap (installs them)

Rounds are interleaved, because machines are shared and noisy; a ratio is the median of one round's ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import stat
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio

from hotdesk import config
from hotdesk.desk import image, kernel, seccomp, state
from hotdesk.desk.seam import Desk, Spec
from hotdesk.host import Host

HOTDESK = str(Path(sys.executable).parent / "hotdesk")
UNIFIED = "/sys/fs/cgroup/unified"
Samples = dict[str, list[float]]


def seclude(folder: str) -> None:
    """Make peers work, and harmless, in a mount namespace of our own.

    podman's crun 1.8 refuses to start where it sees a hybrid hierarchy, and gives the host's /dev/null to a container's
    user when that is its standard input: so it sees one of its own.
    """
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_SLAVE)
    if os.path.ismount(UNIFIED):
        kernel.umount(UNIFIED)
    kernel.mount("bench", folder, "tmpfs")
    os.mknod(f"{folder}/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.chmod(f"{folder}/null", 0o666)  # noqa: S103 - as /dev/null is everywhere
    kernel.mount(f"{folder}/null", "/dev/null", None, kernel.MS_BIND)


def podman(rootfs: Path, profile: Path) -> list[str]:
    """Give podman with a desk's hardening, less the user namespace: a plain root file system has no shifted owners."""
    return [
        "podman", "--cgroup-manager=cgroupfs", "run", "--network=none", "--cap-drop=all", "--user=1000:1000",
        "--security-opt=no-new-privileges", f"--security-opt=seccomp={profile}",
        "--pids-limit=1024", "--memory=2g", "--cpus=2", "--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096",
        "--rm", "--rootfs", f"{rootfs}:O",
    ]  # fmt: skip


def bubblewrap(rootfs: Path) -> list[str]:
    """Give bubblewrap with every namespace."""
    binds = ["--ro-bind", str(rootfs), "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    return ["bwrap", "--unshare-all", "--die-with-parent", *binds]


def seconds(argv: list[str]) -> float:
    """Time one program from start to end."""
    start = time.perf_counter()
    subprocess.run(argv, check=True, input=b"", capture_output=True)  # pipes: podman's crun gives fds 0-2 away
    return time.perf_counter() - start


def plainly(argv: list[str]) -> float:
    """Time `subprocess.run` as it comes, for a program that needs no streams of its own."""
    start = time.perf_counter()
    subprocess.run(argv, check=True)
    return time.perf_counter() - start


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Time one piece of async work."""
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start


def memory_of(pid: int) -> int:
    """Give the bytes a process shares with nobody."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Private_"))


async def measure(rounds: int, peers: dict[str, list[str]], held: str | None) -> tuple[Samples, dict[str, float]]:
    """Take every sample once a round."""
    samples: Samples = {}

    def note(name: str, value: float) -> None:
        samples.setdefault(name, []).append(value)

    async with Host(control=False) as host:

        async def cold() -> None:
            desk = await host.open()
            opened.append(desk)
            await desk.run(["true"])

        opened: list[Desk] = []
        resident = await host.open()
        for number in range(rounds + 1):
            note("open → true → result", await timed(cold))
            note("burn", await timed(lambda: host.burn(opened.pop().id)))
            note("exec true", statistics.median([await timed(lambda: resident.run(["true"])) for _ in range(50)]))
            note("subprocess.run true", statistics.median([plainly(["true"]) for _ in range(50)]))
            note("hotdesk run -- true", seconds([HOTDESK, "run", "--", "true"]))
            for name, argv in peers.items():
                note(name, seconds([*argv, "true"]))
            if held:
                note("podman exec true", seconds(["podman", "--cgroup-manager=cgroupfs", "exec", held, "true"]))
            if number == 0:
                samples.clear()  # the first round warms caches
        facts = await weigh(host)
    return samples, facts


async def weigh(host: Host, count: int = 10) -> dict[str, float]:
    """Weigh idle desks: their first process, and what the whole machine loses by each."""

    def available() -> int:
        line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
        return int(line.split()[1]) << 10

    before = available()
    desks = [await host.open(Spec(memory=256 << 20)) for _ in range(count)]
    await anyio.sleep(0.5)
    lost = (before - available()) / count
    told = {str(entry["id"]): int(str(entry["pid"])) for entry in state.desks(host.config)}
    private = statistics.median(memory_of(told[desk.id]) for desk in desks)
    for desk in desks:
        await host.burn(desk.id)
    return {"guest private MiB": private / (1 << 20), "machine MiB per idle desk": lost / (1 << 20)}


def clear_cgroups() -> None:
    """Remove the empty cgroups podman leaves."""
    for parent in Path("/sys/fs/cgroup").glob("*/libpod_parent"):
        for folder, _, _ in os.walk(parent, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)  # one still in use is another run's


def ratio(samples: Samples, one: str, other: str) -> float | None:
    """Give the median of the rounds' ratios."""
    if one not in samples or other not in samples:
        return None
    return statistics.median(a / b for a, b in zip(samples[one], samples[other], strict=True))


PROMISES = [
    ("open → true → result", "podman run", 0.35),
    ("hotdesk run -- true", "podman run", 1.5),
    ("exec true", "subprocess.run true", 2.0),
    ("exec true", "podman exec true", 0.05),
]


def report(samples: Samples, facts: dict[str, float], as_json: bool) -> bool:
    """Print what was measured; say whether every promise that could be measured was kept."""
    milliseconds = {name: statistics.median(values) * 1e3 for name, values in samples.items()}
    ratios = [(one, other, most, ratio(samples, one, other)) for one, other, most in PROMISES]
    kept = all(found is None or found <= most for _, _, most, found in ratios)
    if as_json:
        rows = [
            {"what": one, "against": other, "promised": most, "measured": found} for one, other, most, found in ratios
        ]
        print(json.dumps({"machine": platform.machine(), "ms": milliseconds, "ratios": rows, **facts}, indent=1))
        return kept
    for name, value in milliseconds.items():
        print(f"{name:32} {value:9.2f} ms   p95 {sorted(samples[name])[int(len(samples[name]) * 0.95)] * 1e3:9.2f}")
    for name, value in facts.items():
        print(f"{name:32} {value:9.2f}")
    for one, other, most, found in ratios:
        told = (
            "not measured: make bench PEERS=1"
            if found is None
            else f"{found:.3f}  {'kept' if found <= most else 'BROKEN'}"
        )
        print(f"{one} ≤ {most} x {other}: {told}")
    return kept


def main() -> None:
    """Measure, print, and fail when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    rootfs = image.find(config.load().images, "base").layers[0]
    held = None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        seclude(folder)
        profile = Path(folder) / "seccomp.json"
        profile.write_text(json.dumps(seccomp.profile(platform.machine())))
        peers = {
            "podman run": podman(rootfs, profile),
            "bwrap": bubblewrap(rootfs),
        }
        peers = {name: argv for name, argv in peers.items() if shutil.which(argv[0])}
        try:
            if "podman run" in peers:
                held = subprocess.run(
                    [*peers["podman run"][:3], "-d", *peers["podman run"][3:], "sleep", "3600"],
                    check=True, capture_output=True, text=True,
                ).stdout.strip()  # fmt: skip
            samples, facts = anyio.run(measure, chosen.rounds, peers, held)
        finally:
            if held:
                subprocess.run(
                    ["podman", "--cgroup-manager=cgroupfs", "rm", "-f", "-t0", held], check=False, capture_output=True
                )
            clear_cgroups()
        kernel.umount("/dev/null")
        kernel.umount(folder)
    sys.exit(0 if report(samples, facts, chosen.json) else 1)


if __name__ == "__main__":
    main()
