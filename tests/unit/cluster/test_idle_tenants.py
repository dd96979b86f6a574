"""Tests of a node that is polled for tenants without desks there: they are not started."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from tests.conftest import settings_in

from hotdesk.api.tenants import Tenant, Tenants
from hotdesk.cluster.agent import NodeAgent
from hotdesk.cluster.names import get_tenant_on_node
from hotdesk.config import Config, get_tenant_settings
from hotdesk.desk.keeper.outbox import Outbox
from hotdesk.drive.journal import FILE, Journal
from hotdesk.drive.signing import load_signer
from hotdesk.errors import HostError
from hotdesk.event import Revoked
from hotdesk.ipc.tasks import background
from hotdesk.linux.sockets import receive

NAME = get_tenant_on_node("home", "acme")


class CountedTenants(Tenants):
    """The tenants of a node, of which none can be started."""

    async def get_tenant(self, name: str) -> Tenant:
        raise HostError(f"tenant {name} was started")


@dataclass
class PolledNode:
    agent: NodeAgent
    settings: Config
    """Those of the tenant."""

    async def ask(self, target: str, method: str = "GET") -> tuple[int, Any]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            for end in (ours, theirs):
                end.setblocking(False)
            ours.send(f"{method} /tenants/acme/{target} HTTP/1.1\r\nHost: hotdesk\r\n\r\n".encode())
            await self.agent.respond(theirs, "home")
            theirs.close()
            reply = b""
            while data := await receive(ours):
                reply += data
        head, _, body = reply.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[PolledNode]:
    settings = settings_in(tmp_path)
    async with background() as tasks:
        machines = CountedTenants(settings, cast(Any, None))
        context = ssl.create_default_context()
        agent = NodeAgent("n1", machines, context, tasks, cast(Any, None), cast(Any, print))
        yield PolledNode(agent, get_tenant_settings(settings, NAME))


async def test_a_poll_starts_no_tenant_that_has_nothing_on_this_node(node: PolledNode) -> None:
    assert await node.ask("journal/0") == (200, {"key": "", "events": []})
    assert await node.ask("desks") == (200, [])
    assert not node.settings.lib.exists()


async def test_the_events_of_a_tenant_without_desks_are_read_without_starting_it(node: PolledNode) -> None:
    folder = node.settings.lib / "keys"
    folder.mkdir(parents=True, mode=0o700)
    journal = Journal(folder / FILE, load_signer(folder))
    journal.add("desk", "door", Revoked("desk", "erp-token", "reason"))
    journal.commit()
    journal.close()
    status, reply = await node.ask("journal/0")
    assert (status, len(reply["events"])) == (200, 1)
    assert (await node.ask("journal/1"))[1]["events"] == []


async def test_a_tenant_with_desks_or_unsigned_events_is_started(node: PolledNode) -> None:
    Outbox(node.settings.lib).record("owner", "KeyChanged", {})
    for target in ("journal/0", "desks"):
        assert (await node.ask(target))[0] == 503
    (node.settings.lib / "keys/outbox.jsonl").write_bytes(b"")
    assert (await node.ask("desks"))[0] == 200
    (node.settings.run / "desks/i1").mkdir(parents=True)
    for target in ("journal/0", "desks"):
        assert (await node.ask(target))[0] == 503


@pytest.mark.parametrize("target", ["journal/x", "journal/0/1", "sealing", "desks/i1/opened"])
async def test_other_requests_start_the_tenant(node: PolledNode, target: str) -> None:
    assert (await node.ask(target))[0] == 503
    assert (await node.ask("desks", "POST"))[0] == 503
