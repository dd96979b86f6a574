"""Desks of another process, through its control socket: the same `Runtime`, one connection a call."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path

import anyio
import h11

from hotdesk.desk.background import Background, background
from hotdesk.desk.link import Link
from hotdesk.desk.linked import LinkedDesk
from hotdesk.desk.oci import ERRORS
from hotdesk.desk.seam import DeskId, Spec, as_id
from hotdesk.desk.sockets import receive, send
from hotdesk.errors import DeskError, DeskGone, HostError, KeeperError

ANSWER_LIMIT = 1 << 22
CALL_SECONDS = 60.0


class RemoteRuntime:
    """Desks an owner elsewhere on this machine keeps."""

    def __init__(self, path: Path, tasks: Background) -> None:
        self.path = path
        self.tasks = tasks
        self.links: dict[DeskId, Link] = {}

    async def open(self, spec: Spec) -> LinkedDesk:
        """Have the owner open a desk, and link to it."""
        answer = await self.call("POST", "/desks", {**asdict(spec), "env": dict(spec.env)})
        desk = as_id(str(answer.get("id")))
        try:
            return await self.find(desk)
        except BaseException:
            with anyio.move_on_after(CALL_SECONDS, shield=True):
                await self.burn(desk)
            raise

    async def find(self, desk: DeskId) -> LinkedDesk:
        """Link to an open desk."""
        sock = await self.dial()
        try:
            upgrade = "Host: hotdesk\r\nConnection: Upgrade\r\nUpgrade: hotdesk-link\r\n\r\n"
            await send(sock, f"GET /desks/{desk}/link HTTP/1.1\r\n{upgrade}".encode())
            status, body, rest = await read_answer(sock)
            if status != 101:
                raise failure(body)
            link = Link(sock, rest)
        except BaseException:
            sock.close()
            raise
        self.tasks.start(link.run)
        self.links[desk] = link
        hello = await link.ready()
        return LinkedDesk(desk, link, str(hello.get("home", "/")), lambda: self.oom_kills(desk))

    async def oom_kills(self, desk: DeskId) -> int:
        """Ask how many processes the desk's memory limit has killed."""
        return int(str((await self.call("GET", f"/desks/{desk}/oom")).get("kills", 0)))

    async def burn(self, desk: DeskId) -> None:
        """Have the owner burn a desk."""
        await self.call("DELETE", f"/desks/{desk}")
        if link := self.links.pop(desk, None):
            link.hang_up()

    async def call(self, method: str, target: str, value: object = None) -> dict[str, object]:
        """Make one request and give its answer."""
        body = b"" if value is None else json.dumps(value).encode()
        head = f"{method} {target} HTTP/1.1\r\nHost: hotdesk\r\nContent-Length: {len(body)}\r\n\r\n"
        sock = await self.dial()
        with sock, anyio.move_on_after(CALL_SECONDS):
            await send(sock, head.encode() + body)
            status, answer, _ = await read_answer(sock)
            if status >= 400:
                raise failure(answer)
            found = json.loads(answer)
            return found if isinstance(found, dict) else {"items": found}
        raise KeeperError(f"the owner at {self.path} did not answer in {CALL_SECONDS:.0f} s")

    async def dial(self) -> socket.socket:
        """Call the owner."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(str(self.path))
        except OSError as e:
            sock.close()
            raise HostError(f"nobody answers at {self.path}: {e.strerror}; `hotdesk ps` says what is open") from e
        sock.setblocking(False)
        return sock


async def read_answer(sock: socket.socket) -> tuple[int, bytes, bytes]:
    """Read one answer: its status, its body, and what came after an upgrade."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "hotdesk"), ("Upgrade", "hotdesk-link")]))
    connection.send(h11.EndOfMessage())
    status = 0
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await receive(sock))
        elif isinstance(event, h11.InformationalResponse) and event.status_code == 101:
            return 101, b"", connection.trailing_data[0]
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > ANSWER_LIMIT:
                raise KeeperError("the owner's answer is too large")
        elif isinstance(event, h11.EndOfMessage):
            return status, bytes(body), b""
        elif not isinstance(event, h11.InformationalResponse):
            raise DeskGone("the owner hung up")


def failure(body: bytes) -> Exception:
    """Make an error of an owner's answer."""
    with contextlib.suppress(ValueError):
        match json.loads(body):
            case {"code": str(code), "text": str(text)}:
                return ERRORS.get(code, DeskError)(text)
    return KeeperError("the owner answered strangely")


@contextlib.asynccontextmanager
async def remote_runtime(path: Path) -> AsyncIterator[RemoteRuntime]:
    """Give the runtime of the owner that listens at a path."""
    async with background() as tasks:
        runtime = RemoteRuntime(path, tasks)
        try:
            yield runtime
        finally:
            for link in runtime.links.values():
                link.hang_up()
