"""Which user of this machine is at the other end of a TCP connection over loopback, by the kernel's own table."""

from __future__ import annotations

import ipaddress
import socket
import sys
from pathlib import Path

_FOLDER = Path("/proc/net")
_REMOTE, _UID, _INODE = 2, 7, 9
"""Columns; the local address is before the remote one."""


def find_peer_uid(sock: socket.socket, folder: Path = _FOLDER) -> int | None:
    """Return the user who made the socket at the other end; None when no one on this machine has it open.

    A socket that its process closed has no inode, and older kernels say that it is root's.
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
    """Write an address as the kernel's table does; None when it is of the other family."""
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
    """Read the rows of a table; there is none for a family that the kernel lacks."""
    try:
        return [row for line in table.read_text().splitlines()[1:] if len(row := line.split()) > _INODE]
    except OSError:
        return []
