"""The cost of burning compared with `crun delete`, and of bombs in one desk to its neighbours."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from bench.book import Book, timed
from bench.peers import Peers
from bench.start import ready

from hotdesk.desk.seam import Desk
from hotdesk.host import Host
from hotdesk.linux import syscalls

BURN, DELETE, WORST = "burn", "crun delete -f and unmounts", "beside the worst bomb ÷ quiet"
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


def delete(peers: Peers, name: str) -> float:
    """Time `crun delete -f` of a container on an overlay of its own, and its unmount."""
    with peers.held(name) as bundle:
        start = time.perf_counter()
        argv = [*peers.runtime("crun"), "delete", "-f", name]
        subprocess.run(argv, check=True, input=b"", capture_output=True)
        syscalls.umount(str(bundle / "root"))
        return time.perf_counter() - start


async def burns(host: Host, peers: Peers, book: Book, rounds: int) -> None:
    """Burn a desk and delete a container, alternately."""
    for number in range(rounds):
        desk = await ready(host)
        book.note(BURN, number, await timed(lambda desk=desk: host.burn(desk.id)))  # type: ignore[misc]
        name = f"bench-{os.getpid()}-{number}"
        book.note(DELETE, number, await anyio.to_thread.run_sync(delete, peers, name))


@asynccontextmanager
async def bombed(host: Host, argv: list[str]) -> AsyncIterator[Desk]:
    """Yield a desk in which a bomb runs."""
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
    """Return the median time of a quick program."""
    return statistics.median([await timed(lambda: desk.run(["true"])) for _ in range(count)])


async def neighbours(host: Host, book: Book) -> None:
    """Time a quick program beside each bomb, compared with the same a moment before."""
    found = {}
    async with host.open_desk() as neighbour:
        await latency(neighbour)
        for name, argv in BOMBS.items():
            quiet = await latency(neighbour)
            async with bombed(host, argv):
                found[f"beside {name} ÷ quiet"] = await latency(neighbour) / quiet
    book.facts.update(found)
    book.facts[WORST] = max(found.values())


async def measure(host: Host, peers: Peers, book: Book, rounds: int) -> None:
    await burns(host, peers, book, rounds)
    await neighbours(host, book)
