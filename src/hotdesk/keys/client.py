"""The owner's connections to keys: it sends scopes and gets certificates and placeholders. Noted events are on disk."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio

from hotdesk.brief import Scope, describe_scope
from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Spec
from hotdesk.door.canary import Canary
from hotdesk.errors import HostError
from hotdesk.event import Event, as_dict
from hotdesk.ipc.calls import Calls, read_body
from hotdesk.ipc.frames import FrameError, Frames, write
from hotdesk.linux.pace import scale_seconds
from hotdesk.linux.sockets import receive, send

ANSWER_TIMEOUT_S = 30.0
"""Longer than any request takes, also the first, which waits for the process to start. After it, the keys process
counts as stopped or broken."""
GONE = (
    "the keys process (vault and journal) of these desks ended, so nothing can be recorded and all "
    "requests are refused; open other desks"
)

STUCK = (
    "the keys process (vault and journal) of these desks did not respond within {:.0f} s, so nothing can be recorded "
    "any more and all requests are refused; check whether the disk is stalled, and open other desks"
)


@dataclass(frozen=True, slots=True)
class Admitted:
    """The owner's view of a desk's charter."""

    ca: str
    """The certificate that the desk must trust, in PEM."""
    env: Mapping[str, str]
    """Variables with its placeholders."""
    canary: Canary


class KeysClient(Calls[dict[str, Any]]):
    """The owner's client of the keys process: asynchronous, and blocking for events that must be on disk first."""

    peer = "the keys process"

    def __init__(self, talk: int, wait: int) -> None:
        super().__init__()
        self.sock = socket.socket(fileno=talk)
        self.sock.setblocking(False)
        self.waiting_sock = socket.socket(fileno=wait)
        self.waiting_sock.settimeout(scale_seconds(ANSWER_TIMEOUT_S))
        self.waiting = threading.Lock()
        """Held while a thread waits for its reply on the blocking connection."""
        self.waits = 0
        """Number of requests on the blocking connection so far."""
        self.sending = anyio.Lock(fast_acquire=True)
        self.on_event: Callable[[dict[str, Any]], None] = lambda message: None
        """Called with events: desks in use, and requests of desks for more rights."""

    async def run(self) -> None:
        """Read replies and events until the keys process ends."""
        frames = Frames()
        try:
            while data := await receive(self.sock):
                for message, _ in frames.feed(data):
                    if not self.resolve(message.get("re"), message) and "event" in message:
                        self.on_event(message)
        except (OSError, FrameError, anyio.ClosedResourceError):
            pass
        self.fail(HostError(GONE))

    async def ask(self, verb: str, desk: str, **fields: object) -> dict[str, Any]:
        number = self.begin_call()
        request = self.send({"n": number, "verb": verb, "desk": desk, **fields})
        return read_body(await self.call(number, request, scale_seconds(ANSWER_TIMEOUT_S)), self.peer)

    async def send(self, message: Mapping[str, object]) -> None:
        if self.failure is not None:
            raise self.failure
        try:
            async with self.sending:
                with anyio.fail_after(
                    scale_seconds(ANSWER_TIMEOUT_S), shield=True
                ):  # a partial message would break all that follow
                    await send(self.sock, write(message))
        except (OSError, anyio.ClosedResourceError) as e:  # includes TimeoutError
            raise HostError(GONE) from e

    async def open(
        self, desk: str, scope: Scope, seconds: float, settings: Config, spec: Spec, *, sync: bool = False
    ) -> Admitted:
        """Open a desk's door; return what its owner may know of the charter.

        With `sync` no request leaves before the server of this node has its record.
        """
        reply = await self.ask(
            "open",
            desk,
            **_build_scope_fields(scope),
            seconds=seconds,
            ceiling=list(settings.ceiling),
            approval_seconds=settings.approval_seconds,
            by=spec.by,
            image=spec.image,
            sync=sync,
        )
        env = {str(name): str(value) for name, value in reply["env"].items()}
        return Admitted(str(reply["ca"]), env, Canary(**reply["canary"]))

    async def change_scope(self, desk: str, scope: Scope, by: str) -> None:
        """Replace a desk's scope; nothing passes under the old one when this returns."""
        await self.ask("scope", desk, **_build_scope_fields(scope), by=by)

    async def try_grants(self, scope: Scope) -> tuple[str, ...]:
        """Return for each grant of a scope why it is not available, or an empty string if it is."""
        reply = await self.ask("try", "", scope=describe_scope(scope))
        return tuple(str(why) for why in reply["tried"])

    def note(self, *events: Event) -> None:
        """Record events, all or none; they are on disk when this returns."""
        self.wait("note", events=[{"event": type(event).__name__, "data": as_dict(event)} for event in events])

    def certify(self, claim: Mapping[str, object]) -> bytes:
        """Get a deliverable's evidence signed; return the certificate. Its event is on disk when this returns."""
        return str(self.wait("certify", claim=claim)["certificate"]).encode()

    def certify_swarm(self, swarm: str) -> bytes:
        """Get the records of a swarm's items signed; return the certificate. Its event is on disk when this returns."""
        return str(self.wait("certify swarm", swarm=swarm)["certificate"]).encode()

    def find_secrets(self, data: bytes, scope: Scope) -> tuple[str, ...]:
        reply = self.wait("scan", data=base64.b64encode(data).decode(), **_build_scope_fields(scope))
        return tuple(str(name) for name in reply["secrets"])

    def wait(self, verb: str, **fields: object) -> dict[str, Any]:
        """Send a request, and block this thread until its reply arrives.

        After an error no further request is sent: a late reply must not be taken for that of another request.
        """
        with self.waiting:
            self.waits += 1
            number = -self.waits
            try:
                request = write({"n": number, "verb": verb, "desk": "", **fields})
            except FrameError as e:
                raise HostError(f"the request `{verb}` is too large for the keys process: {e}") from e
            try:
                self.waiting_sock.sendall(request)
                message = self.receive_reply(number)
            except BaseException as e:
                self.shut_down()
                if isinstance(e, OSError | FrameError):
                    stuck = STUCK.format(scale_seconds(ANSWER_TIMEOUT_S))
                    raise HostError(stuck if isinstance(e, TimeoutError) else GONE) from e
                raise
        return read_body(message, self.peer)

    def receive_reply(self, number: int) -> Mapping[str, Any]:
        """Block until the reply to a request arrives on the blocking connection."""
        frames = Frames()
        while data := self.waiting_sock.recv(1 << 16):
            for message, _ in frames.feed(data):
                if message.get("re") == number:
                    return message
        raise ConnectionError("the keys process closed the connection")

    def shut_down(self) -> None:
        """End both connections; may be called in any thread. `run` then fails all calls."""
        for sock in (self.waiting_sock, self.sock):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        anyio.notify_closing(self.sock)
        self.sock.close()
        with suppress(OSError):
            self.waiting_sock.shutdown(socket.SHUT_RDWR)  # a thread may be waiting there
        self.waiting_sock.close()


def _build_scope_fields(scope: Scope) -> dict[str, object]:
    values = {name: base64.b64encode(value).decode() for name, value in scope.values.items()}
    return {"scope": describe_scope(scope), "values": values}
