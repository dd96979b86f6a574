"""A keeper without desks: keys and readers for an owner whose desks are elsewhere. It needs no privilege.

For an owner of desks that are pods it also starts the door, and makes the sockets at which the door serves each desk.

It speaks a keeper's protocol with its owner, and refuses every request about a desk. The processes it starts are
confined by Landlock and seccomp, run as the owner's user, and end with it. Standard library only, like the keeper.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from hotdesk.config import Config
from hotdesk.desk.keeper.readers import Readers
from hotdesk.desk.keeper.services import Doorman
from hotdesk.desk.keeper.spawn import decode_settings, encode_settings
from hotdesk.desk.request import KeeperRequest, parse, read_number
from hotdesk.errors import HostError, HotdeskError, KeeperError
from hotdesk.ipc.child import LINES, MAX_PACKET_BYTES, send_now, spawn
from hotdesk.walls import TRAITS, WallProof

POD = "Kubernetes pod"
"""The version in the proof of a pod's wall: its agent compared the stored pod, which names its RuntimeClass."""
_REST_S = 0.2
_BACKLOG = 256
_END_TIMEOUT_S = 3.0
"""Seconds keys may take to end once they are no longer needed."""


class PartsKeeper:
    """Serves one owner until it is gone."""

    def __init__(
        self, settings: Config, owner: socket.socket, authority: Path | None = None, *, has_door: bool = False
    ) -> None:
        self.owner = owner
        self.doorman = Doorman(settings, authority, mounts=False)
        self.has_door = has_door
        self.gates = settings.run / "private" / "gates"
        self.readers = Readers(settings)
        self.is_over = False
        (settings.run / "private").mkdir(mode=0o700, parents=True, exist_ok=True)

    def serve(self) -> None:
        """Answer until the owner is gone."""
        wake_r, wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.note_signal)
        ears = selectors.DefaultSelector()
        ears.register(self.owner, selectors.EVENT_READ)
        ears.register(wake_r, selectors.EVENT_READ)
        while not self.is_over:
            ready = {key.fd for key, _ in ears.select(_REST_S if self.doorman.is_waited_for() else None)}
            if wake_r in ready:
                os.read(wake_r, 4096)
                self.reap()
            if self.owner.fileno() in ready:
                self.receive()
            if self.doorman.is_waited_for():
                self.doorman.ensure_started()  # a desk may call at any moment
        self.close()

    def note_signal(self, number: int, _frame: object) -> None:
        """Record a signal; Ctrl-C is for the owner."""
        if number == signal.SIGTERM:
            self.is_over = True

    def receive(self) -> None:
        try:
            data = self.owner.recv(MAX_PACKET_BYTES)
        except OSError:
            data = b""
        if not data:
            self.is_over = True
            return
        number = read_number(data)
        try:
            number, request = parse(data)
            self.answer(number, request)
        except HotdeskError as e:
            self.refuse(number, e)
        except OSError as e:
            self.refuse(number, KeeperError(f"a process of this server cannot be started: {e.strerror}"))

    def answer(self, number: int, request: KeeperRequest) -> None:
        match request.verb:
            case "keys":
                talk, wait = self.doorman.meet()
                with talk, wait:
                    self.send({"re": number, "ok": {}}, talk.fileno(), wait.fileno())
            case "reader":
                talk, hand = self.readers.start(request.desk)
                with talk, hand:
                    self.send({"re": number, "ok": {}}, talk.fileno(), hand.fileno())
            case "dismiss":
                self.readers.dismiss(request.desk)
                self.send({"re": number, "ok": {}})
            case "gate" if self.has_door:
                self.send({"re": number, "ok": {"path": self.open_gate(request)}})
            case "ungate" if self.has_door:
                self.close_gate(request.desk)
            case "door" if self.has_door:
                self.doorman.ensure_started()
            case "touch" | "door":
                pass
            case _:
                raise HostError("this machine opens no desks: the desks of this server are on its nodes")

    def open_gate(self, request: KeeperRequest) -> str:
        """Make a desk's socket and give it to the door; return its path, which only this user can open."""
        self.gates.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.gates / f"{request.desk}.sock"
        gate = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        gate.bind(str(path))
        gate.listen(_BACKLOG)
        wall = request.spec.wall
        self.doorman.add(request.desk, gate, WallProof(wall, TRAITS[wall].kernel, TRAITS[wall].is_boundary, POD))
        self.doorman.ensure_started()
        return str(path)

    def close_gate(self, desk: str) -> None:
        if (gate := self.doorman.gates.get(desk)) is not None:
            self.doorman.remove(desk)
            gate.close()
            (self.gates / f"{desk}.sock").unlink(missing_ok=True)

    def refuse(self, number: int, error: HotdeskError) -> None:
        self.send({"re": number, "error": {"code": error.code, "text": str(error)}})

    def send(self, message: dict[str, object], *fds: int) -> None:
        """Send a message to the owner; one that does not read is treated as gone."""
        try:
            send_now(self.owner, json.dumps(message).encode(), fds)
        except OSError:
            self.is_over = True

    def reap(self) -> None:
        with suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                if not self.doorman.note_exit(pid):
                    self.readers.note_exit(pid)

    def close(self) -> None:
        """Close all connections, and wait until the processes have ended."""
        for desk in list(self.doorman.gates):
            self.close_gate(desk)
        self.doorman.close()
        self.readers.close()
        end = time.monotonic() + _END_TIMEOUT_S
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0] or time.monotonic() < end:
                time.sleep(0.002)


def launch(settings: Config, authority: Path | None, theirs: socket.socket, *, has_door: bool = False) -> int:
    """Start such a keeper for the owner at the other end of a socket; return its pid."""
    named = str(authority) if authority is not None else ""
    return spawn(__name__, {"settings": encode_settings(settings), "authority": named, "has_door": has_door}, theirs)


def main() -> None:
    """Serve the owner at descriptor 3."""
    os.umask(0o022)
    arguments = json.loads(sys.argv[3])
    owner = socket.socket(fileno=LINES)
    owner.set_inheritable(False)
    authority = Path(arguments["authority"]) if arguments["authority"] else None
    settings = decode_settings(arguments["settings"])
    PartsKeeper(settings, owner, authority, has_door=arguments["has_door"] is True).serve()
