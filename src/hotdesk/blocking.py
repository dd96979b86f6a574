"""Desks without async, for scripts and notebooks, through an event loop in a thread of its own.

    with hotdesk.blocking.open_desk() as desk:
        print(desk.run(["uname", "-a"]).text)

Everything that is opened here can also be used without `with`, over several cells of a notebook; it ends with
`close()`, a desk with `burn()`. What is still open when the interpreter exits is closed then.
"""

from __future__ import annotations

import atexit
import functools
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Literal, Self, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from hotdesk.brief.data import CLOSED, Scope
from hotdesk.client import Allowed, Approval, DeskShown, FarDesk, FarVault, Happened, Job, Kept, SecretShown
from hotdesk.client import Client as AsyncClient
from hotdesk.config import MIB, Config
from hotdesk.desk import seam
from hotdesk.desk.seam import OUTPUT_LIMIT, Change, DeskId, Done, Entry, Running, SnapshotId, Spec, Usage
from hotdesk.host import Host

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own.

    The thread is a daemon, so that an exiting interpreter does not wait for it; `atexit` closes what it runs.
    """

    def __init__(self) -> None:
        started: Future[BlockingPortal] = Future()
        self.thread = threading.Thread(target=self.run, args=(started,), daemon=True, name="hotdesk")
        self.thread.start()
        self.portal = started.result()

    @staticmethod
    def run(started: Future[BlockingPortal]) -> None:
        """Serve calls until `stop`."""

        async def serve() -> None:
            async with BlockingPortal() as portal:
                started.set_result(portal)
                await portal.sleep_until_stopped()

        try:
            anyio.run(serve)
        except BaseException as e:
            if started.done():
                raise
            started.set_exception(e)

    def stop(self) -> None:
        """End the loop and its thread."""
        self.portal.call(self.portal.stop)
        self.thread.join()


class LoopOwner:
    """Owns an event loop until it is closed: by `close`, at the end of a `with` block, or at exit."""

    def __init__(self) -> None:
        loop = LoopThread()
        self._portal = loop.portal
        self._stack = ExitStack()
        self._stack.callback(loop.stop)
        self._lock = threading.Lock()
        atexit.register(self._close_at_exit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it, and everything opened through it. A second call does nothing."""
        atexit.unregister(self._close_at_exit)
        with self._lock:
            stack = self._stack.pop_all()
        stack.close()

    def _close_at_exit(self) -> None:
        with suppress(Exception):  # the keeper burns remaining desks after this process has ended
            self.close()


class Desk:
    """An open desk. Each method does the same as in `hotdesk.desk.seam.Desk`, and blocks until it is done."""

    def __init__(self, portal: BlockingPortal, desk: seam.Desk, machine: BlockingHost | None = None) -> None:
        self._portal = portal
        self._desk = desk
        self._machine = machine
        """The host that was opened for this desk alone and closes with it; `None`: the host is shared."""
        self.id = desk.id
        self.home = desk.home

    def __repr__(self) -> str:
        return repr(self._desk)

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *failure: object) -> None:
        self.burn()

    def burn(self) -> None:
        """Destroy the desk and everything in it. A second call does nothing."""
        if self._machine is not None:
            self._machine.close()
        else:
            self._call(self._desk.burn)

    def close(self) -> None:
        """Burn the desk, like `burn`."""
        self.burn()

    def _call(self, method: Callable[..., Coroutine[Any, Any, T]], *args: object, **options: object) -> T:
        result: T = self._portal.call(functools.partial(method, *args, **options))
        return result

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout: float | None = None,
        output_limit: int = OUTPUT_LIMIT,
    ) -> Done:
        """Run a program to its end."""
        options = {"stdin": stdin, "env": env, "cwd": cwd, "user": user, "timeout": timeout}
        return self._call(self._desk.run, argv, output_limit=output_limit, **options)

    def processes(self) -> list[Running]:
        """List the programs that were started through this API and still run."""
        return self._call(self._desk.processes)

    def read(self, path: str, *, limit: int = 64 * MIB) -> bytes:
        """Return a file's bytes."""
        return self._call(self._desk.read, path, limit=limit)

    def write(self, path: str, data: str | bytes, *, mode: int | None = None) -> None:
        """Write a file in place; text is written as UTF-8."""
        self._call(self._desk.write, path, data, mode=mode)

    def list(self, path: str = ".", *, depth: int = 1, limit: int = 100_000) -> list[Entry]:
        """List a folder."""
        return self._call(self._desk.list, path, depth=depth, limit=limit)

    def stat(self, path: str) -> Entry:
        """Describe one path."""
        return self._call(self._desk.stat, path)

    def mkdir(self, path: str) -> bool:
        """Make a folder and its parents."""
        return self._call(self._desk.mkdir, path)

    def move(self, source: str, destination: str) -> None:
        """Move or rename a file or folder."""
        self._call(self._desk.move, source, destination)

    def remove(self, path: str) -> None:
        """Remove a path and everything below it."""
        self._call(self._desk.remove, path)

    def watch(self, path: str = ".", *, recursive: bool = True) -> Watch:
        """Start watching a folder."""
        return Watch(self._portal, self._call(self._desk.watch, path, recursive=recursive))

    def dial(self, port: int) -> socket.socket:
        """Connect to a server on the desk's loopback; return a blocking socket."""
        sock = self._call(self._desk.dial, port)
        sock.setblocking(True)
        return sock

    def pause(self, *, memory: bool = True, keep: seam.Keep = "ram") -> None:
        """Freeze every program; with `memory=False` end them all and keep only the files."""
        self._call(self._desk.pause, memory=memory, keep=keep)

    def resume(self) -> None:
        """Continue every program after `pause`."""
        self._call(self._desk.resume)

    def snapshot(self) -> SnapshotId:
        """Take a snapshot of the desk's files."""
        return self._call(self._desk.snapshot)

    def rollback(self, snapshot: SnapshotId) -> None:
        """Restore the files of a snapshot, and restart the desk."""
        self._call(self._desk.rollback, snapshot)

    def save(self, name: str, snapshot: SnapshotId | None = None) -> None:
        """Save the desk's files as an image."""
        self._call(self._desk.save, name, snapshot)

    def fork(self, count: int = 1, snapshot: SnapshotId | None = None, *, memory: bool = False) -> Sequence[Desk]:
        """Open desks that start with this one's files; with `memory`, its programs continue in them."""
        return [Desk(self._portal, each) for each in self._call(self._desk.fork, count, snapshot, memory=memory)]

    def forget(self, snapshot: SnapshotId) -> None:
        """Delete a snapshot."""
        self._call(self._desk.forget, snapshot)

    def usage(self) -> Usage:
        """Return the desk's resource usage."""
        return self._call(self._desk.usage)


class Watch:
    """A watched folder. Each method does the same as in `hotdesk.desk.seam.Watch`, and blocks until it is done."""

    def __init__(self, portal: BlockingPortal, watch: seam.Watch) -> None:
        self._portal = portal
        self._watch = watch

    def changes(self) -> list[Change]:
        """Return the changes since the last call."""
        return self._portal.call(self._watch.changes)

    def wait(self) -> list[Change]:
        """Wait for the next changes, and return them."""
        return self._portal.call(self._watch.wait)

    def close(self) -> None:
        """Stop watching."""
        self._portal.call(self._watch.close)


class BlockingHost(LoopOwner):
    """The host of one owner. Each method does the same as in `hotdesk.host.Host`, and blocks until it is done."""

    def __init__(self, settings: Config | None = None) -> None:
        super().__init__()
        try:
            self._host = self._portal.call(_start_host, settings)
        except BaseException:
            self.close()
            raise
        self._stack.callback(self._portal.call, self._host.close)

    def __repr__(self) -> str:
        return f"<Machine {self._host.config.run}>"

    def open(self, spec: Spec | None = None, scope: Scope = CLOSED) -> Desk:
        """Open a desk that lasts until it is burnt or the host closes; `scope` lists what it may reach."""
        return Desk(self._portal, self._portal.call(self._host.open, spec, scope))

    def keep_ready(self, spec: Spec, count: int, *, proven: bool = False) -> None:
        """Keep `count` desks of a spec ready from now on."""
        self._portal.call(functools.partial(self._host.keep_ready, spec, count, proven=proven))

    def find(self, desk: DeskId) -> Desk:
        """Return an open desk by id."""
        return Desk(self._portal, self._portal.call(self._host.find, desk))

    def wake(self, desk: DeskId, scope: Scope = CLOSED) -> Desk:
        """Resume a hibernated desk, even if its owner is gone."""
        return Desk(self._portal, self._portal.call(self._host.wake, desk, scope))

    def burn(self, desk: DeskId) -> None:
        """Destroy a desk and everything in it. A second call does nothing."""
        self._portal.call(self._host.burn, desk)


async def _start_host(settings: Config | None) -> Host:
    return await Host(settings).start()


def host(settings: Config | None = None) -> BlockingHost:
    """Open a host for a `with` block, or until `close()`; its desks burn with it."""
    return BlockingHost(settings)


def open_desk(spec: Spec | None = None, scope: Scope = CLOSED) -> Desk:
    """Open a desk on this machine for a `with` block, or until `burn()`."""
    machine = BlockingHost()
    try:
        desk = machine.open(spec, scope)
    except BaseException:
        machine.close()
        raise
    desk._machine = machine
    return desk


class ServerDesk:
    """A desk on a server. Each method does the same as in `hotdesk.client.FarDesk`, and blocks until it is done."""

    def __init__(self, portal: BlockingPortal, desk: FarDesk) -> None:
        self._portal = portal
        self._desk = desk
        self.id = desk.id

    def __repr__(self) -> str:
        return repr(self._desk)

    def burn(self) -> None:
        """Destroy the desk and everything in it. A second call does nothing."""
        self._portal.call(self._desk.burn)

    def close(self) -> None:
        """Burn the desk, like `burn`."""
        self.burn()

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout: float = 60.0,
    ) -> Done:
        """Run a program to its end."""
        run = functools.partial(self._desk.run, argv, stdin=stdin, env=env, cwd=cwd, user=user, timeout=timeout)
        return self._portal.call(run)

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        return self._portal.call(self._desk.read, path)

    def write(self, path: str, data: str | bytes) -> None:
        """Write a file in place; text is written as UTF-8."""
        self._portal.call(self._desk.write, path, data)

    def list(self, path: str = "", *, depth: int = 1) -> list[Entry]:
        """List a folder."""
        return self._portal.call(functools.partial(self._desk.list, path, depth=depth))

    def remove(self, path: str) -> None:
        """Remove a path and everything below it."""
        self._portal.call(self._desk.remove, path)

    def pause(self) -> None:
        """Freeze every program until `resume`."""
        self._portal.call(self._desk.pause)

    def resume(self) -> None:
        """Continue every program after `pause`."""
        self._portal.call(self._desk.resume)

    def snapshot(self) -> SnapshotId:
        """Take a snapshot of the desk's files."""
        return self._portal.call(self._desk.snapshot)

    def rollback(self, snapshot: SnapshotId) -> None:
        """Restore the files of a snapshot exactly."""
        self._portal.call(self._desk.rollback, snapshot)

    def fork(self, count: int = 1, snapshot: SnapshotId | None = None) -> Sequence[ServerDesk]:
        """Open `count` desks like this one that start with its files, or with those of a snapshot."""
        return [ServerDesk(self._portal, each) for each in self._portal.call(self._desk.fork, count, snapshot)]

    def usage(self) -> Usage:
        """Return the desk's resource usage."""
        return self._portal.call(self._desk.usage)


class ServerVault:
    """The vault of a server. Each method does the same as in `hotdesk.client.FarVault`, and blocks until it is done."""

    def __init__(self, portal: BlockingPortal, vault: FarVault) -> None:
        self._portal = portal
        self._vault = vault

    def put(self, name: str, value: str, kind: Literal["token", "basic", "totp"] = "token") -> SecretShown:
        """Store a secret; an existing one gets a new version."""
        return self._portal.call(self._vault.put, name, value, kind)

    def ls(self) -> list[SecretShown]:
        """List secrets: names and kinds, never values."""
        return self._portal.call(self._vault.ls)

    def remove(self, name: str) -> None:
        """Delete a secret."""
        self._portal.call(self._vault.remove, name)


class BlockingClient(LoopOwner):
    """A client of a server. Each method does the same as in `hotdesk.client.Client`, and blocks until it is done."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__()
        try:
            entered = self._portal.wrap_async_context_manager(AsyncClient(url, key))
            self._client = self._stack.enter_context(entered)
        except BaseException:
            self.close()
            raise
        self.vault = ServerVault(self._portal, self._client.vault)

    def __repr__(self) -> str:
        return f"<Server {self._client.line.name}>"

    def open(self, spec: Spec | None = None, *, allow: Sequence[str] = ()) -> ServerDesk:
        """Open a desk that lasts until it is burnt or its time is up."""
        opened = self._portal.call(functools.partial(self._client.open, spec, allow=allow))
        return ServerDesk(self._portal, opened)

    @contextmanager
    def open_desk(self, spec: Spec | None = None, *, allow: Sequence[str] = ()) -> Iterator[ServerDesk]:
        """Open a desk for the length of a block."""
        opened = self._client.open_desk(spec, allow=allow)
        with self._portal.wrap_async_context_manager(opened) as desk:
            yield ServerDesk(self._portal, desk)

    def find(self, desk: DeskId) -> ServerDesk:
        """Return an open desk by id."""
        return ServerDesk(self._portal, self._portal.call(self._client.find, desk))

    def desks(self) -> list[DeskShown]:
        """List open desks."""
        return self._portal.call(self._client.desks)

    def burn(self, desk: DeskId) -> None:
        """Destroy a desk and everything in it. A second call does nothing."""
        self._portal.call(self._client.burn, desk)

    def work(self, brief: str | None = None, **options: Any) -> Job:
        """Start a job; options as in `hotdesk.client.Client.work`."""
        return self._portal.call(functools.partial(self._client.work, brief, **options))

    def upload(self, name: str, data: bytes) -> str:
        """Upload a file for a job; return its id."""
        return self._portal.call(self._client.upload, name, data)

    def jobs(self) -> list[Job]:
        """List jobs, newest first."""
        return self._portal.call(self._client.jobs)

    def job(self, job: str) -> Job:
        """Return a job's state."""
        return self._portal.call(self._client.job, job)

    def wait(self, job: str, *, every: float = 0.5) -> Job:
        """Poll every `every` seconds until a job has ended, has stopped, or waits for a person; return its state."""
        return self._portal.call(functools.partial(self._client.wait, job, every=every))

    def stop(self, job: str) -> Job:
        """Stop a job where it can be resumed."""
        return self._portal.call(self._client.stop, job)

    def resume(
        self, job: str, limits: Mapping[str, float] | None = None, models: Sequence[str] = (), key: str = ""
    ) -> Job:
        """Resume a job."""
        return self._portal.call(self._client.resume, job, limits, models, key)

    def forget(self, job: str) -> None:
        """Delete everything about a job except its journal entries."""
        self._portal.call(self._client.forget, job)

    def allow(self, job: str, rule: str) -> Allowed:
        """Let a job's desks reach more, now and later."""
        return self._portal.call(self._client.allow, job, rule)

    def events(self, job: str = "", *, after: int = 0) -> list[Happened]:
        """Return the events of a job so far, or of all jobs; `after` continues from an event id."""

        async def collect() -> list[Happened]:
            return [each async for each in self._client.events(job, after=after, follow=False)]

        return self._portal.call(collect)

    def approvals(self) -> list[Approval]:
        """List the pending approvals."""
        return self._portal.call(self._client.approvals)

    def approve(self, approval: Approval, *, plan: str = "") -> None:
        """Approve exactly what was shown."""
        self._portal.call(functools.partial(self._client.approve, approval, plan=plan))

    def refuse(self, approval: Approval, why: str = "") -> None:
        """Refuse an approval."""
        self._portal.call(self._client.refuse, approval, why)

    def answer(self, approval: Approval, words: str) -> None:
        """Answer a question."""
        self._portal.call(self._client.answer, approval, words)

    def ls(self, prefix: str = "") -> list[Kept]:
        """List names in the drive."""
        return self._portal.call(self._client.ls, prefix)

    def get(self, name: str) -> bytes:
        """Return the file stored under a name."""
        return self._portal.call(self._client.get, name)

    def certificate(self, name: str) -> Mapping[str, Any]:
        """Return the certificate of the file stored under a name."""
        return self._portal.call(self._client.certificate, name)

    def put(self, name: str, data: bytes) -> Kept:
        """Store bytes as the next version of a name."""
        return self._portal.call(self._client.put, name, data)

    def rm(self, name: str) -> None:
        """Remove a name with all its versions, or NAME@VERSION."""
        self._portal.call(self._client.rm, name)


def Client(url: str, key: str) -> BlockingClient:  # noqa: N802 - called as its async namesake
    """Connect to a server for a `with` block, or until `close()`."""
    return BlockingClient(url, key)
