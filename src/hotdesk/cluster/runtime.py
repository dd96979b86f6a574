"""A tenant's desks on nodes: the same `Runtime`, wherever a desk is."""

from __future__ import annotations

import base64
import functools
import json
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

from hotdesk.brief import scope_json
from hotdesk.brief.data import CLOSED, Scope
from hotdesk.cluster.names import get_node_code
from hotdesk.cluster.nodes import LOST_SECONDS, ClusterNode, NodeCalls, Nodes
from hotdesk.config import Config
from hotdesk.desk.image.description import ImageFacts
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.owner.memory import SAVE_MEMORY_SECONDS
from hotdesk.desk.owner.remote import CALL_SECONDS, RemoteHandle, as_question
from hotdesk.desk.seam import DeskId, Spec, as_id
from hotdesk.errors import BriefError, DeskGone, HostError, HotdeskError, KeeperError, LinkError, NodeLost
from hotdesk.event import Asked
from hotdesk.ipc.tasks import Background
from hotdesk.keys.sealed_values import SEALED
from hotdesk.linux.sockets import is_answered

OWNER_SHAPE = re.compile(r"[0-9]{1,10}-[0-9a-f]{16}")
"""How a process of a server is named for its nodes."""
_RETRY_S = 0.1
_HEAR_SECONDS = 0.05
_UNUSED = frozenset({"ready", "opening"})
"""States of desks that are not handed over yet."""


Seal: TypeAlias = Callable[[Scope, Mapping[str, object]], Awaitable[bytes]]


async def _refuse_to_seal(scope: Scope, statement: Mapping[str, object]) -> bytes:
    """Refuse: there is no vault."""
    raise BriefError("this process has no vault; send the values of the secrets with the request")


class TenantNode(NodeCalls):
    """A tenant's desks on one node."""

    def __init__(self, node: ClusterNode, tenant: str, owner: str, seal: Seal) -> None:
        super().__init__(node.dialer, f"/tenants/{tenant}")
        self.node = node
        self.owner = owner
        """Which process of the server opens desks."""
        self.seal = seal

    async def list_desks(self) -> list[dict[str, object]]:
        """List the desks that the node has for somebody; a record that is no desk of that node's is refused."""
        items = (await self.call("GET", "/desks")).get("items")
        found = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
        shown = [{**each, "node": self.node.name} for each in found if each.get("state") not in _UNUSED]
        for each in shown:
            self.check_id(each.get("id"))
        return shown

    async def begin(self, spec: Spec, scope: Scope) -> DeskId:
        """Open a desk through the node; return its id, which must be one of that node's."""
        if spec.volumes:
            raise BriefError("this server opens desks on nodes, which do not support volumes; leave the volumes out")
        scope = await self.seal_secrets(scope)
        request = {"spec": {**asdict(spec), "env": dict(spec.env), "volumes": {}}, "owner": self.owner}
        answer = await self.call("POST", "/desks", {**request, **_build_scope_fields(scope)})
        return self.check_id(answer.get("id"))

    async def call(
        self, method: str, target: str, value: object = None, seconds: float = CALL_SECONDS
    ) -> dict[str, object]:
        """Make one request; where it fails because the node is gone, `NodeLost` says so."""
        try:
            return await super().call(method, target, value, seconds)
        except (DeskGone, HostError) as e:
            if await self.is_lost():
                raise NodeLost(f"node {self.node.name} was lost, and its desks with it") from e
            raise

    async def upgrade(self, target: str, protocol: str) -> socket.socket:
        """Turn a call into a stream."""
        try:
            return await super().upgrade(target, protocol)
        except (DeskGone, HostError) as e:
            if await self.is_lost():
                raise NodeLost(f"node {self.node.name} was lost, and its desks with it") from e
            raise

    async def is_lost(self) -> bool:
        """Return whether the node is gone; one that is not heard is waited for until that is known."""
        await anyio.sleep(_HEAR_SECONDS)  # the end of its reports may come after the end of a call
        with anyio.move_on_after(LOST_SECONDS):
            while not self.node.is_lost and not self.node.is_heard:  # noqa: ASYNC110 - `Nodes.follow` notes either
                await anyio.sleep(_HEAR_SECONDS)
        return self.node.is_lost

    async def explain_break(self, desk: DeskId) -> DeskGone | LinkError:
        """Return why a link to a desk's guest ended that was not closed here."""
        try:
            await self.call("GET", f"/desks/{desk}/usage")
        except DeskGone as e:
            return e
        except HotdeskError:
            pass
        return LinkError(f"the connection to desk {desk} on node {self.node.name} broke; try again")

    async def seal_secrets(self, scope: Scope) -> Scope:
        """Add the vault's secrets of a scope to what is brought, sealed for the keys of this node."""
        if all(one.secret in scope.values or one.secret in scope.tokens for one in scope.grants):
            return scope
        sealed = await self.seal(scope, await self.call("GET", "/sealing"))
        return replace(scope, values={**scope.values, SEALED: sealed})

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

    def __init__(self, config: Config, nodes: Nodes, tenant: str, tasks: Background) -> None:
        self.config = config
        self.nodes = nodes
        self.tenant = tenant
        self.tasks = tasks
        self.owner = f"{os.getpid()}-{secrets.token_hex(8)}"
        """Names this process among those of its server, for nodes and in the name of its control socket."""
        self.calls = 0
        self.served = 0
        self.route: Callable[[Spec], Spec] = lambda spec: spec
        """Gives a spec the wall that whoever runs this owner demands; it never weakens what was asked for."""
        self.seal: Seal = _refuse_to_seal
        """Seals the vault's secrets of a scope for a node that says who it is."""
        self.departed: Callable[[DeskId], None] = lambda desk: None
        """Told of a desk that is let go of."""
        self.desks: dict[DeskId, ClusterDesk] = {}
        """Open desks, without those that ended by themselves or with their node."""
        self.asking: set[DeskId] = set()
        """Desks whose scope has rules that ask a person."""
        self.tenant_nodes: dict[str, TenantNode] = {}
        """By the life of a node's agent."""
        self.stock: dict[tuple[str, str, bool], dict[str, object]] = {}
        """What every node shall keep ready, by image, wall and whether it is proven."""
        self.is_settled = False
        """Whether all desks of an earlier server were found that there is a record of."""
        nodes.on_join.append(self.greet)
        nodes.on_loss.append(self.lose)

    def on(self, node: ClusterNode) -> TenantNode:
        if (found := self.tenant_nodes.get(node.boot)) is None:
            found = self.tenant_nodes[node.boot] = TenantNode(node, self.tenant, self.owner, self.seal)
        return found

    def get_node(self, desk: DeskId) -> ClusterNode:
        if (node := self.nodes.find(desk)) is None:
            raise NodeLost(f"desk {desk} is gone: its node does not respond; open another desk")
        return node

    async def open(self, spec: Spec, scope: Scope = CLOSED) -> ClusterDesk:
        spec = self.route(spec)
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
        link.obituary = functools.partial(calls.explain_break, desk)
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
                desk.link.obituary = functools.partial(calls.explain_break, desk.id)
            except DeskGone:
                self.let_go(desk.id)
            except HotdeskError:
                await anyio.sleep(_RETRY_S)

    async def find(self, desk: DeskId) -> ClusterDesk:
        if (found := self.desks.get(desk)) is None:
            raise DeskGone(f"desk {desk} is not open on this server")
        return found

    async def burn(self, desk: DeskId) -> None:
        """Burn a desk through its node; a lost node burns it itself when no server comes back."""
        self.let_go(desk)
        if (node := self.nodes.find(desk)) is not None:
            await self.on(node).burn(desk)

    def let_go(self, desk: DeskId) -> None:
        """Have a desk no more."""
        self.asking.discard(desk)
        if self.desks.pop(desk, None) is not None:
            self.departed(desk)

    async def wake(self, desk: DeskId, scope: Scope = CLOSED) -> ClusterDesk:
        """Refuse: what a node wrote of a desk's memory is not taken up by another call."""
        raise BriefError("desks on nodes cannot be hibernated; pause them instead")

    async def enter_step(self, desk: DeskId, step: str) -> None:
        """Have a desk's door hold another step's rules."""
        await self.on(self.get_node(desk)).call("PUT", f"/desks/{desk}/step", {"step": step})

    async def allow(self, desk: DeskId, rules: Sequence[str], by: str) -> None:
        """Let a desk reach something more."""
        await self.on(self.get_node(desk)).call("PUT", f"/desks/{desk}/allow", {"rules": list(rules), "by": by})

    async def list_questions(self) -> list[Asked]:
        """List what desks of this process ask for at their doors."""
        found: list[Asked] = []
        for node in list(self.nodes.by_name.values()):
            if any(get_node_code(each) == node.code for each in self.asking):
                with suppress(HotdeskError):
                    found += [each for each in await self.on(node).list_questions() if each.desk in self.desks]
        return found

    async def answer_question(self, question: Asked, approved: bool, by: str) -> Asked:
        """Answer just what was asked."""
        value = {"approved": approved, "digest": question.digest, "by": by}
        calls = self.on(self.get_node(as_id(question.desk)))
        return as_question(await calls.call("POST", f"/questions/{question.id}", value))

    async def list_desks(self) -> list[dict[str, object]]:
        """List the desks of this tenant on all nodes that answer, the oldest first, those of its jobs among them."""
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
        """Return what its node has written down of a desk; `DeskGone` when there is none."""
        for each in await self.on(self.get_node(desk)).list_desks():
            if each.get("id") == desk:
                return each
        raise DeskGone(f"desk {desk} is gone; open another desk")

    async def fetch_image_facts(self, name: str) -> ImageFacts:
        """Return what a node knows of an image; nothing where no node lists it."""
        for node in list(self.nodes.by_name.values()):
            if node.has_image(name):
                reply = await self.on(node).call("GET", f"/images/{name}")
                return ImageFacts(str(reply.get("digest", ""))[:128], str(reply.get("text", ""))[:4000])
        return ImageFacts()

    async def fetch_proof(self, desk: DeskId) -> dict[str, object]:
        """Return what a desk's node has signed of its opening."""
        return await self.on(self.get_node(desk)).call("GET", f"/desks/{desk}/opened")

    async def change_scope(self, desk: DeskId, scope: Scope, by: str) -> None:
        calls = self.on(self.get_node(desk))
        scope = await calls.seal_secrets(scope)
        await calls.call("PUT", f"/desks/{desk}/scope", {**_build_scope_fields(scope), "by": by})
        self.note_scope(desk, scope)

    def note_scope(self, desk: DeskId, scope: Scope) -> None:
        """Note whether a desk may ask for requests at its door: others are not listened to."""
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

    # -- nodes that come and go -----------------------------------------------------------------------------------

    def greet(self, node: ClusterNode) -> None:
        """Send a new node its ready counts; burn its desks without a record here."""
        for order in self.stock.values():
            self.tasks.start(functools.partial(self._ask_ready, node, order))
        if self.is_settled:
            self.tasks.start(functools.partial(self.burn_strays, node))

    def lose(self, node: ClusterNode) -> None:
        calls = self.tenant_nodes.pop(node.boot, None)
        for desk in [each for each in self.desks if get_node_code(each) == node.code]:
            self.desks[desk].link.break_off(NodeLost(f"desk {desk} is gone: node {node.name} was lost"))
            self.let_go(desk)
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
                await self.on(self.get_node(desk)).call("PUT", f"/desks/{desk}/owner", {"owner": self.owner})

        async with anyio.create_task_group() as tasks:
            for desk in expected:
                tasks.start_soon(take, desk)
        self.is_settled = True
        for node in list(self.nodes.by_name.values()):
            self.tasks.start(functools.partial(self.burn_strays, node))
        return found

    async def burn_strays(self, node: ClusterNode) -> None:
        """Burn desks of this tenant that no process of its server has: one that was killed had opened them.

        A desk that this process opens just now is not among those it has, and is its own all the same.
        """
        try:
            for each in await self.on(node).list_desks():
                desk, owner = as_id(str(each["id"])), str(each.get("owner", ""))
                if desk not in self.desks and owner != self.owner and not self.is_alive(owner):
                    await self.on(node).burn(desk)
        except HotdeskError as e:
            self.nodes.log(e)

    def is_alive(self, owner: str) -> bool:
        """Return whether a process of this server answers at its control socket."""
        return OWNER_SHAPE.fullmatch(owner) is not None and is_answered(get_control_path(self.config, owner))

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


def get_control_path(settings: Config, owner: str) -> Path:
    """Return the control socket of a process whose desks are on nodes."""
    return settings.run / "control" / f"{owner}.sock"


def _read_age(record: Mapping[str, object]) -> float:
    opened = record.get("opened")
    return float(opened) if isinstance(opened, int | float) else 0.0
