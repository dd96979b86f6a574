"""Template builds by E2B's own SDK: one that is cached, and one layer compared with its plain command."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import anyio
from bench.book import Book
from bench.server import REST, Server, served
from bench.start import HOTDESK
from e2b import Sandbox, Template

CACHED = "E2B: a cached template build, in seconds"
LAYER, COMMAND = "E2B: a template layer", "E2B: its command in a sandbox"
WORK = (
    "python3 -c \"import hashlib, os; os.makedirs('made', exist_ok=True)\n"
    "for n in range(400): open(f'made/{n}', 'wb').write(hashlib.sha256(str(n).encode()).digest() * 4096)\n"
    "d = b'x'\n"
    'for n in range(2_000_000): d = hashlib.sha256(d).digest()"'
)
"""Some seconds of processor time, and fifty megabytes in four hundred files."""


async def measure(home: Path, book: Book, rounds: int) -> None:
    """Repeat the same builds; the first round only warms caches."""
    async with served(home) as server:
        try:
            for number in range(-1, rounds):
                noted = book if number >= 0 else Book()
                await anyio.sleep(REST)
                noted.note(LAYER, number, await anyio.to_thread.run_sync(build, server, True))
                noted.note(CACHED, number, await anyio.to_thread.run_sync(build, server, False))
                await anyio.sleep(REST)
                noted.note(COMMAND, number, await anyio.to_thread.run_sync(command, server))
        finally:
            with suppress(OSError):
                remove(home)


def build(server: Server, anew: bool) -> float:
    options = {name: server.e2b[name] for name in ("api_key", "api_url")}
    start = time.perf_counter()
    Template.build(Template().from_base_image().run_cmd(WORK), "bench", skip_cache=anew, **options)
    return time.perf_counter() - start


def command(server: Server) -> float:
    """Run the same command in an open sandbox."""
    sandbox = Sandbox.create(**server.e2b)
    try:
        start = time.perf_counter()
        sandbox.commands.run(WORK)
        return time.perf_counter() - start
    finally:
        sandbox.kill()


def remove(home: Path) -> None:
    """Remove the images of the builds."""
    records = json.loads((home / "lib/serve/templates.json").read_bytes())
    for name in {str(each["image"]) for each in records["layers"]}:
        subprocess.run([HOTDESK, "image", "rm", "--yes", name], check=False, capture_output=True)
