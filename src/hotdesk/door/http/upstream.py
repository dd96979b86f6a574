"""Connections to upstreams: the name is resolved once and checked, the checked address is dialled, TLS is verified."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable, Mapping
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from hotdesk.brief.data import Scheme
from hotdesk.brief.names import bracket_ipv6, split_authority
from hotdesk.door import canary, echo
from hotdesk.door.http import framing
from hotdesk.door.http.resolve import Resolver, UnresolvedError, as_address
from hotdesk.door.http.socks import SocksError, SocksProxy, request_connection
from hotdesk.door.http.wire import HungUpError, Wire
from hotdesk.door.policy.address import METADATA, as_network
from hotdesk.door.policy.target import Authority

DIAL_SECONDS = 10.0
HEAD_SECONDS = 10.0
ANYWHERE = "*"
"""Host of the rule that admits the whole internet; it names no particular host."""


_Bars: TypeAlias = Callable[[str], bool]
"""Returns whether a deny rule covers an address, whatever name resolves to it."""


def _bar_nothing(address: str) -> bool:
    return False


class UnreachableError(Exception):
    """The upstream could not be reached; the text says why."""


def is_metadata(host: str) -> bool:
    address = as_address(host)
    return address is not None and address in METADATA


class Upstreams:
    """Opens upstream connections for every desk of one door."""

    def __init__(self, resolver: Resolver, trust: ssl.SSLContext, proxy: str = "") -> None:
        self.resolver = resolver
        self.trust = trust
        self.proxy = proxy
        """This machine's own HTTP proxy, if any. It resolves names itself, so the door cannot check addresses."""

    async def dial(
        self,
        scheme: str,
        host: str,
        port: int,
        *,
        private: bool,
        named: str,
        names: Mapping[str, str],
        bars: _Bars = _bar_nothing,
        proxy: SocksProxy | None = None,
    ) -> Wire:
        """Connect to a host; `named` is the rule's own host, which may be an address or a network."""
        if host == canary.HOST:
            return await echo.connect()
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                if proxy is None or host in names:
                    wire = await self.connect(scheme, host, port, private, named, names, bars)
                else:
                    wire = await self.connect_through_socks(proxy, host, port, private, named, names, bars)
        except TimeoutError:
            raise UnreachableError(f"{host} did not respond within {DIAL_SECONDS:.0f} s") from None
        except (UnresolvedError, SocksError) as e:
            raise UnreachableError(f"{host}: {e}") from None
        except OSError as e:
            raise UnreachableError(f"{host} could not be reached: {e.strerror or type(e).__name__}") from None
        if scheme == "https":
            await self.secure(wire, host)
        return wire

    async def connect(
        self,
        scheme: str,
        host: str,
        port: int,
        private: bool,
        named: str,
        names: Mapping[str, str],
        bars: _Bars = _bar_nothing,
    ) -> Wire:
        """Open the TCP connection: to the upstream mapped to this name, through this machine's proxy, or directly."""
        if host in names:
            mapped, other_port = split_authority(names[host])
            if is_metadata(mapped):
                raise UnreachableError(
                    f"{host} is mapped to {mapped}, a cloud metadata address, which the door never admits; ask the "
                    "operator to correct the mapping"
                )
            return await self.open(mapped, other_port or port, True, mapped)
        if self.proxy:
            return await self.connect_through_proxy(scheme, host, port)
        return await self.open(host, port, private, named, bars)

    async def connect_through_socks(
        self, proxy: SocksProxy, host: str, port: int, private: bool, named: str, names: Mapping[str, str], bars: _Bars
    ) -> Wire:
        """Connect through the SOCKS proxy that the desk was opened with; it resolves hosts that a rule admits by name.

        The proxy is untrusted: it must be on the internet, even if it is given as an address.
        """
        if proxy.fault:
            raise SocksError(proxy.fault)
        target = host
        if as_network(named) is not None or named == ANYWHERE:
            written = as_network(named)
            addresses = await self.resolver.resolve(host, [written] if written else [], private=private)
            if denied := [address for address in addresses if bars(str(address))]:
                raise UnreachableError(f"{host} resolves to {denied[0]}, an address that a deny rule covers")
            target = str(addresses[0])
        try:
            wire = await self.connect("http", proxy.host, proxy.port, False, "", names)
        except (UnresolvedError, OSError) as e:
            raise SocksError(
                f"this desk's SOCKS5 proxy cannot be reached: {getattr(e, 'strerror', None) or e}"
            ) from None
        try:
            if proxy.tls:
                await self.secure(wire, proxy.server_name, proxy.context or self.trust)
            await request_connection(wire, proxy, target, port)
        except BaseException:
            wire.abort()
            raise
        return wire

    async def open(self, host: str, port: int, private: bool, named: str, bars: _Bars = _bar_nothing) -> Wire:
        """Resolve, check and dial exactly the address that was checked."""
        written = as_network(named)
        addresses = await self.resolver.resolve(host, [written] if written else [], private=private)
        if denied := [address for address in addresses if bars(str(address))]:
            raise UnreachableError(f"{host} resolves to {denied[0]}, an address that a deny rule covers")
        failure: OSError | None = None
        for address in addresses:
            try:
                _, wire = await asyncio.get_running_loop().create_connection(Wire, str(address), port)
            except OSError as e:
                failure = e
            else:
                return wire
        raise failure or UnresolvedError("the name has no address")

    async def secure(self, wire: Wire, host: str, trust: ssl.SSLContext | None = None) -> None:
        """Start TLS, and require a certificate that is valid for the host."""
        try:
            await wire.start_tls(trust or self.trust, name=host)
        except ssl.SSLCertVerificationError as e:
            wire.abort()
            raise UnreachableError(f"the certificate of {host} is not trusted: {e.verify_message}") from None
        except (ssl.SSLError, OSError, HungUpError, TimeoutError) as e:
            wire.abort()
            why = str(e) if isinstance(e, HungUpError) else getattr(e, "reason", "") or type(e).__name__
            raise UnreachableError(f"the TLS handshake with {host} failed: {why}") from None

    async def connect_through_proxy(self, scheme: str, host: str, port: int) -> Wire:
        parts = urlsplit(self.proxy)
        wire = await self.open(parts.hostname or "", parts.port or 3128, True, parts.hostname or "")
        where = f"{bracket_ipv6(host)}:{port}".encode()
        headers = framing.Headers(((b"Host", where),))
        if parts.username:
            token = base64.b64encode(f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode())
            headers = headers.add(b"Proxy-Authorization", b"Basic " + token)
        try:
            wire.write(framing.request_head("CONNECT", where, headers))
            status = await self.read_proxy_answer(wire)
            if status != 200:
                raise UnreachableError(f"this machine's HTTP proxy refused to connect to {host}: status {status}")
        except BaseException:
            wire.abort()
            raise
        return wire

    async def read_proxy_answer(self, wire: Wire) -> int:
        while (end := framing.find_end(wire.buffer)) < 0:
            if not await wire.fill(HEAD_SECONDS):
                raise UnreachableError("this machine's HTTP proxy closed the connection without a response")
        head = bytes(wire.buffer[:end])
        del wire.buffer[:end]
        return framing.parse_response(head, "HEAD").status


class UpstreamSlot:
    """The upstream connection of one desk connection, and the CONNECT it came through."""

    def __init__(self, upstreams: Upstreams) -> None:
        self.upstreams = upstreams
        self.inside: Authority | None = None
        self.scheme: Scheme = "http"
        self.upstream: Wire | None = None
        self.busy: Wire | None = None
        """The upstream of the request in progress."""
        self.key: tuple[str, str, int] = ("", "", 0)

    def take(self, key: tuple[str, str, int]) -> Wire | None:
        wire, self.upstream = self.upstream, None
        if wire is None or key != self.key or wire.ended or wire.buffer:
            if wire is not None:
                wire.close()
            return None
        return wire

    def keep(self, key: tuple[str, str, int], wire: Wire) -> None:
        self.key, self.upstream = key, wire

    def leave(self) -> None:
        for wire in (self.upstream, self.busy):
            if wire is not None:
                wire.reset()
        self.upstream = self.busy = None
