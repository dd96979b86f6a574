"""Tests of the numbers of events that a server confirms to a node."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.unit.keys.test_confirmations import make

from hotdesk.cluster.agent import NodeControl
from hotdesk.cluster.pull import compute_key_fingerprint, read_events
from hotdesk.config import Config
from hotdesk.desk.owner.control import ControlledRuntime
from hotdesk.drive.journal import FILE, Journal
from hotdesk.drive.signing import load_signer
from hotdesk.event import Revoked
from hotdesk.host import Host
from hotdesk.ipc.tasks import background


@pytest.mark.parametrize(("number", "confirmed"), [(2, [2]), (3, [3]), (4, []), (4096, [])])
async def test_a_number_that_the_journal_has_not_reached_confirms_nothing(
    tmp_path: Path, number: int, confirmed: list[int]
) -> None:
    config = Config(run=tmp_path, lib=tmp_path, images=tmp_path)
    (folder := tmp_path / "keys").mkdir(mode=0o700)
    journal = Journal(folder / FILE, load_signer(folder))
    for _ in range(3):
        journal.add("desk", "door", Revoked("desk", "erp-token", "reason"))
    journal.commit()
    journal.close()
    confirmations, keys = make(3)
    host = SimpleNamespace(config=config, doors=SimpleNamespace(confirmations=confirmations))
    key = compute_key_fingerprint(str(read_events(config, 0)["key"]))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        async with background() as tasks:
            control = NodeControl(cast(ControlledRuntime, None), tasks, host=cast(Host, host))
            await control.answer(ours, "GET", ["journal", str(number), key], b"")
        reply = json.loads(theirs.recv(1 << 16).partition(b"\r\n\r\n")[2])
    assert len(reply["events"]) == max(0, 3 - number)
    assert keys.told == confirmed
