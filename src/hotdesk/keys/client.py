"""An owner's end of its lines to keys: scopes in, certificates and placeholders out; notes are on disk when taken."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio

from hotdesk.brief import Scope, scope_json
from hotdesk.config import Config
from hotdesk.desk.owner.keeper_client import ERRORS
from hotdesk.desk.seam import Spec
from hotdesk.door.canary import Canary
from hotdesk.errors import HostError, HotdeskError, KeeperError
from hotdesk.event import Event, as_dict
from hotdesk.ipc.frames import FrameError, Messages, write
from hotdesk.linux.sockets import receive, send

SECONDS = 30.0
"""Beyond what any request takes: keys that are silent for so long are stopped or broken."""
GONE = "the keys process of these desks died: nothing can be written down, so nothing passes; open other desks"


@dataclass(frozen=True, slots=True)
class Admitted:
    """What the owner of a desk is told of its way out."""

    ca: str
    """The certificate it shall trust."""
    env: Mapping[str, str]
    """Variables that hold its placeholders."""
    canary: Canary


class KeysClient:
    """Talks to keys: asynchronously, and for notes that must be on disk first, waiting."""

    def __init__(self, talk: int, wait: int) -> None:
        self.sock = socket.socket(fileno=talk)
        self.sock.setblocking(False)
        self.waiting_sock = socket.socket(fileno=wait)
        self.waiting_sock.settimeout(SECONDS)
        self.waiting = threading.Lock()
        """Held while one of several threads waits for its answer."""
        self.number = 0
        self.sending = anyio.Lock()
        self.events: dict[int, anyio.Event] = {}
        self.answers: dict[int, dict[str, Any]] = {}
        self.failure: HotdeskError | None = None
        self.heard: Callable[[dict[str, Any]], None] = lambda message: None
        """Told what keys say unasked: who is in use, what a desk asks for."""

    async def run(self) -> None:
        """Read answers until keys are gone."""
        messages = Messages()
        try:
            while data := await receive(self.sock):
                for message in messages.feed(data):
                    self.take(message)
        except (OSError, FrameError, anyio.ClosedResourceError):
            pass
        self.failure = HostError(GONE)
        for event in self.events.values():
            event.set()

    def take(self, message: dict[str, Any]) -> None:
        """Sort one message."""
        number = message.get("re")
        if number in self.events:
            self.answers[number] = message
            self.events[number].set()
        elif "event" in message:
            self.heard(message)

    async def ask(self, verb: str, desk: str, **told: object) -> dict[str, Any]:
        """Ask something and wait for the answer."""
        self.number += 1
        number = self.number
        self.events[number] = anyio.Event()
        try:
            if self.failure is not None:
                raise self.failure
            with anyio.move_on_after(SECONDS):
                async with self.sending:
                    await send(self.sock, write({"n": number, "verb": verb, "desk": desk, **told}))
                await self.events[number].wait()
            message = self.answers.pop(number, None)
        except (OSError, anyio.ClosedResourceError) as e:
            raise HostError(GONE) from e
        finally:
            del self.events[number]
        if message is None:
            raise self.failure or KeeperError(f"keys did not answer within {SECONDS:.0f} s; are they stopped?")
        return ok(message)

    async def open(self, desk: str, scope: Scope, seconds: float, settings: Config, spec: Spec) -> Admitted:
        """Give a desk a way out; answer with what its owner may know of it."""
        told = await self.ask(
            "open",
            desk,
            **as_told(scope),
            seconds=seconds,
            ceiling=list(settings.ceiling),
            approval_seconds=settings.approval_seconds,
            by=spec.by,
            image=spec.image,
        )
        env = {str(name): str(value) for name, value in told["env"].items()}
        return Admitted(str(told["ca"]), env, Canary(**told["canary"]))

    async def change_scope(self, desk: str, scope: Scope, by: str) -> None:
        """Give a desk another way out; nothing passes by the old one when this returns."""
        await self.ask("scope", desk, **as_told(scope), by=by)

    async def try_grants(self, scope: Scope) -> tuple[str, ...]:
        """Say of each grant of a scope why it cannot be had; empty: it can."""
        told = await self.ask("try", "", scope=json.loads(scope_json(scope)))
        return tuple(str(why) for why in told["tried"])

    def note(self, *events: Event) -> None:
        """Have events written down, all or none; they are on disk when this returns."""
        self.wait("note", events=[{"event": type(event).__name__, "data": as_dict(event)} for event in events])

    def certify(self, claim: Mapping[str, object]) -> bytes:
        """Have what was seen of a deliverable signed; give the certificate. That it was is on disk by then."""
        return str(self.wait("certify", claim=claim)["certificate"]).encode()

    def wait(self, verb: str, **told: object) -> dict[str, Any]:
        """Ask something, and do nothing else until it is answered."""
        messages, number = Messages(), -1
        try:
            with self.waiting:
                self.waiting_sock.sendall(write({"n": number, "verb": verb, "desk": "", **told}))
                while data := self.waiting_sock.recv(1 << 16):
                    for message in messages.feed(data):
                        if message.get("re") == number:
                            return ok(message)
        except (OSError, FrameError) as e:
            raise HostError(GONE) from e
        raise HostError(GONE)

    def close(self) -> None:
        """Hang up."""
        anyio.notify_closing(self.sock)
        self.sock.close()
        with suppress(OSError):
            self.waiting_sock.shutdown(socket.SHUT_RDWR)  # a thread may wait there
        self.waiting_sock.close()


def as_told(scope: Scope) -> dict[str, object]:
    """Write a scope for keys, and beside it the secrets that come with it."""
    values = {name: base64.b64encode(value).decode() for name, value in scope.values.items()}
    return {"scope": json.loads(scope_json(scope)), "values": values}


def ok(message: Mapping[str, Any]) -> dict[str, Any]:
    """Give an answer, or raise what it says."""
    match message:
        case {"ok": dict(body)}:
            return body
        case {"error": {"code": str(code), "text": str(text)}}:
            raise ERRORS.get(code, HostError)(text)
    raise KeeperError("keys answered strangely")
