"""The connections of one desk's pod, on the agent's side: the link to its guest, and programs' connections to its gate.

All data comes from the pod and is hostile: the multiplexer bounds frames and streams, and a pod that does not read what
it causes to be sent is disconnected.
"""

from __future__ import annotations

import asyncio
import functools
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from hotdesk_guest.mux import HIGH, POD_WINDOW, VM_LIMIT, Mux
from hotdesk_guest.tls import TlsCarrier
from hotdesk_guest.wire import WireError

if TYPE_CHECKING:
    from hotdesk_guest.tls import TlsChannel

_MAX_EVENTS = 64
"""Events handled in one turn of the event loop, so that one desk cannot stop the others."""
MAX_WAITING = 4 << 20
"""Bytes that may wait for a pod that does not read; its streams are read while less than `HIGH` waits."""
MAX_WIDENED = 4 << 20
"""Bytes from a pod that may wait for its owner and the door, in addition to `POD_WINDOW` for each stream."""


class DeskStreams:
    """One pod's multiplexer in the agent's event loop."""

    def __init__(self, channel: TlsChannel, on_end: Callable[[], None]) -> None:
        self.channel = channel
        self.on_end = on_end
        self.gate = ""
        """The path of the door's socket for this desk; empty: programs' connections are closed."""
        self.link, self.guest_end = socket.socketpair()
        self.is_linked = self.is_over = False
        self.failure = ""
        """Why the connection ended, if nobody here asked for it."""
        self.poll = select.epoll()
        fd = channel.sock.fileno()
        make = functools.partial(TlsCarrier, channel)
        self.mux = Mux(
            self.poll, fd, VM_LIMIT, lambda word: None, self.connect, make, first=POD_WINDOW, spare=MAX_WIDENED
        )
        asyncio.get_running_loop().add_reader(self.poll.fileno(), self.turn)
        asyncio.get_running_loop().call_soon(self.turn_first)

    def connect(self, name: str) -> socket.socket | None:
        """Return a socket for a stream that the pod opens; `None` refuses it."""
        if name == "link" and not self.is_linked:
            self.is_linked = True
            return self.guest_end
        if name != "gate" or not self.gate:
            if len(self.mux.carrier.out) > HIGH:
                raise WireError("the pod does not read the replies to its requests")
            return None
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)
        try:
            sock.connect(self.gate)
        except OSError:  # the door is away, or its queue is full
            sock.close()
            return None
        return sock

    def take_link(self) -> socket.socket:
        """Return the link to the guest; from now on it is the caller's."""
        link, self.link = self.link, socket.socket()
        self.link.close()
        return link

    def turn_first(self) -> None:
        """Handle what came with the handshake."""
        if not self.is_over:
            self.guard(self.take_early)

    def take_early(self) -> None:
        carrier = self.mux.carrier
        assert isinstance(carrier, TlsCarrier)
        for kind, number, payload in carrier.unseal() or ():
            self.mux.take(kind, number, payload)

    def turn(self) -> None:
        self.guard(self.handle_events)

    def handle_events(self) -> None:
        for fd, event in self.poll.poll(0, _MAX_EVENTS):
            self.mux.handle_event(fd, event)
            if len(self.mux.carrier.out) > MAX_WAITING:
                raise WireError("the pod does not read what is sent to it")

    def guard(self, work: Callable[[], None]) -> None:
        """Do some work; end the connection at its end, and at any violation of the protocol."""
        try:
            work()
        except EOFError:
            self.close("hotdesk's process in the desk ended")
        except (WireError, OSError, ValueError) as e:
            self.close(f"the connection to the desk's pod failed: {e}")

    def close(self, why: str = "") -> None:
        """Close every connection of the desk. A second call does nothing."""
        if self.is_over:
            return
        self.failure = why
        self.is_over = True
        asyncio.get_running_loop().remove_reader(self.poll.fileno())
        for stream in list(self.mux.by_number.values()):
            self.mux.forget(stream)
        self.poll.close()
        self.link.close()
        if not self.is_linked:
            self.guest_end.close()
        with suppress(OSError):
            self.channel.sock.shutdown(socket.SHUT_RDWR)
        self.channel.sock.close()
        self.on_end()
