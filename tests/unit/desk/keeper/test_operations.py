"""Tests that operations on an open desk depend on what its wall can do, never on the wall's name."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from hotdesk.desk.keeper import operations
from hotdesk.desk.keeper.tracked import TrackedDesk
from hotdesk.desk.request import KeeperRequest
from hotdesk.desk.seam import Spec, new_id
from hotdesk.desk.wall.container.wall import ContainerWall
from hotdesk.errors import BriefError

DESK = new_id()


def tracked(**fields: object) -> TrackedDesk:
    return cast(TrackedDesk, SimpleNamespace(room=SimpleNamespace(desk=DESK), **fields))


def test_a_takeover_is_refused_where_the_wall_cannot_stop_programs() -> None:
    wall = SimpleNamespace(name="another", traits=replace(ContainerWall.traits, can_stop_programs=False))
    with pytest.raises(BriefError, match=f"the wall another of desk {DESK} cannot stop single programs"):
        operations.suspend(tracked(wall=wall, suspended=False), KeeperRequest("suspend", DESK, suspended=True))


def test_a_desk_kept_ready_behind_another_wall_is_not_given_away() -> None:
    desk = tracked(spare=True, spec=Spec())
    with pytest.raises(BriefError, match="was prepared behind the wall container"):
        operations.claim(desk, KeeperRequest("claim", DESK, Spec(wall="gvisor")))
