"""Relay the guest's link between its virtio port and the owner, also to another owner after the guest was parked.

A parked guest writes nothing until it is called with one byte, because a copy of its machine would not get what was
written before. Its greeting then waits here until the owner listens. An owner that parked the guest closes its
direction alone, and waits; one that disconnects is gone, and the desk ends with it.
"""

from __future__ import annotations

import select
import socket

from hotdesk_guest.ports import MAX_WAITING, READ, PortSocket

CALL = b"\1"


class LinkRelay:
    """The link of one machine, to at most one owner at a time."""

    def __init__(self, poll: select.epoll, machine: socket.socket, *, is_parked: bool) -> None:
        self.poll = poll
        self.machine = PortSocket(poll, machine)
        self.owner: PortSocket | None = None
        self.is_parked = is_parked
        """Whether the guest waits to be called."""
        self.is_called = False
        """Whether it was called, and its greeting has not been read yet."""

    def join(self, path: str) -> bool:
        """Connect to the owner, and call a parked guest; return whether somebody listens."""
        if self.is_called and not self.has_greeting():
            return False
        owner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            owner.connect(path)
        except OSError:
            owner.close()
            return False
        self.owner = PortSocket(self.poll, owner)
        if self.is_parked and not self.is_called:
            self.is_called = True
            self.machine.out += CALL
            self.machine.flush()
        self.listen()
        return True

    def has_greeting(self) -> bool:
        try:
            return bool(self.machine.sock.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False

    def part(self) -> None:
        """Disconnect from an owner that parked the guest."""
        if self.owner is not None:
            self.owner.close()
        self.owner, self.is_parked = None, True
        self.machine.out.clear()
        self.machine.watch(0)

    def handle_event(self, fd: int, event: int) -> bool:
        """Handle an event of a descriptor; return False if it is another's.

        Raise `EOFError` if the machine ended, or an owner that did not park the guest.
        """
        if self.owner is None or fd not in (self.machine.fd, self.owner.fd):
            return False
        end, other = (self.machine, self.owner) if fd == self.machine.fd else (self.owner, self.machine)
        if event & select.EPOLLOUT:
            end.flush()
        if event & ~select.EPOLLOUT and (data := end.read(READ)) is not None:
            other.out += data
            other.flush()
            if end is self.machine:
                self.is_parked = self.is_called = False
        if self.machine.ended:
            raise EOFError
        if self.owner.ended:
            if end is self.owner and event & select.EPOLLHUP and not self.is_parked:
                raise EOFError("the owner of the desk disconnected")
            self.part()
        self.listen()
        return True

    def listen(self) -> None:
        if self.owner is None:
            return
        for end, other in ((self.machine, self.owner), (self.owner, self.machine)):
            reads = len(other.out) < MAX_WAITING
            end.watch((select.EPOLLIN if reads else 0) | (select.EPOLLOUT if end.out else 0))
