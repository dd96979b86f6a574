"""A desk as its owner uses it: programs and files, over a link to its guest. The same for every wall."""

from __future__ import annotations

import errno
import functools
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from typing import TypeAlias, TypeVar

import anyio

from hotdesk.config import MIB
from hotdesk.desk.image.image import as_name
from hotdesk.desk.link.channel import (
    GRACE_S,
    MAX_LISTING_BYTES,
    SILENCE_TIMEOUT_S,
    UNEXPECTED_FRAME,
    Body,
    Channel,
    Data,
    GuestEvent,
    GuestReply,
)
from hotdesk.desk.link.handle import Handle, NoHandle
from hotdesk.desk.link.link import Link, explain_stop
from hotdesk.desk.link.process import EXIT_GRACE_S, LinkedProcess, ask_exec, collect, collect_fed
from hotdesk.desk.link.replies import as_done, as_entry, as_error, as_running, check
from hotdesk.desk.link.watch import LinkedWatch
from hotdesk.desk.request import parse_port, parse_snapshot
from hotdesk.desk.seam import (
    OUTPUT_LIMIT,
    Desk,
    DeskId,
    Done,
    Entry,
    Keep,
    Running,
    Size,
    SnapshotId,
    Spec,
    Usage,
    as_bytes,
    format_bound,
)
from hotdesk.errors import BriefError, DeskError, FileError, HotdeskError, LinkError
from hotdesk.linux.pace import scale_seconds

START_SECONDS = 5.0
"""Minimum seconds to wait for a program's start, even if its time limit is shorter."""
DIAL_SECONDS = 10.0
_DIAL_ATTEMPTS = 3
"""Attempts of one dial: a late refusal can mean that only the other address family was tried."""
_MAX_FORKS = 1000
"""Maximum number of forks per call."""

Listed = TypeVar("Listed")
Many: TypeAlias = list[Listed]
"""The type `list`, which inside the class is the name of a method."""


class LinkedDesk:
    """A desk that is controlled through its guest."""

    def __init__(
        self,
        desk: DeskId,
        link: Link,
        home: str,
        outside: Handle | None = None,
        burn: Callable[[DeskId], Awaitable[None]] | None = None,
    ) -> None:
        self.id = desk
        self.burn_by_id = burn
        self.link = link
        self.home = home
        self.outside = outside or NoHandle()
        self.kills = 0
        """Number of kills by the memory limit, when last read."""
        self.down: anyio.Event | None = None
        """Set while the desk is halted; the event fires when it runs again, or never will."""
        self.rebooting = anyio.Lock(fast_acquire=True)

    def __repr__(self) -> str:
        state = "open" if self.link.failure is None else "gone"
        spec = getattr(self.outside, "spec", None)
        if not isinstance(spec, Spec):
            return f"<Desk {self.id} {state}>"
        size = f"cpus={spec.cpus:g} memory={format_bound(spec.memory, ' bytes')}"
        return f"<Desk {self.id} {state} image={spec.image} {size}>"

    def __dir__(self) -> Many[str]:
        """List only the desk's public methods, for completion in a notebook."""
        return [name for name in dir(Desk) if not name.startswith("_")]

    async def burn(self) -> None:
        if self.burn_by_id is None:
            raise BriefError(f"this process did not open desk {self.id}; run `hotdesk burn {self.id}`")
        await self.burn_by_id(self.id)

    async def close(self) -> None:
        await self.burn()

    async def run(
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
        """Run a program to its end. If cancelled, kill it with all its descendants."""
        kills, stdin = self.kills, as_bytes(stdin)
        ask, timeout = ask_exec(argv, env, cwd, timeout, stdin=bool(stdin), tell=False)
        link = await self.get_link(user)
        process = LinkedProcess(await link.open(ask), 0, None, timeout)
        try:
            output = await (collect_fed(process, stdin, output_limit) if stdin else collect(process, output_limit))
        finally:
            if process.done is None:
                await process.kill()
        assert process.done is not None
        done = replace(process.done, stdout=output.stdout, stderr=output.stderr, truncated=output.truncated)
        if done.exit_code and not done.timed_out:
            self.kills = max(self.kills, (await self.usage()).oom_kills)
            done = replace(done, out_of_memory=done.out_of_memory or self.kills > kills)
        return done

    async def get_link(self, user: str | None) -> Link:
        if user in (None, "user", "1000"):
            return await self.wait_for_link()
        if user in ("root", "0"):
            await self.wait_for_link()
            return await self.outside.get_root_link()
        raise BriefError(f"this desk has no user {user!r}; it has `user`, and `root` if it was opened with root")

    async def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout: float | None = None,
        stdin: bool = True,
        pty: Size | None = None,
    ) -> LinkedProcess:
        ask, timeout = ask_exec(argv, env, cwd, timeout, stdin=stdin, tell=True)
        if pty is not None:
            ask["pty"] = [pty.rows, pty.columns]
        return await self.follow(await self.get_link(user), ask, timeout)

    async def attach(self, pid: int) -> LinkedProcess:
        return await self.follow(await self.wait_for_link(), {"op": "attach", "pid": pid}, None)

    async def follow(self, link: Link, ask: Body, timeout: float | None) -> LinkedProcess:
        """Open a program's channel, and wait for the guest's first frame on it."""
        channel = await link.open(ask)
        try:
            silence = (
                SILENCE_TIMEOUT_S
                if timeout is None
                else min(
                    scale_seconds(SILENCE_TIMEOUT_S),
                    max(timeout, scale_seconds(START_SECONDS)) + scale_seconds(EXIT_GRACE_S),
                )
            )
            item = await channel.answer(silence)
            match item:
                case GuestEvent(value) if isinstance(value, dict) and type(pid := value.get("pid")) is int:
                    return LinkedProcess(channel, pid, None, timeout)
                case GuestReply(body) if "error" not in body:
                    return LinkedProcess(channel, 0, as_done(body), timeout)
                case GuestReply(body):
                    raise as_error(f"process {ask.get('pid')}", body)
            raise LinkError(UNEXPECTED_FRAME)
        except BaseException:
            with anyio.move_on_after(GRACE_S, shield=True):
                # killed, because the pid of the new program would never be known
                await (channel.end_tree() if ask["op"] == "exec" else channel.drop())
            raise

    async def processes(self) -> list[Running]:
        return await self.fetch_list({"op": "processes"}, "processes", 10_000, as_running)

    async def read_stream(self, path: str) -> AsyncGenerator[bytes, None]:
        channel = await (await self.wait_for_link()).open({"op": "read", "path": path})
        try:
            while True:
                match await channel.answer():
                    case Data(_, data):
                        yield data
                    case GuestReply(body):
                        check(path, body)
                        return
                    case GuestEvent():
                        raise LinkError(UNEXPECTED_FRAME)
        finally:
            with anyio.move_on_after(GRACE_S, shield=True):
                await channel.drop()

    async def read(self, path: str, *, limit: int = 64 * MIB) -> bytes:
        content = bytearray()
        async with aclosing(self.read_stream(path)) as stream:
            async for data in stream:
                content += data
                if len(content) > limit:
                    raise FileError(f"{path} has more than {limit} bytes; read it as a stream", "other")
        return bytes(content)

    async def write(self, path: str, data: str | bytes | AsyncIterable[bytes], *, mode: int | None = None) -> None:
        if not isinstance(data, AsyncIterable):
            data = as_bytes(data)
        if mode is not None and not 0 <= mode <= 0o7777:
            raise BriefError(f"{mode:#o} is not a file mode; use 0 to 0o7777, such as 0o644")
        channel = await (await self.wait_for_link()).open({"op": "write", "path": path, "mode": mode})
        try:
            if isinstance(data, bytes):
                await channel.send(data, SILENCE_TIMEOUT_S)
            else:
                async for part in data:
                    if channel.over:
                        break
                    await channel.send(part, SILENCE_TIMEOUT_S)
            await channel.end()
            item = await channel.answer()
            if not isinstance(item, GuestReply):
                raise LinkError(UNEXPECTED_FRAME)
            check(path, item.body)
        finally:
            with anyio.move_on_after(GRACE_S, shield=True):
                await channel.drop()

    async def list(self, path: str = ".", *, depth: int = 1, limit: int = 100_000) -> list[Entry]:
        ask: Body = {"op": "list", "path": path, "depth": max(1, depth)}
        return await self.fetch_list(ask, path, limit, as_entry)

    async def stat(self, path: str) -> Entry:
        return as_entry((await self.ask({"op": "stat", "path": path}, path)).get("entry"))

    async def mkdir(self, path: str) -> bool:
        return (await self.ask({"op": "mkdir", "path": path}, path)).get("made") is True

    async def move(self, source: str, destination: str) -> None:
        await self.ask({"op": "move", "source": source, "destination": destination}, source)

    async def remove(self, path: str) -> None:
        await self.ask({"op": "remove", "path": path}, path)

    async def watch(self, path: str = ".", *, recursive: bool = True) -> LinkedWatch:
        channel = await (await self.wait_for_link()).open({"op": "watch", "path": path, "recursive": recursive})
        try:
            item = await channel.answer()
            if isinstance(item, GuestReply):
                check(path, item.body)
            if not isinstance(item, GuestEvent):
                raise LinkError(UNEXPECTED_FRAME)
        except BaseException:
            with anyio.move_on_after(GRACE_S, shield=True):
                await channel.drop()
            raise
        return LinkedWatch(channel, path)

    async def dial(self, port: int) -> socket.socket:
        if (link := await self.wait_for_link()).failure is not None:
            raise link.make_lost_error()
        failure = 0
        for _ in range(_DIAL_ATTEMPTS):
            sock = await self.outside.dial(parse_port(port), link)
            try:
                failure = await self.wait_connected(sock, port)
            except BaseException:
                sock.close()
                raise
            if not failure:
                return sock
            sock.close()
            if failure != errno.ECONNREFUSED:
                break
        raise DeskError(f"cannot connect to port {port} of desk {self.id}: {os.strerror(failure)}")

    async def wait_connected(self, sock: socket.socket, port: int) -> int:
        """Wait until a socket is connected; return 0, or the error number."""
        with anyio.move_on_after(DIAL_SECONDS) as scope:
            await anyio.wait_writable(sock)
        if scope.cancelled_caught:
            raise DeskError(f"port {port} of desk {self.id} did not respond within {DIAL_SECONDS:.0f} s")
        return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    async def wait_for_link(self) -> Link:
        while self.down is not None:
            await self.down.wait()
        return self.link

    async def pause(self, *, memory: bool = True, keep: Keep = "ram") -> None:
        """Freeze every program, or end them with `memory=False`; `keep="disk"` saves memory to disk until `resume`."""
        if keep not in ("ram", "disk"):
            raise BriefError(f"keep must be 'ram' or 'disk', not {keep!r}")
        if keep == "disk" and not memory:
            raise BriefError(
                "memory=False cannot be combined with keep='disk', which saves the memory; leave one of them out"
            )
        async with self.rebooting:
            if not memory:
                await self.halt()
            elif self.down is None and keep == "disk":
                await self.outside.hibernate(self.link)
            elif self.down is None:
                await self.outside.pause(True)
                self.link.paused = True

    async def resume(self) -> None:
        async with self.rebooting:
            if self.down is not None:
                await self.boot()
            else:
                await self.outside.pause(False)
                self.link.paused = False

    async def halt(self, snapshot: str = "") -> None:
        """End every process, and let calls wait until `boot`. Raise an error if the snapshot is missing.

        Like `boot`, it is completed even if its caller is cancelled.
        """
        with anyio.CancelScope(shield=True):
            await self.end_all(snapshot)

    async def end_all(self, snapshot: str) -> None:
        """Halt the desk and end the link to its guest. An error leaves everything unchanged."""
        link, was_up, explain_end = self.link, self.down is None, self.link.explain_end
        link.explain_end = functools.partial(explain_stop, self.id)
        self.down = self.down or anyio.Event()
        try:
            await self.outside.halt(snapshot)
        except BaseException:
            link.explain_end = explain_end
            if was_up:
                self.let_go_on()
            raise
        link.break_off(await explain_stop(self.id))

    async def boot(self, snapshot: str = "") -> None:
        """Start a halted desk, and let waiting calls continue; they fail if it does not start."""
        try:
            with anyio.CancelScope(shield=True):
                self.link = await self.outside.boot(snapshot)
        except BriefError:
            raise  # it is still halted
        except BaseException:
            self.let_go_on()
            raise
        self.let_go_on()

    def let_go_on(self) -> None:
        if self.down is not None:
            self.down.set()
        self.down = None

    async def settle(self, env: Mapping[str, str | None]) -> None:
        """Reset the guest to its initial state, and set the variables of all new programs; `None` removes one."""
        await self.finish_settling(await self.begin_settling(env))

    async def begin_settling(self, env: Mapping[str, str | None]) -> Channel:
        """Send the request of `settle`, which applies to all programs started later; `finish_settling` waits for it."""
        return await (await self.wait_for_link()).open({"op": "settle", "env": dict(env)})

    async def finish_settling(self, settling: Channel) -> None:
        await self.take_reply(settling, "the environment")

    async def snapshot(self) -> SnapshotId:
        async with self.rebooting:
            return SnapshotId(await self.outside.snapshot())

    async def rollback(self, snapshot: SnapshotId) -> None:
        """Restore the files of a snapshot and restart the desk. Completed even if the caller is cancelled."""
        name = _check_snapshot(snapshot)
        async with self.rebooting:
            with anyio.CancelScope(shield=True):
                await self.halt(name)
                await self.boot(name)

    async def forget(self, snapshot: SnapshotId) -> None:
        name = _check_snapshot(snapshot)
        async with self.rebooting:
            await self.outside.forget(name)

    async def save(self, name: str, snapshot: SnapshotId | None = None) -> None:
        async with self.use_snapshot(snapshot) as source:
            await self.outside.save(as_name(name), source)

    async def fork(self, count: int = 1, snapshot: SnapshotId | None = None, *, memory: bool = False) -> Sequence[Desk]:
        """Open desks that start with this one's files. With `memory`, its programs continue in them."""
        if not 0 < count <= _MAX_FORKS:
            raise BriefError(f"the number of forks must be 1 to {_MAX_FORKS}, not {count}")
        if memory and snapshot is not None:
            raise BriefError("snapshot cannot be combined with memory: a snapshot has files and no memory")
        if memory:
            async with self.rebooting:
                if self.down is not None:
                    raise DeskError(f"desk {self.id} is not running; resume it first, or fork it without memory")
                return await self.outside.fork_live(self.link, count)
        async with self.use_snapshot(snapshot) as source:
            return await self.outside.fork(source, count)

    @asynccontextmanager
    async def use_snapshot(self, snapshot: SnapshotId | None) -> AsyncIterator[SnapshotId]:
        source = await self.snapshot() if snapshot is None else SnapshotId(_check_snapshot(snapshot))
        try:
            yield source
        finally:
            if snapshot is None:
                with anyio.move_on_after(GRACE_S, shield=True), suppress(HotdeskError):
                    await self.forget(source)

    async def usage(self) -> Usage:
        async with self.rebooting:
            return await self.outside.usage()

    def hang_up(self) -> None:
        self.link.hang_up()
        self.let_go_on()

    async def ask(self, body: Body, path: str) -> Body:
        return await self.take_reply(await (await self.wait_for_link()).open(body), path)

    async def take_reply(self, channel: Channel, path: str) -> Body:
        try:
            item = await channel.answer()
            if not isinstance(item, GuestReply):
                raise LinkError(UNEXPECTED_FRAME)
            check(path, item.body)
            return item.body
        finally:
            with anyio.move_on_after(GRACE_S, shield=True):
                await channel.drop()

    async def fetch_list(self, body: Body, path: str, limit: int, read: Callable[[object], Listed]) -> Many[Listed]:
        channel = await (await self.wait_for_link()).open(body)
        found: Many[Listed] = []
        count = size = 0
        try:
            while True:
                match await channel.answer():
                    case GuestEvent(batch, length) if isinstance(batch, list):
                        count += len(batch)
                        size += length
                        if count > limit or size > MAX_LISTING_BYTES:
                            most = f"{limit} entries" if count > limit else f"{MAX_LISTING_BYTES // MIB} MiB of names"
                            raise FileError(f"{path} has more than {most}; list a smaller folder", "other")
                        found += [read(value) for value in batch]
                    case GuestReply(answer):
                        check(path, answer)
                        return found
                    case _:
                        raise LinkError(UNEXPECTED_FRAME)
        finally:
            with anyio.move_on_after(GRACE_S, shield=True):
                await channel.drop()


def _check_snapshot(snapshot: str) -> str:
    if not (name := parse_snapshot(snapshot)):
        raise BriefError("no snapshot is named; pass the name that `snapshot` returned")
    return name
