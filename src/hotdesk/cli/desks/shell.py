"""`hotdesk shell`: open a terminal at a desk."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from hotdesk import config
from hotdesk.cli import options, unlock
from hotdesk.cli.desks.run import open_fresh_desk
from hotdesk.cli.ids import find_desk
from hotdesk.cli.terminal import CHUNK, run_interruptible, write_all
from hotdesk.desk.login_shell import LOGIN_SHELL
from hotdesk.desk.seam import Desk, Process, Size
from hotdesk.errors import BriefError, make_printable
from hotdesk.host import borrow
from hotdesk.linux.landlock import confine

DAY = 86400.0
SCOPE = ("allow", "deny", "ask", "grant", "map", "no_ask")
"""Options for a new desk's scope, which do not apply to an open one."""
LEAVE = 0x1D
"""Ctrl-]: pressed three times within a second, it leaves a terminal whose desk no longer responds."""
LEAVE_TIMES, LEAVE_SECONDS = 3, 1.0
WAITING = 64
"""Maximum reads of the keyboard that wait for a desk."""
PASSED = ("TERM", "COLORTERM")
_SOBER = "\x1b[?1000;1002;1003;1006;1004;2004;1049l\x1b[?25h\x1b[!p"
"""Resets terminal modes that a desk may have set: mouse reports, bracketed paste, alternate screen, hidden cursor."""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("desk", nargs="?", metavar="ID", help="the id of an open desk (default: open a new desk)")
    parser.add_argument("--user", choices=("user", "root"), default="user", help="the user in the desk (default: user)")
    options.add_spec(parser)
    options.add_scope(parser)
    options.add_command(parser)


def main(arguments: argparse.Namespace) -> int:
    """Open a terminal at a desk, with colours, resizing, Ctrl-C and job control.

    Without an ID a new desk is opened, and burnt when the shell ends. Output of programs
    reaches your terminal unchanged. If the desk no longer responds, press Ctrl-] three times to leave.

    For example:

      hotdesk shell
      hotdesk shell $ID
      hotdesk shell $ID -- htop
      hotdesk shell --root --user root
      hotdesk shell --allow pypi --allow github-read
    """
    if arguments.desk and (conflicting := [name for name in SCOPE if getattr(arguments, name)]):
        option = conflicting[0].replace("_", "-")
        raise BriefError(
            f"--{option} applies to a new desk only; leave out the desk's id, or pass --{option} to `hotdesk open`"
        )
    spec = None if arguments.desk else options.make_spec(arguments, deadline=DAY, idle=DAY)
    scope = options.make_scope(arguments)
    if not (os.isatty(0) and os.isatty(1)):
        raise BriefError("`hotdesk shell` needs a terminal; use `hotdesk exec ID COMMAND` or `hotdesk run COMMAND`")
    settings = config.load()
    command = arguments.command or LOGIN_SHELL
    chosen = find_desk(settings, arguments.desk) if arguments.desk else None
    key = unlock.find(settings, scope) if scope.grants else ""

    async def work() -> int:
        if chosen is not None:
            confine([])
            async with borrow(settings, chosen) as desk:
                return await sit(desk, command, arguments.user)
        assert spec is not None
        async with open_fresh_desk(settings, spec, scope, key, confine) as desk:
            return await sit(desk, command, arguments.user)

    return run_interruptible(work)


async def sit(desk: Desk, command: list[str], user: str) -> int:
    """Connect this terminal with one in the desk until its program ends; return the program's exit code."""
    env = {"TERM": "xterm-256color", **{name: os.environ[name] for name in PASSED if name in os.environ}}
    process = await desk.start(command, env=env, user=user, pty=_get_window_size())
    done = None
    try:
        with raw():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_type_in, process, tasks.cancel_scope)
                tasks.start_soon(_keep_size, process)
                async for _, data in process.output():
                    if not write_all(1, data):
                        break
                else:
                    done = await process.wait()
                tasks.cancel_scope.cancel()
    finally:
        if done is None:
            await process.kill()
    if done is None:
        return 128 + signal.SIGHUP
    if done.reason:
        print(f"hotdesk: {make_printable(done.reason)}", file=sys.stderr)
    return done.exit_code


def _get_window_size() -> Size:
    """Return the size of this terminal, or the default size if it is unknown."""
    with suppress(OSError, BriefError):
        columns, rows = os.get_terminal_size(1)
        return Size(rows, columns)
    return Size()


@contextmanager
def raw() -> Iterator[None]:
    """Pass all keys through unchanged; at the end, restore the terminal whatever the desk did to it."""
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        write_all(1, _SOBER.encode())


async def _type_in(process: Process, scope: anyio.CancelScope) -> None:
    """Send keyboard input to the desk until the person leaves or the terminal is gone.

    Keys are read even while the desk accepts none, so that one can leave; input beyond the buffer is dropped.
    """
    presses: list[float] = []
    keys, typed = anyio.create_memory_object_stream[bytes](WAITING)
    async with anyio.create_task_group() as tasks, keys, typed:
        tasks.start_soon(pass_on, typed, process)
        while True:
            await anyio.wait_readable(0)
            data = os.read(0, CHUNK)
            if not data or _is_leaving(data, presses):
                scope.cancel()
                return
            with suppress(anyio.WouldBlock):
                keys.send_nowait(data)


async def pass_on(typed: MemoryObjectReceiveStream[bytes], process: Process) -> None:
    async for data in typed:
        await process.send(data)


def _is_leaving(data: bytes, presses: list[float]) -> bool:
    for key in data:
        if key == LEAVE:
            presses.append(time.monotonic())
        else:
            presses.clear()
    recent = presses[-LEAVE_TIMES:]
    return len(recent) == LEAVE_TIMES and recent[-1] - recent[0] <= LEAVE_SECONDS


async def _keep_size(process: Process) -> None:
    with anyio.open_signal_receiver(signal.SIGWINCH) as signals:
        async for _ in signals:
            await process.resize(_get_window_size())
