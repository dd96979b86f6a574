"""Desks of another process, through its control socket: the same `Runtime`, with one connection per call."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from pathlib import Path

import anyio
import h11

from hotdesk.brief import CLOSED, Scope, describe_scope
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.owner.keeper_client import SAVE_SECONDS
from hotdesk.desk.owner.keeper_handle import as_usage
from hotdesk.desk.owner.memory import SAVE_MEMORY_SECONDS
from hotdesk.desk.seam import DeskId, Spec, Usage, as_id
from hotdesk.errors import BriefError, DeskError, DeskGone, HostError, KeeperError
from hotdesk.event import Asked, from_json
from hotdesk.ipc.calls import ERRORS
from hotdesk.ipc.child import MAX_PACKET_BYTES
from hotdesk.ipc.tasks import Background, background
from hotdesk.linux.sockets import receive, send

ANSWER_LIMIT = 1 << 24
HEAD_LIMIT = 1 << 14
END = b"\r\n\r\n"
CALL_SECONDS = 60.0
_CONNECT_RETRY_S = 0.02


class NotAdmittedError(HostError):
    """The owner's socket is for other users."""


class NoOwnerError(HostError):
    """No process listens at the owner's socket."""


class RemoteHandle:
    """Controls a desk through its owner."""

    def __init__(self, runtime: RemoteRuntime, desk: DeskId) -> None:
        self.runtime = runtime
        self.desk = desk
        self.roots: Link | None = None

    async def usage(self) -> Usage:
        return as_usage(await self.runtime.call("GET", f"/desks/{self.desk}/usage"))

    async def pause(self, paused: bool) -> None:
        await self.runtime.call("POST", f"/desks/{self.desk}/{'pause' if paused else 'resume'}")

    async def suspend(self, suspended: bool) -> None:
        """Freeze all of the desk except its screen, window manager and browser, or thaw it, through the owner."""
        await self.runtime.call("POST", f"/desks/{self.desk}/suspend", {"suspended": suspended})

    async def halt(self, snapshot: str = "") -> None:
        await self.runtime.call("POST", f"/desks/{self.desk}/halt", {"snapshot": snapshot})

    async def boot(self, snapshot: str = "") -> Link:
        await self.runtime.call("POST", f"/desks/{self.desk}/boot", {"snapshot": snapshot})
        self.roots = None
        return await self.runtime.borrow(self.desk)

    async def snapshot(self) -> str:
        return str((await self.runtime.call("POST", f"/desks/{self.desk}/snapshots")).get("snapshot"))

    async def forget(self, snapshot: str) -> None:
        await self.runtime.call("DELETE", f"/desks/{self.desk}/snapshots/{snapshot}")

    async def save(self, name: str, snapshot: str) -> None:
        request = {"name": name, "snapshot": snapshot}
        await self.runtime.call("POST", f"/desks/{self.desk}/images", request, SAVE_SECONDS)

    async def fork(self, snapshot: str, count: int) -> Sequence[LinkedDesk]:
        return await self.open_forks({"snapshot": snapshot, "count": count})

    async def fork_live(self, link: Link | None, count: int) -> Sequence[LinkedDesk]:
        return await self.open_forks({"count": count, "memory": True})

    async def hibernate(self, link: Link | None) -> None:
        await self.runtime.call("POST", f"/desks/{self.desk}/pause", {"keep": "disk"}, SAVE_MEMORY_SECONDS)

    async def open_forks(self, order: dict[str, object]) -> Sequence[LinkedDesk]:
        reply = await self.runtime.call("POST", f"/desks/{self.desk}/forks", order, SAVE_MEMORY_SECONDS)
        ids = reply.get("ids")
        forks = [as_id(str(each)) for each in ids] if isinstance(ids, list) else []
        try:
            return [await self.runtime.find(each) for each in forks]
        except BaseException:
            with anyio.move_on_after(CALL_SECONDS, shield=True):
                for each in forks:
                    await self.runtime.burn(each)
            raise

    async def dial(self, port: int, link: Link | None = None) -> socket.socket:
        """Connect to a server inside through the owner; return the stream's socket."""
        return await self.runtime.upgrade(f"/desks/{self.desk}/dial/{port}", "hotdesk-stream")

    async def get_root_link(self) -> Link:
        if self.roots is None or self.roots.failure is not None:
            self.roots = await self.runtime.link(f"/desks/{self.desk}/root")
            self.runtime.links.setdefault(self.desk, []).append(self.roots)
        return self.roots


class RemoteRuntime:
    """The desks of an owner elsewhere on this machine."""

    def __init__(self, path: Path, tasks: Background) -> None:
        self.path = path
        self.tasks = tasks
        self.links: dict[DeskId, list[Link]] = {}

    async def open(self, spec: Spec, scope: Scope = CLOSED, *, personal: bool = False) -> LinkedDesk:
        """Open a desk through the owner, and link to it. `personal`: a person opens it for themselves."""
        shown = {**asdict(spec), "env": dict(spec.env)}
        request: dict[str, object] = {"spec": shown, "scope": describe_scope(scope)}
        request |= {"personal": True} if personal else {}
        answer = await self.call("POST", "/desks", request)
        desk = as_id(str(answer.get("id")))
        try:
            return await self.find(desk)
        except BaseException:
            with anyio.move_on_after(CALL_SECONDS, shield=True):
                await self.burn(desk)
            raise

    async def find(self, desk: DeskId) -> LinkedDesk:
        link = await self.borrow(desk)
        return LinkedDesk(desk, link, str((link.hello or {}).get("home", "/")), self.get_handle(desk), self.burn)

    def get_handle(self, desk: DeskId) -> RemoteHandle:
        """Return the desk's handle, which does not need its guest."""
        return RemoteHandle(self, desk)

    async def borrow(self, desk: DeskId) -> Link:
        link = await self.link(f"/desks/{desk}/link")
        self.links.setdefault(desk, []).append(link)
        return link

    async def link(self, target: str) -> Link:
        link = Link(await self.upgrade(target, "hotdesk-link"))
        self.tasks.start(link.run)
        await link.wait_for_hello()
        return link

    async def upgrade(self, target: str, protocol: str) -> socket.socket:
        """Upgrade a call to a stream; return its socket, with all data after the response head unread."""
        head = f"Host: hotdesk\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
        sock = await self.dial()
        try:
            status, body = await self.exchange(sock, f"GET {target} HTTP/1.1\r\n{head}".encode())
            if status != 101:
                raise make_error(body)
        except BaseException:
            sock.close()
            raise
        return sock

    async def burn(self, desk: DeskId) -> None:
        await self.call("DELETE", f"/desks/{desk}")
        for link in self.links.pop(desk, []):
            link.hang_up()

    async def wake(self, desk: DeskId) -> None:
        await self.call("POST", f"/desks/{desk}/wake", {}, SAVE_MEMORY_SECONDS)

    async def list_questions(self) -> list[Asked]:
        """List the open questions of the owner's desks, each with the seconds left to answer it."""
        items = (await self.call("GET", "/questions")).get("items")
        return [as_question(each) for each in items] if isinstance(items, list) else []

    async def answer(self, question: Asked, approved: bool, behind: str = "") -> Asked:
        value = {"approved": approved, "digest": question.digest} | ({"behind": behind} if behind else {})
        return as_question(await self.call("POST", f"/questions/{question.id}", value))

    async def allow(self, desk: DeskId, rule: str, behind: str = "") -> None:
        await self.call("POST", f"/allow/{desk}", {"rule": rule} | ({"behind": behind} if behind else {}))

    async def unlock(self, root: str) -> None:
        """Send the owner's keys the vault's root key, in base64."""
        await self.call("POST", "/unlock", {"root": root})

    async def call(
        self,
        method: str,
        target: str,
        value: object = None,
        seconds: float = CALL_SECONDS,
        limit: int = MAX_PACKET_BYTES,
    ) -> dict[str, object]:
        body = b"" if value is None else json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
        if len(body) > limit:
            raise BriefError(
                f"the request is too large ({len(body)} bytes, the limit is {limit}); put the data into a file"
            )
        head = f"{method} {target} HTTP/1.1\r\nHost: hotdesk\r\nContent-Length: {len(body)}\r\n\r\n"
        with await self.dial() as sock:
            status, answer = await self.exchange(sock, head.encode() + body, seconds)
        if status >= 400:
            raise make_error(answer)
        try:
            found = json.loads(answer)
        except (ValueError, RecursionError) as e:
            raise KeeperError("malformed reply from the process that opened the desk") from e
        return found if isinstance(found, dict) else {"items": found}

    async def exchange(self, sock: socket.socket, data: bytes, seconds: float = CALL_SECONDS) -> tuple[int, bytes]:
        """Send a request, and wait for the response with a time limit."""
        try:
            with anyio.move_on_after(seconds):
                await send(sock, data)
                return await read_answer(sock)
        except (OSError, h11.RemoteProtocolError) as e:
            raise DeskGone(
                "the process that owns the desk closed the connection, or sent a malformed response; `hotdesk ps` "
                "lists the open desks"
            ) from e
        raise KeeperError(f"the process that owns the desk did not respond at {self.path} within {seconds:.0f} s")

    async def dial(self) -> socket.socket:
        """Connect to the owner. If its queue of connections is full, retry until the time limit."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            with anyio.move_on_after(CALL_SECONDS):
                while True:
                    if _try_connect(sock, self.path):
                        return sock
                    await anyio.sleep(_CONNECT_RETRY_S)
            raise KeeperError(
                f"the process that owns the desk accepted no connection at {self.path} for {CALL_SECONDS:.0f} s"
            )
        except BaseException:
            sock.close()
            raise


def as_question(data: object) -> Asked:
    """Parse a question strictly: a desk influences its content."""
    try:
        event = from_json(Asked.__name__, json.dumps(data))
    except ValueError as e:
        raise KeeperError("malformed reply from the process that opened the desk") from e
    if not isinstance(event, Asked) or not (event.id.isascii() and event.id.isalnum()):
        raise KeeperError("malformed reply from the process that opened the desk")
    return event


def _try_connect(sock: socket.socket, path: Path) -> bool:
    """Connect; return False if the owner's queue is full."""
    try:
        sock.connect(str(path))
    except BlockingIOError:
        return False
    except PermissionError as e:
        raise NotAdmittedError(
            f"this user may not use the socket {path}; ask the administrator to add you to the group hotdesk "
            "(`usermod -aG hotdesk USER`), and sign in again"
        ) from e
    except OSError as e:
        raise NoOwnerError(
            f"the process that opened the desk has ended (no reply at {path}: {e.strerror}); `hotdesk ps` lists "
            "open desks"
        ) from e
    return True


async def read_answer(sock: socket.socket) -> tuple[int, bytes]:
    """Read one response: its status and body. After an upgrade the body is not read: it belongs to the stream."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "hotdesk"), ("Upgrade", "hotdesk-link")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(await read_head(sock))
    status = 0
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await receive(sock))
        elif isinstance(event, h11.InformationalResponse) and event.status_code == 101:
            return 101, b""
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > ANSWER_LIMIT:
                raise KeeperError(
                    f"the process that owns the desk sent a response of more than {ANSWER_LIMIT >> 20} MiB, which is "
                    "the limit; restart that process"
                )
        elif isinstance(event, h11.EndOfMessage):
            return status, bytes(body)
        elif not isinstance(event, h11.InformationalResponse):
            raise DeskGone("the process that owns the desk closed the connection; `hotdesk ps` lists the open desks")


async def read_head(sock: socket.socket) -> bytes:
    """Read a response's head and no byte more; less if the owner disconnects or the head is too long."""
    head = b""
    while END not in head and len(head) < HEAD_LIMIT:
        try:
            peeked = sock.recv(HEAD_LIMIT, socket.MSG_PEEK)
        except BlockingIOError:
            await anyio.wait_readable(sock)
            continue
        if not peeked:
            break
        until = (head + peeked).find(END)
        head += sock.recv(len(peeked) if until < 0 else until + len(END) - len(head))
    return head


def make_error(body: bytes) -> Exception:
    with contextlib.suppress(ValueError, RecursionError):
        match json.loads(body):
            case {"code": str(code), "text": str(text)}:
                return ERRORS.get(code, DeskError)(text)
    return KeeperError("malformed reply from the process that opened the desk")


@contextlib.asynccontextmanager
async def remote_runtime(path: Path) -> AsyncIterator[RemoteRuntime]:
    async with background() as tasks:
        runtime = RemoteRuntime(path, tasks)
        try:
            yield runtime
        finally:
            for link in [link for links in runtime.links.values() for link in links]:
                link.hang_up()
