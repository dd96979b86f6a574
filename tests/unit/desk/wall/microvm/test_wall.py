"""Tests of which template a machine starts from: only one that was made from everything it is made of."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.image import sterile
from hotdesk.desk.room.rootfs import MEMORY
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.container.filter_cache import Filters
from hotdesk.desk.wall.microvm import memory
from hotdesk.desk.wall.microvm.wall import MicrovmWall
from hotdesk.errors import KeeperError

LAYERS = ("a" * 64, "b" * 64)


class Machine:
    """The room of a desk behind `microvm`, and its wall."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "images"
        self.wall = MicrovmWall(Config(run=folder, lib=folder, images=self.store))
        self.wall.accelerator = "kvm"
        sterile.get_folder(self.store).mkdir(parents=True)
        for digest in LAYERS:
            sterile.get_copy_path(self.store, digest, "erofs").write_bytes(b"files")
        layers = tuple(self.store / digest for digest in LAYERS)
        self.guest = folder / "link/lib/hotdesk_guest"
        self.guest.mkdir(parents=True)
        (self.guest / "agent.py").write_text("guest")
        self.room = SimpleNamespace(
            folder=folder, guest="start.py", stage=SimpleNamespace(digest="vmm"), spec=Spec(memory=256 * MIB, cpus=1.0),
            image=SimpleNamespace(digest="base", python="/usr/bin/python3", layers=layers),
        )  # fmt: skip

    def find(self) -> Path:
        return self.wall.find_template(self.room)  # type: ignore[arg-type]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def remake_a_layer(machine: Machine) -> None:
    file = sterile.get_copy_path(machine.store, LAYERS[1], "erofs")
    file.rename(file.with_suffix(".old"))
    file.write_bytes(b"FILES")
    os.utime(file, ns=(1, 1))


def use_another_file_system(machine: Machine) -> None:
    file = sterile.get_copy_path(machine.store, LAYERS[1], "erofs")
    file.rename(sterile.get_copy_path(machine.store, LAYERS[1], "ext4"))


def swap_layers(machine: Machine) -> None:
    machine.room.image.layers = machine.room.image.layers[::-1]


def setting(name: str, value: object) -> Callable[[Machine], None]:
    def change(machine: Machine) -> None:
        *path, last = name.split(".")
        at: Any = machine
        for each in path:
            at = getattr(at, each)
        setattr(at, last, value)

    return change


WAKES = [
    "a layer made again", "another file system", "layers in another order", "memory", "an emulated machine",
    "its interpreter", "the emulator", "the supervisor",
]  # fmt: skip
"""Changes after which a machine with its memory is not loaded either."""


CHANGES = {
    "a layer made again": remake_a_layer,
    "another file system": use_another_file_system,
    "layers in another order": swap_layers,
    "memory": setting("room.spec", Spec(memory=512 * MIB, cpus=1.0)),
    "an emulated machine": setting("wall.accelerator", "tcg"),
    "the image": setting("room.image.digest", "another"),
    "its interpreter": setting("room.image.python", "/usr/bin/python3.12"),
    "the emulator": setting("room.stage.digest", "another"),
    "the guest's first file": setting("room.guest", "start.pyc"),
    "the guest": lambda machine: (machine.guest / "agent.py").write_text("another"),
    "the supervisor": setting("wall.sources", {"hotdesk_vmm/qemu.py": b"another"}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_machine_made_of_anything_else_has_another_template(
    machine: Machine, change: Callable[[Machine], object]
) -> None:
    before = machine.find()
    assert machine.find() == before
    change(machine)
    assert machine.find() != before


def test_desks_that_differ_otherwise_share_a_template(machine: Machine) -> None:
    before = machine.find()
    machine.room.spec = Spec(memory=256 * MIB, cpus=1.0, disk=999 * MIB, env={"A": "b"}, pids=7, root=True)
    assert machine.find() == before


@pytest.mark.parametrize("change", WAKES)
def test_a_machine_with_its_memory_is_loaded_only_where_it_would_be_the_same(machine: Machine, change: str) -> None:
    before = machine.wall.compute_machine_key(machine.room)  # type: ignore[arg-type]
    assert machine.wall.compute_machine_key(machine.room) == before  # type: ignore[arg-type]
    CHANGES[change](machine)
    assert machine.wall.compute_machine_key(machine.room) != before  # type: ignore[arg-type]


def test_a_wake_after_an_upgrade_is_refused_with_the_remedy(machine: Machine) -> None:
    folder = machine.room.folder / MEMORY
    folder.mkdir()
    (folder / memory.KEY).write_text(machine.wall.compute_machine_key(machine.room))  # type: ignore[arg-type]
    machine.room.layers = SimpleNamespace(layer=machine.room.folder)
    machine.wall.sources = {"hotdesk_vmm/qemu.py": b"another"}
    with pytest.raises(KeeperError, match=r"by another version of hotdesk .* burn it and open another"):
        memory.check(machine.room, machine.wall.compute_machine_key(machine.room))  # type: ignore[arg-type]


def test_an_emulator_never_gets_the_filter_that_was_compiled_for_a_container(tmp_path: Path) -> None:
    settings = Config(run=tmp_path, lib=tmp_path / "lib", images=tmp_path)
    compiled = tmp_path / "compiled"
    compiled.write_bytes(bytes(8))
    Filters(settings.lib / "cache", settings.runtime).keep(compiled)
    assert Filters(settings.lib / "cache", settings.runtime).compiled
    assert MicrovmWall(settings).filters.compiled is None
