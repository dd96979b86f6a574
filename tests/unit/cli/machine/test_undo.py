"""Tests of `setup --undo`: it removes what set-up made, asks before it destroys data, and can be repeated."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
from pathlib import Path

import pytest

from hotdesk.cli.machine import setup, undo
from hotdesk.cli.machine.setup_record import SetupRecord, note_packages, read_record, write_record
from hotdesk.config import Config
from hotdesk.desk.image import store
from hotdesk.desk.image.image import Image
from hotdesk.errors import BriefError, HostError, ImageError
from hotdesk.linux import uids

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a state directory is root's")


@pytest.fixture
def settings(tmp_path: Path) -> Config:
    lib = tmp_path / "lib"
    found = Config(run=tmp_path / "run", lib=lib, images=lib / "images")
    publish(found)
    for name in ("viewer/novnc", "cache", "drive", "keys", "jobs/i1", "tenants/acme/drive", "tenants/acme/cache"):
        (lib / name).mkdir(parents=True)
    (lib / "pool.btrfs").write_bytes(b"")
    (found.run / "desks").mkdir(parents=True)
    return found


def publish(settings: Config) -> Image:
    layer = settings.images / "layers" / ("a" * 64)
    picture = Image("base", "a" * 64, (layer,), "/usr/bin/python3", os.uname().machine, 1.0, 0, "a test")
    with store.writing(settings.images, print) as (work, _):
        (work / "tree").mkdir()
        return store.publish(settings.images, picture, work / "tree")


def arguments(**chosen: bool) -> argparse.Namespace:
    return argparse.Namespace(**{"yes": False, "all": False, "packages": False, **chosen})


def run(settings: Config, **chosen: bool) -> dict[str, str]:
    """Undo a set-up; return the output by step."""
    steps = list(undo.undo(settings, arguments(**chosen), whole_machine=False))
    return {step.name: f"{'changed' if step.changed else 'same'}: {step.outcome}" for step in steps}


def paths_below(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*")}


def test_files_of_set_up_are_removed_and_peoples_data_stays(settings: Config) -> None:
    steps = run(settings)
    assert steps["images"].startswith("changed: removed")
    assert paths_below(settings.lib) == {
        "drive", "keys", "jobs", "jobs/i1", "tenants", "tenants/acme", "tenants/acme/drive",
    }  # fmt: skip
    assert not settings.run.exists()
    kept = steps["own files"]
    assert kept.startswith("same: kept: ")
    assert all(str(settings.lib / name) in kept for name in ("drive", "keys", "jobs", "tenants/acme/drive"))


def test_records_of_hibernated_desks_are_removed_with_their_disks(settings: Config) -> None:
    for name in ("hibernated", "tenants/acme/hibernated"):
        (settings.lib / name).mkdir()
        (settings.lib / name / "iabcdefghijklmnopqrst.json").write_text("{}")
    steps = run(settings)
    assert "lib/hibernated" not in steps["own files"]
    assert not list(settings.lib.rglob("hibernated"))


def test_with_all_nothing_is_left(settings: Config) -> None:
    run(settings, all=True)
    assert not settings.lib.exists()


def test_undoing_twice_changes_nothing(settings: Config) -> None:
    run(settings, all=True)
    assert all(outcome.startswith("same") for outcome in run(settings, all=True).values())


def test_images_outside_of_the_state_directory_are_kept(settings: Config, tmp_path: Path) -> None:
    shared = Config(run=settings.run, lib=tmp_path / "other", images=settings.images)
    assert "kept" in run(shared, all=True)["images"]
    assert (settings.images / "images/base.json").exists()


def test_images_in_use_by_a_desk_are_kept(settings: Config) -> None:
    fd = os.open(settings.images / "layers" / ("a" * 64), os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        with pytest.raises(ImageError, match="is in use"):
            run(settings)
    finally:
        os.close(fd)
    assert (settings.images / "images/base.json").exists()


def test_a_process_that_uses_the_state_directory_is_named(settings: Config) -> None:
    (settings.run / "control").mkdir()
    (settings.run / f"control/{os.getpid()}.sock").touch()
    with pytest.raises(HostError, match=f"is still in use by .* \\(process {os.getpid()}\\)"):
        undo.wait_for_owners(settings, 0.0)


@pytest.mark.parametrize(("chosen", "asks"), [({}, False), ({"all": True}, True), ({"all": True, "yes": True}, False)])
def test_peoples_data_is_destroyed_only_after_confirmation(
    settings: Config, chosen: dict[str, bool], asks: bool
) -> None:
    if asks:
        with pytest.raises(BriefError, match=r"destroys .*drive.*--yes"):
            undo.confirm(settings, arguments(**chosen))
    else:
        undo.confirm(settings, arguments(**chosen))


def test_open_desks_require_confirmation(settings: Config) -> None:
    desk = settings.run / "desks/iabcdefghijklmnopqrst"
    desk.mkdir()
    (desk / "desk.json").write_text(json.dumps({"id": desk.name, "opened": 1.0}))
    with pytest.raises(BriefError, match=r"burns 1 open desk: iabcdefghijklmnopqrst"):
        undo.confirm(settings, arguments())


def test_options_of_undo_are_refused_without_it() -> None:
    with pytest.raises(BriefError, match="only be used with --undo"):
        undo.require_undo(arguments(yes=True))


def test_packages_are_those_that_set_up_installed_and_stay_unless_named(settings: Config) -> None:
    assert undo.remove_packages(settings, remove=True).outcome == "none that set-up installed"
    note_packages(settings, ["crun"])
    note_packages(settings, ["mmdebstrap", "crun"])
    assert read_record(settings).packages == ("crun", "mmdebstrap")
    step = undo.remove_packages(settings, remove=False)
    assert (step.outcome, step.changed) == ("kept: crun, mmdebstrap; --packages removes them", False)


def test_packages_that_are_not_installed_do_not_stop_an_undo(settings: Config) -> None:
    note_packages(settings, ["no-such-package"])
    assert undo.remove_packages(settings, remove=True).outcome == "none removed"
    assert read_record(settings) == SetupRecord()


def test_packages_that_the_system_needs_stay() -> None:
    assert undo.list_protected(["dpkg", "crun", "no-such-package"]) == ["dpkg"]


def test_the_record_of_a_set_up_outlives_an_undo_that_keeps_packages(settings: Config) -> None:
    note_packages(settings, ["crun"])
    run(settings, all=True)
    assert read_record(settings) == SetupRecord(packages=("crun",))
    write_record(settings, SetupRecord())
    assert not (settings.lib / "setup.json").exists()


def test_user_ids_are_given_back_and_other_lines_stay(tmp_path: Path) -> None:
    files = (tmp_path / "subuid", tmp_path / "subgid")
    for file in files:
        file.write_text("anna:100000:65536\n")
    assert uids.reserve(files)
    assert uids.unreserve(files)
    assert [file.read_text() for file in files] == ["anna:100000:65536\n"] * 2
    assert not uids.unreserve(files)


def test_user_ids_that_desks_have_are_listed(tmp_path: Path) -> None:
    assert uids.list_claims(tmp_path / "none") == []
    (tmp_path / "7").symlink_to("/srv/run/desks/i1")
    (tmp_path / "next").symlink_to("8")
    assert uids.list_claims(tmp_path) == [Path("/srv/run/desks/i1")]


def test_the_command_is_linked_where_sudo_would_not_find_it_and_the_link_goes_again(
    settings: Config, tmp_path: Path
) -> None:
    command, link, claims = tmp_path / "venv/bin/hotdesk", tmp_path / "system/hotdesk", tmp_path / "claims"
    for each in (command, link):
        each.parent.mkdir(parents=True)
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    claims.mkdir()
    (claims / "7").symlink_to("/srv/run/desks/i1")
    assert setup.link_command(settings, link) is None, "a checkout has its own way"
    assert setup.link_command(settings, link, command, str(command.parent)) is None, "it is found already"
    step = setup.link_command(settings, link, command, str(link.parent))
    assert step is not None
    assert (step.changed, link.readlink()) == (True, command)
    assert setup.link_command(settings, link, command, str(link.parent)) is None
    steps = {step.name: step for step in undo.remove_shared(settings, claims)}
    assert steps["user ids"].outcome == "kept: desks of the state directories /srv/run use them"
    assert (steps["command"].changed, link.is_symlink(), read_record(settings)) == (True, False, SetupRecord())
    assert "account" not in steps
