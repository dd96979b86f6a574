"""Tests of where set-up gets the program of the gvisor wall."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.cli.machine import setup_wall
from hotdesk.config import Config
from hotdesk.desk.image.requirements import HostMachine
from hotdesk.desk.image.sources import PackageIndex
from hotdesk.errors import HostError

BOOKWORM = HostMachine("debian", "12", "bookworm", "Debian 12", "x86_64")
MIRROR = PackageIndex("http://mirror.test/debian/", "bookworm", "main", "", "Debian", "bookworm")
OLD = " runsc | 0.0~20221219.0-2+b3 | http://mirror.test/debian bookworm/main amd64 Packages\n"
BACKPORT = " runsc | 0.0~20240729.0-4~bpo12+2 | http://mirror.test/debian bookworm-backports/main amd64 Packages\n"
NEWER = " runsc | 0.0~20260112.0-1 | http://mirror.test/debian forky/main amd64 Packages\n"


@pytest.mark.parametrize(
    ("known", "version"),
    [
        ("", ""),
        (OLD, ""),
        (OLD + BACKPORT, "0.0~20240729.0-4~bpo12+2"),
        (BACKPORT + NEWER + OLD, "0.0~20260112.0-1"),
        ("N: Unable to locate package runsc\n", ""),
    ],
)
def test_the_newest_package_that_is_new_enough_is_chosen(known: str, version: str) -> None:
    assert setup_wall.choose_version(known) == version


def test_backports_come_from_the_mirrors_the_machine_has() -> None:
    others = [
        replace(MIRROR, release="bookworm-updates"),
        replace(MIRROR, component="contrib"),
        replace(MIRROR, origin="Other", uri="http://other.test/"),
    ]
    (line,) = setup_wall.list_backport_sources([MIRROR, *others], BOOKWORM)
    assert line.startswith("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ")
    assert line.endswith("http://mirror.test/debian/ bookworm-backports main")


@pytest.mark.parametrize(
    "machine", [BOOKWORM, replace(BOOKWORM, distro="ubuntu", codename="noble", name="Ubuntu 24.04")]
)
def test_without_a_source_the_remedy_is_reported(machine: HostMachine) -> None:
    targets = [] if machine is BOOKWORM else [MIRROR]
    with pytest.raises(HostError, match=r"has no package runsc.*\[wall.gvisor\]"):
        setup_wall.list_backport_sources(targets, machine)


def test_apts_own_lists_stay_as_they_are(tmp_path: Path) -> None:
    options = setup_wall.make_private_apt(tmp_path, ["deb http://mirror.test/ bookworm-backports main"])
    assert f"Dir::State::Lists={tmp_path}/lists" in options
    assert "Dir::Etc::SourceParts=/dev/null" in options
    assert (tmp_path / "sources.list").read_text() == "deb http://mirror.test/ bookworm-backports main\n"


def write_runsc(folder: Path, release: int) -> str:
    program = folder / "runsc"
    program.write_text(f"#!/bin/sh\necho runsc version release-{release}.0\n")
    program.chmod(0o755)
    return str(program)


def test_an_existing_program_is_left_unchanged(tmp_path: Path) -> None:
    program = write_runsc(tmp_path, 20260112)
    settings = Config(run=tmp_path, lib=tmp_path, images=tmp_path, gvisor_program=program)
    step = setup_wall.install_gvisor(settings, BOOKWORM)
    assert not step.changed
    assert "release 20260112, exists" in step.outcome


def test_a_program_of_the_operators_that_is_too_old_is_not_replaced(tmp_path: Path) -> None:
    program = write_runsc(tmp_path, 20230101)
    settings = Config(run=tmp_path, lib=tmp_path, images=tmp_path, gvisor_program=program)
    with pytest.raises(HostError, match="older than 20240729; correct the setting"):
        setup_wall.install_gvisor(settings, BOOKWORM)
