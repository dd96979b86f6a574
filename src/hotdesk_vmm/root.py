"""A stand-in for the guest for root, which runs inside the machine: relays its link to the owner, and ends with it."""

from __future__ import annotations

import select
import socket
import sys

from hotdesk_guest.ports import Forwarding, PortSocket
from hotdesk_vmm.supervisor import LINK, ROOT

READ = 1 << 16


def main() -> None:
    """Request the guest for root from the supervisor; connect to the owner once the guest has sent its first data."""
    inside = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    inside.connect(ROOT)
    first = inside.recv(READ)
    if not first:
        sys.exit(1)
    owner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    owner.connect(f"{LINK}/root.sock")
    owner.sendall(first)
    poll = select.epoll()
    link = Forwarding(PortSocket(poll, inside), PortSocket(poll, owner))
    link.listen()
    while True:
        for fd, event in poll.poll():
            if link.turn(fd, event) or any(end.ended for end in link.ends.values()):
                return


if __name__ == "__main__":
    main()
