"""Tests of reading the kernel's counters of sent packets."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.linux.netstat import count_outgoing

OLD = """Ip: Forwarding OutRequests OutNoRoutes
Ip: 2 90 3
Tcp: RtoMin ActiveOpens PassiveOpens
Tcp: 200 10 99
Udp: InDatagrams OutDatagrams
Udp: 77 100
"""
NEW = "Ip6OutNoRoutes                  \t1000\nIp6OutRequests\t5\nUdp6OutDatagrams                \t10000\n"


def test_connections_datagrams_and_what_finds_no_route_are_added_up(tmp_path: Path) -> None:
    (tmp_path / "snmp").write_text(OLD)
    assert count_outgoing(tmp_path) == 113
    (tmp_path / "snmp6").write_text(NEW)
    assert count_outgoing(tmp_path) == 11_113


def test_a_table_that_does_not_pair_is_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / "snmp").write_text("Tcp: RtoMin ActiveOpens\nTcp: 200\n")
    with pytest.raises(ValueError, match="zip"):
        count_outgoing(tmp_path)


def test_this_machines_own_counters_can_be_read() -> None:
    assert count_outgoing() >= 0
