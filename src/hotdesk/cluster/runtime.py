"""A tenant's desks on nodes: the same `Runtime`, wherever a desk is."""

from __future__ import annotations

import base64
import functools
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict

import anyio

from hotdesk.brief import scope_json
from hotdesk.brief.data import CLOSED, Scope
from hotdesk.cluster.names import get_node_code
from hotdesk.cluster.nodes import LOST_SECONDS, ClusterNode, NodeCalls, Nodes
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.owner.memory import SAVE_MEMORY_SECONDS
from hotdesk.desk.owner.remote import CALL_SECONDS, RemoteHandle
from hotdesk.desk.seam import DeskId, Spec, as_id
from hotdesk.errors import BriefError, DeskGone, HostError, HotdeskError, KeeperError
from hotdesk.ipc.tasks import Background

_RETRY_S = 0.1
_UNUSED = frozenset({"ready", "opening"})
"""States of desks that are not handed over yet."""


class TenantNode(NodeCalls):
    """A tenant's desks on one node."""

    def __init__(self, node: ClusterNode, tenant: str) -> None:
        super().__init__(node.dialer, f"/tenants/{tenant}")
        self.node = node

    async def begin(self, spec: Spec, scope: Scope) -> DeskId:
        """Open a desk through the node; return its id, which must be one of that node's."""
        request = {"spec": {**asdict(spec), "env": dict(spec.env), "volumes": dict(spec.volumes)}}
        answer = await self.call("POST", "/desks", {**request, **_build_scope_fields(scope)})
        return self.check_id(answer.get("id"))

    def check_id(self, value: object) -> DeskId:
        """Refuse an id that this node does not give out: another node may have that desk."""
        desk = as_id(value) if isinstance(value, str) else as_id("")
        if get_node_code(desk) != self.node.code:
            raise KeeperError(f"node {self.node.name} returned the id of a desk that belongs to another node")
        return desk


class ClusterDesk(LinkedDesk):
    """A desk on a node; its link is opened again when a connection breaks and the desk still exists."""

    async def wait_for_link(self) -> Link:
        """Return the link to the guest, once the desk is not down and not between two connections."""
        link = await super().wait_for_link()
        if link.failure is not None and self.is_open():
            with anyio.move_on_after(LOST_SECONDS):
                while self.link is link and self.is_open():  # noqa: ASYNC110 - `follow` replaces it
                    await anyio.sleep(_RETRY_S)
        return self.link

    def is_open(self) -> bool:
        return isinstance(self.outside, ClusterHandle) and self.id in self.outside.cluster.desks


class ClusterRuntime:
    """The desks of one tenant, on whichever nodes there are."""

    def __init__(self, nodes: Nodes, tenant: str, tasks: Background) -> None:
        self.nodes = nodes
        self.tenant = tenant
        self.tasks = tasks
        self.desks: dict[DeskId, ClusterDesk] = {}
        """Open desks, without those that ended by themselves or with their node."""
        self.calls: dict[str, TenantNode] = {}
        """By the life of a node's agent."""
        self.stock: dict[tuple[str, str, bool], dict[str, object]] = {}
        """What every node shall keep ready, by image, wall and whether it is proven."""
        self.is_settled = False
        """Whether all desks of an earlier server were found that there is a record of."""
        nodes.on_join.append(self.greet)
        nodes.on_loss.append(self.lose)

    def on(self, node: ClusterNode) -> TenantNode:
        if (found := self.calls.get(node.boot)) is None:
            found = self.calls[node.boot] = TenantNode(node, self.tenant)
        return found

    def get_node(self, desk: DeskId) -> ClusterNode:
        if (node := self.nodes.find(desk)) is None:
            raise DeskGone(f"desk {desk} is gone: its node does not respond; open another")
        return node

    async def open(self, spec: Spec, scope: Scope = CLOSED) -> ClusterDesk:
        failure: HotdeskError | None = None
        for node in self.nodes.choose(spec):
            node.opened += 1
            try:
                return await self.open_on(node, spec, scope)
            except BriefError:
                raise
            except HotdeskError as e:
                failure = e
        assert failure is not None
        raise failure if not isinstance(failure, DeskGone) else HostError(f"no node could open a desk: {failure}")

    async def open_on(self, node: ClusterNode, spec: Spec, scope: Scope) -> ClusterDesk:
        """Open a desk on a node; one that cannot be linked to is burnt."""
        calls = self.on(node)
        desk = await calls.begin(spec, scope)
        try:
            return await self.adopt(desk)
        except BaseException:
            with anyio.move_on_after(CALL_SECONDS, shield=True), suppress(HotdeskError):
                await calls.burn(desk)
            raise

    async def adopt(self, desk: DeskId) -> ClusterDesk:
        calls = self.on(self.get_node(desk))
        link = await calls.borrow(desk)
        handle = ClusterHandle(self, calls, desk)
        found = ClusterDesk(desk, link, str((link.hello or {}).get("home", "/")), handle, self.burn)
        self.desks[desk] = found
        self.tasks.start(functools.partial(self.follow, found))
        return found

    async def follow(self, desk: ClusterDesk) -> None:
        """Open a desk's link again whenever it breaks, until the desk is gone."""
        while self.desks.get(desk.id) is desk:
            await desk.link.ended.wait()
            if desk.down is not None:
                await desk.down.wait()
                continue
            try:
                desk.link = await self.on(self.get_node(desk.id)).borrow(desk.id)
            except DeskGone:
                self.desks.pop(desk.id, None)
            except HotdeskError:
                await anyio.sleep(_RETRY_S)

    async def find(self, desk: DeskId) -> ClusterDesk:
        if (found := self.desks.get(desk)) is None:
            raise DeskGone(f"desk {desk} is not open here")
        return found

    async def burn(self, desk: DeskId) -> None:
        """Burn a desk through its node; a lost node burns it itself when no server comes back."""
        self.desks.pop(desk, None)
        if (node := self.nodes.find(desk)) is not None:
            await self.on(node).burn(desk)

    async def change_scope(self, desk: DeskId, scope: Scope, by: str) -> None:
        calls = self.on(self.get_node(desk))
        await calls.call("PUT", f"/desks/{desk}/scope", {**_build_scope_fields(scope), "by": by})

    def keep_ready(self, spec: Spec, count: int, *, proven: bool) -> None:
        order = {"spec": {**asdict(spec), "env": dict(spec.env), "volumes": {}}, "count": count, "proven": proven}
        self.stock[spec.image, spec.wall, proven] = order
        for node in self.nodes.by_name.values():
            self.tasks.start(functools.partial(self._ask_ready, node, order))

    async def _ask_ready(self, node: ClusterNode, order: Mapping[str, object]) -> None:
        try:
            await self.on(node).call("PUT", "/ready", order)
        except HotdeskError as e:
            self.nodes.log(e)

    # -- nodes that come and go -----------------------------------------------------------------------------------

    def greet(self, node: ClusterNode) -> None:
        """Send a new node its ready counts; burn its desks without a record here."""
        for order in self.stock.values():
            self.tasks.start(functools.partial(self._ask_ready, node, order))
        if self.is_settled:
            self.tasks.start(functools.partial(self.burn_strays, node))

    def lose(self, node: ClusterNode) -> None:
        calls = self.calls.pop(node.boot, None)
        for desk in [each for each in self.desks if get_node_code(each) == node.code]:
            self.desks.pop(desk).link.break_off(DeskGone(f"desk {desk} is gone: node {node.name} was lost"))
        if calls is not None:
            calls.links.clear()

    async def settle(self, expected: Sequence[DeskId], seconds: float) -> dict[DeskId, ClusterDesk]:
        """Find the desks that an earlier server had, as far as their nodes answer in time; others there are burnt."""
        end = time.monotonic() + seconds
        while any(self.nodes.find(desk) is None for desk in expected) and time.monotonic() < end:
            with anyio.move_on_after(end - time.monotonic()):
                await self.nodes.changed.wait()
        found: dict[DeskId, ClusterDesk] = {}

        async def take(desk: DeskId) -> None:
            with suppress(HotdeskError):
                found[desk] = await self.adopt(desk)

        async with anyio.create_task_group() as tasks:
            for desk in expected:
                tasks.start_soon(take, desk)
        self.is_settled = True
        for node in list(self.nodes.by_name.values()):
            self.tasks.start(functools.partial(self.burn_strays, node))
        return found

    async def burn_strays(self, node: ClusterNode) -> None:
        """Burn desks of this tenant that no server has: one that was killed had just opened them."""
        try:
            listed = (await self.on(node).call("GET", "/desks")).get("items")
            for each in listed if isinstance(listed, list) else []:
                if isinstance(each, dict) and each.get("state") not in _UNUSED:
                    desk = self.on(node).check_id(each.get("id"))
                    if desk not in self.desks:
                        await self.on(node).burn(desk)
        except HotdeskError as e:
            self.nodes.log(e)

    def close(self) -> None:
        self.nodes.on_join.remove(self.greet)
        self.nodes.on_loss.remove(self.lose)


class ClusterHandle(RemoteHandle):
    """A desk from outside, through its node."""

    def __init__(self, cluster: ClusterRuntime, calls: TenantNode, desk: DeskId) -> None:
        super().__init__(calls, desk)
        self.cluster = cluster
        self.calls = calls

    async def open_forks(self, order: dict[str, object]) -> Sequence[LinkedDesk]:
        reply = await self.calls.call("POST", f"/desks/{self.desk}/forks", order, SAVE_MEMORY_SECONDS)
        ids = reply.get("ids")
        forks = [self.calls.check_id(each) for each in ids] if isinstance(ids, list) else []
        try:
            return [await self.cluster.adopt(each) for each in forks]
        except BaseException:
            with anyio.move_on_after(CALL_SECONDS, shield=True):
                for each in forks:
                    await self.cluster.burn(each)
            raise


def _build_scope_fields(scope: Scope) -> dict[str, object]:
    values = {name: base64.b64encode(value).decode() for name, value in scope.values.items()}
    return {"scope": json.loads(scope_json(scope)), "values": values}
