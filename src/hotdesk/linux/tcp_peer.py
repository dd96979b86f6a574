"""Identifies the local user at the other end of a TCP connection over loopback, from the kernel's tables."""

from __future__ import annotations

import ipaddress
import socket
import sys
from pathlib import Path

_FOLDER = Path("/proc/net")
_REMOTE, _UID, _INODE = 2, 7, 9
"""Columns of the table; the local address is before the remote one."""


def find_peer_uid(sock: socket.socket, folder: Path = _FOLDER) -> int | None:
    """Return the user id of the peer's socket, or `None` if no process of this machine has it open.

    A socket that its process has closed has no inode, and older kernels report root as its user.
    """
    try:
        ours, theirs = sock.getsockname()[:2], sock.getpeername()[:2]
    except OSError:
        return None
    for table, is_wide in (("tcp", False), ("tcp6", True)):
        ends = [format_endpoint(*theirs, is_wide=is_wide), format_endpoint(*ours, is_wide=is_wide)]
        for row in _read_rows(folder / table):
            if row[_REMOTE - 1 : _REMOTE + 1] == ends and (row[_UID] != "0" or row[_INODE] != "0"):
                return int(row[_UID])
    return None


def format_endpoint(host: str, port: int, *, is_wide: bool) -> str | None:
    """Format an address like the kernel's table; return `None` if it is of the other address family."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if is_wide and address.version == 4:
        address = ipaddress.ip_address(f"::ffff:{address}")
    if not is_wide and address.version == 6:
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        if mapped is None:
            return None
        address = mapped
    packed = address.packed
    words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def _read_rows(table: Path) -> list[list[str]]:
    """Return the rows of a table; empty if the kernel lacks the address family."""
    try:
        return [row for line in table.read_text().splitlines()[1:] if len(row := line.split()) > _INODE]
    except OSError:
        return []
