"""A server's connections to one node: mutual TLS, a few opened ahead, all cut when the node is lost."""

from __future__ import annotations

import asyncio
import functools
import math
import socket
import ssl
import time
from collections import deque
from contextlib import suppress

import anyio

from hotdesk.cluster.certificates import ClusterContext, explain_tls_failure, find_peer_name, read_peer_expiry
from hotdesk.cluster.discovery import Address
from hotdesk.cluster.tls import TlsTunnel
from hotdesk.desk.link.lend import is_gone
from hotdesk.errors import DeskGone, HostError
from hotdesk.ipc.tasks import Background

_CONNECT_SECONDS = 3.0
_READY_CONNECTIONS = 2
"""Number of connections opened ahead, because the handshake takes most of a short call's time."""


class NodeDialer:
    """The connections to one node."""

    def __init__(self, address: Address, context: ssl.SSLContext, tasks: Background) -> None:
        self.address = address
        self.context = context
        self.tasks = tasks
        self.expires = math.inf
        """When the certificate of the last handshake ends, as Unix time."""
        self.certified = ""
        """The name in the first certificate seen at this address; any other name is refused."""
        self.tunnels: set[TlsTunnel] = set()
        self.ready: deque[socket.socket] = deque()
        self.refilling = False
        self.is_closed = False

    async def dial(self) -> socket.socket:
        """Return a plain non-blocking socket to the node; raise `HostError` if no node of this cluster answers."""
        while self.ready:
            sock = self.ready.popleft()
            if not is_gone(sock):
                self.refill()
                return sock
            sock.close()
        sock = await self.connect()
        self.refill()
        return sock

    async def connect(self) -> socket.socket:
        self._require_open()
        self._require_own_certificate()
        try:
            with anyio.fail_after(_CONNECT_SECONDS):
                raw = await self._connect_raw()
                try:
                    tunnel = TlsTunnel(raw, self.context, server_side=False)
                    await tunnel.shake_hands()
                    certificate = tunnel.tls.getpeercert()
                    self._check(find_peer_name(certificate, "node"))
                    self.expires = read_peer_expiry(certificate)
                except BaseException:
                    raw.close()
                    raise
        except ssl.SSLEOFError as e:
            raise HostError(
                f"the node at {self.address} ended the connection during the TLS handshake; try again"
            ) from e
        except ssl.SSLError as e:
            raise HostError(f"the node at {self.address} is not used: {explain_tls_failure(e, 'node')}") from e
        except OSError as e:  # includes TimeoutError
            raise HostError(
                f"the node at {self.address} does not respond: {e or 'no answer in time'}; check the network, and that "
                "`hotdesk node run` is running there"
            ) from e
        try:
            self._require_open()
        except DeskGone:
            raw.close()
            raise
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        self.tunnels.add(tunnel)
        self.tasks.start(functools.partial(self._carry, tunnel, theirs))
        return ours

    async def _connect_raw(self) -> socket.socket:
        found = await anyio.getaddrinfo(self.address.host, self.address.port, type=socket.SOCK_STREAM)
        family, kind, number, _, place = found[0]
        raw = socket.socket(family, kind, number)
        raw.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(raw, place)
        except BaseException:
            raw.close()
            raise
        return raw

    def _require_open(self) -> None:
        if self.is_closed:
            raise DeskGone(f"the connection to the node at {self.address} was closed; open another desk")

    def _require_own_certificate(self) -> None:
        """Refuse to connect with an expired certificate: in TLS 1.3 the node could only end the connection."""
        if isinstance(self.context, ClusterContext) and self.context.expires <= time.time():
            folder = self.context.identity
            raise HostError(
                f"this server's certificate in {folder} has expired, so no node accepts its calls; renew it with "
                f"`hotdesk node enroll --server NAME --renew --authority AUTHORITY --out {folder}`"
            )

    def _check(self, name: str) -> None:
        if not name:
            raise HostError(
                f"the program at {self.address} has no certificate of a node of this cluster, so it is not used; "
                "correct `[serve] nodes`, or start `hotdesk node run` there with a certificate of `hotdesk node enroll`"
            )
        if self.certified and name != self.certified:
            raise HostError(
                f"node {name} responds at {self.address} instead of node {self.certified}, so the desks of node "
                f"{self.certified} cannot be reached; start node {self.certified} there again, or open other desks"
            )
        self.certified = name

    async def _carry(self, tunnel: TlsTunnel, inner: socket.socket) -> None:
        try:
            await tunnel.run(inner)
        finally:
            self.tunnels.discard(tunnel)

    def refill(self) -> None:
        """Start opening connections ahead, unless that is already running."""
        if not self.refilling and not self.is_closed:
            self.refilling = True
            self.tasks.start(self._refill)

    async def _refill(self) -> None:
        try:
            while len(self.ready) < _READY_CONNECTIONS and not self.is_closed:
                self.ready.append(await self.connect())
        except (HostError, DeskGone):
            pass  # the next caller gets the error
        finally:
            self.refilling = False

    def close(self) -> None:
        """Cut every connection: pending calls fail."""
        self.is_closed = True
        for sock in self.ready:
            sock.close()
        self.ready.clear()
        for tunnel in self.tunnels:
            with suppress(OSError):
                tunnel.raw.shutdown(socket.SHUT_RDWR)
