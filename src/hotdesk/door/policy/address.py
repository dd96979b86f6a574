"""Decide which addresses may be dialled. Pure: the rules' networks and the host's own addresses are arguments."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

METADATA = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",  # nearly every cloud
        "169.254.170.2",  # credentials of AWS tasks
        "169.254.170.23",  # credentials of EKS pods
        "100.100.100.200",  # Alibaba
        "168.63.129.16",  # Azure, public by its number
        "192.0.0.192",  # Oracle
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",  # Google
    )
)
"""Addresses where clouds give a machine its credentials."""

PRIVATE = "a private network"
SPECIAL: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(network), kind)
    for kind, networks in {
        "unspecified": "0.0.0.0/8 ::/128",
        "loopback": "127.0.0.0/8 ::1/128",
        "link-local": "169.254.0.0/16 fe80::/10",
        PRIVATE: "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7 fec0::/10",
        "multicast": "224.0.0.0/4 ff00::/8",
        "documentation": "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20",
        "benchmarking": "198.18.0.0/15 2001:2::/48",
        "broadcast": "255.255.255.255/32",
        "6to4": "2002::/16",
        "Teredo": "2001::/32",
        "reserved": "192.0.0.0/24 192.88.99.0/24 240.0.0.0/4 100::/64 2001:10::/28 2001:20::/28",
    }.items()
    for network in networks.split()
)
"""Ranges that are not assigned on the internet; the first that contains an address gives its kind."""
INSIDE = (PRIVATE, "documentation", "benchmarking")
"""Kinds of address that a `private` rule admits. The last two are unassigned, and some networks use them internally."""

GLOBAL_V6 = IPv6Network("2000::/3")
"""The part of IPv6 that is routed on the internet."""
NAT64 = IPv6Network("64:ff9b::/96")
"""How a network without IPv4 reaches IPv4 hosts; beside `GLOBAL_V6`, the only range that ordinary names resolve to.

It is judged by the address it contains, also in denials. A network's own prefix, `64:ff9b:1::/48`, counts as reserved.
"""
_ISATAP = (0x00005EFE, 0x02005EFE)
LOW = 0xFFFFFFFF


def check(
    address: Address, named: Collection[Network] = (), own: Collection[Address] = (), *, private: bool = False
) -> str | None:
    """Explain why an address may not be dialled, or return `None`.

    `named` are addresses and networks that a rule names: they may be dialled, except that a metadata address or one of
    this host must be named exactly. `private` admits the addresses of private networks, and nothing else.
    """
    address = normalise_address(address)
    covering = [network for network in named if address in network]
    if any(network.num_addresses == 1 for network in covering):
        return None
    for part in (address, *extract_ipv4(address)):
        if part in METADATA:
            return f"{address} is a cloud metadata address"
        kind = find_kind(part)
        if kind != "loopback" and part in own:
            return f"{address} is an address of this machine"
        if kind and not covering and not (private and kind in INSIDE):
            return f"{address} is {kind}"
    return None


def normalise_address(address: Address) -> Address:
    """Return the address that would be dialled: without a zone, and an IPv4-mapped address as IPv4."""
    if isinstance(address, IPv4Address):
        return address
    return address.ipv4_mapped or IPv6Address(int(address))


def find_kind(address: Address) -> str | None:
    """Return the kind of special range an address is in, or `None` for a public address."""
    for network, kind in SPECIAL:
        if address in network:
            return kind
    if isinstance(address, IPv4Address) or address in GLOBAL_V6 or address in NAT64:
        return None
    return "reserved"


def extract_ipv4(address: Address) -> list[IPv4Address]:
    """List the IPv4 addresses that an IPv6 address reaches by NAT64, 6to4, Teredo or ISATAP."""
    if isinstance(address, IPv4Address):
        return []
    low = IPv4Address(int(address) & LOW)
    found = [*(address.teredo or ())]
    if address.sixtofour:
        found.append(address.sixtofour)
    if address in NAT64 or int(address) >> 32 & LOW in _ISATAP:
        found.append(low)
    return found


def as_network(text: str) -> Network | None:
    """Parse an address or network from a rule; return `None` for a name."""
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None
