"""The server's line to its starter: keepers for tenants, and jobs as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import anyio

from hotdesk.api.launch.launcher import LINE, SOCKET, file_identity
from hotdesk.api.quotas import QuotaShare
from hotdesk.config import Config
from hotdesk.desk.keeper.spawn import MESSAGE, Started, encode_settings, pair
from hotdesk.errors import BriefError, HostError, HotdeskError, KeeperError
from hotdesk.ipc.child import SOURCE, START, send_now

PROGRAM = "hotdesk.api.launch.launcher"
ANSWER_SECONDS = 10.0
ENDING = 45.0
"""Seconds the starter may take to see everything off."""
REMEMBERED = 4096
"""Ends of jobs that are kept in mind."""
Job = tuple[str, str]
"""A tenant, and the id of a job."""
Take = Callable[[], QuotaShare]
"""Counts what a job will have; `QuotaError` when that is too much."""


class Starter:
    """Asks for keepers and jobs; hears of jobs' ends."""

    def __init__(self, line: socket.socket, pid: int) -> None:
        self.line = line
        self.pid = pid
        self.number = 0
        self.waiting: dict[int, anyio.Event] = {}
        self.answers: dict[int, Mapping[str, object]] = {}
        self.running: dict[Job, anyio.Event] = {}
        self.codes: dict[Job, int] = {}
        """How jobs ended."""
        self.ended: list[Callable[[str, str, int], None]] = []
        """Told of each job that ended: tenant, job, exit code."""
        self.gone = False
        self.counted: dict[Job, QuotaShare] = {}
        """What running jobs have of their tenants' quotas."""

    async def keeper(self, tenant: str) -> Started:
        """Have a keeper started for a tenant; this process is its owner."""
        ours, theirs = pair()
        try:
            with theirs:
                pid = await self.ask({"ask": "keeper", "tenant": tenant}, theirs.fileno())
        except BaseException:
            ours.close()
            raise
        return Started(ours, pid)

    async def work(self, tenant: str, job: str, take: Take | None = None, **options: object) -> int:
        """Have a job carried out whose brief lies in its folder (`orders.folder_of`, below it `brief/`); give its pid.

        Options: requester, template, models, planners, approve, seconds, tokens, dollars, acts.
        """
        return await self.begin("work", tenant, job, options, take)

    async def resume(self, tenant: str, job: str, take: Take | None = None, **options: object) -> int:
        """Go on with a job that stopped; options: requester, models, approve, seconds, tokens, dollars, acts."""
        return await self.begin("resume", tenant, job, options, take)

    async def resume_with_key(self, tenant: str, job: str, take: Take | None, key: bytes, **options: object) -> int:
        """Go on with a job, with a key for its model: only its process has it, and only while it runs."""
        with memory_of(key) as fd:
            return await self.begin("resume", tenant, job, {**options, "key": True}, take, fd)

    async def begin(
        self, act: str, tenant: str, job: str, options: Mapping[str, object], take: Take | None, *fds: int
    ) -> int:
        """Start a job's process, however impatient the asker: what was started is known to run."""
        if self.is_running(tenant, job):
            raise BriefError(f"job {job[:40]} runs already")
        if take is not None:
            self.counted[tenant, job] = take()
        self.running[tenant, job] = anyio.Event()
        self.codes.pop((tenant, job), None)
        try:
            with anyio.CancelScope(shield=True):
                pid = await self.ask({"ask": act, "tenant": tenant, "job": job, "options": dict(options)}, *fds)
        except HotdeskError:
            del self.running[tenant, job]
            self.give_back(tenant, job)
            raise
        return pid

    def give_back(self, tenant: str, job: str) -> None:
        """Count a job no more."""
        if (taken := self.counted.pop((tenant, job), None)) is not None:
            taken.free()

    def is_running(self, tenant: str, job: str) -> bool:
        """Say whether a job's process runs."""
        return (tenant, job) in self.running

    async def signal(self, tenant: str, job: str, number: int = signal.SIGINT) -> None:
        """Ask a job to stop where it can be resumed; a second time burns its desks."""
        await self.ask({"ask": "signal", "tenant": tenant, "job": job, "signal": int(number)})

    async def wait(self, tenant: str, job: str) -> int | None:
        """Wait until a job's process has ended; give its exit code, None when none was started."""
        if (running := self.running.get((tenant, job))) is not None:
            await running.wait()
        return self.codes.get((tenant, job))

    async def keep_secret(self, tenant: str, name: str, kind: str, value: bytes) -> None:
        """Put a secret into a tenant's vault; `BriefError` says what is wrong with it."""
        with memory_of(value) as fd:
            await self.ask({"ask": "secret", "tenant": tenant, "name": name, "kind": kind}, fd)

    async def forget_secret(self, tenant: str, name: str) -> None:
        """Remove a secret from a tenant's vault."""
        await self.ask({"ask": "unsecret", "tenant": tenant, "name": name})

    async def remove_image(self, tenant: str, name: str) -> None:
        """Remove the image of a tenant's snapshot; `BriefError` while a desk stands on it."""
        await self.ask({"ask": "unsave", "tenant": tenant, "name": name})

    async def ask(self, message: Mapping[str, object], *fds: int) -> int:
        """Ask for something; give the pid it concerns."""
        self.number += 1
        number = self.number
        self.waiting[number] = anyio.Event()
        try:
            with anyio.move_on_after(ANSWER_SECONDS):
                await self.send(json.dumps({**message, "number": number}).encode(), fds)
                await self.waiting[number].wait()
            match self.answers.pop(number, {}):
                case {"ok": int(pid)}:
                    return pid
                case {"code": str(code), "error": str(why)}:
                    raise BriefError(why) if code == BriefError.code else HostError(why)
        finally:
            del self.waiting[number]
        raise KeeperError("the starter of this server does not answer; restart the server")

    async def send(self, data: bytes, fds: Sequence[int]) -> None:
        """Send one message."""
        while not self.gone:
            try:
                send_now(self.line, data, fds)
                return
            except BlockingIOError:
                await anyio.wait_writable(self.line)
            except OSError:
                self.gone = True

    async def listen(self) -> None:
        """Hear answers and events until the starter is gone."""
        while not self.gone:
            try:
                data = self.line.recv(MESSAGE, socket.MSG_DONTWAIT)
            except BlockingIOError:
                await anyio.wait_readable(self.line)
                continue
            except OSError:
                data = b""
            self.gone = not data
            if data:
                self.take(json.loads(data))
        for event in (*self.waiting.values(), *self.running.values()):
            event.set()

    def take(self, message: Mapping[str, object]) -> None:
        """Sort one message."""
        match message:
            case {"re": int(number)} if number in self.waiting:
                self.answers[number] = message
                self.waiting[number].set()
            case {"event": "ended", "tenant": str(tenant), "job": str(job), "code": int(code)}:
                self.codes[tenant, job] = code
                if len(self.codes) > REMEMBERED:
                    del self.codes[next(iter(self.codes))]
                self.give_back(tenant, job)
                if (running := self.running.pop((tenant, job), None)) is not None:
                    running.set()
                for told in self.ended:
                    told(tenant, job, code)


@contextmanager
def memory_of(value: bytes) -> Iterator[int]:
    """Give a descriptor from which a secret can be read, for the length of a block."""
    fd = os.memfd_create("secret", os.MFD_CLOEXEC)
    try:
        os.write(fd, value)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


def spawn(settings: Config, templates: Sequence[Path] = (), models: Sequence[str] = ()) -> Starter:
    """Start the starter; call it while this process may still do everything."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    told = {
        "settings": encode_settings(settings),
        "templates": [str(path.absolute()) for path in templates],
        "models": list(models),
        "socket": file_identity(settings.run / SOCKET),
    }
    with theirs, open(os.devnull, "r+b") as null:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-B", "-c", START, str(SOURCE), PROGRAM, json.dumps(told)],
            dict(os.environ),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), LINE),
                (os.POSIX_SPAWN_DUP2, null.fileno(), 0),
                (os.POSIX_SPAWN_DUP2, null.fileno(), 1),
            ],
            setsid=True,
        )
    ours.setblocking(False)
    return Starter(ours, pid)


@asynccontextmanager
async def started(
    settings: Config, templates: Sequence[Path] = (), models: Sequence[str] = ()
) -> AsyncIterator[Starter]:
    """Give a starter for the length of a block; in the end it sees off what it started."""
    starter = spawn(settings, templates, models)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(starter.listen)
            try:
                yield starter
            finally:
                tasks.cancel_scope.cancel()
    finally:
        starter.line.close()
        with anyio.move_on_after(ENDING, shield=True):
            await anyio.to_thread.run_sync(see_off, starter.pid, abandon_on_cancel=True)


def see_off(pid: int) -> None:
    """Wait for the starter to end."""
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)
