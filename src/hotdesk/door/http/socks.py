"""SOCKS5 (RFC 1928, RFC 1929) as a client: for a proxy that the user's program chose, to hosts the policy admits."""

from __future__ import annotations

import ssl
import struct
from dataclasses import field

from hotdesk.brief.data import EgressProxy
from hotdesk.dataclass import dataclass
from hotdesk.door.http.resolve import as_address
from hotdesk.door.http.wire import HungUpError, Wire

_HANDSHAKE_TIMEOUT_S = 10.0
_VERSION, _CONNECT = 5, 1
_NO_PROOF, _PASSWORD, _NONE_FITS = 0, 2, 0xFF
_IPV4, _NAME, _IPV6 = 1, 3, 4
_ADDRESS_BYTES = {_IPV4: 4, _IPV6: 16}
_REPLIES = {
    1: "general failure", 2: "connection not allowed", 3: "network unreachable", 4: "host unreachable",
    5: "connection refused", 6: "TTL expired", 7: "command not supported", 8: "address type not supported",
}  # fmt: skip


class SocksError(Exception):
    """The proxy did not connect us; the text says why and contains nothing the proxy sent."""


@dataclass(frozen=True, slots=True)
class SocksProxy:
    """A proxy, and how to connect to it."""

    host: str
    port: int
    username: bytes = b""
    password: bytes = field(default=b"", repr=False)
    tls: bool = False
    server_name: str = ""
    context: ssl.SSLContext | None = None
    """The CAs trusted for the proxy's certificate, or `None` for this machine's trust store."""
    fault: str = ""
    """Why every connection through the proxy is refused; empty if none is."""

    @staticmethod
    def of(proxy: EgressProxy, password: bytes) -> SocksProxy:
        context, fault = None, ""
        try:
            context = trust_only(proxy.ca) if proxy.ca else None
        except ValueError as e:  # it must not end the door, which other desks use
            fault = f"the certificate authorities of this desk's SOCKS5 proxy are not valid: {e}"
        return SocksProxy(
            proxy.host, proxy.port, proxy.username.encode(), password, proxy.tls, proxy.server_name, context, fault
        )


def trust_only(pem: str) -> ssl.SSLContext:
    """Return a context for connections to servers with a certificate of one of these CAs.

    Raise `ValueError` unless OpenSSL reads them all.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, TypeError) as e:
        raise ValueError("they are not certificates in PEM format that OpenSSL can read") from e
    return context


async def request_connection(wire: Wire, proxy: SocksProxy, host: str, port: int) -> None:
    """Make the proxy connect this wire to a host; the proxy resolves a name."""
    try:
        wire.write(bytes((_VERSION, 2, _NO_PROOF, _PASSWORD)) if proxy.username else bytes((_VERSION, 1, _NO_PROOF)))
        await _choose_method(wire, proxy)
        wire.write(bytes((_VERSION, _CONNECT, 0)) + encode_host(host) + struct.pack(">H", port))
        await _read_reply(wire)
    except HungUpError:
        raise SocksError("this desk's SOCKS5 proxy closed the connection; check its address and port") from None


async def _choose_method(wire: Wire, proxy: SocksProxy) -> None:
    version, method = await _take(wire, 2)
    if version != _VERSION:
        raise SocksError("this desk's SOCKS5 proxy did not answer in SOCKS5; check its address and port")
    if method == _PASSWORD and proxy.username:
        pair = (proxy.username, proxy.password)
        wire.write(b"\x01" + b"".join(bytes((len(each),)) + each for each in pair))
        _, status = await _take(wire, 2)
        if status != 0:
            raise SocksError("this desk's SOCKS5 proxy rejected the user name and password")
    elif method != _NO_PROOF:
        if method in (_PASSWORD, _NONE_FITS):
            raise SocksError("this desk's SOCKS5 proxy requires a user name and password; add them to its settings")
        raise SocksError(
            "this desk's SOCKS5 proxy requires an authentication that hotdesk does not support; use a proxy "
            "that accepts a user name and password"
        )


async def _read_reply(wire: Wire) -> None:
    version, code, _, kind = await _take(wire, 4)
    if version != _VERSION:
        raise SocksError("this desk's SOCKS5 proxy did not answer in SOCKS5; check its address and port")
    if code != 0:
        raise SocksError(f"this desk's SOCKS5 proxy could not connect: {_REPLIES.get(code, 'unknown reason')}")
    size = (await _take(wire, 1))[0] if kind == _NAME else _ADDRESS_BYTES.get(kind)
    if size is None:
        raise SocksError("this desk's SOCKS5 proxy sent a malformed reply; check its address and port")
    await _take(wire, size + 2)


def encode_host(host: str) -> bytes:
    """Encode a host for SOCKS5: an address, or a name that the proxy resolves."""
    address = as_address(host)
    if address is not None:
        return bytes((_IPV4 if address.version == 4 else _IPV6,)) + address.packed
    name = host.encode("ascii")
    return bytes((_NAME, len(name))) + name


async def _take(wire: Wire, count: int) -> bytes:
    while len(wire.buffer) < count:
        if not await wire.fill(_HANDSHAKE_TIMEOUT_S):
            raise HungUpError("the proxy closed the connection")
    data = bytes(wire.buffer[:count])
    del wire.buffer[:count]
    return data
