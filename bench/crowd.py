"""What SPECIFICATION.md promises of many desks: a hundred at once, a neighbour of bombs, and what burning costs.

    make bench

Loud beside quiet and ours beside `crun delete`, all in one run, because machines are shared and noisy.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from bench.desk import Samples, seclude, timed

from hotdesk import config
from hotdesk.desk import image, kernel
from hotdesk.desk.seam import Desk, Spec
from hotdesk.host import Host

CROWD = 100
NEIGHBOUR_MOST = 5.0
BURN_MOST = 1.5
FORK = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
MEMORY = (
    "import os\nwhile True:\n    child = os.fork()\n    if not child:\n        held = []\n"
    "        while True: held.append(bytearray(1 << 24))\n    os.waitpid(child, 0)"
)
NAMES = "n = 0\nwhile True:\n    open(f'f{n}', 'w').close(); n += 1"
BOMBS = {
    "processor spin": ["sh", "-c", "for i in $(seq 64); do (while :; do :; done) & done; wait"],
    "fork bomb": ["python3", "-c", FORK],
    "memory bomb": ["python3", "-c", MEMORY],
    "disk filled": ["sh", "-c", "while :; do dd if=/dev/zero of=x bs=1M count=4000 2>/dev/null; rm x; done"],
    "names without end": ["python3", "-c", NAMES],
    "output flood": ["yes"],
}


async def crowd(host: Host) -> dict[str, float]:
    """Open a hundred desks together, ask each for its name, and burn them together."""
    desks: list[Desk] = []
    names: set[bytes] = set()
    opened: list[float] = []
    start = time.perf_counter()

    async def one() -> None:
        desks.append(await host.open(Spec(memory=256 << 20)))
        opened.append(time.perf_counter() - start)

    async def ask(desk: Desk) -> None:
        names.add((await desk.run(["hostname"])).stdout)

    async with anyio.create_task_group() as tasks:
        for _ in range(CROWD):
            tasks.start_soon(one)
    asked = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for desk in desks:
            tasks.start_soon(ask, desk)
    answered = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for desk in desks:
            tasks.start_soon(host.burn, desk.id)
    return {
        "answered": len(names),
        "first open after s": min(opened),
        "all open after s": max(opened),
        "all answered in s": answered - asked,
        "all burnt in s": time.perf_counter() - answered,
    }


@asynccontextmanager
async def bombed(host: Host, argv: list[str]) -> AsyncIterator[Desk]:
    """Give a desk in which a bomb goes off."""
    async with host.open_desk() as desk:
        process = await desk.start(argv, stdin=False)

        async def drain() -> None:
            async for _ in process.output():
                pass

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drain)
            await anyio.sleep(1.5)
            yield desk
            tasks.cancel_scope.cancel()


async def latency(desk: Desk, count: int = 80) -> float:
    """Give the median time of a quick program."""
    return statistics.median([await timed(lambda: desk.run(["true"])) for _ in range(count)])


async def neighbours(host: Host) -> dict[str, float]:
    """Time a quick program beside each bomb, against the same a moment before."""
    found = {}
    async with host.open_desk() as neighbour:
        await latency(neighbour)
        for name, argv in BOMBS.items():
            quiet = await latency(neighbour)
            async with bombed(host, argv):
                found[name] = await latency(neighbour) / quiet
    return found


def crun_burn(folder: Path, rootfs: Path, name: str) -> float:
    """Time `crun delete -f` of a container on an overlay of its own, and its unmounts."""
    bundle = folder / name
    for part in ("upper", "work", "root"):
        (bundle / part).mkdir(parents=True)
    options = f"lowerdir={rootfs},upperdir={bundle}/upper,workdir={bundle}/work"
    kernel.mount("bench", str(bundle / "root"), "overlay", 0, options)
    kinds = ("pid", "ipc", "uts", "mount", "cgroup", "network")
    process = {"cwd": "/", "args": ["sleep", "1000"], "env": ["PATH=/usr/bin:/bin"], "user": {"uid": 1000, "gid": 1000}}
    whole = {
        "ociVersion": "1.0.2",
        "root": {"path": str(bundle / "root")},
        "process": {**process, "noNewPrivileges": True, "capabilities": {}},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {"namespaces": [{"type": kind} for kind in kinds], "resources": {"pids": {"limit": 1024}}},
    }
    (bundle / "config.json").write_text(json.dumps(whole))
    crun = ["crun", f"--root={folder}/state", "--cgroup-manager=cgroupfs"]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*crun, "run", "-d", f"--bundle={bundle}", name], **streams) as starting:  # type: ignore[call-overload]
        assert starting.wait() == 0, starting.stderr.read()
    start = time.perf_counter()
    subprocess.run([*crun, "delete", "-f", name], check=True, input=b"", capture_output=True)
    kernel.umount(str(bundle / "root"))
    return time.perf_counter() - start


async def burns(host: Host, rounds: int, folder: Path) -> Samples:
    """Burn a desk and delete a container, in turn."""
    rootfs = image.find(config.load().images, "base").layers[0]
    samples: Samples = {"burn": [], "crun delete -f": []}
    for number in range(rounds):
        desk = await host.open()
        await desk.run(["true"])
        samples["burn"].append(await timed(lambda desk=desk: host.burn(desk.id)))  # type: ignore[misc]
        samples["crun delete -f"].append(crun_burn(folder, rootfs, f"bench-{os.getpid()}-{number}"))
    return samples


async def measure(rounds: int, folder: Path) -> dict[str, object]:
    """Measure everything."""
    async with Host(control=False) as host:
        samples = await burns(host, rounds, folder)
        ratio = statistics.median(a / b for a, b in zip(*samples.values(), strict=True))
        return {
            "burn ms": {name: statistics.median(values) * 1e3 for name, values in samples.items()},
            "burn ratio": ratio,
            "neighbour ratios": await neighbours(host),
            "crowd": await crowd(host),
        }


def report(found: dict[str, object]) -> bool:
    """Print what was measured; say whether every promise was kept."""
    ratios, hundred, burnt = found["neighbour ratios"], found["crowd"], found["burn ratio"]
    assert isinstance(ratios, dict)
    assert isinstance(hundred, dict)
    assert isinstance(burnt, float)
    for part in ("burn ms", "neighbour ratios", "crowd"):
        for name, value in found[part].items():  # type: ignore[attr-defined]
            print(f"{part:18} {name:24} {value:9.2f}")
    promises = {
        f"burn ≤ {BURN_MOST} x crun delete -f + unmounts: {burnt:.2f}": burnt <= BURN_MOST,
        f"a neighbour's exec ≤ {NEIGHBOUR_MOST} x its quiet value: {max(ratios.values()):.2f}": max(ratios.values())
        <= NEIGHBOUR_MOST,
        f"{CROWD} desks at once, each answering: {hundred['answered']:.0f}": hundred["answered"] == CROWD,
    }
    for text, kept in promises.items():
        print(f"{text}  {'kept' if kept else 'BROKEN'}")
    return all(promises.values())


def main() -> None:
    """Measure, print, and fail when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        seclude(folder)
        found = anyio.run(measure, chosen.rounds, Path(folder))
        kernel.umount("/dev/null")
        kernel.umount(folder)
    if chosen.json:
        print(json.dumps(found, indent=1))
    sys.exit(0 if report(found) else 1)


if __name__ == "__main__":
    main()
