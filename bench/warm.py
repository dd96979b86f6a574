"""Warm claims: a ready desk, claimed until it answers, alternately with bubblewrap, podman and a cold open."""

from __future__ import annotations

import shutil

import anyio
from bench.book import Book, seconds, timed
from bench.peers import Peers
from bench.start import SCOPE, ready

from hotdesk.brief import Scope
from hotdesk.desk.seam import Desk, Spec
from hotdesk.host import Host

KEPT = 4
"""Ready desks of the pool."""
REST = 0.05
"""Seconds of rest before a measurement, so that the clean-up of the previous one does not slow it down."""
WARM, WARM_SCOPED = "warm claim → true → result", "warm claim with a scope"
COLD, BWRAP, PODMAN = "cold open beside a claim", "bubblewrap beside a claim", "podman run beside a claim"


async def measure(host: Host, peers: Peers, book: Book, rounds: int) -> None:
    """Claim a desk from a full pool once a round; the pool is full again before the next measurement."""
    every = {BWRAP: [*peers.bubblewrap(), "true"], PODMAN: [*peers.podman(), "true"]}
    starts = {name: argv for name, argv in every.items() if shutil.which(argv[0])}
    book.lack(every.keys() - starts.keys(), "not installed: make bench PEERS=1")
    async with Host(host.config, control=False) as poolless:
        host.keep_ready(Spec(), KEPT)
        host.keep_ready(Spec(), KEPT // 2, proven=True)
        for number in range(-1, rounds):
            kept = book if number >= 0 else Book()
            for name, chosen, scope in ((WARM, host, None), (WARM_SCOPED, host, SCOPE), (COLD, poolless, None)):
                await host.pool.wait_until_full()
                await anyio.sleep(REST)
                kept.note(name, number, await claim(chosen, scope))
            await host.pool.wait_until_full()
            for name, argv in starts.items():
                await anyio.sleep(REST)
                kept.note(name, number, await anyio.to_thread.run_sync(seconds, argv))


async def claim(host: Host, scope: Scope | None) -> float:
    """Time an open until the desk answers; then burn it."""
    opened: list[Desk] = []

    async def one() -> None:
        opened.append(await ready(host, scope))

    took = await timed(one)
    await host.burn(opened[0].id)
    return took
