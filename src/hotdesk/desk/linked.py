"""A desk as its owner sees it: programs and files, over a link to its guest. The same for every wall."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias, TypeVar

import anyio

from hotdesk.config import MIB
from hotdesk.desk.answers import as_change, as_done, as_entry, as_error, as_running, check
from hotdesk.desk.link import Body, Channel, Data, Link, Reply, Told
from hotdesk.desk.request import parse_port
from hotdesk.desk.seam import OUTPUT_LIMIT, Change, DeskId, Done, Entry, Running, Size, Stream, Usage
from hotdesk.errors import BriefError, DeskError, FileError, HostError, LinkError
from hotdesk_guest import wire

GRACE = 10.0
"""Seconds beyond a program's own timeout until we stop believing its guest."""
SILENCE = 60.0
"""Seconds a file operation may pass without a word from the guest."""
STREAMS: dict[int, Stream] = {wire.STDOUT: "stdout", wire.STDERR: "stderr"}
LONG = 366 * 86400.0
"""A program's time beyond this is none at all."""
LISTED = 32 * MIB
"""Bytes one listing may take."""
CHANGES = 100_000
"""Changes one look at a watched folder may give."""
DIAL_SECONDS = 10.0

Listed = TypeVar("Listed")
Many: TypeAlias = list[Listed]
"""A list; in a desk that word is a method."""


class Outside(Protocol):
    """What is done to a desk from outside, by whoever holds it: nothing of it needs the guest's help."""

    async def usage(self) -> Usage:
        """Say what the desk uses."""
        ...

    async def pause(self, paused: bool) -> None:
        """Stop the desk, or let it go on."""
        ...

    async def dial(self, port: int) -> socket.socket:
        """Give a socket connected, or about to be, to a server on the desk's loopback."""
        ...

    async def root(self) -> Link:
        """Give a link to root's guest, starting it if need be; `BriefError` when the desk may not have root."""
        ...


class Unheld:
    """A desk that nobody holds from outside: nobody counts, and nothing can be done to it."""

    async def usage(self) -> Usage:
        """Say nothing: nobody counts."""
        return Usage(0.0, 0, 0, 0, 0)

    async def pause(self, paused: bool) -> None:
        """Refuse."""
        raise HostError("a desk without a keeper cannot be paused")

    async def dial(self, port: int) -> socket.socket:
        """Refuse."""
        raise HostError("a desk without a keeper cannot be dialled")

    async def root(self) -> Link:
        """Refuse: it would be root of this machine."""
        raise BriefError("a desk without a wall has no root")


class LinkedProcess:
    """One program, followed over a channel."""

    def __init__(self, channel: Channel, pid: int, done: Done | None, timeout: float | None) -> None:
        self.channel = channel
        self.pid = pid
        self.done = done
        self.deadline = math.inf if timeout is None else anyio.current_time() + timeout + GRACE
        self.stdin_closed = False

    async def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        """Yield what it says until it ends."""
        while (said := await self.next()) is not None:
            yield said

    async def next(self) -> tuple[Stream, bytes] | None:
        """Give the next thing it says; None once it is over."""
        while self.done is None:
            item = await self.receive()
            if isinstance(item, Data):
                if item.stream not in STREAMS:
                    raise LinkError("the guest sent an unknown stream")
                return STREAMS[item.stream], item.data
            elif isinstance(item, Reply):
                await self.channel.drop()
                check("the program", item.body)
                self.done = as_done(item.body)
            elif item is not None:
                raise LinkError("the guest spoke out of turn")
        return None

    async def receive(self) -> Data | Told | Reply | None:
        """Wait for the guest, up to the program's own deadline and some grace; None when that is over."""
        if self.deadline == math.inf:
            return await self.channel.receive()
        with anyio.CancelScope(deadline=self.deadline):
            return await self.channel.receive()
        await self.give_up()
        return None

    async def give_up(self) -> None:
        """Stop waiting for a guest that let its program's time pass."""
        await self.kill()
        self.done = Done(exit_code=128 + 9, signal=9, timed_out=True)

    async def send(self, data: bytes) -> None:
        """Write to its standard input."""
        if not self.stdin_closed:
            await self.channel.send(data)

    async def close_stdin(self) -> None:
        """Let it read end of file."""
        if not self.stdin_closed:
            self.stdin_closed = True
            await self.channel.end()

    async def signal(self, number: int) -> None:
        """Signal this one pid."""
        if not 0 <= number <= 64:
            raise BriefError(f"{number} is not a signal")
        await self.channel.order({"signal": number, "tree": False})

    async def resize(self, size: Size) -> None:
        """Tell its terminal its new size."""
        await self.channel.order({"size": [size.rows, size.columns]})

    async def kill(self) -> None:
        """Kill it with all its descendants, and stop following it."""
        with anyio.move_on_after(GRACE, shield=True):
            await self.channel.end_tree()

    async def wait(self) -> Done:
        """Wait until it is over."""
        async for _ in self.output():
            pass
        assert self.done is not None
        return self.done

    async def detach(self) -> None:
        """Stop following it."""
        await self.channel.drop()


class LinkedWatch:
    """A watched folder, told of over a channel."""

    def __init__(self, channel: Channel, path: str) -> None:
        self.channel = channel
        self.path = path
        self.asked = 0
        self.heard = 0
        """Bytes the guest told."""

    async def changes(self) -> list[Change]:
        """Give all that happened up to this moment: the guest looks once more, and marks where that look ends."""
        self.asked += 1
        await self.channel.order({"drain": self.asked})
        found: list[Change] = []
        begun = self.heard
        while True:
            told, marks = await self.next(timely=True)
            if len(found) + len(told) > CHANGES or self.heard - begun > LISTED:
                most = f"{CHANGES} changes" if len(found) + len(told) > CHANGES else f"{LISTED // MIB} MiB of changes"
                raise FileError(f"more than {most} in {self.path}; ask more often", "other")
            found += told
            if self.asked in marks:
                return found

    async def wait(self) -> list[Change]:
        """Wait until something happens, and give it."""
        while not (told := (await self.next(timely=False))[0]):
            pass
        return told

    async def next(self, timely: bool) -> tuple[list[Change], list[int]]:
        """Take the guest's next word: changes, and marks it was asked to set."""
        item = await (receive(self.channel) if timely else self.channel.receive())
        if isinstance(item, Reply):
            check(self.path, item.body)
        if not isinstance(item, Told) or not isinstance(item.value, list):
            raise LinkError("the guest spoke out of turn")
        self.heard += item.size
        marks = [one["drained"] for one in item.value if isinstance(one, dict) and "drained" in one]
        return [as_change(one) for one in item.value if not (isinstance(one, dict) and "drained" in one)], marks

    async def close(self) -> None:
        """Stop watching."""
        await self.channel.drop()


class LinkedDesk:
    """A desk whose guest we talk to."""

    def __init__(self, desk: DeskId, link: Link, home: str, outside: Outside | None = None) -> None:
        self.id = desk
        self.link = link
        self.home = home
        self.outside = outside or Unheld()
        self.kills = 0
        """What the memory limit had killed when we last asked."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout: float | None = None,
        output_limit: int = OUTPUT_LIMIT,
    ) -> Done:
        """Run a program to its end; cancelled, it is killed with all its descendants."""
        kills = self.kills
        ask, timeout = ask_exec(argv, env, cwd, timeout, stdin=bool(stdin), tell=False)
        link = await self.link_of(user)
        process = LinkedProcess(await link.open(ask), 0, None, timeout)
        try:
            heard = await (collect_fed(process, stdin, output_limit) if stdin else collect(process, output_limit))
        finally:
            if process.done is None:
                await process.kill()
        assert process.done is not None
        done = replace(process.done, stdout=heard.stdout, stderr=heard.stderr, truncated=heard.truncated)
        if done.exit_code and not done.timed_out:
            self.kills = max(self.kills, (await self.outside.usage()).oom_kills)
            done = replace(done, out_of_memory=self.kills > kills)
        return done

    async def link_of(self, user: str | None) -> Link:
        """Give the link to whoever runs programs as this user."""
        if user in (None, "user", "1000"):
            return self.link
        if user in ("root", "0"):
            return await self.outside.root()
        raise BriefError(f"no user {user!r} in this desk; it has `user`, and `root` where its spec says so")

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
        """Start a program and follow it."""
        ask, timeout = ask_exec(argv, env, cwd, timeout, stdin=stdin, tell=True)
        if pty is not None:
            ask["pty"] = [pty.rows, pty.columns]
        return await self.follow(await self.link_of(user), ask, timeout)

    async def attach(self, pid: int) -> LinkedProcess:
        """Follow a program already started."""
        return await self.follow(self.link, {"op": "attach", "pid": pid}, None)

    async def follow(self, link: Link, ask: Body, timeout: float | None) -> LinkedProcess:
        """Open a program's channel and take the guest's first word on it."""
        channel = await link.open(ask)
        try:
            item = await receive(channel)
            match item:
                case Told(value) if isinstance(value, dict) and type(pid := value.get("pid")) is int:
                    return LinkedProcess(channel, pid, None, timeout)
                case Reply(body) if "error" not in body:
                    return LinkedProcess(channel, 0, as_done(body), timeout)
                case Reply(body):
                    raise as_error(f"process {ask.get('pid')}", body)
            raise LinkError("the guest spoke out of turn")
        except BaseException:
            with anyio.move_on_after(GRACE, shield=True):
                # nobody will ever know the pid of a program that was to be started
                await (channel.end_tree() if ask["op"] == "exec" else channel.drop())
            raise

    async def processes(self) -> list[Running]:
        """List the programs started here."""
        return await self.listed({"op": "processes"}, "processes", 10_000, as_running)

    async def read_stream(self, path: str) -> AsyncIterator[bytes]:
        """Yield a file's bytes."""
        channel = await self.link.open({"op": "read", "path": path})
        try:
            while True:
                match await receive(channel):
                    case Data(_, data):
                        yield data
                    case Reply(body):
                        check(path, body)
                        return
                    case Told():
                        raise LinkError("the guest spoke out of turn")
        finally:
            with anyio.move_on_after(GRACE, shield=True):
                await channel.drop()

    async def read(self, path: str, *, limit: int = 64 * MIB) -> bytes:
        """Give a file's bytes."""
        kept = bytearray()
        stream = self.read_stream(path)
        try:
            async for data in stream:
                kept += data
                if len(kept) > limit:
                    raise FileError(f"{path} has more than {limit} bytes; read it as a stream", "other")
        finally:
            await stream.aclose()  # type: ignore[attr-defined]
        return bytes(kept)

    async def write(self, path: str, data: bytes | AsyncIterable[bytes], *, mode: int | None = None) -> None:
        """Write a file in place."""
        if mode is not None and not 0 <= mode <= 0o7777:
            raise BriefError(f"{mode:o} is not a file's mode")
        channel = await self.link.open({"op": "write", "path": path, "mode": mode})
        try:
            if isinstance(data, (bytes, bytearray, memoryview)):
                await channel.send(bytes(data), SILENCE)
            else:
                async for part in data:
                    if channel.over:
                        break
                    await channel.send(part, SILENCE)
            await channel.end()
            item = await receive(channel)
            if not isinstance(item, Reply):
                raise LinkError("the guest spoke out of turn")
            check(path, item.body)
        finally:
            with anyio.move_on_after(GRACE, shield=True):
                await channel.drop()

    async def list(self, path: str = ".", *, depth: int = 1, limit: int = 100_000) -> list[Entry]:
        """List a folder."""
        ask: Body = {"op": "list", "path": path, "depth": max(1, depth)}
        return await self.listed(ask, path, limit, as_entry)

    async def stat(self, path: str) -> Entry:
        """Describe one path."""
        return as_entry((await self.ask({"op": "stat", "path": path}, path)).get("entry"))

    async def mkdir(self, path: str) -> bool:
        """Make a folder and its parents."""
        return (await self.ask({"op": "mkdir", "path": path}, path)).get("made") is True

    async def move(self, source: str, destination: str) -> None:
        """Rename."""
        await self.ask({"op": "move", "source": source, "destination": destination}, source)

    async def remove(self, path: str) -> None:
        """Remove a path with all below it."""
        await self.ask({"op": "remove", "path": path}, path)

    async def watch(self, path: str = ".", *, recursive: bool = True) -> LinkedWatch:
        """Watch a folder."""
        channel = await self.link.open({"op": "watch", "path": path, "recursive": recursive})
        try:
            item = await receive(channel)
            if isinstance(item, Reply):
                check(path, item.body)
            if not isinstance(item, Told):
                raise LinkError("the guest spoke out of turn")
        except BaseException:
            with anyio.move_on_after(GRACE, shield=True):
                await channel.drop()
            raise
        return LinkedWatch(channel, path)

    async def dial(self, port: int) -> socket.socket:
        """Connect to a server on the desk's loopback."""
        if self.link.failure is not None:
            raise self.link.failure
        sock = await self.outside.dial(parse_port(port))
        try:
            with anyio.move_on_after(DIAL_SECONDS) as scope:
                await anyio.wait_writable(sock)
            if scope.cancelled_caught:
                raise DeskError(f"port {port} of desk {self.id} did not answer within {DIAL_SECONDS:.0f} s")
            if failure := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise DeskError(f"port {port} of desk {self.id}: {os.strerror(failure)}")
        except BaseException:
            sock.close()
            raise
        return sock

    async def pause(self) -> None:
        """Stop every program where it is."""
        await self.outside.pause(True)
        self.link.paused = True

    async def resume(self) -> None:
        """Let everything go on."""
        await self.outside.pause(False)
        self.link.paused = False

    async def usage(self) -> Usage:
        """Say what the desk uses."""
        return await self.outside.usage()

    def hang_up(self) -> None:
        """Let go of the link."""
        self.link.hang_up()

    async def ask(self, body: Body, path: str) -> Body:
        """Ask for something answered in one word."""
        channel = await self.link.open(body)
        try:
            item = await receive(channel)
            if not isinstance(item, Reply):
                raise LinkError("the guest spoke out of turn")
            check(path, item.body)
            return item.body
        finally:
            with anyio.move_on_after(GRACE, shield=True):
                await channel.drop()

    async def listed(self, body: Body, path: str, limit: int, read: Callable[[object], Listed]) -> Many[Listed]:
        """Give what the guest lists, each checked, up to a limit."""
        channel = await self.link.open(body)
        found: Many[Listed] = []
        count = size = 0
        try:
            while True:
                match await receive(channel):
                    case Told(batch, length) if isinstance(batch, list):
                        count += len(batch)
                        size += length
                        if count > limit or size > LISTED:
                            most = f"{limit} entries" if count > limit else f"{LISTED // MIB} MiB of names"
                            raise FileError(f"{path} has more than {most}; list less of it", "other")
                        found += [read(value) for value in batch]
                    case Reply(answer):
                        check(path, answer)
                        return found
                    case _:
                        raise LinkError("the guest spoke out of turn")
        finally:
            with anyio.move_on_after(GRACE, shield=True):
                await channel.drop()


def ask_exec(
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    cwd: str | None,
    timeout: float | None,
    *,
    stdin: bool,
    tell: bool,
) -> tuple[Body, float | None]:
    """Check what is asked and write it as the guest reads it; `tell` asks for the pid before anything else."""
    if isinstance(argv, str) or not argv or not all(isinstance(text, str) for text in argv):
        raise BriefError("a program is a list of texts: its name and its arguments")
    if any("\0" in text for text in (*argv, cwd or "")):
        raise BriefError("a program's arguments and working folder cannot hold a zero byte")
    if not all(isinstance(text, str) for pair in (env or {}).items() for text in pair):
        raise BriefError("a program's variables are texts")
    if timeout is not None and not timeout < LONG:
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
    """Gather what a program says, up to a limit; beyond it the rest is heard and thrown away."""
    kept: dict[Stream, list[bytes]] = {"stdout": [], "stderr": []}
    room = limit
    truncated = False
    while (said := await process.next()) is not None:
        stream, data = said
        if len(data) > room:
            truncated = True
            data = data[:room]
        room -= len(data)
        if data:
            kept[stream].append(data)
    return Done(0, b"".join(kept["stdout"]), b"".join(kept["stderr"]), truncated=truncated)


async def collect_fed(process: LinkedProcess, stdin: bytes, limit: int) -> Done:
    """Gather what a program says while giving it its standard input."""
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(feed, process, stdin)
            heard = await collect(process, limit)
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    return heard


async def feed(process: LinkedProcess, data: bytes) -> None:
    """Give a program its whole standard input."""
    await process.send(data)
    await process.close_stdin()


async def receive(channel: Channel) -> Data | Told | Reply:
    """Wait for the guest, but not for ever; a paused one is given its time."""
    while True:
        with anyio.move_on_after(SILENCE):
            return await channel.receive()
        if not channel.link.paused:
            break
    raise LinkError(f"the desk's guest said nothing for {SILENCE:.0f} s; burn it and open another")
