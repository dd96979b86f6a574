"""hotdesk compared with its peers in one run on one root file system: measures the promises of SPECIFICATION.md.

make bench            what can be measured with what is installed
make bench PEERS=1    installs the peers first
make bench-check      also fails, and names every promise that is broken or could not be measured

Rounds are interleaved, because machines are shared and noisy; a ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from bench import (
    builds,
    burns,
    charts,
    cluster,
    command,
    crowd,
    demo,
    door,
    hands,
    journal,
    live_fork,
    ports,
    report,
    sentry,
    server,
    snapshots,
    start,
    verify,
    view,
    warm,
    worker,
)
from bench.book import Book, busy_seconds
from bench.door_processes import install
from bench.peers import Peers, secluded

from hotdesk import config
from hotdesk.config import Config
from hotdesk.desk.image import image
from hotdesk.host import Host

Part = Callable[[Host, Peers, Path, Book, argparse.Namespace], Awaitable[None]]
PARTS: dict[str, Part] = {
    "start": lambda host, peers, home, book, asked: start.measure(host, peers, book, asked.rounds),
    "warm": lambda host, peers, home, book, asked: warm.measure(host, peers, book, asked.rounds),
    "command": lambda host, peers, home, book, asked: command.measure(peers, book, min(asked.rounds, 30)),
    "burns": lambda host, peers, home, book, asked: burns.measure(host, peers, book, min(asked.rounds, 30)),
    "crowd": lambda host, peers, home, book, asked: crowd.measure(
        host, peers, book, bursts=asked.bursts, size=asked.burst, stream=asked.stream, resting=asked.idle
    ),
    "snapshots": lambda host, peers, home, book, asked: snapshots.measure(host, home, book, min(asked.rounds, 20)),
    "sentry": lambda host, peers, home, book, asked: sentry.measure(host, peers, book, min(asked.rounds, 20)),
    "live-fork": lambda host, peers, home, book, asked: live_fork.measure(
        host, peers, home, book, min(asked.rounds, 10)
    ),
    "hands": lambda host, peers, home, book, asked: hands.measure(host, book, min(asked.rounds, 30)),
    "view": lambda host, peers, home, book, asked: view.measure(host, book, min(asked.rounds, 20)),
    "worker": lambda host, peers, home, book, asked: worker.measure(host, book, min(asked.rounds, 20)),
    "verify": lambda host, peers, home, book, asked: verify.measure(host, book, min(asked.rounds, 5)),
    "server": lambda host, peers, home, book, asked: server.measure(
        peers, home, book, rounds=min(asked.rounds, 30), burst=asked.burst, streams=200
    ),
    "builds": lambda host, peers, home, book, asked: builds.measure(home, book, min(asked.rounds, 5)),
    "ports": lambda host, peers, home, book, asked: ports.measure(home, book, rounds=min(asked.rounds, 5)),
    "demo": lambda host, peers, home, book, asked: demo.measure(home, book),
    "journal": lambda host, peers, home, book, asked: journal.measure(home, book, rounds=3),
    "cluster": lambda host, peers, home, book, asked: cluster.measure(
        home, book, seconds=15, rounds=min(asked.rounds, 3)
    ),
    "door": lambda host, peers, home, book, asked: door.measure(
        host.config.images, home, book, rounds=3, count=asked.requests, large=asked.large
    ),
}
OTHERS = "machine: % of its processors busy with others"
"""Load between parts, at most; CPU seconds cover the whole machine, so a run on a busy machine proves little."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=list(PARTS), help="run this part alone; may be repeated")
    parser.add_argument("--rounds", type=int, default=100, help="of starts; p99 needs a hundred")
    parser.add_argument("--bursts", type=int, default=3, help="bursts and streams")
    parser.add_argument("--burst", type=int, default=100, help="desks started together")
    parser.add_argument("--stream", type=int, default=100, help="desks of one stream; a quarter for podman")
    parser.add_argument("--idle", type=int, default=500, help="desks that idle together")
    parser.add_argument("--requests", type=int, default=5000, help="requests of one load at the door")
    parser.add_argument("--large", type=int, default=1 << 30, help="bytes of a large body at the door")
    parser.add_argument("--peers", action="store_true", help="install mitmproxy, beside which the door is measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write latest.json, promises.md and the charts there")
    parser.add_argument("--check", action="store_true", help="fail when a promise is broken or was not measured")
    return parser.parse_args()


def settle(home: Path) -> Config:
    """Choose a separate state directory, for this process and its children, with the machine's images."""
    images = config.load().images
    os.environ |= {"HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(images)}
    return config.load()


async def share_of_others() -> float:
    """Return how busy other programs keep the machine while this one rests, in percent."""
    busy, start = busy_seconds(), time.perf_counter()
    await anyio.sleep(1)
    return 100 * (busy_seconds() - busy) / (time.perf_counter() - start) / (os.cpu_count() or 1)


async def run(settings: Config, peers: Peers, home: Path, book: Book, asked: argparse.Namespace) -> None:
    """Run every selected part, each with a host of its own; report one that fails, and continue."""
    for name, part in PARTS.items():
        if asked.only and name not in asked.only:
            continue
        book.facts[OTHERS] = max(book.facts.get(OTHERS, 0.0), await share_of_others())
        start = time.perf_counter()
        folder = home / name
        folder.mkdir()
        try:
            async with Host(settings, control=False) as host:
                await part(host, peers, folder, book, asked)
        except Exception as e:  # noqa: BLE001 - whatever ends a part is a result of the run, and told in its table
            while isinstance(e, ExceptionGroup):
                e = e.exceptions[0]
            book.lack([name], f"{type(e).__name__}: {e}")
        shutil.rmtree(folder)
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)


def write(book: Book, asked: argparse.Namespace) -> None:
    """Write the selected files; print their paths."""
    chosen = {name: value for name, value in vars(asked).items() if isinstance(value, int) or name == "only"}
    data = json.dumps(report.as_json(book, chosen), indent=1, ensure_ascii=False) + "\n"
    if asked.json:
        asked.json.write_text(data)
    if asked.out:
        asked.out.mkdir(parents=True, exist_ok=True)
        files = {
            "latest.json": data,
            "promises.md": report.markdown(book),
            **charts.draw(book, asked.burst, report.machine()),
        }
        for name, content in files.items():
            (asked.out / name).write_text(content)
        print(f"\nwritten to {asked.out}: {', '.join(files)}")


def main() -> None:
    """Measure, print, write; fail if checking is selected and a promise is broken."""
    asked, book = arguments(), Book()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that child processes are ended
    if asked.peers:
        install()
    with (
        tempfile.TemporaryDirectory(prefix="hotdesk-bench-", dir="/var/tmp") as home,
        tempfile.TemporaryDirectory() as memory,
    ):
        os.chmod(home, 0o711)  # noqa: S103 - desks' users pass through it
        settings = settle(Path(home))
        peers = Peers(image.find(settings.images, "base").layers[0], Path(memory))
        with secluded(memory):
            anyio.run(run, settings, peers, Path(home), book, asked)
    print(f"hotdesk and its peers on {report.machine()}\n")
    parts = asked.only or list(PARTS)
    print("\n".join(report.table(book)), "", *report.promises(book, parts), sep="\n")
    write(book, asked)
    if asked.check and (failed := report.broken(book, parts)):
        print("\nbroken or not measured:", *failed, sep="\n  ")
        sys.exit(1)


if __name__ == "__main__":
    main()
