"""Validates a SOCKS5 proxy of a scope. No I/O."""

from __future__ import annotations

from dataclasses import replace

from hotdesk.brief.data import EgressProxy
from hotdesk.brief.names import bracket_ipv6, canonicalize_host, is_address
from hotdesk.errors import BriefError

MAX_CREDENTIAL_BYTES = 255
"""Maximum bytes of a user name and of a password (RFC 1929)."""
MAX_CA_BYTES = 8192


def check_proxy(proxy: EgressProxy) -> EgressProxy:
    if type(proxy.port) is not int or not 1 <= proxy.port <= 65535:
        raise BriefError("an egress proxy needs a port from 1 to 65535, as in proxy.example.com:1080")
    if len(proxy.username.encode()) > MAX_CREDENTIAL_BYTES:
        raise BriefError(f"the user name of an egress proxy must have at most {MAX_CREDENTIAL_BYTES} bytes")
    if len(proxy.ca.encode()) > MAX_CA_BYTES or not proxy.ca.isascii():
        raise BriefError(f"the certificate authorities of an egress proxy must be PEM of at most {MAX_CA_BYTES} bytes")
    if not proxy.tls and (proxy.server_name or proxy.ca):
        raise BriefError(
            "an egress proxy without TLS takes no server name and no certificate authorities; remove both, or use TLS"
        )
    name = _canonicalize(proxy.server_name or proxy.host) if proxy.tls else ""
    return replace(proxy, host=_canonicalize(proxy.host), server_name=name)


def _canonicalize(host: str) -> str:
    if "*" in host or "/" in host:
        raise BriefError(
            "the host of an egress proxy must be one exact name or address, as in proxy.example.com:1080, not a pattern"
        )
    try:
        return canonicalize_host(host if host.startswith("[") or not is_address(host) else bracket_ipv6(host))
    except ValueError as e:
        raise BriefError(f"the host of an egress proxy {e}") from None
