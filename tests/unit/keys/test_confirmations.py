"""Tests of what keys, their owner and doors know of the events that a server has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from tests.security.test_keys_attacks import DESK, Kept, Line

from hotdesk.brief import CLOSED, Scope, parse_rule
from hotdesk.config import Config
from hotdesk.desk.owner.parts import Parts
from hotdesk.desk.seam import DeskId, Spec
from hotdesk.door.canary import Canary
from hotdesk.drive.journal import FILE, read
from hotdesk.errors import HostError
from hotdesk.event import RequestAdmitted
from hotdesk.ipc.tasks import background
from hotdesk.keys.client import KeysClient
from hotdesk.keys.confirmations import Confirmations
from hotdesk.keys.doors import Doors
from hotdesk.linux import private_files

ADMITTED = RequestAdmitted(DESK, "", "a.test", "POST", "https", "a.test", 443, "/", 1)


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[Kept]:
    private_files.make_folder(tmp_path / "keys", None)
    kept = Kept(tmp_path / "keys")
    yield kept
    kept.close()


def meet_door(keys: Kept) -> tuple[Line, int]:
    """Connect a door; return the number of the last event that the server has, as it is told."""
    door = keys.line("door")
    confirmed = door.until(lambda message: "confirmed" in message)["confirmed"]
    door.until(lambda message: message.get("ready") is True)
    return door, int(confirmed)


def confirm(owner: Line, number: int) -> None:
    owner.tell(n=2, verb="confirmed", desk="", number=number)
    assert owner.until(lambda message: message.get("re") == 2)["ok"] == {}


def test_a_request_gets_the_number_of_its_record_once_that_is_on_disk(keys: Kept) -> None:
    owner = keys.line("owner")
    owner.ask(1, verb="ready", desk="")
    door, confirmed = meet_door(keys)
    assert confirmed == 0
    reply = door.ask(5, event="RequestAdmitted", data=asdict(ADMITTED))
    [row] = [row for row in read(keys.folder / FILE) if row.name == "RequestAdmitted"]
    assert reply["ok"] == {"number": row.id}
    assert owner.until(lambda message: message.get("event") == "awaited")["number"] == row.id
    confirm(owner, row.id)
    assert door.until(lambda message: "confirmed" in message)["confirmed"] == row.id
    assert meet_door(keys)[1] == row.id, "a door that is started again knows it, too"
    confirm(owner, 0)
    assert owner.ask(4, verb="position", desk="")["ok"] == {"number": row.id}
    assert meet_door(keys)[1] == row.id, "it never decreases"


def test_a_door_may_not_record_requests_of_another_doors_desks(keys: Kept) -> None:
    door, _ = meet_door(keys)
    reply = door.ask(5, event="RequestAdmitted", data={**asdict(ADMITTED), "desk": "i" + "z" * 20})
    assert "may only report on its own desks" in reply["error"]["text"]


class FakeKeys:
    """A keys process whose journal has so many events."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.told: list[int] = []
        self.failures = 0
        """How many of the next calls fail."""
        self.failure = None
        self.scopes: list[Scope] = []

    async def change_scope(self, desk: str, scope: Scope, by: str) -> None:
        self.scopes.append(scope)

    async def ask(self, verb: str, desk: str, **fields: Any) -> dict[str, Any]:
        if self.failures:
            self.failures -= 1
            raise HostError("keys did not respond")
        if verb == "confirmed":
            self.told.append(fields["number"])
        return {"number": self.number}


def make(number: int, *, is_required: bool = True) -> tuple[Confirmations, FakeKeys]:
    fake = FakeKeys(number)

    async def meet() -> KeysClient:
        return cast(KeysClient, fake)

    found = Confirmations(meet)
    found.is_required = is_required
    return found, fake


async def test_who_waits_goes_on_once_the_server_has_all_events_so_far() -> None:
    confirmations, keys = make(7)
    hurried: list[bool] = []
    confirmations.on_awaited = lambda: hurried.append(True)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(confirmations.wait)
            await anyio.sleep(0.01)
            assert (hurried, confirmations.is_awaited) == ([True], True)
            await confirmations.confirm(6)
            await anyio.sleep(0.01)
            assert confirmations.is_awaited
            await confirmations.confirm(7)
        await confirmations.wait()
    assert (keys.told, hurried) == ([6, 7], [True])
    assert not confirmations.is_awaited


async def test_nobody_waits_on_a_machine_whose_server_does_not_require_it() -> None:
    confirmations, keys = make(7, is_required=False)
    with anyio.fail_after(5):
        await confirmations.wait()
        await confirmations.confirm(7)
    assert keys.told == []


async def test_a_confirmation_that_keys_did_not_get_is_repeated() -> None:
    confirmations, keys = make(7)
    keys.failures = 1
    with pytest.raises(HostError):
        await confirmations.confirm(7)
    assert confirmations.confirmed == 0
    await confirmations.confirm(7)
    assert (keys.told, confirmations.confirmed) == ([7], 7)


async def test_access_is_withdrawn_though_the_server_confirms_nothing(tmp_path: Path) -> None:
    config = Config(run=tmp_path, lib=tmp_path, images=tmp_path)
    desk, scope = DeskId(DESK), Scope((parse_rule("a.test"),))
    async with background() as tasks:
        doors = Doors(config, cast(Parts, None), tasks)
        doors.confirmations, keys = make(7)
        doors.keys = cast(KeysClient, keys)
        doors.admitted[desk] = (Spec(), scope, Canary("", ""))
        with anyio.move_on_after(0.3):
            await doors.change_scope(desk, scope, "a person")
        assert keys.scopes == []
        with anyio.fail_after(5):
            await doors.change_scope(desk, CLOSED, "a person")
        assert keys.scopes == [CLOSED]
        doors.keys = None
