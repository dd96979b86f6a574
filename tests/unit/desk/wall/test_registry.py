"""Walls by name: a machine that lacks one opens no desk instead of a weaker one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.config import WALLS, Config
from hotdesk.desk.owner.pool import kind_of
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.local.runtime import LocalRuntime
from hotdesk.desk.wall.registry import Walls
from hotdesk.errors import BriefError, HostError


@pytest.fixture
def walls(tmp_path: Path) -> Walls:
    return Walls(Config(run=tmp_path, lib=tmp_path, images=tmp_path))


def test_every_wall_has_a_name_that_briefs_know(walls: Walls) -> None:
    assert {*walls.by_name, LocalRuntime.name} <= {*WALLS}
    assert walls.find("container").traits.is_boundary
    assert not LocalRuntime.traits.is_boundary


@pytest.mark.parametrize("name", ["local", "gvisor", "microvm"])
def test_a_wall_that_is_not_set_up_is_never_replaced_by_another(walls: Walls, name: str) -> None:
    with pytest.raises(HostError, match=f"the wall {name} is not set up here; this machine has: container"):
        walls.find(name)


def test_a_wall_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BriefError, match="wall cannot be 'paper': it takes container, gvisor, microvm"):
        Spec(wall="paper")


def test_a_desk_kept_ready_behind_one_wall_is_not_given_to_who_asks_for_another() -> None:
    assert kind_of(Spec(), "digest", proven=False) != kind_of(Spec(wall="gvisor"), "digest", proven=False)
