"""Tests of a swarm in Python: `async for record in hotdesk.swarm(brief, …)`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.swarm_room import BRIEF, SwarmRoom

import hotdesk
from hotdesk.errors import BriefError
from hotdesk.job.local import local_machine


@pytest.mark.slow
async def test_records_come_as_items_end(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, ["one", "three"])
    (tmp_path / "brief.toml").write_text(BRIEF % ("", room.over, ""))
    (tmp_path / "brain.py").write_text(room.script)
    async with local_machine(room.settings) as machine:
        swarm = hotdesk.swarm(tmp_path, script=tmp_path / "brain.py", machine=machine)
        outcomes = {record.item: record.outcome async for record in swarm}
    assert outcomes == {"line-000001": "done", "line-000002": "done"}
    assert swarm.receipt is not None
    assert swarm.receipt.outcome == "done"


async def test_a_failure_of_hotdesk_is_raised(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, ["one"])
    (tmp_path / "brief.toml").write_text(BRIEF % ("", 'over = "*.pdf"', ""))
    (tmp_path / "brain.py").write_text(room.script)
    async with local_machine(room.settings) as machine:
        with pytest.raises(BriefError, match="no items found"):
            async for _ in hotdesk.swarm(tmp_path, script=tmp_path / "brain.py", machine=machine):
                pass
    with pytest.raises(BriefError, match="no worker is configured"):
        hotdesk.swarm(tmp_path)
