"""Connections to servers on the loopback interface of the current network namespace."""

from __future__ import annotations

import errno
import select
import socket


def call_port(port: int) -> socket.socket:
    """Begin a connection to a server of the desk's; called inside its network namespace, and never waits there.

    A refusal on loopback is there at once, and then the other family is tried; whoever gets the socket waits for the
    rest. A port whose queue is full answers nothing: the keeper of a desk must not wait for what its guest decides.
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
