"""Desks behind gVisor compared with plain runsc: the same root file system and platform, each once a round."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
from bench.book import Book, seconds, timed
from bench.peers import Peers, configuration
from bench.start import ready

from hotdesk.config import MIB
from hotdesk.desk.seam import Desk, Spec
from hotdesk.host import Host
from hotdesk.linux import syscalls

WALL = "gvisor"
SPEC = Spec(wall=WALL)
COLD, CLAIM, EXEC = "gvisor: cold open → true → result", "gvisor: claim → true → result", "gvisor: true"
SNAPSHOT, PLAIN_SNAPSHOT, BURN = "gvisor: snapshot", "snapshot beside gvisor's", "gvisor: burn"
RUN, RUNSC_EXEC, DELETE = "runsc run true", "runsc exec true", "runsc delete -f"
IDLE_CPU, IDLE_MEMORY = "gvisor: % of a core an idle desk takes", "gvisor: MiB an idle desk takes"
MEASURED = (COLD, CLAIM, EXEC, SNAPSHOT, BURN, RUN, RUNSC_EXEC, DELETE, IDLE_CPU, IDLE_MEMORY)
EXECS = 5
REST_S, IDLE_S = 3.0, 10.0
"""Seconds until an open desk is idle, and seconds for which its processor time is then counted."""


@dataclass(frozen=True, slots=True)
class PlainRunsc:
    """runsc as root runs it, with the settings of a desk."""

    peers: Peers
    program: str
    platform: str

    @property
    def argv(self) -> list[str]:
        root = self.peers.folder / "state-runsc"
        return [
            self.program, f"--root={root}", f"--platform={self.platform}", "--network=none", "--ignore-cgroups",
            "--overlay2=none", "--directfs=true", "--file-access=shared",
        ]  # fmt: skip

    @contextmanager
    def bundle(self, name: str, *argv: str) -> Iterator[Path]:
        """Yield a bundle without what gVisor's sentry has itself: a filter, a user namespace, cgroups."""
        with self.peers.bundle(name, *argv) as bundle:
            config = configuration(str(bundle / "root"), argv)
            kinds = ("pid", "ipc", "uts", "mount", "network")
            config["linux"] = {"namespaces": [{"type": kind} for kind in kinds]}
            (bundle / "config.json").write_text(json.dumps(config))
            yield bundle

    def run(self) -> float:
        """Time a container from the mount of its overlay to its end."""
        start = time.perf_counter()
        name = f"bench-{os.getpid()}-runsc"
        with self.bundle(name, "true") as bundle:
            seconds([*self.argv, "run", f"--bundle={bundle}", name])
            return time.perf_counter() - start

    def exec_and_delete(self, number: int) -> tuple[list[float], float]:
        """Start a container that sleeps; time programs started in it, and its end with the unmount of its overlay."""
        name = f"bench-{os.getpid()}-runsc-{number}"
        with self.bundle(name, "sleep", "3600") as bundle:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            argv = [*self.argv, "run", "--detach", f"--bundle={bundle}", name]
            with subprocess.Popen(argv, **pipes) as starting:  # type: ignore[call-overload]
                assert starting.wait() == 0  # its pipes stay open with the container
            try:
                execs = [seconds([*self.argv, "exec", name, "true"]) for _ in range(EXECS)]
            finally:
                start = time.perf_counter()
                subprocess.run([*self.argv, "delete", "--force", name], check=True, input=b"", capture_output=True)
                syscalls.umount(str(bundle / "root"))
            return execs, time.perf_counter() - start


async def measure(host: Host, peers: Peers, book: Book, rounds: int) -> None:
    """Measure everything once a round; the first round only warms caches."""
    status = host.walls.find(WALL)
    if not status.is_available:
        book.lack(MEASURED, f"{status.missing}; {status.remedy}")
        return
    plain = PlainRunsc(peers, status.program, status.platform)
    async with Host(host.config, control=False) as pool:
        pool.keep_ready(SPEC, 1)
        for number in range(-1, rounds):
            await pool.pool.wait_until_full()
            await take_round(host, pool, plain, book if number >= 0 else Book(), number)
        pool.keep_ready(SPEC, 0)
    await measure_idle(host, book)


async def take_round(host: Host, pool: Host, plain: PlainRunsc, book: Book, number: int) -> None:
    opened: list[Desk] = []

    async def open_one(place: Host = host) -> None:
        opened.append(await ready(place, spec=SPEC))

    book.note(COLD, number, await timed(open_one))
    desk = opened.pop()
    book.note(EXEC, number, *[await timed(lambda: desk.run(["true"])) for _ in range(EXECS)])
    book.note(SNAPSHOT, number, await timed(desk.snapshot))
    book.note(BURN, number, await timed(lambda: host.burn(desk.id)))
    book.note(RUN, number, await anyio.to_thread.run_sync(plain.run))
    execs, delete = await anyio.to_thread.run_sync(plain.exec_and_delete, number)
    book.note(RUNSC_EXEC, number, *execs)
    book.note(DELETE, number, delete)
    async with host.open_desk() as container:
        book.note(PLAIN_SNAPSHOT, number, await timed(container.snapshot))
    book.note(CLAIM, number, await timed(lambda: open_one(pool)))
    await pool.burn(opened.pop().id)


async def measure_idle(host: Host, book: Book) -> None:
    """Measure the memory and processor time of an idle desk."""
    async with host.open_desk(SPEC) as desk:
        await desk.run(["true"])
        await anyio.sleep(REST_S)
        before, start = (await desk.usage()).cpu, time.perf_counter()
        await anyio.sleep(IDLE_S)
        usage = await desk.usage()
        book.facts[IDLE_CPU] = 100 * (usage.cpu - before) / (time.perf_counter() - start)
        book.facts[IDLE_MEMORY] = usage.memory / MIB
