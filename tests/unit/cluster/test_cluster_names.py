"""Tests of the names of nodes, servers and tenants."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.api.node import NodeSettings
from hotdesk.cluster.certificates import ANY_NODE, enroll, renew
from hotdesk.cluster.discovery import Address, DnsNodes, StaticNode, parse_discovery, parse_nodes
from hotdesk.cluster.names import (
    NAME_SHAPE,
    check_name,
    compute_node_code,
    get_node_code,
    get_tenant_on_node,
    new_node_id,
)
from hotdesk.config import TENANT_SHAPE
from hotdesk.desk.seam import as_id
from hotdesk.errors import BriefError


def test_the_id_of_a_desk_contains_its_node() -> None:
    ids = {new_node_id("worker-1.example") for _ in range(100)}
    assert len(ids) == 100
    assert {get_node_code(as_id(each)) for each in ids} == {compute_node_code("worker-1.example")}
    assert len({compute_node_code(f"node-{number}") for number in range(20)}) == 20


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a" * 254, "a/b", "a b"])
def test_an_invalid_node_name_is_refused(name: str) -> None:
    with pytest.raises(BriefError):
        check_name(name)


@pytest.mark.parametrize("name", ["a" * 64, "a" * 253, "a" * 45 + "." * 50 + "b"])
def test_a_long_node_name_is_shortened_so_that_it_stays_unique(name: str) -> None:
    """Names of Kubernetes nodes have up to 253 characters."""
    short, other = check_name(name), check_name(name[:-1] + "c")
    assert NAME_SHAPE.fullmatch(short)
    assert short != other
    assert check_name(short) == short
    assert check_name("a" * 63) == "a" * 63


def test_an_agent_with_a_long_name_starts(tmp_path: Path) -> None:
    name = "worker-1." + "a" * 200 + ".example"
    enroll(tmp_path / "authority", "node", ANY_NODE, tmp_path / "pool", 1)
    enroll(tmp_path / "authority", "node", name, tmp_path / "own", 1)
    for folder in ("pool", "own"):
        assert NodeSettings(tmp_path / folder, name).find_name() == check_name(name)
    renew(tmp_path / "authority", "node", name, tmp_path / "own", 2)
    assert NodeSettings(tmp_path / "own").find_name() == check_name(name)


def test_a_tenants_name_on_a_node_is_specific_to_its_server() -> None:
    names = {get_tenant_on_node(server, tenant) for server in ("a", "a-b") for tenant in ("c", "b-c", "x" * 32)}
    assert len(names) == 6
    assert all(TENANT_SHAPE.fullmatch(each) for each in names)


def test_nodes_are_addresses_or_all_addresses_of_a_name() -> None:
    assert parse_discovery("10.0.0.5:3710") == StaticNode(Address("10.0.0.5", 3710))
    assert parse_discovery("[::1]:3710") == StaticNode(Address("::1", 3710))
    assert parse_discovery("dns:nodes.hotdesk.svc:3710") == DnsNodes("nodes.hotdesk.svc", 3710)
    assert parse_nodes(["a:1", "a:1", "b:2"]) == ("a:1", "b:2")


@pytest.mark.parametrize("text", ["", "a", "a:", "a:0", "a:65536", ":3710", "a b:1", "dns:", "https://a:1", "a:1x"])
def test_an_invalid_node_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        parse_discovery(text)


async def test_a_name_stands_for_every_address_it_has() -> None:
    assert Address("127.0.0.1", 3710) in await DnsNodes("localhost", 3710).find()
