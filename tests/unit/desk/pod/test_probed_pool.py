"""Tests of what the preflight is told of a pool: its nodes, and the addresses around it."""

from __future__ import annotations

from typing import Any

import pytest

from hotdesk.desk.pod.manifest import PodTemplate
from hotdesk.desk.pod.probed_pool import PoolSearch, find_resolver, find_server, parse_nodes
from hotdesk.errors import HostError

TEMPLATE = PodTemplate("desks", "desk:1", "crun", pull_policy="Never")


def make_node(name: str, address: str, ready: str = "True") -> dict[str, Any]:
    addresses = [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]
    return {
        "metadata": {"name": name},
        "status": {"addresses": addresses, "conditions": [{"type": "Ready", "status": ready}]},
    }


class Source:
    """An API server that knows these nodes, or refuses to list them."""

    server = "https://127.0.0.1:6443"

    def __init__(self, *nodes: dict[str, Any], refusal: str = "") -> None:
        self.nodes = nodes
        self.refusal = refusal
        self.selectors: list[str] = []

    async def list_nodes(self, selector: str) -> list[dict[str, Any]]:
        self.selectors.append(selector)
        if self.refusal:
            raise HostError(self.refusal)
        return list(self.nodes)


def search(**nodes: str) -> PoolSearch:
    return PoolSearch(TEMPLATE, ("10.0.0.1", 3720), 3710, nodes)


async def test_a_pool_has_the_nodes_that_are_ready_and_all_addresses_around_them() -> None:
    source = Source(make_node("n1", "10.1.0.1"), make_node("n2", "10.1.0.2", "Unknown"))
    pool = await search().find_pool(source)
    assert source.selectors == ["hotdesk=pods"]
    assert pool.nodes == ("n1",)
    assert pool.addresses.kubelets == {"n1": "10.1.0.1"}
    assert pool.addresses.door == ("10.0.0.1", 3720)
    assert pool.addresses.api_server == ("127.0.0.1", 6443)
    assert (pool.image, pool.runtime_class, pool.pull) == ("desk:1", "crun", "Never")
    assert pool.labels != pool.control_labels
    assert pool.tolerations[0]["value"] == "pods"


async def test_nodes_that_the_operator_names_are_used_without_asking() -> None:
    source = Source(refusal="forbidden")
    assert (await search(n7="10.1.0.7").find_pool(source)).nodes == ("n7",)
    assert source.selectors == []


async def test_a_pool_without_a_right_to_list_nodes_or_without_nodes_says_what_to_do() -> None:
    with pytest.raises(HostError, match=r"forbidden; give the agent the ClusterRole.*pods. nodes"):
        await search().find_pool(Source(refusal="forbidden"))
    with pytest.raises(HostError, match="no node that is ready has the labels hotdesk=pods"):
        await search().find_pool(Source(make_node("n1", "10.1.0.1", "False")))


def test_an_address_of_a_node_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="evil"):
        parse_nodes([make_node("n1", "evil")])


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("search x\nnameserver 10.96.0.10\nnameserver 10.96.0.11\n", "10.96.0.10"),
        ("nameserver 127.0.0.53\n", ""),
        ("nameserver fe80::1%eth0\n", "fe80::1%eth0"),
        ("", ""),
    ],
)
def test_the_cluster_s_dns_is_the_first_address_that_is_not_a_loopback(text: str, address: str) -> None:
    assert find_resolver(text) == address


async def test_the_api_server_s_port_is_that_of_its_url() -> None:
    assert await find_server("https://[::1]:6443") == ("::1", 6443)
    assert await find_server("https://127.0.0.1") == ("127.0.0.1", 443)
