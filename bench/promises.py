"""The numbers that SPECIFICATION.md promises, in one place: its table and `make bench-check` are made from this."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Literal

from bench import (
    builds,
    burns,
    command,
    crowd,
    demo,
    door,
    hands,
    journal,
    live_fork,
    ports,
    sentry,
    server,
    snapshots,
    start,
    verify,
    view,
    warm,
    worker,
)
from bench.book import Book

FLAT = 1.5
"""Largest ratio of two medians of a shared machine that still counts as flat."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A promised number."""

    what: str
    """Name of a sample or fact."""
    side: Literal["≤", "≥"]
    bound: float
    against: str = ""
    """Name of the sample to divide by, round by round; empty if the number itself is promised."""
    text: str = ""
    """The promise in a reader's words."""
    part: str = "start"
    """The part of the suite that measures it."""
    wall: str = "container"
    """The wall of the desks it is about."""
    aim: bool = False
    """Whether it is a goal not yet reached: it is reported, but is not a broken promise."""

    def found(self, book: Book) -> float | None:
        """Return the measured number, or None."""
        if self.against:
            return book.ratio(self.what, self.against)
        if self.what in book.facts:
            return book.facts[self.what]
        samples = book.samples(self.what)
        return statistics.median(samples) if samples else None

    def kept(self, book: Book) -> bool | None:
        """Return whether it was kept, or None if it was not measured."""
        value = self.found(book)
        if value is None:
            return None
        return value <= self.bound if self.side == "≤" else value >= self.bound

    def why_not(self, book: Book) -> str:
        """Return why it was not measured."""
        reasons = (book.lacking.get(name) for name in (self.what, self.against, self.part))
        return next((reason for reason in reasons if reason), "this run was asked for less")


RUN = "podman run"
PROMISES = (
    Promise(
        warm.WARM,
        "≤",
        0.6,
        warm.BWRAP,
        "warm claim → `true` → result ≤ 0.6 × `bwrap` with all namespaces running `true`",
        "warm",
    ),
    Promise(
        warm.WARM,
        "≤",
        0.02,
        warm.PODMAN,
        "warm claim → `true` → result ≤ 0.02 × a hardened `podman run --rm` on the same root file system",
        "warm",
    ),
    Promise(warm.WARM, "≤", 0.5, warm.BWRAP, "warm claim → `true` → result ≤ 0.5 × that `bwrap`", "warm", aim=True),
    Promise(warm.WARM, "≤", 0.25, warm.BWRAP, "warm claim → `true` → result ≤ 0.25 × that `bwrap`", "warm", aim=True),
    Promise(
        start.COLD, "≤", 0.25, RUN, "cold open → `true` → result, default disk included ≤ 0.25 × that `podman run`"
    ),
    Promise(start.SCOPED, "≤", 0.4, RUN, "the same with a scope and its self-test ≤ 0.4 × that `podman run`"),
    Promise(
        command.RUN,
        "≤",
        0.35,
        command.PODMAN,
        "`hotdesk run -- true` as a whole process, a holder running ≤ 0.35 × that `podman run`",
        "command",
    ),
    Promise(
        command.FIRST,
        "≤",
        1,
        command.PODMAN,
        "the first `hotdesk run -- true`, which finds no holder ≤ 1 × that `podman run`",
        "command",
    ),
    Promise(
        command.FIRST, "≤", 0.9, command.PODMAN, "that first command ≤ 0.9 × that `podman run`", "command", aim=True
    ),
    Promise(command.EXEC, "≤", 0.06, "", "`hotdesk exec ID -- true` as a whole process ≤ 0.06 s", "command"),
    Promise(command.PS, "≤", 0.06, "", "`hotdesk ps` as a whole process ≤ 0.06 s", "command"),
    Promise(command.SSH, "≤", 0.15, "", "`ssh ID.desk` until its prompt ≤ 0.15 s", "command"),
    Promise(
        start.EXEC, "≤", 2.0, start.LOCAL, '`true` in an open desk ≤ 2 × `subprocess.run(["true"])` by the same Python'
    ),
    Promise(start.EXEC, "≤", 0.05, start.PODMAN_EXEC, "`true` in an open desk ≤ 0.05 × `podman exec`"),
    Promise(crowd.PRIVATE, "≤", 8, "", "memory of an idle desk's guest that it does not share ≤ 8 MiB", "crowd"),
    Promise(crowd.answered(100), "≥", 100, "", "a burst of 100 cold opens: 100 % of the desks answer", "crowd"),
    Promise(
        crowd.burst_of(100),
        "≤",
        0.4,
        crowd.podman_burst_of(100),
        "a burst of 100 cold opens, until all answered ≤ 0.4 × 100 `podman run` started together",
        "crowd",
    ),
    Promise(
        crowd.THRIFT,
        "≥",
        3,
        crowd.PODMAN_THRIFT,
        "desks opened, used and burnt per CPU second ≥ 3 × `podman run`",
        "crowd",
    ),
    Promise(crowd.RATE, "≥", 60, "", "desks opened, used and burnt per second ≥ 60", "crowd", aim=True),
    Promise(crowd.weight(500), "≤", 5, "", "500 idle desks within 5 GiB", "crowd"),
    Promise(crowd.pinged(500), "≥", 100, "", "of 500 idle desks 100 % answer", "crowd"),
    Promise(crowd.ping(500), "≤", 2, "", "500 idle desks all answer within 2 s", "crowd"),
    Promise(burns.BURN, "≤", 1.5, burns.DELETE, "burn ≤ 1.5 × `crun delete -f` and unmounts", "burns"),
    Promise(
        burns.WORST,
        "≤",
        5,
        "",
        "beside a bomb (processor, fork, memory, disk, names, output) a neighbour's `true` ≤ 5 × its quiet value",
        "burns",
    ),
    Promise(
        snapshots.changed(1),
        "≤",
        3,
        snapshots.bare(1),
        "snapshot after 1 MiB of change ≤ 3 × one `btrfs subvolume snapshot`",
        "snapshots",
    ),
    Promise(
        snapshots.lying(500),
        "≤",
        FLAT,
        snapshots.lying(0),
        "snapshot with 500 MiB in the upper layer ≤ 1.5 × with none: flat",
        "snapshots",
    ),
    Promise(
        snapshots.LARGE,
        "≤",
        FLAT,
        snapshots.BASE,
        "snapshot on an image 500 MiB larger ≤ 1.5 × on the base image: flat",
        "snapshots",
    ),
    Promise(
        snapshots.ROLLBACK, "≤", 1.5, snapshots.REOPEN, "rollback → `true` → result ≤ 1.5 × a cold open", "snapshots"
    ),
    Promise(snapshots.FORK, "≤", 1, snapshots.OPENS, "fork(20) ≤ 1 × 20 cold opens, one after another", "snapshots"),
    Promise(snapshots.FORK, "≤", 1, snapshots.CROWD, "fork(20) ≤ 1 × 20 cold opens together", "snapshots", aim=True),
    Promise(builds.CACHED, "≤", 1, "", "a cached template build by E2B's SDK ≤ 1 s", "builds"),
    Promise(
        builds.LAYER,
        "≤",
        1.3,
        builds.COMMAND,
        "a template build of one command ≤ 1.3 × that command in a sandbox",
        "builds",
        aim=True,
    ),
    Promise(door.RATE, "≥", 1.7, door.PEER_RATE, "requests a CPU second of door and keys ≥ 1.7 × mitmproxy 11", "door"),
    Promise(door.RATE, "≥", 2.5, door.PEER_RATE, "those requests ≥ 2.5 × mitmproxy 11", "door", aim=True),
    Promise(door.grew("up"), "≤", 16, "", "1 GiB up: the door's memory grows ≤ 16 MiB", "door"),
    Promise(door.grew("down"), "≤", 16, "", "1 GiB down: the door's memory grows ≤ 16 MiB", "door"),
    Promise(door.IDLE, "≤", 100, "", "an idle door's memory per desk ≤ 100 KiB", "door"),
    Promise(
        door.LATENCY,
        "≤",
        1.5,
        door.RELAYED,
        "the door's latency at one connection ≤ 1.5 × a relay that only terminates TLS",
        "door",
        aim=True,
    ),
    Promise(door.SELFTEST, "≤", 0.5, door.OPEN, "self-test ≤ 0.5 × a cold open", "door", aim=True),
    Promise(
        worker.ACT,
        "≤",
        12,
        worker.COMMIT,
        "an act, beside model and tool ≤ 12 × one SQLite commit (FULL) between two acts",
        "worker",
    ),
    Promise(worker.BEYOND, "≤", 3, "", "an act, beyond two such commits ≤ 3 ms", "worker", aim=True),
    Promise(
        worker.FIRST_SCOPED,
        "≤",
        0.05,
        "",
        "from the approved plan to the first act, beside the model's time, with a desk ready ≤ 0.05 s",
        "worker",
    ),
    Promise(worker.GREW, "≤", 4, "", "a job of 500 acts: memory at act 500 ≤ 4 MiB above that at act 100", "worker"),
    Promise(worker.JOURNAL, "≤", 4, "", "a job of 500 acts: ≤ 4 KiB of journal an act, beside its papers", "worker"),
    Promise(
        journal.BOTH,
        "≤",
        3,
        "",
        "10,000 events of a job appended, each commit on disk, and verified ≤ 3 CPU seconds",
        "journal",
    ),
    Promise(
        verify.VERIFIED,
        "≤",
        2,
        verify.CONVERTED,
        "a workbook of 500 rows verified, opening the clean desk included ≤ 2 × one cold LibreOffice conversion to PDF",
        "verify",
    ),
    Promise(
        verify.RATE,
        "≥",
        3,
        "",
        "100 workbooks of one job verified in one clean desk, its opening included ≥ 3/s",
        "verify",
        aim=True,
    ),
    Promise(
        demo.OWN,
        "≤",
        15,
        "",
        "`make demo`: hotdesk's own part of its time, beside tools and checks at work ≤ 15 %",
        "demo",
    ),
    Promise(demo.OWN, "≤", 10, "", "`make demo`: that part ≤ 10 %", "demo", aim=True),
    Promise(demo.OWN, "≤", 5, "", "`make demo`: that part ≤ 5 %", "demo", aim=True),
    Promise(hands.PNG, "≤", 0.2, hands.SCROT_PNG, "a screenshot as PNG ≤ 0.2 × `scrot` in the same desk", "hands"),
    Promise(hands.JPEG, "≤", 0.75, hands.SCROT_JPEG, "a screenshot as JPEG ≤ 0.75 × `scrot` in the same desk", "hands"),
    Promise(
        hands.KEY,
        "≤",
        0.2,
        hands.XDOTOOL_KEY,
        "a key, until the program has it and the call is back ≤ 0.2 × `xdotool`",
        "hands",
    ),
    Promise(hands.KEY, "≤", 0.1, hands.XDOTOOL_KEY, "that key ≤ 0.1 × `xdotool`", "hands", aim=True),
    Promise(
        hands.CLICK,
        "≤",
        0.1,
        hands.XDOTOOL_CLICK,
        "a click, until the program has it and the call is back ≤ 0.1 × `xdotool`",
        "hands",
    ),
    Promise(
        hands.WARM,
        "≤",
        3,
        hands.WARM_BASE,
        "warm desktop claim → first screenshot ≤ 3 × a warm base claim and one screenshot",
        "hands",
    ),
    Promise(view.FRAME, "≤", 0.3, "", "live view: first frame within 0.3 s after the page opens", "view"),
    Promise(
        hands.arrival(hands.KEY),
        "≤",
        0.1,
        hands.arrival(hands.XDOTOOL_KEY),
        "a key, until the program has it ≤ 0.1 × `xdotool`",
        "hands",
        aim=True,
    ),
    Promise(
        hands.arrival(hands.CLICK),
        "≤",
        0.1,
        hands.arrival(hands.XDOTOOL_CLICK),
        "a click, until the program has it ≤ 0.1 × `xdotool`",
        "hands",
        aim=True,
    ),
    Promise(
        live_fork.FORK,
        "≤",
        1.5,
        live_fork.PLAIN,
        "live fork behind gVisor, until the copy answers ≤ 1.5 × plain `runsc checkpoint` and `runsc restore`",
        "live-fork",
        aim=True,
    ),
    Promise(
        server.LIFE, "≤", 0.06, "", 'E2B\'s `Sandbox.create()`, `commands.run("true")`, `kill()` ≤ 0.06 s', "server"
    ),
    Promise(
        server.LIFE,
        "≤",
        0.35,
        server.PODMAN,
        "that sandbox's whole life ≤ 0.35 × a hardened `podman run --rm true`",
        "server",
    ),
    Promise(server.LIFE, "≤", 0.015, "", "that sandbox's whole life by the E2B SDK ≤ 0.015 s", "server", aim=True),
    Promise(
        server.LIFE,
        "≤",
        0.08,
        server.PODMAN,
        "that sandbox's whole life ≤ 0.08 × a hardened `podman run --rm true`",
        "server",
        aim=True,
    ),
    Promise(
        server.claimed(100), "≤", 2, "", "the slower ones of that burst, with 100 ready desks (p95) ≤ 2 s", "server"
    ),
    Promise(server.slowest(100), "≤", 2, "", "the slower ones of that burst (p95) ≤ 2 s", "server", aim=True),
    Promise(
        ports.PORT, "≤", 2.0, ports.NGINX, "1 GiB through a port by TLS ≤ 2 × the CPU of nginx as TLS proxy", "ports"
    ),
    Promise(server.answered(100), "≥", 100, "", "a burst of 100 creates by the E2B SDK: 100 % are made", "server"),
    Promise(server.whole(200), "≥", 100, "", "200 streaming commands at once: 100 % of them without loss", "server"),
    Promise(server.LOOKUPS, "≥", 2000, "", "lookups of a sandbox ≥ 2000 per CPU second of the server", "server"),
    *(
        Promise(what, "≤", bound, against, text, "sentry", wall=sentry.WALL)
        for what, bound, against, text in (
            (sentry.COLD, 2.5, sentry.RUN, "cold open → `true` → result ≤ 2.5 × `runsc run true`"),
            (sentry.CLAIM, 0.15, sentry.RUN, "claim → `true` → result ≤ 0.15 × `runsc run true`"),
            (sentry.EXEC, 0.5, sentry.RUNSC_EXEC, "`true` in an open desk ≤ 0.5 × `runsc exec`"),
            (sentry.SNAPSHOT, 1.5, sentry.PLAIN_SNAPSHOT, "snapshot ≤ 1.5 × that of a desk behind `container`"),
            (sentry.BURN, 0.5, sentry.DELETE, "burn ≤ 0.5 × `runsc delete -f` and unmount"),
            (sentry.IDLE_CPU, 0.1, "", "an idle desk takes ≤ 0.1 % of a core"),
            (sentry.IDLE_MEMORY, 25, "", "an idle desk takes ≤ 25 MiB"),
        )
    ),
)
