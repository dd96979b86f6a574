"""A node's agent: opens desks for the servers of its cluster, over mutual TLS.

    GET  /node                       upgrade to this node's reports, a line of JSON a second, as a sign of life; with
                                     the protocol `WITH_JOURNALS`, reports name the journals that have new events
    *    /tenants/NAME/desks…        the control protocol (`desk/owner/control.py`), for a tenant of the server
    POST /tenants/NAME/desks         as above; the scope may come with sealed secrets of the server's caller; with
                                     `sync` the tenant's doors wait until the server has the record of each request
    PUT  /tenants/NAME/desks/ID/scope  change a desk's scope; `step`: enter a step; `allow`: add rules
    PUT  /tenants/NAME/desks/ID/owner  name the server process that owns the desk
    GET  /tenants/NAME/desks/ID/opened  the signed event of its opening, with the vouched key
    POST /tenants/NAME/desks/ID/suspend  stop all of a desk but its screen, or continue it
    GET  /tenants/NAME/sealing       the key to seal secrets for, and its voucher
    GET  /tenants/NAME/images/NAME   facts about an image on this node
    GET  /tenants/NAME/questions     pending requests of desks at their doors; `POST …/ID` answers one
    PUT  /tenants/NAME/ready         keep desks ready
    GET  /tenants/NAME/journal/N[/KEY]  events after number N, as hashed and signed, and the key that signs them; with
                                     the key's fingerprint it confirms that the server has the events up to N

The server is identified by its certificate. Tenants are separate for each server: tenants of two servers with the same
name share nothing here. Desks of a server that has not followed the reports for `orphan_seconds` are burnt.
"""

from __future__ import annotations

import functools
import json
import math
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, field, replace
from typing import Protocol

import anyio

from hotdesk.brief import parse_scope
from hotdesk.brief.data import CLOSED, Scope
from hotdesk.cluster.certificates import explain_tls_failure, find_peer_name, read_peer_expiry
from hotdesk.cluster.journal_watch import JournalWatch
from hotdesk.cluster.names import get_tenant_on_node, new_node_id
from hotdesk.cluster.pull import compute_key_fingerprint, has_number, read_events, wait_opened
from hotdesk.cluster.report import INTERVAL_S, PROTOCOL, WITH_JOURNALS, NodeReport, write_report
from hotdesk.cluster.tls import TlsTunnel
from hotdesk.cluster.vouching import Vouching
from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.keeper import outbox, state
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.owner.control import NOTHING, STATUS, ControlServer
from hotdesk.desk.owner.control_http import read_request, respond, switch
from hotdesk.desk.owner.memory import SAVE_MEMORY_SECONDS
from hotdesk.desk.request import parse_spec
from hotdesk.desk.seam import DeskId, Spec, as_id
from hotdesk.errors import BriefError, HostError, HotdeskError
from hotdesk.host import Host
from hotdesk.ipc.tasks import Background
from hotdesk.linux.sockets import accept, send
from hotdesk.strict import StrictError, read

MAX_CONNECTIONS = 16384
_REQUEST_SECONDS = 30.0
_IDLE_SECONDS = 300.0
"""Seconds a connection may wait for its request; servers open connections ahead of use."""
_MAX_OPENING_SECONDS = 2 * SAVE_MEMORY_SECONDS
"""Seconds a desk may exist until its owner is known: no opening takes longer, nor a fork of a running desk."""
_RETRY_S = 0.1
_BURN_AT_ONCE = 16
"""Desks of one server that are burnt at the same time; the server may come back before the next."""
_MAX_READY = 1000
_OWNER = re.compile(r"[0-9a-z-]{0,40}")
_FINGERPRINT = re.compile(r"[0-9a-f]{32}")


class TenantMachine(Protocol):
    """One tenant on this node."""

    @property
    def host(self) -> Host: ...


class TenantMachines(Protocol):
    """The tenants of this node."""

    async def get_tenant(self, name: str) -> TenantMachine:
        """Return a tenant's machine, started."""
        ...

    def find_idle(self, name: str) -> Config | None:
        """Return the settings of a tenant that is not started and has nothing to do, `None` if it is or may have.

        Servers poll every tenant on every node, and most tenants have no desks on most nodes.
        """
        ...


@dataclass(slots=True)
class NodeControl(ControlServer):
    """Serves one tenant's desks to its server."""

    host: Host | None = None
    is_cordoned: Callable[[], bool] = bool
    owners: dict[DeskId, str] = field(default_factory=dict)
    """The server process that owns each desk, by the server's own statement. Only that server uses it."""
    vouch: Callable[[str], Vouching] = Vouching
    """Signs a statement that a public key belongs to this node."""
    hurry: Callable[[], None] = lambda: None
    """Tells the server to fetch this tenant's events at once."""

    @property
    def machine(self) -> Host:
        assert self.host is not None
        return self.host

    @property
    def desks(self) -> Mapping[DeskId, LinkedDesk]:
        """Return this tenant's open desks on this node."""
        return self.machine.get_keeper_runtime().desks

    async def answer(self, sock: socket.socket, method: str, parts: list[str], body: bytes) -> None:
        match method, parts:
            case "POST", ["desks"]:
                work = self._open(sock, body)
            case "GET", ["desks"]:
                work = self._list_desks(sock)
            case "GET", ["desks", name, "opened"]:
                work = self._read_opened(sock, name)
            case "PUT" | "POST", ["desks", name, "scope" | "step" | "allow" | "owner" | "suspend" as what]:
                work = self._change(sock, name, what, body)
            case "PUT", ["ready"]:
                work = self._keep_ready(sock, body)
            case "GET", ["journal", *place] if _is_place(place):
                work = self._read_journal(sock, int(place[0]), *place[1:])
            case "GET", ["sealing"]:
                work = self._read_sealing_key(sock)
            case "GET", ["images", name]:
                work = self._read_image(sock, name)
            case "GET", ["questions"]:
                work = respond(sock, 200, [asdict(each) for each in self.machine.doors.open_questions()])
            case "POST", ["questions", number]:
                work = self._answer(sock, number, body)
            case _, ["unlock" | "leases" | "allow" | "questions", *_]:
                work = respond(sock, 400, {"code": BriefError.code, "text": NOTHING})
            case _:
                # `super()` fails here: a slotted dataclass is a new class, and its methods still refer to the old one
                work = ControlServer.answer(self, sock, method, parts, body)
        try:
            await work
        except (ValueError, RecursionError, KeyError):
            await respond(sock, 400, {"code": BriefError.code, "text": "the body of the request is malformed"})
        except HotdeskError as e:
            await respond(sock, STATUS.get(e.code, 503), {"code": e.code, "text": str(e)})

    async def _open(self, sock: socket.socket, body: bytes) -> None:
        """Open a desk; burn it if its id cannot be sent to the server, which could never use it."""
        data = json.loads(body)
        spec, scope, owner = parse_spec(data.pop("spec")), _take_scope(data), _check_owner(data.pop("owner", ""))
        sync = data.pop("sync", False) is True
        if data:
            raise BriefError(f"malformed request to open a desk on a node: unknown field {sorted(data)[0][:40]!r}")
        if spec.volumes:
            raise BriefError("a desk on a node cannot have volumes; leave `volumes` out")
        if self.is_cordoned():
            raise HostError("this node opens no more desks, because it is being stopped; open the desk on another node")
        if sync:
            confirmations = self.machine.doors.confirmations
            confirmations.is_required, confirmations.on_awaited = True, self.hurry
        desk = await self.machine.open(spec, scope)
        self.owners = {each: name for each, name in self.owners.items() if each in self.desks}
        self.owners[desk.id] = owner
        try:
            await respond(sock, 201, {"id": desk.id})
        except BaseException:
            with anyio.move_on_after(_REQUEST_SECONDS, shield=True):
                await self.machine.burn(desk.id)
            raise

    def note_forks(self, desk: DeskId, forks: Sequence[DeskId]) -> None:
        """Record that a desk's forks belong to the process that owns the desk."""
        self.owners |= dict.fromkeys(forks, self.owners.get(desk, ""))

    async def _list_desks(self, sock: socket.socket) -> None:
        await respond(sock, 200, [self._add_owner(each) for each in state.list_own_desks(self.runtime.config)])

    def _add_owner(self, record: dict[str, object]) -> dict[str, object]:
        """Return a desk's record with its owner. A young desk without one is still being opened, as far as is known.

        An older one was left behind by an opening that failed; its server may burn it.
        """
        if (owner := self.owners.get(DeskId(str(record["id"])))) is not None:
            return {**record, "owner": owner}
        opened = record.get("opened")
        is_left = isinstance(opened, int | float) and time.time() - opened > _MAX_OPENING_SECONDS
        return {**record, "owner": "", **({} if is_left else {"state": "opening"})}

    async def _change(self, sock: socket.socket, name: str, what: str, body: bytes) -> None:
        """Change a desk's scope, step, rules, owner or suspend state."""
        data, desk = json.loads(body), await self.runtime.find(as_id(name))
        match what:
            case "scope":
                scope, by = _take_scope(data), Spec(by=str(data.pop("by", ""))).by
                await self.machine.change_scope(desk.id, scope, by)
            case "step":
                await self.machine.enter_step(desk.id, str(data["step"]))
            case "allow":
                await self.machine.allow(desk.id, read(list[str], data["rules"]), Spec(by=str(data["by"])).by)
            case "owner":
                self.owners[desk.id] = _check_owner(data["owner"])
            case "suspend":
                async with desk.rebooting:
                    await desk.outside.suspend(data["suspended"] is True)
                    desk.link.suspend(data["suspended"] is True)
        await respond(sock, 200, {})

    async def _answer(self, sock: socket.socket, number: str, body: bytes) -> None:
        """Pass on a person's answer to a request at a desk's door."""
        data = json.loads(body)
        by, digest = Spec(by=str(data["by"])).by, str(data["digest"])
        if not digest:
            raise BriefError(
                f"the answer to request {number[:40]} has no `digest`; send the digest of the request that it answers"
            )
        await respond(sock, 200, asdict(await self.machine.doors.answer(number, data["approved"] is True, by, digest)))

    async def _read_sealing_key(self, sock: socket.socket) -> None:
        keys = await (await self.machine.doors.meet()).ask("sealing", "")
        fields = {name: str(keys[name]) for name in ("sealing", "signed")}
        await respond(sock, 200, {**fields, **asdict(self.vouch(str(keys["key"])))})

    async def _read_image(self, sock: socket.socket, name: str) -> None:
        await respond(sock, 200, asdict(await anyio.to_thread.run_sync(self.machine.get_image_facts, name)))

    async def _read_opened(self, sock: socket.socket, name: str) -> None:
        found = await wait_opened(self.machine.config, as_id(name), self.machine.prepare)
        await respond(sock, 200, {"row": found.row, **asdict(self.vouch(found.key))})

    async def _keep_ready(self, sock: socket.socket, body: bytes) -> None:
        data = json.loads(body)
        count, proven = data["count"], data["proven"] is True
        if type(count) is not int or not 0 <= count <= _MAX_READY:
            raise BriefError(f"a node can keep 0 to {_MAX_READY} desks of an image ready, not {str(count)[:20]}")
        self.machine.keep_ready(parse_spec(data["spec"]), count, proven=proven)
        await respond(sock, 200, {})

    async def _read_journal(self, sock: socket.socket, after: int, key: str = "") -> None:
        """Send events after a number; a server that names the key that signs them has those up to that number."""
        if not outbox.is_empty(self.machine.config.lib / "keys"):
            await self.machine.prepare()  # its events are in the journal then
        reply = await anyio.to_thread.run_sync(read_events, self.machine.config, after)
        confirmations = self.machine.doors.confirmations
        has_all = functools.partial(anyio.to_thread.run_sync, has_number, self.machine.config, after)
        if key and key == compute_key_fingerprint(str(reply["key"])) and await has_all():
            await confirmations.confirm(after)
        await respond(sock, 200, {**reply, "awaited": confirmations.is_awaited})


def _is_place(parts: list[str]) -> bool:
    """Return whether parts of a path are the number of an event, with or without the key that signs it."""
    number = parts[0] if parts else ""
    is_number = number.isascii() and number.isdecimal() and len(number) < 19
    return is_number and (len(parts) == 1 or (len(parts) == 2 and _FINGERPRINT.fullmatch(parts[1]) is not None))


def _check_owner(name: object) -> str:
    if not isinstance(name, str) or not _OWNER.fullmatch(name):
        raise BriefError(
            f"{str(name)[:80]!r} in `owner` is not a valid name of a server process; use up to 40 lower-case letters, "
            "digits and `-`"
        )
    return name


def _take_scope(data: dict[str, object]) -> Scope:
    scope = parse_scope(data.pop("scope")) if "scope" in data else CLOSED
    try:
        values = read(dict[str, bytes], data.pop("values", {}))
    except StrictError as e:
        raise BriefError(f"malformed `values` (the desk's secrets) in the request: {e}") from None
    return replace(scope, values=values)


class NodeAgent:
    """Answers the servers of a cluster."""

    def __init__(
        self,
        name: str,
        machines: TenantMachines,
        context: ssl.SSLContext,
        tasks: Background,
        measure: Callable[[int, bool], NodeReport],
        log: Callable[[Exception], None],
        vouch: Callable[[str], Vouching] = Vouching,
    ) -> None:
        self.name = name
        self.vouch = vouch
        self.machines = machines
        self.context = context
        self.tasks = tasks
        self.measure = measure
        self.log = log
        self.free = anyio.Semaphore(MAX_CONNECTIONS)
        self.controls: dict[tuple[str, str], NodeControl] = {}
        """The control of each tenant, by server and tenant name."""
        self.listeners: dict[str, list[JournalWatch | None]] = {}
        """The connections of each server that follow this node's reports; `None` for one that follows no journals."""
        self.absent: dict[str, float] = {}
        """Monotonic time since which a server with a tenant here has not followed the reports."""
        self.is_cordoned = False
        """Whether this node refuses to open more desks."""

    async def serve(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        while True:
            await self.free.acquire()
            try:
                raw = await accept(listener)
            except OSError:
                self.free.release()
                await anyio.sleep(_RETRY_S)
                continue
            self.tasks.start(functools.partial(self.talk, raw))

    async def talk(self, raw: socket.socket) -> None:
        """Answer one connection. No error of a caller may end the agent."""
        try:
            tunnel = TlsTunnel(raw, self.context, server_side=True)
            await tunnel.shake_hands()
            certificate = tunnel.tls.getpeercert()
            server = find_peer_name(certificate, "server")
            if not server:
                raise HostError(
                    "a caller was rejected: its certificate is from this cluster's authority, but is not that of a "
                    "server; write a server's certificate with `hotdesk node enroll --server NAME --authority FOLDER "
                    "--out FOLDER`"
                )
            await self.carry(tunnel, server, read_peer_expiry(certificate))
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            pass  # a probe that only checks for a listener sends nothing
        except ssl.SSLError as e:
            self.log(HostError(f"a connection to this node was rejected: {explain_tls_failure(e, 'server')}"))
        except Exception as e:  # noqa: BLE001 - a rim
            if isinstance(e, HotdeskError | OSError):
                self.log(
                    e if isinstance(e, HotdeskError) else HostError(f"a connection to this node was rejected: {e}")
                )
        finally:
            raw.close()
            self.free.release()

    async def carry(self, tunnel: TlsTunnel, server: str, expires: float) -> None:
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tunnel.run, theirs)
            try:
                await self.respond(ours, server, expires)
            finally:
                anyio.notify_closing(ours)
                ours.close()

    async def respond(self, sock: socket.socket, server: str, expires: float = math.inf) -> None:
        with anyio.move_on_after(_IDLE_SECONDS) as scope:
            await anyio.wait_readable(sock)
        if scope.cancelled_caught or not sock.recv(1, socket.MSG_PEEK):
            return
        with anyio.fail_after(_REQUEST_SECONDS):
            request, body = await read_request(sock)
        method, parts = request.method.decode(), request.target.decode("ascii", "replace").strip("/").split("/")
        try:
            match method, parts:
                case "GET", ["node"]:
                    is_following = dict(request.headers).get(b"upgrade") == WITH_JOURNALS.encode()
                    await self.report_to(sock, server, expires, JournalWatch() if is_following else None)
                case "GET", ["tenants", tenant, "desks"] if self.find_idle(server, tenant) is not None:
                    await respond(sock, 200, [])
                case "GET", ["tenants", tenant, "journal", *place] if (
                    _is_place(place) and (idle := self.find_idle(server, tenant)) is not None
                ):
                    await respond(sock, 200, await anyio.to_thread.run_sync(read_events, idle, int(place[0])))
                case _, ["tenants", tenant, *rest] if rest:
                    await (await self.control(server, tenant)).answer(sock, method, rest, body)
                case _:
                    raise BriefError(NOTHING)
        except HotdeskError as e:
            await respond(sock, STATUS.get(e.code, 503), {"code": e.code, "text": str(e)})

    def find_idle(self, server: str, tenant: str) -> Config | None:
        return self.machines.find_idle(get_tenant_on_node(server, tenant))

    async def control(self, server: str, tenant: str) -> NodeControl:
        machine = (await self.machines.get_tenant(get_tenant_on_node(server, tenant))).host
        found = self.controls.get((server, tenant))
        if found is None or found.host is not machine:
            runtime = machine.get_keeper_runtime()
            runtime.make_id = functools.partial(new_node_id, self.name)
            found = NodeControl(
                runtime,
                self.tasks,
                people=machine.choose_screen_services,
                host=machine,
                is_cordoned=lambda: self.is_cordoned,
                vouch=self.vouch,
                hurry=functools.partial(self.hurry, server, tenant),
            )
            self.controls[server, tenant] = found
            if not self.listeners.get(server):
                self.absent.setdefault(server, time.monotonic())
        return found

    async def report_to(
        self, sock: socket.socket, server: str, expires: float, watch: JournalWatch | None = None
    ) -> None:
        """Send reports until the server disconnects or its certificate ends."""
        await switch(sock, PROTOCOL)
        self.listeners.setdefault(server, []).append(watch)
        self.absent.pop(server, None)
        try:
            while time.time() < expires:
                await send(sock, write_report(self.make_report(server, watch)))
                if await (watch or JournalWatch()).wait_readable(sock, INTERVAL_S):
                    return
        finally:
            self.listeners[server].remove(watch)
            if not self.listeners[server]:
                self.absent[server] = time.monotonic()

    def hurry(self, server: str, tenant: str) -> None:
        """Have a server fetch a tenant's events at once, because a door waits until the server has them."""
        for watch in self.listeners.get(server, ()):
            if watch is not None:
                watch.hurry(tenant)

    def make_report(self, server: str, watch: JournalWatch | None) -> NodeReport:
        report = self.measure(self.count_desks(), self.is_cordoned)
        if watch is None:
            return report
        controls = {tenant: each for (name, tenant), each in self.controls.items() if name == server}
        folders = {tenant: each.machine.config.lib / "keys" for tenant, each in controls.items()}
        return replace(report, journals=watch.list_moved(folders))

    def count_desks(self) -> int:
        return sum(len(each.desks) for each in self.controls.values())

    async def burn_orphans(self, seconds: float) -> None:
        """Burn the desks of servers that have not followed the reports for `seconds`."""
        while True:
            await anyio.sleep(min(INTERVAL_S, seconds / 4))
            overdue = [each for each, since in self.absent.items() if time.monotonic() - since > seconds]
            async with anyio.create_task_group() as tasks:
                for server in overdue:
                    tasks.start_soon(self.burn_desks, server)
            for server in overdue:
                if not self.listeners.get(server):
                    self.absent[server] = time.monotonic()

    async def burn_desks(self, server: str = "") -> None:
        """Burn the desks of a server, until it follows the reports again; or of all servers if no name is given."""
        free = anyio.CapacityLimiter(_BURN_AT_ONCE)

        async def burn(machine: Host, desk: DeskId) -> None:
            async with free:
                if not (server and self.listeners.get(server)):
                    with suppress(HotdeskError):
                        await machine.burn(desk)

        async with anyio.create_task_group() as tasks:
            for (name, _), control in list(self.controls.items()):
                for desk in list(control.desks) if server in ("", name) else []:
                    tasks.start_soon(burn, control.machine, desk)
