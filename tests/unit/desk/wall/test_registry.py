"""Tests of walls by name: a machine that lacks one opens no desk instead of using a weaker one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hotdesk.config import WALLS, Config
from hotdesk.desk.owner.pool import make_kind
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.local.runtime import LocalRuntime
from hotdesk.desk.wall.program import ask_version
from hotdesk.desk.wall.registry import KINDS, WallKind, Walls, register, survey
from hotdesk.desk.wall.seam import Wall
from hotdesk.errors import BriefError, HostError
from hotdesk.walls import TRAITS, WallStatus


@pytest.fixture
def walls(tmp_path: Path) -> Walls:
    return Walls(Config(run=tmp_path, lib=tmp_path, images=tmp_path))


def test_every_wall_has_a_name_that_briefs_know(walls: Walls) -> None:
    assert {*KINDS, LocalRuntime.name} <= {*WALLS}
    assert walls.find("container").traits.is_boundary
    assert not LocalRuntime.traits.is_boundary


@pytest.fixture
def lacking() -> Iterator[str]:
    before = dict(KINDS)
    status = WallStatus("microvm", TRAITS["microvm"], "there is no KVM", "use a machine that has it")
    register(WallKind("microvm", make_none, lambda settings: status))
    yield "microvm"
    KINDS.clear()
    KINDS.update(before)


def make_none(settings: Config) -> Wall:
    """Fail: a wall that is not available is never created."""
    raise AssertionError


def test_a_wall_that_is_not_set_up_is_never_replaced_by_another(walls: Walls, lacking: str) -> None:
    with pytest.raises(
        HostError, match="not available here: there is no KVM; use a machine that has it; available walls"
    ):
        walls.find(lacking)
    with pytest.raises(
        HostError, match="the wall local is not available here: it isolates nothing and is for tests only"
    ):
        walls.find("local")
    assert not walls.by_name


def test_a_survey_has_every_wall_that_can_be_demanded(walls: Walls, lacking: str) -> None:
    found = survey(walls.settings)
    assert {*found.statuses} == {*WALLS[1:]}
    assert found.find(lacking).missing == "there is no KVM"
    assert found.find("container").version.startswith("crun ")


def test_a_machine_without_the_runtime_has_no_containers(tmp_path: Path) -> None:
    missing = Walls(Config(run=tmp_path, lib=tmp_path, images=tmp_path, runtime="no-such-runtime"))
    with pytest.raises(
        HostError, match="container is not available here: no-such-runtime is not installed; `hotdesk s"
    ):
        missing.find("container")


def test_the_description_of_a_desk_has_the_installed_program(walls: Walls) -> None:
    proof = walls.describe(walls.find("container"))
    assert (proof.wall, proof.kernel, proof.is_boundary) == ("container", "host", True)
    assert proof.version == f"crun {ask_version('crun')}"


def test_gvisor_without_its_program_is_refused_with_the_remedy(tmp_path: Path) -> None:
    settings = Config(run=tmp_path, lib=tmp_path, images=tmp_path, gvisor_program="/nowhere/runsc")
    with pytest.raises(HostError, match="/nowhere/runsc does not exist; `hotdesk setup --wall gvisor` sets it up"):
        Walls(settings).find("gvisor")


def test_a_runsc_that_is_too_old_is_refused_with_the_remedy(tmp_path: Path) -> None:
    program = tmp_path / "runsc"
    program.write_text("#!/bin/sh\necho runsc version 0.0~20221219.0\n")
    program.chmod(0o755)
    settings = Config(run=tmp_path, lib=tmp_path, images=tmp_path, gvisor_program=str(program))
    with pytest.raises(HostError, match="is release 20221219, but desks need 20240729 or newer"):
        Walls(settings).find("gvisor")


def test_every_wall_lists_its_capabilities(walls: Walls) -> None:
    assert {name: walls.find(name).traits for name in ("container",)}.items() <= TRAITS.items()
    assert LocalRuntime.traits == TRAITS["local"]


def test_a_wall_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BriefError, match="wall cannot be 'paper': use one of container, gvisor, microvm"):
        Spec(wall="paper")


def test_a_ready_desk_is_not_given_to_a_request_for_another_wall() -> None:
    assert make_kind(Spec(), "digest", proven=False) != make_kind(Spec(wall="gvisor"), "digest", proven=False)


@pytest.mark.parametrize("wall", ["container", "gvisor"])
def test_a_desk_kept_ready_with_other_memory_is_given_only_where_that_can_change(wall: str) -> None:
    small, large = (make_kind(Spec(wall=wall, memory=size << 30), "digest", proven=False) for size in (1, 2))
    assert (small == large) == TRAITS[wall].can_resize
