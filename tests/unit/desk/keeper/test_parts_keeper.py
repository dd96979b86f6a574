"""Tests of a keeper without desks, for processes that open desks on nodes: keys with a journal, and readers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import settings_in

from hotdesk.cluster.certificates import AUTHORITY, enroll
from hotdesk.cluster.host import start_parts
from hotdesk.desk.owner.keeper_client import KeeperClient
from hotdesk.desk.owner.parts import KeeperParts
from hotdesk.desk.request import KeeperRequest
from hotdesk.desk.seam import new_id
from hotdesk.drive.journal import FILE, read
from hotdesk.errors import BriefError, HostError
from hotdesk.event import KeyChanged
from hotdesk.ipc.tasks import background
from hotdesk.keys.client import KeysClient
from hotdesk.linux.syscalls import close_all

pytestmark = pytest.mark.anyio


async def test_keys_and_readers_are_started_and_no_desk_is_opened(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    enroll(tmp_path / "authority", "server", "home", tmp_path / "identity", 1)
    async with background() as tasks:
        keeper = KeeperClient(start_parts(settings, tmp_path / "identity" / AUTHORITY))
        tasks.start(keeper.run)
        parts = KeeperParts(keeper)
        keys = KeysClient(*await parts.start_keys())
        tasks.start(keys.run)
        keys.note(KeyChanged(new_id(), "k1", "made", "test"))
        assert [row.name for row in read(settings.lib / "keys" / FILE)] == ["KeyChanged"]
        with pytest.raises(BriefError, match="malformed record of opening"):
            await keys.ask("opened on a node", new_id(), row="", key=1)
        exchange = {"event": "Burnt", "at": 1, "data": {"desk": (desk := new_id()), "why": "asked"}}
        keys.wait("pulled", events=[exchange])
        [row] = read(settings.lib / "keys" / FILE, desk)
        assert (row.actor, row.at, json.loads(row.data)["why"]) == ("node", 1, "asked")
        job = {"event": "JobEnded", "at": 1, "data": {"job": desk, "outcome": "done", "why": ""}}
        with pytest.raises(BriefError, match="only report events of its desks"):
            keys.wait("pulled", events=[job])
        close_all(list(await parts.start_reader(name := new_id())))
        await parts.end_reader(name)
        with pytest.raises(HostError, match="desks of this server are on its nodes"):
            await keeper.ask(KeeperRequest("open", new_id()))
        keys.close()
        await keeper.close()
