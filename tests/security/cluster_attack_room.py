"""A node agent with real desks in this process, and fake nodes that send whatever a test chooses."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio

from hotdesk.api import tenants
from hotdesk.cluster.agent import NodeAgent
from hotdesk.cluster.certificates import Role, enroll, make_tls_context
from hotdesk.cluster.dialer import NodeDialer
from hotdesk.cluster.discovery import Address, StaticNode
from hotdesk.cluster.nodes import NodeCalls, Nodes
from hotdesk.cluster.report import NodeReport, write_report
from hotdesk.cluster.runtime import ClusterRuntime
from hotdesk.cluster.tls import TlsTunnel
from hotdesk.config import Config
from hotdesk.desk.owner.control_http import read_request, switch
from hotdesk.ipc.tasks import Background, background
from hotdesk.linux.sockets import accept, send
from tests.conftest import settings_in

REPORT = NodeReport("n1", "1" * 32, 2, 8 << 30, 0, ("container",), ("base",))
Answer = Callable[[socket.socket, str], Any]


@dataclass(slots=True)
class ClusterAttacks:
    """A cluster's certificate authority, a node, and clients that call it."""

    folder: Path
    tasks: Background
    node: Address
    errors: list[Exception] = field(default_factory=list)
    mistakes: list[Exception] = field(default_factory=list)
    """Errors in what a test lets fake nodes answer."""
    dialers: list[NodeDialer] = field(default_factory=list)
    clusters: list[ClusterRuntime] = field(default_factory=list)

    def identity(self, role: Role, name: str, authority: str = "authority") -> Path:
        place = self.folder / f"{authority}-{role}-{name}"
        if not place.exists():
            enroll(self.folder / authority, role, name, place, 1)
        return place

    def calls(self, server: str = "home", tenant: str = "default", context: ssl.SSLContext | None = None) -> NodeCalls:
        context = context or make_tls_context(self.identity("server", server), "server")
        self.dialers.append(dialer := NodeDialer(self.node, context, self.tasks))
        return NodeCalls(dialer, f"/tenants/{tenant}")

    def cluster(self, *addresses: Address, server: str = "home") -> ClusterRuntime:
        context = make_tls_context(self.identity("server", server), "server")
        nodes = Nodes([StaticNode(each) for each in addresses], context, self.tasks, self.errors.append)
        self.tasks.start(nodes.run)
        self.clusters.append(found := ClusterRuntime(settings_in(self.folder / server), nodes, "default", self.tasks))
        return found

    def has_error(self, text: str) -> bool:
        """Return whether a node or a server reported an error with this text."""
        return any(text in str(each) for each in self.errors)

    async def close(self) -> None:
        for dialer in self.dialers:
            dialer.close()
        for cluster in self.clusters:
            cluster.nodes.close()
        await anyio.sleep(0.1)
        assert self.mistakes == []

    async def pose(self, answer: Answer, report: NodeReport = REPORT, identity: Path | None = None) -> Address:
        """Listen as a fake node that sends what the test chooses; return the address."""
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        context = make_tls_context(identity or self.identity("node", "n1"), "node")
        self.tasks.start(lambda: self.take_calls(listener, context, answer, report))
        return Address(*listener.getsockname())

    async def take_calls(
        self, listener: socket.socket, context: ssl.SSLContext, answer: Answer, report: NodeReport
    ) -> None:
        with listener:
            while True:
                raw = await accept(listener)
                self.tasks.start(lambda raw=raw: self.take_call(raw, context, answer, report))  # type: ignore[misc]

    async def take_call(self, raw: socket.socket, context: ssl.SSLContext, answer: Answer, report: NodeReport) -> None:
        """Answer one call; a caller that gets an invalid answer disconnects."""
        tunnel = TlsTunnel(raw, context, server_side=True)
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        with ours, theirs, raw, suppress(Exception):
            await tunnel.shake_hands()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tunnel.run, theirs)
                with ours:
                    await self.say(ours, answer, report)

    async def say(self, sock: socket.socket, answer: Answer, report: NodeReport) -> None:
        request, _ = await read_request(sock)
        target = f"{request.method.decode()} {request.target.decode()}"
        if target != "GET /node":
            await self.send_answer(sock, target, answer)
            return
        await switch(sock, "hotdesk-reports")
        while True:
            if is_report(answer):
                await self.send_answer(sock, target, answer)
            else:
                await send(sock, write_report(report))
            await anyio.sleep(0.2)

    async def send_answer(self, sock: socket.socket, target: str, answer: Answer) -> None:
        """Let the test answer, and note its own mistakes, which would look like a caller that disconnects."""
        try:
            await answer(sock, target)
        except (OSError, anyio.ClosedResourceError):
            raise
        except Exception as e:
            self.mistakes.append(e)
            raise


def is_report(answer: Answer) -> bool:
    return bool(getattr(answer, "reports", False))


async def reply(sock: socket.socket, status: int, value: object) -> None:
    body = json.dumps(value).encode()
    await send(sock, f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


@asynccontextmanager
async def attacked(settings: Config, folder: Path) -> AsyncIterator[ClusterAttacks]:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        async with tenants.open_tenants(settings) as machines, background() as tasks:
            room = ClusterAttacks(folder, tasks, Address(*listener.getsockname()))
            context = make_tls_context(room.identity("node", "n1"), "node")
            agent = NodeAgent(
                "n1", machines, context, tasks, lambda desks, cordoned: replace(REPORT, desks=desks), room.errors.append
            )
            tasks.start(lambda: agent.serve(listener))
            yield room
            await room.close()
            await agent.burn_desks()
