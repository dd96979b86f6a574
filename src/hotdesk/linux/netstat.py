"""Counts packets that a network namespace tried to send, by kernel counters that nothing inside can reset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

COUNTED = frozenset(
    {
        "TcpActiveOpens", "UdpOutDatagrams", "UdpLiteOutDatagrams", "IpOutNoRoutes",
        "Udp6OutDatagrams", "UdpLite6OutDatagrams", "Ip6OutNoRoutes",
    }
)  # fmt: skip
"""Started connections and sent datagrams, on loopback too, and packets without a route. A DNS lookup is a datagram."""


def count_outgoing(folder: Path = Path("/proc/thread-self/net")) -> int:
    """Return the attempts to send since the namespace was made. Called inside it."""
    tables = (folder / "snmp").read_text().splitlines()
    counters = [*_parse_pairs(tables)]
    newer = folder / "snmp6"  # absent if the kernel has no IPv6
    if newer.exists():
        counters += [(name, int(value)) for name, value in map(str.split, newer.read_text().splitlines())]
    return sum(value for name, value in counters if name in COUNTED)


def _parse_pairs(lines: list[str]) -> Iterator[tuple[str, int]]:
    """Parse a table with a line of names above a line of values: `Tcp: ActiveOpens` above `Tcp: 3`."""
    for heads, values in zip(lines[::2], lines[1::2], strict=True):
        kind, _, names = heads.partition(":")
        for name, value in zip(names.split(), values.split()[1:], strict=True):
            yield kind + name, int(value)
