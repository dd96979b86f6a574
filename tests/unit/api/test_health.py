"""Tests of the readiness of a server whose desks are on nodes."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.conftest import settings_in

from hotdesk.api.native.health import find_faults
from hotdesk.api.tenants import Tenants
from hotdesk.cluster.dialer import NodeDialer
from hotdesk.cluster.discovery import Address
from hotdesk.cluster.nodes import ClusterNode, Nodes
from hotdesk.cluster.report import NodeReport


@pytest.mark.parametrize(("floor", "faults"), [(0, []), (1 << 60, ["disk"])])
async def test_a_server_with_nodes_is_ready_only_if_its_own_disk_has_room(
    tmp_path: Path, floor: int, faults: list[str]
) -> None:
    nodes = Nodes([], ssl.create_default_context(), cast(Any, None), print)
    report = NodeReport("n1", "1" * 32, 2, 0, 0, ("container",), ())
    dialer = NodeDialer(Address("127.0.0.1", 1), nodes.context, nodes.tasks)
    nodes.join(ClusterNode(report, dialer))
    settings = replace(settings_in(tmp_path), disk_floor=floor)
    assert list(find_faults(Tenants(settings, cast(Any, None), nodes=nodes))) == faults
    nodes.by_name.clear()
    assert list(find_faults(Tenants(settings, cast(Any, None), nodes=nodes))) == ["nodes", *faults]
