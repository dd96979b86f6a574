"""Stand-in for root's guest while it runs inside the machine: relays its link to the owner, and ends with it."""

from __future__ import annotations

import select
import socket
import sys

from hotdesk_guest.ports import Forwarding, PortSocket
from hotdesk_vmm.supervisor import LINK, ROOT

READ = 1 << 16


def main() -> None:
    """Have root's guest started; call the owner when it has called."""
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
