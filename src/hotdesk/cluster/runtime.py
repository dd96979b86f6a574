"""A tenant's desks on nodes, behind the same `Runtime` protocol as local desks."""

from __future__ import annotations

import base64
import functools
import os
import re
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeAlias

import anyio

from hotdesk.brief import describe_scope
from hotdesk.brief.data import CLOSED, Scope
from hotdesk.cluster.names import get_node_code
from hotdesk.cluster.nodes import LOST_SECONDS, RETURN_SECONDS, ClusterNode, NodeCalls, Nodes
from hotdesk.config import Config
from hotdesk.desk.image.description import ImageFacts
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.owner.memory import SAVE_MEMORY_SECONDS
from hotdesk.desk.owner.remote import CALL_SECONDS, RemoteHandle, as_question
from hotdesk.desk.seam import DeskId, Spec, as_id
from hotdesk.errors import BriefError, DeskGone, HostError, HotdeskError, KeeperError, LinkError, NodeLost
from hotdesk.event import Asked
from hotdesk.ipc.child import MAX_PACKET_BYTES
from hotdesk.ipc.tasks import Background
from hotdesk.keys.sealed_values import SEALED
from hotdesk.linux.sockets import is_answered

OWNER_SHAPE = re.compile(r"[0-9]{1,10}-[0-9a-f]{16}")
"""The name of a server's process on its nodes: process id and random digits."""
_RETRY_S = 0.1
_HEAR_SECONDS = 0.05
_RETURN_POLL_S = 0.5
_UNUSED = frozenset({"ready", "opening"})
"""States of desks that are not handed over yet."""


Seal: TypeAlias = Callable[[Scope, Mapping[str, object]], Awaitable[bytes]]


async def _refuse_to_seal(scope: Scope, statement: Mapping[str, object]) -> bytes:
    """Raise: this process has no vault."""
    raise BriefError(
        "the desk's secrets cannot be read: this process has no vault; send the values of the secrets with the request"
    )


class TenantNode(NodeCalls):
    """A tenant's desks on one node."""

    def __init__(self, node: ClusterNode, tenant: str, owner: str, seal: Seal, *, sync: bool = False) -> None:
        super().__init__(node.dialer, f"/tenants/{tenant}")
        self.node = node
        self.owner = owner
        """The name of the server process that opens desks."""
        self.seal = seal
        self.sync = sync
        """Whether doors there must wait until this server has the record of each request."""

    async def list_desks(self) -> list[dict[str, object]]:
        """List the node's desks that are handed over; raise `KeeperError` for an id that is not of this node."""
        items = (await self.call("GET", "/desks")).get("items")
        found = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
        shown = [{**each, "node": self.node.name} for each in found if each.get("state") not in _UNUSED]
        for each in shown:
            self.check_id(each.get("id"))
        return shown

    async def has_desk(self, desk: DeskId) -> bool:
        """Return whether the node has a desk, in any state; raise `HotdeskError` if it does not say."""
        items = (await self.call("GET", "/desks")).get("items")
        if not isinstance(items, list):
            raise KeeperError(f"malformed list of desks from node {self.node.name}")
        return any(isinstance(each, dict) and each.get("id") == desk for each in items)

    async def begin(self, spec: Spec, scope: Scope) -> DeskId:
        """Open a desk through the node; return its id, which must be one of that node's."""
        if spec.volumes:
            raise BriefError("this server opens desks on nodes, which do not support volumes; leave `volumes` out")
        scope = await self.seal_secrets(scope)
        request = {"spec": {**asdict(spec), "env": dict(spec.env), "volumes": {}}, "owner": self.owner}
        more = _build_scope_fields(scope) | ({"sync": True} if self.sync else {})
        answer = await self.call("POST", "/desks", {**request, **more})
        return self.check_id(answer.get("id"))

    async def call(
        self,
        method: str,
        target: str,
        value: object = None,
        seconds: float = CALL_SECONDS,
        limit: int = MAX_PACKET_BYTES,
    ) -> dict[str, object]:
        """Make one request; raise `NodeLost` if it fails because the node is gone."""
        try:
            return await super().call(method, target, value, seconds, limit)
        except (DeskGone, HostError) as e:
            if await self.is_lost():
                raise self.make_lost_error() from e
            raise

    async def upgrade(self, target: str, protocol: str) -> socket.socket:
        """Upgrade a request to a stream; raise `NodeLost` if it fails because the node is gone."""
        try:
            return await super().upgrade(target, protocol)
        except (DeskGone, HostError) as e:
            if await self.is_lost():
                raise self.make_lost_error() from e
            raise

    def make_lost_error(self) -> NodeLost:
        return NodeLost(f"node {self.node.name} no longer responds, so its desks are gone; open another desk")

    async def is_lost(self) -> bool:
        """Return whether the node is lost. If it is silent, wait until that is certain."""
        await anyio.sleep(_HEAR_SECONDS)  # the end of its reports may arrive after the end of a call
        with anyio.move_on_after(LOST_SECONDS):
            while not self.node.is_lost and not self.node.is_heard:  # noqa: ASYNC110 - `Nodes.follow` notes either
                await anyio.sleep(_HEAR_SECONDS)
        return self.node.is_lost

    async def explain_break(self, desk: DeskId) -> DeskGone | LinkError:
        """Return the reason why a link to a desk's guest broke."""
        try:
            await self.call("GET", f"/desks/{desk}/usage")
        except DeskGone as e:
            return e
        except HotdeskError:
            pass
        return LinkError(f"the connection to desk {desk} on node {self.node.name} broke; try again")

    async def seal_secrets(self, scope: Scope) -> Scope:
        """Seal the vault's secrets of a scope for this node's keys, and add them to the scope's values."""
        if all(one.secret in scope.values or one.secret in scope.tokens for one in scope.grants):
            return scope
        sealed = await self.seal(scope, await self.call("GET", "/sealing"))
        return replace(scope, values={**scope.values, SEALED: sealed})

    def check_id(self, value: object) -> DeskId:
        """Return a desk id; raise `KeeperError` if it is not one of this node's: another node may have that desk."""
        desk = as_id(value) if isinstance(value, str) else as_id("")
        if get_node_code(desk) != self.node.code:
            raise KeeperError(f"node {self.node.name} returned the id of a desk that belongs to another node")
        return desk


class ClusterDesk(LinkedDesk):
    """A desk on a node. Its link is opened again when a connection breaks and the desk still exists."""

    async def wait_for_link(self) -> Link:
        """Return the link to the guest; wait while the desk is down or its link is being replaced."""
        link = await super().wait_for_link()
        if link.failure is not None and self.is_open():
            with anyio.move_on_after(LOST_SECONDS):
                while self.link is link and self.is_open():  # noqa: ASYNC110 - `follow` replaces it
                    await anyio.sleep(_RETRY_S)
        return self.link

    def is_open(self) -> bool:
        return isinstance(self.outside, ClusterHandle) and self.id in self.outside.cluster.desks


class ClusterRuntime:
    """The desks of one tenant, on all nodes."""

    def __init__(self, config: Config, nodes: Nodes, tenant: str, tasks: Background) -> None:
        self.config = config
        self.nodes = nodes
        self.tenant = tenant
        self.tasks = tasks
        self.owner = f"{os.getpid()}-{secrets.token_hex(8)}"
        """The unique name of this server process. Nodes know it, and the control socket is named after it."""
        self.calls = 0
        self.served = 0
        self.route: Callable[[Spec], Spec] = lambda spec: spec
        """Returns a spec with the wall that the operator of this process requires. It never weakens a spec."""
        self.seal: Seal = _refuse_to_seal
        """Seals the vault's secrets of a scope for a node that has proven its identity."""
        self.departed: Callable[[DeskId], None] = lambda desk: None
        """Called with the id of a desk that is no longer open here."""
        self.desks: dict[DeskId, ClusterDesk] = {}
        """Open desks, without those that ended by themselves or with their node."""
        self.asking: set[DeskId] = set()
        """Desks whose scope has rules that ask a person."""
        self.tenant_nodes: dict[tuple[str, str], TenantNode] = {}
        """The calls to each node, by its name and the boot id of its agent, which it chooses itself."""
        self.stock: dict[tuple[str, str, bool], dict[str, object]] = {}
        """Desks that every node keeps ready: the request, by image, wall and whether they are proven."""
        self.expected: set[DeskId] = set()
        """Desks of an earlier process that are not adopted yet: their node may still join, so they are no strays."""
        self.is_settled = False
        """Whether an earlier process's desks have been adopted, so that desks without a record may be burnt."""
        nodes.on_join.append(self.greet)
        nodes.on_loss.append(self.lose)

    def on(self, node: ClusterNode) -> TenantNode:
        if (found := self.tenant_nodes.get((node.name, node.boot))) is None:
            sync = self.config.serve.get("sync") is True
            found = TenantNode(node, self.tenant, self.owner, self.seal, sync=sync)
            self.tenant_nodes[node.name, node.boot] = found
        return found

    def get_node(self, desk: DeskId) -> ClusterNode:
        if (node := self.nodes.find(desk)) is None:
            raise NodeLost(f"desk {desk} is gone: its node does not respond; open another desk")
        return node

    async def open(self, spec: Spec, scope: Scope = CLOSED) -> ClusterDesk:
        """Open a desk on the best node. If none answers because of a loss a moment ago, wait for one to return."""
        spec = self.route(spec)
        end = anyio.current_time() + RETURN_SECONDS
        while True:
            changed = self.nodes.changed
            try:
                return await self.open_on_any(spec, scope)
            except HostError as e:
                may_retry = isinstance(e.__cause__, NodeLost) or self.nodes.may_return()
                if not may_retry or anyio.current_time() >= end:
                    raise
            with anyio.move_on_after(_RETURN_POLL_S):
                await changed.wait()

    async def open_on_any(self, spec: Spec, scope: Scope) -> ClusterDesk:
        failure: HotdeskError | None = None
        for node in self.nodes.choose(spec):
            node.opening += 1
            try:
                desk = await self.open_on(node, spec, scope)
                node.opened += 1
                return desk
            except BriefError:
                raise
            except HotdeskError as e:
                failure = e
            finally:
                node.opening -= 1
        assert failure is not None
        if isinstance(failure, DeskGone):
            raise HostError(f"no node could open a desk: {failure}") from failure
        raise failure

    async def open_on(self, node: ClusterNode, spec: Spec, scope: Scope) -> ClusterDesk:
        """Open a desk on a node; burn it if the link to it fails."""
        calls = self.on(node)
        desk = await calls.begin(spec, scope)
        self.note_scope(desk, scope)
        try:
            return await self.adopt(desk)
        except BaseException:
            with anyio.move_on_after(CALL_SECONDS, shield=True), suppress(HotdeskError):
                await calls.burn(desk)
            raise

    async def adopt(self, desk: DeskId) -> ClusterDesk:
        calls = self.on(self.get_node(desk))
        link = await calls.borrow(desk)
        link.explain_end = functools.partial(calls.explain_break, desk)
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
                calls = self.on(self.get_node(desk.id))
                desk.link = await calls.borrow(desk.id)
                desk.link.explain_end = functools.partial(calls.explain_break, desk.id)
            except DeskGone:
                self.let_go(desk.id)
            except HotdeskError:
                await anyio.sleep(_RETRY_S)

    async def find(self, desk: DeskId) -> ClusterDesk:
        if (found := self.desks.get(desk)) is None:
            raise DeskGone(
                f"desk {desk} is not open on this server; it may have been burnt, or belong to another server"
            )
        return found

    async def burn(self, desk: DeskId) -> None:
        """Burn a desk through its node. A node that is lost burns it itself if no server returns."""
        self.let_go(desk)
        if (node := self.nodes.find(desk)) is not None:
            await self.on(node).burn(desk)

    def let_go(self, desk: DeskId) -> None:
        """Forget a desk."""
        self.asking.discard(desk)
        if self.desks.pop(desk, None) is not None:
            self.departed(desk)

    async def wake(self, desk: DeskId, scope: Scope = CLOSED) -> ClusterDesk:
        """Raise: desks on nodes cannot be hibernated."""
        raise BriefError("desks on nodes cannot be hibernated; pause them instead")

    async def enter_step(self, desk: DeskId, step: str) -> None:
        await self.on(self.get_node(desk)).call("PUT", f"/desks/{desk}/step", {"step": step})

    async def allow(self, desk: DeskId, rules: Sequence[str], by: str) -> None:
        await self.on(self.get_node(desk)).call("PUT", f"/desks/{desk}/allow", {"rules": list(rules), "by": by})

    async def list_questions(self) -> list[Asked]:
        """List the pending requests of this process's desks at their doors."""
        found: list[Asked] = []
        for node in list(self.nodes.by_name.values()):
            if any(get_node_code(each) == node.code for each in self.asking):
                with suppress(HotdeskError):
                    found += [each for each in await self.on(node).list_questions() if each.desk in self.desks]
        return found

    async def answer_question(self, question: Asked, approved: bool, by: str) -> Asked:
        """Answer exactly the request that was shown, by its digest."""
        value = {"approved": approved, "digest": question.digest, "by": by}
        calls = self.on(self.get_node(as_id(question.desk)))
        return as_question(await calls.call("POST", f"/questions/{question.id}", value))

    async def list_desks(self) -> list[dict[str, object]]:
        """List this tenant's desks on all nodes that answer, the oldest first, including those of jobs."""
        found: list[dict[str, object]] = []

        async def ask(node: ClusterNode) -> None:
            try:
                found.extend(await self.on(node).list_desks())
            except HotdeskError as e:
                self.nodes.log(e)

        async with anyio.create_task_group() as tasks:
            for node in list(self.nodes.by_name.values()):
                tasks.start_soon(ask, node)
        return sorted(found, key=_read_age)

    async def find_record(self, desk: DeskId) -> dict[str, object]:
        """Return the node's record of a desk; raise `DeskGone` if there is none."""
        for each in await self.on(self.get_node(desk)).list_desks():
            if each.get("id") == desk:
                return each
        raise DeskGone(f"desk {desk} is not open any more on its node; open another desk")

    async def fetch_image_facts(self, name: str) -> ImageFacts:
        """Return the facts of an image from a node that lists it, or empty facts."""
        for node in list(self.nodes.by_name.values()):
            if node.has_image(name):
                reply = await self.on(node).call("GET", f"/images/{name}")
                return ImageFacts(str(reply.get("digest", ""))[:128], str(reply.get("text", ""))[:4000])
        return ImageFacts()

    async def fetch_proof(self, desk: DeskId) -> dict[str, object]:
        """Return the signed event of a desk's opening from its node."""
        return await self.on(self.get_node(desk)).call("GET", f"/desks/{desk}/opened")

    async def change_scope(self, desk: DeskId, scope: Scope, by: str) -> None:
        calls = self.on(self.get_node(desk))
        scope = await calls.seal_secrets(scope)
        await calls.call("PUT", f"/desks/{desk}/scope", {**_build_scope_fields(scope), "by": by})
        self.note_scope(desk, scope)

    def note_scope(self, desk: DeskId, scope: Scope) -> None:
        """Note whether a desk's scope has rules that ask a person; only such desks are polled for requests."""
        self.asking.discard(desk)
        if any(rule.verdict == "ask" for rule in scope.rules):
            self.asking.add(desk)

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

    # -- nodes that join or are lost ----------------------------------------------------------------------------------

    def greet(self, node: ClusterNode) -> None:
        """Send a new node its ready counts; burn its desks without a record here."""
        for order in self.stock.values():
            self.tasks.start(functools.partial(self._ask_ready, node, order))
        if self.is_settled:
            self.tasks.start(functools.partial(self.burn_strays, node))

    def lose(self, node: ClusterNode) -> None:
        calls = self.tenant_nodes.pop((node.name, node.boot), None)
        for desk in [each for each in self.desks if get_node_code(each) == node.code]:
            self.desks[desk].link.break_off(
                NodeLost(f"desk {desk} is gone: node {node.name} no longer responds; open another")
            )
            self.let_go(desk)
        if calls is not None:
            calls.links.clear()

    async def settle(self, expected: Sequence[DeskId], seconds: float) -> dict[DeskId, ClusterDesk]:
        """Adopt an earlier process's desks whose nodes answer in time; burn other desks without a live owner.

        The desks that are missing in the result stay in `expected`, and are not burnt, until `take_over` or `give_up`.
        """
        self.expected |= {*expected}
        end = time.monotonic() + seconds
        while any(self.nodes.find(desk) is None for desk in expected) and time.monotonic() < end:
            with anyio.move_on_after(end - time.monotonic()):
                await self.nodes.changed.wait()
        found: dict[DeskId, ClusterDesk] = {}

        async def take(desk: DeskId) -> None:
            try:
                found[desk] = await self.take_over(desk)
            except HotdeskError as e:
                self.nodes.log(e)

        async with anyio.create_task_group() as tasks:
            for desk in expected:
                if self.nodes.find(desk) is not None:
                    tasks.start_soon(take, desk)
        self.is_settled = True
        for node in list(self.nodes.by_name.values()):
            self.tasks.start(functools.partial(self.burn_strays, node))
        return found

    async def take_over(self, desk: DeskId) -> ClusterDesk:
        """Adopt a desk of an earlier process, and tell its node who owns it now."""
        found = await self.adopt(desk)
        self.expected.discard(desk)
        with suppress(HotdeskError):  # it is no stray while it is in `desks`
            await self.on(self.get_node(desk)).call("PUT", f"/desks/{desk}/owner", {"owner": self.owner})
        return found

    def give_up(self, desk: DeskId) -> None:
        """Expect a desk no longer: it is burnt if it turns up."""
        self.expected.discard(desk)

    async def burn_strays(self, node: ClusterNode) -> bool:
        """Burn this tenant's desks that no live process of its server owns.

        Return whether other processes have desks there, or may have: theirs must be looked at again.
        A desk that this process is just opening is not in `desks` yet, and is kept by its owner's name.
        """
        try:
            found = await self.on(node).list_desks()
            for each in found:
                desk, owner = as_id(str(each["id"])), str(each.get("owner", ""))
                is_known = desk in self.desks or desk in self.expected or owner == self.owner
                if not is_known and not self.is_alive(owner):
                    await self.on(node).burn(desk)
        except HotdeskError as e:
            self.nodes.log(e)
            return True
        return any(each.get("owner") != self.owner for each in found)

    def is_alive(self, owner: str) -> bool:
        """Return whether a process of this server answers at its control socket."""
        return OWNER_SHAPE.fullmatch(owner) is not None and is_answered(get_control_path(self.config, owner))

    def close(self) -> None:
        self.nodes.on_join.remove(self.greet)
        self.nodes.on_loss.remove(self.lose)


class ClusterHandle(RemoteHandle):
    """A desk's operations from outside, through its node."""

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
    return {"scope": describe_scope(scope), "values": values}


def get_control_path(settings: Config, owner: str) -> Path:
    return settings.run / "control" / f"{owner}.sock"


def _read_age(record: Mapping[str, object]) -> float:
    opened = record.get("opened")
    return opened if isinstance(opened, int | float) else 0.0
