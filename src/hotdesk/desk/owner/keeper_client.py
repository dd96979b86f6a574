"""An owner's end of the socketpair to its keeper: requests, answers, and what the keeper tells unasked."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from typing import TypeAlias

import anyio

from hotdesk.desk.keeper.spawn import MESSAGE, Started
from hotdesk.desk.request import KeeperRequest, write
from hotdesk.errors import (
    BriefError,
    DeskError,
    DeskGone,
    DoorError,
    HostError,
    HotdeskError,
    ImageError,
    KeeperError,
    LinkError,
)
from hotdesk.linux.syscalls import close_all

Answer: TypeAlias = tuple[dict[str, object], list[int]]

ERRORS: dict[str, type[HotdeskError]] = {
    kind.code: kind for kind in (BriefError, HostError, ImageError, KeeperError, DoorError, DeskError, DeskGone)
}
ANSWER_SECONDS = 60.0
"""Beyond what any request takes: a keeper that is silent for so long is stopped or broken."""
SAVE_SECONDS = 3600.0
"""Seconds an image may take to be saved."""
REMEMBERED = 1024
"""Ends of desks that are kept in mind."""
BURN_SECONDS = 20.0
OBITUARY_SECONDS = 5.0


class KeeperClient:
    """An owner's end of the socketpair to its keeper."""

    def __init__(self, started: Started) -> None:
        started.sock.setblocking(False)
        self.sock = started.sock
        self.pid = started.pid
        self.ahead = started.ahead
        self.number = 1 if self.ahead else 0
        self.waiting: dict[int, anyio.Event] = {1: anyio.Event()} if self.ahead else {}
        self.answers: dict[int, Answer] = {}
        self.posted: dict[int, Callable[[HotdeskError], None]] = {}
        """Requests nobody waits for, and who is told when one is refused."""
        self.ended: dict[str, str] = {}
        """Why desks ended, as the keeper told."""
        self.mourners: dict[str, anyio.Event] = {}
        self.rootless: set[str] = set()
        """Desks whose root's guest ended."""
        self.failure: HotdeskError | None = None
        self.closing = False
        self.knocked: Callable[[str], None] = lambda desk: None
        """Told of a desk in which `sudo` calls and root is not up."""
        self.ends: Callable[[str, str], None] = lambda desk, why: None
        """Told of each desk that ended, and why."""

    async def run(self) -> None:
        """Hear answers and events until the keeper is gone.

        The event loop calls `listen` itself: waking a task for every message costs a claim a tenth of its time.
        """
        loop = asyncio.get_running_loop()
        over = anyio.Event()
        with self.sock:
            named().run(loop.add_reader, self.sock, self.listen, over)
            try:
                await over.wait()
            finally:
                loop.remove_reader(self.sock)
                anyio.notify_closing(self.sock)
                if self.ahead:  # what came of it nobody wanted
                    close_all(self.answers.pop(1, ({}, []))[1])

    def listen(self, over: anyio.Event) -> None:
        """Take the messages that have come."""
        while not over.is_set():
            try:
                data, fds, _, _ = socket.recv_fds(self.sock, MESSAGE, 8, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError:
                data, fds = b"", []
            if data:
                self.take(json.loads(data), list(fds))
            else:
                self.fail(KeeperError("the keeper of these desks died; they are being burnt, open others"))
                over.set()

    def take(self, message: dict[str, object], fds: list[int]) -> None:
        """Sort one message."""
        match message:
            case {"re": int(number)} if number in self.waiting:
                self.answers[number] = (message, fds)
                self.waiting[number].set()
            case {"re": int(number)} if number in self.posted:
                refused = self.posted.pop(number)
                if (wrong := error_of(message)) is not None:
                    refused(wrong)
            case {"event": "ended", "desk": str(desk), "why": str(why)}:
                self.ended[desk] = why
                if len(self.ended) > REMEMBERED:
                    del self.ended[next(iter(self.ended))]
                self.rootless.discard(desk)
                self.wake(desk)
                self.ends(desk, why)
            case {"event": "rootless", "desk": str(desk)}:
                self.rootless.add(desk)
                self.wake(desk)
            case {"event": "knock", "desk": str(desk)}:
                self.knocked(desk)
            case {"event": "unfit", "why": str(why)}:
                self.fail(HostError(f"no desk can be opened here: {why}"))
            case _:
                close_all(fds)  # the answer to a request whose asker was cancelled

    def wake(self, desk: str) -> None:
        """Let whoever waits for a desk's end look again."""
        if desk in self.mourners:
            self.mourners.pop(desk).set()

    async def mourn(self, desk: str, seconds: float, root: bool = False) -> None:
        """Wait until a desk, or the root in it, has ended; no longer than this."""
        with anyio.move_on_after(seconds):
            while desk not in self.ended and self.failure is None and not (root and desk in self.rootless):
                await self.mourners.setdefault(desk, anyio.Event()).wait()

    async def gone(self) -> None:
        """Wait until the keeper is gone."""
        while self.failure is None:
            await self.mourners.setdefault("", anyio.Event()).wait()

    def fail(self, why: HotdeskError) -> None:
        """Note why the keeper is gone, and tell everyone who waits."""
        self.failure = self.failure or why
        while self.posted:
            self.posted.popitem()[1](self.failure)
        for event in (*self.waiting.values(), *self.mourners.values()):
            event.set()

    async def obituary(self, desk: str, root: bool = False) -> DeskGone | LinkError:
        """Say why a guest that hung up is gone: its keeper's word follows within a moment."""
        await self.mourn(desk, OBITUARY_SECONDS, root)
        if root and desk not in self.ended and desk in self.rootless:
            return LinkError(f"root's guest in desk {desk} ended; the next call as root starts another")
        why = self.ended.get(desk) or (str(self.failure) if self.failure else "its guest hung up")
        return DeskGone(f"desk {desk} is gone: {why}; open another")

    def numbered(self, request: KeeperRequest) -> tuple[int, bool]:
        """Give a request its number, and say whether it was sent ahead."""
        if request.verb == self.ahead:
            self.ahead = ""
            return 1, True
        self.number += 1
        self.waiting[self.number] = anyio.Event()
        return self.number, False

    async def ask(self, request: KeeperRequest, descriptors: int = 0, seconds: float = ANSWER_SECONDS) -> Answer:
        """Send a request and wait for its answer, which comes with so many descriptors."""
        number, sent = self.numbered(request)
        try:
            with anyio.move_on_after(seconds):
                if not sent:
                    await self.send(write(number, request))
                await self.waiting[number].wait()
            if number not in self.answers:
                silent = f"the keeper did not answer within {seconds:.0f} s; is it stopped?"
                raise self.failure or KeeperError(silent)
            message, fds = self.answers.pop(number)
        finally:
            del self.waiting[number]
            close_all(self.answers.pop(number, ({}, []))[1])
        if (wrong := error_of(message)) is not None:
            raise wrong
        match message:
            case {"ok": dict(body)} if len(fds) == descriptors:
                return body, fds
            case {"ok": dict()} if len(fds) < descriptors:
                close_all(fds)
                raise HostError("this process has too many files open to take one more; raise its limit (ulimit -n)")
        raise KeeperError("the keeper answered strangely")

    async def post(self, request: KeeperRequest, refused: Callable[[HotdeskError], None]) -> None:
        """Send a request and wait for nothing; `refused` is told should the keeper not do it."""
        self.number += 1
        self.posted[self.number] = refused
        try:
            await self.send(write(self.number, request))
        except BaseException:
            self.posted.pop(self.number, None)
            raise

    async def tell(self, request: KeeperRequest) -> None:
        """Send a request that has no answer; a keeper that is gone needs none."""
        with contextlib.suppress(HotdeskError):
            await self.send(write(0, request))

    async def send(self, data: bytes) -> None:
        """Send one message."""
        if len(data) > MESSAGE:
            raise BriefError(
                f"a request of {len(data)} bytes is more than a keeper takes; put the environment in a file"
            )
        while True:
            if self.failure is not None:
                raise self.failure
            try:
                self.sock.send(data)
                return
            except BlockingIOError:
                await anyio.wait_writable(self.sock)
            except OSError as e:
                raise KeeperError("the keeper of these desks died") from e

    async def close(self) -> None:
        """Hang up; the keeper burns what is left, and we wait for that."""
        self.closing = True
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)
        with anyio.move_on_after(BURN_SECONDS):
            await anyio.to_thread.run_sync(wait_for, self.pid, abandon_on_cancel=True)


def error_of(message: dict[str, object]) -> HotdeskError | None:
    """Read what went wrong out of an answer, if it says so."""
    match message:
        case {"error": {"code": str(code), "text": str(text)}}:
            return ERRORS.get(code, KeeperError)(text)
    return None


def wait_for(pid: int) -> None:
    """Wait for a child of ours, unless somebody else did."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


@contextlib.contextmanager
def closing(fds: list[int]) -> Iterator[None]:
    """Close descriptors in the end."""
    try:
        yield
    finally:
        close_all(fds)


def named() -> contextvars.Context:
    """Give a context in which callbacks of asyncio know where they run, for they may start tasks.

    Without sniffio anyio asks asyncio; with it, only tasks are known, unless `anyio.run` began it all.
    """
    context = contextvars.copy_context()
    if (sniffio := sys.modules.get("sniffio")) is not None:
        context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context
