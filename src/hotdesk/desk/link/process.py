"""A program in a desk, controlled over a channel of its link."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence

import anyio

from hotdesk.desk.link.channel import (
    GRACE_S,
    UNEXPECTED_FRAME,
    Body,
    Channel,
    Data,
    GuestEvent,
    GuestReply,
    make_invalid_error,
)
from hotdesk.desk.link.replies import as_done, check
from hotdesk.desk.seam import Done, Size, Stream, check_argv, check_variables
from hotdesk.errors import BriefError, LinkError
from hotdesk.linux.pace import scale_seconds
from hotdesk_guest import wire

STREAMS: dict[int, Stream] = {wire.STDOUT: "stdout", wire.STDERR: "stderr"}
EXIT_GRACE_S = 2.0
"""Seconds beyond a program's time limit to wait for the guest's report."""
MAX_TIMEOUT_S = 366 * 86400.0
"""A time limit above this many seconds counts as none."""


class LinkedProcess:
    """A program, controlled over a channel."""

    def __init__(self, channel: Channel, pid: int, done: Done | None, timeout: float | None) -> None:
        self.channel = channel
        self.pid = pid
        self.done = done
        self.clock = channel.link.clock
        self.deadline = math.inf if timeout is None else self.clock.get_time() + timeout + scale_seconds(EXIT_GRACE_S)
        self.stdin_closed = False

    async def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        while (chunk := await self.read_next()) is not None:
            yield chunk

    async def read_next(self) -> tuple[Stream, bytes] | None:
        """Return the next output of the program, or `None` once it has ended."""
        while self.done is None:
            item = await self.receive()
            if isinstance(item, Data):
                if item.stream not in STREAMS:
                    raise make_invalid_error(f"output on the unknown stream {item.stream}")
                return STREAMS[item.stream], item.data
            elif isinstance(item, GuestReply):
                await self.channel.drop()
                check("the program", item.body)
                self.done = as_done(item.body)
            elif item is not None:
                raise LinkError(UNEXPECTED_FRAME)
        return None

    async def receive(self) -> Data | GuestEvent | GuestReply | None:
        """Wait for the guest until the program's deadline; return `None` after that."""
        if self.deadline == math.inf:
            return await self.channel.receive()
        with self.clock.until(self.deadline):
            return await self.channel.receive()
        await self.give_up()
        return None

    async def give_up(self) -> None:
        """Stop waiting for a guest that does not enforce its program's time limit."""
        await self.kill()
        self.done = Done(exit_code=128 + 9, signal=9, timed_out=True)

    async def send(self, data: bytes) -> None:
        if not self.stdin_closed:
            await self.channel.send(data)

    async def close_stdin(self) -> None:
        if not self.stdin_closed:
            self.stdin_closed = True
            await self.channel.end()

    async def signal(self, number: int) -> None:
        if not 0 <= number <= 64:
            raise BriefError(f"{number} is not a signal; use a number from 0 to 64")
        await self.channel.order({"signal": number, "tree": False})

    async def resize(self, size: Size) -> None:
        await self.channel.order({"size": [size.rows, size.columns]})

    async def kill(self) -> None:
        with anyio.move_on_after(GRACE_S, shield=True):
            await self.channel.end_tree()

    async def wait(self) -> Done:
        async for _ in self.output():
            pass
        assert self.done is not None
        return self.done

    async def detach(self) -> None:
        await self.channel.drop()


def ask_exec(
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    cwd: str | None,
    timeout: float | None,
    *,
    stdin: bool,
    tell: bool,
) -> tuple[Body, float | None]:
    """Check a request and encode it for the guest. With `tell`, the guest sends the pid first."""
    check_argv(argv)
    if any("\0" in text for text in (*argv, cwd or "")):
        raise BriefError("a program's arguments and working folder must not contain a NUL byte")
    check_variables(env or {})
    if timeout is not None and not timeout < MAX_TIMEOUT_S:
        timeout = None
    limit = None if timeout is None else max(0, int(timeout * 1000))
    ask: Body = {"op": "exec", "argv": list(argv)}
    for name, value in (("env", dict(env or {})), ("cwd", cwd), ("stdin", stdin), ("tell", tell)):
        if value:
            ask[name] = value
    if limit is not None:
        ask["timeout"] = limit
    return ask, timeout


async def collect(process: LinkedProcess, limit: int) -> Done:
    """Collect a program's output up to a limit; discard the rest."""
    output: dict[Stream, list[bytes]] = {"stdout": [], "stderr": []}
    room = limit
    truncated = False
    while (chunk := await process.read_next()) is not None:
        stream, data = chunk
        if len(data) > room:
            truncated = True
            data = data[:room]
        room -= len(data)
        if data:
            output[stream].append(data)
    return Done(0, b"".join(output["stdout"]), b"".join(output["stderr"]), truncated=truncated)


async def collect_fed(process: LinkedProcess, stdin: bytes, limit: int) -> Done:
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(feed, process, stdin)
            done = await collect(process, limit)
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    return done


async def feed(process: LinkedProcess, data: bytes) -> None:
    await process.send(data)
    await process.close_stdin()
