"""Tests of certificates that end: they are renewed without a restart, warned of, and no node is used beyond its own."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from hotdesk.cluster.agent import NodeAgent
from hotdesk.cluster.certificates import (
    CERTIFICATE,
    PRIVATE_KEY,
    ClusterContext,
    Role,
    enroll,
    make_tls_context,
    renew,
)
from hotdesk.cluster.dialer import NodeDialer
from hotdesk.cluster.discovery import Address, StaticNode
from hotdesk.cluster.expiry import ExpiryWarnings, follow_certificates
from hotdesk.cluster.nodes import Nodes
from hotdesk.cluster.report import NodeReport
from hotdesk.cluster.vouching import Voucher
from hotdesk.desk.seam import Spec
from hotdesk.errors import BriefError, HostError
from hotdesk.ipc.tasks import Background, background

DAY = 86400.0
REPORT = NodeReport("n1", "1" * 32, 2, 8 << 30, 0, ("container",), ("base",))


class Authority:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = folder / "authority"

    def enroll(self, role: Role, name: str, seconds: float = DAY) -> Path:
        enroll(self.place, role, name, self.folder / name, seconds / DAY)
        return self.folder / name


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def running(context: ClusterContext, tasks: Background, log: list[Exception]) -> AsyncIterator[Address]:
    """Run a node's agent that only reports."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        agent = NodeAgent("n1", cast(Any, None), context, tasks, lambda desks, cordoned: REPORT, log.append)
        tasks.start(lambda: agent.serve(listener))
        yield Address(*listener.getsockname())


def test_a_renewed_certificate_keeps_its_key_and_is_loaded_by_a_running_process(authority: Authority) -> None:
    folder = authority.enroll("node", "n1")
    context, key = make_tls_context(folder, "node"), (folder / PRIVATE_KEY).read_bytes()
    assert not context.refresh()
    renew(authority.place, "node", "n1", folder, 100)
    assert context.refresh()
    assert context.expires > time.time() + 99 * DAY
    assert (folder / PRIVATE_KEY).read_bytes() == key
    assert not context.refresh()


async def test_new_connections_use_a_renewed_certificate(authority: Authority) -> None:
    folder, log = authority.enroll("node", "n1"), list[Exception]()
    async with background() as tasks:
        context = make_tls_context(folder, "node")
        async with running(context, tasks, log) as address:
            dialer = NodeDialer(address, make_tls_context(authority.enroll("server", "home"), "server"), tasks)
            (await dialer.connect()).close()
            assert dialer.expires < time.time() + 2 * DAY
            renewals: list[int] = []
            tasks.start(lambda: follow_certificates(context, dict, log.append, lambda: renewals.append(1)))
            await anyio.sleep(0.1)
            renew(authority.place, "node", "n1", folder, 100)
            with anyio.fail_after(30):
                while not renewals:
                    await anyio.sleep(0.1)
            (await dialer.connect()).close()
            assert dialer.expires > time.time() + 99 * DAY
            dialer.close()


def test_certificates_that_cannot_be_used_are_not_loaded(authority: Authority) -> None:
    folder = authority.enroll("node", "n1")
    context, certificate = make_tls_context(folder, "node"), (folder / CERTIFICATE).read_bytes()
    (folder / CERTIFICATE).write_bytes(certificate[:100])
    with pytest.raises(HostError, match="no valid certificate"):
        context.refresh()
    assert not context.refresh(), "it is reported once"
    other = authority.enroll("node", "n2")
    (folder / CERTIFICATE).write_bytes((other / CERTIFICATE).read_bytes())
    (folder / PRIVATE_KEY).write_bytes((other / PRIVATE_KEY).read_bytes())
    with pytest.raises(HostError, match="is for n2, not for n1"):
        context.refresh()


def test_a_node_vouches_with_its_renewed_certificate(authority: Authority) -> None:
    folder = authority.enroll("node", "n1")
    voucher = Voucher(folder)
    old = voucher("key").certificate
    renew(authority.place, "node", "n1", folder, 100)
    voucher.reload()
    assert voucher("key").certificate != old


def test_only_the_same_name_and_authority_renew_a_certificate(authority: Authority, tmp_path: Path) -> None:
    folder = authority.enroll("node", "n1")
    with pytest.raises(BriefError, match="is for n1, not for n2"):
        renew(authority.place, "node", "n2", folder, 1)
    with pytest.raises(BriefError, match="there is no certificate authority"):
        renew(tmp_path / "missing", "node", "n1", folder, 1)
    enroll(tmp_path / "other", "node", "n3", tmp_path / "n3", 1)
    with pytest.raises(BriefError, match="from another authority"):
        renew(tmp_path / "other", "node", "n1", folder, 1)
    with pytest.raises(BriefError, match="add --renew"):
        enroll(authority.place, "node", "n1", folder, 1)


async def test_the_error_names_an_expired_certificate_and_how_to_renew_it(authority: Authority) -> None:
    log: list[Exception] = []
    async with background() as tasks:
        expired = make_tls_context(authority.enroll("node", "n1", -60), "node")
        server = make_tls_context(authority.enroll("server", "home"), "server")
        async with running(expired, tasks, log) as address:
            with pytest.raises(HostError, match=r"its certificate has expired; renew it .*NAME --renew"):
                await NodeDialer(address, server, tasks).connect()
        own = make_tls_context(authority.enroll("server", "away", -60), "server")
        with pytest.raises(HostError, match=r"this server's certificate .* has expired"):
            await NodeDialer(address, own, tasks).connect()


async def test_a_node_logs_that_the_certificate_of_a_server_has_expired(authority: Authority) -> None:
    log: list[Exception] = []
    async with background() as tasks:
        own = make_tls_context(authority.enroll("server", "away", -60), "server")
        own.expires = time.time() + DAY  # as one whose clock is slow
        async with running(make_tls_context(authority.enroll("node", "n1"), "node"), tasks, log) as address:
            dialer = NodeDialer(address, own, tasks)
            (await dialer.connect()).close()
            with anyio.fail_after(10):
                while not log:
                    await anyio.sleep(0.01)
            dialer.close()
    assert "--server NAME --renew" in str(log[0])


@pytest.mark.slow
@pytest.mark.parametrize("short", ["node", "server"])
async def test_a_node_is_not_chosen_once_a_certificate_has_ended(authority: Authority, short: str) -> None:
    lives = {"node": DAY, "server": DAY, short: 3.0}
    log: list[Exception] = []
    async with background() as tasks:
        node = make_tls_context(authority.enroll("node", "n1", lives["node"]), "node")
        server = make_tls_context(authority.enroll("server", "home", lives["server"]), "server")
        async with running(node, tasks, log) as address:
            nodes = Nodes([StaticNode(address)], server, tasks, log.append)
            tasks.start(nodes.run)
            with anyio.fail_after(30):
                while not nodes.by_name:
                    await nodes.changed.wait()
            assert nodes.choose(Spec(image="base", wall="container"))
            assert min(nodes.list_expiries().values()) < time.time() + 4
            with anyio.fail_after(15):
                while nodes.by_name and any(each.is_heard for each in nodes.by_name.values()):
                    await anyio.sleep(0.1)
            with pytest.raises(HostError, match="no node responds"):
                nodes.choose(Spec(image="base", wall="container"))
            nodes.close()


def test_a_certificate_is_warned_of_once_a_day_from_thirty_days_before_its_end() -> None:
    warnings, now = ExpiryWarnings(), 1e9
    expiries = {"node n1": now + 29 * DAY, "node n2": now + 31 * DAY}
    (first,) = warnings.list_due(expiries, now)
    assert "node n1 ends in 29 days" in str(first)
    assert warnings.list_due(expiries, now + 3600) == []
    assert len(warnings.list_due(expiries, now + DAY)) == 1
    assert len(warnings.list_due(expiries, now + 2 * DAY)) == 2
    assert "ended at" in str(warnings.list_due(expiries, now + 40 * DAY)[0])
