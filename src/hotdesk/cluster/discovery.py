"""Finds nodes: a list of addresses, or every address that a DNS name has now."""

from __future__ import annotations

import re
import socket
from collections.abc import Collection, Sequence
from ipaddress import ip_address
from typing import NamedTuple, Protocol

import anyio

from hotdesk.dataclass import dataclass
from hotdesk.errors import HostError, make_printable

PORT = 3710
DNS = "dns:"
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})")
FORMS = f"10.0.0.5:{PORT} for one node, or {DNS}nodes.example.svc:{PORT} for every address of a name"


class Address(NamedTuple):
    """The address of a node."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Discovery(Protocol):
    """A way to find nodes."""

    @property
    def port(self) -> int:
        """Return the port of all nodes that it finds."""
        ...

    async def find(self) -> Collection[Address]:
        """Return the addresses of the nodes. Raise `HostError` if discovery fails; known nodes then stay."""
        ...


@dataclass(frozen=True, slots=True)
class StaticNode:
    """One fixed address from the configuration."""

    address: Address

    @property
    def port(self) -> int:
        return self.address.port

    async def find(self) -> Collection[Address]:
        return (self.address,)


@dataclass(frozen=True, slots=True)
class DnsNodes:
    """Every address of a DNS name. A headless Service of Kubernetes lists those of its ready pods."""

    name: str
    port: int

    async def find(self) -> Collection[Address]:
        try:
            found = await anyio.getaddrinfo(self.name, self.port, type=socket.SOCK_STREAM)
        except OSError as e:
            raise HostError(
                f"the addresses of nodes cannot be found: {self.name} in `[serve] nodes` cannot be resolved: {e}"
            ) from e
        return {Address(str(each[4][0]), self.port) for each in found}


def parse_nodes(listed: Sequence[str]) -> tuple[str, ...]:
    """Check the setting's list of nodes; raise `ValueError` for an invalid entry."""
    for each in listed:
        parse_discovery(each)
    return tuple(dict.fromkeys(listed))


def parse_discovery(text: str) -> Discovery:
    """Parse one entry of `[serve] nodes`."""
    host, _, port = text.removeprefix(DNS).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 1 << 16 and _is_host(host)):
        raise ValueError(f"has {make_printable(text[:80])!r}; write {FORMS}")
    return DnsNodes(host, int(port)) if text.startswith(DNS) else StaticNode(Address(host, int(port)))


def _is_host(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return _HOST.fullmatch(host) is not None
    return True
