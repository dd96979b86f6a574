"""An owner's end of its lines to keys: scopes in, certificates and placeholders out; notes are on disk when taken."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio

from hotdesk.brief import Scope, scope_json
from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Spec
from hotdesk.door.canary import Canary
from hotdesk.errors import HostError
from hotdesk.event import Event, as_dict
from hotdesk.ipc.calls import Calls, read_body
from hotdesk.ipc.frames import FrameError, Frames, write
from hotdesk.linux.sockets import receive, send

ANSWER_TIMEOUT_S = 30.0
"""Beyond what any request takes: keys that are silent for so long are stopped or broken."""
GONE = (
    "the keys process (vault and journal) of these desks ended, so nothing can be recorded and all "
    "requests are refused; open other desks"
)


@dataclass(frozen=True, slots=True)
class Admitted:
    """The owner's view of a desk's way out."""

    ca: str
    """The certificate it shall trust."""
    env: Mapping[str, str]
    """Variables that hold its placeholders."""
    canary: Canary


class KeysClient(Calls[dict[str, Any]]):
    """Talks to keys: asynchronously, and for notes that must be on disk first, waiting."""

    peer = "the keys process"

    def __init__(self, talk: int, wait: int) -> None:
        super().__init__()
        self.sock = socket.socket(fileno=talk)
        self.sock.setblocking(False)
        self.waiting_sock = socket.socket(fileno=wait)
        self.waiting_sock.settimeout(ANSWER_TIMEOUT_S)
        self.waiting = threading.Lock()
        """Held while one of several threads waits for its answer."""
        self.sending = anyio.Lock()
        self.on_event: Callable[[dict[str, Any]], None] = lambda message: None
        """Called with events: which desks are in use, what a desk asks for."""

    async def run(self) -> None:
        """Read replies and events until keys are gone."""
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
        return read_body(await self.call(number, request, ANSWER_TIMEOUT_S), self.peer)

    async def send(self, message: Mapping[str, object]) -> None:
        if self.failure is not None:
            raise self.failure
        try:
            async with self.sending:
                with anyio.fail_after(ANSWER_TIMEOUT_S, shield=True):  # half a message would spoil all that follow
                    await send(self.sock, write(message))
        except (OSError, anyio.ClosedResourceError) as e:  # a TimeoutError is one, too
            raise HostError(GONE) from e

    async def open(self, desk: str, scope: Scope, seconds: float, settings: Config, spec: Spec) -> Admitted:
        """Open a desk's way out; answer with what its owner may know of it."""
        reply = await self.ask(
            "open",
            desk,
            **_build_scope_fields(scope),
            seconds=seconds,
            ceiling=list(settings.ceiling),
            approval_seconds=settings.approval_seconds,
            by=spec.by,
            image=spec.image,
        )
        env = {str(name): str(value) for name, value in reply["env"].items()}
        return Admitted(str(reply["ca"]), env, Canary(**reply["canary"]))

    async def change_scope(self, desk: str, scope: Scope, by: str) -> None:
        """Give a desk another way out; nothing passes by the old one when this returns."""
        await self.ask("scope", desk, **_build_scope_fields(scope), by=by)

    async def try_grants(self, scope: Scope) -> tuple[str, ...]:
        """Say of each grant of a scope why it cannot be had; empty: it can."""
        reply = await self.ask("try", "", scope=json.loads(scope_json(scope)))
        return tuple(str(why) for why in reply["tried"])

    def note(self, *events: Event) -> None:
        """Have events written down, all or none; they are on disk when this returns."""
        self.wait("note", events=[{"event": type(event).__name__, "data": as_dict(event)} for event in events])

    def certify(self, claim: Mapping[str, object]) -> bytes:
        """Get a deliverable's evidence signed; return the certificate. The event is on disk by then."""
        return str(self.wait("certify", claim=claim)["certificate"]).encode()

    def certify_swarm(self, swarm: str) -> bytes:
        """Have the records of a swarm's items signed; return the certificate. That it was is on disk by then."""
        return str(self.wait("certify swarm", swarm=swarm)["certificate"]).encode()

    def find_secrets(self, data: bytes, scope: Scope) -> tuple[str, ...]:
        reply = self.wait("scan", data=base64.b64encode(data).decode(), **_build_scope_fields(scope))
        return tuple(str(name) for name in reply["secrets"])

    def wait(self, verb: str, **fields: object) -> dict[str, Any]:
        """Send a request, and block this thread until its reply comes."""
        frames, number = Frames(), -1
        try:
            with self.waiting:
                self.waiting_sock.sendall(write({"n": number, "verb": verb, "desk": "", **fields}))
                while data := self.waiting_sock.recv(1 << 16):
                    for message, _ in frames.feed(data):
                        if message.get("re") == number:
                            return read_body(message, self.peer)
        except (OSError, FrameError) as e:
            raise HostError(GONE) from e
        raise HostError(GONE)

    def close(self) -> None:
        anyio.notify_closing(self.sock)
        self.sock.close()
        with suppress(OSError):
            self.waiting_sock.shutdown(socket.SHUT_RDWR)  # a thread may wait there
        self.waiting_sock.close()


def _build_scope_fields(scope: Scope) -> dict[str, object]:
    values = {name: base64.b64encode(value).decode() for name, value in scope.values.items()}
    return {"scope": json.loads(scope_json(scope)), "values": values}
