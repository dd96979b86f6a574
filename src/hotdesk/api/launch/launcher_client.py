"""The server's connection to its launcher: keepers for tenants, and jobs as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio

from hotdesk.api.launch.launcher import LINE, SOCKET, get_file_identity
from hotdesk.api.quotas import QuotaShare
from hotdesk.config import Config
from hotdesk.desk.keeper.spawn import Started, encode_settings, pair
from hotdesk.errors import BriefError, HotdeskError, KeeperError
from hotdesk.ipc.calls import PacketCalls, read_body
from hotdesk.ipc.child import SOURCE, START
from hotdesk.linux.pace import scale_seconds

PROGRAM = "hotdesk.api.launch.launcher"
ANSWER_TIMEOUT_S = 10.0
IMPORT_TIMEOUT_S = 600.0
"""Seconds that importing an image may take."""
EXIT_TIMEOUT_S = 45.0
"""Seconds the launcher may take to stop everything it started."""
_STARTING_SHARE = 0.8
"""The part of the time for an answer in which a job may be started: otherwise it would run uncounted."""
Job = tuple[str, str]
"""A tenant's name and a job's id."""
Take = Callable[[], QuotaShare]
"""Reserves a job's share of its tenant's quota; `QuotaError` if it does not fit."""


class LauncherClient(PacketCalls):
    """Has keepers and jobs started, and tracks which jobs run."""

    peer = "this server's launcher process"
    gone = "this server's launcher process does not respond; restart the server"

    def __init__(self, sock: socket.socket, pid: int) -> None:
        super().__init__(sock, pid)
        self.running: set[Job] = set()
        self.counted: dict[Job, QuotaShare] = {}
        """Shares of running jobs of their tenants' quotas."""

    async def start_keeper(self, tenant: str) -> Started:
        """Start a keeper for a tenant; this process is its owner."""
        ours, theirs = pair()
        try:
            with theirs:
                pid = await self.ask("keeper", tenant, theirs.fileno())
        except BaseException:
            ours.close()
            raise
        return Started(ours, pid)

    async def work(self, tenant: str, job: str, take: Take | None = None, **options: object) -> int:
        """Start a job whose brief is in its folder (`job_command.get_folder`, below it `brief/`); return its process
        id.

        Options: requester, template, models, planners, approve, seconds, tokens, dollars, acts.
        """
        return await self.begin("work", tenant, job, options, take)

    async def start_swarm(self, tenant: str, job: str, take: Take | None = None, **options: object) -> int:
        """Start a swarm; options: those of `work`, and pilot, review, most."""
        return await self.begin("swarm", tenant, job, options, take)

    async def resume(self, tenant: str, job: str, take: Take | None = None, **options: object) -> int:
        """Resume a job that stopped; options: requester, models, approve, quarantine, and limits."""
        return await self.begin("resume", tenant, job, options, take)

    async def resume_with_key(self, tenant: str, job: str, take: Take | None, key: bytes, **options: object) -> int:
        """Resume a job with a key for its model; only the job's process has the key, and only while it runs."""
        with _put_in_memory(key) as fd:
            return await self.begin("resume", tenant, job, {**options, "key": True}, take, fd)

    async def begin(
        self, act: str, tenant: str, job: str, options: Mapping[str, object], take: Take | None, *fds: int
    ) -> int:
        """Start a job's process; not interrupted if the caller is cancelled, so a started job is known to run."""
        if self.is_running(tenant, job):
            raise BriefError(f"job {job[:40]} is already running")
        if take is not None:
            self.counted[tenant, job] = take()
        self.running.add((tenant, job))
        try:
            with anyio.CancelScope(shield=True):
                pid = await self.ask(act, tenant, *fds, job=job, options=dict(options))
        except HotdeskError:
            self.running.discard((tenant, job))
            self.give_back(tenant, job)
            raise
        return pid

    def give_back(self, tenant: str, job: str) -> None:
        if (share := self.counted.pop((tenant, job), None)) is not None:
            share.free()

    def is_running(self, tenant: str, job: str) -> bool:
        return (tenant, job) in self.running

    async def signal(self, tenant: str, job: str, number: int = signal.SIGINT) -> None:
        """Ask a job to stop so that it can be resumed; a second call burns its desks."""
        await self.ask("signal", tenant, job=job, signal=int(number))

    async def keep_secret(self, tenant: str, name: str, kind: str, value: bytes) -> None:
        """Store a secret in a tenant's vault; `BriefError` if it is invalid."""
        with _put_in_memory(value) as fd:
            await self.ask("secret", tenant, fd, name=name, kind=kind)

    async def forget_secret(self, tenant: str, name: str) -> None:
        await self.ask("unsecret", tenant, name=name)

    async def remove_image(self, tenant: str, name: str) -> None:
        """Remove the image of a tenant's snapshot; `BriefError` while a desk uses it."""
        await self.ask("unsave", tenant, name=name)

    async def import_image(self, tenant: str, name: str, archive: Path) -> None:
        """Import an archive as a tenant's image; `BriefError` if it is invalid."""
        with archive.open("rb") as file:
            await self.ask("adopt", tenant, file.fileno(), timeout=IMPORT_TIMEOUT_S, name=name)

    async def ask(self, verb: str, tenant: str, *fds: int, timeout: float = ANSWER_TIMEOUT_S, **fields: object) -> int:
        """Send a request; return the process id it concerns. One that is read too late to be answered starts no job."""
        number, seconds = self.begin_call(), scale_seconds(timeout)
        until = time.monotonic() + seconds * _STARTING_SHARE
        data = json.dumps({"n": number, "verb": verb, "tenant": tenant, "until": until, **fields}).encode()
        message, _ = await self.call(number, self.send(data, fds), seconds)
        return int(read_body(message, self.peer)["pid"])

    def take(self, message: Mapping[str, object]) -> None:
        match message:
            case {"event": "ended", "tenant": str(tenant), "job": str(job)}:
                self.running.discard((tenant, job))
                self.give_back(tenant, job)


@contextmanager
def _put_in_memory(value: bytes) -> Iterator[int]:
    fd = os.memfd_create("secret", os.MFD_CLOEXEC)
    try:
        os.write(fd, value)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


def spawn(settings: Config, templates: Sequence[Path] = (), models: Sequence[str] = ()) -> LauncherClient:
    """Start the launcher; call it before privileges are dropped."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    arguments = {
        "settings": encode_settings(settings),
        "templates": [str(path.absolute()) for path in templates],
        "models": list(models),
        "socket": get_file_identity(settings.run / SOCKET),
    }
    with theirs, open(os.devnull, "r+b") as null:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-B", "-c", START, str(SOURCE), PROGRAM, json.dumps(arguments)],
            dict(os.environ),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), LINE),
                (os.POSIX_SPAWN_DUP2, null.fileno(), 0),
                (os.POSIX_SPAWN_DUP2, null.fileno(), 1),
            ],
            setsid=True,
        )
    return LauncherClient(ours, pid)


@asynccontextmanager
async def open_launcher(
    settings: Config, templates: Sequence[Path] = (), models: Sequence[str] = ()
) -> AsyncIterator[LauncherClient]:
    """Yield a launcher; at the end of the block it stops what it started.

    If it ends earlier, the block is cancelled and `KeeperError` raised: the server, which gave up the privileges to
    start another one, must be started again.
    """
    launcher = spawn(settings, templates, models)

    async def run() -> None:
        await launcher.run()
        raise KeeperError("this server's launcher process ended; the server ends too, and must be started again")

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            try:
                yield launcher
            finally:
                tasks.cancel_scope.cancel()
    finally:
        launcher.sock.close()
        with anyio.move_on_after(EXIT_TIMEOUT_S, shield=True):
            await launcher.wait_exit()
