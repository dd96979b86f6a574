"""The guest of a desk that is a Kubernetes pod: the pod's first process, and at the same time its only way out.

It serves the agent over the connection that `dial.py` made: a multiplexer carries the link and programs' connections to
the gate. When that connection ends, the pod ends: its token cannot be used again.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs a desk 5 ms
if TYPE_CHECKING:
    from typing import Any

    from hotdesk_guest.tls import TlsChannel

import _socket
import posix

from hotdesk_guest import agent, ports, process
from hotdesk_guest.line import GuestLink
from hotdesk_guest.mux import HOST_LIMIT, POD_WINDOW, Mux
from hotdesk_guest.programs import GuestPrograms
from hotdesk_guest.tls import TlsCarrier
from hotdesk_guest.wire import WireError

RUN = "/run/hotdesk/"
OWN = ("HOTDESK_AGENT", "HOTDESK_TOKEN", "HOTDESK_CERTIFICATE")


class StreamLink(GuestLink):
    """The link, as a stream of the multiplexer."""

    def __init__(self, guest: PodGuest) -> None:
        super().__init__("", guest.poll)
        self.mux = guest.mux

    def dial(self) -> bool:
        ours, theirs = _socketpair()
        self.mux.open(theirs, "link")
        ours.setblocking(False)
        self.greet(ours)
        return True


class PodPorts(ports.GuestPorts):
    """Programs' connections to the gate, each as a stream of the multiplexer."""

    def accept(self) -> None:
        assert isinstance(self.guest, PodGuest)
        try:
            fd, _ = self.listener.sock._accept()  # type: ignore[attr-defined]
        except OSError:
            return
        self.guest.mux.open(_socket.socket(fileno=fd), "gate")


class PodGuest(agent.Guest):
    """The guest, with the multiplexer in the same loop: no program can end one without the other."""

    def __init__(self, channel: TlsChannel) -> None:
        super().__init__("")
        carrier = TlsCarrier(channel, self.poll, channel.sock.fileno(), HOST_LIMIT)
        self.mux = Mux(
            self.poll, carrier.fd, HOST_LIMIT, lambda word: None, make_carrier=lambda *_: carrier, first=POD_WINDOW
        )
        self.carrier = carrier
        self.line = StreamLink(self)
        self.programs = GuestPrograms(self)  # they keep the link they are made with
        self.ends_with_link = True

    def handle_event(self, fd: int, event: int) -> None:
        try:
            if self.mux.handle_event(fd, event):
                return
        except (EOFError, WireError, OSError):
            posix._exit(0)  # the agent is gone
        super().handle_event(fd, event)


def _socketpair() -> tuple[_socket.socket, _socket.socket]:
    return _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)


def write_files(files: dict[str, str]) -> None:
    """Write files of the agent, such as the door's certificate, below `RUN`: the image is read-only."""
    for path, text in files.items():
        if not path.startswith(RUN) or ".." in path:
            raise ValueError("a file outside " + RUN)
        fd = posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_CLOEXEC, 0o644)
        posix.write(fd, text.encode())
        posix.close(fd)


def main(channel: TlsChannel, seed: dict[str, Any]) -> None:
    """Serve the agent at the other end of a channel until it is gone."""
    for name in OWN:
        process.ENVIRONMENT.pop(name, None)
    process.ENVIRONMENT.update(seed["env"])
    write_files(seed["files"])
    posix.umask(0o022)
    posix.chdir(process.HOME)
    guest = PodGuest(channel)
    guest.is_hidden = agent.hide()
    guest.line.dial()
    if seed["sentry"]:
        agent.outlive_signals()
    process.signals_terminals = seed["sentry"]
    guest.ports = PodPorts(guest, "", (seed["gate"][0], seed["gate"][1]))
    for kind, number, payload in guest.carrier.unseal() or ():
        guest.mux.take(kind, number, payload)
    guest.run()
