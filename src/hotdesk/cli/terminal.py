"""A command's streams on this terminal: bytes are passed through, and the exit code is as from a shell."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio

from hotdesk.cli.columns import align_columns as align_columns
from hotdesk.desk.seam import Desk, Done, Process
from hotdesk.errors import make_printable, unwrap_group

_TIMED_OUT = 124
CHUNK = 1 << 16


async def follow(
    desk: Desk,
    argv: list[str],
    *,
    env: dict[str, str],
    cwd: str | None,
    timeout: float | None,
    user: str | None = None,
) -> int:
    """Run a command with this terminal's streams; return its exit code, or 124 if its time limit was reached."""
    process = await desk.start(argv, env=env, cwd=cwd, timeout=timeout, user=user)
    done: Done | None = None
    deaf = False
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(feed, process)
            async for stream, data in process.output():
                if not write_all(1 if stream == "stdout" else 2, data):
                    deaf = True
                    break
            tasks.cancel_scope.cancel()
        if deaf:
            return 128 + signal.SIGPIPE
        done = await process.wait()
    finally:
        if done is None:
            await process.kill()
    if done.reason:
        print(f"hotdesk: {make_printable(done.reason)}", file=sys.stderr)
    if done.timed_out:
        print(f"hotdesk: the command did not end within {timeout} s and was killed", file=sys.stderr)
        return _TIMED_OUT
    return done.exit_code


async def feed(process: Process) -> None:
    """Pass standard input to the command until it ends."""
    pollable = stat.S_ISFIFO(os.fstat(0).st_mode) or stat.S_ISSOCK(os.fstat(0).st_mode) or os.isatty(0)
    while True:
        if pollable:
            await anyio.wait_readable(0)
        data = os.read(0, CHUNK)
        if not data:
            break
        await process.send(data)
    await process.close_stdin()


def write_all(fd: int, data: bytes) -> bool:
    """Write to this process's own terminal or pipe; return `False` if no reader is left."""
    try:
        while data:
            data = data[os.write(fd, data) :]
    except BrokenPipeError:
        return False
    return True


def run_interruptible(
    work: Callable[[], Coroutine[Any, Any, int]],
    stop: Callable[[], None] | None = None,
    reload: Callable[[], None] | None = None,
) -> int:
    """Run a command's work; SIGINT, SIGTERM and SIGHUP cancel it, so that its desk is burnt.

    With `reload`, SIGHUP calls that instead. With `stop`, the first signal calls that and the second cancels. Later
    signals have no effect: they would interrupt the burn, and leave a process that waits for its own threads. Signals
    that the caller ignores, such as SIGHUP after `nohup`, stay ignored, unless SIGHUP reloads.
    """
    caught = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) != signal.SIG_IGN or (number == signal.SIGHUP and reload is not None)
    ]

    async def run_with_signals() -> int:
        code = 128 + signal.SIGINT
        with anyio.open_signal_receiver(*caught) as signals:
            async with anyio.create_task_group() as tasks:

                async def listen() -> None:
                    nonlocal code, stop
                    async for number in signals:
                        if number == signal.SIGHUP and reload is not None:
                            reload()
                            continue
                        if stop is not None:
                            stop()
                            stop = None
                            continue
                        code = 128 + number
                        tasks.cancel_scope.cancel()
                        return

                tasks.start_soon(listen)
                code = await work()
                tasks.cancel_scope.cancel()
        return code

    return _run_event_loop(run_with_signals)


def _run_event_loop(work: Callable[[], Awaitable[int]]) -> int:
    """Run an event loop; an exception that is alone in its group is raised itself."""
    try:
        return anyio.run(work)
    except BaseExceptionGroup as group:
        raise unwrap_group(group) from None
