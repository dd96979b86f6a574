"""Attacks on `[serve] sync`: desks of a node that act before the server has the record of it."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
import pytest

from hotdesk.brief import Scope, parse_rule, scope_json
from hotdesk.config import Config
from hotdesk.desk.seam import Spec
from hotdesk.door import canary
from hotdesk.drive.export import load_json, parse_row
from hotdesk.errors import HostError
from hotdesk.keys.charter import Charter, Granted, make_authority
from tests.security.cluster_attack_room import ClusterAttacks, attacked
from tests.security.door_room import DoorRoom, door_room
from tests.security.guards import Removal, falls_without

DESK = "i" + "a" * 20
REQUESTS = {
    "request": b"GET http://a.test/x?token=1 HTTP/1.1\r\nHost: a.test\r\n\r\n",
    "tunnel": b"CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n",
}
CANARY = Granted("1", canary.GRANT, "token", "placeholder", {"value": base64.b64encode(b"canary").decode()}, None)
RULES = (parse_rule("http://a.test"), parse_rule("tunnel b.test:443"))


@pytest.fixture
def upstream() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


@pytest.fixture
def granted() -> list[Granted]:
    return []


@pytest.fixture
async def door(tmp_path: Path, upstream: socket.socket, granted: list[Granted]) -> AsyncIterator[DoorRoom]:
    """Yield a door whose server requires `sync`; the test plays keys."""
    address = f"127.0.0.1:{upstream.getsockname()[1]}"
    scope = Scope(RULES, names={"a.test": address, "b.test": address}, may_ask=False)
    async with door_room(tmp_path) as found:
        found.open(DESK)
        await found.tell(Charter(DESK, scope, make_authority(DESK, 60), granted, sync=True).build_message())
        await found.settle()
        yield found


async def is_dialled(upstream: socket.socket, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            sock, _ = await asyncio.get_running_loop().sock_accept(upstream)
            sock.close()
            return True
    return False


async def read_admitted(door: DoorRoom) -> dict[str, Any]:
    """Return the record of a request that waits for its confirmation."""
    async with asyncio.timeout(20):
        while True:
            for message in await door.read_events():
                if message["event"] == "RequestAdmitted":
                    return message


@falls_without(
    "sync: a request waits for its record",
    Removal("door/exchange.py", "        await self.confirm()\n", ""),
    Removal("door/proxy.py", "        if is_tunnel and (why", "        if is_tunnel is None and (why"),
)
@pytest.mark.parametrize("kind", REQUESTS)
async def test_nothing_leaves_before_the_server_has_the_record(
    door: DoorRoom, upstream: socket.socket, kind: str
) -> None:
    asking = asyncio.create_task(door.send(DESK, REQUESTS[kind]))
    assert not await is_dialled(upstream, 1)
    admitted = await read_admitted(door)
    assert (admitted["data"]["desk"], admitted["data"]["host"]) == (DESK, {"r": "a.test", "t": "b.test"}[kind[0]])
    assert "token=1" not in json.dumps(admitted)
    await door.tell({"re": admitted["n"], "ok": {"number": 7}})
    await door.tell({"confirmed": 6})
    assert not await is_dialled(upstream, 1)
    await door.tell({"confirmed": 7})
    assert await is_dialled(upstream, 10)
    await asking


@falls_without(
    "sync: requests wait during the self-test, too",
    Removal("door/egress.py", "if self.sync and event.host != canary.HOST:", "if self.sync and not self.is_proving():"),
)
@pytest.mark.parametrize("granted", [[CANARY]])
@pytest.mark.parametrize("kind", REQUESTS)
async def test_nothing_leaves_unrecorded_while_the_charter_has_the_canary(
    door: DoorRoom, upstream: socket.socket, kind: str
) -> None:
    """The programs of a live fork run before its self-test."""
    asking = asyncio.create_task(door.send(DESK, REQUESTS[kind]))
    assert not await is_dialled(upstream, 1)
    admitted = await read_admitted(door)
    await door.tell({"re": admitted["n"], "ok": {"number": 7}})
    await door.tell({"confirmed": 7})
    assert await is_dialled(upstream, 10)
    await asking


@falls_without(
    "sync: a permission that ended during the wait is gone",
    Removal("door/proxy.py", 'return "" if epoch == self.way.epoch else', 'return "" if epoch >= 0 else'),
)
async def test_a_tunnel_whose_desk_was_burnt_during_the_wait_is_not_opened(
    door: DoorRoom, upstream: socket.socket
) -> None:
    asking = asyncio.create_task(door.send(DESK, REQUESTS["tunnel"]))
    admitted = await read_admitted(door)
    await door.tell({"drop": DESK})
    await door.tell({"confirmed": 7})
    await door.tell({"re": admitted["n"], "ok": {"number": 7}})
    assert not await is_dialled(upstream, 1)
    await asking


@pytest.fixture
async def room(settings: Config, tmp_path: Path) -> AsyncIterator[ClusterAttacks]:
    async with attacked(settings, tmp_path) as found:
        yield found


BODY = {
    "spec": {**asdict(Spec()), "env": {}, "volumes": {}},
    "scope": json.loads(scope_json(Scope((parse_rule("http://a.test"),)))),
    "sync": True,
}


@pytest.mark.long
@pytest.mark.container
@pytest.mark.timeout(60)
@falls_without(
    "sync: a desk with a scope waits for its record",
    Removal("keys/doors.py", "        if scope != CLOSED:\n            await self.confirmations.wait()\n", ""),
)
async def test_a_desk_with_a_scope_is_not_handed_over_before_the_server_has_its_record(room: ClusterAttacks) -> None:
    calls = room.calls()
    with pytest.raises(HostError, match="has not confirmed within 10 s"):
        await calls.call("POST", "/desks", BODY)
    assert (await calls.call("GET", "/desks"))["items"] == []


@pytest.mark.long
@pytest.mark.container
@pytest.mark.timeout(60)
@falls_without(
    "sync: events of another key confirm nothing",
    Removal("cluster/agent.py", "if key and key == compute_key_fingerprint(", "if key or compute_key_fingerprint("),
)
async def test_a_number_of_an_earlier_journal_confirms_nothing(room: ClusterAttacks) -> None:
    calls = room.calls()

    async def confirm() -> None:
        while True:
            lines = (await calls.call("GET", "/journal/0"))["events"]
            assert isinstance(lines, list)
            rows = [parse_row(load_json(line)) for line in lines]
            number = max((row.id for row in rows if row is not None), default=0)
            await calls.call("GET", f"/journal/{number}/{'0' * 32}")
            await anyio.sleep(0.2)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(confirm)
        with pytest.raises(HostError, match="has not confirmed within 10 s"):
            await calls.call("POST", "/desks", BODY)
        tasks.cancel_scope.cancel()
