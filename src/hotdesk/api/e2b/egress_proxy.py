"""`egressProxy` of a program's network options: a SOCKS5 proxy of its own, through which its sandbox's requests go."""

# ruff: noqa: N815 - E2B names its fields so
from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Annotated

from pydantic import Field

from hotdesk.api.e2b.transforms import LenientModel
from hotdesk.brief.data import PROXY_PASSWORD, EgressProxy, Scope
from hotdesk.brief.egress_proxy import MAX_CA_BYTES, MAX_CREDENTIAL_BYTES, check_proxy
from hotdesk.brief.names import bracket_ipv6, split_authority
from hotdesk.door.http.socks import trust_only
from hotdesk.door.policy.address import METADATA, SPECIAL
from hotdesk.errors import BriefError

Credential = Annotated[str, Field(min_length=1, max_length=MAX_CREDENTIAL_BYTES)]


class ProxyTls(LenientModel):
    """The TLS settings for the connection to the proxy itself."""

    enabled: bool = True
    serverName: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    caCert: Annotated[str, Field(min_length=1, max_length=MAX_CA_BYTES)] | None = None


class ProxyConfig(LenientModel):
    """A proxy, as a program specifies it."""

    address: Annotated[str, Field(min_length=3, max_length=300)]
    username: Credential | None = None
    password: Credential | None = None
    tls: ProxyTls | None = None


def build_proxy(config: ProxyConfig) -> tuple[EgressProxy, Mapping[str, bytes]]:
    """Return a proxy for a scope, and its password by name; `BriefError` if the options are invalid."""
    try:
        host, port = split_authority(config.address)
    except ValueError as e:
        raise BriefError(f"the address of egressProxy {e}; an example is proxy.example.com:1080") from None
    if port is None:
        raise BriefError("the address of egressProxy must be a host and a port, such as proxy.example.com:1080")
    if config.password is not None and config.username is None:
        raise BriefError("egressProxy has a password but no username; add the username")
    password = (config.password or "").encode()
    if len(password) > MAX_CREDENTIAL_BYTES:
        raise BriefError(f"the password of egressProxy must have at most {MAX_CREDENTIAL_BYTES} bytes")
    tls = config.tls if config.tls is not None and config.tls.enabled else None
    found = EgressProxy(
        bracket_ipv6(host), port, config.username or "", tls is not None,
        (tls.serverName or "") if tls else "", (tls.caCert or "") if tls else "",
    )  # fmt: skip
    _require_public(host)
    _require_certificates(found.ca)
    return check_proxy(found), {PROXY_PASSWORD: password} if password else {}


def _require_public(host: str) -> None:
    """Refuse an address that is not public; names are checked when they are resolved, at each connection."""
    try:
        address = ip_address(host)
    except ValueError:
        return
    if address in METADATA or any(address in special for special, _ in SPECIAL if special.version == address.version):
        raise BriefError(f"egressProxy is at {address}, which is not a public internet address; use a public proxy")


def _require_certificates(pem: str) -> None:
    """Refuse certificates that the door could not use."""
    try:
        if pem:
            trust_only(pem)
    except ValueError:
        raise BriefError("caCert of egressProxy must be one or more certificates in PEM format") from None


def redact_proxy(config: ProxyConfig) -> dict[str, object]:
    """Return the parts of a proxy that may be shown again: neither its password nor its certificates."""
    shown: dict[str, object] = {"address": config.address}
    if config.username is not None:
        shown["username"] = config.username
    if config.tls is not None:
        name = {"serverName": config.tls.serverName} if config.tls.serverName else {}
        shown["tls"] = {"enabled": config.tls.enabled, **name}
    return shown


def describe_proxy(scope: Scope) -> dict[str, object] | None:
    """Return the proxy of a scope as its program specified it, password included; `None` if it has none."""
    proxy = scope.proxy
    if proxy is None:
        return None
    config: dict[str, object] = {"address": f"{bracket_ipv6(proxy.host)}:{proxy.port}"}
    if proxy.username:
        config["username"] = proxy.username
    if PROXY_PASSWORD in scope.values:
        config["password"] = scope.values[PROXY_PASSWORD].decode()
    if proxy.tls:
        authorities = {"caCert": proxy.ca} if proxy.ca else {}
        config["tls"] = {"enabled": True, "serverName": proxy.server_name, **authorities}
    return config
