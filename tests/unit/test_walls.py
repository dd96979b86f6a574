"""Tests of walls as data: their strength, the choice between them, and messages about a missing one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from hotdesk.desk.wall.microvm import status
from hotdesk.errors import BriefError
from hotdesk.walls import NAMES, NOMINAL_CATALOG, TRAITS, WallCatalog, WallProof, WallStatus, read_proof

EMULATED = replace(TRAITS["microvm"], is_boundary=False)
"""A machine of its own, under an emulator that its makers do not call a boundary."""


def catalog(*available: str, **own: WallStatus) -> WallCatalog:
    there = {name: WallStatus(name, TRAITS[name]) for name in available}
    return WallCatalog({**there, **own})


@pytest.mark.parametrize(
    ("traits", "strength"),
    [
        (TRAITS["local"], 0),
        (TRAITS["container"], 1),
        (TRAITS["gvisor"], 2),
        (TRAITS["microvm"], 3),
        (EMULATED, 1),
        (replace(TRAITS["gvisor"], is_boundary=False), 1),
    ],
    ids=["none", "host kernel", "sentry", "own kernel", "emulated", "a sentry nobody calls a boundary"],
)
def test_strength_follows_from_what_a_wall_is(traits: object, strength: int) -> None:
    assert traits.strength == strength  # type: ignore[attr-defined]


def test_every_wall_that_can_be_named_has_traits() -> None:
    assert {*TRAITS} == {*NAMES}


def test_a_desk_kept_ready_gets_enough_shares_to_start_beside_busy_processors() -> None:
    assert {name: traits.min_share for name, traits in TRAITS.items() if traits.min_share < 64} == {}


@pytest.mark.parametrize(
    ("required", "chosen"),
    [
        (("container", "gvisor"), "gvisor"),
        (("gvisor", "container"), "gvisor"),
        (("microvm", "gvisor", "container"), "microvm"),
        (("", "container", ""), "container"),
        ((), ""),
    ],
)
def test_the_strongest_required_wall_applies_no_matter_who_requires_it(required: tuple[str, ...], chosen: str) -> None:
    assert NOMINAL_CATALOG.choose(*required) == chosen


def test_walls_are_compared_by_what_they_are_here_and_not_by_name() -> None:
    here = catalog("container", "gvisor", microvm=WallStatus("microvm", EMULATED))
    assert here.choose("gvisor", "microvm") == "gvisor"
    assert not here.is_weaker("container", "microvm")
    assert here.choose("container", "microvm") == "microvm"  # equally strong: who is asked last has it
    assert here.list_available() == ("container", "microvm", "gvisor")
    assert here.list_available("gvisor") == ("gvisor",)
    assert here.find_strongest() == "gvisor"


def test_a_missing_wall_is_refused_with_the_remedy_and_never_replaced() -> None:
    here = catalog(
        "container", gvisor=WallStatus("gvisor", TRAITS["gvisor"], "runsc is of 2022", "install a newer one")
    )
    with pytest.raises(
        BriefError,
        match="gvisor is not available here: runsc is of 2022; install a newer one; hotdesk does not fall back",
    ):
        here.require("gvisor")
    with pytest.raises(BriefError, match="microvm is not available here: it is not set up"):
        here.require("microvm")
    assert here.choose("container", "gvisor") == "gvisor"
    assert (here.find_strongest(), here.list_available()) == ("container", ("container",))
    with pytest.raises(BriefError, match="unknown wall 'paper'; the walls are container, gvisor, microvm"):
        here.require("paper")


def test_a_proof_is_written_for_people() -> None:
    proof = WallProof("gvisor", "sentry", True, "runsc 20240729", "kvm")
    assert proof.describe() == "gvisor (runsc 20240729, kvm; its own kernel in user space)"
    assert WallProof("microvm", "own", False).describe() == "microvm (its own kernel, but not an isolation boundary)"


def test_what_was_proven_is_read_from_a_desks_record() -> None:
    proof = {"wall": "gvisor", "kernel": "sentry", "is_boundary": True, "version": "runsc 1", "platform": "kvm"}
    assert read_proof({"wall": "container", "proof": proof}).wall == "gvisor"
    assert read_proof({"wall": "container"}) == WallProof("container", "", is_boundary=False)


@pytest.mark.parametrize(
    ("exists", "flags", "flaw"),
    [
        (False, {"vmx"}, "does not exist"),
        (True, {"fpu", "hypervisor"}, "offers no virtualization"),
        (True, {"fpu", "vmx"}, ""),
        (True, {"fpu", "svm"}, ""),
    ],
)
def test_kvm_without_the_processors_virtualization_is_not_used(
    exists: bool, flags: set[str], flaw: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(status, "KVM", str(tmp_path if exists else tmp_path / "kvm"))
    monkeypatch.setattr(status, "_read_processor_flags", lambda: flags)
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(machine="x86_64"))
    found = status.find_kvm_flaw.__wrapped__()
    assert flaw in found if flaw else found == ""
