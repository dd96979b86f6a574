"""Latency of start and exec: a desk's compared with its peers', each once a round."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

import anyio
from bench.book import Book, plainly, seconds, timed
from bench.peers import PODMAN, Peers, process

from hotdesk.brief import Scope, parse_rule
from hotdesk.desk.seam import Desk, Spec
from hotdesk.host import Host

HOTDESK = str(Path(sys.executable).parent / "hotdesk")
NAME = "erp.test"
SCOPE = Scope(rules=(parse_rule(f"read {NAME}/**"),), names={NAME: "127.0.0.1:9"})
"""Gives a desk a gate and canaries; no program uses them."""
COLD, SCOPED = "cold open → true → result", "the same with a scope and its self-test"
BURNT = "cold open → true → result → burn"
EXEC, LOCAL, PODMAN_EXEC, CRUN_EXEC = "desk: true", "subprocess.run: true", "podman exec true", "crun exec true"
EXECS = 20
"""Programs run in an open desk, and as often by the same Python, in each round."""


async def ready(host: Host, scope: Scope | None = None, spec: Spec | None = None) -> Desk:
    """Open a desk and have it answer."""
    desk = await (host.open(spec) if scope is None else host.open(spec, scope))
    done = await desk.run(["true"])
    if not done.ok:
        raise RuntimeError(f"true in desk {desk.id} ended with {done.exit_code}: {done.reason}")
    return desk


async def cold(host: Host, book: Book, number: int) -> None:
    """Time a cold open, one with a scope, and a whole life."""
    for name, scope in ((COLD, None), (SCOPED, SCOPE)):
        opened: list[Desk] = []

        async def one(scope: Scope | None = scope, opened: list[Desk] = opened) -> None:
            opened.append(await ready(host, scope))

        took = await timed(one)
        burning = await timed(lambda opened=opened: host.burn(opened[0].id))  # type: ignore[misc]
        book.note(name, number, took)
        if scope is None:
            book.note(BURNT, number, took + burning)


async def measure(host: Host, peers: Peers, book: Book, rounds: int) -> None:
    """Time every start and every exec once a round; the first round only warms caches."""
    starts = peers.starts(book)
    with ExitStack() as stack:
        execs = held(peers, book, stack, "podman run" in starts, "crun run" in starts)
        async with host.open_desk() as resident:
            for number in range(-1, rounds):
                kept = book if number >= 0 else Book()
                await cold(host, kept, number)
                kept.note(EXEC, number, *[await timed(lambda: resident.run(["true"])) for _ in range(EXECS)])
                kept.note(LOCAL, number, *[plainly(["true"]) for _ in range(EXECS)])
                for name, start in starts.items():
                    kept.note(name, number, await anyio.to_thread.run_sync(start))
                for name, argv in execs.items():
                    kept.note(name, number, await anyio.to_thread.run_sync(seconds, argv))
    peers.clear_nspawn()


def held(peers: Peers, book: Book, stack: ExitStack, podman: bool, crun: bool) -> dict[str, list[str]]:
    """Start a container of each peer that can run a second program in one; return the commands that do so."""
    found = {}
    if podman:
        found[PODMAN_EXEC] = [*PODMAN, "exec", stack.enter_context(peers.held_by_podman()), "true"]
    else:
        book.lack([PODMAN_EXEC], book.lacking["podman run"])
    if crun:
        name = f"bench-{os.getpid()}-held"
        bundle = stack.enter_context(peers.held(name))
        (bundle / "process.json").write_text(json.dumps(process(("true",))))
        found[CRUN_EXEC] = [*peers.runtime("crun"), "exec", f"--process={bundle}/process.json", name]
    else:
        book.lack([CRUN_EXEC], book.lacking["crun run"])
    if shutil.which(HOTDESK) is None:
        raise RuntimeError(f"{HOTDESK} is missing: make setup")
    return found
