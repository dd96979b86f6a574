"""One kernel as seen by the server: a child that reads code from one descriptor and writes events to another.

Every piece of code has a number, which comes before it (`7 CODE`) and which its last event repeats
(`{"type": "end", "number": 7}`). Ends with other numbers are ignored: a client may leave before it read an end.

Output of the kernel and its children on descriptors 1 and 2 is reported as events. All of it is untrusted: it is
bounded, and read only while a client consumes it.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

READ = 1 << 16
MAX_EVENT_BYTES = 128 << 20
"""Maximum bytes of an event."""
MAX_READS = 64
"""Maximum consecutive reads of one output stream, so that endless output does not delay events."""
LIFE_INTERVAL_S = 0.5
"""Seconds between two looks whether a silent kernel lives: a program it left behind may hold its pipes open."""
Event = dict[str, Any]


class KernelDiedError(Exception):
    """The kernel's process ended."""


class InterpreterKernel:
    """A child process that runs code."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> None:
        self.env, self.cwd = dict(env), cwd
        orders, self.orders = os.pipe()
        self.events, events = os.pipe()
        try:
            self.process = subprocess.Popen(
                [*argv, str(orders), str(events)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self.env,
                cwd=cwd,
                pass_fds=(orders, events),
                start_new_session=True,
            )
        except BaseException:
            os.close(self.orders)
            os.close(self.events)
            raise
        finally:
            os.close(orders)
            os.close(events)
        out, err = self.process.stdout, self.process.stderr
        assert out is not None
        assert err is not None
        self.outputs = {
            out.fileno(): ("stdout", codecs.getincrementaldecoder("utf-8")("replace")),
            err.fileno(): ("stderr", codecs.getincrementaldecoder("utf-8")("replace")),
        }
        self.partial = bytearray()
        self.pending: deque[Event] = deque()
        self.number = 0
        """Number of the code that it runs or ran last."""
        self.ended = False
        """Whether no more events can come."""
        self.up = False
        """Whether the kernel reported that it is ready, which not every language does."""
        self.first = b""
        """Input to send before the next code."""
        for fd in (self.events, *self.outputs, self.orders):
            os.set_blocking(fd, False)

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    async def wait_until_ready(self) -> None:
        while not self.up:
            self.receive()
            if self.ended:
                raise KernelDiedError
            if not self.up:
                await wait_readable((self.events,), LIFE_INTERVAL_S)

    async def begin(self, order: bytes) -> None:
        """Send code to the kernel; earlier unread output is discarded."""
        self.discard()
        self.number += 1
        order, self.first = self.first + b"%d " % self.number + order, b""
        view = memoryview(order)
        while view:
            try:
                view = view[os.write(self.orders, view) :]
            except BlockingIOError:
                await wait_writable(self.orders)
                if not self.lives:
                    raise KernelDiedError from None
            except OSError:
                raise KernelDiedError from None

    async def iterate_events(self, silence: float) -> AsyncIterator[Event]:
        """Yield events until the `end` of the code, and a `keepalive` after `silence` seconds without any."""
        while True:
            while self.pending:
                event = self.pending.popleft()
                yield event
                if event.get("type") == "end":
                    return
            if self.ended:
                raise KernelDiedError
            self.receive()
            if not self.pending and not self.ended and not await self.wait_for_news(silence):
                yield {"type": "keepalive"}

    async def wait_for_news(self, seconds: float) -> bool:
        """Wait until there is something to read or the process ended; return whether that happened."""
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0:
            if await wait_readable((self.events, *self.outputs), min(rest, LIFE_INTERVAL_S)) or not self.lives:
                return True
        return False

    def has_reported_end(self) -> bool:
        """Return whether the code has ended, though its end may not have been consumed yet."""
        self.receive()
        return any(event.get("type") == "end" for event in self.pending)

    def discard(self) -> None:
        """Drop what earlier code wrote, as far as it is available."""
        for _ in range(MAX_READS):
            self.receive()
            if not self.pending:
                return
            self.pending.clear()

    def receive(self) -> None:
        """Read available events: output first, so that output written before an event is reported before it."""
        lives = self.lives  # before the read: what a dead process wrote is then complete
        news = take(self.events)
        self.pending.extend(event for fd in list(self.outputs) for event in self.read_output(fd))
        self.ended = not news and (news is not None or not lives)
        if not news:
            return
        self.partial += news
        if len(self.partial) > MAX_EVENT_BYTES:
            self.kill()
            raise KernelDiedError
        *lines, rest = self.partial.split(b"\n") if b"\n" in news else [self.partial]
        self.partial = bytearray(rest)
        for line in lines:
            self.sort(parse_event(bytes(line)))

    def sort(self, event: Event | None) -> None:
        """Keep an event, unless it is invalid or the end of other code."""
        kind = None if event is None else event.get("type")
        self.up = self.up or kind == "up"
        if event is not None and kind != "up" and (kind != "end" or event.get("number") == self.number):
            self.pending.append(event)

    def read_output(self, fd: int) -> list[Event]:
        kind, decoder = self.outputs[fd]
        parts = []
        for _ in range(MAX_READS):
            data = take(fd)
            if not data:
                if data is not None:
                    del self.outputs[fd]  # end of the stream
                break
            parts.append(data)
        text = decoder.decode(b"".join(parts))
        return [{"type": kind, "text": text, "timestamp": time.time_ns()}] if text else []

    def interrupt(self, order: bytes) -> None:
        """Interrupt the running code by a signal and, if `order` is not empty, by an order."""
        with contextlib.suppress(OSError):
            os.write(self.orders, order and b"%d " % self.number + order)
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGINT)

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()

    async def close(self) -> None:
        """Kill the kernel and close its descriptors. A second call does nothing."""
        if self.orders < 0:
            return
        self.kill()
        while self.lives:  # noqa: ASYNC110 - a killed child is gone in a moment
            await asyncio.sleep(0.005)
        os.close(self.orders)
        os.close(self.events)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        self.orders = -1


def take(fd: int) -> bytes | None:
    """Read once; return `None` if nothing is available, and `b""` at the end."""
    try:
        return os.read(fd, READ)
    except BlockingIOError:
        return None


def parse_event(line: bytes) -> Event | None:
    """Parse one event; return `None` if it is invalid."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


async def wait_readable(fds: Sequence[int], seconds: float) -> bool:
    """Wait until one of the descriptors is readable; return whether one is."""
    loop = asyncio.get_running_loop()
    return await wait_ready(fds, loop.add_reader, loop.remove_reader, seconds)


async def wait_writable(fd: int) -> None:
    """Wait until a descriptor is writable, at most half a second."""
    loop = asyncio.get_running_loop()
    await wait_ready((fd,), loop.add_writer, loop.remove_writer, 0.5)


async def wait_ready(
    fds: Sequence[int], add: Callable[..., None], remove: Callable[[int], object], seconds: float
) -> bool:
    happened = asyncio.Event()
    for fd in fds:
        add(fd, happened.set)
    try:
        await asyncio.wait_for(happened.wait(), seconds)
    except TimeoutError:
        return False
    finally:
        for fd in fds:
            remove(fd)
    return True
