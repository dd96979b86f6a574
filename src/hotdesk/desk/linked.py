"""A desk as its owner sees it: programs and files, over a link to its guest. The same for every wall."""

from __future__ import annotations

import math
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

import anyio

from hotdesk.config import MIB
from hotdesk.desk.answers import as_done, as_entry, as_error, as_running, check
from hotdesk.desk.link import Body, Channel, Data, Link, Reply, Told
from hotdesk.desk.seam import OUTPUT_LIMIT, DeskId, Done, Entry, Running, Stream
from hotdesk.errors import BriefError, FileError, LinkError
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

Count = Callable[[], Awaitable[int]]


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

    async def kill(self) -> None:
        """Kill it with all its descendants, and stop following it."""
        with anyio.move_on_after(GRACE, shield=True):
            await self.channel.order({"signal": 9, "tree": True})
            await self.channel.drop()

    async def wait(self) -> Done:
        """Wait until it is over."""
        async for _ in self.output():
            pass
        assert self.done is not None
        return self.done

    async def detach(self) -> None:
        """Stop following it."""
        await self.channel.drop()


class LinkedDesk:
    """A desk whose guest we talk to."""

    def __init__(self, desk: DeskId, link: Link, home: str, oom_kills: Count | None = None) -> None:
        self.id = desk
        self.link = link
        self.home = home
        self.oom_kills = oom_kills
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
        ask, timeout = ask_exec(argv, env, cwd, user, timeout, stdin=bool(stdin), tell=False)
        process = LinkedProcess(await self.link.open(ask), 0, None, timeout)
        try:
            heard = await (collect_fed(process, stdin, output_limit) if stdin else collect(process, output_limit))
        finally:
            if process.done is None:
                await process.kill()
        assert process.done is not None
        done = replace(process.done, stdout=heard.stdout, stderr=heard.stderr, truncated=heard.truncated)
        if done.exit_code and not done.timed_out and self.oom_kills is not None:
            self.kills = max(self.kills, await self.oom_kills())
            done = replace(done, out_of_memory=self.kills > kills)
        return done

    async def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout: float | None = None,
        stdin: bool = True,
    ) -> LinkedProcess:
        """Start a program and follow it."""
        ask, timeout = ask_exec(argv, env, cwd, user, timeout, stdin=stdin, tell=True)
        return await self.follow(ask, timeout)

    async def attach(self, pid: int) -> LinkedProcess:
        """Follow a program already started."""
        return await self.follow({"op": "attach", "pid": pid}, None)

    async def follow(self, ask: Body, timeout: float | None) -> LinkedProcess:
        """Open a program's channel and take the guest's first word on it."""
        channel = await self.link.open(ask)
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
                if ask["op"] == "exec":  # nobody will ever know its pid
                    await channel.order({"signal": 9, "tree": True})
                await channel.drop()
            raise

    async def processes(self) -> list[Running]:
        """List the programs started here."""
        return [as_running(value) async for value in self.values({"op": "processes"}, "processes", 10_000)]

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
        return [as_entry(value) async for value in self.values(ask, path, limit)]

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

    async def values(self, body: Body, path: str, limit: int) -> AsyncIterator[object]:
        """Yield what the guest lists, up to a limit."""
        channel = await self.link.open(body)
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
                        for value in batch:
                            yield value
                    case Reply(answer):
                        check(path, answer)
                        return
                    case _:
                        raise LinkError("the guest spoke out of turn")
        finally:
            with anyio.move_on_after(GRACE, shield=True):
                await channel.drop()


def ask_exec(
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    cwd: str | None,
    user: str | None,
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
    if user not in (None, "user", "1000"):
        raise BriefError(f"no user {user!r} in this desk; it has `user`")
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
    """Wait for the guest, but not for ever."""
    with anyio.move_on_after(SILENCE):
        return await channel.receive()
    raise LinkError(f"the desk's guest said nothing for {SILENCE:.0f} s; burn it and open another")
