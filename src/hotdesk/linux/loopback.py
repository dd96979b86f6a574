"""Connections to servers on the loopback interface of the current network namespace."""

from __future__ import annotations

import errno
import select
import socket


def call_port(port: int) -> socket.socket:
    """Start a connection to a server in the desk, from inside its network namespace, without blocking.

    A refusal on loopback is immediate, and then IPv6 is tried; the caller waits for the connection itself. A port with
    a full queue does not answer, and a desk's keeper must never wait for its guest.
    """
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        caller = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK, socket.IPPROTO_TCP)
        failure = caller.connect_ex((address, port))
        if failure == errno.EINPROGRESS:
            poll = select.poll()
            poll.register(caller, select.POLLOUT)
            poll.poll(0)
            failure = caller.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not failure:
            return caller
        caller.close()
    raise ConnectionRefusedError(f"nothing listens on port {port} of the desk")
