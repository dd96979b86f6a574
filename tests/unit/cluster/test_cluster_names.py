"""Tests of the names of nodes, servers and tenants."""

from __future__ import annotations

import pytest

from hotdesk.cluster.discovery import Address, DnsNodes, StaticNode, parse_discovery, parse_nodes
from hotdesk.cluster.names import check_name, compute_node_code, get_node_code, get_tenant_on_node, new_node_id
from hotdesk.config import TENANT_SHAPE
from hotdesk.desk.seam import as_id
from hotdesk.errors import BriefError


def test_the_id_of_a_desk_contains_its_node() -> None:
    ids = {new_node_id("worker-1.example") for _ in range(100)}
    assert len(ids) == 100
    assert {get_node_code(as_id(each)) for each in ids} == {compute_node_code("worker-1.example")}
    assert len({compute_node_code(f"node-{number}") for number in range(20)}) == 20


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a" * 64, "a/b", "a b"])
def test_an_invalid_node_name_is_refused(name: str) -> None:
    with pytest.raises(BriefError):
        check_name(name)


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
