"""Whole commands as people type them, compared with podman's: the first, which starts a holder, and later ones."""

from __future__ import annotations

import os
import pty
import resource
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import anyio
from bench.book import Book, seconds
from bench.peers import Peers
from bench.start import HOTDESK

from hotdesk.cli.quick.place import Place, list_holders

RUN, FIRST = "hotdesk run -- true", "hotdesk run -- true, the first"
ALONE = "hotdesk run --no-holder -- true"
CLIENT = "hotdesk run: CPU seconds of the command itself"
PS, EXEC = "hotdesk ps", "hotdesk exec ID -- true"
SSH = "ssh ID.desk, until its prompt"
_PROMPT = b"$ "
PODMAN = "podman run, beside a command"
_END_SECONDS = 20.0
_REST_SECONDS = 1.0
"""Seconds until the holder of the first command has started."""


async def measure(peers: Peers, book: Book, rounds: int) -> None:
    """Time every command once a round; the first round only warms caches."""
    await anyio.to_thread.run_sync(_measure, peers, book, rounds)


def _measure(peers: Peers, book: Book, rounds: int) -> None:
    podman = "podman run" in peers.starts(book)
    if not podman:
        book.lack([PODMAN], book.lacking["podman run"])
    desk = subprocess.run([HOTDESK, "open"], check=True, capture_output=True, text=True).stdout.strip()
    try:
        for number in range(-1, rounds):
            kept = book if number >= 0 else Book()
            _take(kept, number, desk)
            if podman:
                kept.note(PODMAN, number, seconds([*peers.podman(), "true"]))
    finally:
        subprocess.run([HOTDESK, "burn", desk], check=False, capture_output=True)
        end_holders()


def _take(book: Book, number: int, desk: str) -> None:
    """Run one round; the first command finds no holder, because a new variable selects another one."""
    first = {**os.environ, "HOTDESK_LINGER": f"{1 + number / 1000}"}
    book.note(FIRST, number, _timed([HOTDESK, "run", "--", "true"], first))
    time.sleep(_REST_SECONDS)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    book.note(RUN, number, seconds([HOTDESK, "run", "--", "true"]))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    book.note(CLIENT, number, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    book.note(ALONE, number, seconds([HOTDESK, "run", "--no-holder", "--", "true"]))
    book.note(PS, number, seconds([HOTDESK, "ps"]))
    book.note(EXEC, number, seconds([HOTDESK, "exec", desk, "--", "true"]))
    book.note(SSH, number, _time_prompt(desk))


def _time_prompt(desk: str) -> float:
    """Time OpenSSH's client in a terminal until the desk's shell shows its prompt."""
    entry = subprocess.run([HOTDESK, "ssh", "--config"], check=True, capture_output=True, text=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config"
        config.write_text(entry.replace("ProxyCommand hotdesk", f"ProxyCommand {HOTDESK}"))
        start = time.perf_counter()
        pid, fd = pty.fork()
        if not pid:
            os.execvp("ssh", ["ssh", "-F", str(config), f"{desk}.desk"])  # noqa: S606 - a fixed program, no shell
        try:
            shown = b""
            while _PROMPT not in shown:
                shown += os.read(fd, 4096)
            return time.perf_counter() - start
        finally:
            os.close(fd)
            os.waitpid(pid, 0)


def _timed(argv: list[str], env: dict[str, str]) -> float:
    """Time one program with extra environment variables."""
    start = time.perf_counter()
    subprocess.run(argv, check=True, input=b"", capture_output=True, env=env)
    return time.perf_counter() - start


def end_holders() -> None:
    """End every holder, and wait until it has ended."""
    end = time.monotonic() + _END_SECONDS
    while (pids := list_holders(Place())) and time.monotonic() < end:
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        time.sleep(_REST_SECONDS)
