"""Tests of choosing the node that opens a desk, and of the reasons why none can."""

from __future__ import annotations

import json
import ssl
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from hotdesk.cluster.dialer import NodeDialer
from hotdesk.cluster.discovery import Address
from hotdesk.cluster.host import ClusterMachine
from hotdesk.cluster.nodes import ClusterNode, Nodes
from hotdesk.cluster.report import NodeReport, parse_report, write_report
from hotdesk.config import Config
from hotdesk.desk.seam import Spec
from hotdesk.errors import HostError, KeeperError
from hotdesk.ipc.tasks import Background

REPORT = NodeReport("n1", "0" * 32, 4, 1 << 32, 10, ("container",), ("base",))


def nodes_of(*reports: NodeReport) -> Nodes:
    """Return nodes with these reports; none of them is called."""
    context, tasks = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), cast("Background", None)
    nodes = Nodes([], context, tasks, lambda error: None)
    for each in reports:
        nodes.join(ClusterNode(each, NodeDialer(Address("127.0.0.1", 1), context, tasks)))
    return nodes


def names(nodes: Nodes, spec: Spec) -> list[str]:
    return [each.name for each in nodes.choose(spec)]


def test_the_node_with_the_image_and_the_fewest_desks_is_the_first() -> None:
    busy = replace(REPORT, node="busy", desks=40)
    large = replace(REPORT, node="large", desks=40, cpus=64)
    bare = replace(REPORT, node="bare", desks=0, images=())
    walled = replace(REPORT, node="walled", walls=("container", "gvisor"))
    nodes = nodes_of(busy, large, bare, walled)
    assert names(nodes, Spec()) == ["large", "walled", "busy", "bare"]
    assert names(nodes, Spec(wall="gvisor")) == ["walled"]


def test_desks_opened_since_the_last_report_count() -> None:
    nodes = nodes_of(REPORT, replace(REPORT, node="n2"))
    first = nodes.choose(Spec())[0]
    first.opened += 1
    assert nodes.choose(Spec())[0] is not first


def test_desks_that_are_being_opened_count_although_the_node_does_not_report_them_yet() -> None:
    nodes = nodes_of(REPORT, replace(REPORT, node="n2"))
    first = nodes.choose(Spec())[0]
    first.opening, first.dialer.certified = 1, first.name
    nodes.take(first.report, first.dialer, first)
    assert nodes.choose(Spec())[0] is not first


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (None, "no node responds"),
        (replace(REPORT, cordoned=True), "being stopped"),
        (replace(REPORT, lacks=("memory",)), "memory"),
        (replace(REPORT, walls=("microvm",)), "does not fall back to a weaker wall"),
    ],
)
def test_the_reason_why_no_node_opens_a_desk_is_reported(report: NodeReport | None, why: str) -> None:
    with pytest.raises(HostError, match=why):
        nodes_of(*([report] if report else [])).choose(Spec())


def test_a_node_that_may_be_lost_is_not_chosen() -> None:
    nodes = nodes_of(REPORT, replace(REPORT, node="n2"))
    nodes.by_name["n1"].is_heard = False
    assert names(nodes, Spec()) == ["n2"]


def test_a_report_is_read_as_it_was_written() -> None:
    assert parse_report(write_report(REPORT)) == REPORT


@pytest.mark.parametrize(
    "change",
    [{"node": "A"}, {"boot": "x"}, {"cpus": 0}, {"memory": -1}, {"walls": ["a"] * 17}, {"more": 1}, {"desks": "1"}],
)
def test_an_invalid_report_is_refused(change: dict[str, object]) -> None:
    data = {**json.loads(write_report(REPORT)), **change}
    with pytest.raises(KeeperError, match="malformed report"):
        parse_report(json.dumps(data).encode())


def test_an_image_that_no_node_lists_may_have_a_screen(tmp_path: Path) -> None:
    machine = ClusterMachine(Config(run=tmp_path, lib=tmp_path, images=tmp_path))
    machine.nodes = nodes_of(replace(REPORT, images=("base", "office"), screens=("office",)))
    assert [machine.has_screen(name) for name in ("base", "office", "removed")] == [False, True, True]


def test_a_node_whose_desks_have_an_open_network_is_reported_once() -> None:
    nodes, told = nodes_of(), list[Exception]()
    nodes.log = told.append
    dialer = NodeDialer(Address("127.0.0.1", 1), nodes.context, nodes.tasks)
    dialer.certified = REPORT.node
    node = nodes.take(REPORT, dialer, None)
    assert not told
    for _ in range(2):
        nodes.take(replace(REPORT, open_network=True), dialer, node)
    (error,) = told
    assert "desks on node n1 may reach other addresses" in str(error)
