"""Tests of finding the owner of a loopback connection in the kernel's table."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hotdesk.linux.tcp_peer import find_peer_uid, format_endpoint


@contextmanager
def connection(family: int, address: str, caller: str | None = None) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Give both ends of a connection: the one that was accepted, and the caller's."""
    with socket.create_server((address, 0), family=socket.AddressFamily(family)) as listener:
        port = listener.getsockname()[1]
        kind = socket.AF_INET6 if caller is not None else socket.AddressFamily(family)
        with socket.socket(kind) as ours:
            ours.connect((caller or address, port))
            theirs, _ = listener.accept()
            with theirs:
                yield theirs, ours


@pytest.mark.parametrize(
    "ends",
    [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1", "::ffff:127.0.0.1")],
    ids=["IPv4", "IPv6", "IPv4 by a socket of IPv6"],
)
def test_a_connection_is_its_callers(ends: tuple[int, str]) -> None:
    with connection(*ends) as (accepted, _):
        assert find_peer_uid(accepted) == os.geteuid()


def test_a_connection_that_its_caller_closed_is_never_roots() -> None:
    with connection(socket.AF_INET, "127.0.0.1") as (accepted, caller):
        caller.sendall(b"and away")
        caller.close()
        assert find_peer_uid(accepted) in (None, os.geteuid() or None)


def test_a_caller_that_says_no_more_still_has_its_connection() -> None:
    with connection(socket.AF_INET, "127.0.0.1") as (accepted, caller):
        caller.shutdown(socket.SHUT_WR)
        assert find_peer_uid(accepted) == os.geteuid()


@pytest.mark.parametrize(
    ("state", "uid", "inode", "found"),
    [("01", "1000", "77", 1000), ("01", "0", "77", 0), ("05", "1000", "0", 1000), ("05", "0", "0", None),
     ("06", "0", "0", None)],
)  # fmt: skip
def test_a_socket_without_an_owner_is_not_roots(
    tmp_path: Path, state: str, uid: str, inode: str, found: int | None
) -> None:
    with connection(socket.AF_INET, "127.0.0.1") as (accepted, caller):
        ends = [format_endpoint(*each.getsockname(), is_wide=False) for each in (caller, accepted)]
        row = f"0: {ends[0]} {ends[1]} {state} 0:0 0:0 0 {uid} 0 {inode} 1 0"
        (tmp_path / "tcp").write_text(f"head\n{row}\n")
        assert find_peer_uid(accepted, tmp_path) == found


def test_addresses_are_written_as_the_kernel_does() -> None:
    assert format_endpoint("127.0.0.1", 22, is_wide=False) == "0100007F:0016"
    assert format_endpoint("::1", 65535, is_wide=True) == "00000000000000000000000001000000:FFFF"
    assert format_endpoint("127.0.0.1", 1, is_wide=True) == "0000000000000000FFFF00000100007F:0001"
    assert format_endpoint("::1", 1, is_wide=False) is None


def test_without_a_socket_table_no_owner_is_known(tmp_path: Path) -> None:
    with connection(socket.AF_INET, "127.0.0.1") as (accepted, _):
        assert find_peer_uid(accepted, tmp_path) is None
