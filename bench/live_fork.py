"""Live forks behind gVisor: until a copy answers, compared with plain `runsc checkpoint` and `runsc restore`.

The peer is a container on the same root file system with the same interpreters running, started by root, without desk,
door or self-test. Its checkpoint leaves it running, and its restore is timed until runsc reports that it is up.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
from bench.book import Book, seconds, timed
from bench.peers import Peers, process

from hotdesk.config import MIB
from hotdesk.desk.seam import Desk, Spec
from hotdesk.host import Host

SPEC = Spec(wall="gvisor", cpus=2, memory=1024 * MIB)
FORK, HIBERNATE, RESUME = "live fork → answers", "pause(keep=disk)", "resume of a hibernated desk"
PLAIN = "runsc checkpoint, then restore"
FLAGS = ("--platform=ptrace", "--network=none", "--overlay2=none", "--file-access=shared", "--ignore-cgroups")
"""The same as for a desk's runsc."""
COUNTER = "import time\nn = 0\nwhile True:\n    n += 1\n    time.sleep(0.01)\n"
TWICE = f"import os\nif os.fork():\n    os.wait()\nelse:\n    exec({COUNTER!r})\n"
"""A process that waits, as a desk's guest does, and one that counts."""


@contextmanager
def container(peers: Peers, name: str) -> Iterator[Path]:
    """Yield the bundle of a container that counts until the block ends."""
    with peers.bundle(name, "python3", "-c", TWICE) as bundle:
        (bundle / "config.json").write_text(json.dumps(configuration(str(bundle / "root"))))
        if quietly([*runsc(bundle), "run", "--detach", f"--bundle={bundle}", name]):
            raise RuntimeError("runsc run failed")
        try:
            yield bundle
        finally:
            quietly([*runsc(bundle), "delete", "--force", name])


def quietly(argv: list[str]) -> int:
    """Run a program with streams that a sentry may keep open for as long as it lives; return its exit code."""
    nothing = subprocess.DEVNULL
    return subprocess.run(argv, check=False, stdin=nothing, stdout=nothing, stderr=nothing).returncode


def configuration(root: str) -> dict[str, object]:
    """Return an OCI configuration without what runsc does itself."""
    kinds = ("pid", "ipc", "uts", "mount", "network")
    return {
        "ociVersion": "1.0.2",
        "root": {"path": root},
        "process": process(("python3", "-c", TWICE)),
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {"namespaces": [{"type": kind} for kind in kinds]},
    }


def runsc(bundle: Path) -> list[str]:
    """Return the runsc command with a state folder for this bundle."""
    return ["runsc", f"--root={bundle}/state", *FLAGS]


def copy_plainly(bundle: Path, home: Path, name: str, number: int) -> float:
    """Time a checkpoint to disk and a restore from it; the copy is deleted again."""
    image, state, other = home / f"image{number}", bundle / f"copy{number}", f"{name}-{number}"
    took = seconds(
        [*runsc(bundle), "checkpoint", f"--image-path={image}", "--leave-running", "--compression=none", name]
    )
    restore = ["runsc", f"--root={state}", *FLAGS, "restore", "--detach", f"--bundle={bundle}", f"--image-path={image}"]
    took += seconds_detached([*restore, other])
    quietly(["runsc", f"--root={state}", *FLAGS, "delete", "--force", other])
    shutil.rmtree(image)
    shutil.rmtree(state, ignore_errors=True)
    return took


def seconds_detached(argv: list[str]) -> float:
    """Time a program that leaves child processes behind with its streams."""
    start = time.perf_counter()
    code = quietly(argv)
    took = time.perf_counter() - start
    if code:
        raise RuntimeError(f"{' '.join(argv[:6])} ended with {code}")
    return took


async def fork(desk: Desk, host: Host) -> float:
    """Time a live fork; the copy is burnt again."""
    copies: list[Desk] = []

    async def work() -> None:
        copies.extend(await desk.fork(memory=True))

    took = await timed(work)
    await host.burn(copies[0].id)
    return took


async def measure(host: Host, peers: Peers, home: Path, book: Book, rounds: int) -> None:
    """Measure a live fork, the peer's and a hibernation once a round; the first round only warms caches."""
    if shutil.which("runsc") is None:
        book.lack([FORK, PLAIN, HIBERNATE, RESUME], "runsc is not installed: hotdesk setup --wall gvisor")
        return
    name = f"bench-{os.getpid()}-live"
    with container(peers, name) as bundle:
        async with host.open_desk(SPEC) as desk:
            await desk.start(["python3", "-c", COUNTER])
            for number in range(-1, rounds):
                noted = book if number >= 0 else Book()
                noted.note(PLAIN, number, await anyio.to_thread.run_sync(copy_plainly, bundle, home, name, number))
                noted.note(FORK, number, await fork(desk, host))
                noted.note(HIBERNATE, number, await timed(lambda: desk.pause(keep="disk")))
                noted.note(RESUME, number, await timed(desk.resume))
