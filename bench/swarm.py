"""Swarms of three sizes and a line fitted to them: the cost of an item, and the effect of more cores.

python -m bench.swarm [--sizes 200,500,1000]
python -m bench.swarm --desks 200

Each item is a line that a script counts at a separate desk, verified in clean desks: only hotdesk's own cost is left.
The second measures the desk alone: opened, a file written and read, burnt; four at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from hotdesk import config
from hotdesk.desk.seam import Spec
from hotdesk.host import Host

HOTDESK = [sys.executable, "-c", "from hotdesk.cli import main; main()"]
BRIEF = """
goal = "Count the letters of {item}."
size = {cpus = 1, memory = "256M", disk = "64M"}
deliverables = [{path = "{item}.json", expect = {types = {letters = "integer"}}}]
[each]
over = "words.txt"
"""
SCRIPT = """
import json
from hotdesk.brain.models.scripted import step

async def count(hands):
    "Count the letters of one word."
    word = (await hands.read("item.txt")).decode().strip()
    await hands.write(f"{hands.item}.json", json.dumps({"letters": len(word)}).encode())

PLAN = (step(count, files=["item.txt"], makes=["{item}.json"]),)
"""
TARGETS = {"one machine of 2 cores": 2, "one machine of 64 cores": 64, "ten nodes of 64 cores": 640}


@dataclass(frozen=True, slots=True)
class SwarmCost:
    """Resources that one swarm used."""

    items: int
    seconds: float
    cpu: float
    """Processor seconds of all its processes and desks."""
    owner: float
    """Processor seconds of its owner, which has one busy thread and so does not profit from more cores."""
    keeper: float
    """Processor seconds of its keeper, which opens and burns all desks in one thread, too."""
    journal: int
    """Bytes of its journal."""


def measure(count: int) -> SwarmCost:
    """Carry out a swarm in a separate state directory."""
    with tempfile.TemporaryDirectory(prefix="hotdesk-bench-swarm-") as folder:
        home = Path(folder)
        home.chmod(0o755)  # keys and door have users of their own
        (home / "words.txt").write_text("".join(f"word{number}\n" for number in range(count)))
        (home / "brief.toml").write_text(BRIEF)
        (home / "brain.py").write_text(SCRIPT)
        env = {**os.environ, "HOTDESK_HOME": str(home / "state"), "HOTDESK_IMAGES": str(config.load().images)}
        argv = ["swarm", str(home), "--script", str(home / "brain.py"), "--out", str(home / "out"), "--json"]
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        with subprocess.Popen([*HOTDESK, *argv], env=env, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            owner, keeper, ends = 0.0, 0.0, 0
            for line in process.stdout:
                ends += b'"ItemEnded"' in line
                if b'"ItemEnded"' in line and ends % 20 == 0:
                    owner = measure_own(process.pid) or owner
                    keeper = measure_own(find_keeper(process.pid)) or keeper
        took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if process.returncode:
            raise SystemExit(f"a swarm of {count} items ended with {process.returncode}")
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        journal = sum(path.stat().st_size for path in (home / "state/lib/keys").glob("journal.db*"))
        return SwarmCost(count, took, cpu, owner, keeper, journal)


async def measure_desks(count: int, together: int = 4) -> tuple[float, float, float]:
    """Open, use and burn desks; return the processor seconds of this process, of its keeper, and of the desks."""
    spec = Spec(cpus=1, memory=256 * config.MIB, disk=64 * config.MIB)

    async def live(host: Host, number: int) -> None:
        for _ in range(number):
            desk = await host.open(spec)
            await desk.write("item.txt", b"word")
            await desk.read("item.txt")
            await host.burn(desk.id)

    with tempfile.TemporaryDirectory(prefix="hotdesk-bench-desks-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        async with Host(replace(config.load(), run=home / "run", lib=home / "lib")) as host:
            await live(host, together)  # to warm caches
            keeper = find_keeper(os.getpid())
            before = measure_own(os.getpid()), measure_own(keeper), measure_children(keeper)
            async with anyio.create_task_group() as tasks:
                for place in range(together):
                    tasks.start_soon(live, host, len(range(place, count, together)))
            owner, kept, desks = measure_own(os.getpid()), measure_own(keeper), measure_children(keeper)
            return owner - before[0], kept - before[1], desks - before[2]


def find_keeper(owner: int) -> int:
    """Return the process id of an owner's keeper: its first child."""
    try:
        return min(int(pid) for pid in Path(f"/proc/{owner}/task/{owner}/children").read_text().split())
    except (OSError, ValueError):
        return 0


def measure_own(pid: int) -> float:
    """Return the processor seconds of one process, without those of its children."""
    return _sum_times(pid, 11)


def measure_children(pid: int) -> float:
    """Return the processor seconds of the children that a process has reaped."""
    return _sum_times(pid, 13)


def _sum_times(pid: int, first: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[first]) + int(fields[first + 1])) / os.sysconf("SC_CLK_TCK")


def fit(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Fit a line to points by least squares; return its intercept and slope."""
    count = len(points)
    x, y = (sum(each[axis] for each in points) / count for axis in (0, 1))
    rise = sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)
    return y - rise * x, rise


def predict(costs: list[SwarmCost], items: int, cores: int, nodes: int = 1) -> float:
    """Return the seconds of a swarm: its processor time over all cores, or that of its owner or keeper, if longer."""
    base, each = fit([(cost.items, cost.cpu) for cost in costs])
    _, owner = fit([(cost.items, cost.owner) for cost in costs])
    _, keeper = fit([(cost.items, cost.keeper) for cost in costs])
    return max((base + each * items) / cores, max(owner, keeper) * items / nodes)


def main() -> None:
    """Measure, fit, and print the predictions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="200,500,1000", help="items of each swarm")
    parser.add_argument("--desks", type=int, default=0, help="measure so many desks alone instead")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured there")
    wanted = parser.parse_args()
    if wanted.desks:
        parts = [1000 * seconds / wanted.desks for seconds in anyio.run(measure_desks, wanted.desks)]
        print(
            f"{wanted.desks:6,} desks: {sum(parts):5.1f} ms of processor each, of which the owner's {parts[0]:4.1f}, "
            f"the keeper's {parts[1]:4.1f}, those of their processes {parts[2]:4.1f}"
        )
        return
    costs = [measure(int(each)) for each in wanted.sizes.split(",")]
    for each in costs:
        print(
            f"{each.items:6,} items: {each.seconds:7.1f} s, {each.cpu / each.items * 1000:5.1f} ms of processor an "
            f"item, of which the owner's {each.owner / each.items * 1000:4.1f}, the keeper's "
            f"{each.keeper / each.items * 1000:4.1f}; "
            f"{each.journal / each.items / 1024:.2f} KiB of journal"
        )
    base, rise = fit([(cost.items, cost.cpu) for cost in costs])
    _, owner = fit([(cost.items, cost.owner) for cost in costs])
    _, keeper = fit([(cost.items, cost.keeper) for cost in costs])
    print(
        f"processor time = {base:.1f} s + {rise * 1000:.1f} ms an item; the owner's {owner * 1000:.1f}, the keeper's "
        f"{keeper * 1000:.1f} ms an item"
    )
    for name, cores in TARGETS.items():
        nodes = 10 if cores == 640 else 1
        print(f"10,000 items on {name}: about {predict(costs, 10_000, cores, nodes):,.0f} s")
    if wanted.json:
        wanted.json.write_text(json.dumps([vars_of(each) for each in costs], indent=1))


def vars_of(cost: SwarmCost) -> dict[str, float]:
    """Return the measurements as plain data."""
    return {name: getattr(cost, name) for name in SwarmCost.__slots__}


if __name__ == "__main__":
    main()
