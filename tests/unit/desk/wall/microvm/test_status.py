"""Tests of whether a machine can run virtual machines, and how strong a wall they count as."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.brief.data import CLOSED, Scope
from hotdesk.config import Config
from hotdesk.desk.image import image
from hotdesk.desk.image.image import Image
from hotdesk.desk.owner.pool import list_claimable, make_kind
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.microvm import status
from hotdesk.walls import TRAITS


@pytest.fixture
def settings(tmp_path: Path) -> Config:
    return Config(run=tmp_path, lib=tmp_path, images=tmp_path, microvm_emulate=True)


def make_image(store: Path, versions: str) -> None:
    layer = store / "layers" / ("a" * 64)
    note = layer / status.VERSIONS.lstrip("/")
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(versions)
    (store / "images").mkdir(exist_ok=True)
    made = Image("vmm", "d", (layer,), "/usr/bin/python3", "aarch64", 1.0, 1, "recipe on base")
    image.get_record_path(store, "vmm").write_bytes(image.dump(made))


def test_a_machine_without_the_image_is_told_how_to_get_it(settings: Config) -> None:
    found = status.look(settings)
    assert (found.missing, "hotdesk setup --wall microvm" in found.remedy) == ("the image vmm does not exist", True)


def test_an_emulator_that_is_too_old_is_refused(settings: Config) -> None:
    for versions in ('{"qemu": "9.2.4"}', "{}", "no JSON", "[]", '{"qemu": "10"}'):
        make_image(settings.images, versions)
        assert "the image vmm has QEMU" in status.look(settings).missing


def test_emulation_ranks_with_a_container_and_says_so(settings: Config) -> None:
    make_image(settings.images, json.dumps({"qemu": "10.0.13", "kernel": "6.12"}))
    found = status.look(settings)
    assert found.is_available
    assert found.version == "QEMU 10.0.13, Linux 6.12"
    if found.platform == status.EMULATED:
        assert found.traits.strength == TRAITS["container"].strength
        assert "emulated; its own kernel, but not an isolation boundary" in found.prove().describe()
    assert status.describe_traits("kvm").strength > TRAITS["gvisor"].strength


def test_ready_machines_are_given_only_for_matching_requests() -> None:
    spec, scope = Spec(wall="microvm"), replace(CLOSED, names={"a.test": "127.0.0.1:1"})
    assert isinstance(scope, Scope)
    assert list_claimable(spec, CLOSED) == (False,)
    assert list_claimable(spec, scope) == (True,)
    assert list_claimable(replace(spec, root=True), CLOSED) == ()
    assert list_claimable(Spec(), scope) == (True, False)
    assert make_kind(spec, "i", False) != make_kind(replace(spec, disk=spec.disk // 2), "i", False)
